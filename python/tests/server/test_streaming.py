"""Apps that stream, and await nothing but send."""

import socket
import struct
import threading

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
    assert errors() == []


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
