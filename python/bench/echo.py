"""An echo server: python echo.py LOOP KIND [CERTIFICATE]

LOOP is asyncio, uvloop, rloop or spindle; KIND is protocol, buffered, streams or udp.
CERTIFICATE, a file with certificate and key, turns on TLS. It prints its port.
"""

import asyncio
import ssl
import sys


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

    def pause_writing(self):  # a client that does not read must not fill our memory
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()


class BufferedEcho(asyncio.BufferedProtocol):
    shared = bytearray(256 * 1024)
    view = memoryview(shared)

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        return self.shared

    def buffer_updated(self, nbytes):
        self.transport.write(bytes(self.view[:nbytes]))

    pause_writing = Echo.pause_writing
    resume_writing = Echo.resume_writing


async def stream_echo(reader, writer):
    try:
        while data := await reader.read(256 * 1024):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, RuntimeError):
        pass  # the load generator has left; rloop says so with a RuntimeError
    writer.close()


def factory(name):
    if name == "asyncio":
        return asyncio.SelectorEventLoop
    return __import__(name).new_event_loop


class DatagramEcho(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data, address)


async def main(kind, tls):
    loop = asyncio.get_running_loop()
    if kind == "udp":
        transport, _ = await loop.create_datagram_endpoint(DatagramEcho, ("127.0.0.1", 0))
        print(transport.get_extra_info("sockname")[1], flush=True)
        await loop.create_future()
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls)
    if kind == "streams":
        server = await asyncio.start_server(stream_echo, "127.0.0.1", 0, backlog=4096, ssl=context, limit=256 * 1024)
    else:
        protocol = {"protocol": Echo, "buffered": BufferedEcho}[kind]
        server = await loop.create_server(protocol, "127.0.0.1", 0, backlog=4096, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.create_future()  # not serve_forever: rloop 0.5 then starts the server twice, and refuses connections


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=factory(sys.argv[1])) as runner:
        try:
            runner.run(main(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
        except KeyboardInterrupt:
            pass
