"""Calls of Python functions, where the Go program cannot show what happens; its own tests are those of the package pyapp."""

import asyncio

import pytest

import spindle
from spindle.server import calls, values
from spindle.server.frames import short
from spindle.server.outflow import Outflow


async def at_once():
    return 5


async def later():
    await asyncio.sleep(1000)


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="Python 3.12 has eager tasks")
def test_a_call_that_ends_as_it_begins_is_forgotten(monkeypatch):
    monkeypatch.setitem(calls._loaded, "test:at_once", calls.Function(at_once))
    monkeypatch.setitem(calls._loaded, "test:later", calls.Function(later))

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        bodies = []
        running = calls.Calls(lambda header, body=b"": bodies.append(body), None, 1 << 20)
        running.start({"kind": "request", "id": 1}, values.encode(["test:at_once", [], {}]))
        running.start({"kind": "request", "id": 2}, values.encode(["test:later", [], {}]))
        assert (bodies, running.numbers()) == ([values.encode(5)], [2])
        running.cancel(2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert running.numbers() == []
    spindle.run(main())


def test_items_and_credits_are_counted_beyond_32_bits():
    async def main():
        sent = []
        flow = Outflow(asyncio.get_running_loop(), (1 << 32) - 2, 1 << 20, lambda n, data: sent.append(short("item", 1, n)), None)
        flow._added = (1 << 32) - 4

        async def four():
            for n in range(4):
                yield n
        task = asyncio.create_task(flow.send_async(four()))
        for allowed in (1 << 32) - 2, 0, 0, 2:
            for _ in range(5):
                await asyncio.sleep(0)
            assert not task.done()
            flow.allow(allowed)
        async with asyncio.timeout(60):
            await task
        assert flow._added == 1 << 32
        assert sent[-1] == short("item", 1)
    spindle.run(main())


async def count():
    for n in range(10):
        yield n


def test_an_earlier_credit_that_comes_later_takes_nothing_back(monkeypatch):
    monkeypatch.setitem(calls._loaded, "test:count", calls.Function(count))

    async def main():
        batches = []
        running = calls.Calls(lambda header, body=b"": batches.append(body), None, 1 << 20)
        asyncio.get_running_loop().call_soon(running.start, {"kind": "request", "id": 1, "seq": 2}, values.encode(["test:count", [], {}]))
        await asyncio.sleep(0)
        running.credit(1, 6)
        running.credit(1, 4)
        for _ in range(20):
            await asyncio.sleep(0)
        assert [n for batch in batches for n in values.decode(batch)] == list(range(6))
    spindle.run(main())
