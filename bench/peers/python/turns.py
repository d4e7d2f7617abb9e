"""Callbacks and timers of asyncio or uvloop: python3 turns.py LOOP SECONDS TIMERS

Prints one flat JSON object, with the keys of `spindle bench --json`.
"""

import asyncio
import json
import random
import sys
import time

LOT = 1000  # callbacks or timers made in one turn


def nothing():
    pass


def rate(loop, seconds, lot, each_turn):
    """Calls each_turn once per turn for the given seconds. Each call does lot units of work."""
    count = 0
    start = time.perf_counter()
    end = start + seconds

    def turn():
        nonlocal count
        if time.perf_counter() >= end:
            loop.stop()
            return
        each_turn()
        count += lot
        loop.call_soon(turn)

    loop.call_soon(turn)
    loop.run_forever()
    return count / (time.perf_counter() - start)


def callbacks(loop, seconds):
    def lot():
        for _ in range(LOT):
            loop.call_soon(nothing)

    return rate(loop, seconds, LOT, lot)


def cancels(loop, seconds):
    def lot():
        handles = [loop.call_later(1 + i % 50 / 1000, nothing) for i in range(LOT)]
        for handle in handles:
            handle.cancel()

    return rate(loop, seconds, LOT, lot)


def fires(loop, timers):
    remaining = timers

    def fire():
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            loop.stop()

    delays = [random.randrange(50) / 1000 for _ in range(timers)]
    start = time.perf_counter()
    for delay in delays:
        loop.call_later(delay, fire)
    loop.run_forever()
    return timers / (time.perf_counter() - start)


def main():
    seconds, timers = float(sys.argv[2]), int(sys.argv[3])
    if sys.argv[1] == "uvloop":
        import uvloop

        loop = uvloop.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
    print(
        json.dumps(
            {
                "callbacks_per_s": callbacks(loop, seconds),
                "turns_per_s": rate(loop, seconds, 1, nothing),
                "timer_cancel_per_s": cancels(loop, seconds),
                "timer_fire_per_s": fires(loop, timers),
            }
        )
    )


if __name__ == "__main__":
    main()
