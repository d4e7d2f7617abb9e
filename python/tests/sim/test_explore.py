"""Many seeds: failures are found, shrunk, compared with a second run, and repeated by a command."""

import asyncio
import contextlib
import gc
import json
import os
import random
import re
import subprocess
import sys
import textwrap

import pytest

import spindle.sim
from spindle.sim import Diverges, Faults
from spindle.sim.explore import check_twice, page, play, search

from . import programs
from .bugs import BUGS, retry_pays_twice
from .determinism import in_two_processes
from .programs import echo_client, echo_server, echo_world


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_classic_bugs_are_found(bug):
    failure = search(bug, range(2000))
    assert failure is not None and not isinstance(failure.error, Diverges), failure
    again = play(bug, failure.seed, failure.parts)
    assert type(again.error) is type(failure.error)
    faults = [part for part in failure.parts if "=" not in part]
    assert len(faults) <= 3, failure.text


def test_amount_that_another_makes_needless():
    def setup(world):
        for i in range(world.amount("clients", 3)):
            world.amount(f"requests{i}", 3)
        raise AssertionError

    assert search(setup, [0]).parts == ["clients=1", "requests0=1"]


def test_a_failure_is_shrunk():
    def setup(world):
        world.faults = Faults(duration=30, lasting=2, crash_every=3, partition_every=3, pause_every=3, loss=0.01)
        hosts = [world.host(f"h{n}") for n in range(world.amount("hosts", 6))]
        boots = []

        async def program():
            boots.append(1)
            await asyncio.sleep(40)

        hosts[0].start(program)
        for host in hosts[1:]:
            host.serve(asyncio.sleep, 1000)
        world.run()
        assert len(boots) < 3, f"booted {len(boots)} times"

    failure = search(setup, range(100))
    assert "booted" in str(failure.error)
    assert "hosts=1" in failure.parts and len(failure.parts) == 3, failure.parts  # two crashes
    assert failure.text.count("crashes") >= 2 and "last events of host h0" in failure.text


def test_the_length_of_a_run_is_shrunk():
    def setup(world):
        length, ticks = world.length(60), []

        async def program():
            while True:
                await asyncio.sleep(1)
                ticks.append(1)

        world.host("a").serve(program)
        world.run_for(length)
        assert len(ticks) < 5, f"{len(ticks)} ticks"

    failure = search(setup, range(20))
    assert failure.parts == ["length=5001"] or failure.parts == ["length=5000"], failure.parts
    assert "5 ticks" in str(failure.error)


def test_the_shortest_failure():
    def setup(world):
        async def program():
            for number in range(20 - world.seed % 10):
                world.note(number)
                await asyncio.sleep(1)
            raise LookupError

        world.host("a").start(program)

    first, shortest = search(setup, range(100)), search(setup, range(100), shortest=30)
    assert (first.seed, first.events) == (0, 20)
    assert (shortest.seed, shortest.events) == (9, 11)


def test_the_page_of_a_failure():
    failure = search(retry_pays_twice, range(2000))
    text = page(retry_pays_twice, failure, "retry", "run it again")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["Title"] == f"retry, seed {failure.seed}" and data["Repeat"] == "run it again" and "was paid twice" in data["Ending"]
    assert data["Nearest"].startswith("without “") and data["Difference"]["Lines"]
    assert any("shop" in row["Task"] for row in data["Rows"] if row["Host"] == "client")
    assert any("“paid”" in sentence["Text"] for sentence in data["Story"])
    assert {row["Host"] for row in data["Rows"]} >= {"client", "server"}


def test_a_run_that_diverges():
    calls = []

    def setup(world):
        calls.append(1)

        async def client():
            await echo_client(lines=len(calls))  # state that outlives the run

        world.host("server").serve(echo_server)
        world.host("client").start(client)

    error = check_twice(setup, 1).error
    assert isinstance(error, Diverges)
    line = [n for n, line in enumerate(open(programs.__file__), 1) if "writer.write(line)" in line][-1]
    assert "on host client" in str(error) and f"it runs {programs.__file__}:{line}" in str(error), str(error)


def test_a_run_that_diverges_by_a_timer():
    calls = []

    def setup(world):
        calls.append(1)

        async def program():
            await asyncio.sleep(len(calls))

        world.host("alpha").start(program)

    error = check_twice(setup, 1).error
    assert isinstance(error, Diverges)
    assert "waits until 1s; the second time it waits until 2s" in str(error) and "test_explore.py" in str(error), str(error)


def test_sets_of_tasks_have_an_order():
    """A TaskGroup cancels its tasks, and asyncio.wait returns them, in the same order in each run."""

    def setup(world):
        async def program():
            async def waits(number):
                try:
                    await asyncio.sleep(10)
                finally:
                    world.note(f"cancelled {number}")

            with contextlib.suppress(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    for number in range(20):
                        group.create_task(waits(number))
                    group.create_task(asyncio.wait_for(asyncio.sleep(2), 1))
            done, _ = await asyncio.wait([asyncio.create_task(asyncio.sleep(0, n)) for n in range(20)])
            for task in done:
                world.note(task.result())

        world.host("a").start(program)

    hashes = []
    for number in range(5):
        junk = [object() for _ in range(100 * number)]  # other addresses
        hashes.append(play(setup, 1).world.hash)
        del junk
    assert len(set(hashes)) == 1


def test_the_collector_waits_for_the_end_of_a_world():
    """Between two runs of a world it would close the sockets of cycles, at a moment that does not follow from the seed."""

    def setup(world):
        async def client():
            await asyncio.sleep(1)
            cycle = list(await asyncio.open_connection("server", 7))
            cycle.append(cycle)

        world.host("server").serve(echo_server)
        world.host("client").serve(client)
        world.run_for(2)
        assert not gc.isenabled()
        if collects:
            gc.collect()
        world.run_for(1)

    hashes = []
    for collects in (False, True):
        hashes.append(play(setup, 1).world.hash)
        assert gc.isenabled()
    assert hashes[0] != hashes[1], "a collection would be seen"


def test_a_world_that_is_never_closed_leaves_the_collector_on():
    world = spindle.sim.World(1)
    world.host("one").serve(asyncio.sleep, 1)
    world.run_for(2)
    assert gc.isenabled()
    world.close()


def test_a_run_that_follows_its_seed_does_not_diverge():
    assert check_twice(echo_world, 3).error is None


def run(tmp_path, source, *command, source_in=None, **environment):
    ((source_in or tmp_path) / "test_it.py").write_text(textwrap.dedent(source))
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env={**inherited, **environment}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


SOURCE = """
    import asyncio, random
    import spindle.sim

    def build(world):
        async def program():
            await asyncio.sleep(random.random())
            assert world.seed != 7, "seven"
        world.host("alpha").start(program)

    @spindle.sim.test(seeds=50)
    def test_worlds(world, tmp_path):
        assert tmp_path.exists()
        build(world)

    @spindle.sim.test
    def test_passes(world):
        world.host("a").start(asyncio.sleep, 1)
        world.run()
        assert world.now == 1
"""
PYTEST = "-m", "pytest", "-q", "-p", "no:cacheprovider"


@pytest.mark.once
@pytest.mark.parametrize("environment", [{"PYTHONHASHSEED": "0"}, {}], ids=["pinned", "not pinned"])
def test_pytest(tmp_path, environment):
    code, said = run(tmp_path, SOURCE, *PYTEST, f"--spindle-pages={tmp_path}", "test_it.py", **environment)
    assert code == 1 and "1 failed, 1 passed" in said, said
    assert "AssertionError: seven" in said and "seed 7 fails" in said and "host alpha" in said
    assert "repeat it: " in said and "--spindle-seed=7" in said and "test_it.py::test_worlds" in said
    pages = [name for name in os.listdir(tmp_path) if name.startswith("spindle-") and name.endswith(".html")]
    assert pages == ["spindle-test_it.py_test_worlds.html"] and f"page: {tmp_path / pages[0]}" in said, said


@pytest.mark.once
def test_options_of_pytest(tmp_path):
    code, said = run(tmp_path, SOURCE, *PYTEST, "test_it.py::test_worlds", "--spindle-seed=7", PYTHONHASHSEED="0")
    assert code == 1 and "seven" in said
    code, said = run(tmp_path, SOURCE, *PYTEST, "test_it.py", "--spindle-seeds=7", PYTHONHASHSEED="0")
    assert code == 0 and "2 passed" in said, said
    code, said = run(tmp_path, SOURCE, *PYTEST, "test_it.py", "--spindle-processes=2")
    assert code == 1 and "seven" in said and "--spindle-seed=7" in said, said


@pytest.mark.once
def test_the_command(tmp_path):
    code, said = run(tmp_path, SOURCE, "-m", "spindle.sim", "test_it:build", "--seeds", "20")
    assert code == 1 and "seven" in said and "repeat it: " in said and "-m spindle.sim test_it:build --seed 7" in said, said
    code, said = run(tmp_path, SOURCE, "-m", "spindle.sim", "test_it:build", "--seeds", "7")
    assert code == 0 and "7 seeds passed" in said, said
    code, said = run(tmp_path, SOURCE, "-m", "spindle.sim", "test_it:build", "--seeds", "60", "--processes", "2")
    assert code == 1 and "seven" in said, said


def test_hashes_are_the_same_in_each_process():
    seeds = int(os.environ.get("SPINDLE_SIM_SEEDS", "15"))
    one, other = in_two_processes(sys.executable, seeds)
    assert one == other
    assert len(one) == len(BUGS) + 1 and all(len(set(runs)) == seeds for runs in one.values())


def test_random_stays_random_outside():
    assert random.random() != random.random()
