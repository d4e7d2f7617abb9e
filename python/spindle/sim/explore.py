"""Runs of many seeds: the search for a failure, the comparison of two runs, and shrinking."""

import traceback
from dataclasses import dataclass, field

from .errors import Diverges, SimError
from .report import describe, faults_of
from .world import World

TWICE = 3  # seeds that are run twice and compared


@dataclass
class Failure:
    """A run that has failed."""

    seed: int
    error: BaseException
    parts: list = field(default_factory=list)  # the faults and amounts that it needs
    text: str = ""
    events: int = 0
    page: str = ""  # in HTML


@dataclass
class Outcome:
    """One run of one seed. The world is closed."""

    world: World
    error: BaseException | None


def play(setup, seed, only=None, compare=None, record=False, named=False):
    """Run one world. setup builds it, and may run it and look at the result."""
    __tracebackhide__ = True  # of pytest
    world = World(seed)
    world._will_close = True
    world._only = None if only is None else frozenset(only)
    if named:
        world._name_tasks()
    if record or compare is not None:
        world._record(compare)
    error = None
    try:
        setup(world)
        if not world._began:
            world.run()
    except Exception as exc:
        error = exc
    finally:
        try:
            world.close()
        except Exception as exc:
            error = error or exc
    return Outcome(world, error)


def check_twice(setup, seed, only=None):
    """Run a seed twice. Return the outcome, with an error of Diverges if the runs differ."""
    first = play(setup, seed, only, record=True)
    second = play(setup, seed, only, compare=first.world)
    if difference := second.world._difference(first.world, first.error, second.error):
        second.error = Diverges(f"two runs of seed {seed} differ, so that the seed does not determine the run\n{difference}")
    first.world._core.close()
    return second


def search(setup, seeds, only=None, twice=TWICE, each=None, shortest=0):
    """Run seeds until one fails. Return its Failure, shrunk, or None. each is called after each seed.

    shortest is how many more seeds to try after the first failure, to return the one with the fewest events.
    """
    for n, seed in enumerate(seeds):
        outcome = play_once_or_twice(setup, seed, only, n < twice)
        if each is not None:
            each(seed, outcome)
        if outcome.error is None:
            outcome.world._core.close()
            continue
        failure = shrink(setup, seed, outcome, only)
        return _shortest(setup, failure, range(seed + 1, seed + 1 + shortest), only)
    return None


def play_once_or_twice(setup, seed, only, twice):
    """Run a seed, and compare it with a second run if twice is true."""
    outcome = check_twice(setup, seed, only) if twice else play(setup, seed, only)
    if wrong := outcome.world._unknown_parts():
        raise SimError(f"no such fault or amount: {', '.join(wrong)}")
    return outcome


def _shortest(setup, failure, seeds, only):
    for seed in seeds:
        if isinstance(failure.error, Diverges):
            break
        outcome = play(setup, seed, only)
        if outcome.error is None:
            outcome.world._core.close()
            continue
        other = shrink(setup, seed, outcome, only)
        if other.events < failure.events and not isinstance(other.error, Diverges):
            failure = other
    return failure


def shrink(setup, seed, outcome, only=None):
    """Leave out the faults and lower the amounts that a failure does not need."""
    if isinstance(outcome.error, Diverges):
        return Failure(seed, outcome.error, [], describe(outcome.world, outcome.error))
    if only is None:
        again = play(setup, seed)
        if again.error is None:
            error = Diverges(f"seed {seed} has failed and does not fail again; the first error was {outcome.error!r}")
            return Failure(seed, error, [], str(error))
        outcome = _smallest(setup, seed, again)
    world = outcome.world
    return Failure(seed, outcome.error, world._parts(), describe(world, outcome.error), len(world.trace()))


_TRIED_PARTS, _TRIED_SEEDS, _COMPARED = 8, 12, 6  # for a page: runs that are tried, and those to compare with


def page(setup, failure, title, repeat):
    """Return a page in HTML about a failure: it runs once more, with the names of tasks, and so do some that pass."""
    shown = play(setup, failure.seed, failure.parts, named=True)
    error = shown.error or failure.error
    passing = []
    for group in _neighbours(shown.world, failure):
        for name, seed, parts in group:
            other = play(setup, seed, parts)
            if other.error is None and len(passing) < _COMPARED:
                passing.append((name, other.world))
        if passing:
            break
    ending = "".join(traceback.format_exception_only(error)).strip()
    return shown.world._page(f"{title}, seed {failure.seed}", ending, repeat, faults_of(shown.world), passing)


def _neighbours(world, failure):
    """Return groups of runs that are near to a failure: without one of its faults, with other seeds, with one less of an amount.

    The last are tried last: a client less, or a millisecond, is a difference that explains little.
    """
    faults, amounts = world._fault_parts(), world._amount_parts()
    without = [(f"without {_fault(world, part)}", failure.seed, [p for p in faults if p != part] + amounts) for part in faults[:_TRIED_PARTS]]
    seeds = [(f"seed {seed}", seed, failure.parts) for seed in range(failure.seed + 1, failure.seed + 1 + _TRIED_SEEDS)]
    less = [
        (f"with {name}={value - 1}", failure.seed, faults + [f"{name}={value - 1}"] + [p for p in amounts if not p.startswith(name + "=")])
        for name, value in world._amounts.items() if value > 1]
    return without, seeds, less


def _fault(world, part):
    """Return a fault in words."""
    return f"“{world._script[int(part)].what}” at {world._script[int(part)].at:.3f} s" if part.isdigit() else part


def _smallest(setup, seed, outcome):
    while True:
        before = outcome.world._parts()
        outcome = _without_faults(setup, seed, _with_smaller_amounts(setup, seed, outcome))
        if outcome.world._parts() == before:
            return outcome


def _with_smaller_amounts(setup, seed, outcome):
    for name in list(outcome.world._amounts):
        if name not in outcome.world._amounts:  # a smaller amount before it has made this one needless
            continue
        enough, too_few = outcome.world._amounts[name], 0
        while too_few + 1 < enough:
            n = max(1, 2 * too_few)  # from below: small worlds run quickly
            if n >= enough:
                n = (too_few + enough) // 2
            world = outcome.world
            amounts = [f"{key}={n if key == name else value}" for key, value in world._amounts.items()]
            smaller = play(setup, seed, world._fault_parts() + amounts)
            if smaller.error is not None:
                outcome, enough = smaller, n
            else:
                too_few = n
    return outcome


def _without_faults(setup, seed, outcome):
    faults = outcome.world._fault_parts()
    size = len(faults)
    while size > 0 and faults:
        start = 0
        while start < len(faults):
            rest = faults[:start] + faults[start + size :]
            smaller = play(setup, seed, rest + outcome.world._amount_parts())
            if smaller.error is not None:
                outcome, faults = smaller, rest
            else:
                start += size
        size //= 2
    return outcome
