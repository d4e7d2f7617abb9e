"""The WebSockets of the app, by the first segment of the path."""

import asyncio


async def websocket(scope, receive, send, record):
    name = scope["path"].split("/")[1]
    assert (await receive())["type"] == "websocket.connect"
    if name == "deny":
        return await send({"type": "websocket.close"})
    if name == "deny-with":
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            return await send({"type": "websocket.close"})
        await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
        return await send({"type": "websocket.http.response.body", "body": b"a name is needed"})
    if name == "fails-early":
        raise ValueError("on purpose")
    if name == "returns-early":
        return
    accept = {"type": "websocket.accept"}
    if name == "protocol":
        accept["subprotocol"] = scope["subprotocols"][-1]
    if name == "fields":
        accept["headers"] = [(b"x-one", b"1"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
    await send(accept)
    if name == "fails":
        raise ValueError("on purpose")
    if name == "returns":
        return
    if name == "closes":
        return await send({"type": "websocket.close", "code": 4001, "reason": "enough"})
    if name == "closes-plainly":
        return await send({"type": "websocket.close"})
    if name == "closes-long":
        return await send({"type": "websocket.close", "code": 4001, "reason": "x" * 200})
    if name == "endless":
        return await endless(scope, send, record)
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})
    record(scope, f"{message['type']} {message['code']}" + (f" {message['reason']}" if message.get("reason") else ""))
    if name == "late":
        try:
            await send({"type": "websocket.send", "text": "too late"})
        except OSError:
            record(scope, "OSError")
        except Exception:
            record(scope, "another error")
        else:
            record(scope, "nothing raises")


async def endless(scope, send, record):
    try:
        for _ in range(3000):
            await send({"type": "websocket.send", "bytes": bytes(65536)})
            await asyncio.sleep(0)
    except OSError:
        return record(scope, "OSError")
    except BaseException as e:
        record(scope, type(e).__name__)
        raise
    record(scope, "all was sent")
