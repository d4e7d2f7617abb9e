"""The recommended way: spindle.run in place of asyncio.run."""

import asyncio

import spindle


async def greet(name: str, delay: float) -> str:
    await asyncio.sleep(delay)
    return f"hello {name}"


async def main() -> None:
    for greeting in await asyncio.gather(greet("Ada", 0.02), greet("Grace", 0.01)):
        print(greeting)


spindle.run(main())
