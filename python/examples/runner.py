"""asyncio.Runner with our loops: several calls on one loop, and contexts and debug mode as asyncio has them."""

import asyncio

import spindle


async def count(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


with asyncio.Runner(loop_factory=spindle.new_event_loop) as runner:
    n = runner.run(count(1))
    print(runner.run(count(n)))
