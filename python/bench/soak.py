"""Serves clients of every bad kind for a while, and says what the good ones had to bear.

    python python/bench/soak.py --seconds 600
    python python/bench/soak.py --seconds 60 --app wsgi

Normal clients measure alone first. Then others join them that leave at random, read slowly, stop in the middle
of an upload, or stream, and the workers are replaced every few seconds. At the end everything but the normal clients
is gone. The exit code is 1 if a request of a normal client was lost, or if descriptors are left.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import time

PIECE = b"x" * 16384


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("HTTP only")
    body = 0
    while (message := await receive())["type"] == "http.request":
        body += len(message["body"])
        if not message["more_body"]:
            break
    else:
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/stream":
        while True:
            await send({"type": "http.response.body", "body": b"data: tick\n\n", "more_body": True})
    if scope["path"] == "/download":
        for _ in range(300):
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
    await send({"type": "http.response.body", "body": str(body).encode()})


def wsgi(environ, start_response):
    body = len(environ["wsgi.input"].read())
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/stream":
        while True:
            yield b"data: tick\n\n"
            time.sleep(0.01)
    if environ["PATH_INFO"] == "/download":
        for _ in range(300):
            yield PIECE
    yield str(body).encode()


class Normal:
    """A client that keeps its connection for as long as the server does, and expects every answer."""

    def __init__(self, address):
        self.address = address
        self.times, self.lost = [], []

    async def run(self, until):
        streams = None
        while time.monotonic() < until:
            if streams is None:
                streams = await asyncio.open_connection(*self.address)
            begun = time.monotonic()
            try:
                closes = await self.ask(*streams)
            except Exception as e:
                self.lost.append(repr(e))
                closes = True
            self.times.append(time.monotonic() - begun)
            if closes:
                streams[1].close()
                streams = None
            await asyncio.sleep(random.random() / 50)
        if streams is not None:
            streams[1].close()

    async def ask(self, reader, writer):
        writer.write(b"POST /fast HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(head[:100])
        if b"chunked" in head:
            body = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 30)
            body = body.split(b"\r\n")[1]
        else:
            body = await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
        if body != b"5":
            raise ValueError(body)
        return b"connection: close" in head


async def misbehave(address, until):
    """Be one bad client after the other."""
    while time.monotonic() < until:
        kind = random.choice(("stream", "download", "slow", "half", "abort"))
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            reader, writer = await asyncio.open_connection(*address)
            if kind in ("half", "abort"):
                writer.write(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + b"x" * random.randrange(1_000_000))
                await asyncio.sleep(random.random() * (5 if kind == "half" else 0.1))
            else:
                writer.write(f"GET /{'download' if kind == 'slow' else kind} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                for _ in range(random.randrange(100)):
                    if not await asyncio.wait_for(reader.read(1000 if kind == "slow" else 65536), 5):
                        break
                    await asyncio.sleep(0.05 if kind == "slow" else 0)
            if random.random() < 0.5:  # a reset
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.close()


def p99(times):
    return sorted(times)[int(len(times) * 0.99)] * 1000


def workers_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


def held(pid):
    """Return descriptors and megabytes of a process."""
    with open(f"/proc/{pid}/statm") as f:
        return len(os.listdir(f"/proc/{pid}/fd")), int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


async def be_normal(address, seconds, count=8):
    """Print the times of requests, and what was lost."""
    clients = [Normal(address) for _ in range(count)]
    await asyncio.gather(*(client.run(time.monotonic() + seconds) for client in clients))
    json.dump(([t for c in clients for t in c.times], [e for c in clients for e in c.lost]), sys.stdout)


async def normal(address, seconds):
    """Run normal clients in a process of their own, so that they do not wait for the bad ones."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--normal", "{}:{}".format(*address), "--seconds", str(seconds), stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return json.loads(out)


async def soak(process, address, seconds, bad):
    quiet, lost = await normal(address, min(10, seconds / 4))
    print(f"quiet: {len(quiet)} requests, p99 {p99(quiet):.1f} ms, lost {len(lost)}", flush=True)
    until = time.monotonic() + seconds

    async def replace():
        while time.monotonic() < until - 15:
            await asyncio.sleep(random.uniform(3, 8))
            process.send_signal(signal.SIGHUP)

    results = await asyncio.gather(normal(address, seconds), replace(), *(misbehave(address, until) for _ in range(bad)))
    times, errors = results[0]
    lost += errors
    print(f"with bad clients: {len(times)} requests, p99 {p99(times):.1f} ms, longest {max(times) * 1000:.0f} ms, lost {len(errors)}",
          *sorted(set(errors))[:5], flush=True)
    await normal(address, 8)
    after = [held(pid) for pid in workers_of(process.pid)]
    print("workers at the end, descriptors and MB:", after)
    return 1 if lost or any(fds > 60 for fds, _ in after) else 0


async def main(options):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "spindle", f"soak:{options.app}", "--port", "0", "--workers", "2", "--no-access-log",
        "--timeout-graceful-shutdown", "5", cwd=os.path.dirname(os.path.abspath(__file__)), stderr=asyncio.subprocess.PIPE)
    ready, errors, found = 0, [], None

    async def read():
        nonlocal ready, found
        async for line in process.stderr:
            text = line.decode()
            ready += "is ready" in text
            found = found or re.search(r"serving on http://([\d.]+):(\d+)", text)
            if text.startswith(("ERROR", "Traceback")):
                errors.append(text)

    reading = asyncio.create_task(read())
    while ready < 2:
        await asyncio.sleep(0.05)
    code = await soak(process, (found[1], int(found[2])), options.seconds, options.bad)
    process.terminate()
    await process.wait()
    await reading
    print("errors in the log:", len(errors), *errors[:3])
    return code


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=600)
    arguments.add_argument("--app", choices=["asgi", "wsgi"], default="asgi")
    arguments.add_argument("--bad", type=int, default=40, help="bad clients at a time")
    arguments.add_argument("--normal", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.normal:
        host, _, port = options.normal.partition(":")
        asyncio.run(be_normal((host, int(port)), options.seconds))
    else:
        sys.exit(asyncio.run(main(options)))
