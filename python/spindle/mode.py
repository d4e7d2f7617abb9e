"""Reports how the interpreter shares its lock."""

import enum
import sys


class ExecutionMode(enum.Enum):
    """How the threads and interpreters of the process share the interpreter's lock."""

    FREE_THREADED = "free_threaded"  # there is no lock; Spindle refuses to be built or imported there
    SUBINTERP = "subinterp"  # in a subinterpreter; Spindle refuses to be imported there
    SHARED_GIL = "shared_gil"  # one lock: what Python usually has


def detect_mode() -> ExecutionMode:
    """Return how the calling interpreter is run."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return ExecutionMode.FREE_THREADED
    if not _in_main_interpreter():
        return ExecutionMode.SUBINTERP
    return ExecutionMode.SHARED_GIL


def _in_main_interpreter():
    try:
        import _interpreters as interpreters  # from Python 3.13 on
    except ImportError:
        import _xxsubinterpreters as interpreters
    return interpreters.get_current() == interpreters.get_main()
