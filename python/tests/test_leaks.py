"""Nothing is left behind: objects, memory, descriptors and threads, after many rounds of every part."""

import asyncio
import contextlib
import contextvars
import logging
import os
import resource
import signal
import socket
import subprocess
import tempfile

import pytest

import spindle
from conftest import GO_FDS, python
from resources import used

PARTS = {}  # name → a coroutine function that uses a part once, and how many rounds show a leak


def part(rounds):
    def add(function):
        PARTS[function.__name__] = function, rounds
        return function

    return add


@part(500)
async def callbacks(loop):
    done = loop.create_future()
    loop.call_soon(print).cancel()
    loop.call_soon(done.set_result, None)
    await done


@part(300)
async def callbacks_that_fail(loop):
    loop.set_exception_handler(lambda loop, context: None)
    loop.call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    loop.set_exception_handler(None)


@part(300)
async def callbacks_by_name(loop):
    done = loop.create_future()
    loop.call_soon(callback=done.cancel).cancel()
    loop.call_later(delay=0, callback=lambda: done.set_result(None))
    await done
    with contextlib.suppress(TypeError):
        loop.call_soon(done.cancel, wrong=1)


@part(300)
async def timers(loop):
    done = loop.create_future()
    loop.call_later(0, done.set_result, None)
    loop.call_later(3600, print, done).cancel()
    loop.call_at(loop.time() + 3600, print, done).cancel()
    await done


@part(300)
async def tasks(loop):
    async def fail():
        await asyncio.sleep(0)
        raise ValueError

    sleeping = loop.create_task(asyncio.sleep(3600))
    await asyncio.gather(asyncio.sleep(0), fail(), return_exceptions=True)
    sleeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sleeping
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.sleep(1)


@part(200)
async def scopes(loop):
    with spindle.move_on_after(0):
        await asyncio.sleep(1)
    async with spindle.Nursery() as nursery:
        nursery.start_soon(asyncio.sleep, 0)
        nursery.start_soon(asyncio.sleep, 3600)
        await asyncio.sleep(0)
        spindle.tree()
        nursery.cancel_scope.cancel()


@part(200)
async def threads(loop):
    await loop.run_in_executor(None, int)
    done = loop.create_future()
    await loop.run_in_executor(None, loop.call_soon_threadsafe, done.set_result, None)
    await done


@part(300)
async def generators(loop):
    async def numbers():
        yield 1
        yield 2

    async for _ in numbers():
        break


@part(200)
async def readers_and_writers(loop):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = loop.create_future()
        loop.add_reader(ours, done.set_result, None)
        theirs.send(b"x")
        await done
        loop.remove_reader(ours)


@part(200)
async def socket_calls(loop):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        listener.setblocking(False)
        client.setblocking(False)
        accepting = loop.create_task(loop.sock_accept(listener))
        await loop.sock_connect(client, listener.getsockname())
        peer, _ = await accepting
        with peer:
            await loop.sock_sendall(client, b"x" * 1000)
            await loop.sock_recv(peer, 500)
            await loop.sock_recv_into(peer, bytearray(500))


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


class Buffered(asyncio.BufferedProtocol):
    def __init__(self, done):
        self.done, self.buffer = done, bytearray(100_000)

    def get_buffer(self, sizehint):
        return self.buffer

    def buffer_updated(self, nbytes):
        if not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc):
        if not self.done.done():
            self.done.set_result(exc)


@part(200)
async def tcp(loop):
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    done = loop.create_future()
    transport, _ = await loop.create_connection(lambda: Buffered(done), *server.sockets[0].getsockname())
    transport.write(b"hello")
    transport.writelines([b"a", b"b"])
    await done
    transport.get_extra_info("peername")
    transport.close()
    server.close()
    await server.wait_closed()


@part(200)
async def tcp_that_fails(loop):
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    transport, protocol = await loop.create_connection(Echo, *address)
    transport.write(bytes(1_000_000))
    transport.pause_reading()
    transport.abort()
    server.close()
    await server.wait_closed()
    with contextlib.suppress(OSError):
        await loop.create_connection(Echo, *address)


@part(200)
async def streams(loop):
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"line\n")
    await reader.read()
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


@part(200)
async def unix_sockets(loop):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "socket")
        server = await loop.create_unix_server(Echo, path)
        done = loop.create_future()
        transport, _ = await loop.create_unix_connection(lambda: Buffered(done), path)
        transport.write(b"hello")
        transport.write_eof()
        await done
        transport.close()
        server.close()
        await server.wait_closed()


@part(200)
async def datagrams(loop):
    done = loop.create_future()

    class Receiver(asyncio.DatagramProtocol):
        def datagram_received(self, data, address):
            done.set_result(data)

    receiver, _ = await loop.create_datagram_endpoint(Receiver, local_addr=("127.0.0.1", 0))
    sender, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=receiver.get_extra_info("sockname"))
    sender.sendto(b"x")
    await done
    sender.close()
    receiver.close()
    await asyncio.sleep(0)


@pytest.fixture(scope="module", autouse=True)
def contexts(request):
    global server_context, client_context
    server_context, client_context = request.getfixturevalue("tls")


@part(100)
async def tls_connections(loop):
    server = await loop.create_server(Echo, "127.0.0.1", 0, ssl=server_context)
    done = loop.create_future()
    transport, _ = await loop.create_connection(
        lambda: Buffered(done), *server.sockets[0].getsockname(), ssl=client_context)
    transport.write(b"hello")
    await done
    lost = loop.create_future()
    transport.get_protocol().done = lost
    transport.close()
    await lost
    server.close()
    await server.wait_closed()


@part(100)
async def sendfile(loop):
    ours, theirs = socket.socketpair()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    with theirs, open(__file__, "rb") as file:
        await loop.sendfile(transport, file, 0, 1000)
        transport.close()
        await asyncio.sleep(0)


@part(200)
async def pipes(loop):
    reading, writing = os.pipe()
    done = loop.create_future()

    class Receiver(asyncio.Protocol):
        def data_received(self, data):
            done.set_result(data)

    reader, _ = await loop.connect_read_pipe(Receiver, os.fdopen(reading, "rb"))
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(writing, "wb"))
    writer.write(b"x")
    await done
    writer.close()
    reader.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@part(40)
async def processes(loop):
    process = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert (await process.communicate(b"x"))[0] == b"x"


@part(200)
async def signals(loop):
    arrived = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR1, arrived.set_result, None)
    signal.raise_signal(signal.SIGUSR1)
    await arrived
    loop.remove_signal_handler(signal.SIGUSR1)


@part(100)
async def names(loop):
    await loop.getaddrinfo("127.0.0.1", 80)
    await loop.getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)


@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize("name", PARTS)
def test_rounds_leave_nothing(name, debug):
    use, rounds = PARTS[name]
    if debug and rounds > 100:
        rounds = 100
    loop = spindle.new_event_loop()
    loop.set_debug(debug)
    loop.slow_callback_duration = 3600
    logging.disable()  # pytest keeps what the watchdog logs on a busy machine
    try:

        async def repeat(n):
            for _ in range(n):
                await use(loop)
            await asyncio.sleep(0.001)

        # Spare handles and free lists are filled first.
        for _ in range(3000):
            loop.call_soon(contextvars.copy_context)
        loop.run_until_complete(repeat(rounds // 4 + 10))
        # What a round leaves is there in every attempt. Other caches fill once, and callbacks of the
        # last round may have yet to run.
        for _ in range(4):
            before = used()
            loop.run_until_complete(repeat(rounds))
            for _ in range(5):
                grown = [b - a for a, b in zip(before, used())]
                if grown[0] < max(rounds / 2, 30) and grown[1] < 32 and grown[2] <= GO_FDS and grown[3] <= 0:
                    return
                loop.run_until_complete(asyncio.sleep(0.05))
        raise AssertionError(f"{rounds} rounds leave {grown} blocks, kilobytes, descriptors and threads")
    finally:
        logging.disable(logging.NOTSET)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@pytest.mark.once
def test_ten_thousand_loops_leave_nothing():
    async def main():
        await asyncio.sleep(0)

    def make(n):
        for _ in range(n):
            spindle.run(main())

    def os_threads():
        return len(os.listdir("/proc/self/task"))

    make(200)
    for _ in range(3):  # a leak is there in every attempt; Go's runtime and malloc may grow once
        before, threads, memory = used(), os_threads(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        make(int(os.environ.get("SPINDLE_LOOPS", 10_000)))
        grown = [b - a for a, b in zip(before, used())]
        grown += [os_threads() - threads, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory]
        if grown[0] < 1000 and grown[1] < 200 and grown[2] <= 0 and grown[3] <= 0 and grown[4] <= 0 and grown[5] < 5000:
            return
    raise AssertionError(f"{grown} more blocks, kilobytes, descriptors, threads, threads of the system, kilobytes")


@pytest.mark.once
def test_connections_leave_no_memory_in_go():
    """Not even garbage, which would grow to several megabytes before Go collects it."""
    code, out, err = python("""
        import asyncio
        import spindle

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4

        async def handle(reader, writer):
            await reader.read(1)
            writer.close()

        async def main():
            server = await asyncio.start_server(handle, "127.0.0.1", 0)

            async def connect():
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(b"x")
                await reader.read()
                writer.close()

            grown = []  # by each part of the run; a thread that Go starts meanwhile has memory, too
            for round in range(80):
                if round % 20 == 0:
                    before = resident()
                await asyncio.gather(*(connect() for _ in range(100)))
                if round % 20 == 19:
                    grown.append(resident() - before)
            print(min(grown[1:]))
            server.close()

        spindle.run(main())
    """)
    assert code == 0, err
    assert int(out) < 67  # KB
