"""Every order of up to three messages, against a table of what may follow what."""

import asyncio
import itertools

import pytest

from spindle.server.lifespan import Lifespan

from .conftest import LIMIT, wait_until

START = {"type": "http.response.start", "status": 200}
BODY = {"type": "http.response.body", "body": b"x"}
TRAILERS = {"type": "http.response.trailers", "headers": [(b"x-end", b"yes")]}
HTTP = {
    "start": START,
    "start+trailers": {**START, "trailers": True},
    "hint": {"type": "http.response.early_hint", "links": [b"</a>; rel=preload"]},
    "more": {**BODY, "more_body": True},
    "body": BODY,
    "path": {"type": "http.response.pathsend", "path": __file__},
    "trailers": TRAILERS,
    "more trailers": {**TRAILERS, "more_trailers": True},
    "unknown": {"type": "http.nonsense"},
}
# state: the messages that are allowed, and the state after each
HTTP_NEXT = {
    "new": {"start": "head", "start+trailers": "head, trailers", "hint": "new"},
    "head": {"more": "body", "body": "done", "path": "done", "hint": "head"},
    "head, trailers": {"more": "body, trailers", "body": "trailers", "path": "done", "hint": "head, trailers"},
    "body": {"more": "body", "body": "done"},
    "body, trailers": {"more": "body, trailers", "body": "trailers"},
    "trailers": {"trailers": "done", "more trailers": "trailers"},
    "done": {},
}

WEBSOCKET = {
    "accept": {"type": "websocket.accept"},
    "send": {"type": "websocket.send", "text": "x"},
    "close": {"type": "websocket.close"},
    "deny": {"type": "websocket.http.response.start", "status": 418},
    "more": {"type": "websocket.http.response.body", "body": b"x", "more_body": True},
    "body": {"type": "websocket.http.response.body", "body": b"x"},
    "unknown": {"type": "websocket.nonsense"},
}
WEBSOCKET_NEXT = {
    "new": {"accept": "open", "close": "refused", "deny": "denying"},
    "open": {"send": "open", "close": "closed"},
    "denying": {"more": "denying", "body": "denied"},
    "closed": {}, "refused": {}, "denied": {},
}
WEBSOCKET_STATUS = {"new": 500, "open": 101, "closed": 101, "refused": 403, "denying": 500, "denied": 418}


LIFESPAN = {
    "started": {"type": "lifespan.startup.complete"},
    "not started": {"type": "lifespan.startup.failed", "message": "x"},
    "stopped": {"type": "lifespan.shutdown.complete"},
    "not stopped": {"type": "lifespan.shutdown.failed"},
    "unknown": {"type": "lifespan.nonsense"},
}
LIFESPAN_NEXT = {
    "new": {"started": "running", "not started": "running"},
    "running": {"stopped": "done", "not stopped": "done"},
    "done": {},
}


def orders(messages):
    for n in (1, 2, 3):
        yield from itertools.product(messages, repeat=n)


def expected(following, order):
    """Return the state after an order, and how many of its messages are allowed before the first that is not."""
    state = "new"
    for i, name in enumerate(order):
        if name not in following[state]:
            return state, i
        state = following[state][name]
    return state, len(order)


def app_of(messages, results):
    """An app that sends the messages that the path names, until one raises."""

    async def app(scope, receive, send):
        order = scope["path"][1:].split(",")
        for i, name in enumerate(order):
            try:
                await send(messages[name])
            except RuntimeError as e:
                assert "the app sent" in str(e)
                results.append(i)
                return
        results.append(len(order))

    return app


def path(order):
    return "/" + ",".join(order).replace(" ", "%20")


def test_every_order_of_a_response(serve):
    results = []
    server = serve(app_of(HTTP, results))
    for order in orders(HTTP):
        state, allowed = expected(HTTP_NEXT, order)
        client = server.connect().send(f"GET {path(order)} HTTP/1.1\nHost: test\nConnection: close\n\n")
        if state == "done":
            assert client.response().status == 200, order
        elif state in ("new", "head", "head, trailers"):
            assert client.response().status == 500, order
        else:  # the connection is closed inside the response
            with pytest.raises((AssertionError, ValueError)):
                client.response()
        assert client.closed(), order
        client.close()
        assert results.pop() == allowed, order
    wait_until(lambda: server.server._core.active == 0)


def test_every_order_of_a_websocket(serve):
    results = []
    server = serve(app_of(WEBSOCKET, results))
    for order in orders(WEBSOCKET):
        state, allowed = expected(WEBSOCKET_NEXT, order)
        client = server.connect().send(
            f"GET {path(order)} HTTP/1.1\nHost: test\nConnection: upgrade\nUpgrade: websocket\n"
            "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n")
        assert client.head()[0] == WEBSOCKET_STATUS[state], order
        client.close()
        wait_until(lambda: results)
        assert results.pop() == allowed, order
    wait_until(lambda: server.server._core.active == 0)


def test_every_order_of_a_lifespan():
    results = []
    app = app_of(LIFESPAN, results)

    async def run(order):
        async def lifespan_app(scope, receive, send):
            await receive()
            await app({"path": "/" + ",".join(order)}, receive, send)

        lifespan = Lifespan(lifespan_app, "auto")
        await asyncio.wait_for(lifespan.startup(), LIMIT)
        await asyncio.wait_for(lifespan.shutdown(), LIMIT)
        return lifespan.failed

    async def run_all():
        for order in orders(LIFESPAN):
            _, allowed = expected(LIFESPAN_NEXT, order)
            failed = await run(order)
            assert results.pop() == allowed, order
            assert failed == any(name.startswith("not ") for name in order[:allowed]), order

    asyncio.run(run_all())
