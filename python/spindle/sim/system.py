"""What a world replaces of the process while it runs: sockets, clocks, random numbers, and errors for the rest.

Clocks and os.urandom are replaced in C, below Python; see docs/design/029-python-worlds.md.
"""

import asyncio
import contextlib
import contextvars
import gc
import os
import random
import select
import socket
import sys
import tempfile
import threading
import uuid
import warnings
import weakref

from .. import _core
from . import poll, refuse
from . import sock as simulated
from .current import current
from .errors import SimError
from .loop import NUMBERING


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
            raise refuse.refusal("grpc.aio does its input and output outside of the world, in threads of its own,",
                                 "call the servicer directly, or over another protocol")

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


_GETPID = os.getpid


def _getpid():
    """os.getpid of a simulated host: the number of its process in the world."""
    process = -1 if current.is_elsewhere() else current.process()
    return _GETPID() if process < 0 else 1000 + process


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
    (select, "select", refuse.in_programs(select.select, poll.select)),
    (select, "poll", refuse.in_programs(select.poll, poll.Poll)),
    (uuid, "_generate_time_safe", None),  # of a C library, with a state of its own
    (uuid, "_last_timestamp", None),
    (uuid, "_node", 0x020000000001),  # the address of a network card
    (sys, "dont_write_bytecode", True),
    (tempfile, "_name_sequence", None),  # its numbers would go on in the next world
    (warnings, "_warn_unawaited_coroutine", _warn_unawaited),
    (os, "getpid", _getpid),
    *refuse.REFUSED,
]


def _by_module(patches):
    found = {}
    for module, name, value in patches:
        found.setdefault(module, {})[name] = value
    return [(vars(module), values) for module, values in found.items()]


_REPLACED = _by_module(_PATCHES) + NUMBERING  # names of modules and their values in a world
_installed = False


def hash_is_pinned():
    """Report whether hashes of strings are the same in each process."""
    pinned = os.environ.get("PYTHONHASHSEED", "random").isdigit() and not sys.flags.ignore_environment
    return pinned or not sys.flags.hash_randomization


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
        mixed = world.seed * 0x9E3779B97F4A7C15
        self._numbers = (mixed + 1) & (2**64 - 1), (mixed + 2**63) & (2**64 - 1), 0  # states: of os.urandom, of C libraries, of tasks

    def __enter__(self):
        global _installed
        if current.world is not None:
            raise SimError("a world runs in this process already")
        if threading.current_thread() is not threading.main_thread():
            raise SimError("a world runs in the main thread only: a program that blocks another one could not be interrupted")
        if not hash_is_pinned():
            raise SimError(
                "the order of sets of strings differs in each process, so that a seed would not give the same run; "
                "set PYTHONHASHSEED=0 in the environment of Python")
        if not _installed:
            with contextlib.suppress(OSError):
                tempfile.gettempdir()  # which tries to write, the first time
            _core.world_refuse_by(refuse.audited)
            _installed = True
        _change_libraries()
        self._saved = [(names, {name: names.get(name) for name in values}) for names, values in _REPLACED]
        self._saved.append((vars(sys), {"stdin": sys.stdin}))
        for names, values in _REPLACED:
            names.update(values)
        sys.stdin = refuse.keyboard()
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
        _core.world_enter(*self._numbers, self._world._now_ns, self._world._wall_ns, refuse.Waited)

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
        for names, values in self._saved:
            names.update(values)


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
