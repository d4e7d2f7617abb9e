"""Tests of worlds beside the plugins of pytest: pytest-asyncio, AnyIO's and Hypothesis."""

import pytest

from .test_explore import PYTEST, run

pytestmark = pytest.mark.once

BESIDE = """
    import asyncio
    import pytest
    import spindle.sim

    {}
    async def test_of_the_plugin():
        await asyncio.sleep(0)

    @pytest.fixture
    def number():
        return 7

    @pytest.mark.parametrize("more", [1, 2])
    @spindle.sim.test(seeds=5)
    def test_world(world, number, more):
        world.host("a").start(asyncio.sleep, number + more)
        world.run()
        assert world.now == number + more

    class TestMethods:
        @spindle.sim.test(seeds=5)
        def test_method(self, world, number):
            world.host("a").start(asyncio.sleep, number)
"""


@pytest.mark.parametrize("environment", [{"PYTHONHASHSEED": "0"}, {}], ids=["pinned", "not pinned"])
@pytest.mark.parametrize("module, options, marker", [
    ("pytest_asyncio", ("--asyncio-mode=auto",), ""),
    ("anyio", ("-p", "no:asyncio"), '@pytest.mark.anyio'),
], ids=["pytest-asyncio", "anyio"])
def test_beside_another_plugin(tmp_path, module, options, marker, environment):
    pytest.importorskip(module)
    (tmp_path / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef anyio_backend(): return 'asyncio'\n")
    code, said = run(tmp_path, BESIDE.format(marker), *PYTEST, *options, "test_it.py", **environment)
    assert code == 0 and "4 passed" in said, said


WITH_HYPOTHESIS = """
    import asyncio
    import hypothesis
    from hypothesis import strategies
    import spindle.sim

    @hypothesis.settings(max_examples=20, deadline=None, database=None)
    @hypothesis.given(words=strategies.lists(strategies.text("wxyz", max_size=5), max_size=5))
    @spindle.sim.test(seeds=3)
    def test_words(world, words):
        async def program():
            for word in words:
                await asyncio.sleep(1)
                assert "x" not in word or {passes!r}, "there is an x"
        world.host("alpha").start(program)
        world.run()
"""


def test_hypothesis_draws_inputs_and_we_draw_schedules(tmp_path):
    pytest.importorskip("hypothesis")
    environment = {"PYTHONHASHSEED": "0"}
    code, said = run(tmp_path, WITH_HYPOTHESIS.format(passes=True), *PYTEST, "test_it.py", **environment)
    assert code == 0 and "1 passed" in said, said
    code, said = run(tmp_path, WITH_HYPOTHESIS.format(passes=False), *PYTEST, "--hypothesis-seed=1", "test_it.py", **environment)
    assert code == 1 and "there is an x" in said and "repeat it: " in said, said
    assert "words=['x']" in said, "the input is the smallest"
