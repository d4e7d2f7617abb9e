"""The servers that are compared: how each is started, and what its app has recorded."""

import contextlib
import importlib.metadata
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

from .wire import LIMIT, Socket, Wire

HERE = pathlib.Path(__file__).parent


def commands(port, graceful):
    """Return the command of each server."""
    port, graceful, python = str(port), str(graceful), sys.executable
    return {
        "Spindle": [python, "-m", "spindle", "app:app", "--port", port, "--no-access-log", "--timeout-keep-alive", "60",
                    "--timeout-graceful-shutdown", graceful],
        "uvicorn": [python, "-m", "uvicorn", "app:app", "--port", port, "--no-access-log", "--timeout-keep-alive", "60",
                    "--timeout-graceful-shutdown", graceful, "--http", "httptools", "--ws", "websockets-sansio"],
        "Granian": [python, "-m", "granian", "app:app", "--port", port, "--interface", "asgi", "--no-access-log",
                    "--workers-kill-timeout", graceful],
        "Hypercorn": [python, "-m", "hypercorn", "app:app", "--bind", f"127.0.0.1:{port}", "--keep-alive", "60",
                      "--graceful-timeout", graceful],
    }


PACKAGES = {"Spindle": ["spindle-loop"], "uvicorn": ["uvicorn", "httptools", "websockets"], "Granian": ["granian"],
            "Hypercorn": ["hypercorn"]}
NAMES = list(PACKAGES)


def version(name):
    """Return the version of a server, None if it or a package that it needs is not installed."""
    try:
        return [importlib.metadata.version(package) for package in PACKAGES[name]][0]
    except importlib.metadata.PackageNotFoundError:
        return None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Peer:
    """A server that runs, or has run."""

    def __init__(self, name, directory, lifespan="complete", graceful=10):
        self.name, self.port = name, free_port()
        self.facts = directory / f"record-{self.port}"
        self.facts.write_text("")
        self.log = directory / f"log-{self.port}"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                commands(self.port, graceful)[name], cwd=HERE, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "PEERS_RECORD": str(self.facts), "PEERS_LIFESPAN": lifespan, "PYTHONDONTWRITEBYTECODE": "1"})
        self.used = 0
        self.lock = threading.Lock()

    def id(self):
        """Return a new query string, for a request with facts that are recorded."""
        with self.lock:
            self.used += 1
            return f"id{self.used}"

    def connect(self):
        return Wire(self.port)

    def socket(self, path, **options):
        return Socket(self.port, path, **options)

    def wait_until_ready(self):
        """Wait until the server answers. Report whether it does."""
        end = time.monotonic() + LIMIT
        while self.process.poll() is None and time.monotonic() < end:
            try:
                with self.connect() as wire:
                    if wire.keeps():
                        return True
            except OSError:
                pass  # it does not listen yet
            time.sleep(0.02)
        return False

    def wait_until_refused(self):
        """Wait until the server accepts no connection any more."""
        end = time.monotonic() + 5
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                self.connect().sock.close()
                time.sleep(0.01)

    def facts_of(self, query):
        lines = self.facts.read_text().splitlines()
        return [text for found, text in map(json.loads, lines) if found == query]

    def wait_for_fact(self, query, count=1, limit=LIMIT):
        """Return the facts of a request when there are so many, or what there is when the time is over."""
        end = time.monotonic() + limit
        while len(found := self.facts_of(query)) < count and time.monotonic() < end:
            time.sleep(0.01)
        return found

    def stop(self, number=signal.SIGTERM):
        """Stop the server, and return its exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        return self.ended()

    def ended(self):
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "it had to be killed"
