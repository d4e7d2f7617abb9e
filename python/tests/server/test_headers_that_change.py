"""Header fields that are objects of the app: to read one runs Python, which may change the list of them."""

import socket

import pytest

APP = """
class Field:
    def __init__(self, headers):
        self.headers = headers

    def __iter__(self):
        self.headers.clear()
        return iter((b"x-a", b"b"))


async def app(scope, receive, send):
    headers = []
    headers += [Field(headers), (b"x-never", b"read")]
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept", "headers": headers})
        await send({"type": "websocket.close"})
    else:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
"""
HTTP = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
WEBSOCKET = (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
             b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


@pytest.mark.parametrize("request_bytes", [HTTP, WEBSOCKET], ids=["http", "websocket"])
def test_a_field_that_clears_the_list(command, request_bytes):
    (command.directory / "changing.py").write_text(APP)
    # With this allocator, memory that was freed holds no valid pointer.
    server = command("changing:app", "--port", "0", "--lifespan", "off", env={"PYTHONMALLOC": "debug"})
    found = server.url()
    with socket.create_connection((found[1], int(found[2])), 10) as client:
        client.sendall(request_bytes)
        head = b""
        while b"\r\n\r\n" not in head and (data := client.recv(4096)):
            head += data
    assert b"x-a: b\r\n" in head.lower(), "".join(server.err)
    assert b"x-never" not in head.lower()
    assert server.stop() == 0
