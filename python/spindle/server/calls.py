"""Calls of functions from a Go program. See the Go package pyapp."""

import asyncio
import concurrent.futures
import contextvars
import functools
import importlib
import inspect
import itertools
import json
import os
import time
import traceback

from ..host import Call, current, traceparent
from . import connections, values
from .connections import accepted, serve_protocol
from .frames import short, texts
from .outflow import Outflow


class NoFunction(Exception):
    """The function that is called does not exist."""

    def __init__(self, reason, text):
        super().__init__(text)
        self.reason = reason


RAW = texts("raw", "1")  # of a reply that is bytes as they are


class Calls:
    """The calls that run. post(header, body) sends a frame, and post_from_thread does so on any thread."""

    def __init__(self, post, post_from_thread, limit):
        self._post = post
        self._post_from_thread = post_from_thread
        self._limit = limit
        self._blobs = {}  # large bytes of calls that have not begun, by their numbers
        self._running = {}  # the task, the Call and the Outflow of a call, by its number

    def blob(self, number, data):
        """Keep large bytes, which are arguments of a call that follows."""
        self._blobs.setdefault(number, []).append(data)

    def start(self, header, body):
        number, flow = header["id"], None
        if "seq" in header:
            flow = Outflow(asyncio.get_running_loop(), header["seq"], self._limit,
                           lambda n, data: self._post(short("item", number, n), data),
                           lambda n, data: self._post_from_thread(short("item", number, n), data))
        self._begin(header, flow, self._run, body, self._blobs.pop(number, ()) if self._blobs else ())

    def serve(self, header, target, descriptor):
        """Serve a connection of the Go program. descriptor(call) returns its descriptor."""
        number = header["id"]
        try:
            sock = accepted(descriptor(number))
        except Exception as e:
            self._fail(number, e)
            return
        task = self._begin(header, None, self._serve, target, sock)
        task.add_done_callback(lambda _: sock.close())  # it is open if there was no transport for it

    def _begin(self, header, flow, run, *args):
        number, due = header["id"], header.get("deadline_us")
        depth = int(header["headers"].get("depth", 0)) if "headers" in header else 0
        call = Call(depth, due and time.monotonic() + due / 1e6)
        task = asyncio.get_running_loop()._begin_task(
            run(number, header.get("traceparent", ""), call, flow, *args), f"call {number}")
        if not task.done():  # it has taken its first step
            self._running[number] = task, call, flow
        return task

    def cancel(self, number):
        self._blobs.pop(number, None)
        if number in self._running:
            task, call, flow = self._running[number]
            task.add_done_callback(lambda _: self._running.pop(number, None))  # with a task factory it may not have begun
            task.cancel()
            call.cancel()
            if flow is not None:
                flow.cancel()

    def credit(self, number, allowed):
        if number in self._running:
            self._running[number][2].allow(allowed)

    def numbers(self):
        return list(self._running)

    async def _run(self, number, trace, call, flow, body, blobs):
        try:
            if trace:
                traceparent.set(trace)
            current.set(call)
            target, args, named = values.decode(body, blobs)
            function = find(target)
            if function is None:  # an import may take long
                function = await in_context(_importer, load, target)
            args, named = function.arguments(args, named)
            head, data = short("reply", number), b""
            if flow is not None:
                await run_generator(function, args, named, flow)
            else:
                if function.is_coroutine:
                    data = await function.call(*args, **named)
                else:
                    data = await run_on_thread(function, args, named)
                if type(data) is bytes and len(data) >= values.LARGE:
                    head += RAW
                else:
                    data = values.encode(data)
                if len(data) > self._limit:
                    raise ValueError(f"the result has {len(data)} bytes; the limit is {self._limit}")
        except BaseException as e:  # a function that calls sys.exit does not end the worker
            if flow is not None:
                flow.flush()
            self._fail(number, e)  # always, or the caller waits forever
        else:
            self._post(head, data)
        finally:
            self._running.pop(number, None)

    async def _serve(self, number, trace, call, _, target, sock):
        try:
            if trace:
                traceparent.set(trace)
            current.set(call)
            target = target.decode()
            factory = find(target) or await in_context(_importer, load, target)
            await serve_protocol(sock, factory.call)
        except BaseException as e:
            self._fail(number, e)
        else:
            self._post(short("reply", number))
        finally:
            self._running.pop(number, None)

    def _fail(self, number, error):
        self._post(short("failure", number), json.dumps(describe(error)).encode())


class Function:
    """A function that can be called."""

    def __init__(self, function):
        self.call = function
        self.is_coroutine = is_coroutine_function(function)
        self._converters = values.converters(function)
        self._parameters = list(inspect.signature(function).parameters) if self._converters else ()

    def arguments(self, args, named):
        """Return the arguments, with dataclasses where the function has them as annotations."""
        if self._converters:
            kinds = self._converters
            args = [values.convert(v, kinds.get(p), f"args[{i}]") for i, (v, p) in enumerate(itertools.zip_longest(args, self._parameters[:len(args)]))]
            named = {name: values.convert(v, kinds.get(name), name) for name, v in named.items()}
        return args, named


_loaded = {}


def find(target):
    """Return the Function of a target that was called before, or None."""
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
            raise NoFunction("module", f"there is no module {module_name!r} in {os.getcwd()} or on the path; "
                             "App.Dir is the directory of the modules") from None
        raise
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NoFunction("attribute", f"module {module_name!r} has no attribute {attribute!r}") from None
    if not callable(found):
        raise NoFunction("attribute", f"{target} is not a function: {found!r}")
    _loaded[target] = Function(found)
    return _loaded[target]


async def run_on_thread(function, args, named):
    """Call a function that is not a coroutine function."""
    result = await on_thread(function.call, *args, **named)
    return await result if inspect.isawaitable(result) else result


async def run_generator(function, args, named, flow):
    """Send the items of an asynchronous generator on the loop, and those of any other on a thread."""
    items = function.call(*args, **named)
    if inspect.isawaitable(items):
        items = await items
    if hasattr(items, "__aiter__"):
        await flow.send_async(items)
    elif hasattr(items, "__iter__"):
        await on_thread(flow.send_all, items)
    else:
        raise TypeError(f"{function.call.__qualname__} is called as a stream, and is not a generator function")


# Functions have threads of their own, and imports have another one: a call of a coroutine never waits behind a
# function that blocks, and asyncio's threads are the app's.
threads = 32  # for the functions of each depth
_pools = {}  # by the depth of calls
_importer = concurrent.futures.ThreadPoolExecutor(1, "import")


async def on_thread(function, *args, **named):
    """Call a function on a thread.

    A call that Go makes while Python waits for it has threads of its own: those of the calls around it may
    all be in use, waiting for it.
    """
    depth = current.get().depth
    if depth not in _pools:
        _pools[depth] = concurrent.futures.ThreadPoolExecutor(threads, f"call_{depth}")
    return await in_context(_pools[depth], function, *args, **named)


async def in_context(pool, function, *args, **named):
    """Call a function on a thread of a pool, in the context of the caller, as asyncio.to_thread does."""
    work = functools.partial(contextvars.copy_context().run, function, *args, **named)
    return await asyncio.get_running_loop().run_in_executor(pool, work)


def is_coroutine_function(function):
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


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
    ours = (__file__, connections.__file__, values.__file__)
    found.stack = traceback.StackSummary.from_list(
        f for f in found.stack if f.filename not in ours and not f.filename.endswith("concurrent/futures/thread.py"))
    report = {"type": name, "message": cut(message), "traceback": cut("".join(found.format()))}
    if isinstance(error, NoFunction):
        missing = {"module": ModuleNotFoundError, "attribute": AttributeError}[error.reason]
        report.update(reason=error.reason, type=missing.__name__)
    return report
