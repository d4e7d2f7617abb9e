"""Five programs with a classic bug each, and worlds that find it."""

import asyncio
import time

from spindle.sim import Faults

from .programs import connect


async def serve(handle, port=80):
    async with await asyncio.start_server(handle, port=port) as server:
        await server.serve_forever()


async def ask(request, name="server", port=80):
    reader, writer = await connect(name, port)
    try:
        writer.write(request + b"\n")
        answer = await reader.readline()
        if not answer:
            raise ConnectionResetError("no answer")
        return answer.strip()
    finally:
        writer.close()


# A lost update over the wire: read, add one, write back.


def lost_update(world):
    counter = 0

    async def handle(reader, writer):
        nonlocal counter
        request = (await reader.readline()).split()
        if request[0] == b"set":
            counter = int(request[1])
        writer.write(b"%d\n" % counter)
        writer.close()

    async def increment(number):
        await asyncio.sleep(number * 0.003)
        value = int(await ask(b"get"))
        await ask(b"set %d" % (value + 1))

    clients = world.amount("clients", 4)
    world.host("server").serve(serve, handle)
    for number in range(clients):
        world.host(f"client{number}").start(increment, number)
    world.run(within=60)
    assert counter == clients, f"{clients} increments made {counter}"


# A lease that outlives its clock: its holder measures the time with a clock that may be slow.


def lease_outlives_its_clock(world):
    holder, until, writers = None, 0.0, []
    clients = [world.host(f"client{number}") for number in range(2)]
    server = world.host("server")
    world.faults = Faults(duration=20, lasting=2, pause_every=2, hosts=clients)

    async def handle(reader, writer):
        nonlocal holder, until
        verb, name = (await reader.readline()).split()
        granted = holder is None or time.monotonic() >= until
        if verb == b"take" and granted:
            holder, until = name, time.monotonic() + 2
        if verb == b"write":
            writers.append((name, holder))
        writer.write(b"yes\n" if granted or verb == b"write" else b"no\n")
        writer.close()

    async def work(name):
        for _ in range(8):
            if await ask(b"take " + name) == b"yes":
                end = time.monotonic() + 2
                while time.monotonic() < end - 0.5:
                    await ask(b"write " + name)  # the lease may be over when it arrives
                    await asyncio.sleep(0.2)
            await asyncio.sleep(0.5)

    server.serve(serve, handle)
    for client in clients:
        client.start(work, client.name.encode())
    world.run(within=600)
    wrong = [name for name, owner in writers if name != owner]
    assert not wrong, f"{wrong[0].decode()} has written without the lease"


# A retry that pays twice: the answer is lost, not the request.


def retry_pays_twice(world):
    payments = []
    client, server = world.host("client"), world.host("server")
    world.faults = Faults(duration=30, lasting=3, partition_every=5, crash_every=15, hosts=[client])

    async def handle(reader, writer):
        payments.append((await reader.readline()).strip())
        writer.write(b"paid\n")
        writer.close()

    async def pay(order):
        while True:
            try:
                async with asyncio.timeout(1):
                    return await ask(order)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.1)

    async def shop():
        for number in range(10):
            await pay(b"order %d" % number)
            await asyncio.sleep(1)

    server.serve(serve, handle)
    client.start(shop)
    world.faults.hosts = [server]
    world.run(within=600)
    twice = sorted({order for order in payments if payments.count(order) > 1})
    assert not twice, f"{twice[0].decode()} was paid twice"


# A cancellation that leaks a lock: a wait between acquire and try.


def cancellation_leaks_a_lock(world):
    served = []
    client, server = world.host("client"), world.host("server")
    world.link(client, server).long_tail(0.05)

    async def handle(reader, writer):
        await reader.readline()
        writer.write(b"ok\n")
        writer.close()

    async def requests():
        lock = asyncio.Lock()

        async def one(number):
            await lock.acquire()
            await ask(b"check")  # a time-out here leaves the lock locked
            try:
                await ask(b"work")
            finally:
                lock.release()
            served.append(number)

        for number in range(5):
            try:
                await asyncio.wait_for(one(number), 0.4)
            except TimeoutError:
                pass
        async with asyncio.timeout(60):
            await lock.acquire()

    server.serve(serve, handle)
    client.start(requests)
    world.run(within=600)


# A reconnect storm: clients that reconnect at once, all together, when their server was gone. It still works
# for those that have given up, so that it never catches up.


def reconnect_storm(world):
    connected = set()
    server = world.host("server")
    length = world.length(10)
    world.faults = Faults(duration=length, lasting=0.2, crash_every=5, hosts=[server])
    clients = world.amount("clients", 12)

    async def login_server():
        lock = asyncio.Lock()

        async def handle(reader, writer):
            await reader.readline()
            async with lock:
                await asyncio.sleep(0.1)
            writer.write(b"welcome\n")
            await reader.read()

        await serve(handle)

    async def stay_connected(number):
        await asyncio.sleep(number * 0.2)
        while True:
            try:
                async with asyncio.timeout(0.5):
                    reader, writer = await asyncio.open_connection("server", 80)
                    writer.write(b"login\n")
                    await reader.readexactly(8)
                connected.add(number)
                await reader.read()
            except (OSError, TimeoutError, EOFError):
                pass  # at once, without a pause
            connected.discard(number)
            await asyncio.sleep(0.01)

    server.serve(login_server)
    for number in range(clients):
        world.host(f"client{number}").serve(stay_connected, number)
    world.run_for(length)
    world.until(lambda: len(connected) == clients, within=10)


BUGS = [lost_update, lease_outlives_its_clock, retry_pays_twice, cancellation_leaks_a_lock, reconnect_storm]
