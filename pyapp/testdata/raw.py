"""An ASGI app without a framework, and functions that look into it."""

import asyncio
import json
import os
import signal

events = {}  # what has happened, by name
journal = os.environ.get("JOURNAL")  # a file, for what happens at the end


def note(line):
    with open(journal, "a") as f:
        f.write(line + "\n")


def event(name):
    return events.setdefault(name, asyncio.Event())


async def wait(name):
    await event(name).wait()
    return name


async def happen(name):
    event(name).set()


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        event("/ws").set()
        note(str((await receive())["type"]))
    else:
        await handlers[scope["path"]](scope, receive, send)


async def lifespan(receive, send):
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    if journal:
        note("shutdown")
    await send({"type": "lifespan.shutdown.complete"})


async def head(send, status=200, headers=(), **more):
    await send({"type": "http.response.start", "status": status, "headers": list(headers), **more})


async def body(send, data, more=False):
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def pid(scope, receive, send):
    message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
    await head(send)
    await body(send, str(os.getpid()).encode())


async def echo(scope, receive, send):
    await head(send)
    message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        await body(send, message.get("body", b""), True)
    await body(send, b"")


async def feed(scope, receive, send):
    await head(send, headers=[(b"content-type", b"text/event-stream")])
    for i in range(3):
        await body(send, b"data: %d\n\n" % i, True)
        await wait(f"feed {i}")
    await body(send, b"")


async def trailers(scope, receive, send):
    await head(send, headers=[(b"trailer", b"x-sum")], trailers=True)
    await body(send, b"text")
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"4")], "more_trailers": False})


async def hints(scope, receive, send):
    await send({"type": "http.response.early_hint", "links": [b"</style.css>; rel=preload"]})
    await head(send, 200)
    await body(send, b"text")


async def large(scope, receive, send):
    await head(send)
    for i in range(64):
        await body(send, bytes([i]) * 65536, True)
    await body(send, b"")


async def refuse(scope, receive, send):
    await head(send, 403)
    await body(send, b"no")


async def gone(scope, receive, send):
    event("begun").set()
    while (await receive())["type"] != "http.disconnect":
        pass
    event("disconnected").set()


async def crash(scope, receive, send):
    os.kill(os.getpid(), signal.SIGKILL)


async def half(scope, receive, send):
    await head(send)
    await body(send, b"half", True)
    await wait("half was read")
    os.kill(os.getpid(), signal.SIGKILL)


async def slow(scope, receive, send):
    event("begun").set()
    try:
        await wait("go on")
    except asyncio.CancelledError:
        note("cancelled")
        raise
    await head(send)
    await body(send, b"finished")


async def show(scope, receive, send):
    await head(send)
    headers = [(name.decode(), value.decode()) for name, value in scope["headers"]]
    await body(send, json.dumps({**{k: scope[k] for k in ("path", "root_path", "client", "scheme", "method", "http_version")},
                                 "raw": scope["raw_path"].decode(), "query": scope["query_string"].decode(),
                                 "headers": headers}).encode())


class Handlers(dict):
    def __missing__(self, path):
        return show


handlers = Handlers({
    "/pid": pid, "/echo": echo, "/feed": feed, "/trailers": trailers, "/hints": hints, "/large": large, "/gone": gone,
    "/crash": crash, "/half": half, "/slow": slow, "/refuse": refuse,
})
