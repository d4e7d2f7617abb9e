"""An app that does not start."""

import asyncio
import os


async def app(scope, receive, send):
    print(f"[{os.getpid()}]\n", end="", flush=True)  # one write, because two workers share the pipe
    await asyncio.sleep(3600)
