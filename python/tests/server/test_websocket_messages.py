"""No message of a WebSocket is lost that the server has passed to the app, or that the app has sent before it closed.

Each test runs over HTTP/1.1 and on a stream of HTTP/2.
"""

import asyncio
import threading

import pytest

pytest.importorskip("h2")

from .conftest import LIMIT, wait_until  # noqa: E402
from .http2 import Client2  # noqa: E402
from .test_http2 import frame, open_websocket  # noqa: E402
from .test_websocket import KEY  # noqa: E402

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class OnConnection:
    """A WebSocket of HTTP/1.1 that sends and receives frames."""

    def __init__(self, server):
        self.client = server.connect()
        assert self.client.send(f"GET / HTTP/1.1\nHost: test\n{KEY}\n").head()[0] == 101

    def send(self, data):
        self.client.sock.sendall(data)

    def read(self, size):
        return self.client.file.read(size)

    def close(self):
        self.client.close()


class OnStream:
    """The same on a stream."""

    def __init__(self, server):
        self.client = Client2(server)
        self.stream = open_websocket(self.client)
        self.taken = 0

    def send(self, data):
        self.client.send(self.stream, data)

    def read(self, size):
        response = self.client.responses[self.stream]
        self.client.until(lambda: len(response.body) >= self.taken + size)
        self.taken += size
        return response.body[self.taken - size:self.taken]

    def close(self):
        self.client.close()


@pytest.fixture(params=[OnConnection, OnStream])
def websocket(request):
    """Return a function that opens a WebSocket."""
    opened = []

    def connect(server):
        opened.append(request.param(server))
        return opened[-1]

    yield connect
    for ws in opened:
        ws.close()


def receive_frame(ws):
    """Return the opcode and the payload of the next frame."""
    first, size = ws.read(2)
    if size == 126:
        size = int.from_bytes(ws.read(2), "big")
    return first & 0xF, ws.read(size)


def send_and_ping(ws, messages):
    """Send messages, and wait until the server has read them: it answers a Ping in order."""
    for message in messages:
        ws.send(frame(message, BINARY))
    ws.send(frame(b"read?", PING))
    assert receive_frame(ws) == (PONG, b"read?")


class Holding:
    """An app that receives its messages when it may, and notes them."""

    def __init__(self, closes):
        self.closes, self.may, self.messages = closes, threading.Event(), []

    async def __call__(self, scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.get_running_loop().run_in_executor(None, self.may.wait, LIMIT)
        if self.closes:
            await send({"type": "websocket.close", "code": 4001})
        while (message := await receive())["type"] == "websocket.receive":
            self.messages.append(message["bytes"])
        self.messages.append(message["code"])


MESSAGES = [b"message %d" % i for i in range(10)]


def test_messages_before_the_app_closes(serve, websocket, errors):
    app = Holding(closes=True)
    ws = websocket(serve(app, ws_per_message_deflate=False))
    send_and_ping(ws, MESSAGES)
    app.may.set()
    assert receive_frame(ws) == (CLOSE, b"\x0f\xa1")
    ws.send(frame(b"\x0f\xa1", CLOSE))
    wait_until(lambda: app.messages[-1:] == [4001])
    assert app.messages == [*MESSAGES, 4001]
    assert errors() == []


def test_messages_before_the_client_closes(serve, websocket, errors):
    app = Holding(closes=False)
    ws = websocket(serve(app, ws_per_message_deflate=False))
    send_and_ping(ws, MESSAGES)
    ws.send(frame(b"\x0f\xa0", CLOSE))
    assert receive_frame(ws) == (CLOSE, b"\x0f\xa0")
    app.may.set()
    wait_until(lambda: app.messages[-1:] == [4000])
    assert app.messages == [*MESSAGES, 4000]
    assert errors() == []


def test_messages_before_the_client_leaves(serve, websocket, errors):
    app = Holding(closes=False)
    ws = websocket(serve(app, ws_per_message_deflate=False))
    send_and_ping(ws, MESSAGES)
    ws.close()
    app.may.set()
    wait_until(lambda: app.messages[-1:] == [1006])
    assert app.messages == [*MESSAGES, 1006]
    assert errors() == []


@pytest.mark.parametrize("size", [10, 20_000])
def test_messages_that_the_app_sends_before_it_closes(serve, websocket, errors, size):
    """The handshake is not complete yet when the app sends the first ones. Large ones are more than the buffers hold."""
    sent = [bytes([i]) * size for i in range(100)]

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        for message in sent:
            await send({"type": "websocket.send", "bytes": message})
        await send({"type": "websocket.close", "code": 4001})

    ws = websocket(serve(app, ws_per_message_deflate=False))
    assert [receive_frame(ws) for _ in sent] == [(BINARY, message) for message in sent]
    assert receive_frame(ws) == (CLOSE, b"\x0f\xa1")
    assert errors() == []


def test_limit_of_messages_that_wait(serve, websocket, errors):
    """With ws_max_queue, the server passes no more messages until the app has received some."""
    app = Holding(closes=True)
    server = serve(app, ws_per_message_deflate=False, ws_max_queue=10)
    ws = websocket(server)
    send_and_ping(ws, MESSAGES[:9])
    for message in (MESSAGES[9], *MESSAGES):
        ws.send(frame(message, BINARY))
    for _ in range(5):  # turns of the loop in which it could read more
        server.call(int)
    app.may.set()
    assert receive_frame(ws) == (CLOSE, b"\x0f\xa1")
    ws.send(frame(b"\x0f\xa1", CLOSE))
    wait_until(lambda: app.messages[-1:] == [4001])
    assert app.messages in ([*MESSAGES, 4001], [*MESSAGES[:9], 4001])  # the tenth may come too late
    assert errors() == []


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_messages_above_the_limit_come_later(serve, websocket, errors, limit):
    app = Holding(closes=False)
    ws = websocket(serve(app, ws_per_message_deflate=False, ws_max_queue=limit))
    for message in MESSAGES:
        ws.send(frame(message, BINARY))
    app.may.set()
    ws.send(frame(b"\x0f\xa0", CLOSE))
    assert receive_frame(ws) == (CLOSE, b"\x0f\xa0")
    wait_until(lambda: app.messages[-1:] == [4000])
    assert app.messages == [*MESSAGES, 4000]
    assert errors() == []
