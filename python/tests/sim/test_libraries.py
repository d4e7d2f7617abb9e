"""Libraries of asyncio, unchanged, in a world: with faults and with TLS."""

import asyncio

import pytest

from spindle.sim import Faults, World
from spindle.sim.explore import check_twice


def run(server, client, seed=1, setup=None):
    def build(world):
        a, b = world.host("server"), world.host("client")
        a.serve(server)
        b.start(client)
        if setup is not None:
            setup(world, a, b)
        world.run(within=600)

    outcome = check_twice(build, seed)
    if outcome.error is not None:
        raise outcome.error
    return outcome.world


async def until_it_answers(call, errors=(OSError,)):
    for _ in range(200):
        try:
            return await call()
        except errors:
            await asyncio.sleep(0.05)
    raise TimeoutError


def aiohttp_programs(tls=None):
    aiohttp = pytest.importorskip("aiohttp")
    from aiohttp import web

    async def hello(request):
        await asyncio.sleep(0.01)
        return web.json_response({"path": request.path, "body": (await request.read()).decode()})

    async def chat(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data.upper())
        return socket

    async def server():
        app = web.Application()
        app.router.add_post("/{tail:.*}", hello)
        app.router.add_get("/chat", chat)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, port=8080, ssl_context=tls and tls[0]).start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await runner.cleanup()

    async def client():
        scheme, options = ("https", {"ssl": tls[1]}) if tls else ("http", {})
        async with aiohttp.ClientSession() as session:

            async def post(n):
                async with session.post(f"{scheme}://server:8080/{n}", data=f"body {n}", **options) as response:
                    assert await response.json() == {"path": f"/{n}", "body": f"body {n}"}

            for n in range(5):
                await until_it_answers(lambda: post(n), (aiohttp.ClientError, OSError))
            if not tls:
                async with session.ws_connect("http://server:8080/chat") as socket:
                    await socket.send_str("hello")
                    assert (await socket.receive()).data == "HELLO"

    return server, client


def test_aiohttp():
    run(*aiohttp_programs())


def test_aiohttp_with_tls(tls):
    run(*aiohttp_programs(tls))


def test_aiohttp_with_faults():
    def faults(world, server, client):
        world.faults = Faults(duration=5, lasting=0.5, crash_every=1, hosts=[server], loss=0.05)

    run(*aiohttp_programs(), setup=faults)


def fastapi_server():
    fastapi, uvicorn = pytest.importorskip("fastapi"), pytest.importorskip("uvicorn")
    app = fastapi.FastAPI()

    @app.get("/items/{number}")
    async def item(number: int):
        await asyncio.sleep(0.01)
        return {"number": number}

    @app.get("/threads")
    def in_a_thread():
        return {"ok": True}

    @app.websocket("/ws")
    async def echo(socket: fastapi.WebSocket):
        await socket.accept()
        await socket.send_text((await socket.receive_text()).upper())
        await socket.close()

    async def server():
        config = uvicorn.Config(app, host="0.0.0.0", port=80, log_config=None, lifespan="on", ws="websockets")
        await uvicorn.Server(config).serve()

    return server


def test_fastapi_uvicorn_and_httpx():
    httpx = pytest.importorskip("httpx")

    async def client():
        async with httpx.AsyncClient() as session:
            first = await until_it_answers(lambda: session.get("http://server/items/3"), (httpx.HTTPError,))
            assert first.json() == {"number": 3}
            assert (await session.get("http://server/threads")).json() == {"ok": True}
            assert (await session.get("http://server/items/x")).status_code == 422

    run(fastapi_server(), client)


def test_websockets():
    websockets = pytest.importorskip("websockets")
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve

    async def server():
        async def echo(socket):
            async for message in socket:
                await socket.send(message[::-1])

        async with serve(echo, "0.0.0.0", 80) as running:
            await running.serve_forever()

    async def client():
        socket = await until_it_answers(lambda: connect("ws://server/"), (OSError, websockets.WebSocketException))
        await socket.send("abc")
        assert await socket.recv() == "cba"
        await socket.close()

    run(server, client)


def test_redis_against_a_redis_in_python():
    redis = pytest.importorskip("redis.asyncio")
    data = {}

    async def server():
        async def handle(reader, writer):
            while line := await reader.readline():
                words = []
                for _ in range(int(line[1:])):
                    size = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                writer.write(answer(words))
                await writer.drain()
            writer.close()

        def answer(words):
            match words[0].upper():
                case b"SET":
                    data[words[1]] = words[2]
                    return b"+OK\r\n"
                case b"GET":
                    value = data.get(words[1])
                    return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)
                case b"INCRBY":
                    data[words[1]] = b"%d" % (int(data.get(words[1], b"0")) + 1)
                    return b":%s\r\n" % data[words[1]]
            return b"+OK\r\n"  # CLIENT SETINFO and the like

        await (await asyncio.start_server(handle, port=6379)).serve_forever()

    async def client():
        connection = redis.Redis(host="server", protocol=2)
        await until_it_answers(lambda: connection.set("a", "1"), (redis.ConnectionError, OSError))
        assert await connection.get("a") == b"1"
        assert await connection.incr("a") == 2
        await connection.aclose()
        data.clear()

    run(server, client)


def test_scopes_task_groups_and_anyio():
    anyio = pytest.importorskip("anyio")
    import spindle

    async def program():
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1))
        with spindle.move_on_after(2) as scope:
            await asyncio.sleep(100)
        assert scope.cancelled_caught
        async with spindle.Nursery() as nursery:
            nursery.start_soon(asyncio.sleep, 1)
        with anyio.move_on_after(1):
            await anyio.sleep(100)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep, 1)
        assert await anyio.to_thread.run_sync(lambda: 5) == 5

    world = World()
    world.host("a").start(program)
    world.run()
    assert world.now == pytest.approx(6)
