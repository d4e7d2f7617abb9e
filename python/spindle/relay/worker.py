"""Serves the requests of a subject."""

import asyncio
import contextlib
import inspect

from .. import host
from .envelope import CODE, MOST_ITEMS, Envelope

MOST_TEXT = 16384  # characters of a failure
MOST_WAITING = 1024  # requests of a worker that wait for their turn


class Request:
    """A request. The handler returns its reply, or yields items."""

    def __init__(self, envelope, server):
        self.subject = envelope.subject
        self.body = envelope.body
        self.headers = envelope.headers
        self.traceparent = envelope.traceparent
        self.tracestate = envelope.tracestate
        self.is_stream = envelope.seq > 0
        self.reply_headers = {}
        self._envelope = envelope
        self._server = server
        self._sent = 0
        self._allowed = envelope.seq
        self._credit = asyncio.Event()

    async def send(self, body):
        """Send an item of a stream. Wait while the caller accepts none."""
        if not self.is_stream:
            raise RuntimeError("spindle.relay: send: the caller waits for a single reply")
        if self._sent == MOST_ITEMS:
            raise RuntimeError(f"spindle.relay: send: a stream has at most {MOST_ITEMS} items")
        while self._server.counts and self._sent >= self._allowed:
            self._credit.clear()
            await self._credit.wait()
        self._sent += 1
        self._answer("item", body)
        await self._server.bus.drain()

    def _answer(self, kind, body, headers=None):
        e = self._envelope
        body = b"" if body is None else body.encode() if isinstance(body, str) else body
        if not isinstance(body, (bytes, bytearray, memoryview)):
            raise TypeError(f"spindle.relay: a handler returns or yields bytes, a str or None, not {body!r}")
        self._server.bus.publish(Envelope(kind, e.reply_to, id=e.id, seq=self._sent, traceparent=e.traceparent, headers=headers or {},
                                          body=bytes(body), route=e.route, sender=e.subject, attempt=e.attempt))

    def _allow(self, n):
        self._allowed = max(self._allowed, n)
        self._credit.set()


class Worker:
    """Serves requests of a bus. Without a bus it is a worker process: of relay/process in Go, or of Processes."""

    def __init__(self, bus=None):
        self._bus = bus

    async def serve(self, handler, subject="", *, concurrency=1):
        """Serve a subject until the bus ends, or the task is cancelled.

        A handler is a function, which runs on a thread and may block, or a coroutine function. It gets a Request,
        and returns bytes, a str, or None. For a stream it is a generator function of either kind, or calls Request.send. An exception
        fails the request. A request that is cancelled cancels its coroutine; a thread cannot be cancelled.
        """
        bus = self._bus
        if bus is None:
            from .pipe import Pipe

            bus = Pipe()
        server = _Server(bus, handler, concurrency)
        close = await bus.subscribe(subject, server.receive)
        try:
            if asyncio.current_task().cancelling():
                raise asyncio.CancelledError  # it may have been lost in the client of a bus
            await bus.wait_closed()
        finally:
            server.ending = True
            leaving = close()
            await server.end()
            if leaving is not None:
                await leaving


def work(handler, *, concurrency=1):
    """Run a worker process until its input ends."""
    # asyncio's own loop: Go's runtime needs 1 GB of address space, and Options.MaxMemory may allow less.
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Worker().serve(handler, concurrency=concurrency))


class _Server:
    """The requests of a worker that run."""

    def __init__(self, bus, handler, concurrency):
        self.bus = bus
        self.counts = bus.counts_credit
        self._handler = handler
        self._places = asyncio.Semaphore(concurrency)
        self._tasks = set()
        self._running = {}  # tasks and requests that can be cancelled, by call
        self._most = concurrency + MOST_WAITING
        self.ending = False

    def receive(self, e):
        key = e.reply_to, e.id
        if e.kind == "request":
            request = Request(e, self)
            if self.ending:
                request._answer("failure", "the worker was stopped", {CODE: "canceled"})
                return
            if len(self._tasks) >= self._most:
                request._answer("failure", "the worker's queue is full", {CODE: "full"})
                return
            task = asyncio.get_running_loop().create_task(self._run(request), name=f"request {e.id} of {e.subject}")
            entry = task, request
            self._tasks.add(task)
            if e.id:  # otherwise nothing can be said about it later
                self._running[key] = entry
            task.add_done_callback(lambda _: self._ended(key, entry))
        elif key in self._running:
            task, request = self._running[key]
            if e.kind == "cancel":
                task.cancel()
            elif e.kind == "credit":
                request._allow(e.seq)

    def _ended(self, key, entry):
        self._tasks.discard(entry[0])
        if self._running.get(key) is entry:
            del self._running[key]

    async def end(self):
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, request):
        host.traceparent.set(request.traceparent)
        try:
            async with asyncio.timeout(request._envelope.deadline), self._places:
                body = await self._call(request)
            request._answer("reply", body, request.reply_headers)
        except asyncio.CancelledError:
            request._answer("failure", "the request was cancelled", {CODE: "canceled"})
        except TimeoutError:
            request._answer("failure", "the deadline has passed", {CODE: "deadline"})
        except BaseException as e:
            text = f"{type(e).__name__}: {e}" if str(e) else type(e).__name__
            request._answer("failure", text[:MOST_TEXT], {CODE: "error"})

    async def _call(self, request):
        handler = self._handler
        if inspect.isasyncgenfunction(handler):
            async with contextlib.aclosing(handler(request)) as items:
                async for item in items:
                    await request.send(item)
            return b""
        if inspect.isgeneratorfunction(handler):
            return await self._pull(request, handler(request))
        if inspect.iscoroutinefunction(handler):
            return await handler(request)
        return await asyncio.to_thread(handler, request)

    async def _pull(self, request, items):
        """Send the items of a generator, which runs on a thread."""
        end = object()
        try:
            while (item := await asyncio.to_thread(next, items, end)) is not end:
                await request.send(item)
        finally:
            with contextlib.suppress(ValueError):  # it runs, because its request was cancelled
                items.close()
        return b""
