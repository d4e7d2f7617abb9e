"""What a program pays before it does anything: for the import, and for the first loop. python -m spindle.bench has the times."""

import json
import os

import pytest

from conftest import python

TRIES = 10


def best(source, limit):
    """Run a program that prints a number until it is within the limit, at most TRIES times. Return the least."""
    least = float("inf")
    for _ in range(TRIES):
        code, out, err = python(source)
        assert code == 0, err
        least = min(least, float(out))
        if least <= limit:
            break
    return least


def test_import_and_first_loop_load_few_modules():
    """Those of asyncio are there anyway. The server, worlds and relay are loaded by programs that use them."""
    code, out, err = python("""
        import asyncio, json, sys
        asyncio.new_event_loop().close()
        before = set(sys.modules)
        import spindle
        imported = set(sys.modules) - before
        spindle.new_event_loop().close()
        print(json.dumps([sorted(imported), sorted(set(sys.modules) - before - imported)]))
    """)
    assert code == 0, err
    imported, of_the_loop = map(set, json.loads(out))
    own = {"_core", "_version", "datagram", "inspector", "internals", "loop", "mode", "scopes", "streams", "transport", "tree"}
    assert imported - {"gc", "_interpreters", "_xxsubinterpreters"} == {"spindle"} | {f"spindle.{name}" for name in own}
    assert of_the_loop == set()


def test_import_loads_no_go_and_starts_no_thread():
    code, out, err = python("""
        import json, os
        import spindle
        with open("/proc/self/maps") as file:
            print(json.dumps(["libspindle" in file.read(), len(os.listdir("/proc/self/task"))]))
    """)
    assert code == 0, err
    assert json.loads(out) == [False, 1]


def test_threads():
    """Besides the main thread and the watchdog: the first, the monitor and the template of Go's runtime, which all Go
    libraries have, and one that started with the first. The runtime may have started another one for work of its own."""
    source = """
        import asyncio, os, spindle

        async def main():
            server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
            for _ in range(20):
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                await reader.read()
                writer.close()
                await asyncio.sleep(0.001)
            server.close()
            print(len(os.listdir("/proc/self/task")))

        spindle.run(main())
    """
    assert best(source, 6) <= 6


def test_threads_of_go_may_use_all_processors():
    code, out, err = python("""
        import os, threading
        import spindle

        before = os.sched_getaffinity(0)
        loop = spindle.new_event_loop()
        masks = {frozenset(os.sched_getaffinity(int(thread))) for thread in os.listdir("/proc/self/task")}
        assert masks == {frozenset(before)}, masks
        loop.close()
        print("done")
    """)
    assert (code, out) == (0, "done\n"), err


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_threads_that_were_there_keep_their_processors():
    code, out, err = python("""
        import os, threading
        import spindle

        pinned, end = threading.Semaphore(0), threading.Event()
        processors = {processor: None for processor in os.sched_getaffinity(0)}

        def work(processor):
            os.sched_setaffinity(0, {processor})
            processors[processor] = threading.get_native_id()
            pinned.release()
            end.wait()

        for processor in processors:
            threading.Thread(target=work, args=(processor,)).start()
            pinned.acquire()
        spindle.new_event_loop().close()
        for processor, thread in processors.items():
            assert os.sched_getaffinity(thread) == {processor}
        end.set()
        print("done")
    """)
    assert (code, out) == (0, "done\n"), err
