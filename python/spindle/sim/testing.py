"""Tests over many seeds: @spindle.sim.test."""

import functools
import inspect
import os
import re
import shlex
import shutil
import sys
import tempfile

from . import arguments as checked
from .errors import Diverges
from .explore import TWICE, page, play
from .workers import call, search_in_processes


class options:
    """What the command line of pytest has set; see pytest_plugin.py."""

    seeds = None
    seed = None
    parts = None
    processes = 1
    shortest = 0
    pages = None  # the directory of pages; None for the one for temporary files
    nodeid = None  # of the test that runs
    pytest = ()  # arguments that select it


def _number(name, least):
    text = os.environ.get(name)
    if not text:
        return None
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"spindle.sim: {name} in the environment is a whole number from {least} on, not {text!r}")
    return int(text)


def settings(seeds):
    """Return the seeds to run, the parts to keep and the number of processes."""
    seed = options.seed if options.seed is not None else _number("SPINDLE_SEED", 0)
    count = options.seeds or _number("SPINDLE_SEEDS", 1) or seeds
    parts = options.parts if options.parts is not None else os.environ.get("SPINDLE_FAULTS")
    only = None if parts is None else [part for part in parts.split(",") if part]
    return (range(seed, seed + 1) if seed is not None else range(count)), only, options.processes


def test(function=None, *, seeds=200, twice=TWICE):
    """Make a function of a world a test that runs once for each seed.

    The function builds the world that it is given. It may run it and look at the result; if it does
    not, the world is run afterwards. The first seeds are run twice and compared. A failure is shrunk
    and reported with its seed, the faults that it needs, and a command that repeats it.
    """
    if function is None:
        checked.whole("test", "seeds", seeds, 1)
        checked.whole("test", "twice", twice, 0)
        return functools.partial(test, seeds=seeds, twice=twice)
    if not inspect.isroutine(function):
        raise TypeError(f"spindle.sim.test: it decorates a function with an argument named world, not {function!r}; seeds is a keyword argument")
    if getattr(function, "is_hypothesis_test", False):
        raise TypeError("spindle.sim.test: write @hypothesis.given above @spindle.sim.test: Hypothesis draws inputs for a test of many seeds")
    if inspect.iscoroutinefunction(function):
        raise TypeError("spindle.sim.test: the function builds a world and is not a coroutine; start coroutines on its hosts")
    parameters = inspect.signature(function).parameters
    if "world" not in parameters:
        raise TypeError(f"spindle.sim.test: {function.__qualname__} needs an argument named world")

    # pytest and Hypothesis fill in the other arguments.
    others = inspect.Signature([p for name, p in parameters.items() if name != "world"])

    @functools.wraps(function)
    def run(*args, **kwargs):
        __tracebackhide__ = True  # of pytest
        chosen, only, processes = settings(seeds)
        arguments = others.bind(*args, **kwargs).arguments  # by name: world may be the first one
        setup = functools.partial(call, function, arguments)
        shortest = options.shortest if len(chosen) > 1 else 0
        failure = search_in_processes(function, arguments, setup, chosen, only, twice, processes, shortest)
        if failure is not None:
            add_page(function, setup, failure)
            _raise(failure, function)

    run.__signature__ = others
    run.spindle_sim = function
    del run.__wrapped__
    return run


test.__test__ = False  # the name is not that of a test


def command(function, failure):
    """Return the command that repeats a failure."""
    faults = ",".join(failure.parts) or "none"
    if options.pytest:
        words = [_python(), "-m", "pytest", *options.pytest, f"--spindle-seed={failure.seed}", f"--spindle-faults={faults}"]
        return f"PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', '0')} {shlex.join(words)}"
    where = f"{_module(function)}:{function.__qualname__}"
    return shlex.join([_python(), "-m", "spindle.sim", where, "--seed", str(failure.seed), "--faults", faults])


def _python():
    """Return the name of this Python: the short one, if the shell finds it by that."""
    name = os.path.basename(sys.executable)
    return name if shutil.which(name) == sys.executable else sys.executable


def _module(function):
    """Return the name under which another process imports the module of a function."""
    if function.__module__ != "__main__":
        return function.__module__
    return os.path.splitext(os.path.basename(function.__code__.co_filename))[0]


def add_page(function, setup, failure):
    """Give a failure its page."""
    if failure is not None and not isinstance(failure.error, Diverges):
        failure.page = page(setup, failure, options.nodeid or function.__qualname__, command(function, failure))


def write_page(function, failure):
    """Write the page of a failure to a file. A later failure of the same test overwrites it. Return lines for the report."""
    if not failure.page:
        return ""
    name = re.sub(r"[^\w.-]+", "_", options.nodeid or f"{function.__module__}.{function.__qualname__}")
    path = os.path.join(os.path.abspath(options.pages or tempfile.gettempdir()), f"spindle-{name}.html")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(failure.page)
    except OSError as exc:
        return f"there is no page: {exc}\n"
    return f"page: {path}\n"


def ending(function, failure):
    """Return the report of a failure."""
    return f"{failure.text}\n{write_page(function, failure)}repeat it: {command(function, failure)}"


def _raise(failure, function):
    __tracebackhide__ = True
    failure.error.add_note(ending(function, failure))
    raise failure.error


__all__ = ["add_page", "command", "ending", "options", "play", "settings", "test"]
