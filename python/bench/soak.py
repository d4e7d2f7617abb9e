"""Serves clients of every bad kind for a while, and says what the good ones had to bear.

    python python/bench/soak.py --seconds 600
    python python/bench/soak.py --seconds 60 --app wsgi
    python python/bench/soak.py --seconds 60 --server uvicorn --kinds download,slow,half,abort
    SOAK_SWITCH_INTERVAL=0.0005 python python/bench/soak.py --seconds 60

Normal clients ask all the time. Bad ones leave at random, read slowly, stop in the middle of an upload, or stream. In
the first half of the time the workers stay, so that a leak shows. In the second half they are replaced every few seconds:
by SIGHUP (a restart), or because a file has changed (a reload). After each half everything but the normal clients is gone.

The first half is cut into slices of --slice seconds, which take turns: "alone" has no bad clients, in "apart" they use a second
server of the same kind, and in "mixed" they use that of the normal clients. So the p99 of "mixed" is compared with
others of the same seconds, and a busy or slow machine changes all of them. "apart" is the share of the machine, on which all
compete for the same cores; the rest of "mixed" is the server's.

A line for each verdict: no request of a normal client was lost; none waited for a thread or the loop for more than
--patience seconds; memory and descriptors are as at the start; the p99 of "mixed" is at most twice that of "alone", as
medians of the slices. The exit code is 1 if a verdict is bad. A machine that stands still is not the server's fault: time in which the
clients' own process did not run does not count, and a request that fails over ten such seconds is not lost, but counted apart.

uvicorn gives the figures a measure. It has no reload with workers, so they stay. It never learns that the client of an endless
stream is gone, so leave the kind "stream" out for both. SOAK_SWITCH_INTERVAL is the time after which a thread of Python has to
give up the GIL: a request that uses a thread waits for the GIL twice.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time

import soak_clients
from soak_clients import KINDS, PATHS, misbehave

if interval := os.environ.get("SOAK_SWITCH_INTERVAL"):
    sys.setswitchinterval(float(interval))

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


def p99(times):
    """Return the p99 of seconds, in milliseconds."""
    times = sorted(times)
    return times[int(len(times) * 0.99)] * 1000


def workers_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


def held(pid):
    """Return descriptors and megabytes of a process."""
    with open(f"/proc/{pid}/statm") as f:
        return len(os.listdir(f"/proc/{pid}/fd")), int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


async def normal(address, seconds):
    """Run normal clients in a process of their own, so that they do not wait for the bad ones."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, soak_clients.__file__, address[0], str(address[1]), str(seconds), stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return json.loads(out)


class Totals:
    """What the normal clients of all phases had to bear."""

    def __init__(self):
        self.count, self.longest, self.lost, self.excused = 0, 0.0, [], []

    def add(self, name, result):
        seconds = [each[2] for each in result["asked"]]
        self.count += len(seconds)
        self.longest = max(self.longest, *seconds)
        self.lost += result["lost"]
        self.excused += result["excused"]
        by_path = ", ".join(f"of {path} {p99(t for p, _, t in result['asked'] if p == path):.1f} ms" for path in PATHS)
        print(f"{name}: {len(seconds)} requests, p99 {by_path}, longest {max(seconds) * 1000:.0f} ms, lost {len(result['lost'])}",
              *sorted(set(result["lost"]))[:5], flush=True)


class Slices:
    """Which bad clients there were when."""

    def __init__(self):
        self.ends = []  # kind, begin, end

    async def run(self, servers, until, options):
        """Let bad clients use the server of each kind in turn. They leave at the end of a slice."""
        for kind in itertools.cycle(servers):
            begun = time.monotonic()
            end = min(begun + options.slice, until)
            if begun >= end - 1:
                return
            bad = [asyncio.create_task(misbehave(servers[kind].address, end, options.pause, options.kinds)) for _ in range(options.bad if servers[kind] else 0)]
            await asyncio.sleep(end - begun)
            for client in bad:
                client.cancel()
            await asyncio.gather(*bad, return_exceptions=True)
            self.ends.append((kind, begun, time.monotonic()))

    def p99s(self, asked, paths):
        """Return for each kind the median of its slices' p99, without the second in which the bad clients come or go."""
        found = {}
        for kind, begun, end in self.ends:
            if times := [seconds for path, at, seconds in asked if path in paths and begun + 1 <= at < end]:
                found.setdefault(kind, []).append(p99(times))
        return {kind: statistics.median(each) for kind, each in found.items()}

    def compared(self, asked, paths):
        """Return how many times the p99 of "alone" that of "mixed" is, and a text about it."""
        p99s = self.p99s(asked, paths)
        if len(p99s) < 3:
            return float("inf"), f"only {', '.join(p99s)}; the time was too short for a slice of each kind"
        ratio = p99s["mixed"] / p99s["alone"]
        return ratio, ", ".join(f"{kind} {ms:.1f} ms" for kind, ms in p99s.items()) + f"; mixed ÷ alone {ratio:.2f}, ÷ apart {p99s['mixed'] / p99s['apart']:.2f}"


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


async def phase(name, server, seconds, totals, *work):
    """Run normal clients beside other work. Return what they saw, what the processes hold afterwards, and the results of work."""
    result, *others = await asyncio.gather(normal(server.address, seconds), *work)
    totals.add(name, result)
    totals.add(name + ", afterwards", await normal(server.address, min(8, seconds / 2)))  # bad clients are gone, and old workers have ended
    after = server.held()
    print(f"{name}: descriptors and MB afterwards: {after}", flush=True)
    return result["asked"], after, others


def verdict(good, text):
    print(f"{'good' if good else 'BAD'}: {text}", flush=True)
    return good


def verdicts(totals, compared, before, stayed, replaced, errors, patience):
    """Print a line for each verdict. Return whether all are good."""
    most_fds = max(after[0] - begun[0] for held in (stayed, replaced) for begun, after in zip(before, held))
    most_mb = max(after[1] - begun[1] for begun, after in zip(before, stayed))
    return all([
        verdict(not totals.lost, f"requests lost: {len(totals.lost)} of {totals.count}; {len(totals.excused)} failed over a standstill of the machine"),
        verdict(totals.longest <= patience, f"the longest wait, for the loop or a thread: {totals.longest:.2f} s (at most {patience:g})"),
        verdict(most_fds <= 2, f"descriptors more than at the start: {most_fds} (at most 2)"),
        verdict(most_mb <= 10, f"megabytes more than at the start: {most_mb} (at most 10, caches of allocators)"),
        verdict(len(replaced) == len(before), f"processes: {len(replaced)}, at the start {len(before)}"),
        verdict(compared[0] <= 2, f"p99 of normal clients, medians of slices: {compared[1]} (at most 2 × alone)"),
        verdict(not errors, f"errors in the log: {len(errors)}"),
    ])


async def main(options):
    server, other = Server(options.server, options.app), Server(options.server, options.app)
    totals, slices, half = Totals(), Slices(), options.seconds / 2

    async def misbehave_all(until):
        await asyncio.gather(*(misbehave(server.address, until, options.pause, options.kinds) for _ in range(options.bad)))

    with tempfile.TemporaryDirectory() as watched:
        await server.start(watched)
        os.mkdir(beside := os.path.join(watched, "beside"))
        await other.start(beside)  # does not reload
        try:
            # The bad clients warm up what every process needs once: threads, buffers, modules.
            await misbehave_all(time.monotonic() + 3)
            totals.add("alone", await normal(server.address, 3))
            before = server.held()
            print(f"alone: descriptors and MB of the supervisor and the workers: {before}", flush=True)
            asked, stayed, _ = await phase(
                "workers stay", server, half, totals,
                slices.run({"alone": None, "apart": other, "mixed": server}, time.monotonic() + half, options))
            replaced = stayed
            if options.server == "spindle":
                until = time.monotonic() + half
                _, replaced, (_, count) = await phase(
                    "workers change", server, half, totals, misbehave_all(until), replace(server, until - min(10, half / 4)))
                print(f"workers change: replaced {count} times", flush=True)
        finally:
            await server.stop()
            await other.stop()
    if server.errors:
        print(*server.errors[:3], sep="\n")
    for path in PATHS:
        print(f"p99 of {path}, medians of slices: {slices.compared(asked, [path])[1]}")
    return 0 if verdicts(totals, slices.compared(asked, PATHS), before, stayed, replaced, server.errors, options.patience) else 1


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=600)
    arguments.add_argument("--app", choices=["asgi", "wsgi"], default="asgi")
    arguments.add_argument("--bad", type=int, default=40, help="bad clients at a time")
    arguments.add_argument("--pause", type=float, default=1, help="seconds that a bad client rests, on average")
    arguments.add_argument("--patience", type=float, default=5, help="seconds that a request of a normal client may take")
    arguments.add_argument("--slice", type=float, default=5, help="seconds with and without bad clients, in turns")
    arguments.add_argument("--server", choices=["spindle", "uvicorn"], default="spindle")
    arguments.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS, help="of bad clients: " + ",".join(KINDS))
    sys.exit(asyncio.run(main(arguments.parse_args())))
