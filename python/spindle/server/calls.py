"""Calls of functions from a Go program. See the Go package pyapp."""

import asyncio
import base64
import contextvars
import dataclasses
import datetime
import functools
import importlib
import inspect
import json
import os
import traceback

#: the W3C traceparent of the call that runs, or ""
traceparent = contextvars.ContextVar("traceparent", default="")


class NoFunction(Exception):
    """The function that is called does not exist."""

    def __init__(self, reason, text):
        super().__init__(text)
        self.reason = reason


class Calls:
    """The calls that run. answer(number, kind, body) sends an answer."""

    def __init__(self, answer, limit):
        self._answer = answer
        self._limit = limit
        self._tasks = {}

    def start(self, number, trace, body):
        task = asyncio.get_running_loop().create_task(self._run(number, trace, body), name=f"call {number}")
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    def cancel(self, number):
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()

    def tasks(self):
        return list(self._tasks.values())

    async def _run(self, number, trace, body):
        try:
            traceparent.set(trace)
            request = json.loads(body)
            function = find(request["target"])
            if function is None:  # an import may take long
                function = await asyncio.to_thread(load, request["target"])
            result = await run(function, request.get("args") or (), request.get("named") or {})
            text = json.dumps(result, default=plain, allow_nan=False, separators=(",", ":")).encode()
            if len(text) > self._limit:
                raise ValueError(f"the result has {len(text)} bytes as JSON; the limit is {self._limit}")
        except BaseException as e:  # a function that calls sys.exit does not end the worker
            self._answer(number, "failure", json.dumps(describe(e)).encode())  # always, or the caller waits forever
        else:
            self._answer(number, "reply", text)


_loaded = {}


def find(target):
    """Return a function that was called before, or None."""
    return _loaded.get(target)


def load(target):
    """Import "module:function"."""
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise NoFunction("attribute", f"{target!r} does not name a function; write module:function")
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        if e.name is not None and (module_name == e.name or module_name.startswith(e.name + ".")):
            raise NoFunction("module", f"there is no module {module_name!r} in {os.getcwd()} or on the path") from None
        raise
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NoFunction("attribute", f"module {module_name!r} has no attribute {attribute!r}") from None
    if not callable(found):
        raise NoFunction("attribute", f"{target} is not a function: {found!r}")
    _loaded[target] = found
    return found


async def run(function, args, named):
    """Call a coroutine function on the loop, and any other on a thread."""
    if is_coroutine_function(function):
        result = await function(*args, **named)
    else:
        result = await asyncio.to_thread(function, *args, **named)
        if inspect.isawaitable(result):
            result = await result
    return result


def is_coroutine_function(function):
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def plain(value):
    """Return a value that JSON has for one that it has not."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    raise TypeError(f"the result cannot be sent as JSON: it has a {type(value).__name__}")


TEXT = 64 * 1024  # characters of a message or a traceback that are sent


def cut(text):
    """Return a text without its middle if it is long."""
    return text if len(text) <= TEXT else f"{text[:TEXT // 2]}\n[...]\n{text[-TEXT // 2:]}"


def describe(error):
    """Return an exception as a dict, with its traceback from the function on."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:
        message = "<str() of the exception failed>"
    found = traceback.TracebackException.from_exception(error)
    ours = (__file__, asyncio.to_thread.__code__.co_filename)
    found.stack = traceback.StackSummary.from_list(
        f for f in found.stack if f.filename not in ours and not f.filename.endswith("concurrent/futures/thread.py"))
    report = {"type": name, "message": cut(message), "traceback": cut("".join(found.format()))}
    if isinstance(error, NoFunction):
        missing = {"module": ModuleNotFoundError, "attribute": AttributeError}[error.reason]
        report.update(reason=error.reason, type=missing.__name__)
    return report
