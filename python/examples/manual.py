"""A loop managed by hand: a server that runs until its first client has left."""

import asyncio

import spindle


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        asyncio.get_running_loop().stop()


async def client(host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"hello\n")
    print((await reader.readline()).decode(), end="")
    writer.close()
    await writer.wait_closed()


loop = spindle.new_event_loop()
asyncio.set_event_loop(loop)
try:
    server = loop.run_until_complete(loop.create_server(Echo, "127.0.0.1", 0))
    task = loop.create_task(client(*server.sockets[0].getsockname()))
    loop.run_forever()
    loop.run_until_complete(task)
    server.close()
    loop.run_until_complete(server.wait_closed())
finally:
    asyncio.set_event_loop(None)
    loop.close()
