"""Ctrl-C ends a program as it does on asyncio's own loop, in whatever state the program is."""

import concurrent.futures
import signal
import subprocess
import sys
import textwrap
import time

import pytest

PROLOGUE = """
import asyncio, signal, socket, sys, threading, time
import spindle

new_loop = {"spindle": spindle.new_event_loop, "asyncio": asyncio.new_event_loop}[sys.argv[1]]

def run(main):
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)

def say(*words):
    print(*words, flush=True)

def ready():
    say("READY")  # the test sends SIGINT

def interrupt():
    signal.raise_signal(signal.SIGINT)
"""

# Programs, by what they do when SIGINT arrives. Each line READY brings one.
STATES = {
    "waits for nothing": """
        async def main():
            try:
                ready()
                await asyncio.Event().wait()
            finally:
                say("finally")
        run(main())
        """,
    "sleeps": """
        async def main():
            try:
                ready()
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                say("cancelled")
                raise
        run(main())
        """,
    "runs tasks all the time": """
        async def main():
            ready()
            while True:
                await asyncio.sleep(0)
        run(main())
        """,
    "runs a callback": """
        def callback():
            ready()
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                pass
            say("callback ended")
        async def main():
            asyncio.get_running_loop().call_soon(callback)
            try:
                await asyncio.sleep(3600)
            finally:
                say("finally")
        run(main())
        """,
    "blocks in time.sleep, twice": """
        async def main():
            handler = signal.getsignal(signal.SIGINT)
            def again(*args):
                signal.signal(signal.SIGINT, handler)
                handler(*args)
                ready()
            signal.signal(signal.SIGINT, again)
            try:
                ready()
                time.sleep(3600)
            finally:
                say("finally")
        run(main())
        """,
    "cleans up after the first": """
        async def main():
            try:
                ready()
                await asyncio.sleep(3600)
            finally:
                say("cleaning")
                ready()
                await asyncio.sleep(3600)
        run(main())
        """,
    "ignores the first": """
        async def main():
            try:
                interrupt()
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                say("ignored")
            return "result"
        say(run(main()))
        """,
    "waits for a thread": """
        ended = threading.Event()
        async def main():
            try:
                ready()
                await asyncio.to_thread(ended.wait, 60)
            finally:
                say("finally")
                ended.set()
        run(main())
        """,
    "looks up a name": """
        ended = threading.Event()
        def slow(*args, **kwargs):
            ready()
            ended.wait(60)
            return []
        socket.getaddrinfo = slow
        async def main():
            try:
                await asyncio.get_running_loop().getaddrinfo("host.invalid", 80)
            finally:
                ended.set()
        run(main())
        """,
    "has not started": """
        async def main():
            say("main")
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.get_loop().call_soon(interrupt)
            runner.run(main())
        """,
    "takes the first step": """
        async def main():
            interrupt()
            say("step")
            await asyncio.sleep(0)
            say("another step")
        run(main())
        """,
    "has just ended": """
        async def main():
            asyncio.current_task().add_done_callback(lambda task: interrupt())
        run(main())
        """,
    "closes asynchronous generators": """
        async def numbers():
            try:
                yield 1
                yield 2
            finally:
                ready()
                await asyncio.sleep(60)
                say("generator closed")
        async def main():
            global kept
            kept = numbers()
            await anext(kept)
        run(main())
        """,
    "joins the executor": """
        async def main():
            asyncio.get_running_loop().run_in_executor(None, lambda: (ready(), time.sleep(3)))
        run(main())
        """,
    "handles the signal itself": """
        async def main():
            done = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, done.set)
            ready()
            await done.wait()
            say("handled")
        run(main())
        """,
    "runs a loop without a runner": """
        async def main():
            try:
                ready()
                await asyncio.sleep(3600)
            finally:
                say("finally")
        loop = new_loop()
        task = loop.create_task(main())
        try:
            loop.run_until_complete(task)
        except KeyboardInterrupt:
            say("interrupted", task.done(), loop.is_running(), loop.is_closed())
        task.cancel()
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            say("cancelled")
        loop.close()
        """,
    "runs a callback without a runner": """
        def callback():
            interrupt()
            say("never")
        loop = new_loop()
        loop.call_soon(callback)
        loop.call_soon(say, "next")
        try:
            loop.run_forever()
        except KeyboardInterrupt:
            say("interrupted")
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        """,
    "receives data": """
        class Receiver(asyncio.Protocol):
            def data_received(self, data):
                say("received")
                interrupt()
            def connection_lost(self, exc):
                say("lost", exc)
        async def main():
            ours, theirs = socket.socketpair()
            transport, _ = await asyncio.get_running_loop().create_connection(Receiver, sock=ours)
            theirs.send(b"x")
            try:
                await asyncio.sleep(3600)
            finally:
                say("finally")
                transport.close()
                await asyncio.sleep(0)
        run(main())
        """,
    "has descriptors that are always ready": """
        async def main():
            pairs = [socket.socketpair() for _ in range(8)]
            for ours, theirs in pairs:
                theirs.send(b"x")
                asyncio.get_running_loop().add_reader(ours, int)
            ready()
            await asyncio.sleep(3600)
        run(main())
        """,
    "waits for a process": """
        async def main():
            process = await asyncio.create_subprocess_exec("sleep", "3600")
            try:
                ready()
                await process.wait()
            finally:
                process.kill()
                say("killed", await process.wait())
        run(main())
        """,
    "waits for a TLS handshake": """
        async def main():
            import ssl
            ours, theirs = socket.socketpair()
            try:
                ready()
                await asyncio.open_connection(sock=ours, ssl=ssl.create_default_context(), server_hostname="host.invalid")
            finally:
                say("finally")
        run(main())
        """,
    "waits for a peer that does not read": """
        async def main():
            ours, theirs = socket.socketpair()
            reader, writer = await asyncio.open_connection(sock=ours)
            writer.write(bytes(10_000_000))
            try:
                ready()
                await writer.drain()
            finally:
                writer.transport.abort()
                say("finally")
        run(main())
        """,
    "runs its loop in a thread": """
        async def main():
            ready()
            await asyncio.sleep(3600)
        thread = threading.Thread(target=lambda: run(main()), daemon=True)
        thread.start()
        try:
            thread.join()
        except KeyboardInterrupt:
            say("interrupted")
        """,
}


def outcome(source, which):
    process = subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + textwrap.dedent(source), which],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    for line in process.stdout:
        if line == "READY\n":
            time.sleep(0.05)  # the state is more often the one that is meant; the result is the same
            process.send_signal(signal.SIGINT)
        said.append(line.strip())
    _, err = process.communicate(timeout=600)
    return process.returncode, said, err.strip().splitlines()[-1:]


@pytest.fixture(scope="module")
def outcomes():
    """Run all programs, some at a time: most of them wait."""
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        yield {(state, which): pool.submit(outcome, source, which)
               for state, source in STATES.items() for which in ("asyncio", "spindle")}


@pytest.mark.parametrize("state", STATES)
def test_interrupt_while_the_program(state, outcomes):
    expected = outcomes[state, "asyncio"].result()
    assert expected[2] in ([], ["KeyboardInterrupt"]), "the program is wrong"
    assert outcomes[state, "spindle"].result() == expected
