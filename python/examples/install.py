"""Code that calls asyncio.run and cannot be changed: install makes its loops ours.

Policies are deprecated in asyncio, and install with them from Python 3.12 on.
"""

import asyncio
import warnings

import spindle


async def main() -> None:
    print(type(asyncio.get_running_loop()).__module__)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    spindle.install()
asyncio.run(main())
