"""python -m spindle.sim module:function --seeds N: run worlds from the command line."""

import argparse
import importlib
import os
import sys
import time

from .explore import TWICE, search
from .system import hash_is_pinned


def main():
    """Run worlds and exit with 1 if one fails."""
    parser = argparse.ArgumentParser("python -m spindle.sim", description="Run a function of a world for many seeds.")
    parser.add_argument("function", help="module:function; the function takes a World, builds it, and may run it")
    parser.add_argument("--seeds", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--seed", type=int, help="run only this one")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--faults", help="keep only these faults and amounts, separated by commas; none for none")
    parser.add_argument("--processes", type=int, default=1, help="how many seeds run at the same time (default: 1)")
    parser.add_argument("--hash", action="store_true", help="print the hash of each run")
    options = parser.parse_args()
    if not hash_is_pinned():
        arguments = [sys.executable, "-m", "spindle.sim", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.path.insert(0, os.getcwd())
    module, _, name = options.function.partition(":")
    function = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    function = getattr(function, "spindle_sim", function)
    sys.exit(_run(function, options))


def _run(function, options):
    from .testing import command
    from .workers import search_in_processes

    seeds = range(options.seed, options.seed + 1) if options.seed is not None else range(options.first, options.first + options.seeds)
    only = None if options.faults is None else [part for part in options.faults.split(",") if part]
    began = time.perf_counter()

    def each(seed, outcome):
        if options.hash:
            print(seed, f"{outcome.world.hash:016x}", flush=True)

    if options.processes > 1 and len(seeds) > 1:
        failure = search_in_processes(function, (), {}, seeds, only, TWICE, options.processes, function)
    else:
        failure = search(lambda world: function(world=world), seeds, only, each=each)
    took = time.perf_counter() - began
    if failure is None:
        print(f"{len(seeds)} seeds passed in {took:.1f} s")
        return 0
    import traceback

    traceback.print_exception(failure.error)
    print(f"{failure.text}\nrepeat it: {command(function, failure)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
