"""An app with a startup that calls Go."""

import spindle

answer = None


async def app(scope, receive, send):
    global answer
    if scope["type"] == "lifespan":
        await receive()
        answer = await spindle.async_call("starting", "lifespan")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": answer.encode()})
