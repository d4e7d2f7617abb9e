"""Hashes of strings that are the same in each process, for tests of spindle.sim.

Python chooses them when it starts. When the tests that pytest has collected use spindle.sim, and
PYTHONHASHSEED is not set, the command starts again with it, before the first test runs. Running
only the worlds in another process was tried: there, fixtures, skips and assertions of pytest are missing.
"""

import os
import sys

import pytest

_ENVIRONMENT = dict(os.environ)  # before a conftest.py has changed it


def _is_pinned():
    from .sim.system import hash_is_pinned

    return hash_is_pinned()


def _is_the_command(config):
    """Report whether this session is the command that the user started, and not one that a program runs with pytest.main."""
    script = os.path.basename(sys.argv[0])
    if script == "__main__.py":
        script = os.path.basename(os.path.dirname(sys.argv[0]))
    return script in ("pytest", "py.test", "pytest-3") and list(config.invocation_params.args) == sys.argv[1:]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    config = session.config
    if "spindle.sim" not in sys.modules or config.option.collectonly or _is_pinned():
        return
    if not session.items or hasattr(config, "workerinput") or not _is_the_command(config) or sys.flags.ignore_environment:
        return
    config._ensure_unconfigure()  # gives standard output back
    print("spindle.sim: pytest starts again with PYTHONHASHSEED=0, which worlds need", flush=True)
    os.chdir(config.invocation_params.dir)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**_ENVIRONMENT, "PYTHONHASHSEED": "0"})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Pin the hashes of xdist's workers. They collect the tests, so that it is not known yet whether one needs it."""
    if not os.environ.get("PYTHONHASHSEED", "").isdigit():
        os.environ["PYTHONHASHSEED"] = "0"
