"""Looks at internals of asyncio, for the checks in src/internals.c."""

import asyncio  # before _asyncio, which would find a part of it only
from asyncio import streams, unix_events
from weakref import WeakSet

import _asyncio


class _Loop:
    """As much of a loop as a task and a stream need that never run."""

    queued = None

    def get_debug(self):
        return False

    def call_soon(self, callback, *args, context=None):
        self.queued = callback

    def create_future(self):
        return _asyncio.Future(loop=self)


def task_and_step():
    """Return a task, and the callback that starts it."""
    loop = _Loop()
    coroutine = _wait()
    task = _asyncio.Task(coroutine, loop=loop, name="spindle")
    task._log_destroy_pending = False  # it never runs
    coroutine.close()
    step, loop.queued = loop.queued, None
    return task, step


async def _wait():
    pass


def task_registry():
    """Return the WeakSet with which asyncio's tasks register, None if there is no such set."""
    registry = getattr(_asyncio, "_all_tasks", getattr(_asyncio, "_scheduled_tasks", None))
    return registry if type(registry) is WeakSet else None


def has_streams(attributes):
    """Report whether a StreamReader has exactly these attributes, and its protocol refers to it as is known."""
    loop = _Loop()
    reader = streams.StreamReader(loop=loop)
    protocol = streams.StreamReaderProtocol(reader, lambda reader, writer: None, loop=loop)
    return (set(vars(reader)) == set(attributes) and protocol._stream_reader_wr() is reader
            and protocol._strong_reader is reader)


def has_loop(members):
    """Report whether asyncio's loop has these members."""
    return all(hasattr(unix_events._UnixSelectorEventLoop, name) for name in members) and hasattr(asyncio.Server, "_attach")
