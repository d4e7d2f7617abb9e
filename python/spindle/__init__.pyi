from collections.abc import Coroutine
from typing import Any, TypeVar

from ._version import __version__ as __version__
from .host import (
    GoError as GoError,
    async_call as async_call,
    call as call,
    send as send,
    stream as stream,
    traceparent as traceparent,
)
from .inspector import inspect as inspect
from .loop import Loop as Loop
from .mode import ExecutionMode as ExecutionMode, detect_mode as detect_mode
from .policy import EventLoopPolicy as EventLoopPolicy
from .scopes import (
    CancelScope as CancelScope,
    Nursery as Nursery,
    fail_after as fail_after,
    move_on_after as move_on_after,
    move_on_at as move_on_at,
)
from .tree import tree as tree

__all__ = [
    "CancelScope", "EventLoopPolicy", "ExecutionMode", "GoError", "Loop", "Nursery", "async_call", "call", "detect_mode",
    "fail_after", "inspect", "install", "move_on_after", "move_on_at", "new_event_loop", "run", "send", "stream",
    "traceparent", "tree",
]

_T = TypeVar("_T")

Worker: type[Any]  # a class of gunicorn's, which must be installed

def new_event_loop() -> Loop: ...
def run(main: Coroutine[Any, Any, _T], *, debug: bool | None = None) -> _T: ...
def install() -> None: ...
