"""An echo server on a loop of asyncio: python3 echo.py LOOP HOST PORT [KIND [CERTIFICATE]]

LOOP is asyncio, uvloop, rloop or spindle; KIND is buffered, protocol, streams or udp.
CERTIFICATE, a file with certificate and key, turns on TLS.

A BufferedProtocol is the fastest way in asyncio and uvloop. A plain Protocol makes asyncio
allocate 256 KiB for each read, which the C library takes from the kernel and
gives back every time, until a first burst of frees has taught it otherwise: a
fresh server would run at a third of its speed. All set TCP_NODELAY themselves.
"""

import asyncio
import ssl
import sys

# Nothing outlives the callback, so all connections share one buffer.
shared = bytearray(64 * 1024)
view = memoryview(shared)


class Echo(asyncio.Protocol):
    __slots__ = ("transport",)

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

    # A client that does not read must not fill our memory.
    def pause_writing(self):
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()


class BufferedEcho(asyncio.BufferedProtocol):
    __slots__ = ("transport",)
    connection_made, pause_writing, resume_writing = Echo.connection_made, Echo.pause_writing, Echo.resume_writing

    def get_buffer(self, sizehint):
        return shared

    def buffer_updated(self, nbytes):
        # A copy: uvloop sends only at the end of its turn.
        self.transport.write(bytes(view[:nbytes]))


class DatagramEcho(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data, address)


async def stream_echo(reader, writer):
    try:
        while data := await reader.read(256 * 1024):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, RuntimeError):
        pass  # the load generator has left; rloop says so with a RuntimeError
    writer.close()


async def main(host, port, kind="buffered", certificate=None):
    loop = asyncio.get_running_loop()
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    if kind == "udp":
        transport, _ = await loop.create_datagram_endpoint(DatagramEcho, (host, port))
        address = transport.get_extra_info("sockname")
    else:
        if kind == "streams":
            server = await asyncio.start_server(stream_echo, host, port, backlog=4096, ssl=context, limit=256 * 1024)
        else:
            protocol = {"protocol": Echo, "buffered": BufferedEcho}[kind]
            server = await loop.create_server(protocol, host, port, backlog=4096, ssl=context)
        address = server.sockets[0].getsockname()
    print(f"listening on {address[0]}:{address[1]}", flush=True)
    await loop.create_future()  # not serve_forever: rloop 0.5 then starts the server twice, and refuses connections


if __name__ == "__main__":
    if sys.argv[1] != "asyncio":
        asyncio.set_event_loop(loop := __import__(sys.argv[1]).new_event_loop())
    else:
        asyncio.set_event_loop(loop := asyncio.new_event_loop())
    loop.run_until_complete(main(sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
