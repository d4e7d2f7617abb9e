"""Programs in Python beside a web plane in Go: workers of a bus, and an app of FastAPI."""

import asyncio
import json
import struct

import fastapi
import uvicorn

from spindle import relay
from spindle.relay.envelope import of_frame
from spindle.server.frames import SIZES, frame

PING, PUBLISH, LISTEN, SUBSCRIBE, NEXT, _, DELIVER = range(7)  # the operations of package relaysim
REQUESTS, CANCELLATIONS = 1, 2  # subscriptions
CONCURRENCY = 2
HEAD = struct.Struct(">BI")


class Bus:
    """A client of the bus host. It connects again when its connection breaks."""

    counts_credit = True

    def __init__(self):
        self._writer = None

    async def subscribe(self, subject, receive):
        task = asyncio.create_task(self._stay_connected(subject, receive))
        return task.cancel

    async def _stay_connected(self, subject, receive):
        while True:
            try:
                reader, self._writer = await asyncio.open_connection("bus", 4222)
                self._subscribe(subject)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._ping())
                    while True:
                        async with asyncio.timeout(3):  # a connection without pings is dead
                            await self._receive(reader, receive)
            except* (OSError, TimeoutError, EOFError):
                self._writer = None
                await asyncio.sleep(0.1)

    def _subscribe(self, subject):
        self._send(SUBSCRIBE, REQUESTS, relay.Envelope("request", subject, headers={"group": "workers"}))
        self._send(LISTEN, CANCELLATIONS, relay.Envelope("request", "_cancel." + subject))
        for _ in range(CONCURRENCY):
            self._send(NEXT, REQUESTS)

    async def _ping(self):
        while True:
            self._send(PING, 0)
            await asyncio.sleep(1)

    async def _receive(self, reader, receive):
        op, sid = HEAD.unpack(await reader.readexactly(HEAD.size))
        if op != DELIVER:
            return
        length, head = SIZES.unpack(await reader.readexactly(SIZES.size))
        rest = await reader.readexactly(length - 4)
        receive(of_frame(json.loads(rest[:head]), rest[head:]))

    def _send(self, op, sid, envelope=None):
        if self._writer is not None:
            self._writer.write(HEAD.pack(op, sid) + (b"" if envelope is None else frame(envelope.header(), envelope.body)))

    def publish(self, envelope):
        """Send an answer. The bus may then give this worker another request."""
        self._send(PUBLISH, 0, envelope)
        if envelope.kind in ("reply", "failure"):
            self._send(NEXT, REQUESTS)

    async def drain(self):
        if self._writer is not None:
            await self._writer.drain()

    async def wait_closed(self):
        await asyncio.get_running_loop().create_future()


async def worker():
    """Answers requests of the bus, as a worker process of relay/process does."""

    async def upper(request):
        await asyncio.sleep(0.01)
        return request.body.upper()

    await relay.Worker(Bus()).serve(upper, "upper", concurrency=CONCURRENCY)


app = fastapi.FastAPI()


@app.post("/app/lower")
async def lower(request: fastapi.Request):
    body = await request.body()
    await asyncio.sleep(0.01)
    return fastapi.Response(body.lower())


async def serve_app():
    """Serves the app that a Go program would mount with package pyapp."""
    await uvicorn.Server(uvicorn.Config(app, host="0.0.0.0", port=80, log_config=None)).serve()
