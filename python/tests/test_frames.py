"""Frames on pipes: those of several threads stay whole, and the first step of a task may run at once."""

import asyncio
import contextlib
import os
import threading

import spindle
from spindle.server import frames


@contextlib.contextmanager
def pipes():
    ends = [*os.pipe(), *os.pipe()]
    try:
        yield ends
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                os.close(end)


async def collect(input, n):
    """Return the headers and the lengths of n frames."""
    loop, got, done = asyncio.get_running_loop(), [], asyncio.Event()

    def receive(header, body):
        got.append((header["id"], header.get("seq", 0), len(body)))
        if len(got) == n:
            done.set()
    with pipes() as (_, unused, *_):
        reader = frames.Frames(loop, input, unused, receive, done.set)
        try:
            await done.wait()
        finally:
            reader.close()
    return got


def test_frames_of_threads_and_of_the_loop():
    """The pipe is full most of the time. Each sender's frames arrive whole and in order."""
    sizes = [0, 1, 1000, 100_000, frames.READ + 5]
    threads, each = 3, 60

    async def main():
        with pipes() as (input, output, idle, _):
            loop = asyncio.get_running_loop()
            writer = frames.Frames(loop, idle, output, None, None)

            def send(number, post):
                for i in range(each):
                    post(frames.short("item", number, i + 1), b"x" * sizes[i % len(sizes)])
            running = [threading.Thread(target=send, args=(t + 1, writer.send_from_thread)) for t in range(threads)]
            for thread in running:
                thread.start()
            collecting = asyncio.create_task(collect(input, (threads + 1) * each))
            for i in range(each):
                writer.send(frames.short("item", 9, i + 1), b"x" * sizes[i % len(sizes)])
                await asyncio.sleep(0)
            got = await asyncio.wait_for(collecting, 30)
            for thread in running:
                thread.join()
            writer.close()
            for number in [9, *range(1, threads + 1)]:
                assert [g[1:] for g in got if g[0] == number] == [(i + 1, sizes[i % len(sizes)]) for i in range(each)]
    spindle.run(main())


class Sends:
    """Sends a frame when it is destroyed."""

    def __init__(self, writer):
        self.writer = writer

    def __del__(self):
        self.writer.send(frames.short("item", 2), b"inner")


def test_a_destructor_that_sends_while_a_frame_is_sent(monkeypatch):
    async def main():
        with pipes() as (input, output, idle, _):
            writer = frames.Frames(asyncio.get_running_loop(), idle, output, None, None)
            write = os.write

            def write_and_collect(fd, data):
                Sends(writer)
                return write(fd, data)
            monkeypatch.setattr(os, "write", write_and_collect)
            writer.send(frames.short("item", 1), b"outer")
            monkeypatch.undo()
            got = await asyncio.wait_for(collect(input, 2), 30)
            assert got == [(1, 0, 5), (2, 0, 5)]
            writer.close()
    spindle.run(main())


def test_threads_send_nothing_after_the_end():
    async def main():
        with pipes() as (input, output, idle, _):
            writer = frames.Frames(asyncio.get_running_loop(), idle, output, None, None)
            writer.close()
            writer.send_from_thread(frames.short("item", 1), b"late")
            os.set_blocking(input, False)
            try:
                data = os.read(input, 100)
            except BlockingIOError:
                data = b""
            assert data == b""
    spindle.run(main())


def test_a_task_begins_at_once():
    steps = []

    async def work():
        steps.append(asyncio.current_task().get_name())
        await asyncio.sleep(0)
        steps.append("second")

    async def main():
        loop = asyncio.get_running_loop()
        loop.call_soon(steps.append, "queued before")
        task = loop.call_soon(lambda: begun.append(loop._begin_task(work(), "first")))
        begun = []
        await asyncio.sleep(0)
        assert steps == ["queued before", "first"]
        assert task is not None
        await begun[0]
        assert steps == ["queued before", "first", "second"]
    spindle.run(main())


def test_a_task_of_a_factory_begins_as_the_factory_says():
    steps = []

    async def work():
        steps.append("work")

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coroutine, **named: asyncio.Task(coroutine, loop=loop, **named))
        begun = []
        loop.call_soon(lambda: begun.append(loop._begin_task(work(), "later")) or steps.append("begun"))
        await asyncio.sleep(0)
        await begun[0]
        assert steps == ["begun", "work"]
    spindle.run(main())
