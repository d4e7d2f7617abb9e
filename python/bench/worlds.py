"""Worlds in a minute of CPU: spindle.sim beside simloop, with the same program, in alternating processes.

    pip install simloop==0.2.2        (Python 3.12 and later)
    python python/bench/worlds.py
    python python/bench/worlds.py --processes 2

The program is an echo server and three clients of ten lines each. With --processes the time of the same
seeds in one process and in several is compared, and in as many independent commands, which
is what the machine can give.
"""

import argparse
import asyncio
import os
import statistics
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
    """Run seeds with a library and print how many a minute of CPU has."""
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
    print(60 * seeds / (time.process_time() - before))


def seconds(commands):
    """Run commands of python -m spindle.sim at the same time, and return how long they take."""
    began = time.perf_counter()
    running = [subprocess.Popen([sys.executable, "-m", "spindle.sim", "worlds:world", *map(str, command)], stdout=subprocess.DEVNULL,
                                cwd=os.path.dirname(os.path.abspath(__file__)), env={**os.environ, "PYTHONHASHSEED": "0"})
               for command in commands]
    assert all(process.wait() == 0 for process in running)
    return time.perf_counter() - began


def compare_processes(rounds, seeds, processes):
    """Print how much faster several processes are than one."""
    each = seeds // processes
    for _ in range(rounds):
        one = seconds([("--seeds", seeds)])
        several = seconds([("--seeds", seeds, "--processes", processes)])
        apart = seconds([("--seeds", each, "--first", each * n) for n in range(processes)])
        print(f"{seeds:,} seeds: one process {one:.1f} s; --processes {processes} {several:.1f} s, {one / several:.2f} times as fast; "
              f"{processes} commands of {each:,} seeds {apart:.1f} s, {one / apart:.2f} times", flush=True)


def main():
    """Compare, or be one of the processes of a comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=1500)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return run(options.run, options.seeds)
    if options.processes:
        return compare_processes(options.rounds, options.seeds, options.processes)
    figures = {"spindle": [], "simloop": []}
    for _ in range(options.rounds):
        for library, all_of_it in figures.items():
            done = subprocess.run([sys.executable, __file__, "--run", library, "--seeds", str(options.seeds)],
                                  env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True)
            all_of_it.append(float(done.stdout))
    for library, all_of_it in figures.items():
        print(f"{library:8} {statistics.median(all_of_it):10,.0f} worlds in a minute of CPU ({', '.join(f'{x:,.0f}' for x in all_of_it)})")
    ratios = [a / b for a, b in zip(*figures.values())]
    print(f"ratio    {statistics.median(ratios):10.2f} ({', '.join(f'{x:.2f}' for x in ratios)})")


if __name__ == "__main__":
    main()
