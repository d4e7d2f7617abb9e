"""A module that no call has imported before."""

import asyncio


async def answer():
    return await asyncio.to_thread(lambda: 42)
