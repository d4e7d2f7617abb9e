"""Tests of worlds are tests of pytest: its fixtures, skips and assertions work, hashes pinned or not, in any number of processes."""

import os
import re
import subprocess

import pytest

from .test_explore import PYTEST, SOURCE, run

pytestmark = pytest.mark.once

TOOLS = """
    import asyncio
    import threading
    import pytest
    import spindle.sim

    VALUE = 1

    @pytest.fixture
    def value(monkeypatch):
        monkeypatch.setitem(globals(), "VALUE", 2)

    @spindle.sim.test(seeds=30)
    def test_patched(world, value):
        assert VALUE == 2
        world.host("a").start(asyncio.sleep, 1)

    @pytest.mark.parametrize("lock", [threading.Lock()])
    @spindle.sim.test(seeds=30)
    def test_argument_of_any_kind(world, lock, capsys):
        print("heard")
        assert "heard" in capsys.readouterr().out
        world.host("a").start(asyncio.sleep, 1)

    @spindle.sim.test(seeds=30)
    def test_skips(world):
        if world.seed == 26:
            pytest.skip("not today")

    @pytest.mark.xfail(raises=ZeroDivisionError, strict=True)
    @spindle.sim.test(seeds=30)
    def test_fails_as_expected(world):
        1 / 0

    @spindle.sim.test(seeds=30)
    def test_compares(world):
        assert world.seed < 26 or {"one": 1, "two": 2} == {"one": 1, "two": 3}

    def test_has_a_world_of_its_own():
        world = spindle.sim.World(1)
        world.host("a").start(asyncio.sleep, 1)
        world.run()
"""


@pytest.mark.parametrize("how", ["pinned", "not pinned", "xdist", "processes"])
def test_tools_of_pytest(tmp_path, how):
    options = {"xdist": ["-n2"], "processes": ["--spindle-processes=2"]}.get(how, [])
    if how == "xdist":
        pytest.importorskip("xdist")
    environment = {"PYTHONHASHSEED": "0"} if how == "pinned" else {}
    code, said = run(tmp_path, TOOLS, *PYTEST, *options, f"--spindle-pages={tmp_path}", "test_it.py", **environment)
    assert code == 1 and "1 failed, 3 passed, 1 skipped, 1 xfailed" in said, said
    assert "{'two': 2} != {'two': 3}" in said and "--spindle-seed=26" in said, said
    assert ("starts again" in said) == (how in ("not pinned", "processes")), said


def test_pytest_starts_again_only_for_worlds(tmp_path):
    code, said = run(tmp_path, "import spindle\ndef test_it(): pass", *PYTEST, "test_it.py")
    assert code == 0 and "starts again" not in said, said
    code, said = run(tmp_path, TOOLS, *PYTEST, "--collect-only", "test_it.py")
    assert code == 0 and "starts again" not in said, said


def test_pytest_in_a_program_does_not_start_again(tmp_path):
    code, said = run(tmp_path, TOOLS, "-c", "import pytest; print('ended with', pytest.main(['-q', 'test_it.py']))")
    assert code == 0 and "ended with" in said and "starts again" not in said, said
    assert "set PYTHONHASHSEED=0 in the environment of Python" in said, said


@pytest.mark.parametrize("start", [".", "inner", "inner/tests"])
def test_the_command_that_repeats_a_failure(tmp_path, start):
    tests = tmp_path / "inner" / "tests"
    tests.mkdir(parents=True)
    (tmp_path / "inner" / "pytest.ini").write_text("[pytest]\n")
    where = os.path.relpath(tests / "test_it.py", tmp_path / start)
    code, said = run(tmp_path / start, SOURCE, *PYTEST, f"--spindle-pages={tmp_path}", where, source_in=tests, PYTHONHASHSEED="0")
    command = re.search(r"repeat it: (.*)", said)[1]
    again = subprocess.run(command, shell=True, cwd=tmp_path / start, capture_output=True, text=True, timeout=600)
    assert again.returncode == 1 and "AssertionError: seven" in again.stdout and "1 failed" in again.stdout, again.stdout + again.stderr


@pytest.mark.parametrize("option", ["--spindle-seeds=-1", "--spindle-seeds=0", "--spindle-seed=-1", "--spindle-processes=0", "--spindle-seeds=few"])
def test_a_wrong_number_is_refused(tmp_path, option):
    code, said = run(tmp_path, SOURCE, *PYTEST, option, "test_it.py")
    assert code == 4 and f"argument {option.split('=')[0]}" in said, said


@pytest.mark.parametrize("options", [("--seeds", "0"), ("--seed", "-1"), ("--processes", "0")])
def test_a_wrong_number_of_the_command_is_refused(tmp_path, options):
    code, said = run(tmp_path, SOURCE, "-m", "spindle.sim", "test_it:build", *options)
    assert code == 2 and f"argument {options[0]}: {options[1]} is not from" in said, said


def test_a_wrong_number_in_the_environment_is_refused(tmp_path):
    code, said = run(tmp_path, SOURCE, *PYTEST, "test_it.py", SPINDLE_SEEDS="0")
    assert code == 1 and "SPINDLE_SEEDS in the environment is a whole number from 1 on" in said, said


def test_the_directory_of_pages_is_made(tmp_path):
    code, said = run(tmp_path, SOURCE, *PYTEST, "--spindle-pages=new/pages", "test_it.py")
    page = tmp_path / "new" / "pages" / "spindle-test_it.py_test_worlds.html"
    assert code == 1 and f"page: {page}" in said and page.exists(), said


def test_hypothesis_below_is_refused(tmp_path):
    pytest.importorskip("hypothesis")
    source = """
        import spindle.sim
        from hypothesis import given, strategies

        @spindle.sim.test(seeds=3)
        @given(strategies.integers())
        def test_numbers(world, number): pass
    """
    code, said = run(tmp_path, source, *PYTEST, "test_it.py")
    assert code == 2 and "write @hypothesis.given above @spindle.sim.test" in said, said


def test_an_unknown_part_is_refused(tmp_path):
    source = """
        import asyncio
        import spindle.sim

        @spindle.sim.test(seeds=5)
        def test_world(world):
            for number in range(world.amount("hosts", 3)):
                world.host(f"h{number}").start(asyncio.sleep, 1)
    """
    code, said = run(tmp_path, source, *PYTEST, "--spindle-seed=1", "--spindle-faults=hosts=2", "test_it.py", PYTHONHASHSEED="0")
    assert code == 0, said
    code, said = run(tmp_path, source, *PYTEST, "--spindle-seed=1", "--spindle-faults=clients=2,9", "test_it.py", PYTHONHASHSEED="0")
    assert code == 1 and "no such fault or amount: 9, clients=2" in said, said
