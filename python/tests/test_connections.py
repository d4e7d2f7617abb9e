"""Servers and connections with all their parameters, on our loop and on asyncio's."""

import asyncio
import contextlib
import os
import socket

import pytest

from conftest import echo_server


class Client(asyncio.Protocol):
    def __init__(self):
        loop = asyncio.get_running_loop()
        self.received, self.lost = asyncio.Queue(), loop.create_future()

    def data_received(self, data):
        self.received.put_nowait(data)

    def connection_lost(self, exc):
        self.lost.set_result(exc)


async def talk(transport, client):
    """Send a message to an echo server, wait for it and close the connection."""
    transport.write(b"hello")
    assert await client.received.get() == b"hello"
    transport.close()
    await client.lost


async def connect(*args, **kwargs):
    return await asyncio.get_running_loop().create_connection(Client, *args, **kwargs)


async def ended(server):
    server.close()
    await server.wait_closed()


@contextlib.contextmanager
def silent_listener():
    """The address of a listener that answers no more connections: a client waits for a long time."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            sock = sockets.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield listener.getsockname()


def addresses(monkeypatch, *found):
    async def getaddrinfo(loop, host, port, **kwargs):
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address) for address in found]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)


def test_happy_eyeballs_pass_an_address_that_is_silent(run, monkeypatch):
    async def main():
        server, address = await echo_server()
        addresses(monkeypatch, silent, address)
        transport, client = await connect("host.invalid", 80, happy_eyeballs_delay=0.02)
        assert transport.get_extra_info("peername") == address
        await talk(transport, client)
        await ended(server)

    with silent_listener() as silent:
        run(main())


def test_next_address_is_tried_after_a_refusal(run, monkeypatch):
    async def main():
        server, address = await echo_server()
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            addresses(monkeypatch, unused.getsockname(), address)
            for options in ({}, {"happy_eyeballs_delay": 60}):
                transport, client = await connect("host.invalid", 80, **options)
                await talk(transport, client)
            addresses(monkeypatch, unused.getsockname())
            with pytest.raises(ConnectionRefusedError):
                await connect("host.invalid", 80, happy_eyeballs_delay=60)
        await ended(server)

    run(main())


def test_local_address_of_a_connection(run):
    async def main():
        server, address = await echo_server()
        transport, client = await connect(*address, local_addr=("127.0.0.2", 0))
        assert transport.get_extra_info("sockname")[0] == "127.0.0.2"
        await talk(transport, client)
        await ended(server)

    run(main())


def test_server_starts_when_it_is_told_to(run):
    async def main():
        server, address = await echo_server(start_serving=False, backlog=5)
        assert not server.is_serving()
        with pytest.raises(ConnectionRefusedError):
            await connect(*address)
        serving = asyncio.create_task(server.serve_forever())
        while not server.is_serving():
            await asyncio.sleep(0)
        await talk(*await connect(*address))
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert not server.is_serving()

    run(main())


def test_servers_share_a_port(run):
    async def main():
        loop = asyncio.get_running_loop()
        first, address = await echo_server(reuse_port=True)
        second = await loop.create_server(Client, *address, reuse_port=True)
        with pytest.raises(OSError):
            await loop.create_server(Client, *address)
        await ended(second)
        await ended(first)

    run(main())


def test_sockets_of_the_program(run):
    async def main():
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("127.0.0.1", 0))
        address = listener.getsockname()
        accepted = asyncio.Queue()

        class Accepted(Client):
            def connection_made(self, transport):
                accepted.put_nowait((transport, self))

        server = await loop.create_server(Accepted, sock=listener)
        client, _ = await connect(sock=socket.create_connection(address))
        client.write(b"x")
        transport, protocol = await accepted.get()
        assert await protocol.received.get() == b"x"
        client.close()
        await protocol.lost
        await ended(server)

    run(main())


def test_socket_that_the_program_has_accepted(run):
    async def main():
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            peer = socket.create_connection(listener.getsockname())
            accepted, _ = await loop.sock_accept(listener)
        transport, protocol = await loop.connect_accepted_socket(Client, accepted)
        peer.send(b"x")
        assert await protocol.received.get() == b"x"
        peer.close()
        await protocol.lost

    run(main())


def test_unix_server(run, tmp_path):
    async def main():
        async def echo(reader, writer):
            writer.write(await reader.readexactly(5))
            writer.close()

        loop, path = asyncio.get_running_loop(), str(tmp_path / "socket")
        server = await asyncio.start_unix_server(echo, path)
        transport, client = await loop.create_unix_connection(Client, path)
        await talk(transport, client)
        await ended(server)

    run(main())


def test_tls(run, tls):
    async def main():
        server, address = await echo_server(ssl=tls[0])
        transport, client = await connect(*address, ssl=tls[1], server_hostname="test")
        assert transport.get_extra_info("cipher") and not transport.get_extra_info("peercert")
        for size in (1, 70_000, 1_000_000):
            transport.write(bytes(size))
            while size > 0:
                size -= len(await client.received.get())
        await talk(transport, client)
        await ended(server)

    run(main())


def test_tls_handshake_has_a_limit(run, tls):
    async def main():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Client, "127.0.0.1", 0)  # it never answers
        with pytest.raises(ConnectionAbortedError, match="handshake"):
            await connect(*server.sockets[0].getsockname(), ssl=tls[1], server_hostname="test", ssl_handshake_timeout=0.05)
        await ended(server)

    run(main())


def test_connection_is_upgraded_to_tls(run, tls):
    """Both ends say so in plain text first, as SMTP and PostgreSQL do."""

    async def upgrade(reader, writer):
        assert await reader.readexactly(8) == b"STARTTLS"
        writer.write(b"GO")
        await writer.drain()
        await writer.start_tls(tls[0])
        writer.write(await reader.readexactly(5))
        writer.close()

    async def main():
        server = await asyncio.start_server(upgrade, "127.0.0.1", 0)
        transport, client = await connect(*server.sockets[0].getsockname())
        transport.write(b"STARTTLS")
        assert await client.received.get() == b"GO"
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(transport, client, tls[1], server_hostname="test")
        transport.write(b"hello")
        assert await client.received.get() == b"hello"
        assert transport.get_extra_info("cipher")
        transport.close()
        await client.lost
        await ended(server)

    run(main())


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_sendfile(run, tls, tmp_path, secure):
    path = tmp_path / "data"
    path.write_bytes(os.urandom(500_000))

    async def main():
        server, address = await echo_server(ssl=tls[0] if secure else None)
        transport, client = await connect(*address, ssl=tls[1] if secure else None, server_hostname="test" if secure else None)
        with open(path, "rb") as file:
            assert await asyncio.get_running_loop().sendfile(transport, file, 1000, 400_000) == 400_000
        data = b""
        while len(data) < 400_000:
            data += await client.received.get()
        assert data == path.read_bytes()[1000:401_000]
        await talk(transport, client)
        await ended(server)

    run(main())


def test_socket_calls(run, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(100_000))

    async def main():
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
            for sock in (listener, client):
                sock.setblocking(False)
            accepting = asyncio.create_task(loop.sock_accept(listener))
            await loop.sock_connect(client, listener.getsockname())
            peer, _ = await accepting
            with peer, open(path, "rb") as file:
                await loop.sock_sendall(client, b"abcdef")
                assert await loop.sock_recv(peer, 3) == b"abc"
                buffer = bytearray(10)
                assert await loop.sock_recv_into(peer, buffer) == 3 and buffer[:3] == b"def"
                sending = asyncio.create_task(loop.sock_sendfile(client, file))
                received = 0
                while received < 100_000:
                    received += len(await loop.sock_recv(peer, 65536))
                assert await sending == 100_000
        with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
            for sock in (one, other):
                sock.setblocking(False)
                sock.bind(("127.0.0.1", 0))
            await loop.sock_sendto(one, b"x", other.getsockname())
            assert await loop.sock_recvfrom(other, 10) == (b"x", one.getsockname())
            await loop.sock_sendto(one, b"yz", other.getsockname())
            buffer = bytearray(10)
            assert await loop.sock_recvfrom_into(other, buffer) == (2, one.getsockname()) and buffer[:2] == b"yz"

    run(main())
