"""What a world replaces of the process while it runs: sockets, clocks, random numbers, and errors for the rest.

Clocks and os.urandom are replaced in C, below Python; see docs/design/029-python-worlds.md.
"""

import _thread
import asyncio
import contextvars
import gc
import os
import random
import signal
import socket
import sys
import threading
import time
import uuid
import warnings
import weakref

from .. import _core
from . import sock as simulated
from .current import current
from .errors import Blocked, NotSimulated, SimError, users_line

_INSTEAD = {
    "socket": "use asyncio's functions, or socket.socket under this name",
    "subprocess": "start a program on another host instead",
    "os": "start a program on another host instead",
    "_thread": "use tasks or asyncio.to_thread, which runs in the world",
    "os.kill": "a world has no signals: crash the host, or cancel the task",
    "open": "a world has no files to write to: a crash would not lose them; keep the data in memory",
    "sqlite3": "a world has no files to write to: use ':memory:'",
}
_CHANGES = {"os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.link", "os.symlink", "os.truncate"}  # of files


def _refuse(event, args):
    """Called by the audit hook in C, for a use of the real system on the thread of a world."""
    world = current.world
    if world is None or world._closing_down:
        return
    if event == "open":
        mode, flags = (args[1], args[2]) if len(args) > 2 else (None, 0)
        writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(flags & (os.O_WRONLY | os.O_RDWR))
        if not writes or args[0] in ("/dev/null", os.devnull):
            return
    if event == "sqlite3.connect/handle" or event == "sqlite3.connect" and args[0] == ":memory:":
        return
    if current.process() < 0:
        return  # a check or a callback of the test itself
    kind = "open" if event in _CHANGES else event.split(".")[0]
    what = {"socket": "a real socket", "_thread": "a thread", "subprocess": "a subprocess",
            "sqlite3": "a database in a file"}.get(kind, event)
    if kind == "open":
        what = f"changing the file {args[0]!r}" if event in _CHANGES else f"opening the file {args[0]!r} for writing"
    instead = _INSTEAD.get(event) or _INSTEAD.get(kind, "a world does not have it")
    raise world._refused(NotSimulated(f"{what} ({event}) on host {current.host_name()!r}, at {users_line()}; {instead}"))


def _refuse_here(original, what, instead):
    """Return a function that raises on the thread of the world, and is the original in others."""

    def refuse(*args, **kwargs):
        if current.is_elsewhere():
            return original(*args, **kwargs)
        kind = Blocked if original is _SLEEP else NotSimulated
        raise current.world._refused(kind(f"{what} on host {current.host_name()!r}, at {users_line()}; {instead}"))

    return refuse


_SLEEP = time.sleep
_no_thread = _refuse_here(_thread.start_new_thread, "a thread", _INSTEAD["_thread"])


#: Signals that ask a program to stop. Servers install handlers for them; in a world they never come.
STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_SIGNAL = signal.signal
_no_signal = _refuse_here(_SIGNAL, "a signal handler", "a world has no signals")


def _signal(number, handler):
    if number in STOP_SIGNALS and not current.is_elsewhere():
        return signal.SIG_DFL  # no effect: the world has no signals
    return _no_signal(number, handler)


def _simulate_threads_of_anyio():
    """Have anyio.to_thread, which Starlette uses, run its work in the world. AnyIO has threads of its own."""
    from anyio._backends._asyncio import AsyncIOBackend

    original = AsyncIOBackend.run_sync_in_worker_thread

    async def run_sync_in_worker_thread(func, args, *more, **options):
        if current.world is None or current.is_elsewhere():
            return await original(func, args, *more, **options)
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(None, context.run, func, *args)

    AsyncIOBackend.run_sync_in_worker_thread = staticmethod(run_sync_in_worker_thread)


def _refuse_grpc():
    """Make servers and channels of grpc.aio an error: a thread of its C library would do their work, and the run would hang."""
    from grpc.aio import _channel, _server

    def refusing(original):
        def begin(self, *args, **kwargs):
            if current.world is None or current.is_elsewhere():
                return original(self, *args, **kwargs)
            raise current.world._refused(NotSimulated(
                f"grpc.aio does its input and output outside of the world, in threads of its own, on host {current.host_name()!r}, "
                f"at {users_line()}; call the servicer directly, or over another protocol"))

        return begin

    for kind in (_channel.Channel, _server.Server):
        kind.__init__ = refusing(kind.__init__)
        kind.__del__ = _without_error(getattr(kind, "__del__", None))


def _without_error(original):
    """Return a __del__ for objects that may not have been made: their __init__ was refused."""

    def delete(self):
        if original is not None and self.__dict__:
            original(self)

    return delete


#: Libraries that are changed once, when the first world runs after they were imported.
_LIBRARIES = {"anyio": _simulate_threads_of_anyio, "grpc.aio": _refuse_grpc}


def _change_libraries():
    for name in [name for name in _LIBRARIES if name in sys.modules]:
        _LIBRARIES.pop(name)()


class _Slept(Blocked):
    """Raised by C, when a program has slept below Python's functions."""

    def __init__(self):
        super().__init__(
            f"host {current.host_name()!r} has blocked its thread, near {users_line()}: it slept, waited for a lock with a time-out, or "
            "waited for the clock in a loop; no time passes while a program runs: use asyncio.sleep")
        if current.world is not None:
            current.world._refused(self)


def _warn_unawaited(coro):
    if current.world is not None:
        current.world._never_awaited(coro)


_PATCHES = [
    (socket, "socket", simulated.Socket),
    (socket, "SocketType", simulated.Socket),
    (socket, "getaddrinfo", simulated.getaddrinfo),
    (socket, "gethostbyname", simulated.gethostbyname),
    (socket, "gethostname", simulated.gethostname),
    (socket, "getfqdn", simulated.getfqdn),
    (socket, "getnameinfo", simulated.getnameinfo),
    (socket, "socketpair", simulated.socketpair),
    (time, "sleep", _refuse_here(_SLEEP, "time.sleep", "it would stop every task of the world: use asyncio.sleep")),
    (signal, "signal", _signal),
    (signal, "set_wakeup_fd", _refuse_here(signal.set_wakeup_fd, "a signal handler", "a world has no signals")),
    *((signal, name, _refuse_here(getattr(signal, name), f"signal.{name}", "a world has no signals"))
      for name in ("alarm", "setitimer", "raise_signal", "pthread_kill")),
    (uuid, "_generate_time_safe", None),  # of a C library, with a state of its own
    (uuid, "_last_timestamp", None),
    (uuid, "_node", 0x020000000001),  # the address of a network card
    (_thread, "start_new_thread", _no_thread),  # Python 3.11 does not report threads to audit hooks
    (threading, "_start_new_thread", _no_thread),
    (sys, "dont_write_bytecode", True),
    (warnings, "_warn_unawaited_coroutine", _warn_unawaited),
]
if sys.version_info >= (3, 13):
    _no_joinable = _refuse_here(_thread.start_joinable_thread, "a thread", _INSTEAD["_thread"])
    _PATCHES += [(_thread, "start_joinable_thread", _no_joinable), (threading, "_start_joinable_thread", _no_joinable)]
_installed = False


def hash_is_pinned():
    """Report whether hashes of strings are the same in each process."""
    pinned = os.environ.get("PYTHONHASHSEED", "random")
    return not sys.flags.hash_randomization or pinned.isdigit()


class _Sources:
    """The objects of random.Random that libraries have made: aiohttp has one, for example."""

    def __init__(self):
        self._modules, self._found = 0, ()

    def all(self):
        """Return them. It looks for new ones when modules were imported, because that takes long."""
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            self._found = [weakref.ref(o) for o in gc.get_objects() if type(o) is random.Random]
        return [source for source in (ref() for ref in self._found) if source is not None]


_sources = _Sources()


class _Collector:
    """Stops Python's collector while a world runs, and between two runs of a world that is sure to be closed.

    The moment of a collection does not follow from the seed, and a collection closes sockets and ends tasks.
    """

    def __init__(self):
        self._stopped = False

    def stop(self):
        if gc.isenabled():
            gc.disable()
            self._stopped = True

    def go_on(self):
        if self._stopped:
            gc.enable()
            self._stopped = False


_collector = _Collector()


class System:
    """The replacements of one world. Use it as a context manager, any number of times, one after the other."""

    def __init__(self, world):
        self._world = world
        self._random = {}  # the states of random sources, between runs, by their identity
        self._numbers = (world.seed * 0x9E3779B97F4A7C15 + 1) & (2**64 - 1), 0  # the states of os.urandom and of tasks

    def __enter__(self):
        global _installed
        if current.world is not None:
            raise SimError("a world runs in this process already")
        if not hash_is_pinned():
            raise SimError(
                "the order of sets of strings differs in each process, so that a seed would not give the same run; "
                "set PYTHONHASHSEED=0 in the environment of Python")
        if not _installed:
            _core.world_refuse_by(_refuse)
            _installed = True
        _change_libraries()
        self._saved = [(module, name, getattr(module, name, None)) for module, name, _ in _PATCHES]
        for module, name, value in _PATCHES:
            setattr(module, name, value)
        self._outside = [(source, source.getstate()) for source in _sources.all()]
        for source, _ in self._outside:
            state = self._random.get(id(source))
            if state is None:
                source.seed(self._world.seed)
            else:
                source.setstate(state)
        self._hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=_first_iteration, finalizer=_finalizer)
        _collector.stop()
        current.world, current.thread = self._world, threading.get_ident()
        _core.world_enter(*self._numbers, self._world._now_ns, self._world._wall_ns, _Slept)

    def __exit__(self, *failure):
        self._numbers = _core.world_leave()
        current.world = current.thread = None
        if self._world._closed or not self._world._will_close:
            _collector.go_on()
        sys.set_asyncgen_hooks(*self._hooks)
        for source, state in self._outside:
            self._random[id(source)] = source.getstate()
            source.setstate(state)
        self._outside = ()
        for module, name, value in self._saved:
            setattr(module, name, value)


def _running():
    process = current.process()
    return None if process < 0 else current.world._core.loops[process]


def _first_iteration(generator):
    loop = _running()
    if loop is not None:
        loop._asyncgen_firstiter_hook(generator)


def _finalizer(generator):
    loop = _running()
    if loop is not None:
        loop._asyncgen_finalizer_hook(generator)
