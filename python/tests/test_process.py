"""The loop in its process: signals, forks, processes, idleness, interpreter exit."""

import asyncio
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import spindle
from conftest import GO_FDS, open_fds


def python(source, *, interrupt_after=None, timeout=60):
    """Run source in an interpreter of its own. It prints READY when it is to be interrupted."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if interrupt_after is not None:
        assert process.stdout.readline() == interrupt_after + "\n"
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


# Where a program can be when Ctrl-C is pressed.
STATES = {
    "waiting for nothing": "print('READY', flush=True); await asyncio.Event().wait()",
    "sleeping": "print('READY', flush=True); await asyncio.sleep(3600)",
    "busy": "print('READY', flush=True)\n        while True: await asyncio.sleep(0)",
    "in a thread": "print('READY', flush=True); await asyncio.to_thread(time.sleep, 0.2); await asyncio.sleep(3600)",
}


@pytest.mark.parametrize("state", STATES)
def test_interrupt_ends_the_program(state):
    code, out, err = python(f"""
    import asyncio, spindle, time
    async def main():
        {STATES[state]}
    try:
        spindle.run(main())
    except KeyboardInterrupt:
        print("interrupted")
    """, interrupt_after="READY")
    assert (code, out) == (0, "interrupted\n"), err


def test_second_interrupt_ends_a_blocking_call():
    """The first one cancels the main task, which cannot notice: asyncio's rule."""
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent("""
    import asyncio, signal, spindle, time
    async def main():
        handler = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *args: (print("signal", flush=True), handler(*args)))
        print("READY", flush=True)
        time.sleep(3600)
    try:
        spindle.run(main())
    except KeyboardInterrupt:
        print("interrupted")
    """)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "READY\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "signal\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "signal\ninterrupted\n")


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


def test_idle_loop_uses_no_cpu_and_does_not_wake_up():
    code, out, err = python("""
    import asyncio, resource, spindle, threading, time
    def usage():
        switches = 0
        for thread in __import__("os").listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/status") as status:
                for line in status:
                    if line.startswith("voluntary_ctxt_switches"):
                        switches += int(line.split()[1])
        use = resource.getrusage(resource.RUSAGE_SELF)
        return use.ru_utime + use.ru_stime, switches
    async def main():
        await asyncio.sleep(1)  # the watchdog is idle too
        before = usage()
        await asyncio.sleep(2)
        after = usage()
        print(f"{after[0] - before[0]:.3f} {after[1] - before[1]}")
    spindle.run(main())
    """)
    assert code == 0, err
    cpu, switches = out.split()
    assert float(cpu) < 0.02
    assert int(switches) < 100  # a timer of 10 ms would make 200


def test_other_threads_run_while_the_loop_waits(loop):
    def count(seconds):
        n, end = 0, time.thread_time() + seconds
        while time.thread_time() < end:
            n += 1
        return n

    async def main():
        begin = time.perf_counter()
        worker = asyncio.ensure_future(asyncio.to_thread(count, 0.2))
        await worker
        return time.perf_counter() - begin

    loop.run_until_complete(main())  # a loop that kept the GIL would never let it end


def test_ten_thousand_loops_leak_nothing():
    async def main():
        await asyncio.sleep(0)

    def make(n):
        for _ in range(n):
            spindle.run(main())

    make(200)
    gc.collect()
    fds, threads = open_fds(), len(os.listdir("/proc/self/task"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    make(int(os.environ.get("SPINDLE_LOOPS", 2000)))
    gc.collect()
    assert open_fds() <= fds + GO_FDS
    assert len(os.listdir("/proc/self/task")) <= threads + 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KB


@pytest.mark.parametrize("ending", [
    "spindle.new_event_loop()",
    "asyncio.set_event_loop(spindle.new_event_loop())",
    "loop = spindle.new_event_loop(); loop.call_later(1, print); loop.call_soon(print)",
    "loop = spindle.new_event_loop(); t = loop.create_task(asyncio.sleep(1)); loop.call_soon(loop.stop); loop.run_forever()",
    "threading.Thread(target=lambda: spindle.run(asyncio.sleep(3600)), daemon=True).start(); time.sleep(0.2)",
])
def test_interpreter_exit_with_open_loops(ending):
    code, out, err = python(f"import asyncio, spindle, threading, time\n{ending}\nprint('end')")
    assert (code, out) == (0, "end\n"), err
