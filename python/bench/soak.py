"""Serves clients of every bad kind for a while, and says what the good ones had to bear.

    python python/bench/soak.py --seconds 600
    python python/bench/soak.py --seconds 60 --app wsgi
    python python/bench/soak.py --seconds 60 --server uvicorn --kinds download,slow,half,abort
    python python/bench/soak.py --seconds 60 --apart
    SOAK_SWITCH_INTERVAL=0.0005 python python/bench/soak.py --seconds 60

Normal clients measure alone first. Then others join them that leave at random, read slowly, stop in the middle
of an upload, or stream. In the first half of the time the workers stay, so that a leak shows. In the second half they
are replaced every few seconds: by SIGHUP (a restart), or because a file has changed (a reload). After each half
everything but the normal clients is gone.

A line for each verdict: no request of a normal client was lost; none waited for a thread or the loop for more than
--patience seconds; memory and descriptors are as at the start; the p99 of normal clients is at most twice that of
the time when they were alone. The exit code is 1 if a verdict is bad.

With --apart the bad clients use a server of their own. The p99 is then the share of the machine, on which all compete for the same cores.
uvicorn gives the figures another measure. It has no reload with workers, so they stay. It never learns that the client of an endless
stream is gone, so leave the kind "stream" out for both. SOAK_SWITCH_INTERVAL is the time after which a thread of Python has to
give up the GIL: a request that uses a thread waits for the GIL twice.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import time

if interval := os.environ.get("SOAK_SWITCH_INTERVAL"):
    sys.setswitchinterval(float(interval))

KINDS = ("stream", "download", "slow", "half", "abort")  # of bad clients
PIECE = b"x" * 16384
PATHS = ("/fast", "/thread")  # of normal clients: on the loop, and in one of the app's threads


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
    if scope["path"] == "/thread":
        await asyncio.to_thread(time.sleep, 0)
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
        self.times, self.lost = {path: [] for path in PATHS}, []
        self.paths = itertools.cycle(PATHS)

    async def run(self, until):
        streams = None
        while time.monotonic() < until:
            if streams is None:
                streams = await asyncio.open_connection(*self.address)
            begun, path = time.monotonic(), next(self.paths)
            try:
                closes = await self.ask(path, *streams)
            except Exception as e:
                self.lost.append(repr(e))
                closes = True
            self.times[path].append(time.monotonic() - begun)
            if closes:
                streams[1].close()
                streams = None
            await asyncio.sleep(random.random() / 50)
        if streams is not None:
            streams[1].close()

    async def ask(self, path, reader, writer):
        writer.write(b"POST " + path.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
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


async def misbehave(address, until, pause, kinds):
    """Be one bad client after the other."""
    while time.monotonic() < until:
        await asyncio.sleep(random.random() * 2 * pause)
        kind = random.choice(kinds)
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
    json.dump(({path: [t for c in clients for t in c.times[path]] for path in PATHS}, [e for c in clients for e in c.lost]), sys.stdout)


async def normal(address, seconds):
    """Run normal clients in a process of their own, so that they do not wait for the bad ones."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--normal", "{}:{}".format(*address), "--seconds", str(seconds), stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    by_path, lost = json.loads(out)
    print("p99 " + ", ".join(f"of {path} {p99(times):.1f} ms" for path, times in by_path.items()), flush=True)
    return [t for times in by_path.values() for t in times], lost


class Server:
    """A server with two workers, and what it has logged."""

    def __init__(self, name, app):
        self.name, self.app, self.errors, self.ready, self.address = name, app, [], 0, None

    async def start(self, watched):
        self.file = os.path.join(watched, "changes.py")
        only_here = ["--reload", "--reload-dir", watched] if self.name == "spindle" else ["--interface", "asgi3" if self.app == "asgi" else "wsgi"]
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", self.name, f"soak:{self.app}", "--port", "0", "--workers", "2", "--no-access-log", "--timeout-graceful-shutdown", "5",
            "--timeout-keep-alive", "60",  # a connection that is closed while the client stands still is no request lost
            *only_here, cwd=os.path.dirname(os.path.abspath(__file__)), stderr=asyncio.subprocess.PIPE)
        self.reading = asyncio.create_task(self.read())
        while self.ready < 2 or self.address is None:
            await asyncio.sleep(0.05)

    async def read(self):
        async for line in self.process.stderr:
            text = line.decode()
            self.ready += "is ready" in text or "startup complete" in text
            if self.address is None and (found := re.search(r" on http://([\d.]+):(\d+)", text)):
                self.address = found[1], int(found[2])
            if text.startswith(("ERROR", "Traceback")):
                self.errors.append(text.strip())

    def restart(self):
        self.process.send_signal(signal.SIGHUP)

    def reload(self):
        with open(self.file, "w") as f:
            f.write(f"# {time.time()}")

    def held(self):
        """Return the descriptors and megabytes of the supervisor and of the workers."""
        return [held(pid) for pid in (self.process.pid, *sorted(workers_of(self.process.pid)))]

    async def stop(self):
        self.process.terminate()
        await self.process.wait()
        await self.reading


async def replace(server, until):
    """Replace the workers again and again. Return how often."""
    for count in itertools.count():
        await asyncio.sleep(random.uniform(3, 8))
        if time.monotonic() > until:
            return count
        random.choice((server.restart, server.reload))()


async def phase(name, server, seconds, options, replaced):
    """Return the times of normal clients with bad ones beside them, what was lost, and what the processes hold afterwards."""
    until = time.monotonic() + seconds
    work = [normal(server.address, seconds), *(misbehave(options.target, until, options.pause, options.kinds) for _ in range(options.bad))]
    if replaced:
        work.append(replace(server, until - min(10, seconds / 4)))
    (times, lost), *others = await asyncio.gather(*work)
    print(f"{name}: {len(times)} requests, p99 {p99(times):.1f} ms, longest {max(times) * 1000:.0f} ms, lost {len(lost)}"
          + (f", workers replaced {others[-1]} times" if replaced else ""), *sorted(set(lost))[:5], flush=True)
    _, lost_after = await normal(server.address, min(8, seconds / 2))  # bad clients are gone, and old workers have ended
    after = server.held()
    print(f"{name}: descriptors and MB afterwards: {after}", flush=True)
    return times, lost + lost_after, after


def verdict(good, text):
    print(f"{'good' if good else 'BAD'}: {text}", flush=True)
    return good


def verdicts(quiet, times, lost, before, stayed, replaced, patience):
    """Print a line for each verdict. Return whether all are good."""
    most_fds = max(after[0] - begun[0] for held in (stayed, replaced) for begun, after in zip(before, held))
    most_mb = max(after[1] - begun[1] for begun, after in zip(before, stayed))
    return all([
        verdict(not lost, f"requests lost: {len(lost)} of {len(times)}"),
        verdict(max(times) <= patience, f"the longest wait, for the loop or a thread: {max(times):.2f} s (at most {patience:g})"),
        verdict(most_fds <= 2, f"descriptors more than at the start: {most_fds} (at most 2)"),
        verdict(most_mb <= 10, f"megabytes more than at the start: {most_mb} (at most 10, caches of allocators)"),
        verdict(len(replaced) == len(before), f"processes: {len(replaced)}, at the start {len(before)}"),
        verdict(p99(times) <= 2 * p99(quiet), f"p99 of normal clients: {p99(times):.1f} ms, alone {p99(quiet):.1f} ms (at most twice)"),
    ])


async def main(options):
    server = Server(options.server, options.app)
    with tempfile.TemporaryDirectory() as watched:
        await server.start(watched)
        other = Server(options.server, options.app) if options.apart else None
        if other:
            await other.start(watched)
        options.target = (other or server).address
        try:
            # The bad clients warm up what every process needs once: threads, buffers, modules.
            await asyncio.gather(*(misbehave(options.target, time.monotonic() + 3, 0.1, options.kinds) for _ in range(options.bad)))
            quiet, lost_alone = await normal(server.address, max(3, min(20, options.seconds / 10)))
            print(f"alone: {len(quiet)} requests, p99 {p99(quiet):.1f} ms, lost {len(lost_alone)}", flush=True)
            before = server.held()
            print(f"alone: descriptors and MB of the supervisor and the workers: {before}", flush=True)
            half = options.seconds / 2
            times, lost, stayed = await phase("workers stay", server, half, options, False)
            more, lost_more, replaced = [], [], stayed
            if options.server == "spindle":
                more, lost_more, replaced = await phase("workers change", server, half, options, True)
        finally:
            for each in filter(None, (server, other)):
                await each.stop()
    print("errors in the log:", len(server.errors), *server.errors[:3])
    good = verdicts(quiet, times + more, lost_alone + lost + lost_more, before, stayed, replaced, options.patience)
    return 0 if verdict(not server.errors, f"errors in the log: {len(server.errors)}") and good else 1


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=600)
    arguments.add_argument("--app", choices=["asgi", "wsgi"], default="asgi")
    arguments.add_argument("--bad", type=int, default=40, help="bad clients at a time")
    arguments.add_argument("--pause", type=float, default=1, help="seconds that a bad client rests, on average")
    arguments.add_argument("--patience", type=float, default=5, help="seconds that a request of a normal client may take")
    arguments.add_argument("--apart", action="store_true", help="bad clients use a server of their own")
    arguments.add_argument("--server", choices=["spindle", "uvicorn"], default="spindle")
    arguments.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS, help="of bad clients: " + ",".join(KINDS))
    arguments.add_argument("--normal", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.normal:
        host, _, port = options.normal.partition(":")
        asyncio.run(be_normal((host, int(port)), options.seconds))
    else:
        sys.exit(asyncio.run(main(options)))
