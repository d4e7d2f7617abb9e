"""What a world does not have: each use of it is an error that names the line, and fails the run even if it is caught.

Python reports most uses to audit hooks. Functions that it does not report are replaced while a world runs.
"""

import _thread
import os
import select
import signal
import socket
import stat
import sys
import threading
import time

from .current import current
from .errors import Blocked, NotSimulated, line_of, users_line

_NO_FILES = "a world has no files to write to: a crash would not lose them; keep the data in memory"
_NO_SIGNALS = "a world has no signals: crash the host, or cancel the task"
_SHARED = "all hosts of a world are in one process, which it would change"
_OTHER_HOST = "start a program on another host instead"

_INSTEAD = {
    "socket": "use asyncio's functions, or socket.socket under this name",
    "subprocess": _OTHER_HOST,
    "os": _OTHER_HOST,
    "_thread": "use tasks or asyncio.to_thread, which runs in the world",
    "os.kill": _NO_SIGNALS,
    "os.killpg": _NO_SIGNALS,
    "os.chdir": _SHARED,
    "resource": _SHARED,
    "open": _NO_FILES,
    "builtins": "nothing happens in a world while a program waits for the keyboard: pass the text as an argument",
    "sqlite3": "a world has no files to write to: use ':memory:'",
}
_CHANGES = {  # of files
    "os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.utime",
    "os.setxattr", "os.removexattr", "os.chflags", "os.lockf", "fcntl.flock", "fcntl.lockf"}
_WHAT = {"socket": "a real socket", "_thread": "a thread", "subprocess": "a subprocess", "sqlite3": "a database in a file",
         "builtins": "reading from the keyboard"}
_HARMLESS = {os.devnull, "/dev/zero"}


def refusal(what, instead, kind=NotSimulated):
    """Return the error of the program that runs, to be raised. The run fails with it."""
    error = kind(f"{what} on host {current.host_name()!r}, at {users_line()}; {instead}")
    return error if current.world is None else current.world._refused(error)


def audited(event, args):
    """Called by the audit hook in C, for a use of the real system on the thread of a world."""
    if current.is_tests_own():
        return
    kind = event.split(".")[0]
    if event == "open":
        what, instead = _opened(*args)
    elif event in _CHANGES:
        what, instead = f"changing the file {args[0]!r}", _NO_FILES
    elif event.startswith("sqlite3.connect/") or event == "sqlite3.connect" and args[0] == ":memory:":
        return
    elif kind == "builtins" and _runs("pdb"):
        return
    else:
        what, instead = _WHAT.get(kind, event), _INSTEAD.get(event) or _INSTEAD.get(kind, "a world does not have it")
    if what:
        raise refusal(what if what == event else f"{what} ({event})", instead)


def _opened(path, mode=None, flags=0):
    """Return what is wrong with opening a file, and what to do instead. Ordinary files may be read."""
    if isinstance(path, int) or path in _HARMLESS:
        return None, None  # a number is that of a file that is open
    if any(c in mode for c in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return f"opening the file {path!r} for writing", _NO_FILES
    try:
        found = os.stat(path).st_mode
    except (OSError, ValueError):
        found = 0  # the caller's error
    if stat.S_ISCHR(found):
        return f"reading the device {path!r}", "what it gives does not follow from the seed: use os.urandom, or pass the data as an argument"
    return (f"reading the pipe {path!r}", _NO_PIPES) if stat.S_ISFIFO(found) else (None, None)


def _runs(*modules):
    """Report whether a function of one of the modules, or of their submodules, runs."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] not in modules:
        frame = frame.f_back
    return frame is not None


def in_programs(original, refuse):
    """Return a function that calls refuse in programs of a world, and the original otherwise."""

    def call(*args, **kwargs):
        if current.is_elsewhere() or current.is_tests_own() and original is not _SLEEP:
            return original(*args, **kwargs)
        return refuse(*args, **kwargs)

    return call


def _refused(module, name, instead, what=None, kind=NotSimulated):
    original, what = getattr(module, name), what or f"{module.__name__.lstrip('_')}.{name}"

    def refuse(*args, **kwargs):
        if name == "pipe" and _runs("subprocess", "multiprocessing"):
            raise refusal("a subprocess", _OTHER_HOST)
        raise refusal(what, instead, kind)

    return module, name, in_programs(original, refuse)


#: Signals that ask a program to stop. Servers install handlers for them; in a world they never come.
STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})


def _signal(number, handler):
    if number in STOP_SIGNALS:
        return signal.SIG_DFL  # no effect: the world has no signals
    raise refusal("a signal handler", _NO_SIGNALS)


class _Keyboard:
    """sys.stdin while a world runs."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        value = getattr(self._real, name)
        if current.is_tests_own() or _runs("pdb"):
            return value
        if name in _READS:
            return _refuse_keyboard
        return _Keyboard(value) if name in ("buffer", "raw") else value

    def __iter__(self):
        return self.__getattr__("__iter__")()


_READS = {"read", "read1", "readall", "readinto", "readinto1", "readline", "readlines", "peek", "detach", "__iter__", "__next__"}


def _refuse_keyboard(*args):
    raise refusal("reading from the keyboard (sys.stdin)", _INSTEAD["builtins"])


def keyboard():
    """Return what sys.stdin is while a world runs."""
    return None if sys.stdin is None else _Keyboard(sys.stdin)


_SLEEP = time.sleep
_NO_PIPES = "a world has no pipes: use an asyncio.Queue between tasks, and a connection between hosts"
_NO_POLLING = "it would wait for the real system, not for the world: use asyncio's functions"


def _refuse_epoll(*args, **kwargs):
    raise refusal("select.epoll", _NO_POLLING)


class _Epoll:
    """select.epoll while a world runs: a type, as before."""

    _make = staticmethod(in_programs(getattr(select, "epoll", None), _refuse_epoll))

    def __new__(cls, *args, **kwargs):
        return cls._make(*args, **kwargs)


_FUNCTIONS = [
    (os, _NO_PIPES, ("pipe", "pipe2", "eventfd", "openpty", "memfd_create")),
    (os, _NO_FILES, ("mkfifo", "mknod", "sync")),
    (os, _SHARED, ("fchdir", "chroot", "umask", "nice", "setpriority", "setuid", "seteuid", "setgid", "setegid", "setsid", "setpgid")),
    (os, "it would end the test: return from the program, or crash the host", ("_exit", "abort")),
    (signal, _NO_SIGNALS, ("set_wakeup_fd", "alarm", "setitimer", "raise_signal", "pthread_kill", "pause", "sigwait", "sigwaitinfo",
                           "sigtimedwait", "siginterrupt", "pthread_sigmask")),
    (socket, "make a socket in the program, under the name socket.socket", ("fromfd",)),
    (_thread, _INSTEAD["_thread"], ("start_new_thread", "start_joinable_thread")),  # 3.11 does not report threads to audit hooks
    (threading, _INSTEAD["_thread"], ("_start_new_thread", "_start_joinable_thread")),
]
REFUSED = [
    _refused(time, "sleep", "it would stop every task of the world: use asyncio.sleep", kind=Blocked),
    (signal, "signal", in_programs(signal.signal, _signal)),
    *([(select, "epoll", _Epoll)] if hasattr(select, "epoll") else []),
    *(_refused(module, name, instead, "a thread" if "thread" in module.__name__ else None)
      for module, instead, names in _FUNCTIONS for name in names if hasattr(module, name)),
]


class Waited(Blocked):
    """Raised by C, when a program has waited for the system below Python's functions."""

    def __init__(self):
        super().__init__()
        self._host, self._near = current.host_name(), users_line()
        if current.world is not None:
            current.world._refused(self)

    def __str__(self):
        line = self._near if self.__traceback__ is None else line_of(self)  # Python makes the exception later than it raises it
        return (f"host {self._host!r} has blocked its thread, at {line}: it slept, waited for a lock or a queue of threads, "
                "for descriptors, or for the clock in a loop; no time passes and no other program runs meanwhile: use asyncio's functions")
