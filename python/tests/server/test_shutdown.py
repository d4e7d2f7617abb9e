"""What a server promises when it stops, as a table: where it runs, the time that requests have, how it is stopped,
and the kind of connection."""

import asyncio
import itertools
import signal
import socket
import textwrap
import threading
import time

import pytest

import spindle
from spindle.server import Config, Server, lifespan, serving

from .conftest import LIMIT, Client, Process, wait_until
from .test_limits import KEY

# The app says in a file what it has done, and goes on when there is another file: it may run in another process.
APP = """
    import asyncio, os

    HERE = os.path.dirname(os.path.abspath(__file__))

    def note(text):
        with open(os.path.join(HERE, "log"), "a") as f:
            f.write(text + "\\n")

    async def go():
        while not os.path.exists(os.path.join(HERE, "go")):
            await asyncio.sleep(0.005)

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            note("shutdown")
            await send({"type": "lifespan.shutdown.complete"})
            return
        kind = scope["path"][1:]
        try:
            await globals()[kind](receive, send)
        except asyncio.CancelledError:
            note(kind + " cancelled")
            raise
        note(kind + " finished")

    async def respond(send, body, more=False):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": body, "more_body": more})

    async def idle(receive, send):
        await respond(send, b"whole")

    async def request(receive, send):
        note("request begun")
        await go()
        await respond(send, b"whole")

    async def stream(receive, send):
        await respond(send, b"first", more=True)
        note("stream begun")
        await go()
        await send({"type": "http.response.body", "body": b"last"})

    async def upload(receive, send):
        note("upload begun")
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        await respond(send, body)

    async def background(receive, send):
        await respond(send, b"whole")
        note("background begun")
        await go()

    async def websocket(receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        note("websocket begun")
        while (message := await receive())["type"] == "websocket.receive":
            pass
        note(f"websocket closed with {message['code']}")
"""

WHERE = ["task", "thread", "process", "workers"]
GRACE = {"unlimited": None, "long": 60, "short": 0.05}
STOP = ["once", "twice"]
KINDS = ["idle", "request", "stream", "upload", "background", "websocket"]
WAITING = KINDS[1:5]  # apps that go on, or are cancelled


class InLoop:
    """A server on a loop in a thread: its own program, or a task of another one."""

    def __init__(self, path, where, grace):
        config = Config(app=str(path), port=0, access_log=False, lifespan="on", timeout_graceful_shutdown=grace)
        config.drain_idle = 0.1
        self.sock = serving.bind(config)
        self.address = self.sock.getsockname()
        self.server = Server(config)
        self.thread = threading.Thread(target=self._run, args=(where,), daemon=True)
        self.thread.start()

    def _run(self, where):
        if where == "thread":
            self.server.run([self.sock])
        else:
            spindle.run(self._main())

    async def _main(self):
        async with asyncio.TaskGroup() as group:
            group.create_task(self.server.serve([self.sock]))

    def stop(self):
        self.server._core_loop.call_soon_threadsafe(self.server.stop)

    def ended(self):
        self.thread.join(LIMIT)
        return not self.thread.is_alive() and self.server.exit_code == 0

    def kill(self):
        pass  # the thread is a daemon


class InProcess:
    """A server of its own process, or with workers."""

    def __init__(self, path, where, grace):
        arguments = ["app:app", "--port", "0", "--no-access-log", "--lifespan", "on"]
        if grace is not None:
            arguments += ["--timeout-graceful-shutdown", str(grace)]
        if where == "workers":
            arguments += ["--workers", "1", "--limit-memory", "100000"]  # a supervisor, and one worker
        self.process = Process(path.parent, *arguments)
        found = self.process.url()
        self.address = found[1], int(found[2])

    def stop(self):
        self.process.process.send_signal(signal.SIGTERM)

    def ended(self):
        return self.process.process.wait(LIMIT) == 0

    def kill(self):
        """End a process that a failed test leaves; its workers end with it."""
        if self.process.process.poll() is None:
            self.process.process.kill()
            self.process.process.wait()
        self.process.process.stderr.close()
        self.process.process.stdout.close()


def open_connections(connect):
    """Return a connection of each kind, on which the app is where it has to be."""
    clients = {kind: connect() for kind in KINDS}
    assert clients["idle"].get("/idle").body == b"whole"
    assert clients["background"].get("/background").body == b"whole"
    clients["request"].send("GET /request HTTP/1.1\nHost: test\n\n")
    clients["upload"].send("POST /upload HTTP/1.1\nHost: test\nContent-Length: 10\n\nfirst")
    clients["websocket"].send(f"GET /websocket HTTP/1.1\nHost: test\n{KEY}\n")
    assert clients["websocket"].head()[0] == 101
    clients["stream"].send("GET /stream HTTP/1.1\nHost: test\n\n")
    clients["stream"].head()
    assert clients["stream"].file.readline() + clients["stream"].file.readline() == b"5\r\nfirst\r\n"
    return clients


def refuses(address):
    try:
        socket.create_connection(address, LIMIT).close()
    except ConnectionError:
        return True
    return False


def going_away(client):
    """Read a close frame and answer it. Return its code, None if the connection ends without one."""
    head = client.file.read(2)
    if len(head) < 2:
        return None
    assert head[0] == 0x88
    payload = client.file.read(head[1])
    client.send(b"\x88\x82\0\0\0\0" + payload[:2])
    return int.from_bytes(payload[:2], "big")


@pytest.fixture
def quick_cancel(monkeypatch):
    """Shorten the time of cancelled apps: the time of a drain must not depend on it."""
    for module in (serving, lifespan):
        monkeypatch.setattr(module, "CANCEL_WAIT", 0.2)
    begin = Server._begin

    def note_loop(self, loop, *args):
        self._core_loop = loop
        begin(self, loop, *args)

    monkeypatch.setattr(Server, "_begin", note_loop)


@pytest.mark.parametrize("where, grace, stop", list(itertools.product(WHERE, GRACE, STOP)))
def test_shutdown(request, tmp_path, quick_cancel, where, grace, stop):
    path = tmp_path / "app.py"
    path.write_text(textwrap.dedent(APP))

    def log():
        return (tmp_path / "log").read_text().splitlines() if (tmp_path / "log").exists() else []

    running = (InProcess if where in ("process", "workers") else InLoop)(path, where, GRACE[grace])
    request.addfinalizer(running.kill)
    clients = open_connections(lambda: Client(socket.create_connection(running.address, LIMIT)))
    wait_until(lambda: all(f"{kind} begun" in log() for kind in [*WAITING, "websocket"]))
    stopped_at = time.monotonic()
    running.stop()
    finishes = stop == "once" and grace != "short"

    assert going_away(clients["websocket"]) == 1001
    assert clients["idle"].closed()
    if finishes:
        wait_until(lambda: refuses(running.address))
        wait_until(lambda: time.monotonic() > stopped_at + 0.3)  # longer than cancelled apps may take
        (tmp_path / "go").touch()
        clients["upload"].send(b"other")
        for kind, body in (("request", b"whole"), ("upload", b"firstother")):
            response = clients[kind].response()
            assert (kind, response.status, response.body) == (kind, 200, body)
        assert clients["stream"].file.read() == b"4\r\nlast\r\n0\r\n\r\n"
    else:
        if stop == "twice":
            running.stop()
        assert b"last" not in clients["stream"].file.read()
    for kind in ("request", "stream", "upload", "background"):
        assert clients[kind].closed() or not finishes, kind
    assert running.ended()
    ends = {kind: end for kind, end in (line.split(" ", 1) for line in log() if line.endswith(("finished", "cancelled")))}
    end = "finished" if finishes else "cancelled"
    assert ends == {"idle": "finished", **dict.fromkeys(WAITING, end), "websocket": ends["websocket"]}
    if finishes:  # otherwise the end may come before the client's answer
        assert ends["websocket"] == "finished" and "websocket closed with 1001" in log()
    assert log()[-1] == "shutdown" and log().count("shutdown") == 1
    assert refuses(running.address)
