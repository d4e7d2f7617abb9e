"""Other threads use a loop that waits: nothing ends the process, and changes take effect."""

import asyncio
import gc
import os
import socket
import threading

import pytest

import spindle
from conftest import echo_server, python


def in_thread(function):
    """Call function in a thread, and return its result or its exception."""
    outcome = []

    def call():
        try:
            outcome.append(function())
        except Exception as exc:
            outcome.append(exc)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return outcome[0]



async def meanwhile(function):
    """Call function in a thread while the loop waits, and return its outcome."""
    return await asyncio.get_running_loop().run_in_executor(None, in_thread, function)


@pytest.fixture
def pair():
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)
    yield pair
    for end in pair:
        end.close()


def test_a_reader_that_another_thread_adds_is_called(run, pair):
    async def main():
        loop, seen = asyncio.get_running_loop(), asyncio.Event()
        pair[1].send(b"x")
        await meanwhile(lambda: loop.add_reader(pair[0], seen.set))
        await seen.wait()
        assert loop.remove_reader(pair[0])

    run(main())


def test_a_reader_that_another_thread_removes_is_not_called(run, pair):
    async def main():
        loop, seen = asyncio.get_running_loop(), []
        loop.add_reader(pair[0], seen.append, 1)
        assert await meanwhile(lambda: loop.remove_reader(pair[0])) is True
        pair[1].send(b"x")
        await asyncio.sleep(0.01)
        assert seen == []

    run(main())


def test_a_descriptor_that_cannot_be_watched_is_refused_in_another_thread_too(run, tmp_path):
    async def main():
        loop = asyncio.get_running_loop()
        with open(tmp_path / "file", "w") as file:
            assert isinstance(await meanwhile(lambda: loop.add_reader(file, print)), PermissionError)
        assert isinstance(await meanwhile(lambda: loop.add_reader(10_000, print)), OSError)

    run(main())


def test_a_number_that_another_thread_gives_to_another_file_is_watched(run):
    async def main():
        loop, seen = asyncio.get_running_loop(), asyncio.Event()
        old, new = os.pipe(), os.pipe()
        loop.add_reader(old[0], print)

        def replace():
            loop.remove_reader(old[0])
            os.dup2(new[0], old[0])
            loop.add_reader(old[0], seen.set)
            os.write(new[1], b"x")

        await meanwhile(replace)
        await seen.wait()
        loop.remove_reader(old[0])
        for fd in (*old, *new):
            os.close(fd)

    run(main())


@pytest.mark.parametrize("end", ["abort", "close"])
def test_a_connection_that_another_thread_ends_is_lost(run, end):
    async def main():
        loop, lost = asyncio.get_running_loop(), asyncio.Event()

        class Client(asyncio.Protocol):
            def connection_lost(self, exc):
                lost.set()

        server, address = await echo_server()
        transport, _ = await loop.create_connection(Client, *address)
        await meanwhile(getattr(transport, end))
        await lost.wait()
        server.close()

    run(main())


def test_changes_in_other_threads_are_refused_in_debug_mode(pair):
    async def main():
        loop = asyncio.get_running_loop()
        server, address = await echo_server()
        transport, _ = await loop.create_connection(asyncio.Protocol, *address)
        for change in (lambda: loop.add_reader(pair[0], print), lambda: loop.remove_reader(pair[0]), transport.abort):
            refused = await meanwhile(change)
            assert isinstance(refused, RuntimeError) and "Non-thread-safe" in str(refused)
        transport.abort()
        server.close()

    spindle.run(asyncio.wait_for(main(), 30), debug=True)


def test_the_collector_finalizes_a_forgotten_connection_in_another_thread():
    code, out, err = python("""
        import asyncio, gc, spindle

        async def main():
            loop = asyncio.get_running_loop()
            ended = asyncio.Event()

            async def serve(reader, writer):
                await reader.read()
                ended.set()
                writer.close()

            class Owner:
                def __init__(self, writer):
                    self.writer, self.itself = writer, self
                def __del__(self):
                    self.writer.transport.abort()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            for _ in range(20):
                ended.clear()
                gc.disable()
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                Owner(writer)
                del reader, writer
                await asyncio.to_thread(gc.collect)
                await asyncio.wait_for(ended.wait(), 10)
            server.close()
            print("done")

        spindle.run(main())
    """)
    assert (code, out) == (0, "done\n"), err


MISUSES = {
    "_run_once": "_run_once()",
    "_run": "_run(0)",
    "_release": "_release()",
    "run_forever": "run_forever()",
    "close": "close()",
}


@pytest.mark.parametrize("call", MISUSES.values(), ids=MISUSES.keys())
def test_misuse_from_another_thread_raises(call):
    code, out, err = python(f"""
        import asyncio, spindle

        def misuse(loop):
            try:
                loop.{call}
            except RuntimeError as exc:
                return str(exc)

        async def main():
            loop = asyncio.get_running_loop()
            print(await asyncio.to_thread(misuse, loop) is not None)
            await asyncio.sleep(0.001)

        spindle.run(main())
    """)
    assert (code, out) == (0, "True\n"), err


@pytest.mark.parametrize("call", ["_run_once()", "_run(0)", "run_forever()", "call_soon(print)", "add_reader(0, print)"])
def test_the_use_of_a_closed_loop_raises(call):
    code, out, err = python(f"""
        import spindle
        loop = spindle.new_event_loop()
        loop.close()
        loop._release()
        try:
            loop.{call}
        except RuntimeError as exc:
            print(exc)
    """)
    assert (code, out) == (0, "Event loop is closed\n"), err


def test_a_closed_loop_that_claims_to_be_open_raises():
    code, out, err = python("""
        import os, spindle
        loop = spindle.new_event_loop()
        loop.close()
        loop._closed = False
        loop.add_reader(os.pipe()[0], print)
        try:
            loop._run_once()
        except RuntimeError as exc:
            print(exc)
        loop._closed = True
    """)
    assert (code, out) == (0, "Event loop is closed\n"), err


def test_a_tick_inside_a_tick_runs_the_other_callbacks(loop):
    seen = []
    loop.call_soon(lambda: (seen.append("before"), loop._run_once(), seen.append("after")))
    loop.call_soon(seen.append, "inside")
    loop._run_once()
    assert seen == ["before", "inside", "after"]


def test_an_unclosed_session_is_collected_in_another_thread():
    pytest.importorskip("aiohttp")
    code, out, err = python("""
        import asyncio, gc, logging, warnings
        import aiohttp, spindle
        from aiohttp import web
        warnings.simplefilter("ignore")
        logging.disable()

        async def main():
            app = web.Application()
            app.router.add_get("/", lambda request: web.Response(text="ok"))

            async def handler(request):
                return web.Response(text="ok")
            app = web.Application()
            app.router.add_get("/", handler)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            address = runner.addresses[0]
            gc.disable()

            async def forget():
                session = aiohttp.ClientSession()
                session.itself = session
                async with session.get("http://%s:%d/" % address) as response:
                    assert await response.text() == "ok"

            for _ in range(10):
                await forget()
                await asyncio.to_thread(gc.collect)
            await runner.cleanup()
            print("done")

        spindle.run(main())
    """)
    assert (code, out) == (0, "done\n"), err


def test_threads_that_change_watches_all_the_time():
    loop = spindle.new_event_loop()
    ends = [socket.socketpair() for _ in range(8)]
    stop = threading.Event()

    def change(end):
        while not stop.is_set():
            loop.add_reader(end, lambda: None)
            loop.add_writer(end, loop.call_soon, lambda: None)
            loop.remove_writer(end)
            loop.remove_reader(end)

    threads = [threading.Thread(target=change, args=(end,)) for end, _ in ends]

    async def main():
        for thread in threads:
            thread.start()
        for _ in range(300):
            await asyncio.sleep(0.0005)
        stop.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)

    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    for a, b in ends:
        a.close()
        b.close()
    gc.collect()
