"""Frameworks run unmodified. A framework that is not installed is left out."""

import asyncio
import json
import socket
import threading

import pytest

from .conftest import LIMIT, wait_until


def test_starlette(serve, tmp_path):
    pytest.importorskip("starlette")
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, StreamingResponse
    from starlette.routing import Route, WebSocketRoute

    done = []
    (tmp_path / "file").write_bytes(b"f" * 100_000)

    class Marks(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            response = await call_next(request)
            response.headers["x-marked"] = "yes"
            return response

    async def streamed(request):
        async def pieces():
            for i in range(5):
                yield f"{i} "
                await asyncio.sleep(0)

        return StreamingResponse(pieces())

    async def body(request):
        return JSONResponse({"length": len(await request.body()), "gone": await request.is_disconnected()})

    def in_thread(request):
        return PlainTextResponse(threading.current_thread().name, background=BackgroundTask(done.append, 1))

    async def socket(ws):
        await ws.accept()
        await ws.send_text("got " + await ws.receive_text())
        await ws.close()

    async def file(request):
        return FileResponse(tmp_path / "file")

    app = Starlette(
        routes=[Route("/stream", streamed), Route("/body", body, methods=["POST"]), Route("/thread", in_thread),
                Route("/file", file), WebSocketRoute("/ws", socket)],
        middleware=[Middleware(Marks), Middleware(GZipMiddleware, minimum_size=100_000_000)])
    server = serve(app, lifespan="on")
    client = server.connect()
    assert client.get("/stream").body == b"0 1 2 3 4 "
    response = client.send("POST /body HTTP/1.1\nHost: test\nContent-Length: 5\n\nhello").response()
    assert (json.loads(response.body), response["x-marked"]) == ({"length": 5, "gone": False}, "yes")
    assert b"MainThread" not in client.get("/thread").body
    assert client.get("/file").body == b"f" * 100_000
    assert client.get("/missing").status == 404
    wait_until(lambda: done == [1])
    websockets = pytest.importorskip("websockets.sync.client")
    with websockets.connect(f"ws://127.0.0.1:{server.port}/ws") as ws:
        ws.send("it")
        assert ws.recv() == "got it"


def test_starlette_notices_a_client_that_leaves(serve, errors):
    pytest.importorskip("starlette")
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def endless(request):
        async def pieces():
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0.001)

        return StreamingResponse(pieces())

    server = serve(Starlette(routes=[Route("/", endless)]))
    client = server.connect()
    client.send("GET / HTTP/1.1\nHost: test\n\n").head()
    client.close()
    wait_until(lambda: server.server._core.active == 0)
    assert errors() == []


def test_fastapi(serve):
    pytest.importorskip("fastapi")
    import time

    from fastapi import Depends, FastAPI, WebSocket
    from pydantic import BaseModel

    app = FastAPI()

    class Item(BaseModel):
        name: str
        price: float

    async def session():
        yield "session"

    @app.post("/items")
    async def create(item: Item, s: str = Depends(session)):
        return {"item": item, "session": s}

    @app.get("/sync")
    def in_thread():
        time.sleep(0.01)
        return {"ok": True}

    @app.websocket("/ws")
    async def socket(ws: WebSocket):
        await ws.accept()
        async for text in ws.iter_text():
            await ws.send_text(text.upper())

    server = serve(app, lifespan="on")
    client = server.connect()
    body = json.dumps({"name": "a", "price": 1.5})
    response = client.send(f"POST /items HTTP/1.1\nHost: test\nContent-Type: application/json\nContent-Length: {len(body)}\n\n{body}").response()
    assert json.loads(response.body) == {"item": {"name": "a", "price": 1.5}, "session": "session"}
    bad = client.send("POST /items HTTP/1.1\nHost: test\nContent-Type: application/json\nContent-Length: 2\n\n{}").response()
    assert bad.status == 422
    assert client.get("/sync").body == b'{"ok":true}'
    assert client.get("/openapi.json").status == 200
    websockets = pytest.importorskip("websockets.sync.client")
    with websockets.connect(f"ws://127.0.0.1:{server.port}/ws") as ws:
        ws.send("shout")
        assert ws.recv() == "SHOUT"


def fastapi_that_blocks(go_on):
    """Return an app with the same blocking work in a coroutine and in a function."""
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()

    @app.get("/coroutine")
    async def coroutine():
        go_on.wait(LIMIT)  # the line that blocks
        return {}

    @app.get("/function")
    def function():
        go_on.wait(LIMIT)
        return {}

    @app.get("/quick")
    async def quick():
        return {}

    return app


def test_async_01_fastapi_coroutine_that_blocks_is_named_while_it_blocks(serve, caplog):
    """ASYNC-01: an async def that blocks delays every request. The watchdog names its line meanwhile."""
    go_on = threading.Event()
    server = serve(fastapi_that_blocks(go_on))
    blocking = server.connect().send("GET /coroutine HTTP/1.1\nHost: test\n\n")
    wait_until(lambda: any("has blocked the loop" in r.getMessage() and "go_on.wait(LIMIT)  # the line that blocks" in r.getMessage()
                           for r in caplog.records))
    quick = server.connect().send("GET /quick HTTP/1.1\nHost: test\n\n")
    quick.sock.settimeout(0.1)
    with pytest.raises(TimeoutError):
        quick.sock.recv(1, socket.MSG_PEEK)
    go_on.set()
    assert blocking.response().status == 200
    quick.sock.settimeout(LIMIT)
    assert quick.response().status == 200


def test_async_02_fastapi_function_in_the_thread_pool_blocks_no_other(serve, caplog):
    """ASYNC-02: the same work in a def runs in the thread pool, and other requests pass."""
    go_on = threading.Event()
    server = serve(fastapi_that_blocks(go_on))
    blocking = server.connect().send("GET /function HTTP/1.1\nHost: test\n\n")
    wait_until(lambda: server.server._core.active == 1)
    for _ in range(10):
        assert server.connect().get("/quick").status == 200
    go_on.set()
    assert blocking.response().status == 200
    assert not any("go_on.wait" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("interface", ["asgi3", "wsgi"])
def test_django(serve, interface):
    django = pytest.importorskip("django")
    from django.conf import settings
    from django.core.asgi import get_asgi_application
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse, StreamingHttpResponse
    from django.urls import path

    def hello(request):
        return HttpResponse(f"{request.method} {request.GET.get('x')} {len(request.body)}")

    def streamed(request):
        return StreamingHttpResponse(iter([b"a", b"b", b"c"]))

    if not settings.configured:
        settings.configure(DEBUG=False, ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="test", MIDDLEWARE=[])
        django.setup()
    globals()["urlpatterns"] = [path("hello", hello), path("stream", streamed)]
    app = get_asgi_application() if interface == "asgi3" else get_wsgi_application()
    client = serve(app).connect()
    assert client.get("/hello?x=1").body == b"GET 1 0"
    assert client.send("POST /hello HTTP/1.1\nHost: test\nContent-Length: 3\n\nabc").response().body == b"POST None 3"
    assert client.get("/stream").body == b"abc"
    assert client.get("/missing").status == 404


def test_quart(serve):
    pytest.importorskip("quart")
    from quart import Quart, request, websocket

    app = Quart(__name__)

    @app.route("/echo", methods=["POST"])
    async def echo():
        return await request.get_data()

    @app.websocket("/ws")
    async def socket():
        await websocket.send(await websocket.receive())

    server = serve(app, lifespan="on")
    client = server.connect()
    assert client.send("POST /echo HTTP/1.1\nHost: test\nContent-Length: 3\n\nabc").response().body == b"abc"
    websockets = pytest.importorskip("websockets.sync.client")
    with websockets.connect(f"ws://127.0.0.1:{server.port}/ws") as ws:
        ws.send("it")
        assert ws.recv() == "it"


def test_litestar(serve):
    pytest.importorskip("litestar")
    from litestar import Litestar, get

    @get("/hello/{name:str}")
    async def hello(name: str) -> dict[str, str]:
        return {"hello": name}

    client = serve(Litestar([hello]), lifespan="on").connect()
    assert json.loads(client.get("/hello/you").body) == {"hello": "you"}


def test_flask(serve):
    pytest.importorskip("flask")
    from flask import Flask, Response, request

    app = Flask(__name__)

    @app.route("/echo", methods=["POST"])
    def echo():
        return request.get_data()

    @app.route("/stream")
    def streamed():
        return Response(str(i) for i in range(1000))

    @app.route("/fail")
    def fail():
        raise ValueError("broken")

    @app.route("/where")
    def where():
        return {"url": request.url, "remote": request.remote_addr, "agent": request.headers["user-agent"]}

    server = serve(app)
    client = server.connect()
    body = b"x" * 300_000
    client.send(b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert client.response().body == body
    assert client.get("/stream").body == b"".join(str(i).encode() for i in range(1000))
    assert client.get("/fail").status == 500
    found = json.loads(client.get("/where?x=%20", headers="User-Agent: tests\n").body)
    assert found == {"url": "http://test/where?x=%20", "remote": "127.0.0.1", "agent": "tests"}
