"""Clocks and random numbers follow the world; uses of the real system are errors that name the line."""

import asyncio
import datetime
import os
import queue
import random
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from os import getrandom as imported_getrandom
from random import random as imported_random
from socket import socket as imported_socket
from time import monotonic as imported_monotonic
from time import sleep as imported_sleep

import pytest

from spindle.sim import Blocked, NotSimulated, SimError, World


def run(program, seed=1):
    world = World(seed)
    world.host("a").start(program)
    world.run()
    return world


def test_clocks_are_those_of_the_world():
    seen = []

    async def program():
        await asyncio.sleep(86400)
        seen.append((time.time(), datetime.datetime.now(datetime.timezone.utc), time.gmtime()[:5], imported_monotonic()))

    before = time.time()
    run(program)
    assert seen[0][0] == 946684800 + 86400
    assert seen[0][1] == datetime.datetime(2000, 1, 2, tzinfo=datetime.timezone.utc)
    assert seen[0][2] == (2000, 1, 2, 0, 0) and seen[0][3] == 86400
    assert abs(time.time() - before) < 600, "the real clock is back"


def test_random_numbers_follow_the_seed():
    seen = []

    async def program():
        seen.append((random.random(), imported_random(), os.urandom(8), secrets.token_hex(8), uuid.uuid4(), uuid.uuid1(),
                     random.Random().random(), random.SystemRandom().random(), os.getrandom(8), imported_getrandom(8), tempfile.mktemp()))

    state = random.getstate()
    run(program)
    run(program)
    run(program, seed=2)
    assert seen[0] == seen[1]
    assert all(a != b for a, b in zip(seen[1], seen[2]) if not isinstance(a, uuid.UUID) or a.version == 4)
    assert random.getstate() == state, "the program outside keeps its random numbers"
    assert os.urandom(8) != os.urandom(8)


def test_a_library_with_random_numbers_of_its_own_does_not_change_those_of_python():
    """The OpenSSL inside of cryptography asks the system once in the life of a process."""
    ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
    seen = []

    async def program():
        ec.generate_private_key(ec.SECP256R1())
        seen.append(os.urandom(8))

    run(program)
    run(program)
    assert seen[0] == seen[1]


def refused(program, error=NotSimulated):
    world = World()
    world.host("alpha").start(program)
    with pytest.raises(error) as caught:
        world.run()
    return str(caught.value)


def line_of(function, offset):
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


async def sleeps():
    time.sleep(1)


async def sleeps_by_an_imported_name():
    imported_sleep(1)
    await asyncio.sleep(0)


async def waits_for_the_clock():
    end = time.monotonic() + 1
    while time.monotonic() < end:
        pass


async def starts_a_thread():
    threading.Thread(target=print).start()


async def opens_a_real_socket():
    imported_socket()


async def blocks_in_a_socket():
    socket.create_connection(("alpha", 80))


async def fetches_a_page():
    urllib.request.urlopen("http://alpha/")


async def runs_a_process():
    await asyncio.create_subprocess_exec("true")


async def runs_a_process_directly():
    subprocess.run(["true"])


async def writes_a_file():
    open("/tmp/spindle-never-written", "w")


async def handles_a_signal():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)


async def sets_a_signal_handler():
    signal.signal(signal.SIGUSR1, print)


async def sets_an_alarm():
    signal.alarm(1)


async def makes_a_directory():
    os.mkdir("/tmp/spindle-never-written")


async def opens_a_database():
    sqlite3.connect("/tmp/spindle-never-written")


async def catches_the_error():
    try:
        threading.Thread(target=print).start()
    except Exception:
        pass


@pytest.mark.parametrize("program, words, offset", [
    (sleeps, "time.sleep", 1),
    (starts_a_thread, "a thread", 1),
    (opens_a_real_socket, "a real socket", 1),
    (blocks_in_a_socket, "a blocking call of a socket", 1),
    (fetches_a_page, "a blocking call of a socket", 1),
    (runs_a_process, "a subprocess", 1),
    (runs_a_process_directly, "a subprocess", 1),
    (writes_a_file, "opening the file '/tmp/spindle-never-written' for writing", 1),
    (handles_a_signal, "a signal handler", 1),
    (sets_a_signal_handler, "a signal handler", 1),
    (sets_an_alarm, "signal.alarm", 1),
    (makes_a_directory, "changing the file '/tmp/spindle-never-written'", 1),
    (opens_a_database, "a database in a file", 1),
    (catches_the_error, "a thread", 2),
], ids=lambda value: getattr(value, "__name__", None))
def test_what_a_world_does_not_have(program, words, offset):
    said = refused(program)
    assert words in said and "'alpha'" in said
    assert line_of(program, offset) in said
    assert not os.path.exists("/tmp/spindle-never-written")


def test_a_sleep_by_another_name():
    assert "has blocked its thread" in refused(sleeps_by_an_imported_name, Blocked)


async def waits_for_a_lock():
    threading.Event().wait(1)


async def waits_for_a_thread():
    queue.Queue().get(timeout=5)


@pytest.mark.parametrize("program", [waits_for_a_lock, waits_for_a_thread])
def test_a_wait_with_a_time_out(program):
    said = refused(program, Blocked)
    assert "a lock or a queue of threads" in said and line_of(program, 1) in said


def test_a_database_in_memory():
    async def program():
        assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)

    run(program)


def test_handlers_of_signals_that_never_come():
    async def program():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)
        signal.signal(signal.SIGINT, print)

    before = signal.getsignal(signal.SIGINT)
    run(program)
    assert signal.getsignal(signal.SIGINT) is before


def test_files_may_be_read():
    async def program():
        with open(__file__) as file:
            assert file.read(3) == '"""'

    run(program)


def test_other_threads_are_left_alone():
    world, seen, go, done = World(), [], threading.Event(), threading.Event()

    def outside():
        go.wait(30)
        before = time.monotonic()
        time.sleep(0.001)
        with socket.socket() as real:
            seen.append((type(real).__name__, time.monotonic() > before, time.time() > 1e9, os.urandom(8) != os.urandom(8)))
        threading.Thread(target=done.set).start()

    async def program():
        go.set()
        done.wait()

    threading.Thread(target=outside).start()
    world.host("a").start(program)
    world.run()
    assert seen == [("socket", True, True, True)]


def test_work_of_threads_runs_in_the_world():
    seen = []

    async def program():
        seen.append(await asyncio.to_thread(lambda: threading.current_thread() is threading.main_thread()))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)

    run(program)
    assert seen == [True]


def test_work_takes_time():
    world = World()
    world.work_time = 2.5
    world.host("a").start(asyncio.to_thread, print)
    world.run()
    assert world.now == 2.5


def test_one_world_at_a_time():
    async def program():
        World(2).run()

    with pytest.raises(SimError, match="a world runs in this process already"):
        run(program)


def test_what_is_left_is_reported():
    async def never():
        pass

    async def fails():
        raise LookupError("unseen")

    async def program():
        never()
        task = asyncio.create_task(fails())
        await asyncio.sleep(1)
        del task

    with pytest.warns(ResourceWarning, match="at the end of the run"):
        world = run(program)
    text = "\n".join(world.reports)
    assert "never" in text and "was never awaited on host a" in text and "LookupError('unseen')" in text


def test_unpinned_hashes_are_refused(tmp_path):
    program = "import asyncio, spindle.sim\nw = spindle.sim.World()\nw.host('a').start(asyncio.sleep, 1)\nw.run()"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONHASHSEED"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "set PYTHONHASHSEED=0" in done.stderr


async def asks_with_requests():
    import requests

    requests.get("http://alpha/")


def test_requests():
    pytest.importorskip("requests")
    said = refused(asks_with_requests)
    assert "a blocking call of a socket" in said and line_of(asks_with_requests, 3) in said


async def asks_another_world():
    import requests

    requests.get("http://example.com/")


def test_names_of_other_worlds():
    requests = pytest.importorskip("requests")
    assert "'example.com' is none of the world's hosts (alpha)" in refused(asks_another_world, requests.ConnectionError)


def test_what_a_program_leaves_behind_is_reported():
    async def background():
        await asyncio.sleep(1000)

    async def program():
        asyncio.create_task(background(), name="forgotten")
        server = await asyncio.start_server(lambda reader, writer: None, port=80)
        program.connection = await asyncio.open_connection("a", 80)
        server.close()

    with pytest.warns(ResourceWarning, match="forgotten still ran"):
        world = run(program)
    text = "\n".join(world.reports)
    assert f"background at {line_of(background, 1)}" in text
    assert "a connection to ('127.0.0.1', 80) was not closed" in text or "a connection to ('10.0.0.1', 80) was not closed" in text


def test_nothing_is_reported_of_a_program_that_ends_well(recwarn):
    async def program():
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.wait_for(asyncio.sleep(1), 2))
        server = await asyncio.start_server(lambda reader, writer: writer.close(), port=80)
        reader, writer = await asyncio.open_connection("a", 80)
        assert await reader.read() == b""
        writer.close()
        server.close()

    assert run(program).reports == []


def test_python_that_ignores_its_environment_is_not_pinned():
    program = "from spindle.sim.system import hash_is_pinned; print(hash_is_pinned())"
    for options, pinned in (["-s"], True), (["-E"], False):
        done = subprocess.run([sys.executable, *options, "-c", program], env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(pinned)
