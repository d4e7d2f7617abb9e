"""Loops in subinterpreters, and where there can be none."""

import ctypes
import subprocess
import sys
import textwrap

import pytest

import spindle

HAS_LOOPS = sys.version_info >= (3, 13)
needs_loops = pytest.mark.skipif(not HAS_LOOPS, reason="asyncio of this version cannot be used in subinterpreters")

PROLOGUE = """
import datetime  # CPython 3.13 crashes if two subinterpreters import it, and the main one has not
import os, sys, threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def run_in(interpreter, code):
    failed = interpreters.run_string(interpreter, code)
    assert not failed, getattr(failed, "formatted", failed)

def run(code, count=1):
    '''Run code in new interpreters, each in a thread of its own.'''
    failed = []

    def one():
        try:
            interpreter = interpreters.create()
            run_in(interpreter, code)
            interpreters.destroy(interpreter)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
"""


def run_main(code, timeout=600):
    """Run a program in a process of its own: what it does to the interpreter is not for other tests. Return its output."""
    done = subprocess.run([sys.executable, "-c", PROLOGUE + textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_import_and_detect_mode_work_everywhere():
    out = run_main(f"""
        run('''if True:
            import sys, spindle
            assert spindle.detect_mode() is spindle.ExecutionMode.SUBINTERP
            if {HAS_LOOPS}:
                spindle.new_event_loop().close()
            else:
                assert "asyncio" not in sys.modules
                for make in (spindle.new_event_loop, spindle.Loop, lambda: spindle.run(None), spindle.install,
                             lambda: spindle.CancelScope):
                    try:
                        make()
                    except RuntimeError as error:
                        assert "need Python 3.13" in str(error), error
                    else:
                        raise AssertionError(make)
            print("good")
        ''')
        """)
    assert out.strip() == "good"


def test_free_threaded_builds_are_refused_by_the_loop(monkeypatch):
    from spindle import mode, refused

    monkeypatch.setattr(sys, "abiflags", "t")
    assert "free-threaded" in mode.why_no_loops()
    with pytest.raises(RuntimeError, match="never tested"):
        refused.Loop()


@needs_loops
def test_two_interpreters_run_loops_at_the_same_time():
    out = run_main("""
        import spindle  # the main interpreter has a loop too

        async def main():
            import asyncio
            await asyncio.to_thread(run, '''if True:
                import asyncio, spindle

                async def echo(reader, writer):
                    while data := await reader.read(1000):
                        writer.write(data)
                    writer.close()

                async def main():
                    assert isinstance(asyncio.get_running_loop(), spindle.Loop)
                    server = await asyncio.start_server(echo, "127.0.0.1", 0)
                    port = server.sockets[0].getsockname()[1]
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    for i in range(2000):
                        writer.write(b"%d" % i)
                        assert await reader.read(100) == b"%d" % i
                        if i % 100 == 0:
                            await asyncio.sleep(0.001)
                    writer.close()
                    server.close()
                    async with asyncio.timeout(1), asyncio.TaskGroup() as group:
                        for _ in range(100):
                            group.create_task(asyncio.sleep(0.01))
                    return await asyncio.to_thread(lambda: "done")

                print(spindle.run(main()), spindle.run(main()))
            ''', 2)
            return "main done"

        print(spindle.run(main()))
        """)
    assert sorted(out.splitlines()) == ["done done", "done done", "main done"]


@needs_loops
def test_a_thread_that_changes_the_interpreter_finds_the_right_state():
    out = run_main("""
        import asyncio, spindle
        inner = interpreters.create()

        async def main():
            for i in range(3):
                run_in(inner, '''if True:
                    import asyncio, spindle
                    loop = globals().get("loop") or spindle.new_event_loop()
                    loop.run_until_complete(asyncio.sleep(0.001))
                    assert type(loop.call_soon(print)).__module__ == "spindle"
                ''')
                await asyncio.sleep(0.001)

        try:
            asyncio.run(main(), loop_factory=spindle.new_event_loop)
        except RuntimeError as error:
            print(error)
        """)
    assert "Traceback" not in out, out


@needs_loops
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="an old libc does not know how much memory is used")
def test_an_interpreter_leaves_no_more_behind_than_with_asyncio():
    out = run_main("""
        import ctypes

        class Info(ctypes.Structure):
            _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]

        mallinfo2 = ctypes.CDLL(None).mallinfo2
        mallinfo2.restype = Info

        def used():
            info = mallinfo2()
            return info.field7 + info.field4  # uordblks and hblkhd

        def left_by(code):
            for i in range(12):
                if i == 2:  # what is made once is there
                    before = used(), len(os.listdir("/proc/self/fd"))
                interpreter = interpreters.create()
                run_in(interpreter, code)
                interpreters.destroy(interpreter)
            assert len(os.listdir("/proc/self/fd")) == before[1]
            return (used() - before[0]) / 10 / 1024

        program = '''if True:
            import asyncio, warnings
            warnings.simplefilter("ignore")
            async def main():
                asyncio.get_running_loop().call_later(1000, print)
                await asyncio.sleep(0.001)
            with asyncio.Runner(loop_factory=LOOP) as runner:
                runner.run(main())
            left = LOOP()  # never closed
            held = left.call_soon(print, left)
            left.call_later(10, print)
        '''
        print("kilobytes", left_by("import asyncio\\n" + program.replace("LOOP", "asyncio.SelectorEventLoop")),
              left_by("import spindle\\n" + program.replace("LOOP", "spindle.new_event_loop")))
        """)
    asyncios, spindles = map(float, out.split("kilobytes")[1].split())
    assert spindles < asyncios + 30, out  # the state of the module alone has more


@needs_loops
def test_a_blocked_loop_is_reported():
    out = run_main("""
        run('''if True:
            import asyncio, logging, spindle, time
            reported = []

            class Handler(logging.Handler):
                def emit(self, record):
                    reported.append(record.getMessage())

            logging.getLogger("asyncio").addHandler(Handler())

            async def culprit():
                deadline = time.monotonic() + 60
                while not reported and time.monotonic() < deadline:
                    pass

            loop = spindle.new_event_loop()
            loop.block_report_after = 0.1
            loop.run_until_complete(loop.create_task(culprit(), name="slowpoke"))
            loop.close()
            assert "task 'slowpoke' (culprit) has blocked the loop" in reported[0] and "in culprit" in reported[0], reported
            print("reported")
        ''', 2)
        """)
    assert out.split() == ["reported"] * 2


@needs_loops
def test_the_inspector_shows_the_tasks_of_all_interpreters():
    out = run_main("""
        run('''if True:
            import asyncio, spindle, urllib.request
            async def wait_here():
                await asyncio.sleep(100)
            async def main():
                task = asyncio.create_task(wait_here(), name="sleeper")
                address = spindle.inspect()
                def get(path):
                    with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as response:
                        return response.read()
                page = await asyncio.to_thread(get, "/api/v1/tasks")
                assert b"sleeper" in page, page[:1000]
                print(address)
            spindle.run(main())
        ''', 2)
        """)
    assert len(set(out.split())) == 1, out


@needs_loops
def test_worlds_need_the_main_interpreter():
    out = run_main("""
        run('''if True:
            import spindle
            from spindle import _core
            try:
                _core.World(1)
            except RuntimeError as error:
                print(error)
        ''')
        """)
    assert "needs the main interpreter" in out
