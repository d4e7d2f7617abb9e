"""The inspector shows the loops and tasks of Python, also while Python is blocked."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request

import pytest

from conftest import python


class Inspected:
    """A running program and its inspector."""

    def __init__(self, process, address):
        self.process, self.address = process, address

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}", timeout=600) as answer:
            return json.load(answer)

    def loop(self):
        return next(loop for loop in self.get("loops")["loops"] if loop["name"] == "python")

    def go_on(self):
        """Let a program that reads its input go on."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def until(self, find):
        """Call find until it returns a true value, and return that."""
        end = time.monotonic() + 60
        while not (found := find()):
            assert time.monotonic() < end, self.get("snapshot")
            time.sleep(0.02)
        return found

    def tasks(self, *names):
        """Wait until tasks with these names wait, and return all by name."""
        def find():
            tasks = {task["name"]: task for task in self.get(f"tasks?loop={self.loop()['id']}")["tasks"]}
            return tasks if all(name in tasks and tasks[name]["state"] == "waiting" for name in names) else None
        return self.until(find)


@contextlib.contextmanager
def program(source):
    """Run source with an inspector."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import asyncio, ctypes, os, signal, socket, sys, time\nimport spindle\n" + textwrap.dedent(source)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "SPINDLE_INSPECT": "127.0.0.1:0"})
    try:
        line = process.stderr.readline()
        assert line.startswith("spindle: inspector at http://127.0.0.1:"), line + process.stderr.read()
        yield Inspected(process, line.split("http://")[1].strip().rstrip("/"))
    finally:
        process.kill()
        process.communicate()


def test_tasks_and_what_they_await():
    with program("""
        async def leaf(event):
            await event.wait()

        async def branch(event):
            await asyncio.create_task(leaf(event), name="leaf")

        async def main():
            event = asyncio.Event()
            await asyncio.gather(asyncio.create_task(branch(event), name="branch"), asyncio.sleep(3600))

        spindle.run(main())
    """) as inspected:
        tasks = inspected.tasks("Task-1", "branch", "leaf")
        assert tasks["leaf"]["state"] == tasks["branch"]["state"] == "waiting"
        assert tasks["leaf"]["waits_for"] == "Event.wait" and tasks["leaf"]["waits_ns"] > 0
        assert tasks["leaf"]["function"].startswith("leaf ")
        assert tasks["leaf"]["parent"] == tasks["branch"]["id"] and tasks["branch"]["parent"] == tasks["Task-1"]["id"]
        assert tasks["branch"]["held_by_name"] == "leaf"
        # The loop runs while it describes its tasks, and may be seen so.
        loop = inspected.until(lambda: (loop := inspected.loop())["tasks"]["waiting"] == 4 and loop["state"] == "waiting" and loop)
        again = inspected.tasks("leaf")
        assert again["leaf"]["id"] == tasks["leaf"]["id"]


def test_many_tasks_are_described_between_callbacks():
    with program("""
        async def main():
            tasks = [asyncio.create_task(asyncio.sleep(3600), name=f"sleeper {n}") for n in range(600)]
            while True:  # the loop is never idle
                await asyncio.sleep(0)

        spindle.run(main())
    """) as inspected:
        answer = inspected.until(
            lambda: (answer := inspected.get(f"tasks?loop={inspected.loop()['id']}&q=sleeper"))["matched"] == 600 and answer)
        assert answer["loops"][0]["slices"] > 1


def test_loop_that_never_waits_answers():
    with program("""
        pairs = [socket.socketpair() for _ in range(8)]
        loop = spindle.new_event_loop()
        for ours, theirs in pairs:
            theirs.send(b"x")
            loop.add_reader(ours, lambda: None)
        loop.create_task(asyncio.sleep(3600), name="sleeper")
        loop.run_forever()
    """) as inspected:
        inspected.tasks("sleeper")


@pytest.mark.parametrize("block", [
    "time.sleep(3600)",
    "while True: pass",
])
def test_blocked_loop_has_the_stack_of_what_blocks_it(block):
    with program(f"""
        async def main():
            asyncio.current_task().set_name("culprit")
            await asyncio.sleep(0.1)
            {block}

        spindle.run(main())
    """) as inspected:
        loop = inspected.until(lambda: (loop := inspected.loop())["state"] == "blocked" and "main" in loop.get("stack", "") and loop)
        assert "culprit" in loop["task"] and loop["at"]
        blocked = inspected.get("blocked")["blocked"]
        # On a slow machine the start of the program may have blocked the loop too.
        assert [b["ended"] for b in blocked if "culprit" in b["task"]].count(False) == 1


def test_stack_names_functions_and_lines(tmp_path):
    # The innermost frame is that of a library; the line is the innermost one of the program.
    (tmp_path / "shop.py").write_text("import threading\n\n\ndef pay():\n    threading.Event().wait()\n")
    with program(f"""
        sys.path.insert(0, {str(tmp_path)!r})
        import shop

        async def main():
            shop.pay()

        spindle.run(main())
    """) as inspected:
        loop = inspected.until(lambda: (loop := inspected.loop())["state"] == "blocked" and "pay" in loop.get("stack", "") and loop)
        blocked = inspected.until(lambda: [b for b in inspected.get("blocked")["blocked"] if "pay" in b["stack"]])[0]
        assert loop["at"] == blocked["line"] == "shop.py:5 (shop.pay)"
        frames = loop["stack"].splitlines()
        assert frames[0] == "threading.Condition.wait()" and frames[1].startswith("\t") and "threading.py:" in frames[1]
        names = frames[::2]
        assert names.index("shop.pay()") < names.index("__main__.main()")
        assert f"\t{tmp_path}/shop.py:5" in frames[1::2] and 'File "' not in loop["stack"]


def test_loop_is_shown_while_c_code_holds_the_gil():
    with program("""
        async def main():
            asyncio.get_running_loop().add_reader(0, ctypes.PyDLL(None).sleep, 3600)
            await asyncio.create_task(asyncio.sleep(3600), name="sleeper")

        spindle.run(main())
    """) as inspected:
        tasks = inspected.tasks("sleeper")
        inspected.go_on()
        inspected.until(lambda: inspected.loop()["state"] == "blocked")
        answer = inspected.until(  # as they were before
            lambda: (answer := inspected.get(f"tasks?loop={inspected.loop()['id']}"))["loops"][0]["stale"] and answer)
        assert {task["name"] for task in answer["tasks"]} == set(tasks)


def test_end_of_a_block_is_noticed():
    with program("""
        async def main():
            sys.stdin.readline()
            await asyncio.sleep(3600)

        spindle.run(main())
    """) as inspected:
        inspected.until(lambda: inspected.get("blocked")["blocked"])
        inspected.go_on()
        inspected.until(lambda: (blocked := inspected.get("blocked")["blocked"]) and blocked[0]["ended"])
        inspected.until(lambda: inspected.loop()["state"] == "waiting")


def test_loop_that_does_not_run_is_idle():
    with program("""
        loop = spindle.new_event_loop()
        loop.run_until_complete(asyncio.sleep(0))
        time.sleep(3600)
    """) as inspected:
        inspected.until(lambda: inspected.loop()["state"] == "idle")


def test_interrupt_is_not_lost_in_a_question():
    """Ctrl-C arrives at any time, also while the loop answers."""
    with program("""
        loop = spindle.new_event_loop()
        for n in range(2000):
            loop.create_task(asyncio.sleep(3600), name=f"sleeper {n}")._log_destroy_pending = False
        print("ready", flush=True)
        while True:
            try:
                loop.run_forever()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
    """) as inspected:
        assert inspected.process.stdout.readline() == "ready\n"
        inspected.tasks("sleeper 1")
        ended = threading.Event()

        def ask():
            while not ended.is_set():
                inspected.get("tasks?limit=1")

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for _ in range(20):
                inspected.process.send_signal(signal.SIGINT)
                assert inspected.process.stdout.readline() == "interrupted\n"
                inspected.until(lambda: inspected.loop()["state"] != "idle")
        finally:
            ended.set()
            asking.join()


def test_address_is_returned():
    code, out, err = python("""
        import spindle
        address = spindle.inspect()
        assert spindle.inspect() == address and address.startswith("127.0.0.1:")
        import urllib.request
        page = urllib.request.urlopen(f"http://{address}/", timeout=600).read()
        print(b"<html" in page or b"<!doctype html" in page.lower())
    """)
    assert (code, out) == (0, "True\n"), err


def test_address_of_another_machine_is_refused():
    code, out, err = python("""
        import spindle
        try:
            spindle.inspect("0.0.0.0:0")
        except OSError as error:
            print(error)
    """)
    assert code == 0 and "not a loopback address" in out, err


def test_address_that_is_taken_does_not_end_the_program():
    with program("spindle.run(asyncio.sleep(3600))") as inspected:
        done = subprocess.run(
            [sys.executable, "-c", "import asyncio, spindle; spindle.run(asyncio.sleep(0)); print('done')"],
            env={**os.environ, "SPINDLE_INSPECT": inspected.address}, capture_output=True, text=True, timeout=600)
        assert done.stdout == "done\n" and f"SPINDLE_INSPECT={inspected.address}" in done.stderr
