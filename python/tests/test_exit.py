"""The interpreter ends with loops open, in whatever shape, and does not crash or hang."""

import textwrap

import pytest

from conftest import python

ENDINGS = {
    "a loop that never ran": "spindle.new_event_loop()",
    "the current loop": "asyncio.set_event_loop(spindle.new_event_loop())",
    "callbacks and timers": "loop = spindle.new_event_loop(); loop.call_later(1, print); loop.call_soon(print)",
    "a pending task": """
        loop = spindle.new_event_loop()
        task = loop.create_task(asyncio.sleep(1))
        loop.call_soon(loop.stop)
        loop.run_forever()
        """,
    "a loop in a daemon thread": """
        running = threading.Event()
        async def main():
            running.set()
            await asyncio.sleep(3600)
        threading.Thread(target=lambda: spindle.run(main()), daemon=True).start()
        running.wait()
        """,
    "a busy loop in a daemon thread": """
        running = threading.Event()
        async def main():
            while True:
                await asyncio.sleep(0)
                running.set()
        threading.Thread(target=lambda: spindle.run(main()), daemon=True).start()
        running.wait()
        """,
    "a blocked loop in a daemon thread, which the watchdog reports": """
        running = threading.Event()
        async def main():
            running.set()
            time.sleep(3600)
        spindle.Loop.block_report_after = 0.001
        threading.Thread(target=lambda: spindle.run(main()), daemon=True).start()
        running.wait()
        """,
    "open transports": """
        loop = spindle.new_event_loop()
        async def main():
            global server, transport, datagrams
            server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
            transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
            datagrams, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 0))
            transport.write(bytes(10_000_000))
        loop.run_until_complete(main())
        """,
    "a running process": """
        loop = spindle.new_event_loop()
        async def main():
            global process
            process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
        loop.run_until_complete(main())
        """,
    "a TLS connection in its handshake": """
        import socket, ssl
        loop = spindle.new_event_loop()
        ours, theirs = socket.socketpair()
        task = loop.create_task(loop.create_connection(
            asyncio.Protocol, sock=ours, ssl=ssl.create_default_context(), server_hostname="host.invalid"))
        loop.run_until_complete(asyncio.sleep(0.01))
        """,
    "a loop that is closed by a finalizer": """
        class Owner:
            def __init__(self):
                self.loop = spindle.new_event_loop()
            def __del__(self):
                self.loop.run_until_complete(asyncio.sleep(0))
                self.loop.close()
        owner = Owner()
        """,
    "a loop in atexit": "import atexit; atexit.register(lambda: spindle.run(asyncio.sleep(0.01)))",
    "a loop in a cycle": "loop = spindle.new_event_loop(); loop.itself = loop; loop.call_later(60, loop.stop)",
    "a future of an executor": """
        loop = spindle.new_event_loop()
        async def main():
            global future
            future = loop.run_in_executor(None, time.sleep, 0.05)
        loop.run_until_complete(main())
        """,
    "an asynchronous generator": """
        loop = spindle.new_event_loop()
        async def numbers():
            try:
                yield 1
            finally:
                await asyncio.sleep(1)
        async def main():
            global kept
            kept = numbers()
            await anext(kept)
        loop.run_until_complete(main())
        """,
    "SystemExit in a callback": "loop = spindle.new_event_loop(); loop.call_soon(sys.exit, 0); print('end'); loop.run_forever()",
    "os._exit in a task": """
        async def main():
            print('end', flush=True)
            os._exit(0)
        spindle.run(main())
        """,
}

PROLOGUE = "import asyncio, os, spindle, sys, threading, time\n"


@pytest.mark.parametrize("ending", ENDINGS)
def test_exit_with(ending):
    code, out, err = python(PROLOGUE + textwrap.dedent(ENDINGS[ending]) + "\nprint('end')")
    assert (code, out) == (0, "end\n"), err
    assert "fatal" not in err.lower()
