"""The command line: options, errors, signals, workers. Every test runs a process."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest

from .conftest import LIMIT, Client, wait_until

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
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spindle", *arguments], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}, **options)
        self.err, self.out = [], []
        for stream, into in ((self.process.stderr, self.err), (self.process.stdout, self.out)):
            threading.Thread(target=self._read, args=(stream, into), daemon=True).start()

    def _read(self, stream, into):
        with contextlib.suppress(ValueError):
            for line in stream:
                into.append(line)

    def url(self):
        wait_until(lambda: self.process.poll() is not None or self._found())
        assert self._found(), "".join(self.err)
        return self._found()

    def _found(self):
        return re.search(r"serving on http://([\d.]+):(\d+)", "".join(self.err))

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
        process.process.stderr.close()
        process.process.stdout.close()


@pytest.mark.parametrize("arguments", [
    ["app:app"], ["app"], ["app.py"], ["app.py:app"], ["app:factory", "--factory"], ["app:app", "--host", "localhost"],
], ids=" ".join)
def test_ways_to_name_an_app(command, arguments):
    process = command(*arguments, "--port", "0")
    assert process.connect().get().body == b"hello"
    assert process.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_it(command, number):
    process = command("app:app", "--port", "0")
    process.url()
    assert process.stop(number) == 0


@pytest.mark.parametrize("arguments, text", [
    (["missing:app"], "there is no module 'missing'"),
    (["app:missing"], "no attribute 'missing'; it has app, factory, wsgi"),
    (["missing.py"], "there is no file missing.py"),
    (["app:"], "write module:attribute"),
    (["broken:app"], "importing broken failed"),
    (["needs:app"], "No module named 'not_installed'"),
    (["app:os"], "cannot be called"),
    (["app:app", "--port", "x"], "invalid int value"),
    (["app:app", "--workers", "0"], "workers must be at least 1"),
    (["app:app", "--header", "x"], "write it as"),
    (["app:app", "--fd", "77"], "descriptor 77"),
    (["app:app", "--ssl-certfile", "missing.pem"], "missing.pem"),
    (["app:app", "--host", "nowhere.invalid"], "cannot be resolved"),
    ([], "name the app"),
], ids=str)
def test_errors_are_for_people(command, arguments, text):
    (command.directory / "broken.py").write_text("def f():\n    return 1 / 0\n\nf()\n")
    (command.directory / "needs.py").write_text("import not_installed\n")
    process = command(*arguments)
    assert process.process.wait(LIMIT) != 0
    wait_until(lambda: text in "".join(process.err))
    error = "".join(process.err)
    assert "spindle/server" not in error and "importlib" not in error
    if "broken" in error:
        assert "in f" in error and "ZeroDivisionError" in error


def test_port_that_is_taken(command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = command("app:app", "--port", str(taken.getsockname()[1]))
        assert process.process.wait(LIMIT) == 1
    wait_until(lambda: "another program listens there" in "".join(process.err))


def test_environment_and_pyproject(command):
    (command.directory / "pyproject.toml").write_text('[tool.spindle.server]\napp = "app:app"\nheader = ["X-From: toml"]\nport = 1\n')
    process = command("--port", "0", env={"SPINDLE_SERVER_HEADER": "false"})
    response = process.connect().get()
    assert (response["x-from"], response["server"]) == ("toml", None)


def test_unix_socket_and_descriptor(command):
    path = command.directory / "socket"
    process = command("app:app", "--uds", str(path))
    wait_until(path.exists)
    process.wait_for_log("serving on")
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(LIMIT)
    sock.connect(str(path))
    assert Client(sock).get().body == b"hello"
    assert process.stop() == 0
    assert not path.exists()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = command("app:app", "--fd", str(listener.fileno()), pass_fds=[listener.fileno()])
        assert process.connect().get().body == b"hello"


def test_wsgi_is_detected(command):
    client = command("app:wsgi", "--port", "0").connect()
    response = client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 2\n\nhi").response()
    assert (response["x-method"], response.body) == ("POST", b"hi!")


@pytest.mark.parametrize("form", ["common", "combined", "json"])
def test_access_log(command, form):
    process = command("app:app", "--port", "0", "--access-log-format", form)
    process.connect().get("/path?q=\"", headers="User-Agent: tests\n")
    process.stop()
    wait_until(lambda: process.out)
    line = process.out[0]
    if form == "json":
        entry = json.loads(line)
        assert (entry["method"], entry["target"], entry["status"], entry["bytes"]) == ("GET", '/path?q="', 200, 5)
        assert entry["took_ms"] >= 0 and entry["user_agent"] == "tests"
    else:
        assert re.match(r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:[\d:]{8} [+-]\d{4}\] "GET /path\?q=\\" HTTP/1\.1" 200 5', line)
        assert ('"-" "tests"' in line) == (form == "combined")


def test_max_requests(command):
    process = command("app:app", "--port", "0", "--limit-max-requests", "3")
    client = process.connect()
    for _ in range(3):
        client.get()
    assert process.process.wait(LIMIT) == 0


# Workers.


def load(process, count):
    """Send requests from a client that keeps connections, and return the failures."""
    failures, pids = [], set()
    client = None
    for _ in range(count):
        try:
            client = client or process.connect()
            response = client.get()
            pids.add(response["x-pid"])
            assert response.body == b"hello"
            if response["connection"] == "close":
                client.close()
                client = None
        except (OSError, EOFError, ValueError) as e:
            failures.append(repr(e))
            client = None
    return failures, pids


def test_workers_share_the_port_and_are_replaced(command):
    process = command("app:app", "--port", "0", "--workers", "2", "--no-access-log")
    process.wait_for_log("is ready", 2)
    pids = set()
    wait_until(lambda: pids.add(process.connect().get()["x-pid"]) or len(pids) == 2)
    os.kill(int(min(pids)), signal.SIGKILL)
    process.wait_for_log("is ready", 3)
    wait_until(lambda: pids.add(process.connect().get()["x-pid"]) or len(pids) == 3)
    assert "was killed by signal 9" in "".join(process.err)
    assert process.stop() == 0


def test_interrupt_from_a_terminal_counts_once(command):
    (command.directory / "slow.py").write_text(textwrap.dedent("""
        import asyncio

        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            await asyncio.sleep(1)
            await send({"type": "http.response.body", "body": b"last"})
    """))
    process = command("slow:app", "--port", "0", "--workers", "2", "--no-access-log", start_new_session=True)
    process.wait_for_log("is ready", 2)
    client = process.connect().send("GET / HTTP/1.1\nHost: test\n\n")
    client.head()
    assert client.file.readline() + client.file.readline() == b"5\r\nfirst\r\n"
    os.killpg(process.process.pid, signal.SIGINT)
    assert client.file.read() == b"4\r\nlast\r\n0\r\n\r\n"
    assert process.process.wait(LIMIT) == 0


def test_reload_by_signal_loses_no_request(command):
    process = command("app:app", "--port", "0", "--workers", "2", "--no-access-log")
    process.wait_for_log("is ready", 2)
    results = []
    threads = [threading.Thread(target=lambda: results.append(load(process, 2500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    process.process.send_signal(signal.SIGHUP)
    for thread in threads:
        thread.join()
    assert [failures for failures, _ in results] == [[]] * 4
    process.wait_for_log("is ready", 4)
    old = set().union(*(pids for _, pids in results))
    wait_until(lambda: process.connect().get()["x-pid"] not in old or len(old) > 2)
    assert process.stop() == 0


def test_workers_that_cannot_start(command):
    process = command("missing:app", "--port", "0", "--workers", "2")
    assert process.process.wait(LIMIT) == 1
    wait_until(lambda: "no worker can start" in "".join(process.err))
    assert "there is no module 'missing'" in "".join(process.err)


def test_workers_end_with_their_supervisor(command):
    process = command("app:app", "--port", "0", "--workers", "2", "--no-access-log")
    process.wait_for_log("is ready", 2)
    pids = [int(pid) for pid in re.findall(r"worker (\d+) is ready", "".join(process.err))]
    process.process.kill()

    def gone(pid):
        try:
            with open(f"/proc/{pid}/stat") as f:
                return f.read().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return True

    wait_until(lambda: all(gone(pid) for pid in pids))


def test_reload_on_a_change(command):
    process = command("app:app", "--port", "0", "--reload")
    process.wait_for_log("is ready")

    def answers(body):
        try:
            return all(process.connect().get().body == body for _ in range(5))
        except (OSError, EOFError):
            return False  # by a worker that stops

    assert process.connect().get().body == b"hello"
    file = command.directory / "app.py"
    file.write_text(file.read_text().replace('b"hello"', "b'changed'"))
    process.wait_for_log("is ready", 2)
    wait_until(lambda: answers(b"changed"))
    file.write_text("def broken(:\n")
    process.wait_for_log("SyntaxError")
    wait_until(lambda: answers(b"changed"))  # the old worker goes on
    file.write_text(textwrap.dedent(APP))
    wait_until(lambda: answers(b"hello"))
    assert process.stop() == 0
