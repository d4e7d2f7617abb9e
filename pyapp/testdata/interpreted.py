import os
import time

from spindle import GoError, async_call, traceparent  # in every interpreter

try:
    import _interpreters
except ImportError:  # before CPython 3.13
    HERE = 0
else:
    HERE = _interpreters.get_current()[0]


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    assert issubclass(GoError, Exception) and callable(async_call) and traceparent.get() == ""
    directory = scope["query_string"].decode()
    if scope["path"] == "/block":  # the interpreter accepts no connections meanwhile
        open(os.path.join(directory, "blocked"), "x").close()
        while not os.path.exists(os.path.join(directory, "released")):
            time.sleep(0.01)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"{HERE} {scope['client'][0]} {os.getpid()}".encode()})


def wsgi(environ, start_response):
    raise NotImplementedError


def where(values):
    return {HERE} | values
