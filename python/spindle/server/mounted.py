"""A worker of a Go program that mounts the app. See the Go package pyapp.

The worker serves HTTP on a Unix socket. Its standard input and output carry frames. It says that it
is ready, or why it cannot start; then come calls, cancellations of calls, and operations. When its
input ends, the Go program is gone, and the worker stops. Another socket carries connections that the Go
program has accepted; each comes before the frame of its call.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import struct
import sys

from .. import host
from . import calls
from .calls import Calls
from .cli import read_config
from .errors import StartError
from .frames import Frames, frame, short, texts
from .importing import AppError
from .interpreters import InterpretersServer
from .logs import set_up_logging
from .mount import Mounted, adapt
from .serving import Server

CALL_BYTES = "SPINDLE_MOUNTED_CALL_BYTES"  # the largest result of a call
CALL_THREADS = "SPINDLE_MOUNTED_CALL_THREADS"  # threads for functions that are not coroutines


def main():
    control = Control()
    config = read_config(control.arguments(sys.argv[1:]), os.environ)
    # The environment and pyproject.toml may have options for a server of its own.
    config.fd = config.ssl_certfile = config.ssl_keyfile = config.ssl_keyfile_password = None
    config.ssl_ca_certs = config.ssl_cert_reqs = config.ssl_version = config.ssl_ciphers = None
    adapt(config)
    set_up_logging(config.log_level)
    errors = Errors()
    logging.getLogger("spindle.server").addHandler(errors)
    if config.app == "-":
        config.app, config.lifespan = no_app, "off"
    server = (MountedServer if config.interpreters == 1 else MountedInterpretersServer)(config, control)
    try:
        code = server.run()
    except (AppError, StartError) as e:
        control.fail(e.reason, str(e))
        return 1
    if server.failure is not None:
        control.fail(*server.failure)
        return 1
    if not server.started and not server._orphaned:
        control.fail("lifespan", "\n".join(errors.texts))
    control.finish()
    return code


async def no_app(scope, receive, send):
    """The app of a worker that only serves calls."""
    raise RuntimeError("spindle: there is no app")


class Errors(logging.Handler):
    """Collects what is logged while the app starts."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.texts = []

    def emit(self, record):
        if len(self.texts) < 10:
            self.texts.append(self.format(record))


DESCRIPTORS = 3  # the number of the socket that descriptors come from
NUMBER = struct.Struct(">Q")  # of a call, which comes with its descriptor
CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Control:
    """The pipes and the socket to the Go program. What the app prints goes to standard error."""

    def __init__(self):
        self.frames = None  # while the loop runs
        try:
            os.set_inheritable(DESCRIPTORS, False)
            self.descriptors = socket.socket(fileno=DESCRIPTORS)
        except OSError as e:
            self.output = 1
            self.fail("exited", f"descriptor {DESCRIPTORS}: {e.strerror}; a script that is App.Python must pass it on")
            sys.exit(1)
        self.descriptors.setblocking(False)
        self.input, self.output = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)

    def arguments(self, given):
        """Return the arguments with "-" for an app that is not named."""
        return given if given and not given[0].startswith("-") else ["-", *given]

    def send(self, header, body=b""):
        if self.frames is not None:
            self.frames.send(header, body)
            return
        data = frame(header, body)
        while data:  # before the loop runs
            data = data[os.write(self.output, data):]

    def send_from_thread(self, header, body):
        frames = self.frames
        if frames is not None:  # the loop runs
            frames.send_from_thread(header, body)

    def descriptor(self, call):
        """Return the descriptor for a call, which has come already."""
        while True:
            number, found, *_ = socket.recv_fds(self.descriptors, NUMBER.size, 1, CLOSE_ON_EXEC)
            for descriptor in found:
                os.set_inheritable(descriptor, False)  # on systems without the flag
            if NUMBER.unpack(number) == (call,):
                break
            for descriptor in found:  # of an earlier call, which has failed before it took it
                os.close(descriptor)
        if not found:  # the system has closed it
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return found[0]

    def finish(self):
        """Write what is left when the loop does not run any more."""
        if self.frames is not None:
            frames, self.frames = self.frames, None
            with contextlib.suppress(OSError):  # the Go program is gone
                frames.finish()

    def fail(self, reason, text):
        self.finish()
        self.send(short("failure", headers=texts("reason", reason)), text.removeprefix("spindle: ").encode())


class MountedServer(Mounted, Server):
    """The server of a worker."""

    stop_signals = (signal.SIGTERM,)
    failure = None  # why it does not serve, though the app has started

    def __init__(self, config, control):
        super().__init__(config)
        self.control = control
        self.calls = Calls(control.send, control.send_from_thread, int(os.environ.get(CALL_BYTES, 16 << 20)))
        calls.threads = int(os.environ.get(CALL_THREADS, calls.threads))

    def run(self, sockets=None):
        try:
            return super().run(sockets)
        finally:
            if self._orphaned:  # the last worker removes the directory of the sockets
                try:
                    os.rmdir(os.path.dirname(self.config.uds))
                except OSError:
                    pass

    async def _starting(self):
        loop = asyncio.get_running_loop()
        self.control.frames = Frames(loop, self.control.input, self.control.output, self._command, self._orphan)
        host._host = host.Host(loop, self.control.send)

    async def _started(self):
        self.control.send(short("reply"))

    def _event(self, name):
        if name == "max_requests":
            self.control.send(short("item", headers=texts("op", "leave")))  # another worker takes over first
        else:
            super()._event(name)

    def _orphan(self):
        """End, because the Go program is gone."""
        self._orphaned = True
        self.stop()
        self._cancel()
        host._host.end()

    def _command(self, header, body):
        operation = header["headers"].get("op") if "headers" in header else None
        if operation is not None:
            self._operate(operation, header, body)
        elif header["kind"] == "request":
            self.calls.start(header, body)
        elif header["kind"] == "cancel":
            self.calls.cancel(header["id"])
        elif header["kind"] == "credit":
            self.calls.credit(header["id"], header["seq"])
        else:
            host._host.receive(header, body)

    def _operate(self, operation, header, body):
        if operation == "ping":
            self.control.send(short("item", headers=texts("op", "ping")))
        elif operation == "blob":
            self.calls.blob(header["id"], body)
        elif operation == "connection":
            self.calls.serve(header, body, self.control.descriptor)
        elif operation == "stop":
            self.stop()
        elif operation == "cancel":
            self.stop()
            self._cancel()

    def _cancel(self):
        """End the requests and calls that run."""
        self._signals = max(2, self._signals)  # as two signals do
        self._cancelling = True
        for number in self.calls.numbers():
            self.calls.cancel(number)


class MountedInterpretersServer(InterpretersServer, MountedServer):
    """The server of a worker with several interpreters. Calls and connections of the Go program are for the main one."""

    remedy = "use App.Workers in place of App.Interpreters"
    mounted = True

    def _all_started(self):
        self.control.send(short("reply"))

    def _ended(self, other):
        if not self.complete and not self._signals:
            self.failure = other.failure
        super()._ended(other)
