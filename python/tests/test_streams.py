"""Streams. A server's StreamReader is C on our loop: every test runs on asyncio's loop too."""

import asyncio
import gc
import inspect
import weakref

import pytest

import spindle
from spindle.streams import StreamReader


async def connected(**kwargs):
    """Return reader and writer of the server's end and those of the client's."""
    ends = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *end: ends.set_result(end), "127.0.0.1", 0, **kwargs)
    client = await asyncio.open_connection(*server.sockets[0].getsockname())
    server.close()
    return *await ends, *client


def connection(**options):
    """Runs an async test with a connection, on our loop and on asyncio's.

    The test gets the server's reader and writer and the client's writer.
    """

    def decorate(test):
        def on_a_loop(run):
            async def main():
                reader, writer, _, out = await connected(**options)
                await test(reader, writer, out)
                close(writer, out)

            run(main())

        on_a_loop.__name__ = test.__name__
        return on_a_loop

    return decorate


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def close(*writers):
    for writer in writers:
        writer.close()


def test_reader_of_a_server_is_ours():
    async def main():
        reader, writer, _, out = await connected()
        assert type(reader) is StreamReader and isinstance(reader, asyncio.StreamReader)
        assert repr(reader).startswith("<StreamReader transport=")
        close(writer, out)

    spindle.run(main())


@connection()
async def test_reads_of_all_kinds_take_turns(reader, writer, out):
    out.write(b"abcdefgh\nline\nuntil!exactly123")
    out.write_eof()
    assert await reader.read(3) == b"abc"
    assert await reader.read(2) == b"de"
    assert await reader.readline() == b"fgh\n"
    assert not reader.at_eof()
    assert await reader.readuntil(b"l!") == b"line\nuntil!"
    assert await reader.readexactly(7) == b"exactly"
    assert await reader.read(0) == b""
    assert await reader.read() == b"123"
    assert await reader.read(10) == b""
    assert reader.at_eof()
    with pytest.raises(asyncio.IncompleteReadError):
        await reader.readexactly(1)


@connection()
async def test_a_read_gets_what_arrives_and_not_more_than_it_asks_for(reader, writer, out):
    for size in (1, 64, 65536, 300_000):
        out.write(bytes(size))
        got = 0
        while got < size:
            data = await reader.read(100_000)
            assert type(data) is bytes and 0 < len(data) <= 100_000
            got += len(data)
        assert got == size


@connection()
async def test_data_of_a_cancelled_read_is_kept(reader, writer, out):
    reading = asyncio.create_task(reader.read(10))
    await asyncio.sleep(0)
    assert reader._waiter is not None
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert reader._waiter is None
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(reader.read(10), 0.01)
    out.write(b"later")
    assert await asyncio.wait_for(reader.read(10), 10) == b"later"


@connection()
async def test_data_that_arrives_in_the_tick_of_a_cancellation_is_kept(reader, writer, out):
    reading = asyncio.create_task(reader.read(10))
    await asyncio.sleep(0)
    reading.cancel()
    reader.feed_data(b"kept")  # the waiter is cancelled already
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await reader.read(10) == b"kept"


@connection()
async def test_two_reads_at_once_are_refused(reader, writer, out):
    first = asyncio.create_task(reader.read(10))
    await asyncio.sleep(0)
    for method in (reader.read, reader.readexactly):
        with pytest.raises(RuntimeError, match="called while another coroutine is already waiting"):
            await method(10)
    out.write(b"data")
    assert await first == b"data"


@connection()
async def test_an_exception_ends_the_read_that_waits_and_those_after(reader, writer, out):
    reading = asyncio.create_task(reader.read(10))
    await asyncio.sleep(0)
    reader.set_exception(ConnectionResetError("gone"))
    for read in (reading, reader.read(10), reader.read(0), reader.readline(), writer.drain()):
        with pytest.raises(ConnectionResetError, match="gone"):
            await read
    assert isinstance(reader.exception(), ConnectionResetError)


@connection(limit=1000)
async def test_the_transport_pauses_at_twice_the_limit_and_resumes_at_the_limit(reader, writer, out):
    out.write(bytes(2001))
    await until(lambda: len(reader._buffer) == 2001)
    assert reader._paused and not writer.transport.is_reading()
    assert len(await reader.read(1000)) == 1000
    assert reader._paused
    assert len(await reader.read(1)) == 1
    assert not reader._paused and writer.transport.is_reading()
    out.write(bytes(5000))
    await until(lambda: reader._paused)
    assert len(await reader.readexactly(6000)) == 6000
    assert not reader._paused


def test_a_transport_that_cannot_pause_is_not_asked_again(run):
    class Transport(asyncio.Transport):
        def pause_reading(self):
            asked.append(self)
            raise NotImplementedError

    async def main():
        reader, writer, _, out = await connected(limit=10)
        reader._transport = Transport()
        reader.feed_data(bytes(21))
        reader.feed_data(bytes(21))
        assert len(asked) == 1 and len(await reader.read(100)) == 42
        close(writer, out)

    asked = []
    run(main())


@connection()
async def test_data_may_be_fed_by_hand(reader, writer, out):
    reader.feed_data(b"")
    assert reader._waiter is None and len(reader._buffer) == 0
    reader.feed_data(bytearray(b"ab"))
    reader.feed_data(b"cd")
    reader.feed_data(memoryview(b"ef"))
    assert reader._buffer == b"abcdef"
    assert await reader.read(4) == b"abcd"
    reader.feed_eof()
    with pytest.raises(AssertionError):
        reader.feed_data(b"late")
    assert await reader.read(n=100) == b"ef"


@connection()
async def test_read_is_a_coroutine(reader, writer, out):
    read = reader.read(5)
    assert asyncio.iscoroutine(read) and inspect.isawaitable(read)
    assert read.__name__ == "read" and read.__qualname__ == "StreamReader.read"
    read.close()
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        await read
    read = reader.read(5)
    with pytest.raises(TypeError, match="just-started"):
        read.send(1)
    with pytest.raises(KeyError):
        read.throw(KeyError("x"))
    reader.feed_data(b"12345678")
    read = reader.read(5)
    with pytest.raises(StopIteration) as stopped:
        read.send(None)
    assert stopped.value.value == b"12345"
    assert await asyncio.gather(reader.read(1), reader.read(1)) == [b"6", b"7"]
    with pytest.raises(TypeError):
        await reader.read("x")


@connection()
async def test_close_of_a_read_that_waits_lets_the_next_one_wait(reader, writer, out):
    read = reader.read(5)
    assert asyncio.isfuture(read.send(None))
    assert read.cr_await is not None
    read.close()
    assert reader._waiter is None
    out.write(b"next")
    assert await reader.read(5) == b"next"


@pytest.mark.filterwarnings("default")
@connection()
async def test_a_read_that_is_not_awaited_is_reported(reader, writer, out):
    with pytest.warns(RuntimeWarning, match="'StreamReader.read' was never awaited"):
        reader.read(5)
        gc.collect()


def test_a_reader_that_the_program_holds_is_not_replaced(run):
    async def main():
        loop = asyncio.get_running_loop()
        held = asyncio.StreamReader(loop=loop)
        server = await loop.create_server(
            lambda: asyncio.StreamReaderProtocol(held, lambda *end: ends.set_result(end)), "127.0.0.1", 0)
        ends = loop.create_future()
        _, out = await asyncio.open_connection(*server.sockets[0].getsockname())
        reader, writer = await ends
        assert reader is held
        out.write(b"data")
        assert await held.read(10) == b"data"
        close(writer, out, server)

    run(main())


def test_overridden_methods_are_called(run):
    class Reader(asyncio.StreamReader):
        def feed_data(self, data):
            super().feed_data(data.upper())

    class Protocol(asyncio.StreamReaderProtocol):
        def data_received(self, data):
            super().data_received(data * 2)

    async def main(reader_type, protocol_type, expected):
        loop = asyncio.get_running_loop()
        ends = loop.create_future()
        server = await loop.create_server(
            lambda: protocol_type(reader_type(loop=loop), lambda *end: ends.set_result(end)), "127.0.0.1", 0)
        _, out = await asyncio.open_connection(*server.sockets[0].getsockname())
        reader, writer = await ends
        out.write(b"ab")
        assert await reader.readexactly(len(expected)) == expected
        close(writer, out, server)

    run(main(Reader, asyncio.StreamReaderProtocol, b"AB"))
    run(main(asyncio.StreamReader, Protocol, b"abab"))
    run(main(Reader, Protocol, b"ABAB"))


def test_replaced_methods_of_asyncio_count(run, monkeypatch):
    def feed_data(reader, data):
        seen.append(data)
        original(reader, data)

    async def main():
        reader, writer, _, out = await connected()
        out.write(b"data")
        assert await reader.read(10) == b"data" and seen == [b"data"]
        close(writer, out)

    seen, original = [], asyncio.StreamReader.feed_data
    monkeypatch.setattr(asyncio.StreamReader, "feed_data", feed_data)
    run(main())


def test_a_reader_dies_with_its_connection(run):
    async def main():
        reader, writer, _, out = await connected()
        reader.attribute = reader  # a cycle
        dead = weakref.ref(reader)
        reading = asyncio.create_task(reader.read(10))
        await asyncio.sleep(0)
        out.close()
        assert await reading == b""
        writer.close()
        await writer.wait_closed()
        return dead

    dead = run(main())
    gc.collect()
    assert dead() is None


def test_data_without_a_reader_is_dropped(run):
    async def main():
        reader, writer, into, out = await connected()
        transport = writer.transport
        dead = weakref.ref(reader)
        del reader, writer
        gc.collect()
        if dead() is None:  # asyncio's own tests do not promise that
            out.write(b"data")
            await out.drain()
        transport.close()
        assert await into.read() == b""
        close(out)

    run(main())


def test_reads_leave_nothing_behind():
    async def main():
        reader, writer, _, out = await connected()
        for _ in range(50):
            out.write(b"x" * 100)
            assert len(await reader.readexactly(100)) == 100
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(2000):
            out.write(b"x" * 100)
            got = 0
            while got < 100:
                got += len(await reader.read(70))
        gc.collect()
        assert len(gc.get_objects()) < before + 100
        close(writer, out)

    spindle.run(main())


def test_handlers_of_closed_clients_end_before_the_loop(run, caplog):
    """The loop looks at descriptors between the end of a client and the end of main."""
    ended = []

    async def handle(reader, writer):
        while data := await reader.read(100):
            writer.write(data)
        writer.close()
        ended.append(writer)

    async def main():
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        clients = [await asyncio.open_connection(*server.sockets[0].getsockname()) for _ in range(10)]
        for reader, writer in clients:
            writer.write(b"x")
            assert await reader.read(1) == b"x"
        for _, writer in clients:
            writer.close()
        for _, writer in clients:
            await writer.wait_closed()

    run(main())
    assert len(ended) == 10 and not caplog.records
