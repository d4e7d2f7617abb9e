"""A loop with descriptors that are always ready polls without entering Go. Nothing else waits for that."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time

import pytest

from conftest import python


@contextlib.contextmanager
def ready_descriptors(loop, count=8):
    """Watch descriptors that stay readable. Yield how often the reader of each was called."""
    calls = [0] * count
    pairs = [socket.socketpair() for _ in range(count)]

    def called(i):
        calls[i] += 1

    for i, (ours, theirs) in enumerate(pairs):
        theirs.send(b"x")
        loop.add_reader(ours, called, i)
    try:
        yield calls
    finally:
        for ours, theirs in pairs:
            loop.remove_reader(ours)
            ours.close()
            theirs.close()


@pytest.fixture
def calls(loop):
    with ready_descriptors(loop) as calls:
        yield calls


def run(loop, main):
    return loop.run_until_complete(asyncio.wait_for(main(), 60))


def test_every_ready_descriptor_gets_its_turn(loop, calls):
    async def main():
        while min(calls) < 1000:
            await asyncio.sleep(0.001)

    run(loop, main)
    assert max(calls) - min(calls) <= 1


def test_long_callbacks_delay_no_descriptor(loop):
    """After the first ones, a descriptor is looked for after each, even if short ones came before."""

    async def main():
        for _ in range(1000):
            await asyncio.sleep(0)
        with ready_descriptors(loop, 1) as calls:
            for _ in range(100):
                end = time.perf_counter() + 0.002
                while time.perf_counter() < end:
                    pass
                await asyncio.sleep(0)
            assert calls[0] >= 35  # at most 61 long callbacks before the first poll

    run(loop, main)


def test_timers_fire(loop, calls):
    async def main():
        await asyncio.sleep(0.01)
        await asyncio.gather(*[asyncio.sleep(0.001 * n) for n in range(20)])

    run(loop, main)
    assert min(calls) > 0


def test_threadsafe_calls_arrive(loop, calls):
    async def main():
        for _ in range(100):
            arrived = loop.create_future()
            threading.Thread(target=loop.call_soon_threadsafe, args=(arrived.set_result, None)).start()
            await arrived

    run(loop, main)


def test_other_threads_run(loop, calls):
    async def main():
        return await asyncio.to_thread(sum, range(1_000_000))

    assert run(loop, main) == 499999500000


def test_signals_are_handled(loop, calls):
    async def main():
        arrived = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, arrived.set)
        for _ in range(20):
            arrived.clear()
            os.kill(os.getpid(), signal.SIGUSR1)
            await arrived.wait()
        loop.remove_signal_handler(signal.SIGUSR1)

    run(loop, main)


def test_reused_descriptor_calls_its_own_reader(loop, calls):
    async def main():
        numbers = set()
        for round in range(200):
            ours, theirs = socket.socketpair()
            numbers.add(ours.fileno())
            arrived = loop.create_future()
            loop.add_reader(ours, lambda: arrived.done() or arrived.set_result(round))
            theirs.send(b"x")
            assert await arrived == round
            loop.remove_reader(ours)
            ours.close()
            theirs.close()
        assert len(numbers) < 10  # they were reused

    run(loop, main)


def test_interest_in_writing_comes_and_goes(loop, calls):
    async def main():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for _ in range(200):
                writable = loop.create_future()
                loop.add_reader(ours, lambda: None)
                loop.add_writer(ours, lambda: writable.done() or writable.set_result(None))
                await writable
                loop.remove_writer(ours)
            loop.remove_reader(ours)

    run(loop, main)


def test_loop_waits_again_when_nothing_is_ready(loop):
    with ready_descriptors(loop) as calls:
        async def main():
            while min(calls) < 100:
                await asyncio.sleep(0)

        run(loop, main)

    async def wait():
        before = os.times()
        await asyncio.sleep(0.5)
        return os.times().user + os.times().system - before.user - before.system

    assert run(loop, wait) < 0.25


def test_one_tick_calls_all_readers_that_are_ready(loop):
    with ready_descriptors(loop, 600) as calls:
        loop._run_once()
        assert set(calls) == {1}


def test_handlers_of_many_connections_see_the_end_before_the_loop_ends():
    """The connections end together with main, and asyncio.run cancels what still waits then."""
    code, out, err = python("""
        import asyncio, resource, socket, sys
        import spindle

        count = 1500
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        ended = cancelled = 0

        async def handle(reader, writer):
            global ended, cancelled
            try:
                await reader.read()
                ended += 1
            except asyncio.CancelledError:
                cancelled += 1
                raise
            finally:
                writer.close()

        async def main():
            server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=count)
            writers = [(await asyncio.open_connection(*server.sockets[0].getsockname()))[1] for _ in range(count)]
            while len(asyncio.all_tasks()) <= count:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            for writer in writers:
                writer.close()
            await asyncio.gather(*[writer.wait_closed() for writer in writers])
            await asyncio.sleep(0)

        {"spindle": spindle.run, "asyncio": asyncio.run}[sys.argv[1]](main())
        print(ended, cancelled)
    """, "spindle")
    assert (code, out) == (0, "1500 0\n"), err
