"""Cancel scopes and nurseries: the same programs with anyio and with spindle."""

import asyncio
import inspect
import socket
import types

import pytest

import spindle
import spindle.testing

anyio = pytest.importorskip("anyio")

ANYIO = types.SimpleNamespace(
    move_on_after=anyio.move_on_after, fail_after=anyio.fail_after, CancelScope=anyio.CancelScope,
    Nursery=anyio.create_task_group)
SPINDLE = types.SimpleNamespace(
    move_on_after=spindle.move_on_after, fail_after=spindle.fail_after, CancelScope=spindle.CancelScope,
    Nursery=spindle.Nursery)


async def time_out_ends_a_wait(api, log):
    with api.move_on_after(1) as scope:
        await asyncio.sleep(10)
        log("not reached")
    log(scope.cancel_called, scope.cancelled_caught)


async def block_that_ends_in_time(api, log):
    with api.move_on_after(10) as scope:
        await asyncio.sleep(1)
    log(scope.cancel_called, scope.cancelled_caught)


async def fail_after_raises(api, log):
    try:
        with api.fail_after(1):
            await asyncio.sleep(10)
    except TimeoutError:
        log("timeout")


async def every_wait_in_a_cancelled_scope_fails(api, log):
    with api.CancelScope() as scope:
        scope.cancel()
        for _ in range(3):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                log("cancelled")
    await asyncio.sleep(1)
    log("after", asyncio.current_task().cancelling())


async def inner_scope_does_not_catch_the_outer_cancellation(api, log):
    with api.CancelScope() as outer:
        with api.CancelScope() as inner:
            outer.cancel()
            await asyncio.sleep(10)
            log("not reached")
        log("not reached")
    log(inner.cancelled_caught, outer.cancelled_caught)


async def outer_scope_does_not_catch_the_inner_cancellation(api, log):
    with api.CancelScope() as outer:
        with api.CancelScope() as inner:
            inner.cancel()
            await asyncio.sleep(10)
        log("between")
        await asyncio.sleep(1)
    log(inner.cancelled_caught, outer.cancelled_caught)


async def shield_keeps_the_outer_cancellation_out(api, log):
    with api.move_on_after(1) as outer:
        with api.CancelScope(shield=True):
            await asyncio.sleep(5)
            log("shielded")
        await asyncio.sleep(10)
        log("not reached")
    log(outer.cancelled_caught)


async def task_cancel_passes_through_scopes(api, log):
    async def work():
        with api.move_on_after(100) as scope:
            try:
                await asyncio.sleep(1000)
            finally:
                log(scope.cancel_called)

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        log("task cancelled")


async def nursery_waits_for_its_tasks(api, log):
    async def child(n):
        await asyncio.sleep(n)
        log(n)

    async with api.Nursery() as nursery:
        for n in (3, 1, 2):
            nursery.start_soon(child, n)
    log("all")


async def failure_cancels_the_others(api, log):
    async def fails():
        await asyncio.sleep(1)
        raise ValueError("bad")

    async def waits():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            log("sibling cancelled")
            raise

    try:
        async with api.Nursery() as nursery:
            nursery.start_soon(fails)
            nursery.start_soon(waits)
            await asyncio.sleep(50)
            log("not reached")
    except* ValueError as group:
        log([str(error) for error in group.exceptions])


async def failure_of_the_body_cancels_the_tasks(api, log):
    async def waits():
        try:
            await asyncio.sleep(100)
        finally:
            log("cancelled")

    try:
        async with api.Nursery() as nursery:
            nursery.start_soon(waits)
            await asyncio.sleep(1)
            raise KeyError("body")
    except* KeyError:
        log("body failed")


async def cancelling_a_nursery_ends_it_quietly(api, log):
    async with api.Nursery() as nursery:
        nursery.start_soon(asyncio.sleep, 100)
        nursery.start_soon(asyncio.sleep, 200)
        await asyncio.sleep(1)
        nursery.cancel_scope.cancel()
    log(nursery.cancel_scope.cancel_called)


async def time_out_around_nested_nurseries(api, log):
    with api.move_on_after(1) as scope:
        async with api.Nursery() as outer:
            outer.start_soon(asyncio.sleep, 100)
            async with api.Nursery() as inner:
                inner.start_soon(asyncio.sleep, 100)
    log(scope.cancelled_caught)


async def start_returns_what_the_task_reports(api, log):
    async def serve(task_status):
        await asyncio.sleep(1)
        task_status.started("address")
        await asyncio.sleep(1)
        log("served")

    async with api.Nursery() as nursery:
        log(await nursery.start(serve))


async def child_with_a_scope_of_its_own_is_waited_for(api, log):
    async def child():
        with api.move_on_after(100):
            await asyncio.sleep(1)
            log("child")

    async with api.Nursery() as nursery:
        nursery.start_soon(child)
    log("after")


async def yielding_loop_is_cancelled(api, log):
    with api.CancelScope() as scope:
        asyncio.get_running_loop().call_soon(scope.cancel)
        for _ in range(1000):
            await asyncio.sleep(0)
        log("not reached")
    log(scope.cancelled_caught)


async def cancelled_error_of_other_code_passes_through(api, log):
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    try:
        async with api.Nursery():
            await future
    except asyncio.CancelledError:
        log("passed through")


async def start_raises_what_the_task_raises(api, log):
    async def fails(task_status):
        raise ValueError("early")

    async with api.Nursery() as nursery:
        try:
            await nursery.start(fails)
        except ValueError as error:
            log(str(error))
        await asyncio.sleep(1)
    log("nursery goes on")


async def scope_cancelled_before_it_is_entered(api, log):
    scope = api.CancelScope()
    scope.cancel()
    with scope:
        await asyncio.sleep(1)
        log("not reached")
    log(scope.cancelled_caught)


PROGRAMS = [value for value in list(globals().values())
            if inspect.isfunction(value) and value.__code__.co_varnames[:2] == ("api", "log")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_scopes_mean_what_anyios_mean(program):
    def run(api, runner):
        lines = []

        async def main():
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(10_000):
                await program(api, lambda *items: lines.append((round(loop.time() - began, 3), *items)))

        async def timed():
            nonlocal began
            began = asyncio.get_running_loop().time()
            await main()

        began = 0
        runner(timed())
        return lines

    theirs = run(ANYIO, spindle.testing.run)
    ours = run(SPINDLE, spindle.testing.run)
    assert theirs and ours == theirs


def test_every_wait_in_a_cancelled_scope_fails():
    async def main():
        failed = 0
        with spindle.CancelScope() as scope:
            scope.cancel()
            for _ in range(40):
                try:
                    await asyncio.sleep(0.001)
                except asyncio.CancelledError:
                    failed += 1
        return failed

    assert spindle.run(main()) == 40


def test_every_wait_of_a_nursery_that_cleans_up_fails():
    failed = 0

    async def child():
        nonlocal failed
        for _ in range(40):
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                failed += 1

    async def main():
        async with spindle.Nursery() as nursery:
            nursery.start_soon(child)
            await asyncio.sleep(0)
            nursery.cancel_scope.cancel()

    spindle.run(main())
    assert failed == 40


def test_waits_of_awaited_tasks_fail_too():
    failed = 0

    async def child():
        nonlocal failed
        for _ in range(10):
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                failed += 1

    async def main():
        with spindle.CancelScope() as scope:
            asyncio.get_running_loop().call_soon(scope.cancel)
            await asyncio.gather(child(), asyncio.create_task(child()))

    spindle.run(main())
    assert failed == 20


def test_a_cancelled_scope_does_not_poll():
    """While a task cleans up in a shield, nothing runs."""
    async def main():
        loop, ticks = asyncio.get_running_loop(), 0
        with spindle.CancelScope() as scope:
            scope.cancel()
            try:
                await asyncio.sleep(1)
            finally:
                with spindle.CancelScope(shield=True):
                    before = scope._delivery
                    await asyncio.sleep(1)
                    ticks = scope._delivery is not before and scope._delivery is not None
        return ticks, loop.time()

    assert spindle.testing.run(main()) == (False, 1.0)


def test_a_coroutine_in_c_in_a_cancelled_scope():
    """StreamReader.read is a coroutine in C: it has no frame, and no state for module inspect."""
    async def main():
        reader, writer = await asyncio.open_connection(*address)
        with spindle.CancelScope() as scope:
            scope.cancel()
            await asyncio.create_task(reader.read(1))
        async with spindle.Nursery() as nursery:
            nursery.cancel_scope.cancel()
            nursery.start_soon(reader.read, 1)
        writer.close()
        return scope.cancelled_caught

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        assert spindle.run(main())


def test_a_scope_in_a_task_of_an_async_generator():
    async def generator():
        with spindle.CancelScope() as scope:
            scope.cancel()
            for _ in range(100):
                await asyncio.sleep(0)
        yield scope.cancelled_caught

    async def main():
        return await asyncio.ensure_future(anext(generator()))

    assert spindle.run(main())


def test_a_scope_that_was_left_can_be_cancelled():
    async def main():
        with spindle.CancelScope() as scope:
            pass
        return scope

    scope = spindle.run(main())
    scope.cancel()
    assert scope.cancel_called and not scope.cancelled_caught


def test_misuse_is_named():
    async def main():
        scope = spindle.CancelScope()
        with scope:
            with pytest.raises(RuntimeError, match="entered twice"):
                scope.__enter__()
        with pytest.raises(ValueError, match="negative"):
            spindle.move_on_after(-1)
        nursery = spindle.Nursery()
        with pytest.raises(RuntimeError, match="not open"):
            nursery.start_soon(asyncio.sleep, 1)

    spindle.testing.run(main())


@pytest.mark.parametrize("wrong, message", [
    (lambda nursery: nursery.start_soon(asyncio.sleep(1)), "give it the function and its arguments: start_soon(sleep, ...)"),
    (lambda nursery: nursery.start_soon(int), "is it an async function?"),
])
def test_what_is_no_async_function_is_refused(wrong, message):
    async def main():
        async with spindle.Nursery() as nursery:
            with pytest.raises(TypeError) as error:
                wrong(nursery)
        return str(error.value)

    assert message in spindle.run(main())
