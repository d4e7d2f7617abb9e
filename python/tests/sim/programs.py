"""Programs of simulated hosts, for several tests."""

import asyncio


async def echo_server(port=7):
    async def echo(reader, writer):
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, port=port)
    async with server:
        await server.serve_forever()


async def connect(name, port, tries=50, **options):
    """Connect to a server that may not listen yet."""
    for _ in range(tries):
        try:
            return await asyncio.open_connection(name, port, **options)
        except ConnectionError:
            await asyncio.sleep(0.01)
    raise ConnectionError(f"{name} does not answer")


async def echo_client(lines=10, name="server", port=7):
    reader, writer = await connect(name, port)
    for number in range(lines):
        line = b"line %d\n" % number
        writer.write(line)
        assert await reader.readline() == line
    writer.close()
    await writer.wait_closed()


def echo_world(world, clients=3, lines=10):
    world.host("server").serve(echo_server)
    for number in range(clients):
        world.host(f"client{number}").start(echo_client, lines)
