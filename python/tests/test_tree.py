"""The tree of tasks."""

import asyncio

import spindle


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
