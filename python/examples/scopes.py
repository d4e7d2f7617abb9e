"""Time-outs and nurseries with Trio's meaning, in asyncio code."""

import asyncio

import spindle


async def fetch(name: str, seconds: float) -> None:
    await asyncio.sleep(seconds)
    print("fetched", name)


async def main() -> None:
    with spindle.move_on_after(0.5) as scope:
        async with spindle.Nursery() as nursery:
            nursery.start_soon(fetch, "quick", 0.01)
            nursery.start_soon(fetch, "slow", 3600)
    print("gave up:", scope.cancelled_caught)


spindle.run(main())
