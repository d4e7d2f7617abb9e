"""Workers: they share a socket, are replaced, and lose no request. Every test runs processes."""

import errno
import os
import re
import selectors
import signal
import socket
import ssl
import textwrap
import threading
import types

import pytest

from spindle.server import Config
from spindle.server.worker import WorkerServer
from spindle.server.workers import Supervisor, Tallies, Worker

from .conftest import APP, LIMIT, Client, wait_until

pytestmark = pytest.mark.once


class Load:
    """Clients that keep their connections and send requests, until they are stopped."""

    def __init__(self, process, clients=4):
        self.process = process
        self.failures = [[] for _ in range(clients)]
        self.answers = [0] * clients
        self.pids = set()
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(clients)]

    def _run(self, i):
        client = None
        while not self.stopping.is_set():
            try:
                if client is None or client.ended():  # a client that was slow sees that its idle connection was closed
                    client = self.process.connect()
                response = client.get()
                assert response.body == b"hello"
                self.pids.add(int(response["x-pid"]))
                self.answers[i] += 1
                if response["connection"] == "close":
                    client.close()
                    client = None
            except (OSError, EOFError, ValueError) as e:
                self.failures[i].append(repr(e))
                client = None

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def wait_for(self, count):
        """Wait until so many more requests were answered, by every client a part of them."""
        wanted = [n + count // len(self.answers) for n in self.answers]
        wait_until(lambda: all(n >= m for n, m in zip(self.answers, wanted)))


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("way", ["SIGHUP", "--reload"])
def test_reload_under_load_loses_no_request(command, way):
    arguments = ["--reload"] if way == "--reload" else ["--workers", "2"]
    count = 1 if way == "--reload" else 2
    process = command("app:app", "--port", "0", "--no-access-log", *arguments)
    process.wait_for_log("is ready", count)
    with Load(process) as load:
        load.wait_for(1000)
        old = set(load.pids)
        if way == "SIGHUP":
            process.process.send_signal(signal.SIGHUP)
        else:
            file = command.directory / "app.py"
            file.write_text(file.read_text() + "# changed\n")
        process.wait_for_log("is ready", 2 * count)
        wait_until(lambda: all(gone(pid) for pid in old))
        while sum(load.answers) < 10_000:
            load.wait_for(1000)
        load.wait_for(100)
        assert load.pids - old, "the new workers have answered nothing"
    assert load.failures == [[]] * 4
    assert process.stop() == 0


class Kinds:
    """Clients of several kinds that send requests until they are stopped."""

    def __init__(self, connect):
        self.connect = connect
        self.answers, self.failures = {}, []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(kind,))
                        for kind in (self.keeps_alive, self.streams, self.pauses, self.http10, self.http10_keeps_alive)]

    def _run(self, kind):
        client = None
        self.answers[kind.__name__] = 0
        while not self.stopping.is_set():
            try:
                if client is None or client.ended():
                    client = self.connect()
                response = kind(client)
                assert response.body == b"hello", response.body
                self.answers[kind.__name__] += 1
                if response["connection"] == "close" or kind == self.http10:
                    client.close()
                    client = None
            except (OSError, EOFError, ValueError, AssertionError) as e:
                self.failures.append(f"{kind.__name__}: {e!r}")
                client = None

    def keeps_alive(self, client):
        return client.get()

    def streams(self, client):
        return client.get("/stream")

    def pauses(self, client):
        self.stopping.wait(0.02)
        return client.get("/slow")

    def http10(self, client):
        return client.send("GET / HTTP/1.0\n\n").response()

    def http10_keeps_alive(self, client):
        return client.send("GET /length HTTP/1.0\nConnection: keep-alive\n\n").response()

    __enter__, __exit__ = Load.__enter__, Load.__exit__

    def wait_for(self, count):
        """Wait until every client has got so many more answers."""
        wait_until(lambda: len(self.answers) == len(self.threads))
        wanted = {kind: n + count for kind, n in self.answers.items()}
        wait_until(lambda: all(self.answers[kind] >= n for kind, n in wanted.items()))


@pytest.mark.parametrize("secure", [False, True])
def test_no_kind_of_request_is_lost(command, certificate, secure):
    (command.directory / "kinds.py").write_text(textwrap.dedent("""
        import asyncio

        async def app(scope, receive, send):
            headers = [(b"content-length", b"5")] if scope["path"] == "/length" else []
            if scope["path"] == "/slow":
                await asyncio.sleep(0.05)
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            if scope["path"] == "/stream":
                for part in (b"h", b"e", b"l", b"l"):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                    await asyncio.sleep(0.03)
                await send({"type": "http.response.body", "body": b"o"})
            else:
                await send({"type": "http.response.body", "body": b"hello"})
    """))
    files = ["--ssl-certfile", str(certificate / "cert.pem"), "--ssl-keyfile", str(certificate / "key.pem")] if secure else []
    process = command("kinds:app", "--port", "0", "--workers", "2", "--no-access-log", *files)
    process.wait_for_log("is ready", 2)
    context = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    context.check_hostname = False

    def connect():
        client = process.connect()
        return Client(context.wrap_socket(client.sock)) if secure else client

    with Kinds(connect) as kinds:
        for i in range(3):
            kinds.wait_for(10)
            process.process.send_signal(signal.SIGHUP)
            process.wait_for_log("is ready", 4 + 2 * i)
        wait_until(lambda: "".join(process.err).count("stopping") >= 6)
        kinds.wait_for(10)
    assert kinds.failures == []
    assert process.stop() == 0


def test_worker_killed_under_load_loses_only_its_requests(command):
    process = command("app:app", "--port", "0", "--workers", "2", "--no-access-log")
    process.wait_for_log("is ready", 2)
    with Load(process, clients=6) as load:
        load.wait_for(600)
        os.kill(min(load.pids), signal.SIGKILL)
        load.wait_for(600)  # the other worker answers at once
        process.wait_for_log("is ready", 3)
        load.wait_for(600)
    assert max(len(failures) for failures in load.failures) <= 1, load.failures  # a client has one request in flight
    assert "was killed by signal 9" in "".join(process.err)
    assert process.stop() == 0


def test_max_requests_under_load_lose_no_request(command):
    process = command("app:app", "--port", "0", "--workers", "2", "--no-access-log",
                      "--limit-max-requests", "300", "--limit-max-requests-jitter", "100")
    process.wait_for_log("is ready", 2)
    with Load(process) as load:
        process.wait_for_log("is ready", 5)
        load.wait_for(100)
    assert load.failures == [[]] * 4
    assert process.stop() == 0


def test_worker_that_has_served_enough_is_replaced_while_it_finishes(command):
    (command.directory / "streams.py").write_text(textwrap.dedent("""
        import os

        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200})
            if scope["path"] == "/stream":
                await send({"type": "http.response.body", "body": b"first", "more_body": True})
                while (await receive())["type"] != "http.disconnect":
                    pass
            await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
    """))
    process = command("streams:app", "--port", "0", "--no-access-log", "--limit-max-requests", "2", "--limit-memory", "100000")
    process.wait_for_log("is ready")
    stream = process.connect().send("GET /stream HTTP/1.1\nHost: test\n\n")
    stream.head()
    first = process.connect().get().body
    process.wait_for_log("is ready", 2)
    assert process.connect().get().body != first
    assert not gone(int(first))  # its stream goes on
    stream.close()
    wait_until(lambda: gone(int(first)))
    assert process.stop() == 0


def test_worker_that_was_removed_does_not_return_with_new_workers(command):
    process = command("app:app", "--port", "0", "--workers", "2", "--no-access-log")
    process.wait_for_log("is ready", 2)
    process.process.send_signal(signal.SIGTTOU)
    process.wait_for_log("stopping")
    process.process.send_signal(signal.SIGHUP)
    process.wait_for_log("is ready", 3)
    process.wait_for_log("stopping", 2)
    pids = [int(pid) for pid in re.findall(r"worker (\d+) is ready", "".join(process.err))]
    wait_until(lambda: all(gone(pid) for pid in pids[:2]))
    assert process.stop() == 0
    assert "".join(process.err).count("is ready") == 3


def test_worker_that_holds_too_much_memory_is_replaced(command):
    (command.directory / "grows.py").write_text(textwrap.dedent("""
        import os

        kept = []

        async def app(scope, receive, send):
            if scope["path"] == "/grow":
                kept.append(bytes([1]) * 300_000_000)
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
    """))
    process = command("grows:app", "--port", "0", "--limit-memory", "250", "--no-access-log")
    process.wait_for_log("is ready")
    first = process.connect().get().body
    assert process.connect().get("/grow").body == first
    process.wait_for_log("MB; replacing it")
    process.wait_for_log("is ready", 2)
    wait_until(lambda: gone(int(first)))
    assert process.connect().get().body != first
    assert process.stop() == 0


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


def test_metrics_are_those_of_all_workers(command):
    (command.directory / "waits.py").write_text(textwrap.dedent("""
        import asyncio, os

        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x-pid", str(os.getpid()).encode())]})
            await send({"type": "http.response.body", "body": b"hello", "more_body": True})
            if scope["path"] == "/wait":
                await asyncio.sleep(3600)
            await send({"type": "http.response.body"})
    """))
    process = command("waits:app", "--port", "0", "--workers", "2", "--no-access-log", "--metrics", "/metrics")
    process.wait_for_log("is ready", 2)
    pids, served = set(), 0

    def metrics():
        return process.connect().get("/metrics").body.decode()

    while len(pids) < 2:
        pids.add(process.connect().get()["x-pid"])
        served += 1
    for _ in range(10):  # answered by either of them
        assert f'spindle_requests_total{{status="2xx"}} {served}\n' in metrics()
    waiting = process.connect().send("GET /wait HTTP/1.1\nHost: test\n\n")
    pid = dict(waiting.head()[1])["x-pid"]
    wait_until(lambda: "spindle_requests_active 1\n" in metrics())
    os.kill(int(pid), signal.SIGKILL)
    process.wait_for_log("is ready", 3)
    assert "spindle_requests_active 0\n" in metrics()
    for _ in range(10):
        assert f'spindle_requests_total{{status="2xx"}} {served}\n' in metrics()
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


def test_second_signal_reaches_a_worker_that_retires(monkeypatch):
    """A worker counts SIGTERM: the first one after it was told to retire does not end its requests, the second does."""
    sent = []
    worker = Worker.__new__(Worker)
    worker.leaving = worker.terminated = False
    worker.process = types.SimpleNamespace(send_signal=sent.append)
    monkeypatch.setattr(Worker, "tell", lambda self, command: sent.append(command))
    supervisor = Supervisor(Config(app="app:app"))
    supervisor.workers = [worker]
    supervisor._retire(worker)
    supervisor._take_signals([signal.SIGINT])
    assert sent == ["retire", signal.SIGTERM]
    supervisor._take_signals([signal.SIGINT])
    assert sent == ["retire", signal.SIGTERM, signal.SIGTERM]


@pytest.mark.parametrize("limit", [None, 0.1])
def test_worker_that_blocks_its_loop_does_not_keep_the_supervisor(command, limit):
    (command.directory / "blocks.py").write_text(textwrap.dedent("""
        import time

        async def app(scope, receive, send):
            assert scope["type"] == "http"
            print("blocked", flush=True)
            while True:
                time.sleep(10)
    """))
    options = [] if limit is None else ["--timeout-graceful-shutdown", str(limit)]
    process = command("blocks:app", "--port", "0", "--workers", "2", "--no-access-log", *options)
    process.wait_for_log("is ready", 2)
    client = process.connect().send("GET / HTTP/1.1\nHost: test\n\n")
    wait_until(lambda: process.out)
    process.process.terminate()
    if limit is None:
        process.wait_for_log("stopping")  # of the other worker: the supervisor has taken the first signal
        process.process.terminate()
    assert process.process.wait(LIMIT) == 0
    assert client.closed()
    assert "".join(process.err).count("blocks its loop; killing it") == 1


def test_worker_stops_in_order_if_its_supervisor_ends_before_it_is_ready():
    ends = []

    async def app(scope, receive, send):
        assert scope["type"] == "lifespan"
        for _ in range(2):
            message = await receive()
            ends.append(message["type"])
            await send({"type": message["type"] + ".complete"})

    commands, to_worker = os.pipe()
    from_worker, status = os.pipe()

    class Server(WorkerServer):
        async def _started(self):
            os.close(from_worker)
            await super()._started()
            os.close(to_worker)

    assert Server(Config(app=app, port=0), commands, status).run() == 0
    assert ends == ["lifespan.startup", "lifespan.shutdown"]
    os.close(commands)
    os.close(status)


def test_the_address_is_logged_once(command):
    process = command("app:app", "--port", "0", "--workers", "2")
    process.wait_for_log("is ready", 2)
    assert process.stop() == 0
    process.readers_end()
    assert process.errors().count("serving on") == 1


def test_workers_that_cannot_start(command):
    process = command("missing:app", "--port", "0", "--workers", "2")
    assert process.process.wait(LIMIT) == 1
    wait_until(lambda: "no worker can start" in "".join(process.err))
    assert "there is no module 'missing'" in "".join(process.err)


def test_workers_that_end_early_are_replaced_with_growing_pauses(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("spindle.server.workers.time.monotonic", lambda: now)
    supervisor = Supervisor(Config(app="app:app", workers=2))
    supervisor.selector = selectors.DefaultSelector()

    def pause(codes, age, said=b"ready\n"):
        """Let workers end that were ready for so long. Return how long none is started then."""
        for code in codes:
            worker = Worker.__new__(Worker)
            worker.ready = worker.leaving = worker.old = False
            worker.status, write = os.pipe()
            os.write(write, said)
            os.close(write)
            worker.process = types.SimpleNamespace(pid=1, poll=lambda code=code: code)
            worker.close = lambda worker=worker: os.close(worker.status)
            supervisor.workers.append(worker)
            if age:
                supervisor._hear_last(worker)
                worker.ready_at = now - age
        supervisor._reap()
        return max(0, round(supervisor.start_at - now, 3))

    assert [pause([3, 3], 0) for _ in range(3)] == [0.1, 0.2, 0.4]  # together they count once
    now += 1
    assert pause([0], 0) == 0.8
    now += 1
    assert pause([3], 10) == 0 and pause([0], 0, b"ready\nleaving\n") == 0
    assert pause([3], 0) == 1.6
    now += 60
    assert pause([3], 0) == 0.1
    supervisor.selector.close()


def test_workers_that_the_system_cannot_start_are_tried_again(monkeypatch, caplog):
    now = 1000.0
    monkeypatch.setattr("spindle.server.workers.time.monotonic", lambda: now)

    def refuse(*_, **__):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("spindle.server.workers.subprocess.Popen", refuse)
    supervisor = Supervisor(Config(app="app:app", workers=2))
    supervisor.tallies = Tallies()
    with socket.socket() as supervisor.sock, supervisor.tallies.file:
        open_before = os.listdir("/proc/self/fd")
        pauses = []
        for _ in range(3):
            supervisor._replace()
            pauses.append(round(supervisor.start_at - now, 3))
            now = supervisor.start_at
        supervisor._reload()  # by a signal
        assert pauses == [0.1, 0.2, 0.4]
        assert supervisor.workers == [] and supervisor.failed_starts == 4
        assert os.listdir("/proc/self/fd") == open_before
        assert sorted(supervisor.tallies.free) == list(range(Tallies.SLOTS))
    assert caplog.text.count("cannot start a worker: [Errno 11] Resource temporarily unavailable") == 4


def test_workers_end_with_their_supervisor(command):
    process = command("app:app", "--port", "0", "--workers", "2", "--no-access-log")
    process.wait_for_log("is ready", 2)
    pids = [int(pid) for pid in re.findall(r"worker (\d+) is ready", "".join(process.err))]
    process.process.kill()
    wait_until(lambda: all(gone(pid) for pid in pids))


def test_reload_waits_for_a_change_of_code_that_cannot_start(command):
    file = command.directory / "app.py"
    file.write_text("def broken(:\n")
    process = command("app:app", "--port", "0", "--reload")
    process.wait_for_log("waiting for a change")
    assert "".join(process.err).count("SyntaxError") == 1
    file.write_text("also broken\n")
    process.wait_for_log("waiting for a change", 2)
    file.write_text(textwrap.dedent(APP))
    process.wait_for_log("is ready")
    assert process.connect().get().body == b"hello"
    assert "".join(process.err).count("SyntaxError") == 2
    assert process.stop() == 0


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
