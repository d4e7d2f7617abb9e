"""A finalizer closes the loop, or uses it, inside the call that has given up the last reference."""

import pytest

from conftest import python

# What gives up the last reference to `last`, which the operation takes with take().
DROPS = {
    "remove_reader": "loop.add_reader(fd, print, take()); loop.remove_reader(fd)",
    "remove_writer": "loop.add_writer(fd, print, take()); loop.remove_writer(fd)",
    "remove_reader of a file": "loop.add_reader(File(), print); loop.remove_reader(fd)",
    "add_reader over another": "loop.add_reader(fd, print, take()); loop.add_reader(fd, print)",
    "add_writer over another": "loop.add_writer(fd, print, take()); loop.add_writer(fd, print)",
    "cancel of a callback": "loop.call_soon(print, 1, take(), 2).cancel()",
    "cancel of a timer": "loop.call_later(60, print, 1, take(), 2).cancel()",
    "a callback that ends": "loop.call_soon(lambda last: None, take()); tick()",
    "a timer that fires": "loop.call_later(0, lambda last: None, take()); tick(); tick()",
    "close with a callback": "loop.call_soon(print, take()); loop.close()",
    "close with a timer": "loop.call_later(60, print, take()); loop.close()",
    "close with a reader": "loop.add_reader(fd, print, take()); loop.close()",
    "close with two readers": "loop.add_reader(fd, print, take()); loop.add_reader(other, print); loop.close()",
    "set_protocol": "transport = connect(take()); tick(); transport.set_protocol(asyncio.Protocol())",
    "the end of a connection": "connect(take()).abort(); tick(); tick()",
    "the end of a write": "connect(take()).write(b'x'); tick(); tick()",
    "set_task_factory": "loop.set_task_factory(Finalized()); loop.set_task_factory(None)",
}

# What the finalizer does.
ACTS = {
    "close": "loop.close()",
    "release": "loop._release()",
    "use": "loop.call_soon(print); loop.call_later(60, print); [loop.add_reader(fd, print) for fd in pipes]",
    "tick": "tick()",
}

PROGRAM = """
import asyncio, gc, os, socket, sys, warnings
import spindle

warnings.simplefilter("ignore")
sys.unraisablehook = lambda raised: None
pipes = [end for _ in range(100) for end in os.pipe()]
act, drops = sys.argv[1], sys.argv[2:]


class Finalized(asyncio.Protocol):
    def __call__(self, *args):
        pass

    def fileno(self):
        return fd

    def __del__(self):
        global finalized
        if not finalized:
            finalized = True
            exec(act)


take = File = Finalized


def tick():
    loop.call_soon(lambda: None)
    loop._run_once()


def connect(protocol):
    ends[0].setblocking(False)
    return loop._make_socket_transport(ends[0], protocol)


for drop in drops:
    print(drop, flush=True)
    finalized = False
    loop = spindle.new_event_loop()
    ends = socket.socketpair()
    fd, other = ends[0].fileno(), ends[1].fileno()
    try:
        exec(drop)
        tick()
    except RuntimeError as exc:  # of a loop that is closed
        pass
    gc.collect()
    loop.close()
print("done")
"""


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
def test_finalizers(act):
    code, out, err = python(PROGRAM, act, *DROPS.values())
    assert (code, out[-5:]) == (0, "done\n"), f"{code}: {out[-200:]} {err}"
