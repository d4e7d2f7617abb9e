"""Planes: callers, workers and buses."""

import asyncio
import contextlib
import os
import sys
import textwrap

import pytest

import spindle
from spindle import host, relay


def running(main):
    return spindle.run(asyncio.wait_for(main, 60))


async def upper(request):
    return request.body.upper()


def blocking(request):
    return request.body.decode() + "!"


async def fails(request):
    raise ValueError("no " + request.body.decode())


async def count(request):
    for i in range(int(request.body)):
        yield b"%d" % i


def count_on_a_thread(request):
    for i in range(int(request.body)):
        yield b"%d" % i


async def trace(request):
    return host.traceparent.get()


WORKER = """
    import asyncio, os, sys, time
    from spindle import relay

    async def handle(request):
        print("this is for standard error")
        what, _, rest = request.body.decode().partition(" ")
        if what == "upper":
            return rest.upper()
        if what == "fail":
            raise ValueError(rest)
        if what == "die":
            os._exit(3)
        if what == "wait":
            open(rest, "w").close()
            await asyncio.Event().wait()
        if what == "block":
            open(rest, "w").close()
            time.sleep(1000)
        if what == "pid":
            return str(os.getpid())
        if what == "count":
            for i in range(int(rest)):
                await request.send(b"%d" % i)

    relay.work(handle)
"""


@contextlib.asynccontextmanager
async def local(handler):
    bus = relay.Local()
    task = asyncio.create_task(relay.Worker(bus).serve(handler, "test", concurrency=4))
    await asyncio.sleep(0)
    async with relay.Caller(bus) as caller:
        yield caller
    bus.close()
    await task


@contextlib.asynccontextmanager
async def processes(tmp_path, **options):
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    async with relay.Processes({"test": [sys.executable, str(script)]}, **options) as bus:
        async with relay.Caller(bus) as caller:
            yield caller


def test_replies_of_handlers():
    async def main():
        for handler, want in ((upper, b"ABC"), (blocking, b"abc!")):
            async with local(handler) as caller:
                assert await caller.call("test", b"abc") == want
                assert caller.stats == relay.Stats(replied=1)
    running(main())


def test_failures():
    async def main():
        async with local(fails) as caller:
            with pytest.raises(relay.RemoteError, match="test: ValueError: no bread") as raised:
                await caller.call("test", b"bread")
            assert raised.value.code == "error"
            with pytest.raises(relay.NoResponder):
                await caller.call("nothing")
            assert caller.stats.failed == 2
    running(main())


@pytest.mark.parametrize("handler", [count, count_on_a_thread])
def test_streams(handler):
    async def main():
        async with local(handler) as caller:
            items = [int(item) async for item in caller.stream("test", b"300")]
            assert items == list(range(300))
    running(main())


def test_most_items_of_a_stream():
    """A credit of Go has 32 bits: after the last item the handler must not wait for more."""
    async def endless(request):
        request._sent, request._allowed = 2**32 - 4, 2**32 - 1
        while True:
            await request.send(b"item")

    async def main():
        async with local(endless) as caller:
            items = caller.stream("test")
            assert [await anext(items) for _ in range(3)] == [b"item"] * 3
            with pytest.raises(relay.RemoteError, match="a stream has at most 4294967295 items"):
                await anext(items)
    running(main())


def test_a_stream_that_is_left_is_cancelled():
    async def main():
        ended = asyncio.Event()
        sent = 0

        async def endless(request):
            nonlocal sent
            try:
                while True:
                    sent += 1
                    yield b"x"
            finally:
                ended.set()
        async with local(endless) as caller:
            async with contextlib.aclosing(caller.stream("test")) as items:
                async for _ in items:
                    break
            await ended.wait()
            assert sent <= 130
            assert caller.stats.cancelled == 1
    running(main())


def test_deadlines_and_cancellation_reach_the_handler():
    async def main():
        cancelled = asyncio.Queue()

        async def waits(request):
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.put_nowait(True)
        async with local(waits) as caller:
            with pytest.raises(TimeoutError):
                await caller.call("test", timeout=0.01)
            await cancelled.get()
            task = asyncio.create_task(caller.call("test"))
            while caller.stats.waiting == 0:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            stats = caller.stats
            assert (stats.timed_out, stats.cancelled, stats.waiting) == (1, 1, 0)
    running(main())


def test_traces_continue():
    async def main():
        host.traceparent.set("00-01000000000000000000000000000000-0200000000000000-00")
        async with local(trace) as caller:
            assert await caller.call("test") == host.traceparent.get().encode()
    running(main())


def test_worker_processes(tmp_path):
    async def main():
        async with processes(tmp_path) as caller:
            assert await caller.call("test", b"upper abc") == b"ABC"
            with pytest.raises(relay.RemoteError, match="ValueError: text"):
                await caller.call("test", b"fail text")
            assert [int(i) async for i in caller.stream("test", b"count 1000")] == list(range(1000))
            pid = await caller.call("test", b"pid")
            with pytest.raises(relay.RemoteError) as raised:
                await caller.call("test", b"die")
            assert raised.value.code == "exited"
            assert await caller.call("test", b"pid") != pid
    running(main())


@pytest.mark.parametrize("how", ["wait", "block"])
def test_cancellation_of_a_process(tmp_path, how):
    """A process that answers a cancellation stays, and one that blocks is killed."""
    async def main():
        async with processes(tmp_path, grace=5 if how == "wait" else 0.05) as caller:
            pid = await caller.call("test", b"pid")
            note = tmp_path / "note"
            task = asyncio.create_task(caller.call("test", f"{how} {note}".encode()))
            while not note.exists():
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await caller.call("test", b"pid") == pid) == (how == "wait")
    running(main())


def test_many_calls_with_killed_processes(tmp_path):
    """Each call ends once, and those of processes that were not killed succeed."""
    async def main():
        async with processes(tmp_path, processes=2) as caller:
            async def one(i):
                try:
                    return await caller.call("test", b"die" if i % 10 == 9 else b"upper %d" % i)
                except relay.RemoteError as e:
                    return e.code
            answers = await asyncio.gather(*(one(i) for i in range(40)))
            assert answers == ["exited" if i % 10 == 9 else b"%d" % i for i in range(40)]
            assert caller.stats.waiting == 0
    running(main())


def test_a_command_that_does_not_exist():
    async def main():
        async with relay.Processes({"test": ["/no/such/program"]}) as bus, relay.Caller(bus) as caller:
            with pytest.raises(relay.RemoteError, match="cannot start"):
                await caller.call("test")
    running(main())


def test_nothing_is_left(tmp_path):
    async def main():
        async with processes(tmp_path, processes=2) as caller:
            await asyncio.gather(*(caller.call("test", b"pid") for _ in range(8)))
    running(main())
    before = len(os.listdir("/proc/self/fd"))
    running(main())
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_worker_refuses_more_than_can_wait(monkeypatch):
    monkeypatch.setattr("spindle.relay.worker.MOST_WAITING", 1)

    async def main():
        go_on = asyncio.Event()

        async def waits(request):
            await go_on.wait()
            return b"done"

        bus = relay.Local()
        worker = asyncio.create_task(relay.Worker(bus).serve(waits, "test"))
        await asyncio.sleep(0)
        async with relay.Caller(bus) as caller:
            calls = [asyncio.create_task(caller.call("test")) for _ in range(3)]
            with pytest.raises(relay.RemoteError) as refused:
                await calls[2]
            assert refused.value.code == "full"
            go_on.set()
            assert await asyncio.gather(*calls[:2]) == [b"done", b"done"]
        bus.close()
        await worker

    running(main())
