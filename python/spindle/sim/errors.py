"""The errors of a simulated world."""

import os
import sys
import traceback


class SimError(RuntimeError):
    """An error of the simulation."""


class NotSimulated(SimError):
    """A program has used something that a world does not have: a thread, a subprocess, a real socket."""


class Blocked(NotSimulated):
    """A program has blocked its thread, with time.sleep or by a loop that waits for the clock."""

    def __init__(self, text="a program has blocked its thread; no time passes while it runs: use asyncio.sleep"):
        super().__init__(text)


class Deadlock(SimError):
    """Every task waits, and nothing can wake one."""


class Standstill(SimError):
    """A task runs again and again without waiting for anything, so that no time passes."""


class TimedOut(SimError):
    """A condition was not met in time."""


class Diverges(SimError):
    """Two runs with the same seed differ: the program depends on something else."""


def users_line():
    """Return the line of the program that runs: the innermost that is neither Python's, Spindle's nor of an installed package.

    If there is none, it is the innermost of an installed package, or of Python. Work of to_thread without a line of its own
    has the one that has called to_thread.
    """
    return _users_line(_inside(traceback.walk_stack(sys._getframe(1))))


def _inside(places):
    """Yield the places of a program, and not those of the test that runs its world."""
    for frame, number in places:
        if frame.f_code in OUTERMOST:
            return
        yield frame, number


OUTERMOST = set()  # code of the functions that run a world


def line_of(error):
    """Return the line of the program that has raised an error, by the same rules."""
    return _users_line(reversed(list(traceback.walk_tb(error.__traceback__))))


def _users_line(places):
    best, line = 0, "an unknown line"
    for frame, number in places:
        name = frame.f_code.co_filename
        if (rank := _rank(name)) > best:
            best, line = rank, f"{name}:{number}"
        if rank == 0 and (begun_at := frame.f_locals.get("begun_at")):
            line, best = begun_at, 3
        if best == 3:
            break
    return line


def _rank(name):
    if name.startswith(("<", _OWN)):
        return 0
    if name.startswith(_PYTHON) and "site-packages" not in name:
        return 1
    return 2 if _INSTALLED in name or _DEBIAN in name else 3


_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PYTHON = os.path.dirname(os.__file__) + os.sep
_INSTALLED, _DEBIAN = (f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
