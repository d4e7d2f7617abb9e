"""Runs of the samples in two processes, which must be the same: prints a table.

    python python/tests/sim/determinism.py --seeds 1000 [INTERPRETER ...]

Each interpreter has the package. The second process runs the seeds backwards, so that a run which
depends on those before it is found too.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys

_TESTS = pathlib.Path(__file__).resolve().parents[1]


def hashes(seeds, backwards):
    """Return the hashes of the runs of each sample."""
    from sim.bugs import BUGS
    from sim.programs import echo_world

    from spindle.sim.explore import play

    order = range(seeds - 1, -1, -1) if backwards else range(seeds)
    found = {}
    for sample in (echo_world, *BUGS):
        by_seed = {}
        for seed in order:
            world = play(sample, seed).world
            by_seed[seed] = world.hash
            world._core.close()
        found[sample.__name__] = [by_seed[seed] for seed in range(seeds)]
    return found


def in_two_processes(interpreter, seeds):
    """Return the hashes that two processes have found."""
    processes = [
        subprocess.Popen([interpreter, __file__, "--seeds", str(seeds), "--print", order], stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "PYTHONHASHSEED": "0"})
        for order in ("forwards", "backwards")]
    said = [process.communicate()[0] for process in processes]
    for process in processes:
        if process.returncode:
            raise SystemExit(f"{interpreter} has failed")
    return [json.loads(text) for text in said]


def main():
    """Compare, or be one of the two processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--print", help=argparse.SUPPRESS)
    parser.add_argument("interpreters", nargs="*", default=[sys.executable])
    options = parser.parse_args()
    if options.print:
        sys.path.insert(0, str(_TESTS))
        return print(json.dumps(hashes(options.seeds, options.print == "backwards")))
    differs = False
    for interpreter in options.interpreters:
        version = subprocess.run([interpreter, "-c", "import platform; print(platform.python_version())"],
                                 capture_output=True, text=True, check=True).stdout.strip()
        one, other = in_two_processes(interpreter, options.seeds)
        for sample, runs in one.items():
            wrong = [seed for seed in range(options.seeds) if runs[seed] != other[sample][seed]]
            differs = differs or bool(wrong)
            together = hashlib.sha256(json.dumps(runs).encode()).hexdigest()[:16]
            what = f"{len(wrong)} differ, the first is {wrong[0]}" if wrong else "the same in both processes"
            print(f"{version:8} {sample:28} {options.seeds:6,} seeds {len(set(runs)):6,} different runs  {together}  {what}", flush=True)
    return sys.exit(1 if differs else 0)


if __name__ == "__main__":
    main()
