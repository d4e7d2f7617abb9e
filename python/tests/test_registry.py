"""asyncio's set of all tasks: what C adds and removes, Python finds."""

import asyncio
import gc
import sys

import pytest

import spindle
from spindle.internals import task_registry

known = pytest.mark.skipif(sys.version_info >= (3, 14), reason="asyncio keeps tasks in a list of C's")


async def nothing():
    pass


@known
def test_the_methods_in_c_are_used():
    spindle.new_event_loop().close()
    assert type(task_registry().add).__name__ == "builtin_function_or_method"


def test_tasks_are_listed_from_their_start_to_their_end():
    async def main():
        task = asyncio.create_task(nothing())
        assert asyncio.all_tasks() == {task, asyncio.current_task()}
        await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    spindle.run(main())


@known
def test_a_task_that_is_freed_leaves_nothing():
    registry = task_registry()

    async def main():
        gc.collect()  # what earlier tests have left
        before = len(registry.data)
        await asyncio.gather(*(nothing() for _ in range(100)))
        await asyncio.sleep(0)  # until now, the callback that woke this task has them
        gc.collect()
        assert len(registry.data) == before

    spindle.run(main())


@known
def test_a_task_that_is_freed_during_an_iteration_is_removed_afterwards():
    registry = task_registry()

    async def main():
        task = asyncio.create_task(nothing())
        await task
        before = len(registry.data)
        iteration = iter(registry)
        next(iteration)  # holds one task at most, which is not freed then
        others = [asyncio.create_task(nothing()) for _ in range(10)]
        await asyncio.wait(others)
        del others
        gc.collect()
        assert len(registry._pending_removals) >= 10
        assert len(registry.data) >= before + 10
        iteration.close()
        assert len(registry._pending_removals) == 0
        assert len(registry.data) <= before
        del task

    spindle.run(main())


@known
def test_what_waits_for_its_removal_is_removed_when_a_task_is_added():
    registry = task_registry()

    async def main():
        task = asyncio.create_task(nothing())
        await task
        (ref,) = (r for r in registry.data if r() is task)
        registry._pending_removals.append(ref)
        other = asyncio.create_task(nothing())
        assert registry._pending_removals == []
        assert task not in registry and other in registry
        await other

    spindle.run(main())


@known
def test_asyncios_own_loop_uses_the_set_too():
    spindle.new_event_loop().close()

    async def main():
        task = asyncio.create_task(nothing())
        assert task in asyncio.all_tasks()
        await task

    asyncio.run(main())
