"""HTTP/2: what apps, logs and clients see. The clients are the library h2, httpx, curl, nghttp and h2load."""

import asyncio
import json
import shutil
import ssl
import subprocess
import threading

import pytest

from spindle.server import Config
from spindle.server.serving import ClientDisconnected

from .conftest import LIMIT, wait_until
from .test_streaming import START

pytest.importorskip("h2")
from .http2 import Client2  # noqa: E402

INTERNAL_ERROR = 2
GOAWAY = 7


async def body_of(receive):
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    return body


async def hello(scope, receive, send):
    body = await body_of(receive)
    text = json.dumps({
        "http_version": scope["http_version"], "method": scope["method"], "path": scope["path"], "raw_path": scope["raw_path"].decode(),
        "query": scope["query_string"].decode(), "scheme": scope["scheme"], "client": scope["client"], "size": len(body),
        "headers": [(name.decode(), value.decode()) for name, value in scope["headers"]]}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", b"application/json")]})
    await send({"type": "http.response.body", "body": text})


@pytest.fixture
def connect():
    """Connect clients that are closed after the test."""
    clients = []

    def make(server, **options):
        clients.append(Client2(server, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def test_scope(serve, connect):
    client = connect(serve(hello))
    response = client.get("/a%20b?c=d", headers=[
        ("host", "other"), ("x-many", "1"), ("cookie", "a=1"), ("x-many", "2"), ("cookie", "b=2"), ("te", "trailers")])
    scope = json.loads(response.body)
    assert (response.status, response["content-type"], response["content-length"]) == (200, "application/json", str(len(response.body)))
    assert response["server"] == "spindle" and response["date"] and response["connection"] is None
    assert (scope["http_version"], scope["method"], scope["scheme"]) == ("2", "GET", "http")
    assert (scope["path"], scope["raw_path"], scope["query"]) == ("/a b", "/a%20b", "c=d")
    assert scope["client"][0] == "127.0.0.1"
    assert scope["headers"] == [["host", "test"], ["x-many", "1"], ["cookie", "a=1; b=2"], ["x-many", "2"], ["te", "trailers"]]


def test_host_without_an_authority(serve, connect):
    scope = json.loads(connect(serve(hello)).get(authority=None, headers=[("x", "1"), ("host", "other")]).body)
    assert scope["headers"] == [["x", "1"], ["host", "other"]]


@pytest.mark.parametrize("http, first, second", [("auto", "HTTP/2", "HTTP/1.1"), ("1", "", "HTTP/1.1"), ("2", "HTTP/2", "")])
def test_protocols_that_are_spoken(serve, connect, http, first, second):
    server = serve(hello, http=http)
    with pytest.raises((EOFError, ConnectionError, Exception)) if not first else _nothing():
        assert json.loads(connect(server).get().body)["http_version"] == "2"
    if second:
        assert json.loads(server.connect().get().body)["http_version"] == "1.1"
    else:
        client = server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
        assert client.closed()


class _nothing:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("http, chosen", [("auto", "h2"), ("1", "http/1.1"), ("2", "h2")])
def test_tls_chooses_by_alpn(serve, certificate, http, chosen):
    import socket

    server = serve(hello, http=http, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"))
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    context.set_alpn_protocols(["h2", "http/1.1"])
    with context.wrap_socket(socket.create_connection(("127.0.0.1", server.port), LIMIT), server_hostname="localhost") as sock:
        assert sock.selected_alpn_protocol() == chosen


def test_over_tls(serve, connect, certificate):
    server = serve(hello, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"))
    client = connect(server, certificate=certificate)
    scope = json.loads(client.get(method="POST", body=b"x" * 300_000).body)
    assert (scope["http_version"], scope["scheme"], scope["size"]) == ("2", "https", 300_000)


def test_bad_choice():
    with pytest.raises(ValueError, match="http must be one of auto, 1, 2, not '3'"):
        Config(app=hello, http="3")


def test_streams_at_the_same_time(serve, connect):
    """A response that waits does not hold up the others."""
    release = asyncio.Event()

    async def app(scope, receive, send):
        if scope["path"] == "/slow":
            await release.wait()
        await send(START)
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    server = serve(app)
    client = connect(server)
    slow = client.request("/slow")
    many = [client.request(f"/{i}") for i in range(50)]
    assert [client.response(stream).body for stream in many] == [f"/{i}".encode() for i in range(50)]
    assert slow not in client.ended
    server.call(release.set)
    assert client.response(slow).body == b"/slow"


@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_000])
def test_bodies_both_ways(serve, connect, size):
    async def app(scope, receive, send):
        body = await body_of(receive)
        await send(START)
        await send({"type": "http.response.body", "body": body})

    client = connect(serve(app))
    body = bytes(i % 251 for i in range(size))
    response = client.get(method="POST", body=body)
    assert response.body == body and response["content-length"] == str(size)
    assert client.get().body == b""  # the connection can be used again


def test_stream_in_pieces_has_no_length(serve, connect):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Transfer-Encoding", b"chunked"), (b"Keep-Alive", b"1")]})
        for piece in (b"one ", bytearray(b"x" * 20_000), b"y" * 20_000):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    response = connect(serve(app)).get()
    assert response.body == b"one " + b"x" * 20_000 + b"y" * 20_000
    assert {name for name, _ in response.fields} == {"server", "date"}


@pytest.mark.parametrize("status, method", [(200, "HEAD"), (204, "GET"), (304, "GET")])
def test_responses_without_a_body(serve, connect, status, method):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"" if status != 200 else b"hello"})

    response = connect(serve(app)).get(method=method)
    assert (response.status, response.body, response["content-length"]) == (status, b"", "5" if status == 200 else None)


def test_head_goes_before_the_body(serve, connect):
    go_on = asyncio.Event()

    async def app(scope, receive, send):
        await send(START)
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"later"})

    server = serve(app)
    client = connect(server)
    stream = client.request()
    client.until(lambda: stream in client.responses)
    server.call(go_on.set)
    assert client.response(stream).body == b"later"


def test_client_that_does_not_read_holds_up_its_stream_only(serve, connect):
    sent, lost = [], []

    async def app(scope, receive, send):
        await send(START)
        if scope["path"] == "/endless":
            try:
                while True:
                    await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
                    sent.append(1)
            except ClientDisconnected:
                lost.append(1)
                raise
        await send({"type": "http.response.body", "body": b"hello"})

    server = serve(app)
    client = connect(server)
    client.acknowledges = False
    endless = client.request("/endless")
    client.until(lambda: endless in client.responses and len(client.responses[endless].body) == 65535)
    before = len(sent)
    client.h2.increment_flow_control_window(1_000_000)  # of the connection
    assert client.get().body == b"hello"
    assert len(sent) == before and before < 50
    client.h2.increment_flow_control_window(1_000_000, endless)
    client.flush()
    client.until(lambda: len(client.responses[endless].body) > 500_000)
    client.reset(endless)
    wait_until(lambda: lost and server.server._core.active == 0)
    assert client.get().body == b"hello"


def test_app_that_does_not_read_holds_up_the_upload(serve, connect):
    """A window is what the client may send before the app takes it."""
    go_on = asyncio.Event()
    seen = []

    async def app(scope, receive, send):
        if scope["path"] == "/":
            await go_on.wait()
        seen.append(len(await body_of(receive)))
        await send(START)
        await send({"type": "http.response.body"})

    server = serve(app)
    client = connect(server)
    stream = client.request(method="POST", end=False)
    client.until(lambda: client.h2.local_flow_control_window(stream) > 65535)
    window = client.h2.local_flow_control_window(stream)
    client.send(stream, b"x" * window)
    assert client.get("/other", method="POST", body=b"x" * 500_000).status == 200
    assert client.h2.local_flow_control_window(stream) == 0
    server.call(go_on.set)
    client.send(stream, b"x" * 1_000_000, end=True)
    assert client.response(stream).status == 200
    assert seen == [500_000, window + 1_000_000]


def test_uploads_that_are_complete_give_the_window_back(serve, connect):
    """Their responses come late, and the connection has one window for all."""
    release = asyncio.Event()

    async def app(scope, receive, send):
        await body_of(receive)
        await release.wait()
        await send(START)
        await send({"type": "http.response.body"})

    server = serve(app)
    client = connect(server)
    streams = [client.request(method="POST", body=b"x" * 200_000) for _ in range(12)]
    server.call(release.set)
    assert [client.response(stream).status for stream in streams] == [200] * 12


def test_reset_by_the_client(serve, connect, errors, capfd):
    seen = []

    async def app(scope, receive, send):
        await receive()
        seen.append((await receive())["type"])
        try:
            await send(START)
            await send({"type": "http.response.body", "body": b"too late"})
        except OSError as e:
            seen.append(type(e))
            raise

    server = serve(app, access_log=True, access_log_format="json")
    client = connect(server)
    client.reset(client.request())
    wait_until(lambda: len(seen) == 2 and server.server._core.active == 0)
    assert seen == ["http.disconnect", ClientDisconnected]
    assert errors() == []
    server.stop()
    line, = capfd.readouterr().out.splitlines()
    assert json.loads(line)["status"] == 0


def test_lost_connection_ends_all_streams(serve, connect, errors):
    arrived, ended = [], []

    async def app(scope, receive, send):
        arrived.append(1)
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.append(scope["path"])

    server = serve(app)
    client = connect(server)
    for i in range(20):
        client.request(f"/{i}")
    client.request("/upload", method="POST", end=False)
    wait_until(lambda: len(arrived) == 21)
    client.close()
    wait_until(lambda: len(ended) == 21 and server.server._core.active == 0)
    assert errors() == []


@pytest.mark.parametrize("begun", [False, True])
def test_app_that_fails(serve, connect, errors, begun):
    async def app(scope, receive, send):
        if scope["path"] == "/":
            if begun:
                await send(START)
                await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise KeyError("mine")
        await send(START)
        await send({"type": "http.response.body", "body": b"hello"})

    client = connect(serve(app))
    if begun:
        stream = client.request()
        client.until(lambda: stream in client.resets)
        assert client.resets[stream] == INTERNAL_ERROR
    else:
        response = client.get()
        assert (response.status, response.body) == (500, b"Internal Server Error")
    assert client.get("/other").body == b"hello"  # on the same connection
    assert len(errors()) == 1


def test_body_shorter_than_announced(serve, connect, errors):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")], "trailers": True})
        await send({"type": "http.response.body", "body": b"short", "more_body": True})
        await send({"type": "http.response.body"})

    client = connect(serve(app))
    stream = client.request()
    client.until(lambda: stream in client.resets)
    assert "shorter" in str(errors()[0][1])


def test_trailers(serve, connect):
    async def app(scope, receive, send):
        assert "http.response.trailers" in scope["extensions"]
        await send({**START, "trailers": True})
        await send({"type": "http.response.body", "body": b"body"})
        await send({"type": "http.response.trailers", "headers": [(b"X-One", b"1")], "more_trailers": True})
        await send({"type": "http.response.trailers", "headers": [(b"x-two", b"2")]})

    response = connect(serve(app)).get()
    assert (response.body, response.trailers) == (b"body", [("x-one", "1"), ("x-two", "2")])


def test_early_hints_and_continue(serve, connect):
    async def app(scope, receive, send):
        await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload", b"</b.css>"]})
        body = await body_of(receive)
        await send(START)
        await send({"type": "http.response.body", "body": body})

    client = connect(serve(app))
    stream = client.request(method="POST", headers=[("expect", "100-continue")], end=False)
    client.until(lambda: len(client.interim.get(stream, [])) == 2)
    client.send(stream, b"hello", end=True)
    assert client.response(stream).body == b"hello"
    assert client.interim[stream] == [[(":status", "103"), ("link", "</a.css>; rel=preload"), ("link", "</b.css>")], [(":status", "100")]]


@pytest.mark.parametrize("size", [0, 5, 1_000_000])
def test_pathsend(serve, connect, tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(content := bytes(i % 253 for i in range(size)))

    async def app(scope, receive, send):
        await send(START)
        if scope["path"] == "/wait":
            await asyncio.sleep(0.01)
        await send({"type": "http.response.pathsend", "path": str(path)})

    client = connect(serve(app))
    streams = [client.request("/wait" if i % 2 else "/") for i in range(6)]
    assert [client.response(stream).body for stream in streams] == [content] * 6
    assert client.responses[streams[0]]["content-length"] == str(size)
    assert client.get(method="HEAD").body == b""


def test_pathsend_to_a_client_that_leaves(serve, connect, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5_000_000)

    async def app(scope, receive, send):
        await send(START)
        await send({"type": "http.response.pathsend" if scope["path"] == "/" else "http.response.body", "path": str(path)})

    server = serve(app)
    client = connect(server)
    client.acknowledges = False
    stream = client.request()
    client.until(lambda: stream in client.responses and client.responses[stream].body)
    client.reset(stream)
    assert client.get("/other").status == 200
    import os

    wait_until(lambda: not any(os.path.realpath(f"/proc/self/fd/{fd}") == str(path) for fd in os.listdir("/proc/self/fd")))


@pytest.mark.parametrize("status, options, size", [(408, {"timeout_body": 0.1}, 5), (413, {"limit_body_size": 10}, 20)])
def test_body_that_cannot_be_taken(serve, connect, errors, status, options, size):
    """The server answers itself, and the connection goes on."""
    async def app(scope, receive, send):
        await body_of(receive)
        await send(START)
        await send({"type": "http.response.body", "body": b"hello"})

    client = connect(serve(app, **options))
    assert client.response(client.request(method="POST", body=b"x" * size, end=False)).status == status
    assert client.get().body == b"hello"
    assert errors() == []


@pytest.mark.parametrize("status, options, headers, path", [
    (431, {"limit_header_size": 1000}, [("x-large", "y" * 5000)], "/"),
    (431, {"limit_header_fields": 5}, [(f"x-{i}", "y") for i in range(10)], "/"),
    (414, {"limit_request_line": 100}, [], "/" + "y" * 200),
    (413, {"limit_body_size": 10}, [("content-length", "11")], "/"),
    (503, {"limit_concurrency": 1}, [], "/"),
])
def test_limits(serve, connect, status, options, headers, path):
    release = asyncio.Event()

    async def app(scope, receive, send):
        if scope["path"] == "/first":
            await release.wait()
        await send(START)
        await send({"type": "http.response.body", "body": b"hello"})

    server = serve(app, **options)
    client = connect(server)
    first = client.request("/first")
    end = "content-length" not in dict(headers)
    assert client.response(client.request(path, "GET" if end else "POST", headers, end=end)).status == status
    server.call(release.set)
    assert client.response(first).body == b"hello"
    wait_until(lambda: server.server._core.active == 0)
    assert client.get().body == b"hello"


def test_very_many_resets_do_not_run_more_apps(serve, connect):
    """Rapid reset: an app counts until it returns, not until its stream is reset."""
    release, most, now = asyncio.Event(), [0], [0]

    async def app(scope, receive, send):
        now[0] += 1
        most[0] = max(most[0], now[0])
        await release.wait()
        now[0] -= 1

    server = serve(app)
    client = connect(server)
    for _ in range(600):
        client.reset(client.request())
    with pytest.raises((AssertionError, EOFError)):  # refused, or the connection is over
        client.get()
    assert most[0] <= 250
    server.call(release.set)
    wait_until(lambda: server.server._core.active == 0)


def test_drain_answers_what_is_under_way(serve, connect):
    arrived, release = [], asyncio.Event()

    async def app(scope, receive, send):
        arrived.append(scope["path"])
        if scope["path"] == "/first":
            await release.wait()
        await send(START)
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    server = serve(app)
    client = connect(server)
    first = client.request("/first")
    wait_until(lambda: arrived)
    server.loop.call_soon_threadsafe(server.server.stop)
    while GOAWAY not in client.kinds():
        client.read()
    late = client.request("/late")  # as one that was on its way when the server began to stop
    client.take()
    client.flush()
    server.loop.call_soon_threadsafe(release.set)
    bodies = [client.response(stream).body for stream in (first, late)]
    assert bodies == [b"/first", b"/late"]
    with pytest.raises(EOFError):
        while True:
            client.step()
    assert client.goodbyes == [2**31 - 1, late]


def test_fields_about_the_connection_are_left_out(serve, connect):
    fields = [(b"Connection", b"close"), (b"upgrade", b"x"), (b"keep-alive", b"1"), (b"Proxy-Connection", b"x"), (b"X-Other", b"1")]

    async def app(scope, receive, send):
        await send({**START, "headers": fields})
        await send({"type": "http.response.body", "body": b"hello"})

    client = connect(serve(app))
    for _ in range(2):
        assert [name for name, _ in client.get().fields] == ["x-other", "date", "server", "content-length"]


@pytest.mark.parametrize("kind, line", [
    ("common", '"GET /a?b=c HTTP/2" 200 '), ("combined", '"https://from" "agent/1"'), ("json", '"proto":"HTTP/2"'),
])
def test_access_log(serve, connect, capfd, tmp_path, kind, line):
    (tmp_path / "x.txt").write_text("file")
    server = serve(hello, access_log=True, access_log_format=kind, static=[("/static", str(tmp_path))])
    client = connect(server)
    client.get("/a?b=c", headers=[("referer", "https://from"), ("user-agent", "agent/1"), ("x-forwarded-for", "203.0.113.5")])
    assert client.get("/static/x.txt", headers=[("referer", "https://from"), ("user-agent", "agent/1")]).body == b"file"
    server.stop()
    lines = capfd.readouterr().out.splitlines()
    assert line in lines[0] and "203.0.113.5" in lines[0]
    assert all("HTTP/2" in line and "HTTP/2.0" not in line for line in lines) and len(lines) == 2


def test_metrics_and_health(serve, connect):
    server = serve(hello, metrics="/metrics", health="/health")
    client = connect(server)
    client.get()
    assert client.get("/health").body == b"ok\n"
    assert b'spindle_requests_total{status="2xx"} 1\n' in client.get("/metrics").body


def test_wsgi(serve, connect):
    def app(environ, start_response):
        start_response("200 OK", [("X-Protocol", environ["SERVER_PROTOCOL"]), ("X-Host", environ["HTTP_HOST"]), ("Connection", "close")])
        return [environ["wsgi.input"].read(), b"!"]

    response = connect(serve(app, interface="wsgi")).get(method="POST", body=b"x" * 100_000)
    assert response.body == b"x" * 100_000 + b"!"
    assert (response["x-protocol"], response["x-host"]) == ("HTTP/2", "test")


def test_tunnels_are_refused(serve, connect):
    client = connect(serve(hello))
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, [(":method", "CONNECT"), (":authority", "elsewhere:80")], end_stream=True)
    client.flush()
    assert client.response(stream).status == 501


# WebSockets.


def frame(text, opcode=1):
    """Return a masked frame of up to 125 bytes."""
    return bytes([0x80 | opcode, 0x80 | len(text)]) + bytes(4) + text


def open_websocket(client, path="/chat?x=1", headers=()):
    client.until(lambda: client.h2.remote_settings.enable_connect_protocol)
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", path),
                                    (":authority", "test"), ("sec-websocket-version", "13"), *headers])
    client.flush()
    client.until(lambda: stream in client.responses)
    return stream


async def chat(scope, receive, send):
    if scope["type"] == "http":
        await hello(scope, receive, send)
        return
    await receive()
    await send({"type": "websocket.accept", "subprotocol": scope["subprotocols"][0] if scope["subprotocols"] else None})
    await send({"type": "websocket.send", "text": f"{scope['http_version']} {scope['path']} {scope['query_string'].decode()} {scope['headers'][0]}"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})
    chat.ended.append(message["code"])


def test_websocket(serve, connect, errors, capfd):
    chat.ended = []
    server = serve(chat, access_log=True)
    client = connect(server)
    stream = open_websocket(client, headers=[("sec-websocket-protocol", "a, b")])
    response = client.responses[stream]
    assert (response.status, response["sec-websocket-protocol"], response["sec-websocket-accept"]) == (200, "a", None)
    greeting = b"2 /chat x=1 (b'host', b'test')"
    expected = bytes([0x81, len(greeting)]) + greeting
    for i in range(50):
        client.send(stream, frame(b"hello %d" % i))
        text = b"hello %d" % i
        expected += bytes([0x81, len(text)]) + text
    assert json.loads(client.get().body)["http_version"] == "2"  # on the same connection
    client.until(lambda: len(client.responses[stream].body) == len(expected))
    assert client.responses[stream].body == expected
    client.send(stream, frame(b"\x0f\xa0bye", 8))
    wait_until(lambda: chat.ended == [4000] and server.server._core.active == 0)
    assert errors() == []
    server.stop()
    assert '"CONNECT /chat?x=1 HTTP/2" 200 ' in capfd.readouterr().out


@pytest.mark.parametrize("leave", [lambda c, s: c.reset(s), lambda c, s: c.close()], ids=["reset", "close"])
def test_websocket_of_a_client_that_leaves(serve, connect, errors, leave):
    chat.ended = []
    server = serve(chat)
    client = connect(server)
    stream = open_websocket(client)
    client.until(lambda: client.responses[stream].body)
    leave(client, stream)
    wait_until(lambda: chat.ended == [1006] and server.server._core.active == 0)
    assert errors() == []


def test_websocket_that_the_app_closes_or_denies(serve, connect):
    async def app(scope, receive, send):
        await receive()
        if scope["path"] == "/deny":
            await send({"type": "websocket.close"})
            return
        await send({"type": "websocket.accept", "headers": [(b"x-own", b"1")]})
        await send({"type": "websocket.close", "code": 4001, "reason": "enough"})

    client = connect(serve(app))
    assert client.responses[open_websocket(client, "/deny")].status == 403
    stream = open_websocket(client, "/")
    assert client.responses[stream]["x-own"] == "1"
    client.until(lambda: client.responses[stream].body)
    assert client.responses[stream].body == bytes([0x88, 8]) + b"\x0f\xa1enough"


def test_websocket_that_the_app_closes_before_it_has_received_all(serve, connect):
    codes = []
    full = threading.Event()

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.get_running_loop().run_in_executor(None, full.wait, LIMIT)
        await send({"type": "websocket.close", "code": 4001})
        while (message := await receive())["type"] == "websocket.receive":
            pass  # how many were passed to the app before it closed depends on time
        codes.append(message["code"])

    server = serve(app, ws_per_message_deflate=False)
    client = connect(server)
    stream = open_websocket(client)
    message = bytes([0x82, 0x80 | 126]) + (10_000).to_bytes(2, "big") + bytes(4) + b"x" * 10_000
    for _ in range(20):  # more than the server passes to an app that does not receive
        client.send(stream, message)
    client.ping()
    full.set()
    client.until(lambda: client.responses[stream].body)  # the server's Close
    client.send(stream, frame(b"\x0f\xa1", 8))
    wait_until(lambda: codes)
    assert codes == [4001]


def test_websocket_that_is_not_read_when_its_client_leaves(serve, connect, errors):
    failed = []
    gone = threading.Event()

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.get_running_loop().run_in_executor(None, gone.wait, LIMIT)
        try:
            while True:  # the app never receives, so only sending can show that the client has left
                await send({"type": "websocket.send", "text": "x"})
                await asyncio.sleep(0.001)
        except OSError:
            failed.append(True)

    server = serve(app, ws_per_message_deflate=False, ws_max_queue=1)
    client = connect(server)
    stream = open_websocket(client)
    for _ in range(10):
        client.send(stream, frame(b"more than the app is passed"))
    client.reset(stream)
    client.ping()
    gone.set()
    wait_until(lambda: failed and server.server._core.active == 0)
    assert errors() == []


def test_websocket_to_a_client_that_does_not_read(serve, connect):
    sent = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        for _ in range(200):
            await send({"type": "websocket.send", "bytes": b"x" * 10_000})
            sent.append(1)

    server = serve(app, ws_per_message_deflate=False)
    client = connect(server)
    client.acknowledges = False
    stream = open_websocket(client)
    client.until(lambda: len(client.responses[stream].body) == 65535)
    assert len(sent) < 100
    client.acknowledges = True
    client.h2.increment_flow_control_window(3_000_000)
    client.h2.increment_flow_control_window(3_000_000, stream)
    client.flush()
    client.until(lambda: len(client.responses[stream].body) > 2_000_000)
    assert len(sent) == 200


def test_websocket_when_the_server_stops(serve, connect):
    chat.ended = []
    server = serve(chat)
    client = connect(server)
    stream = open_websocket(client)
    client.until(lambda: client.responses[stream].body)
    server.loop.call_soon_threadsafe(server.server.stop)
    client.until(lambda: b"\x03\xe9" in client.responses[stream].body)  # 1001
    client.send(stream, frame(b"\x03\xe9", 8))
    server.thread.join(LIMIT)
    assert not server.thread.is_alive() and chat.ended


# Programs that share no code with the server.


def run(*arguments, data=b""):
    if shutil.which(arguments[0]) is None:
        pytest.skip(f"{arguments[0]} is not installed")
    return subprocess.run(arguments, input=data, capture_output=True, timeout=LIMIT, check=True).stdout.decode()


def test_httpx(serve, certificate):
    httpx = pytest.importorskip("httpx")
    options = {"ssl_certfile": str(certificate / "cert.pem"), "ssl_keyfile": str(certificate / "key.pem")}
    server = serve(hello, **options)

    async def main():
        context = ssl.create_default_context(cafile=certificate / "cert.pem")
        context.check_hostname = False
        async with httpx.AsyncClient(http2=True, verify=context, base_url=f"https://localhost:{server.port}", timeout=LIMIT) as client:
            return await asyncio.gather(*(client.post("/", content=b"x" * 100_000) for _ in range(20)))

    responses = asyncio.run(main())
    assert {r.http_version for r in responses} == {"HTTP/2"}
    assert {r.json()["size"] for r in responses} == {100_000}


def test_curl(serve, certificate):
    server = serve(hello)
    assert json.loads(run("curl", "-sS", "--http2-prior-knowledge", server.url))["http_version"] == "2"
    assert json.loads(run("curl", "-sS", "--http2-prior-knowledge", "--data-binary", "@-", server.url, data=b"x" * 2_000_000))["size"] == 2_000_000
    secure = serve(hello, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"))
    scope = json.loads(run("curl", "-sS", "--http2", "--insecure", f"https://127.0.0.1:{secure.port}/"))
    assert (scope["http_version"], scope["scheme"]) == ("2", "https")


def test_nghttp(serve):
    assert run("nghttp", "-v", "-n", "-m", "20", serve(hello).url).count("; END_STREAM") >= 20


def test_h2load(serve):
    assert "2000 succeeded, 0 failed" in run("h2load", "-n", "2000", "-c", "8", "-m", "16", serve(hello).url)


def test_clients_of_both_protocols_at_the_same_time(serve, connect):
    server = serve(hello)
    failures = []

    def work(http):
        try:
            for _ in range(30):
                client = connect(server) if http == "2" else server.connect()
                assert json.loads(client.get().body)["http_version"] == http
                client.close()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(http,)) for http in ("2", "1.1", "2", "1.1")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert failures == []
