"""The apps of the Python servers that `go run . python-servers` in bench/ compares."""

CHUNK = b"x" * 65536


async def plaintext(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("HTTP only")
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"text/plain"), (b"content-length", b"13")]})
    await send({"type": "http.response.body", "body": b"Hello, world!"})


async def rsgi(scope, protocol):
    """plaintext for Granian's own interface."""
    protocol.response_str(200, [("content-type", "text/plain")], "Hello, world!")


async def echo(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("HTTP only")
    parts = []
    while True:
        message = await receive()
        parts.append(message["body"])
        if not message["more_body"]:
            break
    body = b"".join(parts)
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


async def stream(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("HTTP only")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    for _ in range(16):
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def websocket(scope, receive, send):
    if scope["type"] != "websocket":
        raise RuntimeError("WebSockets only")
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message["bytes"]})


async def work(scope, receive, send):
    """Needs so much time of its own that the load generator does not count."""
    if scope["type"] != "http":
        raise RuntimeError("HTTP only")
    sum(range(100_000))
    await plaintext(scope, receive, send)


def __getattr__(name):
    if name == "starlette":
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        async def endpoint(request):
            return JSONResponse({"hello": "world"})

        return Starlette(routes=[Route("/json", endpoint)])
    if name == "fastapi":
        from fastapi import FastAPI
        from pydantic import BaseModel

        class Item(BaseModel):
            name: str
            price: float
            tags: list[str] = []

        app = FastAPI()

        @app.post("/items")
        async def create(item: Item) -> Item:
            return item

        return app
    if name == "wsgi":
        from flask import Flask

        app = Flask("bench")

        @app.route("/")
        def hello():
            return "Hello, world!"

        return app
    raise AttributeError(name)
