"""Connections that are reset at any time leave nothing behind."""

import asyncio
import contextlib
import os
import random
import resource
import socket
import struct
import time

import spindle
from conftest import GO_FDS
from resources import used


class Storm(asyncio.Protocol):
    """The server's side of a connection that is about to be reset."""

    made = lost = 0
    ended = False

    def connection_made(self, transport):
        Storm.made += 1
        self.transport = transport

    def data_received(self, data):
        kind = random.randrange(8)
        if self.ended:
            pass
        elif kind == 0:
            self.transport.write(bytes(1_000_000))
        elif kind == 1:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(random.random() / 10, self.resume)
        elif kind == 2:
            self.transport.close()
        elif kind == 3:
            self.transport.abort()
        elif kind == 4:
            self.transport.write_eof()
            self.ended = True
        else:
            self.transport.write(data)

    def resume(self):
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, exc):
        Storm.lost += 1


class BufferedStorm(Storm, asyncio.BufferedProtocol):
    def get_buffer(self, sizehint):
        self.buffer = bytearray(random.choice((1, 100, 70_000)))
        return self.buffer

    def buffer_updated(self, nbytes):
        self.data_received(self.buffer[:nbytes])


async def storm(reader, writer):
    Storm.made += 1
    try:
        with contextlib.suppress(OSError):
            while line := await reader.read(1000):
                writer.write(line * random.choice((1, 1000)))
                await writer.drain()
    finally:
        writer.close()
        Storm.lost += 1


def reset(address, connections, end):
    """Keep connections open to a server, send on them, and reset them at random."""
    sockets = []
    while time.monotonic() < end:
        while len(sockets) < connections:
            sock = socket.create_connection(address)
            sock.setblocking(False)
            sockets.append(sock)
        for sock in random.sample(sockets, connections // 4):
            with contextlib.suppress(OSError):
                sock.send(os.urandom(random.choice((1, 100, 10_000))))
            if random.randrange(4) == 0:
                with contextlib.suppress(OSError):
                    sock.recv(random.choice((1, 1_000_000)))
            if random.randrange(3) == 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
                sockets.remove(sock)
    for sock in sockets:
        sock.close()


def test_connections_reset_at_random_leave_nothing():
    """A thousand connections at a time, for SPINDLE_STORM seconds."""
    seconds = float(os.environ.get("SPINDLE_STORM", 4))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    unhandled = []

    async def rain(seconds):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: unhandled.append(context))
        servers = [await loop.create_server(Storm, "127.0.0.1", 0, backlog=1000),
                   await loop.create_server(BufferedStorm, "127.0.0.1", 0, backlog=1000),
                   await asyncio.start_server(storm, "127.0.0.1", 0, backlog=1000)]
        end = time.monotonic() + seconds
        await asyncio.gather(*[
            asyncio.to_thread(reset, server.sockets[0].getsockname(), 334, end) for server in servers])
        async with asyncio.timeout(60):
            while Storm.made != Storm.lost:
                await asyncio.sleep(0.01)
        for server in servers:
            server.close()
            await server.wait_closed()

    spindle.run(rain(seconds / 2))
    for _ in range(3):  # a leak is there in every attempt
        before = used()
        spindle.run(rain(seconds / 2))
        grown = [b - a for a, b in zip(before, used())]
        assert not unhandled
        if grown[0] < 3000 and grown[1] < 1000 and grown[2] <= GO_FDS and grown[3] <= 0:
            return
    raise AssertionError(f"{grown} more blocks, kilobytes, descriptors and threads after {Storm.made} connections")
