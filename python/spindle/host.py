"""Calls of Go functions, in a worker of a Go program. See the Go package pyapp.

    price = spindle.call("price", item)               # on a thread
    price = await spindle.async_call("price", item)   # on the loop
    spindle.send("events", event)                     # into an inbox, without waiting
    async for row in spindle.stream("rows", query): ...
"""

import asyncio
import concurrent.futures
import contextvars
import itertools
import json
import logging
import queue
import threading
import time

from .server import values
from .server.frames import short, texts

DEPTH = 16  # of calls from Python to Go inside each other
_DEPTHS = [texts("depth", str(n)) for n in range(DEPTH + 1)]  # in headers
_SENDS = [depth + texts("op", "send") for depth in _DEPTHS]
WINDOW = 256  # items of a stream that are on the way
LONGEST = 365 * 86400  # seconds of a time-out, as in Go; also infinite ones are so long
UNTAKEN = 1024  # values of send that wait for their inboxes

logger = logging.getLogger("spindle.server")


class GoError(Exception):
    """An error of a Go function. type is the name of its type in Go."""

    def __init__(self, message, type="error", traceback=None):
        super().__init__(message)
        self.type = type
        #: that of the Python function which the Go function has called, or None
        self.traceback = traceback


class Call:
    """The call of a Python function that runs. It is what calls of Go in it inherit."""

    __slots__ = ("depth", "deadline", "cancelled", "nested")

    def __init__(self, depth=0, deadline=None):
        self.depth = depth
        self.deadline = deadline  # of time.monotonic, or None
        self.cancelled = False
        self.nested = set()  # futures of threads that wait for Go

    def cancel(self):
        self.cancelled = True
        for future in list(self.nested):
            future.cancel()


#: the W3C traceparent of the call from Go that runs, or ""; calls to Go carry it
traceparent = contextvars.ContextVar("traceparent", default="")

#: the call that runs
current = contextvars.ContextVar("spindle_call", default=Call())

_host = None  # in a worker of a Go program


class Host:
    """The Go program. post(header, body) sends a frame."""

    def __init__(self, loop, post):
        self.loop = loop
        self._post = post
        self._numbers = itertools.count(1)
        self._waiting = {}  # what gets the answer of a call, by its number; loop only
        self._untaken = 0
        self._lock = threading.Lock()  # guards _untaken

    def begin(self, name, args, deadline, receive, window=0):
        """Begin a call. receive(kind, body) gets its answers. Return its number. For the loop."""
        return self._begin(*self.prepare(name, args, deadline, window), receive)

    def prepare(self, name, args, deadline, window=0, headers=_DEPTHS):
        """Return the number, the header and the body of a request."""
        depth = current.get().depth
        if depth >= DEPTH:
            raise RecursionError(f"spindle: {name}: more than {DEPTH} calls from Python to Go inside each other")
        number = next(self._numbers)
        body = values.encode([name, args], "args", args)
        due = 0 if deadline is None else max(1, int(min(deadline - time.monotonic(), LONGEST) * 1e6))
        return number, short("request", number, window, due, traceparent.get(), headers[depth + 1]), body

    def _begin(self, number, header, body, receive):
        self._waiting[number] = receive
        self._post(header, body)
        return number

    def abandon(self, number):
        """End a call that nothing waits for any more. For the loop."""
        if self._waiting.pop(number, None) is not None:
            self._post(short("cancel", number))

    def allow(self, number, n):
        """Let Go send n items in all. For the loop."""
        if number in self._waiting:
            self._post(short("credit", number, n))

    def receive(self, header, body):
        """Take an answer."""
        number, kind = header["id"], header["kind"]
        if "headers" in header:  # bytes as they are
            kind = "raw"
        receive = self._waiting.get(number) if kind == "item" else self._waiting.pop(number, None)
        if receive is not None:  # otherwise the call was cancelled
            receive(kind, body)

    def end(self):
        """Fail all calls, because the Go program is gone."""
        waiting, self._waiting = self._waiting, {}
        for receive in waiting.values():
            receive("failure", json.dumps({"type": "error", "message": "the Go program has ended"}).encode())

    def on_thread(self, name, args, deadline, future):
        """Begin a call of another thread. Return its number."""
        def receive(kind, body):
            if future.set_running_or_notify_cancel():
                future.set_result((kind, body))
        request = self.prepare(name, args, deadline)
        self.loop.call_soon_threadsafe(self._begin, *request, receive)
        return request[0]

    def send(self, name, value):
        with self._lock:
            if self._untaken >= UNTAKEN:
                raise queue.Full(f"spindle: send: {UNTAKEN} values wait for their inboxes in Go")
            self._untaken += 1
        try:
            request = self.prepare(name, [value], None, headers=_SENDS)
        except BaseException:
            self._taken()
            raise

        def receive(kind, body):
            self._taken()
            if kind == "failure":
                logger.error("spindle: send to %s: %s", name, failure(body))
        if _running_loop() is self.loop:
            self._begin(*request, receive)
        else:
            self.loop.call_soon_threadsafe(self._begin, *request, receive)

    def _taken(self):
        with self._lock:
            self._untaken -= 1


def _running_loop():
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def failure(body):
    """Return the exception of a failure."""
    report = json.loads(body) if body else {}
    error = GoError(report.get("message", "the call was refused"), report.get("type", "error"), report.get("traceback"))
    if error.traceback:
        error.add_note("In the Python function that it has called:\n" + error.traceback)
    return error


def result(kind, body):
    """Return the result of a call, or raise its error."""
    if kind == "failure":
        raise failure(body)
    return body if kind == "raw" else values.decode(body)


def _need(what):
    if _host is None:
        raise RuntimeError(f"spindle.{what}: this is not the first interpreter of a worker of a Go program, or its loop does not run yet; "
                           "see the Go package pyapp")
    return _host


def _due(timeout):
    """Return when a call must end: after timeout, and with the call around it."""
    due = current.get().deadline
    if timeout is not None:
        own = time.monotonic() + timeout
        due = own if due is None else min(due, own)
    return due


def call(name, /, *args, timeout=None):
    """Call a Go function and wait for its result. For threads; on a loop use async_call."""
    host = _need("call")
    if _running_loop() is not None:
        raise RuntimeError("spindle.call would block the loop; use: await spindle.async_call(...)")
    outer, due, future = current.get(), _due(timeout), concurrent.futures.Future()
    outer.nested.add(future)
    try:
        if outer.cancelled:
            raise concurrent.futures.CancelledError
        number = host.on_thread(name, args, due, future)
        try:
            kind, body = future.result(None if due is None else max(0.0, min(due - time.monotonic(), LONGEST)))
        except (TimeoutError, concurrent.futures.CancelledError) as e:
            host.loop.call_soon_threadsafe(host.abandon, number)
            if isinstance(e, TimeoutError):
                raise _late(name) from None
            raise
    finally:
        outer.nested.discard(future)
    try:
        return result(kind, body)
    except GoError as e:
        if e.type == "context.deadlineExceededError" and due is not None and time.monotonic() >= due:
            raise _late(name) from e  # Go has noticed it first
        raise


def _late(name):
    return TimeoutError(f"spindle: {name} took longer than it may")


async def async_call(name, /, *args):
    """Call a Go function and wait for its result on the loop. Cancelling the task cancels the call."""
    host = _need("async_call")
    loop = asyncio.get_running_loop()
    if loop is not host.loop:
        return await loop.run_in_executor(None, lambda: contextvars.copy_context().run(call, name, *args))
    future = loop.create_future()

    def receive(kind, body):
        if not future.done():
            future.set_result((kind, body))
    number = host.begin(name, args, current.get().deadline, receive)
    try:
        kind, body = await future
    except asyncio.CancelledError:
        host.abandon(number)
        raise
    return result(kind, body)


def send(name, value, /):
    """Put a value into an inbox of the Go program, without waiting."""
    _need("send").send(name, value)


async def stream(name, /, *args):
    """Iterate over the items of a Go function. When the iteration ends, the function's context ends."""
    host = _need("stream")
    if asyncio.get_running_loop() is not host.loop:
        raise RuntimeError("spindle.stream: use it on the worker's own loop")
    arrived, came = [], asyncio.Event()

    def receive(kind, body):
        arrived.append((kind, body))
        came.set()
    number = host.begin(name, args, current.get().deadline, receive, WINDOW)
    allowed, read = WINDOW, 0
    try:
        while True:
            while not arrived:
                came.clear()
                await came.wait()
            batches, arrived[:] = list(arrived), []
            for kind, body in batches:
                if kind != "item":
                    if kind == "failure":
                        raise failure(body)
                    return
                items = values.decode(body)
                for item in items:
                    yield item
                read += len(items)
                if allowed - read <= WINDOW // 2:
                    allowed = read + WINDOW
                    host.allow(number, allowed)
    finally:
        host.abandon(number)
