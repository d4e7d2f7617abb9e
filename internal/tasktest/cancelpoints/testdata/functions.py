"""Functions to call."""

import asyncio


async def forever():
    await asyncio.Event().wait()
