"""The examples run and print what is expected, and the type stubs describe the package."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"

OUTPUT = {
    "run.py": "hello Ada\nhello Grace\n",
    "runner.py": "3\n",
    "install.py": "spindle.loop\n",
    "manual.py": "hello\n",
    "scopes.py": "fetched quick\ngave up: True\n",
}

TYPED = """
import asyncio
import socket
from typing import assert_type

import spindle
import spindle.server
import spindle.testing

async def number() -> int:
    async with spindle.Nursery() as nursery:
        nursery.start_soon(word, "x", 3)
        nursery.cancel_scope.cancel()
    with spindle.move_on_after(1) as scope:
        assert_type(scope.cancelled_caught, bool)
    with spindle.fail_after(3) as failing:
        assert_type(failing, spindle.CancelScope)
    timer: asyncio.TimerHandle = asyncio.get_running_loop().call_later(1, print, "x")
    timer.cancel()
    assert_type(spindle.tree(), str)
    return 1

async def word(a: str, b: int) -> None: ...

assert_type(spindle.run(number()), int)
assert_type(spindle.testing.run(number()), int)
loop = spindle.new_event_loop()
loop.block_report_after = 1
assert_type(loop.run_until_complete(number()), int)
assert_type(spindle.detect_mode(), spindle.ExecutionMode)
policy: asyncio.AbstractEventLoopPolicy = spindle.EventLoopPolicy()

async def datagrams() -> None:
    transport, protocol = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, ("127.0.0.1", 0), reuse_address=True, family=socket.AF_INET)
    assert_type(protocol, asyncio.DatagramProtocol)
    transport.close()

assert_type(spindle.server.Server(spindle.server.Config("main:app", port=80)).run(), int)
assert_type(spindle.server.serve("main:app", workers=2), int)
"""


@pytest.mark.parametrize("name", OUTPUT)
def test_example(name):
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, OUTPUT[name], "")


@pytest.mark.once
def test_types(tmp_path):
    """The examples and a program with every name pass a type checker, and the stubs agree with the package."""
    pytest.importorskip("mypy")
    program = tmp_path / "typed.py"
    program.write_text(TYPED)
    check(tmp_path, "mypy", "--strict", program, *[EXAMPLES / name for name in OUTPUT])
    modules = ("_core", "loop", "mode", "policy", "scopes", "server.config", "server.running", "server.serving", "testing", "tree")
    check(tmp_path, "mypy.stubtest", "--ignore-missing-stub", "--concise", *["spindle." + name for name in modules])


def check(directory, module, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
