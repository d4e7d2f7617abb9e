"""Datagrams: bursts, addresses and errors, on our loop and on asyncio's."""

import asyncio
import socket

import pytest

import spindle
from spindle.datagram import BURST


class Collector(asyncio.DatagramProtocol):
    def __init__(self):
        self.received = asyncio.Queue()
        self.errors = asyncio.Queue()

    def datagram_received(self, data, address):
        self.received.put_nowait((data, address))

    def error_received(self, exc):
        self.errors.put_nowait(exc)


async def endpoint(protocol, host="127.0.0.1", **kwargs):
    kwargs.setdefault("local_addr", (host, 0))
    return await asyncio.get_running_loop().create_datagram_endpoint(lambda: protocol, **kwargs)


def test_a_burst_arrives_in_order(run):
    async def main():
        transport, protocol = await endpoint(Collector())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.bind(("127.0.0.1", 0))
            for i in range(3 * BURST):
                client.sendto(b"%d" % i, transport.get_extra_info("sockname"))
            for i in range(3 * BURST):
                assert await protocol.received.get() == (b"%d" % i, client.getsockname())
        transport.close()

    run(main())


def test_empty_and_large_datagrams_arrive(run):
    async def main():
        transport, protocol = await endpoint(Collector())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            for size in (0, 1, 65507):
                client.sendto(bytes(size), transport.get_extra_info("sockname"))
                assert (await protocol.received.get())[0] == bytes(size)
        transport.close()

    run(main())


def test_addresses_of_several_senders_are_told_apart(run):
    async def main():
        transport, protocol = await endpoint(Collector())
        clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(5)]
        for _ in range(2):
            for client in clients:
                client.sendto(b"x", transport.get_extra_info("sockname"))
        for _ in range(2):
            for client in clients:
                _, (host, port) = await protocol.received.get()
                assert (host, port) == ("127.0.0.1", client.getsockname()[1])
        for client in clients:
            client.close()
        transport.close()

    run(main())


def test_addresses_of_ipv6_have_four_parts(run):
    async def main():
        try:
            transport, protocol = await endpoint(Collector(), "::1")
        except OSError:
            pytest.skip("no IPv6")
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
            client.bind(("::1", 0))
            client.sendto(b"x", transport.get_extra_info("sockname"))
            assert await protocol.received.get() == (b"x", client.getsockname())
        transport.close()

    run(main())


def test_a_protocol_that_closes_the_transport_receives_no_more(run):
    class Closing(Collector):
        def datagram_received(self, data, address):
            super().datagram_received(data, address)
            self.transport.abort()

        def connection_made(self, transport):
            self.transport = transport

        def connection_lost(self, exc):
            self.lost.set_result(exc)

    async def main():
        protocol = Closing()
        protocol.lost = asyncio.get_running_loop().create_future()
        transport, _ = await endpoint(protocol)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            for _ in range(4):
                client.sendto(b"x", transport.get_extra_info("sockname"))
            assert await protocol.lost is None
        assert protocol.received.qsize() == 1

    run(main())


def test_a_refusal_of_the_peer_is_reported(run):
    async def main():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
            unused.bind(("127.0.0.1", 0))
            address = unused.getsockname()
        transport, protocol = await endpoint(Collector(), local_addr=None, remote_addr=address)
        transport.sendto(b"x")
        assert isinstance(await protocol.errors.get(), ConnectionRefusedError)
        transport.close()

    run(main())


def test_endpoint_is_connected_to_its_remote_address(run):
    async def main():
        receiver, protocol = await endpoint(Collector())
        sender, _ = await endpoint(Collector(), remote_addr=receiver.get_extra_info("sockname"))
        assert sender.get_extra_info("peername") == receiver.get_extra_info("sockname")
        sender.sendto(b"x")
        assert await protocol.received.get() == (b"x", sender.get_extra_info("sockname"))
        with pytest.raises(ValueError, match="Invalid address"):
            sender.sendto(b"x", ("127.0.0.1", 9))
        sender.close()
        receiver.close()

    run(main())


def test_family_protocol_and_flags_choose_the_address(run):
    async def main():
        transport, _ = await endpoint(Collector(), "localhost", family=socket.AF_INET, proto=socket.IPPROTO_UDP)
        sock = transport.get_extra_info("socket")
        assert (sock.family, sock.proto) == (socket.AF_INET, socket.IPPROTO_UDP)
        transport.close()
        transport, _ = await endpoint(Collector(), local_addr=None, family=socket.AF_INET)
        assert transport.get_extra_info("sockname") == ("0.0.0.0", 0)
        transport.close()
        with pytest.raises(socket.gaierror):
            await endpoint(Collector(), "localhost", flags=socket.AI_NUMERICHOST)

    run(main())


def test_reuse_port_shares_a_port(run):
    async def main():
        first, _ = await endpoint(Collector(), reuse_port=True)
        address = first.get_extra_info("sockname")
        second, _ = await endpoint(Collector(), local_addr=address, reuse_port=True)
        assert second.get_extra_info("sockname") == address
        with pytest.raises(OSError):
            await endpoint(Collector(), local_addr=address)
        second.close()
        first.close()

    run(main())


def test_allow_broadcast(run):
    async def main():
        plain, _ = await endpoint(Collector())
        sender, _ = await endpoint(Collector(), allow_broadcast=True)
        option = socket.SOL_SOCKET, socket.SO_BROADCAST
        assert not plain.get_extra_info("socket").getsockopt(*option)
        assert sender.get_extra_info("socket").getsockopt(*option)
        receiver, protocol = await endpoint(Collector(), "0.0.0.0")
        sender.sendto(b"to all", ("127.255.255.255", receiver.get_extra_info("sockname")[1]))
        assert (await protocol.received.get())[0] == b"to all"
        for transport in (plain, sender, receiver):
            transport.close()

    run(main())


def test_socket_of_the_program(run):
    async def main():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
        transport, protocol = await endpoint(Collector(), local_addr=None, sock=sock)
        transport.sendto(b"to itself", sock.getsockname())
        assert (await protocol.received.get())[0] == b"to itself"
        with pytest.raises(ValueError, match="sock"):
            await endpoint(Collector(), sock=sock)
        transport.close()

    run(main())


def test_unix_datagrams(run, tmp_path):
    async def main():
        path = str(tmp_path / "socket")
        receiver, protocol = await endpoint(Collector(), local_addr=path, family=socket.AF_UNIX)
        sender, _ = await endpoint(Collector(), local_addr=None, remote_addr=path, family=socket.AF_UNIX)
        sender.sendto(b"x")
        assert (await protocol.received.get())[0] == b"x"
        sender.close()
        receiver.close()

    run(main())


def test_reuse_address_shares_a_port(loop):
    """Python has removed this parameter; programs written for other loops pass it."""

    async def main():
        first, _ = await endpoint(Collector(), reuse_address=True)
        address = first.get_extra_info("sockname")
        peer, at_peer = await endpoint(Collector())
        second, protocol = await endpoint(
            Collector(), local_addr=address, remote_addr=peer.get_extra_info("sockname"), reuse_address=True)
        assert second.get_extra_info("sockname") == address
        second.sendto(b"x")
        assert await at_peer.received.get() == (b"x", address)
        peer.sendto(b"y", address)
        assert await protocol.received.get() == (b"y", peer.get_extra_info("sockname"))
        with pytest.raises(ValueError, match="Invalid address"):
            second.sendto(b"x", ("127.0.0.1", 9))
        with pytest.raises(OSError):
            await endpoint(Collector(), local_addr=address)
        for transport in (first, second, peer):
            transport.close()
        await asyncio.sleep(0)

    loop.run_until_complete(main())


class Greeter(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        transport.sendto(b"hello")


def test_reuse_address_without_a_local_address(loop):
    async def main():
        receiver, protocol = await endpoint(Collector())
        address = receiver.get_extra_info("sockname")
        sender, _ = await loop.create_datagram_endpoint(Greeter, remote_addr=address, reuse_address=True)
        assert sender.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) == 1
        assert sender.get_extra_info("peername") == address
        assert (await asyncio.wait_for(protocol.received.get(), 60))[0] == b"hello"
        for transport in (receiver, sender):
            transport.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(ValueError, match="sock"):
            await loop.create_datagram_endpoint(Collector, sock=sock, reuse_address=True)
        with pytest.raises(ValueError, match="address family"):
            await loop.create_datagram_endpoint(Collector, reuse_address=True)
        await asyncio.sleep(0)

    loop.run_until_complete(main())


def test_reuse_address_with_other_parameters(loop):
    async def main():
        receiver, protocol = await endpoint(Collector(), "0.0.0.0")
        port = receiver.get_extra_info("sockname")[1]
        sender, _ = await endpoint(
            Greeter(), remote_addr=("127.255.255.255", port), reuse_address=True, allow_broadcast=True, reuse_port=True)
        assert (await asyncio.wait_for(protocol.received.get(), 60))[0] == b"hello"
        sender.sendto(b"to all")
        assert (await protocol.received.get())[0] == b"to all"
        for transport in (receiver, sender):
            transport.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(ValueError, match="sock"):
            await endpoint(Collector(), sock=sock, reuse_address=True)
        with pytest.raises(ValueError, match="no family in common"):
            await endpoint(Collector(), remote_addr=("::1", 9), reuse_address=True)
        with pytest.raises(OSError):
            await endpoint(Collector(), "192.0.2.1", reuse_address=True)  # an address of documents
        await asyncio.sleep(0)

    loop.run_until_complete(main())
