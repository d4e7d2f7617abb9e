"""The server in a process that a supervisor has started; workers.py says how the two talk."""

import asyncio
import os
import signal

from .serving import Server

CONTROL = "SPINDLE_WORKER_CONTROL"  # a worker's descriptors, and its slot


class WorkerServer(Server):
    """The server in a worker: it obeys the supervisor."""

    # A terminal sends SIGINT to workers too; the supervisor passes it on as SIGTERM.
    stop_signals = (signal.SIGTERM,)

    def __init__(self, config, commands, status):
        super().__init__(config)
        self.commands = commands
        self.status = status

    async def _starting(self):
        os.set_blocking(self.commands, False)
        asyncio.get_running_loop().add_reader(self.commands, self._command)

    def _announce(self, sockets):
        """Log nothing: the supervisor has logged the address."""

    async def _started(self):
        self._say(b"ready\n")

    async def _end(self, sockets):
        if self.config.fd is not None:
            os.close(self.config.fd)  # the sockets are copies of it
        await super()._end(sockets)

    def stop(self):
        super().stop()
        self._say(b"stopping\n")

    def _say(self, text):
        try:
            os.write(self.status, text)
        except OSError:
            pass  # the supervisor is gone; the end of its commands stops the worker

    def _command(self):
        text = os.read(self.commands, 1000)
        if not text:  # the supervisor is gone
            asyncio.get_running_loop().remove_reader(self.commands)
            self._orphaned = True
            self.stop()
            return
        if b"answer" in text:
            self._say(b"here\n")
        if b"retire" in text:
            self._retire()
        for _ in range(text.count(b"stop")):  # as a signal would, which only the main interpreter has
            self.stop()

    def _retire(self):
        """Stop, as the only reason to: a signal that follows is the first, and does not force the end."""
        self._stop.set()

    def _limit_reached(self):
        self._say(b"leaving\n")
        self._retire()


def worker_of(config, environment):
    """Return the server of a worker, None if this process is none."""
    text = environment.pop(CONTROL, None)
    if text is None:
        return None
    listener, commands, status, tally, slot = (int(part) for part in text.split(","))
    for fd in (listener, commands, status, tally):
        os.set_inheritable(fd, False)
    config.tally = (tally, slot)
    # Not SIG_IGN, which the app's own processes would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    config.fd = listener
    config.workers, config.reload = 1, False
    return WorkerServer(config, commands, status)
