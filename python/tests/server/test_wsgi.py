"""WSGI apps on threads."""

import asyncio
import gc
import hashlib
import io
import tempfile
import threading
import time

import pytest

import spindle
from spindle.server.wsgi import WSGIApp

from .conftest import wait_until


def test_environ_and_response(serve):
    seen = []

    def app(environ, start_response):
        seen.append(environ)
        start_response("201 Created", [("X-Name", "ü"), ("Content-Type", "text/plain")])
        return [b"a", b"", b"b"]

    client = serve(app, root_path="/root").connect()
    response = client.get("/p%C3%A4th?q=1", headers="X-A: 1\nX-A: 2\nX_B: forged\nContent-Type: text/x\n")
    assert (response.status, response["x-name"], response.body) == (201, "ü", b"ab")
    environ = seen[0]
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/root", "/p\xc3\xa4th")
    assert (environ["QUERY_STRING"], environ["HTTP_X_A"], environ["CONTENT_TYPE"]) == ("q=1", "1,2", "text/x")
    assert "HTTP_X_B" not in environ and "HTTP_CONTENT_TYPE" not in environ
    assert environ["SERVER_PROTOCOL"] == "HTTP/1.1" and environ["REMOTE_ADDR"] == "127.0.0.1"


def test_validated_app_is_detected(serve, errors):
    import wsgiref.validate

    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [environ["wsgi.input"].read(2)]

    client = serve(wsgiref.validate.validator(app)).connect()
    response = client.send("POST /?q HTTP/1.1\nHost: test\nContent-Length: 2\n\nhi").response()
    assert (response.status, response.body, errors()) == (200, b"hi", [])


def test_path_keeps_every_byte(serve):
    def app(environ, start_response):
        start_response("200 OK", [])
        return [f"{environ['SCRIPT_NAME']} {environ['PATH_INFO']}".encode("latin-1")]

    for root in ("", "/r\xf6\xf6t"):
        client = serve(app, root_path=root).connect()
        for path, found in (("/%FFa%2Fb", b"/\xffa/b"), ("/", b"/"), ("/%C3%A4", "/\xe4".encode())):
            assert client.get(path).body == root.encode() + b" " + found


def test_input_can_be_read_in_every_way(serve):
    def app(environ, start_response):
        body = environ["wsgi.input"]
        parts = [body.read(3), body.readline(), body.readline(2), *body]
        start_response("200 OK", [])
        return [repr(parts).encode()]

    client = serve(app).connect()
    response = client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 18\n\n").send(b"abcdef\nghij\nkl\nmnop").response()
    assert eval(response.body) == [b"abc", b"def\n", b"gh", b"ij\n", b"kl\n", b"mno"]


def test_large_input(serve):
    def app(environ, start_response):
        body = environ["wsgi.input"]
        lengths = [len(body.readline()), len(body.read(1_000_000)), len(body.read())]
        start_response("200 OK", [])
        return (repr(lengths).encode(),)

    client = serve(app).connect().send("POST / HTTP/1.1\nHost: test\nContent-Length: 4000000\n\n")
    response = client.send(b"x" * 499_999 + b"\n" + b"y" * 3_500_000).response()
    assert (eval(response.body), response["content-length"]) == ([500_000, 1_000_000, 2_500_000], "26")


def test_app_begins_when_the_body_has_come(serve):
    begun = []

    def app(environ, start_response):
        begun.append(environ["PATH_INFO"])
        start_response("200 OK", [])
        return [environ["wsgi.input"].read()]

    server = serve(app)
    client = server.connect()
    client.send("POST /slow HTTP/1.1\nHost: test\nExpect: 100-continue\nContent-Length: 10\n\n")
    assert client.head()[0] == 100
    client.send(b"first")
    assert server.connect().get("/other").body == b""
    assert begun == ["/other"]
    client.send(b"other")
    assert client.response().body == b"firstother"


@pytest.mark.parametrize("length", [600_000, 4_000_000])
def test_long_body_is_in_a_file(serve, monkeypatch, length):
    files = []
    make = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: files.append(make()) or files[-1])

    def app(environ, start_response):
        data = environ["wsgi.input"].read()
        start_response("200 OK", [])
        return [hashlib.sha256(data).digest()]

    body = bytes(range(251)) * (length // 251)
    server = serve(app)
    client = server.connect().send(f"POST / HTTP/1.1\nHost: test\nContent-Length: {len(body)}\n\n").send(body)
    assert client.response().body == hashlib.sha256(body).digest()
    half = server.connect().send("POST / HTTP/1.1\nHost: test\nContent-Length: 5000000\n\n").send(body)
    half.close()
    wait_until(lambda: len(files) == 2 and all(f.closed for f in files))


def test_body_that_is_too_long_for_any_app(serve, monkeypatch):
    monkeypatch.setattr("spindle.server.wsgi.LONGEST_BODY", 100_000)
    client = serve(lambda environ, start_response: 1 / 0, interface="wsgi").connect()
    client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 200000\n\n").send(b"x" * 150_000)
    assert client.response().status == 413


def test_short_lines_are_read_in_linear_time(serve):
    """They take about as long as those of io.BytesIO. A reader that copies its rest for each line takes 20 times as long."""
    lines = b"x\n" * 500_000

    def read(body):
        begun = time.thread_time()
        assert sum(1 for _ in iter(body.readline, b"")) == 500_000
        return time.thread_time() - begun

    def app(environ, start_response):
        took = read(environ["wsgi.input"])
        start_response("200 OK", [])
        return [repr(took / read(io.BytesIO(lines))).encode()]

    client = serve(app).connect()
    response = client.send(f"POST / HTTP/1.1\nHost: test\nContent-Length: {len(lines)}\n\n").send(lines).response()
    assert float(response.body) < 5


@pytest.mark.parametrize("result", ["iterator", "list", "one piece", "write"])
def test_slow_readers_do_not_hold_others(serve, result):
    """Nor do clients that stop in the middle of their upload."""

    def app(environ, start_response):
        write = start_response("200 OK", [])
        if environ["PATH_INFO"] == "/fast":
            return [b"fast"]
        pieces = (b"x" * 100_000 for _ in range(100))
        if result == "write":
            for piece in pieces:
                write(piece)
            return []
        return pieces if result == "iterator" else list(pieces) if result == "list" else iter([b"x" * 10_000_000])

    server = serve(app, wsgi_threads=2)
    slow = [server.connect().send("GET /slow HTTP/1.1\nHost: test\n\n") for _ in range(10)]
    slow += [server.connect().send("POST /half HTTP/1.1\nHost: test\nContent-Length: 10\n\nhello") for _ in range(10)]
    for client in slow[:10]:
        client.head()
        assert server.connect().get("/fast").body == b"fast"
    for client in slow[:10]:  # and all get what they are to get
        size = b""
        total = 0
        while size != b"0\r\n":
            size = client.file.readline()
            total += len(client.file.read(int(size, 16)))
            client.file.readline()
        assert total == 10_000_000


def test_no_more_calls_run_than_there_are_threads(serve):
    """A call that has waited for its client waits for a place too."""
    running, most = [0], [0]
    lock = threading.Lock()

    def app(environ, start_response):
        start_response("200 OK", [])
        for _ in range(20):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            threading.Event().wait(0.001)  # the app works
            with lock:
                running[0] -= 1
            yield b"x" * 200_000

    server = serve(app, wsgi_threads=2)
    clients = [server.connect().send("GET / HTTP/1.1\nHost: test\nConnection: close\n\n") for _ in range(12)]
    readers = [threading.Thread(target=client.file.read) for client in clients]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    wait_until(lambda: server.server._core.active == 0)
    assert most[0] <= 2
    pool = server.server._loaded[0].pool
    assert (pool.places <= 2, pool.lent, pool.active) == (True, 0, 0)


def test_response_is_streamed_and_closed(serve):
    closed, told, go_on = [], [], threading.Event()

    class Result:
        def __iter__(self):
            yield b"one"
            told.append(go_on.wait(30))  # what came before is not held back
            yield b"two"
            yield b"three"

        def close(self):
            closed.append(True)

    def app(environ, start_response):
        start_response("200 OK", [])
        return Result()

    client = serve(app).connect().send("GET / HTTP/1.1\nHost: test\n\n")
    client.head()
    assert client.file.readline() + client.file.readline() == b"3\r\none\r\n"
    go_on.set()
    assert client.file.read(len(b"3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n")).endswith(b"0\r\n\r\n")
    wait_until(lambda: closed == [True])
    assert told == [True]


def test_slow_client_holds_the_app(serve):
    made = []

    def app(environ, start_response):
        start_response("200 OK", [])
        for _ in range(500):
            made.append(1)
            yield b"x" * 100_000

    client = serve(app).connect().send("GET / HTTP/1.1\nHost: test\n\n")
    client.head()
    wait_until(lambda: len(made) > 3)
    threading.Event().wait(0.2)
    assert len(made) < 400


def test_client_that_leaves_ends_the_app(serve):
    closed = []

    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            while True:
                yield b"x" * 10_000
        finally:
            closed.append(True)

    client = serve(app).connect().send("GET / HTTP/1.1\nHost: test\n\n")
    client.head()
    client.close()
    wait_until(lambda: closed == [True])


def test_errors(serve, errors):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/twice":
            start_response("200 OK", [])
            start_response("200 OK", [])
        if environ["PATH_INFO"] == "/replaced":
            start_response("200 OK", [])
            try:
                raise ValueError
            except ValueError:
                import sys

                start_response("500 Oops", [], sys.exc_info())
                return [b"replaced"]
        return [b"no start"]

    server = serve(app)
    assert server.connect().get("/none").status == 500
    assert server.connect().get("/twice").status == 500
    response = server.connect().get("/replaced")
    assert (response.status, response.body) == (500, b"replaced")
    assert len(errors()) == 2


def test_writes_of_the_old_kind(serve):
    def app(environ, start_response):
        write = start_response("200 OK", [])
        write(b"a")
        write(b"b")
        return [b"c"]

    assert serve(app).connect().get().body == b"abc"


def test_apps_run_at_the_same_time(serve):
    both = threading.Barrier(2)

    def app(environ, start_response):
        both.wait(30)
        start_response("200 OK", [])
        return [b"ok"]

    server = serve(app)
    clients = [server.connect().send("GET / HTTP/1.1\nHost: test\n\n") for _ in range(2)]
    assert [client.response().body for client in clients] == [b"ok", b"ok"]


def test_response_ends_with_the_last_announced_byte(serve):
    """A framework's work after the response, in close, does not hold the client."""
    go_on = threading.Event()

    class Body:
        def __iter__(self):
            yield b"hel"
            yield b"lo"
            yield b""

        def close(self):
            assert go_on.wait(30)

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "5")])
        return Body()

    client = serve(app).connect()
    assert client.get().body == b"hello"
    go_on.set()
    assert client.get().body == b"hello"


def test_body_longer_than_announced(serve, errors):
    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "2")])
        yield b"ab"
        yield b"cd"

    client = serve(app).connect()
    assert client.get().body == b"ab"
    wait_until(lambda: errors())
    assert isinstance(errors()[0][1], ValueError)


def test_thread_that_serves_a_client_which_left_does_not_hold_others(serve):
    go_on, began = threading.Event(), threading.Event()

    def app(environ, start_response):
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/slow":
            yield b"x" * 100_000
            began.set()
            assert go_on.wait(30)
            while True:
                yield b"x" * 100_000
        yield b"fast"

    server = serve(app, wsgi_threads=2)
    client = server.connect().send("GET /slow HTTP/1.1\nHost: test\n\n")
    client.head()
    assert began.wait(30)
    client.close()
    for _ in range(3):
        assert server.connect().get("/fast").body == b"fast"
    go_on.set()


def test_threads_end_with_their_app():
    threads, sent = [], []

    def app(environ, start_response):
        threads.append(threading.current_thread())
        start_response("200 OK", [])
        return [b"x"]

    async def main():
        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "http_version": "1.1", "scheme": "http", "root_path": "", "raw_path": b"/",
                 "query_string": b"", "headers": [], "server": None, "client": None}
        wsgi = WSGIApp(app, threads=2)
        await asyncio.gather(*(wsgi(scope, receive, send) for _ in range(4)))

    spindle.run(main())
    gc.collect()
    assert len(sent) == 8 and len(threads) == 4
    for thread in set(threads):
        thread.join(60)
        assert not thread.is_alive()
