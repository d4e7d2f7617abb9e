"""Datagrams, Unix sockets, TLS, plain sockets and names in a world."""

import asyncio
import datetime
import socket
import ssl

import pytest

from spindle.sim import World

from .programs import connect


def run(*programs, seed=1):
    world = World(seed)
    hosts = [world.host(name) for name in ("a", "b")]
    for host, (program, serves) in zip(hosts, programs):
        (host.serve if serves else host.start)(program)
    world.run()
    return world


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self):
        self.received = asyncio.Queue()

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.received.put_nowait((data, address))


async def datagram_echo():
    transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, local_addr=("0.0.0.0", 9))
    while True:
        data, address = await protocol.received.get()
        transport.sendto(data.upper(), address)


def test_datagrams():
    seen = []

    async def client():
        transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, remote_addr=("a", 9))
        transport.sendto(b"hello")
        seen.append(await protocol.received.get())
        transport.close()

    run((datagram_echo, True), (client, False))
    assert seen == [(b"HELLO", ("10.0.0.1", 9))]


def test_datagrams_are_lost_and_doubled():
    world, got = World(4), []
    a, b = world.host("a"), world.host("b")
    world.link(a, b).loss(0.3).duplicate(0.3)
    a.serve(datagram_echo)

    async def client():
        transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, remote_addr=("a", 9))
        for number in range(50):
            transport.sendto(b"%d" % number)
        await asyncio.sleep(1)
        while not protocol.received.empty():
            got.append(protocol.received.get_nowait()[0])

    b.start(client)
    world.run()
    assert len(set(got)) < 50 and len(got) > len(set(got))


def test_unix_sockets():
    async def program():
        async def upper(reader, writer):
            writer.write((await reader.readline()).upper())
            writer.close()

        async with await asyncio.start_unix_server(upper, "/run/upper.sock"):
            reader, writer = await asyncio.open_unix_connection("/run/upper.sock")
            writer.write(b"hello\n")
            assert await reader.readline() == b"HELLO\n"
            writer.close()
        with pytest.raises(OSError):
            await asyncio.open_unix_connection("/run/other.sock")

    run((program, False))


def test_tls(tls):
    server_side, client_side = tls
    seen = []

    async def server():
        async def upper(reader, writer):
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()

        await (await asyncio.start_server(upper, port=443, ssl=server_side)).serve_forever()

    async def client():
        reader, writer = await connect("a", 443, ssl=client_side)
        writer.write(b"hello\n")
        seen.append(await reader.readline())
        seen.append(writer.get_extra_info("ssl_object").version())
        writer.close()

    first = run((server, True), (client, False))
    assert seen == [b"HELLO\n", "TLSv1.3"]
    assert run((server, True), (client, False)).hash == first.hash, "OpenSSL follows the seed"
    assert run((server, True), (client, False), seed=2).hash != first.hash


def test_certificates_are_verified_at_the_time_of_the_world(certificate):
    path, server_side, _ = certificate
    seen = []

    async def server():
        async def hello(reader, writer):
            writer.write(b"hello")
            writer.close()

        await (await asyncio.start_server(hello, port=443, ssl=server_side)).serve_forever()

    async def client():
        verifies = ssl.create_default_context(cafile=path + ".crt")
        await asyncio.sleep(1)
        try:
            reader, _ = await asyncio.open_connection("localhost", 443, ssl=verifies)
            seen.append(await reader.read())
        except ssl.SSLCertVerificationError as exc:
            seen.append(exc.verify_message)

    for begin in (datetime.datetime.now(datetime.timezone.utc), None):
        world = World(1, begin=begin)
        host = world.host("a")
        host.serve(server)
        host.start(client)
        world.run()
    assert seen == [b"hello", "certificate is not yet valid"]


def test_start_tls(tls):
    server_side, client_side = tls

    async def server():
        async def upgrade(reader, writer):
            assert await reader.readline() == b"STARTTLS\n"
            writer.write(b"go\n")
            await writer.start_tls(server_side)
            writer.write(await reader.readline())
            writer.close()

        await (await asyncio.start_server(upgrade, port=25)).serve_forever()

    async def client():
        reader, writer = await connect("a", 25)
        writer.write(b"STARTTLS\n")
        assert await reader.readline() == b"go\n"
        await writer.start_tls(client_side)
        writer.write(b"secret\n")
        assert await reader.readline() == b"secret\n"
        writer.close()

    run((server, True), (client, False))


def test_sockets_of_the_program():
    async def server():
        loop = asyncio.get_running_loop()
        listener = socket.socket()
        listener.setblocking(False)
        listener.bind(("", 80))
        listener.listen()
        accepted, address = await loop.sock_accept(listener)
        assert address[0] == "10.0.0.2"
        data = await loop.sock_recv(accepted, 100)
        await loop.sock_sendall(accepted, data[::-1])
        accepted.close()
        listener.close()

    async def client():
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        sock.setblocking(False)
        assert isinstance(sock, socket.socket) and sock.family == socket.AF_INET
        await asyncio.sleep(0.1)
        await loop.sock_connect(sock, ("10.0.0.1", 80))
        await loop.sock_sendall(sock, b"abc")
        assert await loop.sock_recv(sock, 100) == b"cba"
        assert sock.getpeername() == ("10.0.0.1", 80)
        sock.close()

    run((server, False), (client, False))
    assert socket.socket.__module__ == "socket"


def test_names():
    async def program():
        loop = asyncio.get_running_loop()
        assert socket.gethostname() == "a"
        assert (await loop.getaddrinfo("b", 80, type=socket.SOCK_STREAM))[0][4] == ("10.0.0.2", 80)
        assert socket.gethostbyname("b") == "10.0.0.2"
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo("example.com", 80)

    run((program, False))


def test_tls_context_of_a_library():
    """A context that verifies certificates can be made inside a world."""

    async def program():
        ssl.create_default_context()

    run((program, False))
