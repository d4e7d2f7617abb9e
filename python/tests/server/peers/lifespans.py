"""The lifespans of the app, by the name in PEERS_LIFESPAN."""

import os


def note(text):
    with open(os.environ["PEERS_RECORD"], "a") as f:
        f.write(f'["lifespan", "{text}"]\n')


async def lifespan(scope, receive, send):
    kind = os.environ.get("PEERS_LIFESPAN", "complete")
    if kind == "none":
        raise RuntimeError("no lifespan")
    if kind == "returns":
        return
    assert (await receive())["type"] == "lifespan.startup"
    note("startup")
    if kind == "fails":
        return await send({"type": "lifespan.startup.failed", "message": "the database is missing"})
    if "state" in scope:
        scope["state"]["ready"] = "yes"
    await send({"type": "lifespan.startup.complete"})
    if kind == "raises-later":
        raise RuntimeError("on purpose")
    assert (await receive())["type"] == "lifespan.shutdown"
    note("shutdown")
    if kind == "shutdown-raises":
        raise RuntimeError("on purpose")
    if kind == "shutdown-fails":
        return await send({"type": "lifespan.shutdown.failed", "message": "on purpose"})
    await send({"type": "lifespan.shutdown.complete"})
