"""Compares echo servers on Spindle, uvloop, rloop and asyncio.

    python python/bench/compare.py [--rounds N] [--window SECONDS] [NAME ...]

The load generator is the one of bench/, in Go, on a core of its own; it checks every answer.
Servers take turns within each round. A figure is the median of requests per second of the
server's CPU time; a ratio is the median of Spindle's figure divided by that of another server
in the same round. It prints a table and writes it to --out as Markdown.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))

# kind of server, connections, bytes of a message, messages in flight on each connection
BENCHMARKS = {
    "protocol-200": ("protocol", 200, 64, 1),
    "protocol-8": ("protocol", 8, 64, 1),
    "protocol-1k": ("protocol", 200, 1024, 1),
    "protocol-100k": ("protocol", 8, 100_000, 1),
    "in-flight-16": ("protocol", 200, 64, 16),
    "buffered-200": ("buffered", 200, 64, 1),
    "streams-200": ("streams", 200, 64, 1),
}


def loops():
    return [name for name in ("spindle", "uvloop", "rloop", "asyncio")
            if name == "asyncio" or importlib.util.find_spec(name)]


def build_load(directory):
    binary = os.path.join(directory, "load")
    subprocess.run(["go", "build", "-o", binary, "."], cwd=os.path.join(REPOSITORY, "bench"), check=True)
    return binary


def measure(load, loop, kind, connections, size, depth, window):
    """Return requests per second of CPU time."""
    server = subprocess.Popen(
        ["taskset", "-c", "0", sys.executable, os.path.join(HERE, "echo.py"), loop, kind],
        stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline())
        plan = {
            "Addr": f"127.0.0.1:{port}", "Pid": server.pid, "Conns": connections, "SizeBytes": size,
            "Depth": depth, "Warmup": 300_000_000, "Window": int(window * 1e9)}
        done = subprocess.run(
            ["taskset", "-c", "1", load, "load", json.dumps(plan)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{loop} {kind}: {done.stderr}")
        result = json.loads(done.stdout)
        return result["Requests"] / (result["CPU"] / 1e9)
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default all)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--window", type=float, default=1.0, help="seconds of load for each figure")
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    others = [name for name in loops() if name != "spindle"]
    lines = ["| echo | requests / CPU-s | " + " | ".join(f"÷ {name}" for name in others) + " |",
             "|---|---:|" + "---:|" * len(others)]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        load = build_load(directory)
        for name in options.names or BENCHMARKS:
            rates = {loop: [] for loop in loops()}
            for _ in range(options.rounds):
                for loop in rates:
                    rates[loop].append(measure(load, loop, *BENCHMARKS[name], options.window))
            ours = rates["spindle"]
            ratios = []
            for other in others:
                each = sorted(a / b for a, b in zip(ours, rates[other]))
                ratios.append(f"{statistics.median(each):.2f} ({each[len(each) // 4]:.2f}–{each[-1 - len(each) // 4]:.2f})")
            lines.append(f"| {name} | {statistics.median(ours) / 1000:,.1f}k | " + " | ".join(ratios) + " |")
            print(lines[-1], flush=True)
    if options.out:
        with open(options.out, "w") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
