"""Stream transports: data, flow control, ends and errors."""

import asyncio
import os
import random
import socket
import struct

import pytest

from conftest import echo_server


class Recorder(asyncio.Protocol):
    def __init__(self):
        loop = asyncio.get_running_loop()
        self.made, self.lost, self.eof = loop.create_future(), loop.create_future(), loop.create_future()
        self.data = bytearray()
        self.events = []

    def connection_made(self, transport):
        self.transport = transport
        self.made.set_result(transport)

    def data_received(self, data):
        self.data += data

    def eof_received(self):
        self.eof.set_result(None)

    def pause_writing(self):
        self.events.append("pause")

    def resume_writing(self):
        self.events.append("resume")

    def connection_lost(self, exc):
        self.lost.set_result(exc)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


async def pair():
    """A Recorder and a raw blocking socket that are connected."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    _, recorder = await loop.create_connection(Recorder, sock=ours)
    return recorder, theirs


def test_large_messages_come_back_whole(loop):
    async def main():
        server, address = await echo_server()
        message = random.randbytes(5_000_000)
        _, client = await loop.create_connection(Recorder, *address)
        client.transport.write(message)
        await until(lambda: len(client.data) == len(message))
        assert bytes(client.data) == message
        client.transport.close()
        await client.lost
        server.close()
        await server.wait_closed()

    loop.run_until_complete(main())


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_every_kind_of_bytes_is_copied_or_kept(loop, make):
    async def main():
        recorder, peer = await pair()
        source = bytearray(b"x" * 3_000_000)
        recorder.transport.write(make(bytes(source)) if make is bytes else make(source))
        if make is not bytes:
            source[:] = b"y" * len(source)  # what was written must not change
        received = bytearray()
        peer.setblocking(False)
        while len(received) < 3_000_000:
            received += await loop.sock_recv(peer, 1 << 20)
        assert received == b"x" * 3_000_000
        recorder.transport.close()
        await recorder.lost
        peer.close()

    loop.run_until_complete(main())


def test_full_buffer_pauses_and_resumes_the_protocol(loop):
    async def main():
        recorder, peer = await pair()
        recorder.transport.set_write_buffer_limits(high=1000, low=100)
        recorder.transport.write(b"z" * 4_000_000)
        assert recorder.events == ["pause"]
        assert recorder.transport.get_write_buffer_size() > 1000
        peer.setblocking(False)
        left = 4_000_000
        while left:
            left -= len(await loop.sock_recv(peer, 1 << 20))
        await until(lambda: recorder.events == ["pause", "resume"])
        assert recorder.transport.get_write_buffer_size() == 0
        recorder.transport.abort()
        await recorder.lost
        peer.close()

    loop.run_until_complete(main())


def test_close_sends_what_is_buffered(loop):
    async def main():
        recorder, peer = await pair()
        recorder.transport.write(b"q" * 2_000_000)
        recorder.transport.close()
        peer.setblocking(False)
        received = 0
        while data := await loop.sock_recv(peer, 1 << 20):
            received += len(data)
        assert received == 2_000_000
        assert await recorder.lost is None
        peer.close()

    loop.run_until_complete(main())


def test_abort_discards_what_is_buffered(loop):
    async def main():
        recorder, peer = await pair()
        recorder.transport.write(b"q" * 2_000_000)
        recorder.transport.abort()
        assert recorder.transport.get_write_buffer_size() == 0
        assert await recorder.lost is None
        peer.close()

    loop.run_until_complete(main())


def test_end_of_stream_closes_unless_the_protocol_keeps_it(loop):
    async def main():
        recorder, peer = await pair()
        peer.shutdown(socket.SHUT_WR)
        await recorder.eof
        assert await recorder.lost is None
        peer.close()

        recorder, peer = await pair()
        recorder.eof_received = lambda: recorder.eof.set_result(None) or True
        recorder.transport.set_protocol(recorder)
        peer.shutdown(socket.SHUT_WR)
        await recorder.eof
        recorder.transport.write(b"still here")
        peer.setblocking(False)
        assert await loop.sock_recv(peer, 100) == b"still here"
        recorder.transport.close()
        await recorder.lost
        peer.close()

    loop.run_until_complete(main())


def test_reset_is_reported(loop):
    async def main():
        recorders = []
        server, address = await echo_server(lambda: recorders.append(Recorder()) or recorders[-1])
        peer = socket.create_connection(address)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await until(lambda: recorders and recorders[0].made.done())
        peer.close()
        assert isinstance(await recorders[0].lost, ConnectionResetError)
        server.close()
        await server.wait_closed()

    loop.run_until_complete(main())


def test_write_to_a_reset_connection_ends_it(loop):
    async def main():
        recorder, peer = await pair()
        recorder.transport.pause_reading()
        peer.close()
        await until(lambda: recorder.transport.write(b"x" * 1000) or recorder.lost.done())
        assert isinstance(recorder.lost.result(), OSError)
        recorder.transport.write(b"ignored")

    loop.run_until_complete(main())


def test_paused_transport_receives_nothing(loop):
    async def main():
        recorder, peer = await pair()
        await asyncio.sleep(0)
        recorder.transport.pause_reading()
        assert not recorder.transport.is_reading()
        peer.send(b"later")
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert recorder.data == b""
        recorder.transport.resume_reading()
        await until(lambda: recorder.data == b"later")
        recorder.transport.close()
        await recorder.lost
        peer.close()

    loop.run_until_complete(main())


def test_failing_protocol_is_reported_and_closed(loop):
    async def main():
        contexts = []
        loop.set_exception_handler(lambda loop, context: contexts.append(context))
        recorder, peer = await pair()

        def fails(data):
            raise ValueError("bad data")

        recorder.data_received = fails
        recorder.transport.set_protocol(recorder)
        peer.send(b"x")
        assert isinstance(await recorder.lost, ValueError)
        assert "data_received" in contexts[0]["message"]
        peer.close()

    loop.run_until_complete(main())


def test_buffered_protocol_receives_into_its_buffer(loop):
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self):
            self.buffer = bytearray(10)
            self.got = b""
            self.lost = loop.create_future()

        def get_buffer(self, hint):
            return self.buffer

        def buffer_updated(self, n):
            self.got += self.buffer[:n]

        def connection_lost(self, exc):
            self.lost.set_result(exc)

    async def main():
        ours, theirs = socket.socketpair()
        transport, protocol = await loop.create_connection(Buffered, sock=ours)
        theirs.send(b"more than ten bytes")
        await until(lambda: len(protocol.got) == 19)
        assert protocol.got == b"more than ten bytes"
        theirs.close()
        assert await protocol.lost is None

    loop.run_until_complete(main())


def test_misuse_is_named(loop):
    async def main():
        recorder, peer = await pair()
        with pytest.raises(TypeError, match="bytes-like"):
            recorder.transport.write("text")
        with pytest.raises(ValueError, match="must be"):
            recorder.transport.set_write_buffer_limits(high=1, low=2)
        recorder.transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            recorder.transport.write(b"x")
        recorder.transport.close()
        await recorder.lost
        peer.close()

    loop.run_until_complete(main())


def test_transport_is_asyncios(loop):
    async def main():
        recorder, peer = await pair()
        assert isinstance(recorder.transport, asyncio.Transport)
        assert recorder.transport.get_extra_info("socket").fileno() == recorder.transport._sock_fd
        assert recorder.transport.get_extra_info("missing", "default") == "default"
        recorder.transport.close()
        await recorder.lost
        assert "closed" in repr(recorder.transport)
        peer.close()

    loop.run_until_complete(main())


def test_transport_that_has_ended_does_not_write_to_a_reused_descriptor(loop):
    async def main():
        recorder, peer = await pair()
        recorder.transport.write(b"x" * 2_000_000)
        recorder.transport.close()
        peer.setblocking(False)
        while await loop.sock_recv(peer, 1 << 20):
            pass
        await recorder.lost
        peer.close()
        ours, theirs = socket.socketpair()  # gets the numbers of the other pair
        recorder.transport.write(b"for another connection")
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(100)
        ours.close()
        theirs.close()

    loop.run_until_complete(main())


def test_socket_object_that_the_program_closes_stays_open(loop):
    async def main():
        ours, theirs = socket.socketpair()
        _, recorder = await loop.create_connection(Recorder, sock=ours)
        ours.close()
        other, its_peer = socket.socketpair()
        recorder.transport.write(b"to the right peer")
        theirs.setblocking(False)
        assert await loop.sock_recv(theirs, 100) == b"to the right peer"
        its_peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            its_peer.recv(100)
        recorder.transport.close()
        await recorder.lost
        for sock in (theirs, other, its_peer):
            sock.close()

    loop.run_until_complete(main())


def test_failing_connection_lost_does_not_end_the_loop(loop):
    async def main():
        contexts = []
        loop.set_exception_handler(lambda loop, context: contexts.append(context))
        recorder, peer = await pair()

        def fails(exc):
            raise ValueError("in connection_lost")

        recorder.connection_lost = fails
        recorder.transport.write(b"x" * 2_000_000)
        recorder.transport.close()
        peer.setblocking(False)
        while await loop.sock_recv(peer, 1 << 20):
            pass
        await until(lambda: contexts)
        assert isinstance(contexts[0]["exception"], ValueError)
        peer.close()

    loop.run_until_complete(main())


def test_connection_lost_may_abort(loop):
    async def main():
        contexts = []
        loop.set_exception_handler(lambda loop, context: contexts.append(context))
        recorder, peer = await pair()
        lost = []

        def connection_lost(exc):
            lost.append(exc)
            recorder.transport.abort()
            recorder.transport.close()

        recorder.connection_lost = connection_lost
        recorder.transport.write(b"x" * 2_000_000)
        recorder.transport.close()
        peer.setblocking(False)
        while await loop.sock_recv(peer, 1 << 20):
            pass
        await until(lambda: lost)
        await asyncio.sleep(0)
        assert lost == [None] and not contexts
        peer.close()

    loop.run_until_complete(main())


def test_protocol_without_data_received_is_reported(loop):
    async def main():
        contexts = []
        loop.set_exception_handler(lambda loop, context: contexts.append(context))
        ours, theirs = socket.socketpair()
        await loop.create_connection(asyncio.BaseProtocol, sock=ours)
        theirs.send(b"x")
        await until(lambda: contexts)
        assert isinstance(contexts[0]["exception"], AttributeError)
        theirs.close()

    loop.run_until_complete(main())


def test_protocol_may_be_replaced_in_every_callback(loop):
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self):
            self.buffer = bytearray(10)

        def connection_made(self, transport):
            self.transport = transport

        def get_buffer(self, hint):
            self.transport.set_protocol(asyncio.Protocol())
            return self.buffer

        def buffer_updated(self, n):
            self.transport.abort()

    async def main():
        ours, theirs = socket.socketpair()
        transport, _ = await loop.create_connection(Buffered, sock=ours)
        theirs.send(b"x")
        await until(transport.is_closing)
        theirs.close()
        await asyncio.sleep(0)

    loop.run_until_complete(main())


def test_addresses_are_known_after_close(loop):
    async def main():
        server, address = await echo_server()
        transport, client = await loop.create_connection(Recorder, *address)
        transport.close()
        await client.lost
        assert transport.get_extra_info("peername") == address
        assert transport.get_extra_info("sockname")[0] == "127.0.0.1"
        server.close()
        await server.wait_closed()

    loop.run_until_complete(main())


@pytest.mark.parametrize("end", ["abort", "reset"])
def test_sendfile_that_waits_for_the_buffer_ends_with_the_connection(loop, tmp_path, end):
    path = tmp_path / "data"
    path.write_bytes(b"data")

    async def main():
        recorder, peer = await pair()
        recorder.transport.write(b"x" * 5_000_000)
        with open(path, "rb") as file:
            sending = asyncio.ensure_future(loop.sendfile(recorder.transport, file))
            await until(lambda: recorder.transport._empty_waiter is not None)
            recorder.transport.abort() if end == "abort" else peer.close()
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(sending, 30)
        await recorder.lost
        peer.close()

    loop.run_until_complete(main())


def test_sendfile(loop, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1_000_000))

    async def main():
        recorder, peer = await pair()
        peer.setblocking(False)

        async def read_all():
            data = bytearray()
            while len(data) < 1_000_005:
                data += await loop.sock_recv(peer, 1 << 20)
            return bytes(data)

        reading = asyncio.ensure_future(read_all())
        with open(path, "rb") as file:
            assert await loop.sendfile(recorder.transport, file) == 1_000_000
        recorder.transport.write(b"after")
        assert await reading == path.read_bytes() + b"after"
        recorder.transport.close()
        await recorder.lost
        peer.close()

    loop.run_until_complete(main())


def test_random_resets(loop):
    """Connections that end at random leave nothing behind."""

    async def client(address, seed):
        rng = random.Random(seed)
        reader, writer = await asyncio.open_connection(*address)
        try:
            for _ in range(rng.randrange(5)):
                writer.write(b"m" * rng.randrange(1, 20000))
                if rng.random() < 0.5:
                    await writer.drain()
                if rng.random() < 0.5:
                    await reader.read(rng.randrange(1, 20000))
            if rng.random() < 0.5:
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
        except OSError:
            pass
        finally:
            writer.close()

    async def main():
        server, address = await echo_server()
        for batch in range(10):
            await asyncio.gather(*[client(address, batch * 100 + i) for i in range(100)])
        server.close()
        await server.wait_closed()
        await until(lambda: len(loop._transports) == 0)

    loop.run_until_complete(main())


def test_data_that_waits_arrives_in_the_tick_after_resume_reading(run):
    async def main():
        loop, ticks = asyncio.get_running_loop(), []

        class Paused(asyncio.Protocol):
            def connection_made(self, transport):
                self.transport = transport
                transport.pause_reading()

            def data_received(self, data):
                ticks.append("data")

        ours, theirs = socket.socketpair()
        with theirs:
            transport, _ = await loop.create_connection(Paused, sock=ours)
            theirs.send(b"x")
            for _ in range(3):
                await asyncio.sleep(0)
            transport.resume_reading()
            loop.call_soon(lambda: loop.call_soon(ticks.append, "second tick"))
            while len(ticks) < 2:
                await asyncio.sleep(0)
            transport.abort()
        assert ticks == ["data", "second tick"]

    run(main())
