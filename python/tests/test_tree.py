"""The tree of tasks."""

import asyncio

import pytest

import spindle
import spindle.testing


def test_tasks_are_below_those_that_await_them(loop):
    async def leaf(event):
        await event.wait()

    async def branch(event):
        await asyncio.gather(leaf(event), leaf(event))

    async def main():
        event = asyncio.Event()
        task = asyncio.create_task(branch(event), name="branch")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        text = spindle.tree()
        event.set()
        await task
        return text

    lines = loop.run_until_complete(main()).splitlines()
    assert [line[: len(line) - len(line.lstrip())] for line in lines] == ["", "", "  ", "  "]
    assert "main" in lines[0] and "running" in lines[0]
    assert lines[1].startswith("branch") and "test_tree.py" in lines[1]
    assert all("leaf" in line and "awaits Event.wait" in line for line in lines[2:])


def test_circle_is_marked(loop):
    async def main():
        tasks = []

        async def wait_for(other):
            await asyncio.sleep(0)
            await tasks[other]

        tasks += [asyncio.create_task(wait_for(1), name="one"), asyncio.create_task(wait_for(0), name="two")]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        text = spindle.tree()
        for task in tasks:
            task._log_destroy_pending = False  # they can never end
        return text

    text = loop.run_until_complete(main())
    assert "a circle" in text
    assert text.count("one") >= 1 and text.count("two") >= 1


async def gather(tasks):
    await asyncio.gather(*tasks)


def test_tasks_that_many_await_are_shown_once(loop):
    async def main():
        end = asyncio.Event()
        layer = [asyncio.create_task(end.wait(), name=f"leaf-{i}") for i in range(2)]
        tasks = list(layer)
        for _ in range(30):  # there are 2**30 ways from the first layer to the last one
            layer = [asyncio.create_task(gather(layer)) for _ in range(2)]
            tasks += layer
        await asyncio.sleep(0)
        text = spindle.tree()
        end.set()
        await gather(tasks)
        return text

    text = loop.run_until_complete(main())
    assert len(text.splitlines()) == 1 + 2 + 4 * 30
    assert text.count("; see above") == 2 * 29
    assert text.count("leaf-0") == text.count("leaf-1") == 2


def test_long_chain_of_tasks(loop):
    async def main():
        end = asyncio.Event()
        last = asyncio.create_task(end.wait())
        for _ in range(2000):  # more than Python allows calls in each other
            last = asyncio.create_task(gather([last]))
        await asyncio.sleep(0)
        text = spindle.tree()
        end.set()
        await last
        return text

    assert len(loop.run_until_complete(main()).splitlines()) == 2002


def test_task_that_has_ended_is_not_awaited(loop):
    async def main():
        child = asyncio.create_task(asyncio.sleep(0), name="child")
        parent = asyncio.create_task(asyncio.wait_for(child, None), name="parent")
        texts = []
        child.add_done_callback(lambda _: texts.append(spindle.tree()))
        await parent
        return texts[0]

    text = loop.run_until_complete(main())
    assert "child" not in text
    assert "parent" in text and ": ready" in text


@pytest.mark.parametrize("name", ["job-\u00b2", "job-" + "9" * 5000])
def test_names_that_end_in_strange_digits(loop, name):
    async def main():
        task = asyncio.create_task(asyncio.sleep(0), name=name)
        text = spindle.tree()
        await task
        return text

    assert name in loop.run_until_complete(main())


def test_time_that_tasks_have_waited():
    async def wait(seconds, event):
        await asyncio.sleep(seconds)
        await event.wait()

    async def parent(event):
        await asyncio.create_task(wait(300, event), name="child")

    async def main():
        event = asyncio.Event()
        tasks = [asyncio.create_task(wait(100, event), name="a"), asyncio.create_task(wait(700, event), name="b"),
                 asyncio.create_task(parent(event), name="parent")]
        await asyncio.sleep(1000)
        lines = {line.split()[0]: line for line in spindle.tree().splitlines()}
        event.set()
        await asyncio.gather(*tasks)
        return lines

    lines = spindle.testing.run(main())
    assert lines["a"].endswith("awaits Event.wait, 900.0 s so far")
    assert lines["b"].endswith("awaits Event.wait, 300.0 s so far")
    assert lines["parent"].endswith("waits, 1000.0 s so far")
    assert lines["child"].endswith("awaits Event.wait, 700.0 s so far")


def test_time_of_many_tasks():
    """The table of steps grows with the tasks."""

    async def main():
        tasks = []
        for n in range(20):
            tasks += [asyncio.create_task(asyncio.sleep(1_000_000)) for _ in range(500)]
            await asyncio.sleep(1)
        for _ in range(5):  # the steps of others, in new tasks
            await asyncio.gather(*[asyncio.sleep(0.001) for _ in range(2000)])
        waits = [float(line.rpartition(", ")[2].split()[0]) for line in spindle.tree().splitlines() if "so far" in line]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return waits

    waits = spindle.testing.run(main())
    assert len(waits) == 10_000
    assert {round(wait) for wait in waits} == set(range(1, 21))


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="Python 3.12 has eager tasks")
def test_time_of_eager_tasks():
    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await asyncio.sleep(10)
        task = asyncio.create_task(asyncio.sleep(1000), name="eager")
        await asyncio.sleep(20)
        text = spindle.tree()
        task.cancel()
        return text

    line, = [line for line in spindle.testing.run(main()).splitlines() if line.startswith("eager")]
    assert line.endswith(", 20.0 s so far")


async def in_task_group(child):
    async with asyncio.TaskGroup() as group:
        group.create_task(child, name="child")


async def in_wait(child):
    await asyncio.wait([asyncio.create_task(child, name="child")])


async def in_shield(child):
    await asyncio.shield(asyncio.create_task(child, name="child"))


async def in_wait_for(child):
    await asyncio.wait_for(asyncio.create_task(child, name="child"), 3600)


async def in_gather(child):
    await asyncio.gather(asyncio.create_task(child, name="child"))


@pytest.mark.parametrize("parent", [in_task_group, in_wait, in_shield, in_wait_for, in_gather])
def test_a_child_is_below_the_task_that_waits_for_it(loop, parent):
    async def main():
        task = asyncio.create_task(parent(asyncio.Event().wait()), name="parent")
        for _ in range(5):
            await asyncio.sleep(0)
        text = spindle.tree()
        task.cancel()
        for other in asyncio.all_tasks() - {asyncio.current_task()}:
            other.cancel()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        return text

    lines = loop.run_until_complete(main()).splitlines()
    at, = [i for i, line in enumerate(lines) if line.startswith("parent ")]
    assert lines[at + 1].startswith("  child ")
    assert not any(line.startswith("child ") for line in lines)
