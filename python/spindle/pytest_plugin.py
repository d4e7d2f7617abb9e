"""For pytest: a marker for async tests on a Spindle loop, and the options of tests of spindle.sim.

    @pytest.mark.spindle
    async def test_echo(): ...

    @pytest.mark.spindle(virtual_time=True)
    async def test_retry(): ...

    @spindle.sim.test(seeds=200)
    def test_orders(world): ...

Each test has a loop of its own. For async fixtures use pytest-asyncio or anyio's plugin, with our loop.
"""

import inspect
import os
import sys

import pytest

from .counts import from_on

pytest_plugins = ("spindle.pytest_restart",)


def pytest_addoption(parser):
    group = parser.getgroup("spindle", "spindle.sim: tests in simulated worlds")
    group.addoption("--spindle-seeds", type=from_on(1), metavar="N", help="how many seeds each test of spindle.sim runs")
    group.addoption("--spindle-seed", type=from_on(0, 2**64 - 1), metavar="SEED", help="run only this seed")
    group.addoption("--spindle-faults", metavar="PARTS", help="keep only these faults and amounts, as the report of a failure names them")
    group.addoption("--spindle-shortest", type=from_on(0), metavar="N", default=0, help="try N more seeds after the first failure, for one with fewer events")
    group.addoption("--spindle-pages", metavar="DIRECTORY", help="where pages about failures are written; by default the directory for temporary files")
    group.addoption("--spindle-processes", type=from_on(1), metavar="N", default=1, help="how many seeds run at the same time")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    if "spindle.sim" in sys.modules:
        from .sim.testing import options

        get, start = item.config.getoption, item.config.invocation_params.dir
        options.seeds, options.seed, options.parts = get("--spindle-seeds"), get("--spindle-seed"), get("--spindle-faults")
        options.processes, options.shortest = get("--spindle-processes"), get("--spindle-shortest")
        options.pages = get("--spindle-pages") and str(start / get("--spindle-pages"))
        options.nodeid, options.pytest = item.nodeid, _arguments(item)


def _arguments(item):
    """Return what selects a test on the command line of pytest, in the directory where the user has started it."""
    config = item.config
    arguments = ["-c", config.option.inifilename] if config.option.inifilename else []
    if config.option.rootdir:
        arguments.append(f"--rootdir={config.option.rootdir}")
    file = os.path.relpath(item.path, config.invocation_params.dir)
    return [*arguments, file + item.nodeid[item.nodeid.find("::"):]]


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "spindle(virtual_time=False): run an async test on a Spindle loop, with virtual time if asked for")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    marker, function = pyfuncitem.get_closest_marker("spindle"), pyfuncitem.obj
    if type(pyfuncitem).__module__.startswith("pytest_asyncio."):  # its auto mode takes every async test, and wraps it
        function = getattr(function, "__wrapped__", function)
    if marker is None or not inspect.iscoroutinefunction(function):
        return None
    if marker.args or set(marker.kwargs) - {"virtual_time"}:
        pytest.fail(f"{marker!r}: the only argument of the marker spindle is virtual_time=True", pytrace=False)
    if marker.kwargs.get("virtual_time"):
        from .testing import run
    else:
        from . import run
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    run(function(**arguments))
    return True
