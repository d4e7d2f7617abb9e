"""asyncio programs in a simulated world: hosts, a network with faults, and one virtual clock.

    import asyncio
    import spindle.sim

    async def server():
        async def echo(reader, writer):
            while line := await reader.readline():
                writer.write(line)
            writer.close()
        await (await asyncio.start_server(echo, port=7)).serve_forever()

    async def client():
        reader, writer = await asyncio.open_connection("server", 7)
        writer.write(b"hello\\n")
        assert await reader.readline() == b"hello\\n"

    world = spindle.sim.World(seed=1)
    world.host("server").serve(server)
    world.host("client").start(client)
    world.run()

Programs are unchanged. A seed determines everything that happens: delays, faults, the order of
events, the clock and random numbers.
"""

from .errors import Blocked, Deadlock, Diverges, NotSimulated, SimError, Standstill, TimedOut
from .faults import Faults
from .host import Host
from .links import Link
from .testing import test
from .world import World

__all__ = ["Blocked", "Deadlock", "Diverges", "Faults", "Host", "Link", "NotSimulated", "SimError", "Standstill",
           "TimedOut", "World", "test"]
