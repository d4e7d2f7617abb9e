"""Queued handles and their contexts are hidden from the collector; cycles through them must not leak."""

import asyncio
import contextvars
import gc
import socket
import weakref

import pytest

import spindle
from conftest import echo_server, open_fds, python

variable = contextvars.ContextVar("variable")


class Node:
    pass


def in_context_with(value, function):
    def call():
        variable.set(value)
        return function()

    return contextvars.copy_context().run(call)


def nothing():
    pass


@pytest.mark.parametrize("schedule", [
    lambda loop: loop.call_soon(nothing),
    lambda loop: loop.call_later(3600, nothing),
])
def test_an_unclosed_loop_in_the_context_of_its_own_callback_is_collected(schedule):
    node = Node()
    node.loop = spindle.new_event_loop()
    dead = weakref.ref(node)
    in_context_with(node, lambda: schedule(node.loop))
    with pytest.warns(ResourceWarning):
        del node
        gc.collect()
    assert dead() is None


def test_a_handle_in_its_own_context_is_collected(loop):
    node = Node()
    dead = weakref.ref(node)
    node.handle = in_context_with(node, lambda: loop.call_soon(nothing))
    loop.call_soon(loop.stop)
    loop.run_forever()
    del node
    gc.collect()
    assert dead() is None


def test_a_context_that_was_taken_from_a_queued_handle_is_collected(loop):
    node = Node()
    dead = weakref.ref(node)
    handle = in_context_with(node, lambda: loop.call_soon(nothing))
    node.context = handle.get_context()
    handle.cancel()
    del handle
    loop.call_soon(loop.stop)
    loop.run_forever()
    del node
    gc.collect()
    assert dead() is None


def test_collections_while_callbacks_are_queued_keep_their_contexts(loop):
    seen = []
    for i in range(2000):
        in_context_with(i, lambda: loop.call_soon(lambda: seen.append(variable.get())))
        if i % 500 == 0:
            gc.collect()
    loop.call_soon(gc.collect)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == list(range(2000))


def abandoned_by_a_task(loop):
    async def sleeps():
        await asyncio.sleep(3600)

    loop.create_task(sleeps())
    loop.call_soon(loop.stop)
    loop.run_forever()


def abandoned_by_a_connection(loop):
    class Client(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.loop = transport, loop

    async def connect():
        server, address = await echo_server()
        transport, _ = await loop.create_connection(Client, *address)
        return transport

    loop.run_until_complete(connect())


def abandoned_by_a_held_timer(loop):
    loop.timer = loop.call_later(3600, nothing)


def abandoned_by_a_held_callback(loop):
    loop.callback = loop.call_soon(nothing, loop)


def abandoned_by_a_reader(loop):
    ends = socket.socketpair()
    loop.add_reader(ends[0], nothing, loop, ends)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("abandon", [
    abandoned_by_a_task, abandoned_by_a_connection, abandoned_by_a_held_timer, abandoned_by_a_held_callback,
    abandoned_by_a_reader])
def test_a_loop_that_is_dropped_gives_its_descriptors_back(abandon):
    def drop():
        loop = spindle.new_event_loop()
        loop.set_exception_handler(lambda loop, context: None)
        abandon(loop)
        return weakref.ref(loop)

    drop()
    gc.collect()
    before = open_fds()
    dropped = [drop() for _ in range(3)]
    gc.collect()
    assert [loop() for loop in dropped] == [None] * 3
    assert open_fds() == before


CHAINS = {
    "callbacks": "lambda last: loop.call_soon(nothing, last)",
    "timers": "lambda last: loop.call_later(3600, nothing, last)",
    "callbacks with many arguments": "lambda last: loop.call_soon(nothing, 1, 2, 3, 4, last)",
    "tuples": "lambda last: loop.call_soon(nothing, (last,))",
    "partials": "lambda last: loop.call_soon(functools.partial(nothing, last))",
    "contexts": "lambda last: (context := contextvars.copy_context()).run(variable.set, last) and context.run(loop.call_soon, nothing)",
    "readers": "reader_after",
    "transports": "transport_after",
}


@pytest.mark.parametrize("link", CHAINS.values(), ids=CHAINS.keys())
def test_a_long_chain_is_freed(link):
    code, out, err = python(f"""
        import contextvars, functools, spindle
        from spindle import _core

        variable = contextvars.ContextVar("variable")
        nothing = lambda *args: None

        def reader_after(last):
            reader = _core.StreamReader()
            reader._exception = last
            return reader

        def transport_after(last):
            transport = _core.Transport.__new__(_core.Transport)
            transport._server = last
            return transport

        loop = spindle.new_event_loop()
        link, last = {link}, None
        for _ in range(200_000):
            last = link(last)
        loop.close()
        del last
        print("freed")
    """)
    assert (code, out) == (0, "freed\n"), err
