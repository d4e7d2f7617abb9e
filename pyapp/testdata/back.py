"""Functions that call Go."""

import asyncio
import concurrent.futures
import contextlib
import os
import queue
import time

import spindle


def call(name, *args):
    return spindle.call(name, *args)


async def async_call(name, *args):
    return await spindle.async_call(name, *args)


def error(name, *args):
    try:
        spindle.call(name, *args)
    except spindle.GoError as e:
        return [e.type, str(e), e.traceback or ""]


def misuse(name):
    try:
        return spindle.call(name, [1, object()])
    except TypeError as e:
        return str(e)


async def call_on_the_loop():
    spindle.call("add", 1, 2)


def impatient(name):
    try:
        spindle.call(name, timeout=0.01)
    except TimeoutError as e:
        return str(e)


async def cancelled(name):
    async with asyncio.timeout(0.01):
        await spindle.async_call(name)


def until_cancelled(name):
    try:
        spindle.call(name)
    except concurrent.futures.CancelledError:
        open(os.environ["NOTE"], "w").close()
        raise


def down(n):
    """Call Go, which calls this again, n times."""
    return n if n == 0 else spindle.call("down", n)


async def async_down(n):
    return n if n == 0 else await spindle.async_call("async down", n)


async def many(name, n):
    return sum(await asyncio.gather(*(spindle.async_call(name, i, 1) for i in range(n))))


async def overtake(name):
    """Call a function that waits for its second call."""
    waits = asyncio.create_task(spindle.async_call(name, False))
    await asyncio.sleep(0)
    await spindle.async_call(name, True)
    return await waits


def send(name, n):
    for i in range(n):
        spindle.send(name, i)


def fill(name):
    """Send until the queue is full. Return how many values fit."""
    for n in range(1 << 20):
        try:
            spindle.send(name, n)
        except queue.Full:
            return n


async def call_with_pid(name):
    return await spindle.async_call(name, os.getpid())


async def total(name, *args):
    n = 0
    async for item in spindle.stream(name, *args):
        n += item
    return n


async def first(name, n, *args):
    items = []
    async with contextlib.aclosing(spindle.stream(name, *args)) as stream:
        async for item in stream:
            items.append(item)
            if len(items) == n:
                break
    return items


async def report(name, to):
    """Call a function with each item of a stream."""
    async for item in spindle.stream(name):
        await spindle.async_call(to, item)


async def slow(name, *args):
    """Take one item, and then none."""
    async for item in spindle.stream(name, *args):
        await asyncio.Event().wait()


# Generators

def count(n):
    yield from range(n)


async def async_count(n):
    for i in range(n):
        yield i


async def async_pages(n):
    return async_count(n)


def endless(note):
    try:
        n = 0
        while True:
            yield n
            n += 1
    finally:
        open(note, "w").close()


async def async_endless(note):
    try:
        n = 0
        while True:
            yield n
            n += 1
    finally:
        await asyncio.sleep(0)
        open(note, "w").close()


async def waits(note):
    try:
        yield 1
        await asyncio.Event().wait()
    finally:
        open(note, "w").close()


def blocks(note):
    """Yield an item, and the next one when a file exists."""
    yield 1
    while not os.path.exists(note):
        time.sleep(0.01)
    yield 2


async def fails(n):
    for i in range(n):
        yield i
    raise ValueError("no more")


async def mixed():
    yield 1
    yield 2
    yield "three"


def chunks(n, size):
    item = b"x" * size
    for _ in range(n):
        yield item


async def async_chunks(n, size):
    item = b"x" * size
    for _ in range(n):
        yield item


async def nothing():
    return None


def nothing_on_a_thread():
    return None


async def echo(value):
    return value


def both(first, text, last):
    return [first, last]


async def round_trips(name, n):
    """Return the times of calls in seconds."""
    times = []
    for _ in range(n):
        begin = time.perf_counter()
        await spindle.async_call(name)
        times.append(time.perf_counter() - begin)
    return sorted(times)


async def exhaust(name, n):
    async for _ in spindle.stream(name, n):
        pass


async def length(data):
    return len(data)


_large = {}


async def large(n):
    if n not in _large:
        _large[n] = b"x" * n
    return _large[n]
