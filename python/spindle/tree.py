"""Shows the tasks of a loop and what each awaits."""

import asyncio
import os

from .loop import Loop

__all__ = ["tree"]


def tree(loop=None) -> str:
    """Return the tasks of a loop as text, each below the task that awaits it.

        Task-1 (main) at app.py:12: waits, 61.3 s so far
          Task-2 (fetch) at app.py:30: awaits Event.wait, 61.3 s so far
          Task-3 (fetch) at app.py:30: awaits sleep, 0.2 s so far

    Without an argument it is the running loop. Tasks that await each other in a circle are
    marked: they wait for ever.
    """
    loop = loop or asyncio.get_running_loop()
    tasks = sorted(asyncio.all_tasks(loop), key=_number)
    awaited = {task: _awaited_tasks(task) for task in tasks}
    below = {child for children in awaited.values() for child in children}
    lines, shown = [], set()

    def show(task, depth, path):
        if task in path:
            lines.append("  " * depth + f"{task.get_name()}: a circle")
            return
        shown.add(task)
        lines.append("  " * depth + _describe(task, loop))
        for child in awaited.get(task, ()):
            show(child, depth + 1, path | {task})

    for task in tasks:
        if task not in below:
            show(task, 0, frozenset())
    for task in tasks:  # those in circles are below each other
        if task not in shown:
            show(task, 0, frozenset())
    return "\n".join(lines)


def _number(task):
    name = task.get_name()
    digits = name.rpartition("-")[2]
    return (0, int(digits), name) if digits.isdigit() else (1, 0, name)


def _awaited_tasks(task):
    """Return the tasks that task awaits, by itself or through asyncio.gather."""
    waiter = task._fut_waiter
    if isinstance(waiter, asyncio.Task):
        return [waiter]
    children = getattr(waiter, "_children", None) or ()
    return [child for child in children if isinstance(child, asyncio.Task) and not child.done()]


def _describe(task, loop):
    coro = task.get_coro()
    text = f"{task.get_name()} ({getattr(coro, '__qualname__', coro)})"
    inner = last = coro
    line = None
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None) or getattr(inner, "ag_frame", None)
        if frame is None:
            if hasattr(inner, "__qualname__"):  # a coroutine in C
                last = inner
            break
        if not _in_asyncio(frame):
            line = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        last = inner
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None) or getattr(inner, "ag_await", None)
    if line:
        text += f" at {line}"
    if task is asyncio.current_task(loop):
        return text + ": running"
    if task._fut_waiter is None:
        return text + ": ready"
    text += ": waits" if coro is last else f": awaits {last.__qualname__}"
    since = loop._last_step(task) if isinstance(loop, Loop) else None
    return text if since is None else f"{text}, {loop.time() - since:.1f} s so far"


def _in_asyncio(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0] == "asyncio"
