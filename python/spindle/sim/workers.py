"""Seeds in several processes, with the result of a sequence: the failure of the lowest seed is reported.

The processes only look for a seed that fails. This one runs it again, so that the failure has the fixtures, the
assertions and the traceback of an ordinary test.
"""

import functools
import importlib
import operator
import pickle
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from .explore import play_once_or_twice, search

_CHUNK = 25  # seeds


def search_in_processes(function, arguments, setup, seeds, only, twice, processes, shortest=0, each=None):
    """Run seeds until one fails, as search does, in so many processes."""
    if processes == 1 or len(seeds) == 1:
        return search(setup, seeds, only, twice, each, shortest)
    try:
        _check(function, arguments)
        found = _first_failing(function, arguments, seeds, only, twice, processes)
    except (_NotPassed, ImportError) as exc:
        warnings.warn(f"spindle.sim: one process runs all seeds of {function.__qualname__}: {exc}", stacklevel=2)
        return search(setup, seeds, only, twice, each, shortest)
    if found is None:
        return None
    seed, text = found
    failure = search(setup, range(seed, seed + 1), only, int(seeds.index(seed) < twice), each, shortest)
    if failure is None:  # other processes do not have what fixtures change with monkeypatch, for example
        warnings.warn(
            f"spindle.sim: one process runs all seeds of {function.__qualname__}: seed {seed} passes in this one and fails in another: {text}",
            stacklevel=2)
        return search(setup, seeds, only, twice, each, shortest)
    return failure


class _NotPassed(Exception):
    """A test cannot be passed to another process."""


def _check(function, arguments):
    """Raise if other processes cannot run a function."""
    try:
        pickle.dumps(arguments)
    except Exception as exc:
        raise _NotPassed(f"its arguments cannot be passed to another one ({exc})") from None
    try:
        found = operator.attrgetter(function.__qualname__)(sys.modules[function.__module__])
    except (AttributeError, KeyError):
        found = None
    if _of_world(found) is not function or function.__module__ == "__main__":
        raise _NotPassed("another one cannot import it")


def _of_world(function):
    """Return the function of a world that a test has, below our decorator and that of Hypothesis."""
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    return getattr(inner, "spindle_sim", inner)


def _first_failing(function, arguments, seeds, only, twice, processes):
    chunks = [seeds[i : i + _CHUNK] for i in range(0, len(seeds), _CHUNK)]
    with ProcessPoolExecutor(min(processes, len(chunks)), get_context("spawn")) as pool:
        results = [
            pool.submit(_work, function.__module__, function.__qualname__, arguments, chunk, only, twice if n == 0 else 0)
            for n, chunk in enumerate(chunks)
        ]
        for result in results:
            if found := result.result():
                pool.shutdown(wait=False, cancel_futures=True)
                return found
    return None


def _work(module, name, arguments, seeds, only, twice):
    """Return the first of the seeds that does not pass, and its error."""
    function = _of_world(operator.attrgetter(name)(importlib.import_module(module)))
    setup = functools.partial(call, function, arguments)
    for n, seed in enumerate(seeds):
        try:
            outcome = play_once_or_twice(setup, seed, only, n < twice)
        except BaseException as exc:  # a skip of pytest, for example
            return seed, repr(exc)
        if outcome.error is not None:
            return seed, repr(outcome.error)
        outcome.world._core.close()
    return None


def call(function, arguments, world):
    """Call the function of a test."""
    __tracebackhide__ = True  # of pytest
    return function(world=world, **arguments)
