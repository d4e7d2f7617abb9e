"""The loop in its process: signals, child processes, idleness."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import spindle
from conftest import python


def test_signal_handlers_run_on_the_loop(loop):
    async def main():
        arrived = loop.create_future()
        loop.add_signal_handler(signal.SIGUSR1, arrived.set_result, threading.get_ident())
        os.kill(os.getpid(), signal.SIGUSR1)
        assert await asyncio.wait_for(arrived, 10) == threading.get_ident()
        assert loop.remove_signal_handler(signal.SIGUSR1)

    loop.run_until_complete(main())


def test_subprocess(loop):
    async def main():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print(input()[::-1])", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, _ = await process.communicate(b"spindle\n")
        return process.returncode, out

    assert loop.run_until_complete(main()) == (0, b"eldnips\n")
    # The child watcher of asyncio keeps a thread no longer than the child lives.
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.name.startswith("waitpid"):
            thread.join(10)


def scheduled(pid):
    """Return the nanoseconds and the time slices that the threads of a process have had."""
    total = [0, 0]
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
            ran, _, slices = map(int, f.read().split())
        total[0] += ran
        total[1] += slices
    return total


@pytest.mark.once
def test_idle_loop_uses_no_cpu_and_does_not_wake_up():
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent("""
    import asyncio, socket, spindle
    async def main():
        reader, writer = await asyncio.open_connection(sock=ours)
        await asyncio.to_thread(print, "READY", flush=True)
        await asyncio.wait_for(reader.read(1), 3600)
    ours, theirs = socket.socketpair()
    spindle.run(main())
    """)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "READY\n"
        for _ in range(20):  # its watchdog and Go's runtime have to come to rest; Go may collect once
            before = scheduled(process.pid)
            time.sleep(5)
            after = scheduled(process.pid)
            if after == before:
                break
        assert after == before
    finally:
        process.kill()
        process.communicate()


def test_waiting_loop_leaves_other_threads_alone():
    """A thread that computes is not disturbed: the thread of the loop sleeps, and does not ask for the GIL."""
    code, out, err = python("""
    import asyncio, os, spindle, threading, time

    def switches(thread):
        with open(f"/proc/self/task/{thread}/status") as file:
            return [int(line.split()[1]) for line in file if "ctxt_switches" in line]

    def compute(thread):
        for _ in range(100):  # until the loop has come to wait
            before, end = switches(thread), time.thread_time() + 0.05
            while time.thread_time() < end:
                pass
            if switches(thread) == before:
                return True
        return False

    async def main():
        return await asyncio.to_thread(compute, threading.get_native_id())

    print(spindle.run(main()))
    """)
    assert (code, out) == (0, "True\n"), err
