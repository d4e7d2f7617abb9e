"""A marker for pytest: async tests on a Spindle loop.

    @pytest.mark.spindle
    async def test_echo(): ...

    @pytest.mark.spindle(virtual_time=True)
    async def test_retry(): ...

Each test has a loop of its own. For async fixtures use pytest-asyncio or anyio's plugin, with our loop.
"""

import inspect

import pytest


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
