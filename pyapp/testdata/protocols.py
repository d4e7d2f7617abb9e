"""Protocols for connections of a Go program."""

import asyncio
import functools
import os

import spindle


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

    def pause_writing(self):
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()


class Upper(Echo):
    """Greets, and says goodbye at the end of the client's bytes."""

    def connection_made(self, transport):
        super().connection_made(transport)
        transport.write(b"hello\n")

    def data_received(self, data):
        self.transport.write(data.upper())

    def eof_received(self):
        self.transport.write(b"goodbye\n")  # and the transport closes itself


class Notes(Echo):
    """Tells Go what happens."""

    def connection_made(self, transport):
        super().connection_made(transport)
        spindle.send("notes", f"made {os.getpid()} {spindle.traceparent.get()}")

    def connection_lost(self, error):
        spindle.send("notes", f"lost {error!r}")


def streams():
    """Serves with asyncio's streams, and asks Go."""
    async def serve(reader, writer):
        async for line in reader:
            writer.write(await spindle.async_call("answer", line.decode()))
        writer.close()

    reader = asyncio.StreamReader()
    return asyncio.StreamReaderProtocol(reader, serve)


class Inheritable(Echo):
    """Says whether other processes would inherit the connection."""

    def connection_made(self, transport):
        transport.write(str(os.get_inheritable(transport.get_extra_info("socket").fileno())).encode())
        transport.close()


class Crash(Echo):
    def data_received(self, data):
        os.kill(os.getpid(), 9)


def fails():
    raise ValueError("no protocol today")


def nothing():
    return "a text"


partial = functools.partial(str)


async def block(path):
    """Block the loop until a FIFO is written."""
    with open(path) as fifo:
        return fifo.read()
