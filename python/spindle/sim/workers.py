"""Seeds in several processes, with the result of a sequence: the failure of the lowest seed is reported."""

import contextlib
import os
import pickle
import traceback
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from .errors import SimError
from .explore import search

_CHUNK = 25  # seeds


class WorkerFailure(SimError):
    """A run that has failed in another process. Its text has the traceback."""


def _work(module, name, arguments, seeds, only, twice, shortest, nodeid):
    import functools
    import importlib

    from .testing import add_page, options

    function = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    function = getattr(function, "spindle_sim", function)

    def setup(world):
        return function(world=world, **arguments)

    setup = functools.wraps(function)(setup)
    failure = search(setup, seeds, only, twice, shortest=shortest)
    if failure is None:
        return None
    options.nodeid = nodeid
    add_page(function, setup, failure)
    failure.text = "".join(traceback.format_exception(failure.error)) + failure.text
    failure.error = None
    return failure


@contextlib.contextmanager
def _pinned_hash():
    before = os.environ.get("PYTHONHASHSEED")
    if before is None or not before.isdigit():
        os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONHASHSEED", None)
        else:
            os.environ["PYTHONHASHSEED"] = before


def search_in_processes(function, arguments, seeds, only, twice, processes, shortest=0, nodeid=None):
    """Run seeds in processes with pinned hashes of strings. Return the Failure of the lowest seed, or None."""
    try:
        pickle.dumps(arguments)
    except Exception as exc:
        raise SimError(
            f"the arguments of {function.__qualname__} cannot be passed to another process ({exc}); "
            "set PYTHONHASHSEED=0 in the environment and use one process") from None
    chunks = [seeds[i : i + _CHUNK] for i in range(0, len(seeds), _CHUNK)]
    with _pinned_hash(), ProcessPoolExecutor(min(processes, len(chunks)) or 1, get_context("spawn")) as pool:
        results = [
            pool.submit(_work, function.__module__, function.__qualname__, arguments, chunk, only, twice if n == 0 else 0,
                        shortest, nodeid)
            for n, chunk in enumerate(chunks)
        ]
        for result in results:
            failure = result.result()
            if failure is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                text = failure.text
                failure.error = WorkerFailure(text)
                failure.text = f"seed {failure.seed} fails"
                return failure
    return None
