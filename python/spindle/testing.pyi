from collections.abc import Coroutine
from typing import Any, TypeVar

from .loop import Loop

__all__ = ["new_event_loop", "run"]

_T = TypeVar("_T")

def new_event_loop() -> Loop: ...
def run(main: Coroutine[Any, Any, _T], *, debug: bool | None = None) -> _T: ...
