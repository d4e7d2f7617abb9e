"""Reports how the interpreter shares its lock."""

import enum
import sys


class ExecutionMode(enum.Enum):
    """How the threads and interpreters of the process share the interpreter's lock."""

    FREE_THREADED = "free_threaded"  # there is no lock; loops cannot be made there
    SUBINTERP = "subinterp"  # in a subinterpreter; loops can be made from Python 3.13 on
    SHARED_GIL = "shared_gil"  # one lock: what Python usually has


def detect_mode() -> ExecutionMode:
    """Return how the calling interpreter is run."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return ExecutionMode.FREE_THREADED
    if not in_main_interpreter():
        return ExecutionMode.SUBINTERP
    return ExecutionMode.SHARED_GIL


def why_no_loops() -> str | None:
    """Return why this interpreter can have no loop, None if it can."""
    if "t" in sys.abiflags:
        return ("spindle: loops in free-threaded builds of Python are not supported: they were never tested there; "
                "use a build with the GIL")
    if sys.version_info < (3, 13) and not in_main_interpreter():
        return ("spindle: loops in subinterpreters need Python 3.13 or later: asyncio of this version shares objects "
                "between interpreters; make the loop in the main interpreter, or in another process")
    return None


def in_main_interpreter() -> bool:
    """Report whether the calling interpreter is the one that the process began with."""
    try:
        import _interpreters as interpreters  # from Python 3.13 on
    except ImportError:
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:  # a Python that cannot make others
            return True
    return interpreters.get_current() == interpreters.get_main()
