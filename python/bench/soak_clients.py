"""The clients of soak.py: normal ones, which are a program of their own, and bad ones.

    python soak_clients.py HOST PORT SECONDS
"""

import asyncio
import contextlib
import itertools
import json
import random
import re
import socket
import struct
import sys
import time

KINDS = ("stream", "download", "slow", "half", "abort")  # of bad clients
PATHS = ("/fast", "/thread")  # of normal clients: on the loop, and in one of the app's threads


class Pulse:
    """Notices when this process does not run."""

    BEAT = 0.1

    def __init__(self):
        self.still = 0.0  # seconds

    async def run(self):
        while True:
            begun = time.monotonic()
            await asyncio.sleep(self.BEAT)
            late = time.monotonic() - begun - self.BEAT
            if late > 0.5:
                self.still += late


class Normal:
    """A client that keeps its connection for as long as the server does, and expects every answer."""

    def __init__(self, address, pulse):
        self.address, self.pulse = address, pulse
        self.asked, self.lost, self.excused = [], [], []  # asked has path, begin and seconds of each request
        self.paths = itertools.cycle(PATHS)

    async def run(self, until):
        streams = None
        while time.monotonic() < until:
            if streams is None:
                streams, still = await asyncio.open_connection(*self.address), self.pulse.still
            begun, path = time.monotonic(), next(self.paths)
            closes, error = False, None
            try:
                closes = await self.ask(path, *streams)
            except Exception as e:
                closes, error = True, repr(e)
            seconds = time.monotonic() - begun
            await asyncio.sleep(2 * Pulse.BEAT if seconds > 0.5 else random.random() / 50)  # the pulse has to notice it first
            stood, still = self.pulse.still - still, self.pulse.still
            self.asked.append((path, begun, max(0, seconds - stood)))
            if error is not None:
                (self.excused if stood >= 10 else self.lost).append(error)
            if closes:
                streams[1].close()
                streams = None
        if streams is not None:
            streams[1].close()

    async def ask(self, path, reader, writer):
        writer.write(b"POST " + path.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
        head = await patiently(reader.readuntil(b"\r\n\r\n"))
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(head[:100])
        if b"chunked" in head:
            body = await patiently(reader.readuntil(b"0\r\n\r\n"))
            body = body.split(b"\r\n")[1]
        else:
            body = await patiently(reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1])))
        if body != b"5":
            raise ValueError(body)
        return b"connection: close" in head


async def patiently(work):
    """Wait for 30 seconds in which this process runs."""
    task = asyncio.ensure_future(work)
    for _ in range(60):
        if (await asyncio.wait([task], timeout=0.5))[0]:
            break
    else:
        task.cancel()
        raise TimeoutError
    return task.result()


async def misbehave(address, until, pause, kinds):
    """Be one bad client after the other."""
    while time.monotonic() < until:
        await asyncio.sleep(random.random() * 2 * pause)
        kind = random.choice(kinds)
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            reader, writer = await asyncio.open_connection(*address)
            try:
                await misbehave_once(kind, reader, writer)
            finally:
                if random.random() < 0.5:  # a reset
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.close()


async def misbehave_once(kind, reader, writer):
    if kind in ("half", "abort"):
        writer.write(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + b"x" * random.randrange(1_000_000))
        await asyncio.sleep(random.random() * (5 if kind == "half" else 0.1))
        return
    writer.write(f"GET /{'download' if kind == 'slow' else kind} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    for _ in range(random.randrange(100)):
        if not await asyncio.wait_for(reader.read(1000 if kind == "slow" else 65536), 5):
            break
        await asyncio.sleep(0.05 if kind == "slow" else 0)



async def be_normal(address, seconds, count=8):
    """Print the requests, and those that were lost."""
    pulse = Pulse()
    beating = asyncio.create_task(pulse.run())
    clients = [Normal(address, pulse) for _ in range(count)]
    await asyncio.gather(*(client.run(time.monotonic() + seconds) for client in clients))
    beating.cancel()
    json.dump({name: [each for c in clients for each in getattr(c, name)] for name in ("asked", "lost", "excused")}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(be_normal((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])))
