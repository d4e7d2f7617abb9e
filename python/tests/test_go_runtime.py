"""Go's runtime is a guest: signals are the program's, and what it cannot have raises an exception."""

import pytest

from conftest import python


def test_signals_that_the_program_has_blocked_wait_for_it():
    code, out, err = python("""
        import asyncio, os, signal
        import spindle

        waited_for = [signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGRTMIN, signal.SIGRTMIN + 5, signal.SIGCHLD, signal.SIGPROF]

        async def main():
            signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)  # threads of Go and the watchdog exist already
            for number in waited_for * 5:
                os.kill(os.getpid(), number)
                assert signal.sigtimedwait([number], 10).si_signo == number
                await asyncio.sleep(0.001)
            print("done")

        spindle.run(main())
    """)
    assert (code, out) == (0, "done\n"), err


def test_end_of_a_child_waits_for_the_program():
    code, out, err = python("""
        import asyncio, os, signal
        import spindle

        async def main():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            for _ in range(5):
                child = await asyncio.create_subprocess_exec("true")
                await child.wait()
                assert signal.sigtimedwait([signal.SIGCHLD], 10).si_pid == child.pid
            print("done")

        spindle.run(main())
    """)
    assert (code, out) == (0, "done\n"), err


def test_threads_of_go_block_the_signals_of_the_program():
    code, out, err = python("""
        import os, signal, threading
        import spindle

        loop = spindle.new_event_loop()
        loop.run_until_complete(loop.shutdown_asyncgens())
        faults = {signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP, 16,
                  signal.SIGKILL, signal.SIGSTOP, 32, 33}  # 16 is SIGSTKFLT; the last two are those of threads in libc
        for thread in os.listdir("/proc/self/task"):
            if int(thread) == threading.main_thread().native_id:
                continue
            with open(f"/proc/self/task/{thread}/status") as file:
                mask, = (int(line.split()[1], 16) for line in file if line.startswith("SigBlk:"))
            open_to = {number for number in range(1, 65) if not mask & 1 << number - 1}
            assert open_to <= faults, (thread, open_to - faults)
        loop.close()
        print("done")
    """)
    assert (code, out) == (0, "done\n"), err


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_program_has_sigurg_for_itself(when):
    code, out, err = python("""
        import asyncio, os, signal, sys, time
        import spindle

        seen = []

        def handle():
            signal.signal(signal.SIGURG, lambda number, frame: seen.append(number))

        if sys.argv[1] == "before":
            handle()
        loop = spindle.new_event_loop()
        if sys.argv[1] == "after":
            handle()

        async def main():  # Go allocates, so that it collects garbage, and would preempt threads
            server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
            for _ in range(2000):
                _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.close()
            server.close()
            assert seen == []
            os.kill(os.getpid(), signal.SIGURG)
            while not seen:
                await asyncio.sleep(0.001)
            print(len(seen))

        loop.run_until_complete(asyncio.wait_for(main(), 60))
        loop.close()
    """, when)
    assert (code, out) == (0, "1\n"), err


def test_too_little_address_space_raises():
    code, out, err = python("""
        import resource
        import spindle
        resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20))
        try:
            spindle.new_event_loop()
        except MemoryError as exc:
            print(exc)
    """)
    assert code == 0 and "address space" in out, err


def test_too_few_threads_raise():
    code, out, err = python("""
        import os, resource
        import spindle
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        if os.getuid() == 0:
            os.setresuid(65534, 65534, 65534)  # root has no limit
        try:
            spindle.new_event_loop()
        except RuntimeError as exc:
            print(exc)
    """)
    assert code == 0 and "threads" in out, err
