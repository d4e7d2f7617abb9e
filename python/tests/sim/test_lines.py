"""An error of a world names the line of the program, and not the one of the test that runs it."""

import asyncio
import time
from time import sleep

import pytest

from spindle.sim import Blocked, NotSimulated, World


async def sleeps():
    sleep(1)  # here: imported before


async def sleeps_later():
    await asyncio.sleep(1)
    sleep(1)  # here: after a wait


def helper():
    time.sleep(1)  # here: in a function


async def calls():
    await asyncio.sleep(1)
    helper()


async def works():
    await asyncio.to_thread(helper)


async def opens_in_a_thread():
    await asyncio.to_thread(open, "/nowhere/file", "w")  # here: work without a line


async def sleeps_in_a_thread():
    await asyncio.sleep(1)
    await asyncio.to_thread(time.sleep, 1)  # here: replaced


async def sleeps_in_a_thread_by_its_own_name():
    await asyncio.sleep(1)
    await asyncio.to_thread(sleep, 1)  # here: not replaced


async def waits_for_the_clock():
    while time.monotonic() < 5:  # here: a busy loop
        pass


@pytest.mark.parametrize("program, marks", [
    (sleeps, "here: imported before"), (sleeps_later, "here: after a wait"), (calls, "here: in a function"), (works, "here: in a function"),
    (opens_in_a_thread, "here: work without a line"), (sleeps_in_a_thread, "here: replaced"),
    (sleeps_in_a_thread_by_its_own_name, "here: not replaced"), (waits_for_the_clock, "here: a busy loop"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_the_line_of_a_program(program, marks):
    lines = open(__file__).read().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if marks in line)
    world = World(1)
    world.host("a").start(program)
    with pytest.raises(NotSimulated) as caught:
        world.run()
    lines_of = {number, number + 1} if program is waits_for_the_clock else {number}
    assert any(f"at {__file__}:{n}" in str(caught.value) for n in lines_of), str(caught.value)


def test_the_line_of_an_error_that_was_caught():
    async def program():
        with pytest.raises(Blocked):
            sleep(1)  # here: caught
            await asyncio.sleep(1)

    number = next(n for n, line in enumerate(open(__file__), 1) if "# here: caught" in line)
    world = World(1)
    world.host("a").start(program)
    with pytest.raises(Blocked, match=f"at .*test_lines.py:{number}"):
        world.run()
