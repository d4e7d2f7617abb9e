"""Virtual time and the marker for pytest."""

import asyncio
import os
import socket
import subprocess
import sys
import time

import pytest

import spindle
import spindle.testing
from conftest import python


def test_an_hour_takes_no_time():
    async def main():
        loop = asyncio.get_running_loop()
        before, began = loop.time(), time.monotonic()
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(1800))
        return loop.time() - before, time.monotonic() - began

    virtual, real = spindle.testing.run(main())
    assert virtual == 3600 and real < 60


def test_years_take_no_time():
    async def main():
        for _ in range(3):
            await asyncio.sleep(365 * 86400)
        return asyncio.get_running_loop().time()

    assert spindle.testing.run(main()) == 3 * 365 * 86400


def test_timers_fire_in_order():
    async def main():
        order = []

        async def note(after):
            await asyncio.sleep(after)
            order.append(after)

        await asyncio.gather(*[note(n) for n in (30, 10, 20)])
        return order

    assert spindle.testing.run(main()) == [10, 20, 30]


def test_time_out_of_a_call_that_hangs():
    async def main():
        async with asyncio.timeout(60):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        spindle.testing.run(main())


DEADLOCK = """
import asyncio, spindle.testing

async def main():
    a, b = asyncio.Lock(), asyncio.Lock()

    async def take(first, second):
        async with first:
            await asyncio.sleep(1)
            async with second:
                pass

    await asyncio.gather(take(a, b), take(b, a))

spindle.testing.run(main())
"""


def test_deadlock_is_an_error():
    # In a process of its own: a thread that another test has left could wake the loop.
    done = subprocess.run([sys.executable, "-c", DEADLOCK], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "RuntimeError" in done.stderr and "deadlock" in done.stderr
    assert done.stderr.count("(main.<locals>.take)") == 2 and "awaits Lock.acquire" in done.stderr


def test_deadlock_after_a_thread_of_the_program_has_ended_is_an_error():
    code, out, err = python("""
        import asyncio, threading, time
        import spindle.testing

        async def main():
            thread = threading.Thread(target=time.sleep, args=(0.3,))
            thread.start()
            await asyncio.Event().wait()

        spindle.testing.run(main())
    """)
    assert code == 1 and "deadlock" in err


SLOW_SERVER = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection = server.accept()[0]
    connection.recv(1)
    time.sleep(0.2)
    connection.send(b"answer")
"""


# In processes of their own, which have a deadline: if virtual time does not pass, sleep(3600) takes an hour.
def test_a_time_out_around_a_connection_to_another_process_takes_its_time():
    with subprocess.Popen([sys.executable, "-c", SLOW_SERVER], stdout=subprocess.PIPE) as server:
        try:
            code, out, err = python("""
                import asyncio, sys
                import spindle.testing

                async def main(port):
                    async with asyncio.timeout(60):
                        reader, writer = await asyncio.open_connection("127.0.0.1", port)
                        writer.write(b"x")
                        print(await reader.read(100))
                    try:
                        async with asyncio.timeout(0.1):
                            await reader.read(100)
                    except TimeoutError:
                        print("timed out")
                    writer.close()
                    await writer.wait_closed()
                    await asyncio.sleep(3600)

                spindle.testing.run(main(int(sys.argv[1])))
            """, server.stdout.readline().decode().strip())
        finally:
            server.kill()
    assert (code, out) == (0, "b'answer'\ntimed out\n"), err


def test_a_time_out_around_a_subprocess_takes_its_time():
    code, out, err = python("""
        import asyncio, subprocess, sys
        import spindle.testing

        async def main():
            async with asyncio.timeout(60):
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", "import time; time.sleep(0.2); print('done')", stdout=subprocess.PIPE)
                out, _ = await process.communicate()
                quiet = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(0.2)")
                print(out, await quiet.wait())
            await asyncio.sleep(3600)

        spindle.testing.run(main())
    """)
    assert (code, out) == (0, "b'done\\n' 0\n"), err


def test_connections_within_the_process_take_no_time():
    async def main():
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        connections = [await asyncio.open_connection(*server.sockets[0].getsockname())]
        connections += [await asyncio.open_connection(sock=end) for end in socket.socketpair()]
        read, write = os.pipe()
        pipe, _ = await loop.connect_read_pipe(asyncio.Protocol, os.fdopen(read, "rb"))
        datagrams, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
        before, began = loop.time(), time.monotonic()
        await asyncio.sleep(3600)
        passed = loop.time() - before, time.monotonic() - began
        for closeable in [server, pipe, datagrams, *(writer for _, writer in connections)]:
            closeable.close()
        os.close(write)
        await asyncio.sleep(1)
        return passed

    virtual, real = spindle.testing.run(main())
    assert virtual == 3600 and real < 60


def test_time_stands_still_while_a_thread_works():
    async def main():
        loop = asyncio.get_running_loop()
        timer = asyncio.ensure_future(asyncio.sleep(0.01))
        await asyncio.to_thread(time.sleep, 0.05)
        during = loop.time()
        assert not timer.done()
        await timer
        return during

    assert spindle.testing.run(main()) < 0.01


def test_sockets_work_in_virtual_time():
    async def main():
        async def echo(reader, writer):
            writer.write(await reader.readline())
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"line\n")
        async with asyncio.timeout(1000):
            line = await reader.readline()
        writer.close()
        server.close()
        await server.wait_closed()
        return line

    assert spindle.testing.run(main()) == b"line\n"


@pytest.mark.spindle
async def test_marker(tmp_path):
    assert isinstance(asyncio.get_running_loop(), spindle.Loop)
    assert tmp_path.exists()


@pytest.mark.spindle(virtual_time=True)
async def test_marker_with_virtual_time():
    await asyncio.sleep(10_000)
