"""Apps that stream, and await nothing but send."""

import asyncio
import socket
import statistics
import struct
import threading
import time

import pytest

from spindle.server.serving import ClientDisconnected

from .conftest import wait_until
from .test_limits import KEY

START = {"type": "http.response.start", "status": 200}
FRAME = b"data: 12345678\n\n"


def reset(client):
    """Close a connection at once: the server's next bytes find nothing."""
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def stream_http(send, frame):
    await send(START)
    while True:
        await send({"type": "http.response.body", "body": frame, "more_body": True})


async def stream_messages(send, frame):
    await send({"type": "websocket.accept"})
    while True:
        await send({"type": "websocket.send", "bytes": frame})


@pytest.mark.parametrize("leave", [reset, lambda client: client.close()], ids=["reset", "close"])
@pytest.mark.parametrize("frame", [FRAME, b"x" * 100_000, b""], ids=["small", "large", "empty"])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_endless_stream_ends_with_its_client(serve, errors, kind, frame, leave):
    raised = []

    async def app(scope, receive, send):
        if scope["path"] != "/endless":
            await send(START)
            await send({"type": "http.response.body", "body": b"hello"})
            return
        try:
            await (stream_http if kind == "http" else stream_messages)(send, frame)
        except BaseException as e:
            raised.append(type(e))
            raise

    server = serve(app)
    client = server.connect().send(f"GET /endless HTTP/1.1\nHost: test\n{KEY if kind == 'websocket' else ''}\n")
    if frame:
        assert client.head()[0] in (101, 200)
        client.file.read(3_000_000)  # so fast that send does not wait
    assert server.connect().get().body == b"hello"  # while the other one streams
    if frame:
        client.file.read(3_000_000)
    leave(client)
    if frame or kind == "websocket":
        wait_until(lambda: raised == [ClientDisconnected])
        wait_until(lambda: server.server._core.active == 0)
    else:  # nothing is sent that could fail
        server.call(lambda: [task.cancel() for task in server.server._core.tasks()])
        wait_until(lambda: raised)
    assert server.connect().get().body == b"hello"
    if frame or kind == "websocket":
        assert errors() == []
    else:  # the cancellation is logged, unless the server knows already that the client has gone
        assert [text for text, _ in errors() if "the app was cancelled" not in text] == []


def test_loop_turns_while_a_client_takes_everything(serve):
    ended = threading.Event()

    async def app(scope, receive, send):
        await send(START)
        if scope["path"] == "/stream":
            while not ended.is_set():
                await send({"type": "http.response.body", "body": FRAME, "more_body": True})
        await send({"type": "http.response.body", "body": b"end"})

    server = serve(app)
    client = server.connect().send("GET /stream HTTP/1.1\nHost: test\n\n")
    read = []
    reader = threading.Thread(target=lambda: read.append(client.response().body))
    reader.start()
    assert server.connect().get().body == b"end"
    ended.set()
    reader.join()
    assert read[0].endswith(FRAME + b"end")


def test_app_that_never_waits_lets_others_run_every_millisecond(serve):
    """In time of the processor, so that other processes do not count."""
    gaps, ended = [], threading.Event()

    async def tick():
        last = time.thread_time()
        while len(gaps) < 50:
            await asyncio.sleep(0)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    async def app(scope, receive, send):
        ticks = asyncio.create_task(tick())
        await send(START)
        while not ticks.done():
            await send({"type": "http.response.body", "body": b"", "more_body": True})  # no client is too slow for it
        await send({"type": "http.response.body", "body": b"end"})
        ended.set()

    client = serve(app).connect().send("GET / HTTP/1.1\nHost: test\n\n")
    assert client.response().body == b"end"
    assert ended.wait(30)
    assert statistics.median(gaps) < 0.004


def test_receive_that_never_waits_lets_the_loop_turn(serve):
    """After the disconnect, receive returns it again and again."""
    received = []

    async def app(scope, receive, send):
        await send(START)
        await send({"type": "http.response.body", "body": b"hello"})
        while scope["path"] == "/again":
            received.append(await receive())

    server = serve(app)
    assert server.connect().get("/again").body == b"hello"
    wait_until(lambda: len(received) > 2)
    assert server.connect().get().body == b"hello"
    server.call(lambda: [task.cancel() for task in server.server._core.tasks()])


def test_stream_that_was_cut_off_is_not_logged_as_complete(serve, capfd):
    raised = []

    async def app(scope, receive, send):
        await send(START)
        try:
            for _ in range(500):
                await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            await send({"type": "http.response.body"})
        except OSError as e:
            raised.append(type(e))
            raise

    server = serve(app, access_log=True, access_log_format="json")
    client = server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
    client.head()
    reset(client)
    wait_until(lambda: raised == [ClientDisconnected])
    server.stop()
    out = capfd.readouterr().out
    assert '"status":0' in out and '"status":200' not in out


@pytest.fixture
def waiting(serve):
    """Return a function that serves an app which waits after the head of its response, and then calls rest(send)."""

    def start(rest, headers=(), **start):
        go_on = asyncio.Event()

        async def app(scope, receive, send):
            await send({**START, "headers": headers, **start})
            await go_on.wait()
            await rest(send)

        server = serve(app)
        return server, lambda: server.call(go_on.set)

    return start


async def send_body(send, *pieces):
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize("version, headers, framing, pieces", [
    ("1.1", [], ("transfer-encoding", "chunked"), [b"one", b"two"]),
    ("1.1", [(b"content-length", b"6")], ("content-length", "6"), [b"one", b"two"]),
    ("1.0", [], ("connection", "close"), [b"one", b"two"]),
    ("1.1", [], ("transfer-encoding", "chunked"), []),
])
def test_head_is_sent_when_the_app_waits(waiting, version, headers, framing, pieces):
    server, go_on = waiting(lambda send: send_body(send, *pieces), headers)
    client = server.connect().send(f"GET / HTTP/{version}\nHost: test\n\n")
    status, fields = client.head()
    assert (status, dict(fields)[framing[0]]) == (200, framing[1])
    assert "content-length" not in dict(fields) or framing[0] == "content-length"
    go_on()
    if framing[1] == "chunked":
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    else:
        body = b"".join(pieces)
    assert client.file.read(len(body)) == body


@pytest.mark.parametrize("status, framing", [(200, "chunked"), (204, None), (304, None)])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_head_that_was_sent_alone_without_a_body(waiting, method, status, framing):
    server, go_on = waiting(send_body, status=status)
    client = server.connect().send(f"{method} / HTTP/1.1\nHost: test\n\n")
    got, fields = client.head()
    assert (got, dict(fields).get("transfer-encoding")) == (status, framing)
    go_on()
    if framing and method == "GET":
        assert client.file.read(5) == b"0\r\n\r\n"
    assert client.get().status == status  # on the same connection


@pytest.mark.parametrize("size", [0, 300_000])
@pytest.mark.parametrize("version, headers", [("1.1", []), ("1.1", "content-length"), ("1.0", [])])
def test_file_after_a_head_that_was_sent_alone(waiting, tmp_path, version, headers, size):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789" * (size // 10))
    headers = [(b"content-length", str(size).encode())] if headers else []
    server, go_on = waiting(lambda send: send({"type": "http.response.pathsend", "path": str(path)}), headers)
    client = server.connect().send(f"GET / HTTP/{version}\nHost: test\n\n")
    status, fields = client.head()
    go_on()
    if dict(fields).get("transfer-encoding") == "chunked":
        got = b""
        while length := int(client.file.readline(), 16):
            got += client.file.read(length)
            assert client.file.readline() == b"\r\n"
        assert client.file.readline() == b"\r\n"
    else:
        got = client.file.read(size) if headers else client.file.read()
    assert got == path.read_bytes()
    if version == "1.1":
        assert client.get(method="HEAD").status == 200


def test_app_that_fails_after_its_head_was_sent(waiting, errors):
    async def fail(send):
        raise ValueError

    server, go_on = waiting(fail)
    client = server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
    assert client.head()[0] == 200
    go_on()
    assert client.closed()
    wait_until(errors)


def test_head_and_body_are_sent_together_if_the_app_does_not_wait_long(serve):
    """Middleware that passes messages between tasks makes no response longer."""

    async def app(scope, receive, send):
        await send(START)
        for _ in range(3):
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"hello"})

    client = serve(app).connect()
    for _ in range(3):
        assert client.get()["content-length"] == "5"


def test_head_is_sent_while_the_loop_is_busy(serve):
    """The loop never waits, because a callback is always ready."""
    ended = asyncio.Event()

    async def spin():
        while not ended.is_set():
            await asyncio.sleep(0)

    async def app(scope, receive, send):
        task = asyncio.create_task(spin())
        await send(START)
        await ended.wait()
        await send({"type": "http.response.body", "body": b"hello"})
        await task

    server = serve(app)
    client = server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
    assert client.head()[0] == 200
    server.call(ended.set)
