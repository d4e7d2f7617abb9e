"""Measures the loop beside uvloop and asyncio: python -m spindle.bench [--json] [--rounds N]

Every round measures all loops one after the other; a ratio is the median over rounds of
Spindle's rate divided by that of another loop in the same round. Trust ratios: the rates move
together when the machine is busy. Rates are per second of CPU time, except where the name
says otherwise. uvloop takes part if it is installed.

The three figures of an event loop at a glance are timers_per_s, call_soon_per_s and
io_ready_us. In JSON, NAME_vs_LOOP is a ratio, NAME_vs_LOOP_q1 and _q3 are its quartiles.
"""

import argparse
import asyncio
import gc
import json
import os
import queue
import statistics
import subprocess
import sys
import threading
import time

import spindle

COUNT = 20000
REPEAT = 5  # runs of a benchmark for one figure


async def call_soon():
    """Callbacks that are queued all at once."""
    loop = asyncio.get_running_loop()
    done, left = loop.create_future(), COUNT

    def callback():
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    for _ in range(COUNT):
        loop.call_soon(callback)
    await done
    return COUNT


async def call_later_cancel():
    """Timers that are set and cancelled."""
    loop = asyncio.get_running_loop()
    for _ in range(COUNT):
        loop.call_later(10, print).cancel()
    return COUNT


async def timers():
    """Timers that are set and fire."""
    loop = asyncio.get_running_loop()
    done, left = loop.create_future(), COUNT

    def callback():
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    for i in range(COUNT):
        loop.call_later(i * 1e-7, callback)
    await done
    return COUNT


async def sleep_0():
    """A task that lets the others run."""
    for _ in range(COUNT):
        await asyncio.sleep(0)
    return COUNT


async def nothing():
    pass


async def create_task():
    """Tasks that are created and awaited one by one."""
    for _ in range(COUNT // 2):
        await asyncio.create_task(nothing())
    return COUNT // 2


async def gather():
    """Tasks that are gathered by the thousand."""
    for _ in range(COUNT // 1000):
        await asyncio.gather(*[nothing() for _ in range(1000)])
    return COUNT


async def queue_items():
    """Items through an asyncio.Queue between two tasks."""
    items = asyncio.Queue(64)

    async def produce():
        for i in range(COUNT):
            await items.put(i)

    async def consume():
        for _ in range(COUNT):
            await items.get()

    await asyncio.gather(produce(), consume())
    return COUNT


async def queue_of_one():
    """Items through an asyncio.Queue of one item: the tasks take turns."""
    items = asyncio.Queue(1)

    async def produce():
        for i in range(COUNT // 4):
            await items.put(i)

    producer = asyncio.create_task(produce())
    for _ in range(COUNT // 4):
        await items.get()
    await producer
    return COUNT // 4


async def threadsafe():
    """Round trips to another thread by call_soon_threadsafe."""
    loop, requests = asyncio.get_running_loop(), queue.SimpleQueue()

    def answer():
        while (future := requests.get()) is not None:
            loop.call_soon_threadsafe(future.set_result, None)

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(COUNT // 10):
        future = loop.create_future()
        requests.put(future)
        await future
    requests.put(None)
    thread.join()
    return COUNT // 10


BENCHMARKS = {f.__name__: f for f in (
    call_soon, call_later_cancel, timers, sleep_0, create_task, gather, queue_items, queue_of_one, threadsafe)}


def rate(factory, benchmark):
    """Return how many operations a second of CPU time does."""

    async def measure():
        gc.collect()
        begin, count = time.process_time(), 0
        for _ in range(REPEAT):
            count += await benchmark()
        return count / (time.process_time() - begin)

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(measure())


async def sleep_1ms():
    """Return the mean duration of a sleep of 1 ms, in milliseconds."""
    begin = time.perf_counter()
    for _ in range(200):
        await asyncio.sleep(0.001)
    return (time.perf_counter() - begin) / 200 * 1000


async def ready_us():
    """Return the median time from a write to the reader's callback, in microseconds."""
    loop = asyncio.get_running_loop()
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    spent = []
    arrived = None

    def readable():
        spent.append(time.perf_counter() - begin)
        os.read(read_end, 1)
        arrived.set_result(None)

    loop.add_reader(read_end, readable)
    for _ in range(500):
        arrived = loop.create_future()
        begin = time.perf_counter()
        os.write(write_end, b"x")
        await arrived
    loop.remove_reader(read_end)
    os.close(read_end)
    os.close(write_end)
    return statistics.median(spent) * 1e6


def work():
    """Return how long a piece of Python takes, in seconds."""
    begin, n = time.perf_counter(), 0
    for i in range(300_000):
        n += i
    return time.perf_counter() - begin


async def thread_speed():
    """Return the speed of a thread beside a loop that waits, as a share of its speed alone."""
    loop, waiting, alone = asyncio.get_running_loop(), [], []
    for _ in range(9):
        alone.append(work())
        waiting.append(await loop.run_in_executor(None, work))
    return min(alone) / min(waiting)


START = """
import asyncio, time
before = time.process_time()
import spindle
imported = time.process_time()
loop = spindle.new_event_loop()
print((imported - before) * 1000, (time.process_time() - imported) * 1000)
loop.close()
"""


def start_ms():
    """Return the CPU time of the import after that of asyncio, and of the first loop of a process, in milliseconds."""
    runs = [subprocess.run([sys.executable, "-c", START], check=True, capture_output=True, text=True).stdout for _ in range(9)]
    return [min(column) for column in zip(*(map(float, run.split()) for run in runs))]


def loops():
    """Return the factories of the loops to compare."""
    found = {"spindle": spindle.new_event_loop}
    try:
        import uvloop

        found["uvloop"] = uvloop.new_event_loop
    except ImportError:
        print("uvloop is not installed, and takes no part", file=sys.stderr)
    found["asyncio"] = asyncio.SelectorEventLoop
    return found


def compare(rounds):
    """Return the figures of all rounds, by benchmark and loop, and of what has no rounds."""
    factories, figures = loops(), {}
    for name, benchmark in BENCHMARKS.items():
        figures[name] = {which: [] for which in factories}
        for _ in range(rounds):
            for which, factory in factories.items():
                figures[name][which].append(rate(factory, benchmark))
    for name, benchmark in WAITS.items():
        figures[name] = {which: [] for which in factories}
        for _ in range(min(rounds, 5)):
            for which, factory in factories.items():
                with asyncio.Runner(loop_factory=factory) as runner:
                    figures[name][which].append(runner.run(benchmark()))
    return figures


def ratios(figures, other):
    return sorted(ours / theirs for ours, theirs in zip(figures["spindle"], figures[other]))


def flat(figures):
    """Return one dictionary of medians, and of quartiles of the ratios."""
    found = {}
    for name, rows in figures.items():
        for which, values in rows.items():
            if name in WAITS:
                found[name if which == "spindle" else f"{name}_{which}"] = round(statistics.median(values), 3)
            elif which == "spindle":
                found[f"{name}_per_s"] = round(statistics.median(values))
            else:
                each = ratios(rows, which)
                found[f"{name}_vs_{which}"] = round(statistics.median(each), 2)
                found[f"{name}_vs_{which}_q1"], found[f"{name}_vs_{which}_q3"] = (round(q, 2) for q in quartiles(each))
    return found


def quartiles(values):
    return values[len(values) // 4], values[-1 - len(values) // 4]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(title, unit, rows):
    """Return a table of the format that the other benchmarks of Spindle have."""
    lines = [f"## {title}\n", f"| loop | {unit} | min–max | spindle ÷ it | quartiles | min–max |", "|---|---:|---:|---:|---:|---:|"]
    for which, values in rows.items():
        cells = [f"**{which}**" if which == "spindle" else which, number(statistics.median(values)), f"{number(min(values))}–{number(max(values))}"]
        if which == "spindle":
            cells += ["", "", ""]
        else:
            each = ratios(rows, which)
            cells += [f"{statistics.median(each):.2f}", "{:.2f}–{:.2f}".format(*quartiles(each)), f"{each[0]:.2f}–{each[-1]:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


WAITS = {"sleep_1ms_ms": sleep_1ms, "io_ready_us": ready_us, "thread_speed": thread_speed}
UNITS = {"sleep_1ms_ms": ("A sleep of 1 ms", "ms"), "io_ready_us": ("From readable to the callback", "µs"),
         "thread_speed": ("A thread beside the waiting loop", "of its full speed")}


def main():
    parser = argparse.ArgumentParser(prog="python -m spindle.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one flat JSON object of numbers")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each benchmark (default 9)")
    options = parser.parse_args()
    figures = compare(options.rounds)
    import_ms, first_loop_ms = (round(value, 3) for value in start_ms())
    if options.json:
        json.dump({**flat(figures), "import_ms": import_ms, "first_loop_ms": first_loop_ms}, sys.stdout, indent=1)
        print()
        return
    for name, rows in figures.items():
        title, unit = UNITS.get(name) or (f"{name}: {BENCHMARKS[name].__doc__}", "per CPU-second")
        print(table(title, unit, rows))
    print(f"CPU time of the import, and of the first loop, in ms: {import_ms}, {first_loop_ms}")


if __name__ == "__main__":
    main()
