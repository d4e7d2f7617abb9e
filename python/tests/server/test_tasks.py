"""What an app can see of the task that it runs in. Its first step runs at once; the app must
not notice."""

import asyncio
import contextvars

import pytest

from .conftest import LIMIT, wait_until


def answer(result):
    async def app(scope, receive, send):
        body = await result()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": repr(body).encode()})

    return app


def test_current_task_in_the_first_step_and_later(serve):
    async def result():
        first = asyncio.current_task()
        in_all = first in asyncio.all_tasks()
        await asyncio.sleep(0)
        return first is not None, in_all, asyncio.current_task() is first, type(first) is asyncio.Task, first.done()

    client = serve(answer(result)).connect()
    for _ in range(3):
        assert client.get().body == b"(True, True, True, True, False)"


@pytest.mark.parametrize("path", ["/", "/items/%C3%A9", "/" + "long" * 200])
def test_the_task_is_named_after_the_request(serve, path):
    async def result():
        return asyncio.current_task().get_name()

    assert serve(answer(result)).connect().get(path + "?q=1").body == repr("GET " + path).encode()


def test_no_task_is_current_afterwards(serve):
    async def result():
        return 1

    server = serve(answer(result))
    server.connect().get()
    assert server.call(lambda: asyncio.current_task().get_coro().__name__) == "_call"


def test_context_variables_belong_to_the_request(serve):
    var = contextvars.ContextVar("var", default="none")

    async def result():
        before = var.get()
        var.set("set")
        await asyncio.sleep(0)
        return before, var.get()

    client = serve(answer(result)).connect()
    for _ in range(3):
        assert client.get().body == b"('none', 'set')"


def test_a_request_can_cancel_itself(serve):
    async def result():
        asyncio.current_task().cancel()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "cancelled", asyncio.current_task().uncancel()

    assert serve(answer(result)).connect().get().body == b"('cancelled', 0)"


def test_timeouts_and_task_groups(serve):
    async def result():
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(3600)
        except TimeoutError:
            pass
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0, i)) for i in range(3)]
        return [task.result() for task in tasks]

    assert serve(answer(result)).connect().get().body == b"[0, 1, 2]"


def test_anyio(serve):
    anyio = pytest.importorskip("anyio")

    async def result():
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep(3600)
        seen = [scope.cancelled_caught, anyio.get_current_task().id != 0]
        with anyio.move_on_after(0.01) as scope:
            await anyio.sleep(3600)
        seen.append(scope.cancelled_caught)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0)
        seen.append(await anyio.to_thread.run_sync(lambda: "thread"))
        return seen

    assert serve(answer(result)).connect().get().body == b"[True, True, True, 'thread']"


def test_task_factory_is_used(serve):
    made = []

    async def result():
        return 1

    server = serve(answer(result))

    def factory(loop, coro, **kwargs):
        made.append(coro)
        return asyncio.Task(coro, loop=loop, **kwargs)

    server.call(server.loop.set_task_factory, factory)
    assert server.connect().get().body == b"1"
    assert made
    server.call(server.loop.set_task_factory, None)


class Endpoint:
    """An app of three arguments that is awaited, as Starlette's HTTPEndpoint is."""

    def __init__(self, scope, receive, send):
        self.send = send

    def __await__(self):
        return self.dispatch().__await__()

    async def dispatch(self):
        await asyncio.sleep(0)
        await self.send({"type": "http.response.start", "status": 200})
        await self.send({"type": "http.response.body", "body": asyncio.current_task().get_name().encode()})


class Proxy:
    """Stands for a coroutine, as wrapt's and Werkzeug's objects do."""

    def __init__(self, coroutine):
        self.coroutine = coroutine

    def __await__(self):
        return self.coroutine.__await__()


@pytest.mark.parametrize("app", [
    Endpoint,
    lambda scope, receive, send: Endpoint(scope, receive, send),
    lambda scope, receive, send: Proxy(Endpoint(scope, receive, send).dispatch()),
    lambda scope, receive, send: asyncio.ensure_future(Endpoint(scope, receive, send).dispatch()),
], ids=["class", "instance", "proxy", "future"])
def test_app_that_returns_an_awaitable(serve, app):
    client = serve(app).connect()
    for _ in range(2):
        response = client.get("/x")
        assert response.status == 200
        assert response.body == b"GET /x" or response.body.startswith(b"Task-")


def test_receive_and_send_are_accepted_as_coroutines(serve):
    async def app(scope, receive, send):
        message = await asyncio.create_task(receive())
        await asyncio.gather(send({"type": "http.response.start", "status": 200}))
        await asyncio.wait_for(send({"type": "http.response.body", "body": message["type"].encode()}), 5)

    assert serve(app).connect().get().body == b"http.request"


def test_other_threads_may_not_send_or_receive(serve):
    async def app(scope, receive, send):
        start = {"type": "http.response.start", "status": 200}

        async def wrongly(operation):
            with pytest.raises(RuntimeError, match="another thread"):
                await operation

        for operation in (send(start), receive()):
            await asyncio.to_thread(asyncio.run, wrongly(operation))
        await send(start)
        loop = asyncio.get_running_loop()
        message = {"type": "http.response.body", "body": b"from a thread"}
        await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(send(message), loop).result())

    assert serve(app).connect().get().body == b"from a thread"


def test_several_tasks_may_receive(serve):
    seen, waiting = [], []

    async def app(scope, receive, send):
        tasks = [asyncio.create_task(receive()) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        waiting.append(True)
        for task in tasks:
            try:
                seen.append((await task)["type"])
            except asyncio.CancelledError:
                seen.append("cancelled")

    client = serve(app).connect().send("GET / HTTP/1.1\nHost: test\n\n")
    wait_until(lambda: waiting)
    client.close()
    wait_until(lambda: len(seen) == 3)
    assert sorted(seen) == ["cancelled", "http.disconnect", "http.request"]


def test_many_requests_leave_nothing_behind(serve):
    import gc

    async def result():
        await asyncio.sleep(0)
        return "x" * 100

    server = serve(answer(result))
    client = server.connect()

    def count():
        gc.collect()
        return len(gc.get_objects())

    for _ in range(50):
        client.get()
    before = server.call(count)
    for _ in range(300):
        client.get()
    assert server.call(count) < before + 100
    assert server.server._core.active == 0


def test_blocking_app_is_named_while_it_blocks(serve, caplog):
    """ASYNC-01: code that blocks in a coroutine delays every request, and is reported."""
    import threading

    go_on = threading.Event()

    async def app(scope, receive, send):
        if scope["path"] == "/block":
            go_on.wait(LIMIT)  # the line that blocks
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    client = serve(app).connect().send("GET /block HTTP/1.1\nHost: test\n\n")
    wait_until(lambda: any("has blocked the loop" in r.getMessage() and "# the line that blocks" in r.getMessage() for r in caplog.records))
    go_on.set()
    assert client.response().status == 200


def test_work_in_a_thread_does_not_block(serve):
    """ASYNC-02: the same work in a thread lets other requests pass."""
    import threading

    go_on = threading.Event()

    async def app(scope, receive, send):
        if scope["path"] == "/thread":
            await asyncio.to_thread(go_on.wait)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    server = serve(app)
    slow = server.connect().send("GET /thread HTTP/1.1\nHost: test\n\n")
    assert server.connect().get("/quick").status == 200
    go_on.set()
    assert slow.response().status == 200
