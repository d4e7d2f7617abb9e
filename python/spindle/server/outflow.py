"""The items of a generator on their way to Go."""

import asyncio
import contextlib
import threading

from . import values

BATCH = 64 << 10  # bytes from which a batch is sent at once
TURN = 64  # items after which an asynchronous generator lets other tasks run


class Outflow:
    """Sends items in batches: those that come while the loop does something else. post(n, data) sends a
    batch; n is how many items there were in all.
    """

    def __init__(self, loop, allowed, limit, post):
        self._loop = loop
        self._limit = limit
        self._post = post
        self._changed = threading.Condition()  # guards what follows
        self._allowed = allowed
        self._added = 0
        self._batch = []
        self._size = 0
        self._due = False  # the loop will send the batch
        self._cancelled = False
        self._waiter = None  # a future: the loop waits for _allowed

    def allow(self, n):
        """Let n items be sent in all. For the loop."""
        with self._changed:
            self._allowed = max(self._allowed, n)
            self._changed.notify()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def cancel(self):
        """End the iteration. For the loop; a task is cancelled besides."""
        with self._changed:
            self._cancelled = True
            self._changed.notify()

    def _encode(self, item):
        data = values.encode(item, f"items[{self._added}]")
        if len(data) > self._limit:
            raise ValueError(f"items[{self._added}] has {len(data)} bytes; the limit is {self._limit}")
        return data

    def _add(self, data):
        """Add an item. Return how the loop is to be told to send it: None if it will. _changed is held on a thread."""
        self._batch.append(data)
        self._added += 1
        self._size += len(data)
        told, self._due = self._due, True
        return None if told else self.flush

    def flush(self):
        """Send the batch. For the loop."""
        with self._changed:
            batch, self._batch, self._size, self._due = self._batch, [], 0, False
            added = self._added
            self._changed.notify()
        if batch:
            self._post(added, b"\x9a" + len(batch).to_bytes(4, "big") + b"".join(batch))  # an array

    async def send_async(self, items):
        """Send the items of an asynchronous iterable."""
        try:
            async for item in items:
                if self._add(self._encode(item)) is not None:
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
        """Send the items of an iterable. For a thread."""
        with contextlib.closing(items) if hasattr(items, "close") else contextlib.nullcontext():
            for item in items:
                data = self._encode(item)
                with self._changed:
                    tell = self._add(data)
                    if tell is not None:
                        self._loop.call_soon_threadsafe(tell)
                    while not self._cancelled and (self._added >= self._allowed or self._size >= 4 * BATCH):
                        self._changed.wait()
                    if self._cancelled:
                        return
        self._loop.call_soon_threadsafe(self.flush)
