"""Worlds of spindle.sim and of simloop, with the same program: python worlds.py spindle|simloop|processes SEEDS

    pip install simloop==0.2.2        (Python 3.12 and later)
    cd bench && go run . worlds       runs it in interleaved rounds

The program is an echo server and three clients of ten lines each. It prints how many a minute of CPU has. With
"processes", it is the rate of the same seeds in one process and in two, and in two independent commands, which
is what the machine can give.
"""

import asyncio
import json
import os
import subprocess
import sys
import time


async def server():
    async def echo(reader, writer):
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(echo, port=7) as listener:
        await listener.serve_forever()


async def client():
    await asyncio.sleep(0.1)
    reader, writer = await asyncio.open_connection("server", 7)
    for number in range(10):
        line = b"line %d\n" % number
        writer.write(line)
        assert await reader.readline() == line
    writer.close()
    await asyncio.sleep(0.1)  # simloop fails if it has to cancel handlers of streams


def world(world):
    world.host("server").serve(server)
    for number in range(3):
        world.host(f"client{number}").start(client)


async def world_of_simloop():
    net = asyncio.get_running_loop().net
    net.host("server").create_task(server())
    await asyncio.gather(*(net.host(f"client{number}").create_task(client()) for number in range(3)))


def run(library, seeds):
    """Run seeds with a library and return how many a minute of CPU has."""
    if library == "spindle":
        from spindle.sim.explore import search

        def play(seeds):
            assert search(world, seeds, twice=0) is None
    else:
        from simloop import explore

        def play(seeds):
            assert explore(world_of_simloop, seeds) is None

    play(range(50))
    before = time.process_time()
    play(range(50, 50 + seeds))
    return {"worlds_per_cpu_minute": 60 * seeds / (time.process_time() - before)}


def seconds(commands):
    """Run commands of python -m spindle.sim at the same time, and return how long they take."""
    began = time.perf_counter()
    running = [subprocess.Popen([sys.executable, "-m", "spindle.sim", "worlds:world", *map(str, command)], stdout=subprocess.DEVNULL,
                                cwd=os.path.dirname(os.path.abspath(__file__)), env={**os.environ, "PYTHONHASHSEED": "0"})
               for command in commands]
    assert all(process.wait() == 0 for process in running)
    return time.perf_counter() - began


def processes(seeds, number=2):
    """Return how many seeds a second has in one process, in several, and in several commands."""
    each = seeds // number
    return {"one_per_s": seeds / seconds([("--seeds", seeds)]),
            "several_per_s": seeds / seconds([("--seeds", seeds, "--processes", number)]),
            "apart_per_s": seeds / seconds([("--seeds", each, "--first", each * n) for n in range(number)])}


if __name__ == "__main__":
    what, seeds = sys.argv[1], int(sys.argv[2])
    print(json.dumps(processes(seeds) if what == "processes" else run(what, seeds)))
