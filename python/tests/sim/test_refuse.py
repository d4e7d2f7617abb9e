"""Each use of what a world does not have is an error that names the line, and has no effect."""

import asyncio
import concurrent.futures
import ctypes
import fcntl
import gc
import io
import multiprocessing
import os
import pathlib
import pdb
import queue
import re
import resource
import select
import selectors
import signal
import socket
import sys
import threading
from select import select as imported_select

import pytest

from spindle.sim import Blocked, NotSimulated, SimError, World


@pytest.fixture(scope="module", autouse=True)
def alone():
    """Wait for the threads of earlier tests, such as those of WSGI apps, which end when their pools are collected. A world
    waits five seconds for each lock that another thread might release."""
    gc.collect()
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(5)


_FORK = multiprocessing.get_context("fork")
_SPAWN = multiprocessing.get_context("spawn")
_SIGNALS = [signal.SIGUSR1]

CALLS = {
    # Pipes and descriptors.
    "os.pipe": lambda path: os.pipe(),
    "os.pipe2": lambda path: os.pipe2(0),
    "os.eventfd": lambda path: os.eventfd(0),
    "os.openpty": lambda path: os.openpty(),
    "os.memfd_create": lambda path: os.memfd_create("a"),
    "select.select": lambda path: select.select([], [], [], 60),
    "select.poll": lambda path: select.poll().poll(60000),
    "select.epoll": lambda path: select.epoll().poll(60),
    "socket.fromfd": lambda path: socket.fromfd(0, socket.AF_INET, socket.SOCK_STREAM),
    "socket.socketpair": lambda path: socket.socketpair(),
    "MSG_PEEK": lambda path: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).recv(1, socket.MSG_PEEK),
    # Files.
    "opening the file": lambda path: open(path, "w"),
    "opening the file ": lambda path: os.open(path, os.O_WRONLY),
    "(os.utime)": lambda path: path.touch(),
    "(os.chmod)": lambda path: os.chmod(path, 0o600),
    "(os.chown)": lambda path: os.chown(path, -1, -1),
    "(os.setxattr)": lambda path: os.setxattr(path, "user.a", b"b"),
    "(os.link)": lambda path: os.link(path, f"{path}.link"),
    "(os.symlink)": lambda path: os.symlink(path, f"{path}.link"),
    "(os.rename)": lambda path: os.rename(path, f"{path}.link"),
    "(os.rename) ": lambda path: os.replace(path, f"{path}.link"),
    "(os.remove)": lambda path: os.remove(path),
    "(os.truncate)": lambda path: os.truncate(path, 0),
    "(os.mkdir)": lambda path: os.mkdir(f"{path}.link"),
    "(os.rmdir)": lambda path: os.rmdir(path.parent),
    "os.mkfifo": lambda path: os.mkfifo(f"{path}.link"),
    "os.mknod": lambda path: os.mknod(f"{path}.link"),
    "(fcntl.flock)": lambda path: fcntl.flock(0, fcntl.LOCK_EX),
    "(fcntl.lockf)": lambda path: fcntl.lockf(0, fcntl.LOCK_EX),
    "(os.lockf)": lambda path: os.lockf(0, os.F_TEST, 0),
    "reading the device '/dev/urandom'": lambda path: open("/dev/urandom", "rb"),
    "reading the pipe": lambda path: open(path.parent / "fifo"),
    # Processes and signals.
    "os.fork": lambda path: os.fork(),
    "os.system": lambda path: os.system("true"),
    "os.posix_spawn": lambda path: os.posix_spawn("/bin/true", ["true"], {}),
    "os.exec": lambda path: os.execv("/bin/true", ["true"]),
    "a subprocess": lambda path: os.popen("true"),
    "a subprocess    ": lambda path: _FORK.Process(target=print).start(),
    "a subprocess ": lambda path: _SPAWN.Process(target=print).start(),
    "a subprocess  ": lambda path: multiprocessing.Queue(),
    "a subprocess   ": lambda path: concurrent.futures.ProcessPoolExecutor(1).submit(print),
    "a thread": lambda path: concurrent.futures.ThreadPoolExecutor(1).submit(print),
    "os._exit": lambda path: os._exit(3),
    "os.abort": lambda path: os.abort(),
    "os.kill": lambda path: os.kill(os.getpid(), signal.SIGUSR1),
    "signal.pause": lambda path: signal.pause(),
    "signal.sigwait": lambda path: signal.sigwait(_SIGNALS),
    "signal.sigtimedwait": lambda path: signal.sigtimedwait(_SIGNALS, 60),
    "signal.pthread_sigmask": lambda path: signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS),
    "signal.siginterrupt": lambda path: signal.siginterrupt(signal.SIGUSR1, True),
    "signal.raise_signal": lambda path: signal.raise_signal(signal.SIGUSR1),
    "signal.setitimer": lambda path: signal.setitimer(signal.ITIMER_REAL, 60),
    # The process that all hosts share.
    "os.chdir": lambda path: os.chdir(path.parent),
    "os.umask": lambda path: os.umask(0o22),
    "os.nice": lambda path: os.nice(0),
    "resource.setrlimit": lambda path: resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)),
    # The keyboard.
    "reading from the keyboard": lambda path: input(),
    "reading from the keyboard (sys.stdin)": lambda path: sys.stdin.readline(),
}


def refused(call, error=NotSimulated):
    async def program():
        try:
            call()
        except Exception:  # the run fails nevertheless
            pass
        await asyncio.sleep(0)

    world = World()
    world.host("alpha").start(program)
    with pytest.raises(error) as caught:
        world.run()
    return str(caught.value)


@pytest.mark.parametrize("words", CALLS)
def test_calls_of_the_real_system(words, tmp_path):
    path = pathlib.Path(tmp_path, "file")
    path.write_text("kept")
    os.mkfifo(tmp_path / "fifo")
    before = os.stat(path), sorted(os.listdir(tmp_path)), os.getcwd()
    said = refused(lambda: CALLS[words](path))
    assert words.rstrip() in said and "on host 'alpha'" in said
    assert f"{__file__}:{CALLS[words].__code__.co_firstlineno}" in said
    assert (os.stat(path), sorted(os.listdir(tmp_path)), os.getcwd()) == before and path.read_text() == "kept"


def locked():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def waits_for_its_own_loop():
    asyncio.run_coroutine_threadsafe(asyncio.sleep(1), asyncio.get_running_loop()).result()


@pytest.mark.parametrize("call", [
    lambda: imported_select([], [], [], 60),
    lambda: selectors.SelectSelector().select(60),
    lambda: selectors.PollSelector().select(60),
    lambda: threading.Event().wait(),
    lambda: queue.Queue().get(),
    lambda: concurrent.futures.Future().result(),
    lambda: multiprocessing.Semaphore(0).acquire(),
    locked,
    waits_for_its_own_loop,
])
@pytest.mark.filterwarnings("ignore")
def test_waits_below_python(call):
    said = refused(call, Blocked)
    assert "'alpha' has blocked its thread" in said and f"{__file__}:" in said


_HELD = threading.Lock()
_HELD.acquire()


def enter_a_lock():
    with _HELD:
        pytest.fail("the lock was not free")


@pytest.mark.parametrize("call", [_HELD.acquire, enter_a_lock])
def test_a_lock_of_several_worlds(call):
    returned = []
    for _ in range(4):
        refused(lambda: returned.append(call()), Blocked)
    assert not returned


def test_a_world_in_another_thread():
    seen = []

    def run():
        world = World()
        world.host("a").start(asyncio.sleep, 1)
        try:
            world.run()
        except SimError as exc:
            seen.append(str(exc))

    other = threading.Thread(target=run)
    other.start()
    other.join(30)
    assert len(seen) == 1 and "main thread" in seen[0]


def test_a_socket_that_blocks_between_two_runs():
    kept = []

    async def program():
        kept.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        await asyncio.sleep(9)

    world = World()
    world.host("a").serve(program)
    world.run_for(1)
    with pytest.raises(NotSimulated, match="a blocking call"):
        kept[0].recv(1)
    world.close()


@pytest.mark.parametrize("send", [
    lambda sock: sock.sendall(b"a", socket.MSG_OOB),
    lambda sock: sock.sendto(b"a", socket.MSG_OOB, ("alpha", 9)),
    lambda sock: sock.sendmsg([b"a"], [], socket.MSG_OOB),
    lambda sock: sock.sendmsg([b"a"], [], socket.MSG_OOB, ("alpha", 9)),
])
def test_flags_of_calls_that_send(send):
    assert "flags 0x1" in refused(lambda: send(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))


def test_looks_that_read_nothing():
    seen = []

    async def program():
        seen.append((hasattr(sys.stdin, "buffer"), hasattr(sys.stdin, "read"), getattr(sys.stdin, "no such name", None), isinstance(1, select.epoll)))
        with open(2, "w", closefd=False) as file, os.fdopen(os.dup(2), "w") as other:
            seen.append((file.writable(), other.writable()))

    world = World()
    world.host("a").start(program)
    world.run()
    assert seen == [(hasattr(sys.stdin, "buffer"), True, None, False), (True, True)]


def test_reads_of_the_keyboard_below_its_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"typed")))
    for call in (lambda: sys.stdin.buffer.read(), lambda: list(sys.stdin), lambda: sys.stdin.detach()):
        assert "reading from the keyboard" in refused(call)


def test_a_lock_that_another_thread_releases():
    lock, asked = threading.Lock(), threading.Event()
    lock.acquire()

    def release():
        asked.wait(30)
        lock.release()

    async def program():
        asked.set()
        lock.acquire()

    other = threading.Thread(target=release)
    other.start()
    world = World()
    world.host("a").start(program)
    world.run()
    other.join(30)


def test_looks_at_sockets_that_do_not_wait():
    """HTTP clients look whether a connection that they have kept was closed; descriptors are those of the world."""
    seen = []

    async def server():
        listener = await asyncio.start_server(lambda reader, writer: writer.close(), port=80)
        await listener.serve_forever()

    async def client():
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("b", 80))
        look = select.poll()
        look.register(sock, select.POLLIN)
        seen.append((look.poll(0), select.select([sock], [sock], [], 0)))
        await asyncio.sleep(1)
        seen.append((look.poll(0), select.select([sock], [], [], 0), sock))
        sock.close()
        seen.append(look.poll(0)[0][1])

    world = World()
    world.delay(0.01)
    world.host("b").serve(server)
    world.host("a").start(client)
    world.run()
    sock = seen[1][2]
    assert seen[0] == ([], ([], [sock], []))
    assert seen[1][0][0][1] == select.POLLIN and seen[1][1] == ([sock], [], []) and seen[2] == select.POLLNVAL


def test_the_test_itself_may_use_the_system():
    seen = []

    def look():
        seen.append(os.pipe())
        selectors.PollSelector().select(0)

    world = World()
    world.after(1, look)
    world.host("a").start(asyncio.sleep, 2)
    world.run()
    for descriptor in seen[0]:
        os.close(descriptor)


def test_programs_of_a_crashed_host_do_not_reach_the_system(tmp_path):
    """Their finally blocks run at the end of the run, while no program runs."""
    path = tmp_path / "file"
    path.write_text("kept")
    calls = [lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), lambda: os.umask(0o777), lambda: os._exit(3), lambda: os.remove(path),
             lambda: select.select([0], [], [], 0), lambda: sys.stdin.readline(), lambda: os.kill(os.getpid(), signal.SIGUSR1)]
    ran = []

    async def program(call):
        try:
            await asyncio.sleep(100)
        finally:
            ran.append(call)
            call()

    before = signal.getsignal(signal.SIGINT), os.umask(0o22)
    world = World()
    host = world.host("a")
    for call in calls:
        host.serve(program, call)
    world.host("b").start(asyncio.sleep, 2)
    world.after(1, host.crash)
    world.run()
    assert (signal.getsignal(signal.SIGINT), os.umask(before[1])) == (before[0], 0o22)
    assert path.read_text() == "kept" and len(ran) == len(calls)


def test_a_debugger_may_read(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("mine.append(number)\ncontinue\n"))
    seen = []

    async def program():
        number, mine = 7, seen
        pdb.Pdb(nosigint=True, readrc=False).set_trace()
        await asyncio.sleep(number + len(mine))

    world = World()
    world.host("a").start(program)
    world.run()
    assert seen == [7]


def test_names_of_tasks_are_counted_in_each_world():
    seen = []

    async def program():
        seen.append((asyncio.current_task().get_name(), asyncio.create_task(asyncio.sleep(0)).get_name()))
        await asyncio.sleep(1)

    for _ in range(2):
        world = World()
        world.host("a").start(program)
        world.run()
    assert seen == [("Task-1", "Task-2")] * 2


def test_tasks_have_the_order_of_their_creation():
    """Libraries make tasks without create_task too; asyncio counts the names of those in the whole process."""
    registered_in_python = sys.version_info < (3, 14)
    seen = []

    async def program():
        loop, made = asyncio.get_running_loop(), [asyncio.current_task()]
        for _ in range(5):
            made += [asyncio.create_task(asyncio.sleep(9)), asyncio.Task(asyncio.sleep(9), loop=loop)]
            if registered_in_python:
                made.append(asyncio.Task(asyncio.sleep(9), loop=loop, name="named"))
        if sys.version_info >= (3, 12):
            loop.set_task_factory(asyncio.eager_task_factory)
            made += [loop.create_task(asyncio.sleep(9)) for _ in range(5)]
        seen.append([made.index(task) for task in host.tasks()])
        await asyncio.sleep(9)

    for _ in range(2):
        world = World()
        host = world.host("a")
        host.serve(program)
        world.run_for(1)
        world.close()
    assert len(seen[0]) > 10 and seen[0] == seen[1]
    if registered_in_python:
        assert seen[0] == sorted(seen[0])


def test_numbers_of_processes():
    seen = []

    async def program():
        seen.append(os.getpid())

    for _ in range(2):
        world = World()
        world.host("a").start(program)
        world.host("b").start(program)
        world.run()
    assert seen[:2] == seen[2:] and seen[0] != seen[1]
    assert os.getpid() not in seen


def exits():
    sys.exit(3)


_EXITS = rf"sys.exit\(3\), at {re.escape(__file__)}:{exits.__code__.co_firstlineno + 1};"


def test_sys_exit():
    async def program():
        await asyncio.sleep(1)
        exits()

    world = World(5)
    world.host("a").start(program)
    with pytest.raises(SimError, match=_EXITS) as caught:
        world.run()
    assert caught.value.__notes__ == ["spindle.sim: seed 5, at 1.000000 s"]


def test_sys_exit_at_the_end():
    async def program():
        try:
            await asyncio.sleep(9)
        finally:
            exits()

    world = World()
    world.host("a").serve(program)
    world.host("b").start(asyncio.sleep, 1)
    with pytest.raises(SimError, match=_EXITS):
        world.run()


def test_exits_that_are_not_of_a_program():
    async def program():
        await asyncio.sleep(1)
        send()

    def send():
        kill(pid, signal.SIGUSR1)

    pid, kill = os.getpid(), ctypes.CDLL(None).kill
    before = signal.signal(signal.SIGUSR1, lambda number, frame: exits())
    try:
        world = World()
        world.host("a").start(program)
        with pytest.raises(SystemExit):
            world.run()
    finally:
        signal.signal(signal.SIGUSR1, before)
    world = World()
    world.host("a").start(asyncio.sleep, 2)
    world.after(1, exits)
    with pytest.raises(SystemExit):
        world.run()
