"""A plain ASGI app: python -m spindle python/examples/hello.py"""


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError(f"this app does not know {scope['type']!r}")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": f"Hello from {scope['path']}\n".encode()})
