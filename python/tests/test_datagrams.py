"""Datagrams: bursts, addresses and errors, on our loop and on asyncio's."""

import asyncio
import socket

import pytest

import spindle
from spindle.datagram import BURST


@pytest.fixture(params=[spindle.new_event_loop, asyncio.SelectorEventLoop], ids=["spindle", "asyncio"])
def run(request):
    def run(main):
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(asyncio.wait_for(main, 30))

    return run


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
