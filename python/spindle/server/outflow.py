"""The items of a generator on their way to Go."""

import asyncio
import contextlib
import threading

from .._core import encode_plain
from . import values

BATCH = 64 << 10  # bytes from which a batch is sent at once
TURN = 64  # items after which an asynchronous generator lets other tasks run


class Outflow:
    """Sends items in batches: those that come while the loop does something else. post(n, data) sends a
    batch; n is how many items there were in all. post_from_thread does so on any thread.
    """

    def __init__(self, loop, allowed, limit, post, post_from_thread):
        self._loop = loop
        self._limit = limit
        self._post = post
        self._post_from_thread = post_from_thread
        self._lock = threading.RLock()  # guards what follows, and keeps the order of batches
        self._changed = threading.Condition(self._lock)
        self._allowed = allowed
        self._added = 0
        self._batch = []
        self._size = 0
        self._due = False  # the loop will send the batch
        self._cancelled = False
        self._waiter = None  # a future: the loop waits for _allowed

    def allow(self, n):
        """Let n items be sent in all, or as many as before if they were more: a later call may come first. n is the last 32 bits.
        For the loop.
        """
        with self._changed:
            more = (n - self._allowed) & 0xffffffff
            if more < 1 << 31:  # otherwise a later call came first
                self._allowed += more
            self._changed.notify()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def cancel(self):
        """End the iteration. For the loop; a task is cancelled besides."""
        with self._changed:
            self._cancelled = True
            self._changed.notify()

    def _encode(self, item):
        data = encode_plain(item)
        if data is NotImplemented:
            data = values.encode(item, f"items[{self._added}]")
        if len(data) > self._limit:
            raise ValueError(f"items[{self._added}] has {len(data)} bytes; the limit is {self._limit}")
        return data

    def _add(self, data):
        """Add an item. Report whether the loop is to be told to send it. _lock is held on a thread."""
        self._batch.append(data)
        self._added += 1
        self._size += len(data)
        told, self._due = self._due, True
        return not told

    def flush(self):
        """Send the batch. For the loop."""
        self._due = False  # before a thread adds an item that is not sent now
        if self._batch:
            self._send(self._post)

    def _send(self, post):
        with self._lock:
            batch, self._batch, self._size = self._batch, [], 0
            if batch:  # an array
                post(self._added, b"\x9a" + len(batch).to_bytes(4, "big") + b"".join(batch))

    async def send_async(self, items):
        """Send the items of an asynchronous iterable."""
        try:
            async for item in items:
                if self._add(self._encode(item)):
                    self._loop.call_soon(self.flush)
                if self._size >= BATCH:
                    self.flush()
                while self._added >= self._allowed:
                    self._waiter = self._loop.create_future()
                    await self._waiter
                if self._added % TURN == 0:  # it may never wait by itself
                    await asyncio.sleep(0)
        finally:
            if hasattr(items, "aclose"):
                await items.aclose()  # its finally clauses run
        self.flush()

    def send_all(self, items):
        """Send the items of an iterable. For a thread.

        The thread sends full batches itself: the loop would have to wait for the interpreter.
        """
        with contextlib.closing(items) if hasattr(items, "close") else contextlib.nullcontext():
            for item in items:
                data = self._encode(item)
                with self._lock:
                    if self._add(data):
                        self._loop.call_soon_threadsafe(self.flush)
                    if self._size >= BATCH or self._added >= self._allowed:
                        self._send(self._post_from_thread)
                    while not self._cancelled and self._added >= self._allowed:
                        self._changed.wait()
                    if self._cancelled:
                        return
        self._send(self._post_from_thread)
