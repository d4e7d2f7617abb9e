"""WebSockets as clients and apps see them."""

import asyncio
import threading

import pytest

from spindle.server.config import TrustedProxies

from .conftest import wait_until

websockets = pytest.importorskip("websockets")
from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

KEY = "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"


async def echo(scope, receive, send):
    assert scope["type"] == "websocket"
    assert (await receive()) == {"type": "websocket.connect"}
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("bytes") is not None:
            await send({"type": "websocket.send", "bytes": message["bytes"]})
        else:
            await send({"type": "websocket.send", "text": message["text"]})


def url(server, path="/"):
    return f"ws://127.0.0.1:{server.port}{path}"


def test_scope(serve):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)
        await echo(scope, receive, send)

    server = serve(app)
    with connect(url(server, "/a%20b?x=1"), subprotocols=["one", "two"], additional_headers={"X-Name": "v"}):
        pass
    scope = seen[0]
    assert (scope["scheme"], scope["path"], scope["raw_path"], scope["query_string"]) == ("ws", "/a b", b"/a%20b", b"x=1")
    assert scope["subprotocols"] == ["one", "two"]
    assert (b"x-name", b"v") in scope["headers"] and scope["headers"][0][0] == b"host"
    assert scope["client"][0] == "127.0.0.1"
    assert "websocket.http.response" in scope["extensions"]
    assert "method" not in scope


@pytest.mark.parametrize("fields", [
    KEY, "Connection: keep-alive\n" + KEY, KEY + "Connection: keep-alive\n",
    KEY.replace("Connection: Upgrade", "Connection: keep-alive, upgrade").replace("websocket", "other/1, WebSocket")])
def test_handshake_in_other_words(serve, fields):
    client = serve(echo).connect()
    assert client.send(f"GET / HTTP/1.1\nHost: test\n{fields}\n").head()[0] == 101


@pytest.mark.parametrize("request_line, fields", [
    ("GET / HTTP/1.0", KEY), ("POST / HTTP/1.1", KEY), ("GET / HTTP/1.1", KEY.replace("websocket", "h2c")),
    ("GET / HTTP/1.1", KEY.replace("Connection: Upgrade", "Connection: close"))])
def test_requests_that_open_no_websocket(serve, request_line, fields):
    types = []

    async def app(scope, receive, send):
        types.append(scope["type"])
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    assert serve(app).connect().send(f"{request_line}\nHost: test\n{fields}\n").head()[0] == 200
    assert types == ["http"]


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_echo(serve, compression):
    with connect(url(serve(echo)), compression=compression, max_size=None) as ws:
        for message in ("text", "", "ünïcode " * 1000, b"bytes", b"", bytes(300_000)):
            ws.send(message)
            assert ws.recv() == message


def test_compression_can_be_turned_off(serve):
    with connect(url(serve(echo, ws_per_message_deflate=False))) as ws:
        assert not ws.protocol.extensions
    with connect(url(serve(echo))) as ws:
        assert ws.protocol.extensions


def test_subprotocol_and_headers(serve):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept", "subprotocol": "two", "headers": [(b"x-own", b"yes")]})
        await receive()

    with connect(url(serve(app)), subprotocols=["one", "two"]) as ws:
        assert ws.subprotocol == "two"
        assert ws.response.headers["x-own"] == "yes"


def test_client_closes(serve):
    seen = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        seen.append(await receive())
        seen.append(await receive())
        with pytest.raises(OSError):
            await send({"type": "websocket.send", "text": "too late"})
        seen.append("raised")

    with connect(url(serve(app))) as ws:
        ws.close(4001, "enough")
    wait_until(lambda: len(seen) == 3)
    assert seen[0] == seen[1] == {"type": "websocket.disconnect", "code": 4001, "reason": "enough"}


def test_client_disappears(serve):
    seen = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        seen.append((await receive())["code"])

    client = serve(app).connect()
    client.send(f"GET / HTTP/1.1\nHost: test\n{KEY}\n").head()
    client.close()
    wait_until(lambda: seen == [1006])


def test_app_closes(serve):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "last"})
        await send({"type": "websocket.close", "code": 4002, "reason": "done"})

    with connect(url(serve(app))) as ws:
        assert ws.recv() == "last"
        with pytest.raises(ConnectionClosed) as e:
            ws.recv()
        assert (e.value.rcvd.code, e.value.rcvd.reason) == (4002, "done")


@pytest.mark.parametrize("fails, code", [(False, 1000), (True, 1011)])
def test_app_returns_while_open(serve, errors, fails, code):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        if fails:
            raise ValueError("broken")

    with connect(url(serve(app))) as ws:
        with pytest.raises(ConnectionClosed) as e:
            ws.recv()
        assert e.value.rcvd.code == code
    wait_until(lambda: len(errors()) == fails)


def refused(server):
    with pytest.raises(InvalidStatus) as e:
        connect(url(server))
    return e.value.response


def test_close_before_accept_is_403(serve):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.close"})

    assert refused(serve(app)).status_code == 403


def test_denial_response(serve):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.http.response.start", "status": 418, "headers": [(b"x-why", b"teapot")]})
        await send({"type": "websocket.http.response.body", "body": b"short ", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"and stout"})

    response = refused(serve(app))
    assert (response.status_code, response.headers["x-why"], response.body) == (418, "teapot", b"short and stout")


def test_denial_has_the_type_that_the_app_gives(serve):
    async def app(scope, receive, send):
        await receive()
        typed = [(b"content-type", b"text/x-tea")] if scope["path"] == "/typed" else []
        await send({"type": "websocket.http.response.start", "status": 418, "headers": typed})
        await send({"type": "websocket.http.response.body", "body": b"<html>"})

    server = serve(app)
    for path, types in (("/", []), ("/typed", ["text/x-tea"])):
        response = server.connect().send(f"GET {path} HTTP/1.1\nHost: test\n{KEY}\n").response()
        assert (response.status, response.all("content-type"), response.body) == (418, types, b"<html>")


@pytest.mark.parametrize("fails", [False, True])
def test_denial_that_is_incomplete_is_a_500(serve, errors, fails):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.http.response.start", "status": 418, "headers": [(b"x-why", b"teapot")]})
        await send({"type": "websocket.http.response.body", "body": b"short ", "more_body": True})
        if fails:
            raise ValueError("broken")

    response = refused(serve(app))
    assert (response.status_code, response.headers.get("x-why"), response.body) == (500, None, b"")
    wait_until(errors)


@pytest.mark.parametrize("begin, letter, count, kept", [
    ("", "x", 123, 123), ("", "x", 124, 123), ("x", "é", 100, 61), ("", "é", 100, 61), ("", "\N{BALLOON}", 100, 30)])
def test_long_reasons_are_shortened(serve, begin, letter, count, kept):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 4001, "reason": begin + letter * count})

    with connect(url(serve(app))) as ws, pytest.raises(ConnectionClosed) as e:
        ws.recv()
    assert (e.value.rcvd.code, e.value.rcvd.reason) == (4001, begin + letter * kept)


@pytest.mark.parametrize("fails", [False, True])
def test_app_that_does_not_answer(serve, errors, fails):
    async def app(scope, receive, send):
        if fails:
            raise ValueError("broken")

    assert refused(serve(app)).status_code == 500
    wait_until(errors)


ACCEPT = {"type": "websocket.accept"}
SEND = {"type": "websocket.send", "text": "x"}
CLOSE = {"type": "websocket.close"}
DENY = {"type": "websocket.http.response.start", "status": 400}
DENIED = {"type": "websocket.http.response.body"}


@pytest.mark.parametrize("messages, error", [
    ([SEND], RuntimeError),
    ([DENIED], RuntimeError),
    ([{"type": "http.response.start", "status": 200}], RuntimeError),
    ([{}], TypeError),
    ([{**ACCEPT, "headers": [("a", "b")]}], TypeError),
    ([{**ACCEPT, "headers": [(b"a", b"b\r\nc")]}], ValueError),
    ([{**ACCEPT, "subprotocol": 7}], TypeError),
    ([{"type": "websocket.http.response.start"}], KeyError),
    ([ACCEPT, ACCEPT], RuntimeError),
    ([ACCEPT, DENY], RuntimeError),
    ([ACCEPT, {"type": "websocket.send"}], TypeError),
    ([ACCEPT, {"type": "websocket.send", "text": b"x"}], TypeError),
    ([ACCEPT, {"type": "websocket.send", "bytes": "x"}], TypeError),
    ([ACCEPT, {**CLOSE, "code": 65536 + 1000}], ValueError),
    ([ACCEPT, {**CLOSE, "code": "x"}], TypeError),
    ([ACCEPT, {**CLOSE, "reason": 7}], TypeError),
    ([ACCEPT, {"type": "websocket.receive"}], RuntimeError),
    ([ACCEPT, {"type": "http.response.body"}], RuntimeError),
    ([{**DENY, "status": 101}], ValueError),
    ([{**DENY, "status": "400"}], TypeError),
    ([DENY, {**DENIED, "body": "text"}], TypeError),
    ([DENY, SEND], RuntimeError),
    ([DENY, CLOSE], RuntimeError),
    ([ACCEPT, CLOSE, SEND], RuntimeError),
    ([ACCEPT, CLOSE, CLOSE], RuntimeError),
    ([CLOSE, ACCEPT], RuntimeError),
    ([DENY, ACCEPT], RuntimeError),
    ([DENY, DENIED, DENIED], RuntimeError),
])
def test_illegal_messages(serve, errors, messages, error):
    async def app(scope, receive, send):
        await receive()
        for message in messages:
            await send(message)

    server = serve(app)
    try:
        with connect(url(server)) as ws:
            ws.recv()
    except (InvalidStatus, ConnectionClosed):
        pass
    wait_until(errors)
    assert type(errors()[0][1]) is error
    wait_until(lambda: server.server._core.active == 0)


def test_slow_app_holds_the_client(serve):
    go_on = threading.Event()
    total = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.to_thread(go_on.wait)
        while (message := await receive())["type"] == "websocket.receive":
            total.append(len(message["bytes"]))

    with connect(url(serve(app)), compression=None) as ws:
        done = threading.Event()

        def sender():
            for _ in range(500):
                ws.send(bytes(100_000))
            done.set()

        thread = threading.Thread(target=sender)
        thread.start()
        assert not done.wait(0.3)
        go_on.set()
        thread.join()
    wait_until(lambda: sum(total) == 50_000_000)


@pytest.mark.parametrize("opened", [True, False])
def test_slow_client_holds_an_app_that_never_waits(serve, opened):
    sent, ended = [], []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        if opened:
            await receive()
        try:
            for _ in range(2000):
                await send({"type": "websocket.send", "bytes": bytes(100_000)})
                sent.append(1)
        finally:
            ended.append(True)

    server = serve(app, ws_per_message_deflate=False)
    client = server.connect().send(f"GET / HTTP/1.1\nHost: test\n{KEY}\n")
    assert client.head()[0] == 101
    if opened:
        client.sock.sendall(b"\x82\x80abcd")  # an empty message
    wait_until(lambda: sent)
    server.call(lambda: None)
    assert len(sent) < 1000
    client.close()
    wait_until(lambda: ended)


def test_receive_of_a_task_that_outlives_its_app(serve):
    seen = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        message = await receive()  # the second one is here too, or comes soon
        await asyncio.sleep(0.05)
        app.receive = receive
        await send({"type": "websocket.send", "text": message["text"]})

    async def take():
        while True:
            seen.append((await app.receive())["type"])
            if seen[-1] == "websocket.disconnect":
                return

    server = serve(app)
    with connect(url(server)) as ws:
        ws.send("one")
        ws.send("two")
        assert ws.recv() == "one"
        with pytest.raises(ConnectionClosed):
            ws.recv()
    threading.Event().wait(0.2)  # until Go has forgotten the connection
    asyncio.run_coroutine_threadsafe(take(), server.loop).result(30)
    assert seen[-1] == "websocket.disconnect"
    with connect(url(server)) as ws:  # the server goes on
        ws.send("three")
        assert ws.recv() == "three"


def test_tasks_are_woken_when_the_app_ends(serve):
    seen = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})

        async def wait():
            seen.append((await receive())["type"])

        app.task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)

    with connect(url(serve(app))) as ws:
        with pytest.raises(ConnectionClosed):
            ws.recv()
    wait_until(lambda: seen == ["websocket.disconnect"])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_scope_that_cannot_be_made(serve, monkeypatch):
    def fail(self, scope):
        raise ValueError("no")

    monkeypatch.setattr(TrustedProxies, "__call__", fail)
    server = serve(echo)
    for _ in range(3):
        with pytest.raises(InvalidStatus) as e:
            connect(url(server), additional_headers={"X-Forwarded-For": "1.2.3.4"})
        assert e.value.response.status_code == 500
    with connect(url(server)) as ws:
        ws.send("x")
        assert ws.recv() == "x"


def test_concurrency_limit(serve, errors):
    server = serve(echo, limit_concurrency=1)
    with connect(url(server)) as ws:
        assert refused(server).status_code == 503
        ws.send("x")
        assert ws.recv() == "x"
    assert not errors()


def test_message_that_is_too_large(serve):
    with connect(url(serve(echo, ws_max_size=1000)), compression=None) as ws:
        ws.send("x" * 1001)
        with pytest.raises(ConnectionClosed) as e:
            ws.recv()
        assert e.value.rcvd.code == 1009


@pytest.mark.parametrize("fields", [
    KEY.replace("13", "12"), KEY.replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), KEY.replace("Sec-WebSocket-Key", "X"),
    KEY + "Content-Length: 1\n", KEY + "Sec-WebSocket-Protocol: ,;\n"])
def test_bad_handshake_does_not_reach_the_app(serve, fields):
    called = []

    async def app(scope, receive, send):
        called.append(scope)
        await echo(scope, receive, send)

    server = serve(app, headers=[("X-One", "1")])
    response = server.connect().send(f"GET / HTTP/1.1\nHost: test\n{fields}\n").response()
    assert response.status in (400, 426)
    assert (response["server"], response["x-one"]) == ("spindle", "1")
    assert not called


def test_upgrade_that_is_not_for_this_connection_is_a_request(serve):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["type"].encode()})

    client = serve(app).connect()
    for connection in ("", "Connection: keep-alive\n", "Connection: upgraded\n"):
        assert client.get(headers=KEY.replace("Connection: Upgrade\n", connection)).body == b"http"


def test_handshake_has_the_default_fields(serve):
    async def app(scope, receive, send):
        await receive()
        if scope["path"] == "/own":
            await send({"type": "websocket.accept", "headers": [(b"server", b"own"), (b"date", b"today")]})
        elif scope["path"] == "/deny":
            await send({"type": "websocket.close"})
        else:
            await send({"type": "websocket.accept"})

    server = serve(app, headers=[("X-One", "1")])
    for path in ("/", "/own", "/deny"):
        status, fields = server.connect().send(f"GET {path} HTTP/1.1\nHost: test\n{KEY}\n").head()
        values = dict(fields)
        assert (status, values["x-one"]) == (403 if path == "/deny" else 101, "1")
        assert len(fields) == len(values)
        assert (values["server"], values["date"] == "today") == (("own", True) if path == "/own" else ("spindle", False))
    bare = serve(app, server_header=False, date_header=False)
    for path in ("/", "/deny"):
        _, fields = bare.connect().send(f"GET {path} HTTP/1.1\nHost: test\n{KEY}\n").head()
        assert not {"server", "date"} & dict(fields).keys()


SENT = [("Z-One", "1"), ("Host", "test"), ("A-Two", "2"), ("z-one", "3"), ("Upgrade", "websocket"), ("M-Three", "4"),
        ("Sec-WebSocket-Version", "13"), ("Connection", "Upgrade"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]


@pytest.mark.parametrize("target", ["/", "http://test/"])
def test_order_of_the_request_s_fields(serve, target):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["headers"])
        await echo(scope, receive, send)

    client = serve(app).connect()
    client.send(f"GET {target} HTTP/1.1\n" + "".join(f"{name}: {value}\n" for name, value in SENT) + "\n")
    assert client.head()[0] == 101
    assert [list(map(bytes, pair)) for pair in seen[0]] == [[name.lower().encode(), value.encode()] for name, value in SENT]


@pytest.mark.parametrize("denied", [False, True])
def test_order_of_the_response_s_fields(serve, denied):
    own = [("z-one", "1"), ("a-two", "2"), ("set-cookie", "b=1"), ("m-three", "3")]

    async def app(scope, receive, send):
        await receive()
        headers = [(name.encode(), value.encode()) for name, value in own]
        if denied:
            await send({"type": "websocket.http.response.start", "status": 403, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": b"no"})
        else:
            await send({"type": "websocket.accept", "headers": headers})

    server = serve(app, headers=[("B-All", "4")])
    status, fields = server.connect().send(f"GET / HTTP/1.1\nHost: test\n{KEY}\n").head()
    assert status == (403 if denied else 101)
    ours = [pair for pair in fields if pair in own or pair[0] in ("server", "b-all")]
    assert ours == [*own, ("server", "spindle"), ("b-all", "4")]


def test_sockets_are_closed_at_the_end(serve):
    server = serve(echo)
    with connect(url(server)) as ws:
        server.loop.call_soon_threadsafe(server.server.stop)
        with pytest.raises(ConnectionClosed) as e:
            ws.recv()
        assert e.value.rcvd.code in (1001, 1012)
    server.stop()
