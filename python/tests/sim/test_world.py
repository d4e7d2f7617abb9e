"""Unmodified asyncio programs on simulated hosts."""

import asyncio
import time

import pytest

from spindle.sim import Deadlock, Standstill, TimedOut, World
from spindle.sim.explore import search

from .programs import connect, echo_client, echo_server, echo_world


def test_clients_and_a_server():
    world = World(1)
    echo_world(world)
    world.run()
    kinds = {event["Kind"] for event in world.trace()}
    assert {"connect", "connected", "data", "end"} <= kinds


def test_a_seed_is_one_run():
    def run(seed):
        world = World(seed)
        echo_world(world)
        world.run()
        return world.hash

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_time_is_virtual():
    world, seen = World(), []

    async def sleeper():
        before = asyncio.get_running_loop().time(), time.monotonic(), time.time()
        await asyncio.sleep(3600)
        seen.extend(after - b for after, b in zip((asyncio.get_running_loop().time(), time.monotonic(), time.time()), before))

    world.host("a").start(sleeper)
    began = time.monotonic()
    world.run()
    assert seen == [3600, 3600, 3600] and time.monotonic() - began < 60 and world.now >= 3600


def test_a_link_has_a_delay():
    world, took = World(), []
    a, b = world.host("a"), world.host("server")
    world.link(a, b).delay(0.25)
    b.serve(echo_server)

    async def client():
        reader, writer = await asyncio.open_connection("server", 7)
        began = asyncio.get_running_loop().time()
        writer.write(b"x\n")
        await reader.readline()
        took.append(asyncio.get_running_loop().time() - began)

    a.start(client)
    world.run()
    assert took == [0.5]


def test_a_program_fails():
    world = World(3)

    async def fails():
        await asyncio.sleep(1)
        raise LookupError("what was lost")

    world.host("a").start(fails)
    with pytest.raises(LookupError, match="what was lost") as caught:
        world.run()
    assert any("seed 3, at 1.0" in note for note in caught.value.__notes__)


def test_a_deadlock_has_the_tasks():
    world = World()

    async def waits_for_nothing():
        await asyncio.get_running_loop().create_future()

    world.host("a").start(waits_for_nothing)
    with pytest.raises(Deadlock, match="waits_for_nothing"):
        world.run()


def test_a_task_that_never_waits():
    world = World()

    async def spins():
        while True:
            await asyncio.sleep(0)

    world.host("a").start(spins)
    with pytest.raises(Standstill, match="spins"):
        world.run()


def test_a_run_has_a_limit():
    world = World()
    world.host("a").start(asyncio.sleep, 100)
    with pytest.raises(TimedOut):
        world.run(within=10)
    assert world.now < 100


def test_until_a_condition():
    world, seen = World(), []

    async def counts():
        for n in range(100):
            await asyncio.sleep(1)
            seen.append(n)

    world.host("a").start(counts)
    world.until(lambda: len(seen) == 7, within=60)
    assert len(seen) == 7 and 7 <= world.now < 8
    with pytest.raises(TimedOut):
        world.until(lambda: len(seen) == 90, within=5)
    world.run_for(50)
    assert 61 < world.now < 63
    world.run()
    assert len(seen) == 100


def test_calls_from_outside_wake_a_host():
    world, seen = World(), []
    host = world.host("a")

    async def waits(event):
        await event.wait()
        seen.append(world.now)

    event = asyncio.Event()
    host.start(waits, event)
    world.after(5, event.set)
    world.after(6, host.start, asyncio.sleep, 1)
    world.run_for(10)
    world.run()
    assert seen == [5]


def test_a_server_on_the_same_host_and_other_addresses():
    world = World()
    host = world.host("server")
    host.serve(echo_server)

    async def client():
        for name in ("localhost", "127.0.0.1", "server"):
            await echo_client(3, name)
        with pytest.raises(OSError):
            await asyncio.open_connection("nowhere", 7)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("server", 8)

    host.start(client)
    world.run()


def test_large_data_and_backpressure():
    world, got = World(), []
    data = bytes(range(256)) * 4096  # 1 MB

    async def server():
        async def receive(reader, writer):
            got.append(await reader.read(-1))
            writer.write(b"done")
            writer.close()

        await (await asyncio.start_server(receive, port=80)).serve_forever()

    async def client():
        reader, writer = await connect("server", 80)
        writer.write(data)
        await writer.drain()
        writer.write_eof()
        assert await reader.read() == b"done"

    a, b = world.host("server"), world.host("client")
    world.link(a, b).bandwidth(1_000_000)
    a.serve(server)
    b.start(client)
    world.run()
    assert got == [data] and 1 < world.now < 2


def test_tasks_in_another_order():
    """Ready tasks of one host run in an order of the seed, if that is wished for."""

    def run(seed, shuffle):
        world, order = World(seed), []
        world.shuffle = shuffle

        async def program():
            async def task(number):
                for _ in range(3):
                    await asyncio.sleep(0)
                    order.append(number)

            await asyncio.gather(*(task(number) for number in range(4)))

        world.host("a").start(program)
        world.run()
        return order

    assert run(1, False) == run(2, False) == [0, 1, 2, 3] * 3
    assert run(1, True) == run(1, True) != run(2, True)
    assert sorted(run(1, True)) == sorted([0, 1, 2, 3] * 3)


def test_a_shuffled_loop_takes_time():
    """A request arrives between two turns of a task that only yields, as on a real machine."""

    def setup(world):
        world.shuffle, value = True, [0]

        async def server():
            async def handle(reader, writer):
                await reader.readline()
                before = value[0]
                await asyncio.sleep(0)
                value[0] = before + 1
                writer.close()

            async with await asyncio.start_server(handle, port=80) as listening:
                await listening.serve_forever()

        async def client():
            await asyncio.sleep(1)
            reader, writer = await asyncio.open_connection("server", 80)
            writer.write(b"more\n")
            await reader.read()
            writer.close()

        world.host("server").serve(server)
        for name in ("anna", "ben", "carl"):
            world.host(name).start(client)
        world.run()
        assert value[0] == 3, f"{value[0]} of 3"

    failure = search(setup, range(300))
    assert failure is not None and "2 of 3" in str(failure.error)


def test_a_task_that_never_waits_in_a_shuffled_world():
    async def program():
        while True:
            await asyncio.sleep(0)

    world = World(1)
    world.shuffle = True
    world.host("a").start(program)
    with pytest.raises(Standstill):
        world.run()


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="Python 3.12 has eager tasks")
def test_names_of_eager_tasks():
    seen = []

    async def program():
        async def child():
            seen.append(asyncio.current_task().get_name())
            await asyncio.sleep(1)
            seen.append(asyncio.current_task().get_name())

        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await asyncio.gather(*(asyncio.create_task(child()) for _ in range(2)))

    for _ in range(2):
        world = World(1)
        world.host("a").start(program)
        world.run()
    assert seen[:4] == seen[4:] == ["Task-2", "Task-3", "Task-2", "Task-3"]
