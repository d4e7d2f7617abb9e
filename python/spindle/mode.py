"""Reports how the calling code is being run."""

import asyncio
import enum


class ExecutionMode(enum.Enum):
    """How the calling code is being run."""

    SYNC = "sync"  # no loop is running in this thread
    ASYNCIO = "asyncio"  # on a loop of asyncio or of another package
    SPINDLE = "spindle"  # on a Spindle loop


def detect_mode() -> ExecutionMode:
    """Return how the calling code is being run."""
    from .loop import Loop

    loop = asyncio._get_running_loop()
    if loop is None:
        return ExecutionMode.SYNC
    return ExecutionMode.SPINDLE if isinstance(loop, Loop) else ExecutionMode.ASYNCIO
