"""Runs CPython's own test_asyncio on Spindle's loop.

    python tests/cpython_suite.py [MODULE ...]

Each module runs in a process of its own. A test that passes on asyncio's loop and not on
ours is an error, unless EXPECTED names it with the reason. The run counts the loops made, so
that a module that never makes a loop of Spindle is seen.
"""

import concurrent.futures
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile

MODULES = [
    "test_base_events", "test_buffered_proto", "test_context", "test_eager_task_factory", "test_events", "test_futures",
    "test_futures2", "test_locks", "test_pep492", "test_queues", "test_runners", "test_sendfile", "test_server",
    "test_sock_lowlevel", "test_ssl", "test_sslproto", "test_staggered", "test_streams", "test_subprocess", "test_taskgroups", "test_tasks",
    "test_threads", "test_timeouts", "test_unix_events", "test_waitfor",
]

# Tests that pass on asyncio's loop and not on ours, and why that is right.
_MOCKS = "replaces socket in asyncio.base_events by a mock, and its descriptor is no number"
EXPECTED = {
    f"test.test_asyncio.test_base_events.BaseEventLoopWithSelectorTests.{name}": _MOCKS
    for name in (
        "test_create_connection_ip_addr", "test_create_connection_ipv6_scope",
        "test_create_connection_no_inet_pton", "test_create_connection_service_name",
        "test_create_datagram_endpoint_ip_addr", "test_create_server_soreuseport_only_defined",
    )
} | {
    "test.test_asyncio.test_ssl.TestSSL.test_remote_shutdown_receives_trailing_data_on_slow_socket":
        "replaces write of a transport, which has no dictionary",
} | {
    f"test.test_asyncio.{name}": "forks after the first loop, which is refused"
    for name in (
        "test_events.TestCGetEventLoop.test_get_event_loop_new_process",
        "test_events.TestPyGetEventLoop.test_get_event_loop_new_process",
        "test_unix_events.TestFork.test_fork_asyncio_run",
        "test_unix_events.TestFork.test_fork_asyncio_subprocess",
        "test_unix_events.TestFork.test_fork_not_share_event_loop",
    )
}

# Tests of Python 3.14 that would wait for ever, and why that is right.
NOT_RUN = {
    "test_call_soon_threadsafe_handle_": "look for a private class of asyncio's, _ThreadSafeHandle",
    "TestPyGetEventLoop": "replace asyncio.tasks.Task, which the loop looks up only once",
}


# The same tests with other selectors: to us all are one.
SELECTORS = ("Poll", "SelectEventLoop")


def tests(suite):
    for item in suite:
        if hasattr(item, "__iter__"):
            yield from tests(item)
        else:
            yield item


def child(name, which):
    import asyncio
    import asyncio.unix_events
    import unittest
    import warnings

    warnings.simplefilter("ignore", DeprecationWarning)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job in the background; some tests would not end
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

        for module in (asyncio, asyncio.unix_events):
            module.SelectorEventLoop = module.EventLoop = SelectorEventLoop
        policy = getattr(asyncio.unix_events, "_DefaultEventLoopPolicy", None) or asyncio.DefaultEventLoopPolicy
        policy._loop_factory = SelectorEventLoop
    suite = unittest.TestSuite(
        test for test in tests(unittest.defaultTestLoader.loadTestsFromName("test.test_asyncio." + name))
        if not test.__class__.__name__.startswith(SELECTORS)
        and not (sys.version_info >= (3, 14) and any(part in test.id() for part in NOT_RUN)))
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
    path = os.path.join(tempfile.gettempdir(), f"spindle-suite-{os.getpid()}-{module}.json")
    env = {**os.environ, "SPINDLE_RESULTS": path}
    if which == "spindle":
        import spindle

        env["PYTHONPATH"] = os.path.dirname(os.path.dirname(spindle.__file__))
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(
            [sys.executable, __file__, "--child", module, which], env=env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=tempfile.gettempdir())
        try:
            ending = f"exit {child.wait(timeout=600)}"
        except subprocess.TimeoutExpired:
            ending = "hangs"
        try:
            os.killpg(child.pid, signal.SIGKILL)  # some tests leave processes behind
        except ProcessLookupError:
            pass
        child.wait()
        log.seek(0)
        text = log.read()
    if not os.path.exists(path):
        return {"results": {}, "loops": 0, "crash": f"{ending}: {text[-2000:]}"}
    with open(path) as f:
        outcome = json.load(f)
    os.remove(path)
    return outcome


def main(modules, verbose):
    passed = failed = 0
    # Those of another version of Python are left out.
    modules = [module for module in modules if importlib.util.find_spec("test.test_asyncio." + module)]
    pool = concurrent.futures.ThreadPoolExecutor(2)  # most tests wait
    for module, ours in zip(modules, pool.map(lambda module: run(module, "spindle"), modules)):
        good = [name for name, outcome in ours["results"].items() if outcome == "passed"]
        bad = [name for name, outcome in ours["results"].items()
               if outcome not in ("passed", "skipped") and name not in EXPECTED]
        print(f"{module}: {len(good)} passed, {ours['loops']} loops made", flush=True)
        if "crash" in ours:
            failed += 1
            print("  " + ours["crash"])
        if bad:
            theirs = run(module, "asyncio")["results"]
            bad = [name for name in bad if theirs.get(name) == "passed"]
        for name in bad:
            text = ours["results"][name].strip()
            print(f"  {name}: {text if verbose else text.splitlines()[-1]}")
        passed += len(good)
        failed += len(bad)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    verbose = "-v" in sys.argv
    sys.exit(main([m for m in sys.argv[1:] if m != "-v"] or MODULES, verbose))
