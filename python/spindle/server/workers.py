"""Runs several processes that serve the same socket, and replaces those that end.

The supervisor is a Python process that neither imports the app nor starts Go: it can
outlive every mistake of the app, and needs nothing but the standard library. It binds the
socket; workers inherit it, so that connections wait in one queue and none is lost while workers
change. Each worker has a pair of pipes to the supervisor: it says "ready" when it accepts
connections, "leaving" when it stops by itself and "stopping" when it has handled a signal, is told
to "retire" or to "answer", which it does with "here", and stops when the supervisor is gone.
"""

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import sys
import time

from .lifespan import CANCEL_WAIT
from .reloading import Watcher
from .serving import bind, check_files, describe
from .tallies import Tallies
from .worker import CONTROL

logger = logging.getLogger("spindle.server")

# Seconds before a worker that fails is started again: first, and at most. One that was ready for longer than
# the latter is replaced at once.
BACKOFF = (0.1, 5.0)


class Worker:
    """A process that serves."""

    def __init__(self, command, environment, sock, tallies):
        self.tallies, self.slot = tallies, tallies.take()
        self.ready = False
        self.leaving = False
        self.terminated = False  # a SIGTERM was sent; a second one makes it end at once
        self.stopping = False  # it has handled a SIGTERM
        self.ask_at = self.asked_at = float("inf")  # when it is to be asked, and was asked without an answer yet
        with contextlib.ExitStack() as of_worker, contextlib.ExitStack() as undo:
            undo.callback(tallies.give_back, self.slot)
            to_worker, self.commands = os.pipe()
            of_worker.callback(os.close, to_worker)
            undo.callback(os.close, self.commands)
            self.status, from_worker = os.pipe()
            of_worker.callback(os.close, from_worker)
            undo.callback(os.close, self.status)
            os.set_blocking(self.status, False)
            inherited = [sock.fileno(), to_worker, from_worker, tallies.file.fileno()]
            environment = {**os.environ, **environment, CONTROL: ",".join(map(str, [*inherited, self.slot]))}
            self.process = subprocess.Popen(command, pass_fds=inherited, env=environment)
            undo.pop_all()

    def tell(self, command):
        try:
            os.write(self.commands, command.encode() + b"\n")
        except OSError:
            pass  # it has ended

    def terminate(self):
        self.leaving = self.terminated = True
        self.process.send_signal(signal.SIGTERM)

    def close(self):
        os.close(self.commands)
        os.close(self.status)
        self.tallies.give_back(self.slot)


class Supervisor:
    """Keeps workers running. run returns an exit code."""

    def __init__(self, config, arguments=None):
        self.config = config
        self.command = [sys.executable, "-m", "spindle"] + (list(arguments) if arguments is not None else command_line(config))
        # Not among the arguments, which other users can see.
        self.environment = {"SPINDLE_SSL_KEYFILE_PASSWORD": config.ssl_keyfile_password} if config.ssl_keyfile_password else {}
        self.sock = None  # while run does
        self.workers = []
        self.wanted = config.workers
        self.delay = BACKOFF[0]
        self.start_at = 0.0
        self.stopping = False
        self.kill_at = float("inf")  # when workers that block their loop, and so handle no signal, are killed
        self.reload_wanted = False
        self.failed_starts = 0

    def run(self):
        check_files(self.config)
        self.sock = bind(self.config)
        self.sock.set_inheritable(True)
        self.tallies = Tallies()
        self.selector = selectors.DefaultSelector()
        read, write = os.pipe()
        os.set_blocking(write, False)
        os.set_blocking(read, False)
        self.selector.register(read, selectors.EVENT_READ, None)
        old_fd = signal.set_wakeup_fd(write)
        old = {number: signal.signal(number, lambda *_: None)
               for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU)}
        try:
            logger.info("spindle: supervisor %d, serving on %s (stop with Ctrl+C)", os.getpid(), describe(self.config, self.sock))
            return self._supervise(read)
        finally:
            for worker in self.workers:
                worker.process.kill()
                worker.process.wait()
            signal.set_wakeup_fd(old_fd)
            for number, handler in old.items():
                signal.signal(number, handler)
            self.selector.close()
            os.close(read)
            os.close(write)
            self.sock.close()
            self.tallies.file.close()
            if self.config.uds:
                try:
                    os.unlink(self.config.uds)
                except OSError:
                    pass

    def _supervise(self, signals):
        watcher = Watcher(self.config) if self.config.reload else None
        while True:
            self._reap()
            if self.stopping and not self.workers:
                return 0
            if self.failed_starts and not self.workers and not self.config.reload and self.failed_starts >= 3 * self.wanted:
                logger.error("spindle: no worker can start; giving up")
                return 1
            self._replace()
            self._check_memory()
            self._check_health()
            self._kill_blocked()
            for key, _ in self.selector.select(self._pause_of_checks(watcher)):
                if key.fd == signals:
                    self._take_signals(os.read(signals, 4096))
                else:
                    self._heard(key.data, os.read(key.fd, 100))
            if watcher and (changed := watcher.changed()) and not self.stopping:
                logger.warning("spindle: %s changed; starting again", changed)
                self._reload()

    def _pause_of_checks(self, watcher):
        often = watcher or self.config.limit_memory or time.monotonic() < self.start_at
        return min([0.25 if often else 1, *(limit / 4 for limit in [self.config.timeout_worker_healthcheck] if limit)])

    def _serving(self):
        return [w for w in self.workers if not w.leaving]

    def _take_signals(self, numbers):
        for number in numbers:
            if number in (signal.SIGINT, signal.SIGTERM):
                again = self.stopping
                self.stopping = True
                if self.sock is not None:
                    self.sock.close()  # or new connections would wait until the last request has ended
                patience = 0 if again else self.config.timeout_graceful_shutdown
                if patience is not None:
                    self.kill_at = min(self.kill_at, time.monotonic() + patience + CANCEL_WAIT)
                for worker in self.workers:
                    if not worker.terminated or again:
                        worker.terminate()
            elif number == signal.SIGHUP and not self.stopping:
                logger.info("spindle: replacing the workers")
                self._reload()
            elif number == signal.SIGTTIN:
                self.wanted += 1
            elif number == signal.SIGTTOU and self.wanted > 1:
                self.wanted -= 1
                newest = self._serving()[-1:]
                for worker in newest:
                    self._retire(worker)

    def _reload(self):
        """Start new workers. The old ones retire when all of the new ones are ready."""
        self.delay, self.start_at = BACKOFF[0], 0.0
        for worker in self._serving():
            worker.old = True
        self.reload_wanted = True
        self._start(self.wanted)

    def _heard(self, worker, text):
        worker.asked_at = float("inf")
        if b"ready" in text:
            self._became_ready(worker)
        if b"leaving" in text:  # its place is free, however long its last requests take
            worker.leaving = True
        if b"stopping" in text:
            worker.stopping = True
        if not text:
            self._forget(worker)

    def _became_ready(self, worker):
        worker.ready, worker.ready_at, worker.ask_at = True, time.monotonic(), 0
        self.failed_starts = 0
        logger.info("spindle: worker %d is ready", worker.process.pid)
        new = [w for w in self._serving() if not getattr(w, "old", False)]
        if self.reload_wanted and sum(w.ready for w in new) >= self.wanted:
            self.reload_wanted = False
            for old in [w for w in self._serving() if getattr(w, "old", False)]:
                self._retire(old)

    def _retire(self, worker):
        worker.leaving = True
        worker.tell("retire")

    def _forget(self, worker):
        """Stop reading from a worker that says nothing more."""
        try:
            self.selector.unregister(worker.status)
        except KeyError:
            pass

    def _start(self, count):
        """Start workers. If the system cannot start one, the others have to wait, as after a crash."""
        for _ in range(count):
            try:
                worker = Worker(self.command, self.environment, self.sock, self.tallies)
            except OSError as e:
                logger.error("spindle: cannot start a worker: %s", e)
                self.failed_starts += 1
                self._pause()
                return
            worker.old = False
            self.workers.append(worker)
            self.selector.register(worker.status, selectors.EVENT_READ, worker)

    def _replace(self):
        """Start workers for those that are missing."""
        if self.stopping or time.monotonic() < self.start_at:
            return
        missing = self.wanted - len([w for w in self._serving() if not w.old or not self.reload_wanted])
        self._start(missing)

    def _hear_last(self, worker):
        """Read what a worker that has ended said before."""
        try:
            while text := os.read(worker.status, 100):
                self._heard(worker, text)
        except BlockingIOError:
            pass  # a process that it has started holds the pipe

    def _reap(self):
        failed = False
        for worker in list(self.workers):
            code = worker.process.poll()
            if code is None:
                continue
            self._hear_last(worker)
            self.workers.remove(worker)
            self._forget(worker)
            worker.close()
            if worker.leaving or self.stopping:
                continue
            how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
            logger.error("spindle: worker %d %s", worker.process.pid, how)
            if worker.old:
                continue
            if not worker.ready:
                self.failed_starts += 1
                if self.reload_wanted and any(w.old for w in self._serving()):
                    logger.error("spindle: the new workers cannot start; the old ones go on")
                    self.reload_wanted = False
                    for other in self._serving():
                        if other.old:
                            other.old = False
                        else:
                            other.terminate()
                    continue
            if worker.ready and time.monotonic() - worker.ready_at > BACKOFF[1]:
                continue  # replaced at once
            if self.config.reload and not worker.ready and not self._serving():
                logger.error("spindle: waiting for a change")
                self.start_at = float("inf")
                continue
            failed = True
        if failed:
            self._pause()

    def _pause(self):
        """Start no worker for a while, and for longer each time, unless the last time is long ago."""
        now = time.monotonic()
        if now > self.start_at + BACKOFF[1]:
            self.delay = BACKOFF[0]
        self.start_at = now + self.delay
        self.delay = min(self.delay * 2, BACKOFF[1])

    def _kill_blocked(self):
        """Kill workers that were to cancel their requests, but have not even handled the signal."""
        if time.monotonic() < self.kill_at:
            return
        for worker in self.workers:
            if not worker.stopping:
                logger.error("spindle: worker %d blocks its loop; killing it", worker.process.pid)
                worker.process.kill()
        self.kill_at = float("inf")

    def _check_health(self):
        """Kill workers that have not answered for too long. They are replaced like others that end."""
        limit, now = self.config.timeout_worker_healthcheck, time.monotonic()
        for worker in self._serving() if limit else []:
            if now - worker.asked_at > limit:
                logger.error("spindle: worker %d has blocked its loop for %g seconds; killing it", worker.process.pid, limit)
                worker.process.kill()
                worker.asked_at = worker.ask_at = float("inf")
            elif now >= worker.ask_at:
                worker.tell("answer")
                worker.asked_at, worker.ask_at = min(worker.asked_at, now), now + limit / 4

    def _check_memory(self):
        limit = self.config.limit_memory
        for worker in self._serving() if limit else []:
            try:
                with open(f"/proc/{worker.process.pid}/statm") as f:
                    held = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
            except (OSError, IndexError):
                continue
            if worker.ready and held > limit:
                logger.warning("spindle: worker %d holds %d MB; replacing it", worker.process.pid, held)
                self._retire(worker)


def command_line(config):
    """Return the arguments that make a configuration."""
    from dataclasses import fields

    arguments = [config.app]
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name in ("app", "workers", "interpreters", "fd", "uds", "host", "port", "timeout_worker_healthcheck", "ssl_keyfile_password") or value is None \
                or field.name.startswith("reload"):
            continue
        option = "--" + field.name.replace("_", "-")
        if field.name in ("headers", "static"):
            separator, option = (":", "--header") if field.name == "headers" else ("=", "--static")
            for key, item in value:
                arguments += [option, f"{key}{separator}{item}"]
        elif field.name == "factory":
            arguments += [option] if value else []
        elif isinstance(value, bool):
            arguments.append(option if value else "--no-" + option[2:])
        else:
            arguments += [option, str(value)]
    return arguments
