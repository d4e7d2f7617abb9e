"""Compares the server with uvicorn and Granian: requests per second of the server's CPU time.

    python python/bench/server.py                      # all cases
    python python/bench/server.py plaintext starlette  # some of them

Needs wrk, and uvicorn[standard], granian, starlette and fastapi. Every server has one worker.
The servers take turns within each round; the figure is the median of the rounds.
"""

import argparse
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

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

# name: app, path, wrk script
CASES = {
    "plaintext": ("server_apps:plaintext", "/", ""),
    "starlette": ("server_apps:starlette", "/json", ""),
    "fastapi": ("server_apps:fastapi", "/items", JSON),
    "echo10k": ("server_apps:echo", "/", POST),
    "stream1m": ("server_apps:stream", "/", ""),
    "wsgi": ("server_apps:wsgi", "/", ""),
}


def command(server, app, port, wsgi):
    if server == "spindle":
        return [sys.executable, "-m", "spindle", app, "--port", port, "--no-access-log", "--log-level", "warning",
                "--interface", "wsgi" if wsgi else "asgi3"]
    if server == "uvicorn":
        return [sys.executable, "-m", "uvicorn", app, "--port", port, "--no-access-log", "--log-level", "warning",
                "--loop", "uvloop", "--http", "httptools", "--interface", "wsgi" if wsgi else "asgi3"]
    return [sys.executable, "-m", "granian", app, "--port", port, "--interface", "wsgi" if wsgi else "asgi",
            "--no-access-log", "--log-level", "warning", "--workers", "1"]


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
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", int(port)), 1).close()
            return
        except OSError:
            if process.poll() is not None:
                sys.exit(f"the server ended with {process.returncode}")
            time.sleep(0.05)
    sys.exit("the server does not listen")


def measure(port, pid, path, script, seconds, connections):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as f:
        f.write(script)
        f.flush()
        wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", f"http://127.0.0.1:{port}{path}"]
        before = cpu(pid)
        out = subprocess.run(wrk + (["-s", f.name] if script else []), capture_output=True, text=True, check=True).stdout
        used = cpu(pid) - before
    requests = int(re.search(r"(\d+) requests in", out).group(1))
    if "Non-2xx" in out or "Socket errors" in out:
        print(out)
    return requests / used, float(re.search(r"Requests/sec: +([\d.]+)", out).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=[], help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--servers", default="spindle,uvicorn,granian")
    args = parser.parse_args()
    for case in args.cases or CASES:
        app, path, script = CASES[case]
        running = {}
        for server in args.servers.split(","):
            port = free_port()
            process = subprocess.Popen(command(server, app, port, case == "wsgi"), cwd=HERE, stdin=subprocess.DEVNULL,
                                       env={**os.environ, "PYTHONPATH": HERE + os.pathsep + os.environ.get("PYTHONPATH", "")})
            running[server] = port, process
        try:
            results = {server: [] for server in running}
            for server, (port, process) in running.items():
                wait_for(port, process)
                measure(port, process.pid, path, script, 1, args.connections)
            for _ in range(args.rounds):
                for server, (port, process) in running.items():
                    results[server].append(measure(port, process.pid, path, script, args.seconds, args.connections))
        finally:
            for _, process in running.values():
                process.terminate()
            for _, process in running.values():
                process.wait()
        own = statistics.median(r[0] for r in results["spindle"]) if "spindle" in results else None
        for server, rounds in results.items():
            per_cpu = statistics.median(r[0] for r in rounds)
            ratio = f"   spindle is {own / per_cpu:.2f} x" if own and server != "spindle" else ""
            print(f"{case:10} {server:8} {per_cpu:9.0f} per CPU second, {statistics.median(r[1] for r in rounds):9.0f} per second{ratio}",
                  flush=True)


if __name__ == "__main__":
    main()
