"""Shows the tasks of a loop and what each awaits."""

import asyncio
import os

__all__ = ["tree"]


def tree(loop=None) -> str:
    """Return the tasks of a loop as text, each below the task that awaits it.

        Task-1 (main) at app.py:12: waits, 61.3 s so far
          Task-2 (fetch) at app.py:30: awaits Event.wait, 61.3 s so far
          Task-3 (fetch) at app.py:30: awaits sleep, 0.2 s so far

    The default is the running loop. Tasks that await each other in a circle are marked: they
    wait forever. What a task awaits is shown once, even if several tasks await that task.
    """
    loop = loop or asyncio.get_running_loop()
    tasks = ordered_tasks(loop)
    awaited = {task: awaited_tasks(task) for task in tasks}
    below = {child for children in awaited.values() for child in children}
    lines, shown = [], set()

    def show(top):
        rest, path = [(top, 0)], []
        while rest:
            task, depth = rest.pop()
            del path[depth:]
            if task in path:
                lines.append("  " * depth + f"{task.get_name()}: a circle")
                continue
            line, children = "  " * depth + _text(Look(task, loop)), awaited.get(task, ())
            if task in shown and children:
                line, children = line + "; see above", ()
            lines.append(line)
            shown.add(task)
            path.append(task)
            rest += [(child, depth + 1) for child in reversed(children)]

    for task in tasks:
        if task not in below:
            show(task)
    for task in tasks:  # those in circles are below each other
        if task not in shown:
            show(task)
    return "\n".join(lines)


def _text(look):
    text = f"{look.name} ({look.function})"
    if look.line:
        text += f" at {look.line}"
    if look.state != "waiting":
        return f"{text}: {'ready' if look.state == 'fresh' else look.state}"
    text += f": awaits {look.awaits}" if look.awaits else ": waits"
    return text if look.waited is None else f"{text}, {look.waited:.1f} s so far"


def ordered_tasks(loop):
    """Return the tasks of a loop: those with numbers in their names first, in the order of the numbers."""
    return sorted(asyncio.all_tasks(loop), key=_order)


def _order(task):
    name = task.get_name()
    digits = name.rpartition("-")[2]
    numbered = digits.isdecimal() and len(digits) <= 18
    return (0, int(digits), name) if numbered else (1, 0, name)


def awaited_tasks(task):
    """Return the tasks that task awaits, directly or through a function of asyncio."""
    waiter = task._fut_waiter
    if isinstance(waiter, asyncio.Task):
        children = [waiter]
    else:
        children = getattr(waiter, "_children", None) or _shielded(waiter) or _in_frames(task.get_coro())  # or of gather
    return [child for child in children if isinstance(child, asyncio.Task) and not child.done()]


def _shielded(waiter):
    """Return what asyncio.shield protects, if waiter is its future."""
    for callback, _ in getattr(waiter, "_callbacks", None) or ():
        if getattr(callback, "__name__", "") == "_outer_done_callback" and "inner" in callback.__code__.co_freevars:
            return [callback.__closure__[callback.__code__.co_freevars.index("inner")].cell_contents]
    return []


# Functions of asyncio that wait for tasks, and the local variables that hold those.
_HOLDERS = {"_wait": "fs", "wait_for": "fut", "__aexit__": "self", "_aexit": "self"}


def _in_frames(coro):
    """Return the tasks that a function of asyncio waits for, in wait, wait_for or at the end of a TaskGroup."""
    while coro is not None:
        frame = getattr(coro, "cr_frame", None)
        if frame is not None and _in_asyncio(frame) and frame.f_code.co_name in _HOLDERS:
            held = frame.f_locals.get(_HOLDERS[frame.f_code.co_name])
            if isinstance(held, asyncio.TaskGroup):
                held = held._tasks
            tasks = [held] if isinstance(held, asyncio.Task) else held if isinstance(held, (set, list, tuple, frozenset)) else ()
            return sorted((task for task in tasks if isinstance(task, asyncio.Task)), key=_order)
        coro = getattr(coro, "cr_await", None)
    return []


class Look:
    """What a task is doing."""

    __slots__ = ("name", "function", "line", "state", "awaits", "waited")

    def __init__(self, task, loop):
        coro = task.get_coro()
        self.name = task.get_name()
        self.function = str(getattr(coro, "__qualname__", coro))
        self.line, last = _innermost(coro)
        self.awaits = None if last is coro else last.__qualname__
        self.waited = None
        if task is asyncio.current_task(loop):
            self.state = "running"
        elif task._fut_waiter is None or task._fut_waiter.done():
            frame = getattr(coro, "cr_frame", None)
            self.state = "fresh" if frame is not None and frame.f_lasti < 0 else "ready"
        else:
            self.state = "waiting"
            since = loop._last_step(task) if hasattr(loop, "_last_step") else None
            if since is not None:
                self.waited = loop.time() - since


def _innermost(coro):
    """Return the line of the program that coro is at, and the coroutine that it awaits in the end."""
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
    return line, last


def _in_asyncio(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0] == "asyncio"
