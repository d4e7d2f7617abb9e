"""Runs CPython's own test_asyncio on Spindle's loop.

    python tests/cpython_suite.py [MODULE ...]

Each module runs twice, in a process of its own: on asyncio's loop and on ours. A test
that passes on the first and not on the second is an error, unless EXPECTED names it with
the reason. The run counts the loops made, so that a module that never makes one of ours
is seen.
"""

import json
import os
import subprocess
import sys

MODULES = [
    "test_buffered_proto", "test_context", "test_events", "test_futures", "test_futures2", "test_locks",
    "test_pep492", "test_queues", "test_runners", "test_sendfile", "test_server", "test_sock_lowlevel",
    "test_ssl", "test_sslproto", "test_streams", "test_subprocess", "test_taskgroups", "test_tasks",
    "test_threads", "test_timeouts", "test_unix_events", "test_waitfor",
]

# Tests that pass on asyncio's loop and not on ours, and why that is right.
EXPECTED = {
}


def child(module, which):
    import asyncio
    import asyncio.unix_events
    import unittest
    import warnings

    warnings.simplefilter("ignore", DeprecationWarning)
    made = 0
    if which == "spindle":
        import spindle

        class SelectorEventLoop(spindle.Loop):
            def __init__(self, selector=None):
                nonlocal made
                made += 1
                if selector is not None:
                    selector.close()
                super().__init__()

        asyncio.SelectorEventLoop = asyncio.unix_events.SelectorEventLoop = SelectorEventLoop
        asyncio.DefaultEventLoopPolicy._loop_factory = SelectorEventLoop
    suite = unittest.defaultTestLoader.loadTestsFromName("test.test_asyncio." + module)
    results = {}

    class Result(unittest.TestResult):
        def startTest(self, test):
            super().startTest(test)
            results[test.id()] = "passed"

        def addSkip(self, test, reason):
            results[test.id()] = "skipped"

        def addError(self, test, err):
            super().addError(test, err)
            results[test.id()] = self._exc_info_to_string(err, test)

        addFailure = addError

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.addError(test, err)

    sys.stdout.flush()
    suite.run(Result())
    with open(os.environ["SPINDLE_RESULTS"], "w") as out:
        json.dump({"results": results, "loops": made}, out)
    sys.stdout.flush()
    os._exit(0)


def run(module, which):
    path = f"/tmp/spindle-suite-{os.getpid()}.json"
    env = {**os.environ, "SPINDLE_RESULTS": path}
    if which == "spindle":
        import spindle

        env["PYTHONPATH"] = os.path.dirname(os.path.dirname(spindle.__file__))
    done = subprocess.run(
        [sys.executable, __file__, "--child", module, which], env=env, timeout=600,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/tmp")
    if not os.path.exists(path):
        return {"results": {}, "loops": 0, "crash": f"exit {done.returncode}: {done.stderr[-2000:]}"}
    with open(path) as f:
        outcome = json.load(f)
    os.remove(path)
    return outcome


def main(modules, verbose):
    failures = 0
    total = 0
    for module in modules:
        theirs, ours = run(module, "asyncio"), run(module, "spindle")
        good = [name for name, outcome in theirs["results"].items() if outcome == "passed"]
        bad = [name for name in good if ours["results"].get(name) != "passed" and name not in EXPECTED]
        total += len(good)
        print(f"{module}: {len(good)} pass on asyncio, {len(good) - len(bad)} on spindle, {ours['loops']} loops made", flush=True)
        if "crash" in ours:
            print("  " + ours["crash"])
        for name in bad:
            failures += 1
            text = ours["results"].get(name, "did not run").strip()
            print(f"  {name}: {text if verbose else text.splitlines()[-1]}")
    print(f"{total - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    verbose = "-v" in sys.argv
    sys.exit(main([m for m in sys.argv[1:] if m != "-v"] or MODULES, verbose))
