"""Tests over many seeds: @spindle.sim.test."""

import functools
import inspect
import os
import re
import sys
import tempfile

from .errors import Diverges
from .explore import TWICE, page, play, search
from .system import hash_is_pinned
from .workers import search_in_processes


class options:
    """What the command line of pytest has set; see plugin.py."""

    seeds = None
    seed = None
    parts = None
    processes = 1
    shortest = 0
    pages = None  # the directory of pages; None for the one for temporary files
    nodeid = None  # of the test that runs


def _number(name):
    text = os.environ.get(name)
    return int(text) if text else None


def settings(seeds):
    """Return the seeds to run, the parts to keep and the number of processes."""
    seed = options.seed if options.seed is not None else _number("SPINDLE_SEED")
    count = options.seeds or _number("SPINDLE_SEEDS") or seeds
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
        return functools.partial(test, seeds=seeds, twice=twice)
    if inspect.iscoroutinefunction(function):
        raise TypeError("spindle.sim.test: the function builds a world and is not a coroutine; start coroutines on its hosts")
    parameters = inspect.signature(function).parameters
    if "world" not in parameters:
        raise TypeError(f"spindle.sim.test: {function.__qualname__} needs an argument named world")

    # pytest and Hypothesis fill in the other arguments.
    others = inspect.Signature([p for name, p in parameters.items() if name != "world"])

    @functools.wraps(function)
    def run(*args, **kwargs):
        chosen, only, processes = settings(seeds)
        arguments = others.bind(*args, **kwargs).arguments  # by name: world may be the first one
        setup = functools.partial(_call, function, arguments)
        shortest = options.shortest if len(chosen) > 1 else 0
        if hash_is_pinned() and (processes == 1 or len(chosen) == 1):
            failure = search(setup, chosen, only, twice, shortest=shortest)
            add_page(function, setup, failure)
        else:
            failure = search_in_processes(function, arguments, chosen, only, twice, processes, shortest, options.nodeid)
        if failure is not None:
            _raise(failure, function)

    run.__signature__ = others
    run.spindle_sim = function
    del run.__wrapped__
    return run


test.__test__ = False  # the name is not that of a test


def _call(function, arguments, world):
    return function(world=world, **arguments)


def command(function, failure):
    """Return the command that repeats a failure."""
    faults = f" --spindle-faults={','.join(failure.parts) or 'none'}"
    if options.nodeid:
        return f"PYTHONHASHSEED=0 {os.path.basename(sys.executable)} -m pytest '{options.nodeid}' --spindle-seed={failure.seed}{faults}"
    where = f"{function.__module__}:{function.__qualname__}"
    return f"{os.path.basename(sys.executable)} -m spindle.sim {where} --seed {failure.seed}" + faults.replace("spindle-", "").replace("=", " ", 1)


def add_page(function, setup, failure):
    """Give a failure its page."""
    if failure is not None and not isinstance(failure.error, Diverges):
        failure.page = page(setup, failure, options.nodeid or function.__qualname__, command(function, failure))


def write_page(function, failure):
    """Write the page of a failure to a file. A later failure of the same test overwrites it. Return lines for the report."""
    if not failure.page:
        return ""
    name = re.sub(r"[^\w.-]+", "_", options.nodeid or f"{function.__module__}.{function.__qualname__}")
    path = os.path.join(options.pages or tempfile.gettempdir(), f"spindle-{name}.html")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(failure.page)
    except OSError as exc:
        return f"there is no page: {exc}\n"
    return f"page: {path}\n"


def ending(function, failure):
    """Return the report of a failure."""
    return f"{failure.text}\n{write_page(function, failure)}repeat it: {command(function, failure)}"


def _raise(failure, function):
    failure.error.add_note(ending(function, failure))
    raise failure.error


__all__ = ["add_page", "command", "ending", "options", "play", "settings", "test"]
