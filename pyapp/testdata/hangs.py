"""An app that does not start."""

import asyncio
import os


async def app(scope, receive, send):
    print(f"[{os.getpid()}]", flush=True)
    await asyncio.sleep(3600)
