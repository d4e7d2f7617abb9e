"""select.select and select.poll of a simulated host, for looks at its sockets that do not wait.

HTTP clients look in this way whether a connection that they have kept is still open.
"""

import errno
import os
import select as real

from .current import current
from .refuse import refusal
from .sock import READY

_READ, _WRITE, _FAILED = 1, 2, 8  # internal/kernel
_WAITS = "it would wait for the real system, not for the world: use asyncio's functions"


def _ready(descriptor, interest):
    number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
    return number, current.world._core.call(current.process(), READY, number, interest)


def select(readable, writable, failed, timeout=None):
    """select.select of a simulated host."""
    if timeout is None or timeout > 0:
        raise refusal("select.select", _WAITS)

    def chosen(descriptors, interest):
        found = []
        for descriptor in descriptors:
            number, ready = _ready(descriptor, interest)
            if ready < 0:
                raise OSError(errno.EBADF, f"{os.strerror(errno.EBADF)}: {number} is no socket of host {current.host_name()!r}")
            if ready & interest:
                found.append(descriptor)
        return found

    return chosen(readable, _READ), chosen(writable, _WRITE), []


class Poll:
    """select.poll of a simulated host."""

    def __init__(self):
        self._wanted = {}

    def register(self, descriptor, eventmask=real.POLLIN | real.POLLPRI | real.POLLOUT):
        self._wanted[descriptor if isinstance(descriptor, int) else descriptor.fileno()] = eventmask

    def modify(self, descriptor, eventmask):
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        if number not in self._wanted:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._wanted[number] = eventmask

    def unregister(self, descriptor):
        del self._wanted[descriptor if isinstance(descriptor, int) else descriptor.fileno()]

    def poll(self, timeout=None):
        if timeout is None or timeout != 0:
            raise refusal("select.poll", _WAITS)
        found = []
        for number, wanted in self._wanted.items():
            events = _events(number) & (wanted | real.POLLHUP | real.POLLERR | real.POLLNVAL)
            if events:
                found.append((number, events))
        return found


def _events(number):
    (_, to_read), (_, to_write) = _ready(number, _READ), _ready(number, _WRITE)
    if to_read < 0:
        return real.POLLNVAL
    ended = to_read & _WRITE  # in both directions: it is reported for any interest
    return ((to_read & _READ and real.POLLIN) | (to_write & _WRITE and real.POLLOUT) | (ended and real.POLLHUP)
            | (to_read & _FAILED and real.POLLERR))
