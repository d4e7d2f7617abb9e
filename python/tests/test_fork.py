"""Forks: before the first loop they work, afterwards a loop in the child is refused."""

import asyncio
import concurrent.futures
import multiprocessing

import pytest

import spindle
from conftest import python


def test_fork_after_a_loop_is_refused():
    code, out, err = python("""
    import os, spindle
    spindle.new_event_loop().close()
    pid = os.fork()
    if pid == 0:
        try:
            spindle.new_event_loop()
        except RuntimeError as error:
            print("forked" in str(error), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    """)
    assert (code, out) == (0, "True\n"), err


def test_forked_child_of_a_running_loop_ends():
    """What it inherits is closed and collected without entering Go."""
    code, out, err = python("""
    import asyncio, gc, os, socket, spindle, sys
    async def main():
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        asyncio.get_running_loop().call_later(3600, print)
        pid = os.fork()
        if pid == 0:
            try:
                await asyncio.sleep(1)
            finally:
                print("child", flush=True)
        os.waitpid(pid, 0)
        print("parent", flush=True)
    try:
        spindle.run(main())
    except RuntimeError as error:
        print("forked" in str(error), flush=True)
    gc.collect()
    """)
    assert (code, sorted(out.split())) == (0, ["True", "child", "parent"]), err


def test_fork_before_the_first_loop_works():
    code, out, err = python("""
    import asyncio, os, spindle
    async def main():
        await asyncio.sleep(0.01)
        return "ran"
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            print(spindle.run(main()), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
    """)
    assert (code, out) == (0, "ran\n" * 3), err


async def _double(n):
    await asyncio.sleep(0.001)
    return 2 * n


def _in_child(n):
    return spindle.run(_double(n))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(_in_child, [1, 2, 3]) == [2, 4, 6]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_process_pool_of_a_running_loop(method, loop):
    """run_in_executor starts processes while the loop runs, and their loops are their own."""

    async def main():
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
            return await asyncio.gather(*[loop.run_in_executor(pool, _in_child, n) for n in range(4)])

    assert loop.run_until_complete(main()) == [0, 2, 4, 6]


def test_multiprocessing_fork_with_the_loop_never_used():
    code, out, err = python("""
    import multiprocessing, spindle
    async def main(n):
        return 2 * n
    def child(n):
        return spindle.run(main(n))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(child, range(4)))
    """)
    assert (code, out) == (0, "[0, 2, 4, 6]\n"), err


def test_forked_child_that_makes_no_loop_goes_on():
    """Plain Python works in the child of a process that has used a loop, and so does exec."""
    code, out, err = python("""
    import gc, os, spindle, subprocess, sys
    async def main():
        return subprocess.run([sys.executable, "-c", "print('exec')"], check=True)
    spindle.run(main())
    pid = os.fork()
    if pid == 0:
        gc.collect()
        print(sum(range(10)), flush=True)
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    """)
    assert (code, out) == (0, "exec\n45\n7\n"), err
