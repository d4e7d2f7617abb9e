"""Python's asyncio on the Spindle event loop.

    import spindle

    async def main():
        ...

    spindle.run(main())

spindle.run is asyncio.run on a Spindle loop. Where a program makes its loop itself:

    with asyncio.Runner(loop_factory=spindle.new_event_loop) as runner:
        runner.run(main())

The loop is a drop-in replacement for asyncio's and uvloop's.
"""

import sys as _sys
import warnings as _warnings

from ._version import __version__
from .mode import ExecutionMode, detect_mode, why_no_loops as _why_no_loops

_no_loops = _why_no_loops()
if _no_loops is None:
    import asyncio as _asyncio  # before _asyncio, which would find a part of it only

    from .inspector import inspect
    from .loop import Loop
    from .scopes import CancelScope, Nursery, fail_after, move_on_after, move_on_at
    from .tree import tree
else:  # not even asyncio is imported: in a subinterpreter of Python 3.12 its end would end the process
    from .refused import Loop

__all__ = [
    "CancelScope", "EventLoopPolicy", "ExecutionMode", "GoError", "Loop", "Nursery", "async_call", "call", "detect_mode",
    "fail_after", "inspect", "install", "move_on_after", "move_on_at", "new_event_loop", "run", "send", "stream",
    "traceparent", "tree",
]

# Imported when they are first used. Policies are deprecated from Python 3.14 on: only a program that uses one is warned.
_LATER = {**dict.fromkeys(("GoError", "async_call", "call", "send", "stream", "traceparent"), "host"), "EventLoopPolicy": "policy", "Worker": "gunicorn"}


def new_event_loop() -> Loop:
    """Return a new loop. It is a loop_factory for asyncio.Runner."""
    return Loop()


def run(main, *, debug=None):
    """Run a coroutine on a new loop and return its result, as asyncio.run does."""
    if _no_loops is not None:
        raise RuntimeError(_no_loops)
    from .runner import run

    return run(main, debug, new_event_loop, "spindle.run")


def install() -> None:
    """Make Spindle's the loops that asyncio makes by itself.

    Python 3.14 deprecates event loop policies, and 3.16 removes them. Use spindle.run, or asyncio.Runner
    with loop_factory=spindle.new_event_loop, where the program makes its loop itself.
    """
    if _no_loops is not None:
        raise RuntimeError(_no_loops)
    if _sys.version_info >= (3, 12):
        _warnings.warn(
            "spindle.install is deprecated with asyncio's policies; use spindle.run, or asyncio.run or asyncio.Runner "
            "with loop_factory=spindle.new_event_loop", DeprecationWarning, stacklevel=2)
    from .policy import EventLoopPolicy

    with _warnings.catch_warnings():
        _warnings.simplefilter("ignore", DeprecationWarning)
        _asyncio.set_event_loop_policy(EventLoopPolicy())


def __getattr__(name):
    if _no_loops is not None and name in __all__:
        raise RuntimeError(_no_loops)
    if name not in _LATER:
        raise AttributeError(f"module 'spindle' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"spindle.{_LATER[name]}"), name)
