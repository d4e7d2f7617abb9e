"""Functions to call."""

import asyncio


async def forever():
    await asyncio.Event().wait()


async def nothing():
    await asyncio.Event().wait()
    yield 1


class Silent(asyncio.Protocol):
    pass
