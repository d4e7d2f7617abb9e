"""A server in a thread or a process, and a client that sees every byte."""

import asyncio
import contextlib
import logging
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest

import spindle
from spindle.server import Config, Server
from spindle.server.serving import bind

LIMIT = 90  # seconds; only a test that fails waits so long


class Running:
    """A server that runs, and what it has logged."""

    def __init__(self, server, sock, loop, thread):
        self.server = server
        self.loop = loop
        self.thread = thread
        self.address = sock.getsockname()
        self.port = self.address[1] if isinstance(self.address, tuple) else None
        self.url = f"http://127.0.0.1:{self.port}"

    def connect(self):
        if self.port is None:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(LIMIT)
            sock.connect(self.address)
            return Client(sock)
        return Client(socket.create_connection(("127.0.0.1", self.port), LIMIT))

    def call(self, function, *args):
        """Call a function on the loop."""
        future = asyncio.run_coroutine_threadsafe(_call(function, args), self.loop)
        return future.result(LIMIT)

    def stop(self):
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.server.stop)
            self.thread.join(LIMIT)
            assert not self.thread.is_alive(), "the server does not stop"


async def _call(function, args):
    return function(*args)


class Client:
    """A connection."""

    def __init__(self, sock):
        self.sock = sock
        self.file = sock.makefile("rb")

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.replace("\n", "\r\n").encode())
        return self

    def get(self, path="/", headers="", method="GET"):
        return self.send(f"{method} {path} HTTP/1.1\nHost: test\n{headers}\n").response(method)

    def head(self):
        """Read the head of a response: status and fields."""
        line = self.file.readline()
        if not line:
            raise EOFError("the connection was closed")
        status = int(line.split()[1])
        fields = []
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            fields.append((name.lower(), value.strip()))
        return status, fields

    def response(self, method="GET"):
        status, fields = self.head()
        while status < 200:
            status, fields = self.head()
        values = dict(fields)
        trailers = []
        if method == "HEAD" or status in (204, 304):
            body = b""
        elif values.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.file.readline(), 16):
                body += self.file.read(size)
                assert self.file.readline() == b"\r\n"
            while (line := self.file.readline()) != b"\r\n":
                assert line, "the connection was closed inside a chunked body"
                name, _, value = line.decode("latin-1").partition(":")
                trailers.append((name.lower(), value.strip()))
        elif "content-length" in values:
            body = self.file.read(int(values["content-length"]))
        else:
            body = self.file.read()
        return Response(status, fields, body, trailers)

    def closed(self):
        """Report whether the server has closed the connection."""
        try:
            return self.file.read(1) == b""
        except ConnectionError:
            return True

    def ended(self):
        """Report whether the server has closed the connection, without waiting."""
        return bool(select.select([self.sock], [], [], 0)[0])

    def close(self):
        self.file.close()
        self.sock.close()


class Response:
    def __init__(self, status, fields, body, trailers):
        self.status, self.fields, self.body, self.trailers = status, fields, body, trailers

    def __getitem__(self, name):
        return dict(self.fields).get(name)

    def all(self, name):
        return [value for key, value in self.fields if key == name]


@contextlib.contextmanager
def running(app, **options):
    options.setdefault("port", 0)
    options.setdefault("access_log", False)
    options.setdefault("lifespan", "off")
    config = Config(app=app, **options)
    sock = bind(config)
    server = Server(config)
    ready = threading.Event()
    found = {}

    async def serve():
        found["loop"] = asyncio.get_running_loop()

        async def started():
            ready.set()

        server._started = started
        await server.serve([sock])

    def run():
        try:
            spindle.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=run, daemon=True)  # a server that hangs fails its test, not all
    thread.start()
    assert ready.wait(LIMIT)
    r = Running(server, sock, found["loop"], thread) if thread.is_alive() and server.started else None
    try:
        yield r
    finally:
        if r is not None:
            r.stop()
        thread.join(LIMIT)


@pytest.fixture
def serve():
    """Start servers that are stopped after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda app, **options: stack.enter_context(running(app, **options))


@pytest.fixture
def errors(caplog):
    """What the server has logged as errors: (text, exception or None)."""
    caplog.set_level(logging.DEBUG, logger="spindle.server")
    return lambda: [(r.getMessage(), r.exc_info[1] if r.exc_info else None)
                    for r in caplog.records if r.levelno >= logging.ERROR]


def wait_until(condition):
    """Wait until a condition holds."""
    event = threading.Event()
    for _ in range(LIMIT * 100):
        if condition():
            return
        event.wait(0.01)
    raise AssertionError("the condition did not come true")


APP = """
    import os

    async def app(scope, receive, send):
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-pid", str(os.getpid()).encode())]})
        await send({"type": "http.response.body", "body": b"hello"})

    def factory():
        return app

    def wsgi(environ, start_response):
        start_response("200 OK", [("X-Method", environ["REQUEST_METHOD"])])
        return [environ["wsgi.input"].read(), b"!"]
"""


class Process:
    """python -m spindle, in a directory with app.py."""

    def __init__(self, directory, *arguments, env=None, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spindle", *arguments], cwd=directory, stdin=subprocess.DEVNULL, text=True,
            env={**os.environ, **(env or {})}, **options)
        self.err, self.out, self.readers = [], [], []
        for stream, into in ((self.process.stderr, self.err), (self.process.stdout, self.out)):
            if stream is not None:
                self.readers.append(threading.Thread(target=self._read, args=(stream, into), daemon=True))
                self.readers[-1].start()

    def _read(self, stream, into):
        with contextlib.suppress(ValueError):
            for line in stream:
                into.append(line)

    def readers_end(self):
        """Wait until all that the process has written is in err and out."""
        for reader in self.readers:
            reader.join(LIMIT)

    def errors(self):
        """Return what the process has written to standard error, without reports of the watchdog, which a busy machine causes."""
        return re.sub(r"spindle: .* has blocked the loop for .*\n(?:[ \t].*\n|\n)*", "", "".join(self.err))

    def url(self):
        wait_until(lambda: self.process.poll() is not None or self._found())
        assert self._found(), "".join(self.err)
        return self._found()

    def _found(self):
        return re.search(r"serving on https?://([\d.]+):(\d+)", "".join(self.err))

    def connect(self):
        found = self.url()
        return Client(socket.create_connection((found[1], int(found[2])), LIMIT))

    def wait_for_log(self, text, count=1):
        wait_until(lambda: "".join(self.err).count(text) >= count or self.process.poll() is not None)
        assert "".join(self.err).count(text) >= count, "".join(self.err)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(LIMIT)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    directory = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                    "-keyout", directory / "key.pem", "-out", directory / "cert.pem"], check=True, capture_output=True)
    return directory


@pytest.fixture
def command(tmp_path):
    (tmp_path / "app.py").write_text(textwrap.dedent(APP))
    started = []

    def start(*arguments, **options):
        started.append(Process(tmp_path, *arguments, **options))
        return started[-1]

    start.directory = tmp_path
    yield start
    for process in started:
        if process.process.poll() is None:
            process.process.terminate()
            try:
                process.process.wait(10)
            except subprocess.TimeoutExpired:
                process.process.kill()
                process.process.wait()
        for stream in (process.process.stderr, process.process.stdout):
            if stream is not None:
                stream.close()
