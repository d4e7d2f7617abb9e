"""An echo server on asyncio or uvloop: python3 echo.py LOOP HOST PORT

A BufferedProtocol, the fastest way in both. A plain Protocol makes asyncio
allocate 256 KiB for each read, which the C library takes from the kernel and
gives back every time, until a first burst of frees has taught it otherwise: a
fresh server would run at a third of its speed. Both set TCP_NODELAY themselves.
"""

import asyncio
import sys

# Nothing outlives the callback, so all connections share one buffer.
shared = bytearray(64 * 1024)
view = memoryview(shared)


class Echo(asyncio.BufferedProtocol):
    __slots__ = ("transport",)

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        return shared

    def buffer_updated(self, nbytes):
        # A copy: uvloop sends only at the end of its turn.
        self.transport.write(bytes(view[:nbytes]))

    # A client that does not read must not fill our memory.
    def pause_writing(self):
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()


async def main(host, port):
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, host, port, backlog=4096)
    address = server.sockets[0].getsockname()
    print(f"listening on {address[0]}:{address[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "uvloop":
        import uvloop

        uvloop.install()
    asyncio.run(main(sys.argv[2], int(sys.argv[3])))
