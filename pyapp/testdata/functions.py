"""Functions to call."""

import asyncio
import dataclasses
import datetime
import os
import resource
import signal
import threading
import time

from spindle import traceparent


def add(a, b=1):
    return a + b


def thread():
    return threading.current_thread() is threading.main_thread()


async def later(value, times=1):
    await asyncio.sleep(0)
    return [value] * times


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Shapes:
    @staticmethod
    def point(x, y):
        return {"at": Point(x, y), "day": datetime.date(2030, 1, 2), "bytes": b"\x00\xff"}


class Broken(Exception):
    pass


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


async def mute():
    raise Mute


async def verbose(n):
    raise Broken("x" * n)


def inner(text):
    raise Broken(text)


async def fails(text):
    inner(text)


def fails_on_a_thread(text):
    inner(text)


def no_counterpart():
    return object()


state = {"cancelled": None, "begun": None}


def reset():
    state.update(cancelled=asyncio.Event(), begun=asyncio.Event())


async def block():
    state["begun"].set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        state["cancelled"].set()
        raise


async def cancelled():
    await state["cancelled"].wait()
    return True


async def begun():
    await state["begun"].wait()
    return True


async def prepare():
    reset()


async def stall(begun, end):
    """Block the loop until a file exists."""
    open(begun, "w").close()
    while not os.path.exists(end):
        time.sleep(0.01)


waiting = 0


async def wait(padding):
    global waiting
    waiting += 1
    try:
        await asyncio.Event().wait()
    finally:
        waiting -= 1


async def count_waiting():
    return waiting


holding = []
let_go = threading.Event()


def hold():
    """Block a thread until release is called."""
    holding.append(threading.current_thread().name)
    let_go.wait(60)


async def count_holding(least):
    """Wait until so many threads are blocked, and return how many are."""
    while len(holding) < least:
        await asyncio.sleep(0.001)
    return len(holding)


async def release():
    let_go.set()


def crash():
    os.kill(os.getpid(), signal.SIGKILL)


async def leave():
    raise SystemExit(3)


def trace():
    return traceparent.get()


def pid():
    return os.getpid()


def large(n):
    return "x" * n


not_callable = 3


def limit(name):
    """Return a limit of the process."""
    return resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0]


def allocate(size):
    return len(bytearray(size))
