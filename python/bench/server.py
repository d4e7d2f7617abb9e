"""Compares the server with others, and prints a Markdown table.

    python python/bench/server.py                      # all cases, about 10 minutes
    python python/bench/server.py --part 1/3           # a third of them
    python python/bench/server.py plaintext starlette  # some of them
    python python/bench/server.py --rounds 2 --seconds 2
    python python/bench/server.py --before DIR         # beside an older build of this server, in DIR/spindle

Most cases count requests per second of the server's CPU time, with one worker. "p99" compares
latencies while every server gets requests at the same constant rate: half of what the slowest one can
bear. "workers" compares two workers with one, and "mounted" a Go program that mounts the app with
pyapp with the server itself, in requests per second. The servers take turns within each round; a
figure is the median of the rounds, and a ratio the median of the ratios in the same round, in bold if it is below 1.

The others are those of server_commands.py that are installed: uvicorn, Granian (ASGI and RSGI), Hypercorn, Robyn, socketify
and fastpysgi. RSGI and Robyn run apps of their own kind, so they take part in "plaintext" only. "http2" is "plaintext" by h2load with
32 connections of 16 streams, without TLS, for the servers that speak HTTP/2.

Needs wrk, h2load, Go, starlette, fastapi and flask:

    pip install 'uvicorn[standard]' granian hypercorn robyn socketify fastpysgi starlette fastapi flask
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
from server_commands import COMMANDS, command, installed, older

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
UVICORN_WS = ("websockets", "websockets-sansio", "wsproto")


class Case:
    """What is measured, and what the figures should be at least."""

    def __init__(self, title, app, path="/", script="", wsgi=False, http2=False, goals=()):
        self.title, self.name, self.path, self.script, self.wsgi, self.http2 = title, app, path, script, wsgi, http2
        self.app = "server_apps:" + app
        self.goals = dict(goals)


CASES = {
    "plaintext": Case("plaintext", "plaintext", goals={"uvicorn": 2.5, "granian": 1.2}),
    "http2": Case("plaintext, HTTP/2", "plaintext", http2=True, goals={"granian": 1.5, "hypercorn": 5.0}),
    "starlette": Case("Starlette, JSON", "starlette", "/json", goals={"uvicorn": 1.8}),
    "fastapi": Case("FastAPI, Pydantic body", "fastapi", "/items", JSON, goals={"uvicorn": 1.3}),
    "echo10k": Case("10 KB POST, echoed", "echo", script=POST, goals={"uvicorn": 1.5}),
    "stream1m": Case("1 MB in pieces of 64 KB", "stream", goals={"uvicorn": 1.5}),
    "websocket": Case("WebSocket, 64 bytes echoed", "websocket", goals={"uvicorn": 2.0}),
    "wsgi": Case("Flask (WSGI)", "wsgi", wsgi=True, goals={"granian": 1.2}),
    "p99": Case("p99 at half load, Starlette", "starlette", "/json", goals={"uvicorn": 1.0, "granian": 1.0}),
    "workers": Case("two workers against one", "work", goals={"one": 1.7}),
    "mounted": Case("mounted with pyapp against direct, Starlette", "starlette", "/json", goals={"direct": 0.6}),
    "mounted-fastapi": Case("mounted with pyapp against direct, FastAPI", "fastapi", "/items", JSON, goals={"direct": 0.6}),
}


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
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:  # Robyn ignores the signal
                process.kill()
                process.wait()


class Result:
    """What wrk has found."""

    def __init__(self, text):
        if "Non-2xx" in text or "Socket errors" in text:
            print(text, file=sys.stderr)
        self.requests = int(re.search(r"(\d+) requests in", text).group(1))
        self.rate = float(re.search(r"Requests/sec: +([\d.]+)", text).group(1))


def wrk(port, case, seconds, connections):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as f:
        f.write(case.script)
        f.flush()
        script = ["-s", f.name] if case.script else []
        return Result(subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", *script,
                                      f"http://127.0.0.1:{port}{case.path}"], capture_output=True, text=True, check=True).stdout)


@contextlib.contextmanager
def built(package):
    """Build a program of the module bench, and yield its path."""
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, package)
        subprocess.run(["go", "build", "-buildvcs=false", "-o", program, "./" + package],
                       cwd=os.path.join(HERE, "..", "..", "bench"), check=True)
        yield program


def turns(servers, rounds, measure):
    """Measure each server once in each round. Return the results of each."""
    results = {name: [] for name in servers}
    for _ in range(rounds):
        for name, (port, process) in servers.items():
            results[name].append(measure(port, process.pid))
    return results


def paired(results, one, other):
    """Return the median of the ratios of two servers in the same round."""
    return statistics.median(a / b if b else float("inf") for a, b in zip(results[one], results[other]))


def per_cpu_second(name, case, args):
    names = [s for s in args.servers if command(s, case, "0") and (s != "uvicorn" or name != "websocket")]
    if name == "websocket" and "uvicorn" in args.servers:
        names += [f"uvicorn/{ws}" for ws in UVICORN_WS]

    def measure(port, pid, seconds=args.seconds):
        before = cpu(pid)
        if name == "websocket":
            count = server_load.websocket(int(port), args.connections, 64, seconds)
        elif case.http2:
            count = server_load.h2load(port, case.path, seconds)
        else:
            count = wrk(port, case, seconds, args.connections).requests
        return count / (cpu(pid) - before)

    with running({s: lambda port, s=s: command(s, case, port) for s in names}) as servers:
        turns(servers, 1, lambda port, pid: measure(port, pid, 1))
        results = turns(servers, args.rounds, measure)
    ratios = {}
    for server, values in results.items():
        print(f"{name} {server}: {statistics.median(values):.0f} per CPU second", file=sys.stderr)
        if server != "spindle":  # of several protocols the fastest counts
            package = server.partition("/")[0]
            ratios[package] = min(paired(results, "spindle", server), ratios.get(package, float("inf")))
    return f"{statistics.median(results['spindle']):,.0f}/s", ratios


def p99(name, case, args):
    names = [s for s in args.servers if command(s, case, "0")]
    with built("rate") as program, running({s: lambda port, s=s: command(s, case, port) for s in names}) as servers:
        turns(servers, 1, lambda port, pid: wrk(port, case, 1, args.connections).rate)
        rates = turns(servers, 3, lambda port, pid: wrk(port, case, 1, args.connections).rate)
        capacity = {server: statistics.median(values) for server, values in rates.items()}
        slowest = min(capacity.values())

        def measure(port, _):
            text = subprocess.run([program, "-rate", str(slowest / 2), "-conns", str(args.connections), "-for", f"{args.seconds}s",
                                   f"http://127.0.0.1:{port}{case.path}"], capture_output=True, text=True, check=True).stdout
            return float(re.search(r"p99 ([\d.]+)", text).group(1))  # milliseconds

        results = turns(servers, args.rounds, measure)
    for server, values in results.items():
        print(f"{name} {server}: {statistics.median(values):.2f} ms at {slowest / 2:.0f} of {capacity[server]:.0f} per second", file=sys.stderr)
    return f"{statistics.median(results['spindle']):.2f} ms", {s: paired(results, s, "spindle") for s in results if s != "spindle"}


def throughput(name, commands, case, args):
    """Compare the first of two commands with the second, in requests per second."""
    with running(commands) as servers:
        turns(servers, 1, lambda port, pid: wrk(port, case, 1, args.connections).rate)
        results = turns(servers, args.rounds, lambda port, pid: wrk(port, case, args.seconds, args.connections).rate)
    for server, values in results.items():
        print(f"{name} {server}: {statistics.median(values):.0f} per second", file=sys.stderr)
    ours, other = results
    return f"{statistics.median(results[ours]):,.0f}/s", {other: paired(results, ours, other)}


def workers(name, case, args):
    return throughput(name, {"two": lambda port: command("spindle", case, port, 2),
                             "one": lambda port: command("spindle", case, port, 1)}, case, args)


def mounted(name, case, args):
    with built("mounted") as program:
        return throughput(name, {
            "mounted": lambda port: [program, "-python", sys.executable, "-dir", HERE, "-addr", "127.0.0.1:" + port, case.app],
            "direct": lambda port: command("spindle", case, port)}, case, args)


MEASURES = {"p99": p99, "workers": workers, "mounted": mounted, "mounted-fastapi": mounted}


def part(names, text):
    """Return the part of names that 2/3 or so stands for."""
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        sys.exit(f"--part {text}: say for instance 2/3")
    return names[int(number) - 1::int(of)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=[], help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--servers", default=",".join(installed()), help="of " + ", ".join(installed()))
    parser.add_argument("--part", default="1/1", help="which part of the cases: 1/3, 2/3 or 3/3, for instance")
    parser.add_argument("--before", metavar="DIR", help="compare with the build of this server in DIR/spindle, and with no other server")
    args = parser.parse_args()
    args.servers = args.servers.split(",")
    if args.before:
        args.servers, COMMANDS["before"] = ["spindle", "before"], older(os.path.abspath(args.before))
    if unknown := set(args.cases) - set(CASES):
        sys.exit(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    others = [name for name in args.servers if name != "spindle"]
    print("| | here | " + "".join(f"÷ {name} | " for name in others) + "goal |\n|---|---:|" + "---:|" * len(others) + "---|", flush=True)
    for name in part(args.cases or list(CASES), args.part):
        case = CASES[name]
        figure, ratios = MEASURES.get(name, per_cpu_second)(name, case, args)
        columns = [number(ratios[s]) if s in ratios else "" for s in others]
        figure += "".join(f", {ratios[s]:.2f} × {s}" for s in ("one", "direct") if s in ratios)
        missed = [s for s, goal in case.goals.items() if s in ratios and ratios[s] < goal]
        goal = ", ".join(f"{s} {g}" for s, g in case.goals.items()) + (" (**missed**)" if missed else "")
        print(f"| {case.title} | {figure} | {''.join(f'{c} | ' for c in columns)}{goal} |", flush=True)


def number(ratio):
    if ratio == float("inf"):
        return "serves none"
    return f"{ratio:.2f}" if ratio >= 1 else f"**{ratio:.2f}**"


if __name__ == "__main__":
    main()
