"""The inspector of Go, with the tasks of Python."""

import functools
import itertools
import os
import sys
import weakref

from . import _core
from .tree import Look, awaited_tasks, ordered_tasks

__all__ = ["inspect"]

AT_ONCE = 256  # tasks that are described before the inspector looks at the time: a few milliseconds

_address = None  # of the inspector, once it is served


def inspect(address: str = "127.0.0.1:0") -> str:
    """Serve the inspector of this process, and return the address that it listens on.

    The page at http://ADDRESS/ shows the loops of the process and their tasks: what each
    awaits and since when, what blocks a loop, and where. It answers while Python is blocked.
    The address must be of this machine; port 0 selects a free one. A second call returns
    the address of the first.
    """
    global _address
    if _address is None:
        _address = _core.inspect(address)
    return _address


def inspect_if_wanted():
    """Serve the inspector if the environment variable SPINDLE_INSPECT has an address for it."""
    address = os.environ.get("SPINDLE_INSPECT")
    if not address or _address is not None:
        return
    try:
        print(f"spindle: inspector at http://{inspect(address)}/", file=sys.stderr)
    except OSError as error:  # another process of this program may have it
        print(f"spindle: SPINDLE_INSPECT={address}: {error}", file=sys.stderr)
        os.environ.pop("SPINDLE_INSPECT")


class TaskWalk:
    """Describes the tasks of a loop, some at a time."""

    def __init__(self, loop, ids):
        self._loop = loop
        self._ids = ids
        tasks = ordered_tasks(loop)
        for task in tasks:
            ids.of(task)
        self._parents = weakref.WeakKeyDictionary()
        for task in tasks:
            for child in awaited_tasks(task):
                self._parents.setdefault(child, ids.of(task))
        self._tasks = iter([weakref.ref(task) for task in tasks])

    def next(self):
        """Return the next tasks as JSON, or None if there are no more."""
        refs = list(itertools.islice(self._tasks, AT_ONCE))
        if not refs:
            return None
        import json  # here, because most programs need none of it

        return json.dumps([self._describe(task) for ref in refs if (task := ref()) is not None and not task.done()])

    def _describe(self, task):
        look = Look(task, self._loop)
        awaited = awaited_tasks(task)
        return {
            "id": self._ids.of(task), "parent": self._parents.get(task, 0), "name": look.name,
            "function": f"{look.function} {look.line}" if look.line else look.function, "state": look.state,
            "waits_for": (look.awaits or "future") if look.state == "waiting" else "",
            "waits": look.waited or 0, "on": self._ids.of(awaited[0]) if len(awaited) == 1 else 0}


class TaskIDs:
    """Numbers tasks, in the order in which the inspector sees them."""

    def __init__(self):
        self._ids = weakref.WeakKeyDictionary()
        self._next = itertools.count(1)

    def of(self, task):
        """Return the number of task."""
        number = self._ids.get(task)
        if number is None:
            number = self._ids[task] = next(self._next)
        return number


@functools.cache
def _libraries():
    """Return the paths of code that is not the program's."""
    import sysconfig

    paths = {os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return *paths, "<frozen "


def inspected_stack(frame, depth):
    """Return where the program is in a stack, and the stack, innermost frame first, as Go writes those of its own."""
    places = []
    while frame is not None and len(places) < depth:
        code = frame.f_code
        name = f"{frame.f_globals.get('__name__', '?')}.{getattr(code, 'co_qualname', code.co_name)}"
        places.append((name, code.co_filename, frame.f_lineno))
        frame = frame.f_back
    own = [place for place in places if not place[1].startswith(_libraries())] or places
    at = "".join(f"{os.path.basename(file)}:{line} ({name})" for name, file, line in own[:1])
    return at, "".join(f"{name}()\n\t{file}:{line}\n" for name, file, line in places)
