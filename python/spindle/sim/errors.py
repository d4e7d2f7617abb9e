"""The errors of a simulated world."""

import os
import sys


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
    """Return the line of the program that runs: the innermost that is neither Python's nor Spindle's."""
    frame = sys._getframe(1)
    innermost = None
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<") and not name.startswith(_LIBRARIES):
            return f"{name}:{frame.f_lineno}"
        if innermost is None and not name.startswith(_OWN):
            innermost = f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return innermost or "an unknown line"


_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = (_OWN, os.path.dirname(os.__file__) + os.sep)
