"""One AnyIO program does the same on Spindle, asyncio and Trio."""

import math

import pytest

import spindle

anyio = pytest.importorskip("anyio")

BACKENDS = {
    "asyncio": ("asyncio", {}),
    "spindle": ("asyncio", {"loop_factory": spindle.new_event_loop}),
    "trio": ("trio", {}),
}


async def program():
    """Returns what it has seen: tasks, time-outs, failures, streams, locks, threads and sockets."""
    seen = {}

    # Workers take jobs from a stream; each job has a time-out, and results are kept under a lock.
    send, receive = anyio.create_memory_object_stream(2)
    lock, results = anyio.Lock(), []

    async def work(jobs):
        async with jobs:
            async for job in jobs:
                with anyio.move_on_after(1) as scope:
                    await anyio.sleep(job)
                async with lock:
                    results.append((job, scope.cancelled_caught))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(work, receive.clone())
        receive.close()
        async with send:
            for job in [0, 0.001, math.inf, 0.002, 60]:
                await send.send(job)
    seen["jobs"] = sorted(results)

    # A failure cancels the others, and a finally may wait in a shield.
    cleaned = []

    async def waits():
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0)
                cleaned.append("cleaned")

    async def fails():
        raise ValueError("wrong")

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(waits)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(fails)
    except BaseExceptionGroup as failure:
        seen["failures"] = [repr(e) for e in failure.exceptions]
    seen["cleaned"] = cleaned

    with pytest.raises(TimeoutError):
        with anyio.fail_after(0.01):
            await anyio.sleep_forever()

    async def started(task_status):
        task_status.started("the value")

    async with anyio.create_task_group() as group:
        seen["started"] = await group.start(lambda *, task_status: started(task_status))

    # Threads, and a way back from them.
    async def double(n):
        return 2 * n

    seen["thread"] = await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(double, 21))

    # A server and its clients.
    async def echo(client):
        async with client:
            async for data in client:
                await client.send(data.upper())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with anyio.create_task_group() as group:
        group.start_soon(listener.serve, echo)
        async with await anyio.connect_tcp("127.0.0.1", port) as client:
            await client.send(b"hello")
            seen["echo"] = await client.receive()
            await client.send_eof()
            with pytest.raises(anyio.EndOfStream):
                await client.receive()
        group.cancel_scope.cancel()

    seen["process"] = (await anyio.run_process(["cat"], input=b"through a pipe")).stdout
    return seen


def test_one_program_on_every_backend():
    pytest.importorskip("trio")
    results = {}
    for name, (backend, options) in BACKENDS.items():
        results[name] = anyio.run(program, backend=backend, backend_options=options)
    assert results["spindle"] == results["asyncio"] == results["trio"]
    assert results["spindle"] == {
        "jobs": [(0, False), (0.001, False), (0.002, False), (60, True), (math.inf, True)],
        "failures": ["ValueError('wrong')"],
        "cleaned": ["cleaned"],
        "started": "the value",
        "thread": 42,
        "echo": b"HELLO",
        "process": b"through a pipe",
    }
