"""Connections that a Go program has accepted, for protocols in Python. See ServeConn of the Go package pyapp."""

import asyncio
import os
import socket


class Accepted(socket.socket):
    """The socket of a connection. The future closed has a result when it is closed, which is after connection_lost."""

    def __init__(self, descriptor):
        super().__init__(fileno=descriptor)
        self.closed = asyncio.get_running_loop().create_future()

    def close(self):
        super().close()  # which a transport delays until it has closed its side
        if self.fileno() == -1 and not self.closed.done():
            self.closed.set_result(None)


def accepted(descriptor):
    """Return the socket of a descriptor, or close it."""
    try:
        return Accepted(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


async def serve_protocol(sock, factory):
    """Serve a connection with a protocol that factory makes, until its transport is closed. Abort it if that is cancelled."""
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: make_protocol(factory), sock)
    try:
        await asyncio.shield(sock.closed)
    except asyncio.CancelledError:
        transport.abort()
        await sock.closed  # connection_lost is called
        raise


def make_protocol(factory):
    protocol = factory()
    if not hasattr(protocol, "connection_made"):  # asyncio would report that in its log only
        raise TypeError(f"{factory!r} is to return an asyncio protocol, not {protocol!r}")
    return protocol
