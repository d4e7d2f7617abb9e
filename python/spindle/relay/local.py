"""A bus in one process."""

import asyncio
import collections

from .envelope import NoResponder


class Local:
    """A bus between callers and workers of one loop. A request goes to the workers of its subject in turn."""

    counts_credit = True

    def __init__(self):
        self._subscribers = collections.defaultdict(list)
        self._closed = asyncio.Event()

    async def subscribe(self, subject, receive):
        self._subscribers[subject].append(receive)
        return lambda: self._remove(subject, receive)

    def _remove(self, subject, receive):
        if receive in self._subscribers[subject]:
            self._subscribers[subject].remove(receive)

    def publish(self, e):
        found = self._subscribers.get(e.subject)
        if not found:
            if e.kind == "request":
                raise NoResponder(f"no worker serves {e.subject}")
            return  # the other side is gone
        loop = asyncio.get_running_loop()
        if e.kind in ("cancel", "credit"):  # one of them has the request
            for receive in found:
                loop.call_soon(receive, e)
            return
        receive = found.pop(0)
        found.append(receive)
        loop.call_soon(receive, e)

    async def drain(self):
        await asyncio.sleep(0)

    async def wait_closed(self):
        await self._closed.wait()

    def close(self):
        """End the workers."""
        self._closed.set()
