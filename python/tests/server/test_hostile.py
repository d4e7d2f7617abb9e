"""Hostile clients: the cases of Go's package web, with a Python app behind the server."""

import json
import pathlib

import pytest

CASES = pathlib.Path(__file__).parents[3] / "web" / "testdata" / "hostile.json"
if not CASES.exists():
    pytest.skip(f"the cases are in the Go module: {CASES} is missing", allow_module_level=True)
CASES = json.loads(CASES.read_text())


@pytest.mark.parametrize("case", CASES["requests"], ids=lambda case: case["name"])
def test_request_is_refused(serve, errors, case):
    called = []

    async def app(scope, receive, send):
        called.append(scope)

    server = serve(app, http="1", limit_header_size=4096, limit_body_size=100)
    text = case["request"].replace("{repeat}", case.get("repeat", "") * case.get("times", 0))
    client = server.connect().send(text.encode("latin-1"))
    response = client.response()
    assert (response.status, response["connection"]) == (case["status"], "close")
    assert client.closed()
    assert called == [] and errors() == []


@pytest.mark.parametrize("chunks", CASES["chunks"])
def test_bad_chunks_end_the_body(serve, errors, chunks):
    received = []

    async def app(scope, receive, send):
        while (message := await receive())["type"] == "http.request":
            received.append(message["more_body"])
        await send({"type": "http.response.start", "status": 400})
        await send({"type": "http.response.body"})

    client = serve(app, limit_body_size=10).connect()
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks.encode("latin-1"))
    response = client.response()
    status = 413 if chunks.startswith("b\r") else 400  # eleven bytes are too many
    assert (response.status, response["connection"]) == (status, "close")
    assert client.closed()
    assert False not in received, "the app got the end of the body"
    assert errors() == []


def test_absolute_form_is_understood(serve):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": repr((scope["path"], dict(scope["headers"])[b"host"])).encode()})

    client = serve(app).connect()
    for _ in range(2):
        response = client.send("GET http://b/x HTTP/1.1\nHost: a\n\n").response()
        assert eval(response.body) == ("/x", b"b")


def test_absolute_form_of_a_websocket(serve):
    async def app(scope, receive, send):
        text = repr((scope["path"], scope["query_string"], dict(scope["headers"])[b"host"]))
        await send({"type": "websocket.http.response.start", "status": 400})
        await send({"type": "websocket.http.response.body", "body": text.encode()})

    client = serve(app).connect()
    response = client.send("GET http://b/x?q HTTP/1.1\nHost: a\nConnection: upgrade\nUpgrade: websocket\n"
                           "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n").response()
    assert eval(response.body) == ("/x", b"q", b"b")
