"""The app that every server serves. The first segment of the path says how it behaves; other paths are echoed.

What no response can carry goes to the file PEERS_RECORD, a line of JSON for each fact: the request's id (its
query string) and a text. PEERS_LIFESPAN says how the app behaves in its lifespan.
"""

import asyncio
import json
import os

PIECE = b"x" * 65536


def record(scope, text):
    line = json.dumps([scope.get("query_string", b"").decode("latin-1"), text]) + "\n"
    with open(os.environ["PEERS_RECORD"], "a") as f:
        f.write(line)


def plain(value):
    """Return a value of a scope as JSON has it."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


async def read(receive):
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body
    return None


async def respond(send, body=b"", status=200, headers=(), length=True):
    headers = list(headers) + ([(b"content-length", str(len(body)).encode())] if length else [])
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def piece(send, body, more=True):
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def start(send, *headers, status=200, **other):
    await send({"type": "http.response.start", "status": status, "headers": list(headers), **other})


async def echo(scope, receive, send):
    body = await read(receive)
    if body is None:
        return record(scope, "http.disconnect")
    found = {key: plain(scope.get(key)) for key in ("method", "path", "raw_path", "query_string", "http_version", "scheme", "headers")}
    found["body"], found["extensions"] = plain(body), sorted(scope.get("extensions") or {})
    found["state"] = plain((scope.get("state") or {}).get("ready"))
    found["trailers"] = "http.request.trailers" in found["extensions"]
    await respond(send, json.dumps(found).encode())


async def unread(scope, receive, send):
    await respond(send, b"unread")


async def slow(scope, receive, send):
    record(scope, "began")
    await asyncio.sleep(0.5)
    await respond(send, b"slow")


async def stream(scope, receive, send):
    await start(send)
    for text in (b"one", b"two", b"three"):
        await piece(send, text)
        await asyncio.sleep(0)
    await piece(send, b"", False)


async def one(scope, receive, send):
    await respond(send, b"one piece", length=False)


async def empty(scope, receive, send):
    await respond(send, length=False)


async def status(scope, receive, send):
    """/status/204: with this status, and a body of five bytes that some statuses cannot have."""
    code = int(scope["path"].rsplit("/", 1)[1])
    await respond(send, b"12345", code, length=False)


async def bodyless(scope, receive, send):
    code = int(scope["path"].rsplit("/", 1)[1])
    await respond(send, b"", code, length=False)


async def announced(scope, receive, send):
    """/announced/7: a length, for a body of five bytes."""
    try:
        await start(send, (b"content-length", scope["path"].rsplit("/", 1)[1].encode()))
        await piece(send, b"12345", False)
    except Exception as e:
        record(scope, "refused" if e else "")
        raise


async def own_chunks(scope, receive, send):
    await start(send, (b"transfer-encoding", b"chunked"))
    await piece(send, b"12345", False)


async def close(scope, receive, send):
    await respond(send, b"bye", headers=[(b"connection", b"close")])


async def fields(scope, receive, send):
    await respond(send, b"", headers=[(b"set-cookie", b"a=1"), (b"x-one", b"1"), (b"set-cookie", b"b=2"), (b"server", b"mine"),
                                      (b"date", b"then")])


async def upper(scope, receive, send):
    await respond(send, b"", headers=[(b"X-Upper", b"1")])


async def bad_value(scope, receive, send):
    await respond(send, b"", headers=[(b"x-bad", b"1\r\nx-injected: 2")])


async def bad_name(scope, receive, send):
    await respond(send, b"", headers=[(b"x bad", b"1")])


async def text_fields(scope, receive, send):
    await respond(send, b"", headers=[("x-text", "1")])


async def no_fields(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body"})


async def fails(scope, receive, send):
    raise ValueError("on purpose")


async def fails_after_start(scope, receive, send):
    await start(send)
    raise ValueError("on purpose")


async def fails_in_body(scope, receive, send):
    await start(send)
    await piece(send, b"half")
    await asyncio.sleep(0.05)
    raise ValueError("on purpose")


async def fails_after_end(scope, receive, send):
    await respond(send, b"whole")
    raise ValueError("on purpose")


async def returns(scope, receive, send):
    pass


async def returns_after_start(scope, receive, send):
    await start(send)


async def returns_in_body(scope, receive, send):
    await start(send)
    await piece(send, b"half")
    await asyncio.sleep(0.05)


async def wrong(scope, receive, send, *messages):
    """Send messages in an order that is wrong, and record at which one send raises."""
    for number, message in enumerate(messages):
        try:
            await send(message)
        except Exception:
            return record(scope, f"message {number} raises")
    record(scope, "nothing raises")


async def body_first(scope, receive, send):
    await wrong(scope, receive, send, {"type": "http.response.body", "body": b""})


async def start_twice(scope, receive, send):
    head = {"type": "http.response.start", "status": 200, "headers": []}
    await wrong(scope, receive, send, head, head)


async def after_end(scope, receive, send):
    await respond(send, b"whole")
    await wrong(scope, receive, send, {"type": "http.response.body", "body": b"more"})


async def unknown_message(scope, receive, send):
    await wrong(scope, receive, send, {"type": "http.response.nonsense"})


async def trailers(scope, receive, send):
    await start(send, (b"trailer", b"x-sum"), trailers=True)
    await piece(send, b"12345", False)
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"15")]})


async def hint(scope, receive, send):
    if "http.response.early_hint" in (scope.get("extensions") or {}):
        await send({"type": "http.response.early_hint", "links": [b"</style.css>; rel=preload"]})
    await respond(send, b"hinted")


async def events(scope, receive, send):
    """A stream that has nothing to say before the client leaves."""
    await start(send, (b"content-type", b"text/event-stream"))
    while (await receive())["type"] != "http.disconnect":
        pass
    record(scope, "http.disconnect")


async def waits(scope, receive, send):
    await read(receive)
    record(scope, "waits")
    record(scope, (await receive())["type"])


async def afterwards(scope, receive, send):
    await read(receive)
    await respond(send, b"done")
    record(scope, (await receive())["type"])


async def endless(scope, receive, send):
    await start(send)
    record(scope, "began")
    try:
        for _ in range(3000):  # a bound for servers in which nothing ends it
            await piece(send, PIECE)
            await asyncio.sleep(0)
    except OSError:
        return record(scope, "OSError")
    except BaseException as e:
        record(scope, type(e).__name__)
        raise
    record(scope, "all was sent")


async def upload(scope, receive, send):
    body = 0
    while (message := await receive())["type"] == "http.request":
        if not body:
            record(scope, "began")
        body += len(message.get("body", b""))
        if not message.get("more_body"):
            return await respond(send, str(body).encode())
    record(scope, message["type"])


HTTP = {function.__name__: function for function in (
    echo, unread, slow, stream, one, empty, status, bodyless, announced, own_chunks, close, fields, upper, bad_value, bad_name,
    text_fields, no_fields, fails, fails_after_start, fails_in_body, fails_after_end, returns, returns_after_start,
    returns_in_body, body_first, start_twice, after_end, unknown_message, trailers, hint, events, waits, afterwards, endless,
    upload)}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        from lifespans import lifespan

        return await lifespan(scope, receive, send)
    if scope["type"] == "websocket":
        from sockets import websocket

        return await websocket(scope, receive, send, record)
    name = scope["path"].split("/")[1] if "/" in scope["path"] else ""
    await HTTP.get(name, echo)(scope, receive, send)
