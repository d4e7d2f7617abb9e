"""Compares the server with uvicorn and Granian, and prints a Markdown table.

    python python/bench/server.py                      # all cases, about 9 minutes
    python python/bench/server.py plaintext starlette  # some of them
    python python/bench/server.py --rounds 2 --seconds 2

Most cases count requests per second of the server's CPU time, with one worker. "p99" compares
latencies while every server gets half the load that the slowest one can bear; "workers" compares
two workers with one, in requests per second. The servers take turns within each round; a figure
is the median of the rounds.

Needs wrk, and uvicorn[standard], granian, starlette, fastapi and flask.
"""

import argparse
import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import server_load

HERE = os.path.dirname(os.path.abspath(__file__))

POST = """
wrk.method = "POST"
wrk.body = string.rep("x", 10240)
wrk.headers["Content-Type"] = "application/octet-stream"
"""
JSON = """
wrk.method = "POST"
wrk.body = '{"name": "spindle", "price": 12.5, "tags": ["a", "b"]}'
wrk.headers["Content-Type"] = "application/json"
"""
# A pause before each request, so that the connections together send at a rate.
PAUSE = """
math.randomseed(1)
function delay() return math.random(0, %d) end
"""

SERVERS = ("spindle", "uvicorn", "granian")
UVICORN_WS = ("websockets", "websockets-sansio", "wsproto")


class Case:
    """What is measured, and what the figures should be at least."""

    def __init__(self, title, app, path="/", script="", wsgi=False, goals=()):
        self.title, self.app, self.path, self.script, self.wsgi = title, "server_apps:" + app, path, script, wsgi
        self.goals = dict(goals)


CASES = {
    "plaintext": Case("plaintext", "plaintext", goals={"uvicorn": 2.5, "granian": 1.2}),
    "starlette": Case("Starlette, JSON", "starlette", "/json", goals={"uvicorn": 1.8}),
    "fastapi": Case("FastAPI, Pydantic body", "fastapi", "/items", JSON, goals={"uvicorn": 1.3}),
    "echo10k": Case("10 KB POST, echoed", "echo", script=POST, goals={"uvicorn": 1.5}),
    "stream1m": Case("1 MB in pieces of 64 KB", "stream", goals={"uvicorn": 1.5}),
    "websocket": Case("WebSocket, 64 bytes echoed", "websocket", goals={"uvicorn": 2.0}),
    "wsgi": Case("Flask (WSGI)", "wsgi", wsgi=True, goals={"granian": 1.2}),
    "p99": Case("p99 at half load, Starlette", "starlette", "/json", goals={"uvicorn": 1.0, "granian": 1.0}),
    "workers": Case("two workers against one", "work", goals={"one worker": 1.7}),
}


def command(server, case, port, workers=1):
    """Return the command of a server. A server of uvicorn may name its WebSocket protocol: uvicorn/wsproto."""
    server, _, ws = server.partition("/")
    common = [case.app, "--port", port, "--no-access-log", "--log-level", "warning", "--workers", str(workers)]
    if server == "spindle":
        return [sys.executable, "-m", "spindle", *common, "--interface", "wsgi" if case.wsgi else "asgi3"]
    if server == "uvicorn":
        return [sys.executable, "-m", "uvicorn", *common, "--loop", "uvloop", "--http", "httptools",
                "--interface", "wsgi" if case.wsgi else "asgi3", *(["--ws", ws] if ws else [])]
    return [sys.executable, "-m", "granian", *common, "--interface", "wsgi" if case.wsgi else "asgi"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def tree(pid):
    pids = [pid]
    for p in pids:
        for task in os.listdir(f"/proc/{p}/task"):
            with open(f"/proc/{p}/task/{task}/children") as f:
                pids += [int(c) for c in f.read().split()]
    return pids


def cpu(pid):
    total = 0
    for p in tree(pid):
        with open(f"/proc/{p}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def wait_for(port, process):
    for _ in range(400):
        try:
            socket.create_connection(("127.0.0.1", int(port)), 1).close()
            return
        except OSError:
            if process.poll() is not None:
                sys.exit(f"the server ended with {process.returncode}")
            time.sleep(0.05)
    sys.exit("the server does not listen")


@contextlib.contextmanager
def running(commands):
    """Start servers, and yield their ports and processes."""
    started = {}
    environment = {**os.environ, "PYTHONPATH": HERE + os.pathsep + os.environ.get("PYTHONPATH", "")}
    try:
        for name, make in commands.items():
            port = free_port()
            started[name] = port, subprocess.Popen(make(port), cwd=HERE, stdin=subprocess.DEVNULL, env=environment)
        for port, process in started.values():
            wait_for(port, process)
        yield started
    finally:
        for _, process in started.values():
            process.terminate()
        for _, process in started.values():
            process.wait()


class Result:
    """What wrk has found."""

    def __init__(self, text):
        if "Non-2xx" in text or "Socket errors" in text:
            print(text, file=sys.stderr)
        self.requests = int(re.search(r"(\d+) requests in", text).group(1))
        self.rate = float(re.search(r"Requests/sec: +([\d.]+)", text).group(1))
        number, unit = re.search(r"99% +([\d.]+)(us|ms|s)", text).groups()
        self.p99 = float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]  # milliseconds


def wrk(port, case, seconds, connections, extra=""):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as f:
        f.write(case.script + extra)
        f.flush()
        arguments = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", f.name,
                     f"http://127.0.0.1:{port}{case.path}"]
        if not case.script + extra:
            del arguments[5:7]
        return Result(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


def turns(servers, rounds, measure):
    """Measure each server once in each round. Return the median of each."""
    results = {name: [] for name in servers}
    for _ in range(rounds):
        for name, (port, process) in servers.items():
            results[name].append(measure(port, process.pid))
    return {name: statistics.median(values) for name, values in results.items()}


def per_cpu_second(name, case, args):
    names = [s for s in args.servers if s != "uvicorn" or name != "websocket"]
    if name == "websocket" and "uvicorn" in args.servers:
        names += [f"uvicorn/{ws}" for ws in UVICORN_WS]

    def measure(port, pid, seconds=args.seconds):
        before = cpu(pid)
        if name == "websocket":
            count = server_load.websocket(int(port), args.connections, 64, seconds)
        else:
            count = wrk(port, case, seconds, args.connections).requests
        return count / (cpu(pid) - before)

    with running({s: lambda port, s=s: command(s, case, port) for s in names}) as servers:
        turns(servers, 1, lambda port, pid: measure(port, pid, 1))
        medians = turns(servers, args.rounds, measure)
    best = {}
    for server, value in medians.items():
        print(f"{name} {server}: {value:.0f} per CPU second", file=sys.stderr)
        best[server.partition("/")[0]] = max(value, best.get(server.partition("/")[0], 0))
    return f"{best.get('spindle', 0):,.0f}/s", {s: best["spindle"] / v for s, v in best.items() if s != "spindle"}


def p99(name, case, args):
    with running({s: lambda port, s=s: command(s, case, port) for s in args.servers}) as servers:
        slowest = min(turns(servers, 1, lambda port, pid: wrk(port, case, args.seconds, args.connections).rate).values())
        pause = PAUSE % round(2 * args.connections / (slowest / 2) * 1000)
        medians = turns(servers, args.rounds, lambda port, pid: wrk(port, case, args.seconds, args.connections, pause).p99)
    for server, value in medians.items():
        print(f"{name} {server}: {value:.2f} ms at {slowest / 2:.0f} per second", file=sys.stderr)
    return f"{medians['spindle']:.2f} ms", {s: v / medians["spindle"] for s, v in medians.items() if s != "spindle"}


def workers(name, case, args):
    with running({n: lambda port, n=n: command("spindle", case, port, n) for n in (1, 2)}) as servers:
        medians = turns(servers, args.rounds, lambda port, pid: wrk(port, case, args.seconds, args.connections).rate)
    for count, value in medians.items():
        print(f"{name} {count}: {value:.0f} per second", file=sys.stderr)
    return f"{medians[2]:,.0f}/s", {"one worker": medians[2] / medians[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=[], help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--servers", default=",".join(SERVERS))
    args = parser.parse_args()
    args.servers = args.servers.split(",")
    print("| | here | against uvicorn | against Granian | goal |\n|---|---:|---:|---:|---|", flush=True)
    for name in args.cases or CASES:
        case = CASES[name]
        figure, ratios = {"p99": p99, "workers": workers}.get(name, per_cpu_second)(name, case, args)
        columns = [f"{ratios[s]:.2f}" if s in ratios else "" for s in ("uvicorn", "granian")]
        if "one worker" in ratios:
            columns[0] = f"{ratios['one worker']:.2f} × one worker"
        missed = [s for s, goal in case.goals.items() if s in ratios and ratios[s] < goal]
        goal = ", ".join(f"{s} {g}" for s, g in case.goals.items()) + (" (**missed**)" if missed else "")
        print(f"| {case.title} | {figure} | {columns[0]} | {columns[1]} | {goal} |", flush=True)


if __name__ == "__main__":
    main()
