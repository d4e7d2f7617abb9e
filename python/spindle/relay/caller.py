"""Makes calls on a bus."""

import asyncio
import contextlib
import dataclasses
import itertools
import secrets
import time

from .. import host
from .envelope import CODE, MOST_ITEMS, Envelope, NoResponder, RemoteError

WINDOW = 64  # items of a stream that are on the way


@dataclasses.dataclass
class Stats:
    """What has become of calls."""

    waiting: int = 0
    replied: int = 0
    failed: int = 0
    timed_out: int = 0
    cancelled: int = 0
    late: int = 0  # answers that came after the end of their call


class Caller:
    """Makes calls. Every call ends once: with a reply, an error, at its deadline, or by cancellation."""

    def __init__(self, bus, *, timeout=None):
        self._bus = bus
        self._timeout = timeout
        self._address = f"_inbox.{secrets.token_hex(8)}"
        self._numbers = itertools.count(1)
        self._waiting = {}  # a queue of answers, by the ID of the call
        self._close = None
        self._stats = Stats()

    async def __aenter__(self):
        self._close = await self._bus.subscribe(self._address, self._receive)
        return self

    async def __aexit__(self, *error):
        self.close()

    def close(self):
        """Fail the calls that wait."""
        if self._close is not None:
            self._close()
            self._close = None
        self._fail(b"the caller was closed")

    def _fail(self, why):
        for answers in self._waiting.values():
            answers.put_nowait(Envelope("failure", headers={CODE: "closed"}, body=why))

    @property
    def stats(self):
        return dataclasses.replace(self._stats, waiting=len(self._waiting))

    def _receive(self, e):
        if e.kind == "closed":
            self._fail(b"the connection of the bus is closed")
            return
        answers = self._waiting.get(e.id)
        if answers is None:
            self._stats.late += 1
        else:
            answers.put_nowait(e)

    async def call(self, subject, body=b"", *, timeout=None, headers=None):
        """Return the reply to a request."""
        async with asyncio.timeout(self._limit(timeout)), contextlib.aclosing(
                self._answers(subject, body, timeout, headers, 0)) as answers:
            return (await anext(answers)).body

    async def stream(self, subject, body=b"", *, timeout=None, headers=None):
        """Iterate over the items of a request."""
        due = self._limit(timeout)
        due = due and time.monotonic() + due
        answers = self._answers(subject, body, timeout, headers, WINDOW)
        try:
            while True:
                async with asyncio.timeout(due and due - time.monotonic()):
                    e = await anext(answers)
                if e.kind == "reply":
                    if e.body:
                        yield e.body
                    return
                yield e.body
        finally:
            await answers.aclose()

    def _limit(self, timeout):
        return self._timeout if timeout is None else timeout

    async def _answers(self, subject, body, timeout, headers, window):
        """Send a request and yield the answers, the last of them a reply."""
        if self._close is None:
            raise RuntimeError("spindle.relay: the caller is closed, or was not entered with async with")
        number = f"{next(self._numbers)}-{secrets.randbits(63) or 1}"
        answers = self._waiting[number] = asyncio.Queue()
        ended = "cancelled"
        loop = asyncio.get_running_loop()
        due = self._limit(timeout)
        due = due and loop.time() + due
        read, allowed, worker = 0, window, ""
        try:
            self._bus.publish(Envelope("request", subject, self._address, number, window, due and due - loop.time(),
                                       host.traceparent.get(), headers=headers or {}, body=body))
            while True:
                e = await answers.get()
                worker = e.route or worker
                if e.kind == "failure":
                    ended = "failed"
                    raise _error(subject, e)
                if e.kind == "reply":
                    ended = "replied"
                yield e
                if e.kind == "reply":
                    return
                read += 1
                if allowed - read <= window // 2:
                    allowed = min(read + window, MOST_ITEMS)
                    self._bus.publish(Envelope("credit", subject, self._address, number, allowed, route=worker))
        except NoResponder:
            ended = "failed"
            raise
        finally:
            del self._waiting[number]
            if ended == "cancelled":
                self._bus.publish(Envelope("cancel", subject, self._address, number, deadline=due and due - loop.time(), route=worker))
                if due is not None and loop.time() >= due:
                    ended = "timed_out"
            setattr(self._stats, ended, getattr(self._stats, ended) + 1)


def _error(subject, e):
    code = e.headers.get(CODE, "error")
    text = f"{subject}: {e.body.decode(errors='replace')}"
    if code == "deadline":
        return TimeoutError(text)
    return NoResponder(text) if code == "no-responder" else RemoteError(text, code)
