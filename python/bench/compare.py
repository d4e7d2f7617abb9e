"""Compares echo servers on Spindle, uvloop, rloop and asyncio.

    python python/bench/compare.py [--rounds N] [--window SECONDS] [--out FILE] [--svg FILE] [NAME ...]

The load generator is the one of bench/, in Go, on a core of its own; it checks every answer.
TLS, UDP and idle connections have clients in Python (load.py). Servers take turns within each
round. A figure is the median of requests per second of the server's CPU time; a ratio is the
median of Spindle's figure divided by that of another server in the same round. Of memory, less
is better. --out writes a table for each benchmark as Markdown, and --svg draws those.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile

import load

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))

# load, kind of server, connections, bytes of a message, messages in flight on each connection
BENCHMARKS = {
    "protocol-200": ("tcp", "protocol", 200, 64, 1),
    "protocol-8": ("tcp", "protocol", 8, 64, 1),
    "protocol-1k": ("tcp", "protocol", 200, 1024, 1),
    "protocol-100k": ("tcp", "protocol", 8, 100_000, 1),
    "in-flight-16": ("tcp", "protocol", 200, 64, 16),
    "buffered-200": ("tcp", "buffered", 200, 64, 1),
    "streams-200": ("tcp", "streams", 200, 64, 1),
    "tls-64": ("tls", "protocol", 32, 64, 1),
    "tls-16k": ("tls", "protocol", 8, 16_000, 1),
    "tls-streams": ("tls", "streams", 32, 64, 1),
    "udp-64": ("udp", "udp", 32, 64, 1),
    "idle-bytes": ("idle", "protocol", 2000, 1, 1),
}

CANNOT = {("rloop", "tls"): "rloop has no TLS"}


def loops(transport):
    return [name for name in ("spindle", "uvloop", "rloop", "asyncio")
            if (name == "asyncio" or importlib.util.find_spec(name)) and (name, transport) not in CANNOT]


class Bench:
    """The programs that every measurement needs."""

    def __init__(self, directory, window):
        self.window = window
        self.binary = os.path.join(directory, "load")
        subprocess.run(["go", "build", "-o", self.binary, "."], cwd=os.path.join(REPOSITORY, "bench"), check=True)
        self.certificate = os.path.join(directory, "certificate.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-keyout", self.certificate, "-out", self.certificate + ".crt"], check=True, stderr=subprocess.DEVNULL)
        with open(self.certificate, "a") as both, open(self.certificate + ".crt") as certificate:
            both.write(certificate.read())
        os.sched_setaffinity(0, {1 % os.cpu_count()})  # the clients in Python

    def measure(self, loop, transport, kind, connections, size, depth):
        """Return requests per second of CPU time, or bytes per connection."""
        command = ["taskset", "-c", "0", sys.executable, os.path.join(HERE, "echo.py"), loop, kind]
        if transport == "tls":
            command.append(self.certificate)
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            port = int(server.stdout.readline())
            if transport == "tls":
                return load.tls(server.pid, port, connections, size, self.window)
            if transport == "udp":
                return load.udp(server.pid, port, connections, size, self.window)
            if transport == "idle":
                return load.idle_bytes(server.pid, port, 500, connections)
            return self.generate(loop, server.pid, port, connections, size, depth)
        finally:
            server.terminate()
            server.wait()

    def generate(self, loop, pid, port, connections, size, depth):
        plan = {
            "Addr": f"127.0.0.1:{port}", "Pid": pid, "Conns": connections, "SizeBytes": size,
            "Depth": depth, "Warmup": 300_000_000, "Window": int(self.window * 1e9)}
        done = subprocess.run([self.binary, "load", json.dumps(plan)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{loop}: {done.stderr}")
        result = json.loads(done.stdout)
        return result["Requests"] / (result["CPU"] / 1e9)


def quartiles(values):
    values = sorted(values)
    return values[len(values) // 4], values[-1 - len(values) // 4]


def ratios(rates, other):
    return [ours / theirs for ours, theirs in zip(rates["spindle"], rates[other])]


def number(value):
    return f"{value / 1000:,.1f}k" if value >= 10_000 else f"{value:,.0f}"


def table(name, rates):
    """Return a table in the format of bench/report, which the chart command reads."""
    unit = "bytes / connection" if BENCHMARKS[name][0] == "idle" else "requests / CPU-s"
    lines = [f"## {name}", "", f"| loop | {unit} | min–max | spindle ÷ it | quartiles | min–max |",
             "|---|---:|---:|---:|---:|---:|"]
    order = sorted(rates, key=lambda loop: statistics.median(rates[loop]), reverse=unit.startswith("requests"))
    for loop in order:
        cells = [loop, number(statistics.median(rates[loop])), f"{number(min(rates[loop]))}–{number(max(rates[loop]))}"]
        if loop == "spindle":
            cells[0] = "**spindle**"
            cells += ["", "", ""]
        else:
            each = ratios(rates, loop)
            cells += [f"{statistics.median(each):.2f}", "{:.2f}–{:.2f}".format(*quartiles(each)), f"{min(each):.2f}–{max(each):.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def row(name, rates, others):
    cells = [name, number(statistics.median(rates["spindle"]))]
    for other in others:
        if other in rates:
            each = ratios(rates, other)
            cells.append("{:.2f} ({:.2f}–{:.2f})".format(statistics.median(each), *quartiles(each)))
        else:
            cells.append("")
    return "| " + " | ".join(cells) + " |"


def draw(markdown, names, svg):
    """Draw the tables with the chart command of bench/."""
    chart = subprocess.run(["go", "run", ".", "chart", os.path.abspath(markdown), *names],
                           cwd=os.path.join(REPOSITORY, "bench"), check=True, capture_output=True)
    with open(svg, "wb") as out:
        out.write(chart.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default all)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--window", type=float, default=1.0, help="seconds of load for each figure")
    parser.add_argument("--out", help="write a table for each benchmark to this file")
    parser.add_argument("--svg", help="draw the tables to this file")
    options = parser.parse_args()
    names = options.names or list(BENCHMARKS)
    others = [name for name in loops(None) if name != "spindle"]
    print("| echo | requests / CPU-s | " + " | ".join(f"÷ {name}" for name in others) + " |\n" +
          "|---|---:|" + "---:|" * len(others), flush=True)
    tables = []
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(directory, options.window)
        for name in names:
            rates = {loop: [] for loop in loops(BENCHMARKS[name][0])}
            for _ in range(options.rounds):
                for loop in rates:
                    rates[loop].append(bench.measure(loop, *BENCHMARKS[name]))
            tables.append(table(name, rates))
            print(row(name, rates, others), flush=True)
        markdown = options.out or os.path.join(directory, "tables.md")
        with open(markdown, "w") as out:
            out.write("\n".join(tables))
        if options.svg:
            draw(markdown, names, options.svg)


if __name__ == "__main__":
    main()
