"""python -m spindle.sim module:function --seeds N: run worlds from the command line."""

import argparse
import importlib
import os
import sys
import time

from ..counts import from_on
from .explore import TWICE
from .system import hash_is_pinned


def main():
    """Run worlds and exit with 1 if one fails."""
    parser = argparse.ArgumentParser("python -m spindle.sim", description="Run a function of a world for many seeds.")
    parser.add_argument("function", help="module:function; the function takes a World, builds it, and may run it")
    parser.add_argument("--seeds", type=from_on(1), default=1000, help="how many (default: 1000)")
    parser.add_argument("--seed", type=from_on(0, 2**64 - 1), help="run only this one")
    parser.add_argument("--first", type=from_on(0), default=0, help="the first seed (default: 0)")
    parser.add_argument("--faults", help="keep only these faults and amounts, separated by commas; none for none")
    parser.add_argument("--processes", type=from_on(1), default=1, help="how many seeds run at the same time (default: 1)")
    parser.add_argument("--shortest", type=from_on(0), default=0, metavar="N", help="try N more seeds after the first failure, for one with fewer events")
    parser.add_argument("--page", metavar="DIRECTORY", help="where the page about a failure is written (default: the one for temporary files)")
    parser.add_argument("--hash", action="store_true", help="print the hash of each run")
    options = parser.parse_args()
    if not hash_is_pinned():
        arguments = [sys.executable, "-m", "spindle.sim", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.path.insert(0, os.getcwd())
    function = find_function(options.function)
    sys.exit(_run(getattr(function, "spindle_sim", function), options))


def find_function(text):
    """Return the function that is written as module:function."""
    module, _, name = text.partition(":")
    function = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    return function


def _run(function, options):
    from . import testing
    from .workers import search_in_processes

    def setup(world):
        return function(world=world)

    seeds = range(options.seed, options.seed + 1) if options.seed is not None else range(options.first, options.first + options.seeds)
    only = None if options.faults is None else [part for part in options.faults.split(",") if part]
    began = time.perf_counter()

    def each(seed, outcome):
        if options.hash:
            print(seed, f"{outcome.world.hash:016x}", flush=True)

    shortest, testing.options.pages = options.shortest if len(seeds) > 1 else 0, options.page
    failure = search_in_processes(function, {}, setup, seeds, only, TWICE, options.processes, shortest, each)
    testing.add_page(function, setup, failure)
    took = time.perf_counter() - began
    if failure is None:
        print(f"{len(seeds)} seeds passed in {took:.1f} s")
        return 0
    import traceback

    traceback.print_exception(failure.error)
    print(testing.ending(function, failure), file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
