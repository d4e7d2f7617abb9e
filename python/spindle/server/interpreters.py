"""Serves with several interpreters in one process, each with its own GIL, on one socket.

The main interpreter serves as usual, and handles signals. It runs each of the others in a thread, and talks to them by
pipes, as a supervisor does to its workers (workers.py). There is one difference: an interpreter that ends is not replaced,
because CPython keeps most of its memory. Instead the others shut down, and the process ends.

The main interpreter imports the app first. CPython 3.13 needs that: datetime, for example, crashes the process if two
subinterpreters import it and the main one has not imported it before.
"""

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import sys
import threading

from .errors import StartError
from .serving import Server, bind, check_files
from .tallies import Tallies

logger = logging.getLogger("spindle.server")


class Interpreter:
    """An interpreter that serves, in a thread."""

    exit_code = 1  # unless it reports another
    failure = "exited", "an interpreter has ended; standard error may have the reason"  # the reason why it has not started, and a text

    def __init__(self, options, listener, tally, mounted, remedy):
        its_commands, self._commands = os.pipe()
        self.status, its_status = os.pipe()
        self._begun = b""  # an incomplete line
        arguments = options, os.dup(listener), its_commands, its_status, tally, mounted, remedy
        code = (f"import sys\nsys.path[:] = {sys.path!r}\nsys.argv[:] = {sys.argv!r}\n"
                f"from spindle.server.interpreter import serve_here\nserve_here{arguments!r}")
        self._thread = threading.Thread(target=_run, args=(code, its_status), name="interpreter")
        self._thread.start()

    def hear(self, text):
        """Take what it has written. Return the words that are for the server."""
        *lines, self._begun = (self._begun + text).split(b"\n")
        words = []
        for line in lines:
            word, _, rest = line.partition(b" ")
            if word == b"exit":
                self.exit_code = int(rest)
            elif word == b"failed":  # its text may have any words
                self.failure = tuple(json.loads(rest))
            else:
                words.append(word)
        return words

    def tell(self, command):
        with contextlib.suppress(OSError):  # it has ended
            os.write(self._commands, command)

    def join(self):
        self._thread.join()
        os.close(self._commands)
        os.close(self.status)


def _run(code, status):
    import _interpreters

    try:
        interpreter = _interpreters.create("isolated")
        if failed := _interpreters.run_string(interpreter, code):
            print(getattr(failed, "errdisplay", None) or failed.formatted, file=sys.stderr)
        _interpreters.destroy(interpreter)
    finally:
        os.close(status)


class InterpretersServer(Server):
    """The server in the main interpreter, which starts the others."""

    remedy = "use --workers N, which starts processes, in place of --interpreters N"
    mounted = False  # in a worker of a Go program

    def __init__(self, config, *args):
        super().__init__(config, *args)
        self.others = []
        self.complete = False  # all have started
        self._idle = None  # an event that is set while none of the others runs
        self._listener = None  # of the others, which each have a copy

    def run(self):
        """Serve until SIGINT or SIGTERM. Return the exit code."""
        if sys.version_info < (3, 13):
            raise StartError(f"spindle: several interpreters need CPython 3.13 or later; {self.remedy}", "interpreters")
        if not isinstance(self.config.app, str):
            raise StartError('spindle: with interpreters, name the app: "module:attribute"', "interpreters")
        check_files(self.config)
        if self._load()[1] == "wsgi":
            raise StartError(f"spindle: the threads of WSGI apps cannot be started in a subinterpreter; {self.remedy}", "interpreters")
        listener = bind(self.config)
        self._listener, self._tallies = os.dup(listener.fileno()), Tallies()
        self.config.tally = self._tallies.file.fileno(), self._tallies.take()
        try:
            return super().run([listener])
        finally:
            self._tell(b"stop\n" * 2)
            for other in self.others:
                other.join()
            self._close_listener()
            self._tallies.file.close()

    async def _started(self):
        self._idle = asyncio.Event()
        self._start_next()

    def _all_started(self):
        """Called when all interpreters accept connections."""

    def _start_next(self):
        """Start the others one by one: the imports of one do not run beside those of the next."""
        if self._signals:
            return
        if len(self.others) == self.config.interpreters - 1:
            self.complete = True
            self._all_started()
            return
        options = dataclasses.asdict(self.config) | {"interpreters": 1, "uds": None, "fd": None}
        if self.mounted:
            options["limit_max_requests"] = None  # the Go program replaces the process when the main interpreter has reached it
        other = Interpreter(options, self._listener, (self.config.tally[0], self._tallies.take()), self.mounted, self.remedy)
        self.others.append(other)
        self._idle.clear()
        asyncio.get_running_loop().add_reader(other.status, self._hear, other)

    def _hear(self, other):
        text = os.read(other.status, 4096)
        words = other.hear(text)
        if b"ready" in words:
            logger.info("spindle: %d of %d interpreters are ready", 1 + len(self.others), self.config.interpreters)
            self._start_next()
        if b"leaving" in words and not self._signals:
            self.stop()
        if not text:
            self._ended(other)

    def _ended(self, other):
        asyncio.get_running_loop().remove_reader(other.status)
        self.others.remove(other)
        other.join()
        self.exit_code = self.exit_code or other.exit_code
        if not self._signals:
            logger.error("spindle: an interpreter has ended; stopping the others")
            self.stop()
        if not self.others:
            self._idle.set()

    def stop(self):
        super().stop()
        self._close_listener()
        self._tell(b"stop\n")

    def _tell(self, command):
        for other in self.others:
            other.tell(command)

    def _close_listener(self):
        if self._listener is not None:
            os.close(self._listener)
            self._listener = None

    async def _end(self, sockets):
        await super()._end(sockets)
        if self.others:
            await self._idle.wait()
