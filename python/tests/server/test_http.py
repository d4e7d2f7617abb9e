"""HTTP as clients and apps see it."""

import asyncio
import copy
import os
import re
import sys
import threading

import pytest

from .conftest import LIMIT, wait_until


def respond(status=200, headers=(), body=b"", **start):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": list(headers), **start})
        await send({"type": "http.response.body", "body": body})

    return app


async def echo(scope, receive, send):
    body = b""
    more = True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body += message["body"]
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def test_scope_describes_the_request(serve):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)
        await respond()(scope, receive, send)

    server = serve(app)
    client = server.connect()
    client.send("GET /caf%C3%A9/a%2Fb?x=1&y=%20 HTTP/1.1\nHost: test\nX-Two: 1\nX-Two: 2\n\n").response()
    scope = seen[0]
    assert scope["type"] == "http"
    assert scope["asgi"] == {"version": "3.0", "spec_version": "2.5"}
    assert scope["http_version"] == "1.1"
    assert scope["method"] == "GET"
    assert scope["scheme"] == "http"
    assert scope["path"] == "/café/a/b"
    assert scope["raw_path"] == b"/caf%C3%A9/a%2Fb"
    assert scope["query_string"] == b"x=1&y=%20"
    assert scope["root_path"] == ""
    assert scope["headers"] == [(b"host", b"test"), (b"x-two", b"1"), (b"x-two", b"2")]
    assert scope["server"] == ("127.0.0.1", server.port)
    assert scope["client"] == client.sock.getsockname()
    assert scope["state"] == {}
    assert "http.response.trailers" in scope["extensions"]


def test_scopes_are_independent(serve):
    seen = []

    async def app(scope, receive, send):
        seen.append((copy.deepcopy(scope), scope["headers"][:]))
        scope["method"] = scope["path"] = None
        scope["headers"].append((b"x", b"y"))
        scope["state"]["x"] = 1
        scope["added"] = True
        scope["asgi"]["added"] = scope["extensions"]["added"] = True
        with pytest.raises(TypeError):
            scope["extensions"]["http.response.trailers"]["added"] = True
        await respond()(scope, receive, send)

    client = serve(app).connect()
    client.get("/a")
    client.get("/b")
    (first, first_headers), (second, second_headers) = seen
    assert first_headers == second_headers
    assert second["state"] == {} or second["state"] is not first["state"]
    assert (first["path"], second["path"]) == ("/a", "/b")
    assert "added" not in second
    assert (first["asgi"], first["extensions"]) == (second["asgi"], second["extensions"])


def test_root_path_precedes_the_path(serve):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)
        await respond()(scope, receive, send)

    serve(app, root_path="/api").connect().get("/x")
    assert (seen[0]["root_path"], seen[0]["path"], seen[0]["raw_path"]) == ("/api", "/api/x", b"/api/x")


@pytest.mark.parametrize("name", ["Authorization", "Cookie", "X-Plain"])
def test_fields_belong_to_their_request(serve, name):
    seen = []

    async def app(scope, receive, send):
        seen.append(dict(scope["headers"])[name.lower().encode()])
        await respond()(scope, receive, send)

    client = serve(app).connect()
    for value in ("one", "two", "two", "one"):
        client.get(headers=f"{name}: {value}\n")
    assert seen == [b"one", b"two", b"two", b"one"]


def test_response_has_what_the_app_sends(serve):
    response = serve(respond(418, [(b"X-Name", b"value"), (b"x-name", b"other")], b"short")).connect().get()
    assert response.status == 418
    assert response.all("x-name") == ["value", "other"]
    assert response["content-length"] == "5"
    assert response["server"] == "spindle"
    assert re.match(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", response["date"])
    assert response.body == b"short"


def test_own_date_and_server_replace_the_defaults(serve):
    response = serve(respond(headers=[(b"Date", b"today"), (b"Server", b"mine")])).connect().get()
    assert (response.all("date"), response.all("server")) == (["today"], ["mine"])


@pytest.mark.parametrize("path", ["/", "/own", "/health", "/fails"])
def test_configured_server_and_date_replace_the_defaults(serve, path):
    async def app(scope, receive, send):
        assert scope["path"] != "/fails"
        own = [(b"server", b"own")] if scope["path"] == "/own" else []
        await respond(headers=own)(scope, receive, send)

    server = serve(app, headers=[("Server", "mine"), ("Date", "today"), ("X-One", "1")], health="/health")
    response = server.connect().get(path)
    assert response.all("server") == ["own" if path == "/own" else "mine"]
    assert (response.all("date"), response.all("x-one")) == (["today"], ["1"])


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "Connection"])
def test_fields_that_differ_cannot_be_configured(serve, name):
    with pytest.raises(ValueError, match=name):
        serve(respond(), headers=[(name, "1")])


def test_default_fields_can_be_turned_off(serve):
    response = serve(respond(), server_header=False, date_header=False, headers=[("X-All", "yes")]).connect().get()
    assert (response["date"], response["server"], response["x-all"]) == (None, None, "yes")


@pytest.mark.parametrize("wanted", [True, False])
def test_date_of_a_refusal(serve, wanted):
    """A malformed request is answered without the app, and obeys the option all the same."""
    response = serve(respond(), date_header=wanted).connect().send("GET / HTTP/1.1\nHost: test\nContent-Length: x\n\n").response()
    assert (response.status, response["date"] is not None) == (400, wanted)


def test_keep_alive_and_pipelining_keep_the_order(serve):
    async def app(scope, receive, send):
        if scope["path"] == "/slow":
            await asyncio.sleep(0.05)
        await respond(body=scope["path"].encode())(scope, receive, send)

    client = serve(app).connect()
    client.send("".join(f"GET {path} HTTP/1.1\nHost: test\n\n" for path in ("/slow", "/1", "/slow", "/2", "/3")))
    assert [client.response().body for _ in range(5)] == [b"/slow", b"/1", b"/slow", b"/2", b"/3"]


@pytest.mark.parametrize("size", [0, 1, 100, 70_000, 3_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_request_bodies(serve, size, chunked):
    body = os.urandom(size)
    client = serve(echo).connect()
    for _ in range(2):  # the second request finds the connection in order
        if chunked:
            data = b"POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
            for at in range(0, size, 50_000):
                piece = body[at : at + 50_000]
                data += b"%x\r\n%b\r\n" % (len(piece), piece)
            data += b"0\r\n\r\n"
        else:
            data = b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % size + body
        sender = threading.Thread(target=client.send, args=(data,))
        sender.start()
        assert client.response().body == body
        sender.join()


def test_body_that_comes_slowly(serve):
    client = serve(echo).connect()
    client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 10\n\n")
    for piece in (b"hel", b"lo", b"12345"):
        client.send(piece)
    assert client.response().body == b"hello12345"


def test_expect_continue_is_answered_when_the_app_receives(serve):
    client = serve(echo).connect()
    client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 5\nExpect: 100-continue\n\n")
    assert client.head()[0] == 100
    client.send(b"hello")
    assert client.response().body == b"hello"


def test_expect_continue_is_not_answered_if_the_app_does_not_receive(serve):
    client = serve(respond(403)).connect()
    client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 5\nExpect: 100-continue\n\n")
    response = client.response()
    assert (response.status, response["connection"]) == (403, "close")


def test_unread_body_does_not_disturb_the_next_request(serve):
    client = serve(respond(body=b"ok")).connect()
    client.send("POST /1 HTTP/1.1\nHost: test\nContent-Length: 5\n\nhelloGET /2 HTTP/1.1\nHost: test\n\n")
    assert (client.response().body, client.response().body) == (b"ok", b"ok")


def test_streamed_response_is_chunked(serve):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        for piece in (b"one", b"", b"two"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    client = serve(app).connect()
    for _ in range(2):
        response = client.get()
        assert (response["transfer-encoding"], response.body) == ("chunked", b"onetwo")


def test_streamed_response_to_http_1_0_ends_with_the_connection(serve):
    async def app(scope, receive, send):
        assert scope["http_version"] == "1.0"
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    client = serve(app).connect()
    response = client.send("GET / HTTP/1.0\n\n").response()
    assert (response["transfer-encoding"], response.body) == (None, b"onetwo")


def test_http_1_0_keeps_the_connection_if_asked_to(serve):
    client = serve(respond(body=b"x")).connect()
    for _ in range(2):
        assert client.send("GET / HTTP/1.0\nConnection: keep-alive\n\n").response()["connection"] == "keep-alive"
    assert client.send("GET / HTTP/1.0\n\n").response().body == b"x"
    assert client.closed()


@pytest.mark.parametrize("by", ["client", "app"])
def test_connection_close(serve, by):
    app = respond(headers=[(b"connection", b"close")] if by == "app" else [])
    client = serve(app).connect()
    response = client.get(headers="Connection: close\n" if by == "client" else "")
    assert response.all("connection") == ["close"]
    assert client.closed()


def test_head_has_no_body(serve):
    client = serve(respond(headers=[(b"content-length", b"5")], body=b"hello")).connect()
    for _ in range(2):
        response = client.get(method="HEAD")
        assert (response["content-length"], response.body) == ("5", b"")
    assert client.get().body == b"hello"


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_a_body(serve, status):
    client = serve(respond(status, body=b"")).connect()
    for _ in range(2):
        response = client.get()
        assert response.status == status
        assert response["transfer-encoding"] is None and response["content-length"] is None


def test_trailers(serve):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"trailer", b"x-sum")], "trailers": True})
        await send({"type": "http.response.body", "body": b"hello"})
        await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"1")], "more_trailers": True})
        await send({"type": "http.response.trailers", "headers": [(b"x-more", b"2")]})

    client = serve(app).connect()
    for te in ("TE: trailers\n", "te: deflate;q=0.5, Trailers\n"):
        response = client.get(headers=te)
        assert (response.body, response.trailers) == (b"hello", [("x-sum", "1"), ("x-more", "2")])
        assert response["trailer"] == "x-sum"
    for te in ("", "TE: deflate\n", "X-TE: trailers\n"):  # such a client does not read them
        response = client.get(headers=te)
        assert (response.body, response.trailers) == (b"hello", [])
        assert response["trailer"] is None  # nothing is announced that is left out


def test_pathsend(serve, tmp_path):
    file = tmp_path / "data"
    file.write_bytes(os.urandom(500_000))

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.pathsend", "path": str(file)})

    client = serve(app).connect()
    for _ in range(2):
        response = client.get()
        assert (response["content-length"], response.body) == ("500000", file.read_bytes())
    assert client.get(method="HEAD")["content-length"] == "500000"
    assert client.get().body == file.read_bytes()


def test_early_hints(serve):
    async def app(scope, receive, send):
        await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload", b"</b.js>; rel=preload"]})
        await respond(body=b"page")(scope, receive, send)

    client = serve(app).connect()
    client.send("GET / HTTP/1.1\nHost: test\n\n")
    assert client.head() == (103, [("link", "</a.css>; rel=preload"), ("link", "</b.js>; rel=preload")])
    assert client.response().body == b"page"
    client.send("GET / HTTP/1.0\n\n")
    assert client.head()[0] == 200


def test_early_hints_after_the_start_of_the_response(serve):
    hint = {"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload"]}

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 201, "headers": [(b"x-one", b"1")]})
        await send(hint)
        with pytest.raises(TypeError):
            await send({**hint, "links": [b"</b.css>", 7]})
        await asyncio.sleep(0)  # sends the head
        while scope["path"] == "/waits" and not sent.is_set():
            await asyncio.sleep(0)
        await send(hint)
        await send({"type": "http.response.body", "body": b"page"})

    sent = threading.Event()
    client = serve(app).connect()
    client.send("GET /waits HTTP/1.1\nHost: test\n\n")
    assert client.head() == (103, [("link", "</a.css>; rel=preload")])
    status, fields = client.head()
    assert (status, dict(fields)["x-one"], dict(fields)["transfer-encoding"]) == (201, "1", "chunked")
    sent.set()
    assert client.file.read(14) == b"4\r\npage\r\n0\r\n\r\n"


def test_body_types(serve):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": bytearray(b"ab"), "more_body": True})
        await send({"type": "http.response.body", "body": memoryview(b"cd")})

    assert serve(app).connect().get().body == b"abcd"


def test_app_waits_for_a_slow_client(serve):
    progress = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        for i in range(400):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            progress.append(i)
        await send({"type": "http.response.body"})

    client = serve(app).connect()
    client.send("GET / HTTP/1.1\nHost: test\n\n")
    client.head()
    wait_until(lambda: len(progress) > 3)
    for _ in range(5):
        before = len(progress)
        threading.Event().wait(0.05)
        if len(progress) == before:
            break
    assert len(progress) < 300  # the rest waits; the system's buffers hold some megabytes
    total = 0
    while size := int(client.file.readline(), 16):
        total += len(client.file.read(size))
        client.file.readline()
    assert total == 40_000_000


def test_client_waits_for_a_slow_app(serve):
    go_on = threading.Event()
    received = []

    async def app(scope, receive, send):
        await asyncio.to_thread(go_on.wait)
        while True:
            message = await receive()
            received.append(len(message["body"]))
            if not message["more_body"]:
                break
        await respond(body=str(sum(received)).encode())(scope, receive, send)

    size = 64 << 20
    client = serve(app).connect()
    sent = threading.Event()

    def sender():
        client.send(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % size)
        client.send(bytes(size))
        sent.set()

    thread = threading.Thread(target=sender)
    thread.start()
    assert not sent.wait(0.3)
    go_on.set()
    assert client.response().body == str(size).encode()
    thread.join()
    assert max(received) < 4 << 20


def test_disconnect_is_received(serve):
    seen = []

    async def app(scope, receive, send):
        seen.append((await receive())["type"])
        seen.append((await receive())["type"])
        seen.append((await receive())["type"])

    client = serve(app).connect()
    client.send("GET / HTTP/1.1\nHost: test\n\n")
    wait_until(lambda: seen)
    client.close()
    wait_until(lambda: seen == ["http.request", "http.disconnect", "http.disconnect"])


def test_disconnect_is_received_after_the_response(serve):
    seen = []

    async def app(scope, receive, send):
        waiting = asyncio.create_task(receive())
        await respond(body=b"x")(scope, receive, send)
        seen.append((await waiting)["type"])
        seen.append((await receive())["type"])

    serve(app).connect().get()
    wait_until(lambda: seen == ["http.request", "http.disconnect"])


def test_sending_to_a_lost_client_raises(serve, errors):
    seen = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})
                await asyncio.sleep(0)
        except OSError as e:
            seen.append(type(e).__name__)
            raise

    client = serve(app).connect()
    client.send("GET / HTTP/1.1\nHost: test\n\n").head()
    client.close()
    wait_until(lambda: seen == ["ClientDisconnected"])
    assert errors() == []


def test_client_that_closes_its_sending_side_gets_the_response(serve):
    async def app(scope, receive, send):
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        await respond(body=b"still here")(scope, receive, send)

    client = serve(app).connect()
    client.send("GET / HTTP/1.1\nHost: test\n\n")
    client.sock.shutdown(1)
    assert client.response().body == b"still here"


def test_cancelled_receive_loses_nothing(serve):
    cancelled = threading.Event()

    async def app(scope, receive, send):
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(receive(), 0.01)
        cancelled.set()
        message = await receive()
        await respond(body=message["body"])(scope, receive, send)

    client = serve(app).connect()
    client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 5\n\n")
    assert cancelled.wait(LIMIT)
    client.send(b"hello")
    assert client.response().body == b"hello"


def test_large_responses_arrive_whole(serve):
    body = os.urandom(5_000_000)
    client = serve(respond(body=body)).connect()
    for _ in range(3):
        assert client.get().body == body


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "slow"])
def test_large_pieces_are_sent_as_they_were(serve, slow):
    pieces = [os.urandom(n) for n in (10, 8191, 8192, 65536, 3, 300_000, 1, 700_000, 2_000_000, 20)]
    before = [sys.getrefcount(piece) for piece in pieces]

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            changing = bytearray(piece)
            await send({"type": "http.response.body", "body": changing, "more_body": True})
            changing[:] = bytes(len(changing))  # it was sent
        await send({"type": "http.response.body"})

    server = serve(app)
    clients = [server.connect() for _ in range(3)]
    for _ in range(2):
        for client in clients:
            client.send("GET / HTTP/1.1\nHost: test\n\n")
        for client in clients:
            if slow:
                threading.Event().wait(0.05)  # so that the system's buffers are full
            assert client.response().body == b"".join(piece + piece for piece in pieces)
    server.stop()
    assert [sys.getrefcount(piece) for piece in pieces] == before


def test_large_pieces_of_a_client_that_leaves(serve):
    piece = os.urandom(200_000)
    before = sys.getrefcount(piece)
    ended = threading.Event()

    async def app(scope, receive, send):
        try:
            await send({"type": "http.response.start", "status": 200})
            while True:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            ended.set()

    server = serve(app)
    client = server.connect()
    client.send("GET / HTTP/1.1\nHost: test\n\n")
    client.head()
    client.close()
    assert ended.wait(LIMIT)
    server.stop()
    assert sys.getrefcount(piece) == before


def test_many_connections(serve):
    server = serve(echo)
    clients = [server.connect() for _ in range(200)]
    for round in range(3):
        for i, client in enumerate(clients):
            client.send(f"POST / HTTP/1.1\nHost: test\nContent-Length: 4\n\n{i:04}")
        for i, client in enumerate(clients):
            assert client.response().body == f"{i:04}".encode()
    for client in clients:
        client.close()


@pytest.mark.parametrize("request_text, status", [
    ("GET / HTTP/1.1\n\n", 400),
    ("GET / HTTP/1.1\nHost: a\nHost: b\n\n", 400),
    ("GET / HTTP/1.1\nHost: a\nContent-Length: 1\nTransfer-Encoding: chunked\n\n", 400),
    ("GET / HTTP/3.0\nHost: a\n\n", 505),
    ("GET /" + "x" * 10_000 + " HTTP/1.1\nHost: a\n\n", 414),
    ("nonsense\n\n", 400),
])
def test_bad_requests_never_reach_the_app(serve, request_text, status):
    called = []

    async def app(scope, receive, send):
        called.append(scope)

    client = serve(app).connect()
    assert client.send(request_text).response().status == status
    assert client.closed()
    assert called == []


def test_tunnels_are_refused(serve, errors):
    """An app cannot tunnel, but its 200 would make the client take the connection for a tunnel."""
    called = []

    async def app(scope, receive, send):
        called.append(scope)

    client = serve(app).connect().send("CONNECT example.org:443 HTTP/1.1\nHost: example.org:443\n\n")
    response = client.response()
    assert (response.status, response["connection"], response["server"]) == (501, "close", "spindle")
    assert client.closed() and called == [] and errors() == []
