"""Things that are not apps, and apps that cannot start."""

number = 3


async def fails(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


async def hangs(scope, receive, send):
    while True:
        await receive()
