"""Crashes, restarts, partitions, pauses, clocks and lossy links."""

import asyncio
import errno
import time

import pytest

from spindle.sim import Faults, World
from spindle.sim.explore import search

from .programs import connect, echo_client, echo_server


def test_a_crash_resets_connections_and_skips_finally_blocks():
    world, seen = World(), []
    server, client = world.host("server"), world.host("client")

    async def serve():
        try:
            await echo_server()
        finally:
            seen.append("finally")

    async def talk():
        reader, writer = await connect("server", 7)
        writer.write(b"hello\n")
        await reader.readline()
        try:
            await reader.readline()
        except ConnectionResetError:
            seen.append("reset")
        seen.append("over")

    server.serve(serve)
    client.start(talk)
    world.after(1, server.crash)
    world.after(2, lambda: seen.append(server.up))
    world.run_for(3)
    assert seen == ["reset", "over", False]
    world.run()


def test_a_restart_begins_from_the_beginning():
    world, boots = World(), []
    server = world.host("server")

    async def serve():
        boots.append(world.now)
        await echo_server()

    server.serve(serve)
    world.after(1, server.crash)
    world.after(2, server.restart)

    async def client():
        await echo_client()
        await asyncio.sleep(3)
        await echo_client()

    world.host("client").start(client)
    world.run()
    assert boots == [0, 2]


def test_run_does_not_wait_for_a_program_that_crashed_for_good():
    world = World()
    host = world.host("a")
    host.start(asyncio.sleep, 100)
    world.after(1, host.crash)
    world.run()
    assert not host.up


def test_a_partition_delays_and_heals():
    world, took = World(), []
    a, b = world.host("server"), world.host("client")
    a.serve(echo_server)

    async def client():
        reader, writer = await connect("server", 7)
        writer.write(b"x\n")
        await reader.readline()
        world.partition(a, b)
        world.after(10, world.heal)
        began = world.now
        writer.write(b"y\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.shield(asyncio.sleep(20))
        assert await reader.readline() == b"y\n"
        took.append(world.now - began)

    b.start(client)
    world.run()
    assert 10 <= took[0] < 30


def test_a_pause_holds_up_programs():
    world, seen = World(), []
    host = world.host("a")

    async def program():
        await asyncio.sleep(1)
        seen.append(world.now)

    host.start(program)
    world.after(0.5, host.pause)
    world.after(5, host.resume)
    world.run()
    assert seen == [5]


def test_clocks_differ():
    world, seen = World(), {}
    fast, right = world.host("fast"), world.host("right")
    fast.clock(offset=100, ppm=100_000)

    async def program(host):
        loop = asyncio.get_running_loop()
        await asyncio.sleep(11)
        seen[host.name] = world.now, loop.time(), time.time()

    fast.start(program, fast)
    right.start(program, right)
    world.run()
    assert seen["right"] == (11, 11, 946684800 + 11)
    assert seen["fast"][0] == pytest.approx(10) and seen["fast"][1] == pytest.approx(11)
    assert seen["fast"][2] == pytest.approx(946684800 + 100 + 11)


def test_a_call_fails():
    world, seen = World(), []
    host = world.host("a")

    async def program():
        host.fail_call("socket", errno.EMFILE)
        with pytest.raises(OSError) as caught:
            await asyncio.open_connection("a", 9)
        seen.append(caught.value.errno)

    host.start(program)
    world.run()
    assert seen == [errno.EMFILE]


def test_random_faults_follow_the_seed():
    def run(seed):
        world = World(seed)
        world.faults = Faults(duration=20, crash_every=4, partition_every=4, pause_every=6, clock_every=6, slow_every=6, loss=0.05)
        server, client = world.host("server"), world.host("client")
        server.serve(echo_server)

        async def talk():
            end = asyncio.get_running_loop().time() + 30
            answers = 0
            while asyncio.get_running_loop().time() < end:
                try:
                    async with asyncio.timeout(2):
                        await echo_client(3)
                        answers += 1
                except (OSError, AssertionError, TimeoutError):
                    pass
                await asyncio.sleep(0.5)
            assert answers

        client.start(talk)
        world.run()
        return world.hash, [str(fault) for fault in world._script]

    first, again, other = run(1), run(1), run(2)
    assert first == again and first != other and len(first[1]) > 5


def test_a_disk_survives_a_crash():
    world, seen = World(), []
    host = world.host("a")

    async def program():
        host.disk["boots"] = host.disk.get("boots", 0) + 1
        seen.append(host.disk["boots"])
        await asyncio.sleep(10)

    host.start(program)
    world.after(1, host.restart)
    world.run()
    assert seen == [1, 2]


def test_one_way():
    world, seen = World(), []
    server, client = world.host("server"), world.host("client")
    server.serve(echo_server)

    async def talk():
        reader, writer = await connect("server", 7)
        world.one_way(server, client).cut()
        world.after(10, world.one_way(server, client).mend)
        writer.write(b"x\n")
        assert await reader.readline() == b"x\n"
        seen.append(world.now)

    client.start(talk)
    world.run()
    assert seen[0] > 10
    arrived = [event for event in world.trace() if event["From"] == "client" and event["Kind"] == "data"]
    assert arrived and arrived[0]["At"] < 1e9, "the other direction is open"


def test_datagrams_overtake_each_other():
    world, got = World(1), []
    a, b = world.host("a"), world.host("b")
    world.link(a, b).delay(0.001, 0.002).reorder(0.3)

    class Receiver(asyncio.DatagramProtocol):
        def datagram_received(self, data, address):
            got.append(int(data))

    async def receive():
        await asyncio.get_running_loop().create_datagram_endpoint(Receiver, local_addr=("0.0.0.0", 9))
        await asyncio.sleep(100)

    async def send():
        await asyncio.sleep(0.1)
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("a", 9))
        for number in range(30):
            transport.sendto(b"%d" % number)
            await asyncio.sleep(0.003)
        await asyncio.sleep(1)
        transport.close()

    a.serve(receive)
    b.start(send)
    world.run()
    assert sorted(got) == list(range(30)) and got != sorted(got)


def test_a_check_after_every_step():
    world, state = World(), {"balance": 0}

    async def program():
        await asyncio.sleep(3)
        state["balance"] = -1
        await asyncio.sleep(0)
        await asyncio.sleep(1)
        state["balance"] = 0

    def check():
        assert state["balance"] >= 0, "the balance is negative"

    world.always(check)
    world.host("a").start(program)
    with pytest.raises(AssertionError, match="the balance is negative"):
        world.run()
    assert world.now == 3


def test_the_report_counts_rates_as_faults():
    def setup(world):
        world.faults = Faults(duration=10, loss=0.9)
        for name in ("a", "b"):
            world.host(name)

        async def program():
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("b", 9))
            for _ in range(20):
                transport.sendto(b"hello")
            await asyncio.sleep(1)
            transport.close()
            assert not any(event["Kind"] == "dropped" and "no socket" not in event["Text"] for event in world.trace())

        world.hosts[0].start(program)

    failure = search(setup, range(10))
    assert failure.parts == ["loss"] and "faults (1 of 1 are needed):\n  loss on every link" in failure.text, failure.text


def test_a_cut_in_one_direction_times_out():
    """The sender's bytes arrive, and neither an acknowledgement nor an answer comes back."""
    world, ended = World(5), []
    server, client = world.host("server"), world.host("client")
    server.serve(echo_server)

    async def asks():
        await asyncio.sleep(1)
        reader, writer = await asyncio.open_connection("server", 7)
        world.one_way(server, client).cut()
        writer.write(b"question\n")
        with pytest.raises(TimeoutError):
            await reader.readline()
        ended.append(world.now)
        writer.close()

    client.start(asks)
    world.run()
    assert 900 < ended[0] < 1000
