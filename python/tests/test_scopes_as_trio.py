"""Random programs of scopes and nurseries, in Trio and here: each task does the same at the same time."""

import asyncio
import os
import random

import pytest

import spindle
import spindle.testing

trio = pytest.importorskip("trio")
import trio.testing  # noqa: E402

PROGRAMS = int(os.environ.get("SPINDLE_SCOPE_PROGRAMS", 1500))


class Generator:
    """Makes programs. A program is a list of statements; a statement is a tuple that begins with its name."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = 0

    def block(self, depth, scopes):
        return [self.statement(depth, scopes) for _ in range(self.random.randint(1, 3))]

    def statement(self, depth, scopes):
        kinds = ["sleep", "sleep", "sleep", "cancel", "raise", "shield", "deadline"]
        if depth > 0:
            kinds += ["scope", "scope", "fail", "nursery", "nursery", "nursery", "finally", "swallow"]
        kind = self.random.choice(kinds)
        self.names += 1
        name = self.names
        rare = kind == "raise" and self.random.random() < 0.7
        if kind == "sleep" or rare or kind in ("cancel", "shield", "deadline") and not scopes:
            return "sleep", name, self.random.uniform(1, 20)  # two tasks never wake at the same time
        if kind == "raise":
            return kind, name
        if kind in ("cancel", "shield", "deadline"):
            return kind, name, self.random.choice(scopes), self.random.uniform(-5, 20)
        if kind in ("scope", "fail"):
            timeout = self.random.choice([None, self.random.uniform(0, 30)])
            if kind == "fail":
                timeout = self.random.uniform(0, 30)
            return kind, name, timeout, self.random.random() < 0.25, self.block(depth - 1, [*scopes, name])
        if kind == "nursery":
            inner = [*scopes, name]
            children = [[("sleep", name, self.random.uniform(0, 1)), *self.block(depth - 1, inner)]
                        for _ in range(self.random.randint(0, 3))]
            return kind, name, children, self.block(depth - 1, inner)
        if kind == "finally":
            return kind, name, self.block(depth - 1, scopes), self.block(depth - 1, scopes)
        return kind, name, self.block(depth - 1, scopes)  # swallow


class Run:
    """A program that runs with the functions of one library."""

    def __init__(self, library):
        self.library = library
        self.scopes = {}
        self.log = {}
        self.begin = library.now()
        # Failures and cancellations left a nursery together. Trio raises both in one group. Here the group has
        # the failures only, and the cancellation follows at the next wait, because asyncio's own blocks do not
        # know cancellations in groups.
        self.mixed = False

    def note(self, task, *event):
        self.log.setdefault(task, []).append((round(self.library.now() - self.begin, 4), *event))

    async def block(self, task, statements):
        for statement in statements:
            await getattr(self, "do_" + statement[0])(task, *statement[1:])
            self.note(task, "after", statement[1])

    async def task(self, name, statements):
        try:
            await self.block(name, statements)
        except BaseException as e:
            self.note(name, "ends with", self.kinds(e))
            raise

    def kinds(self, error):
        if isinstance(error, BaseExceptionGroup):
            kinds = {kind for e in error.exceptions for kind in self.kinds(e)}
            self.mixed = self.mixed or "cancelled" in kinds and len(kinds) > 1
            return sorted(kinds)
        return ["cancelled" if isinstance(error, self.library.Cancelled) else type(error).__name__]

    async def do_sleep(self, task, name, seconds):
        await self.library.sleep(seconds)

    async def do_raise(self, task, name):
        raise ValueError(name)

    async def do_cancel(self, task, name, scope, _):
        if scope in self.scopes:
            self.scopes[scope].cancel()

    async def do_shield(self, task, name, scope, _):
        # A shield that is raised in the moment of a cancellation depends on the order of tasks in one tick.
        if scope in self.scopes:
            self.scopes[scope].shield = False

    async def do_deadline(self, task, name, scope, after):
        if scope in self.scopes:
            self.scopes[scope].deadline = self.library.now() + after

    async def do_scope(self, task, name, timeout, shield, body):
        with self.library.scope(timeout, shield) as scope:
            self.scopes[name] = scope
            await self.task((task, name), body)
        self.note(task, "left", name, scope.cancel_called, scope.cancelled_caught)

    async def do_fail(self, task, name, timeout, shield, body):
        try:
            with self.library.fail_after(timeout) as scope:
                scope.shield = shield
                self.scopes[name] = scope
                await self.task((task, name), body)
        except self.library.TooSlow:
            self.note(task, "too slow", name)

    async def do_nursery(self, task, name, children, body):
        async with self.library.nursery() as nursery:
            self.scopes[name] = nursery.cancel_scope
            for i, child in enumerate(children):
                nursery.start_soon(self.task, (task, name, i), child)
            await self.task((task, name), body)
        self.note(task, "left", name, nursery.cancel_scope.cancel_called, nursery.cancel_scope.cancelled_caught)

    async def do_finally(self, task, name, body, cleanup):
        try:
            await self.task((task, name), body)
        finally:
            with self.library.scope(3, True):
                await self.task((task, name, "cleanup"), cleanup)

    async def do_swallow(self, task, name, body):
        try:
            await self.task((task, name), body)
        except ValueError:
            self.note(task, "swallows", name)
        except BaseExceptionGroup as group:
            self.kinds(group)
            swallowed, rest = group.split(ValueError)
            if swallowed is not None:
                self.note(task, "swallows", name)
            if rest is not None:
                raise rest from None


class Trio:
    Cancelled, TooSlow = trio.Cancelled, trio.TooSlowError
    now, sleep, nursery, fail_after = trio.current_time, trio.sleep, trio.open_nursery, trio.fail_after

    @staticmethod
    def scope(timeout, shield):
        return trio.CancelScope(deadline=trio.current_time() + timeout if timeout is not None else float("inf"), shield=shield)

    @staticmethod
    def run(program):
        return trio.run(outcome, Trio, program, clock=trio.testing.MockClock(autojump_threshold=0))


class Spindle:
    Cancelled, TooSlow = asyncio.CancelledError, TimeoutError
    sleep, nursery, fail_after = asyncio.sleep, spindle.Nursery, spindle.fail_after

    @staticmethod
    def now():
        return asyncio.get_running_loop().time()

    @staticmethod
    def scope(timeout, shield):
        return spindle.CancelScope(deadline=Spindle.now() + timeout if timeout is not None else float("inf"), shield=shield)

    @staticmethod
    def run(program):
        return spindle.testing.run(outcome(Spindle, program))


async def outcome(library, program):
    run = Run(library)
    try:
        with library.scope(1000, False):
            await run.task("main", program)
    except BaseException as e:
        run.note("main", "fails with", run.kinds(e))
    return run


def compare(seed):
    """Return the difference between the two runs of a program, or None."""
    program = Generator(seed).block(3, [])
    run = Trio.run(program)
    if run.mixed:
        return None
    expected, got = run.log, Spindle.run(program).log
    for task in {**expected, **got}:
        if expected.get(task) != got.get(task):
            return f"seed {seed}, task {task}:\n  Trio {expected.get(task)}\n  here {got.get(task)}\n  {program}"
    return None


@pytest.mark.parametrize("part", range(10))
def test_random_programs(part):
    size = PROGRAMS // 10
    for seed in range(part * size, (part + 1) * size):
        difference = compare(seed)
        assert difference is None, difference
