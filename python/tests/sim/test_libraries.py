"""Libraries of asyncio, unchanged, in a world: with faults and with TLS."""

import asyncio

import pytest

from spindle.sim import Faults, NotSimulated, World
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
    run(*aiohttp_programs(), setup=crashes)


def fastapi_server(**options):
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
        config = uvicorn.Config(app, host="0.0.0.0", port=80, log_config=None, lifespan="on", ws="websockets", **options)
        await uvicorn.Server(config).serve()

    return server


def crashes(world, server, client):
    world.faults = Faults(duration=5, lasting=0.5, crash_every=1, hosts=[server], loss=0.05)


def test_fastapi_with_faults():
    httpx = pytest.importorskip("httpx")

    async def client():
        async with httpx.AsyncClient(timeout=1) as session:
            for number in range(20):
                answer = await until_it_answers(lambda: session.get(f"http://server/items/{number}"), (httpx.HTTPError,))
                assert answer.json() == {"number": number}
                await asyncio.sleep(0.3)

    world = run(fastapi_server(), client, setup=crashes)
    assert any(event["Kind"] == "crash" for event in world.trace())


def test_fastapi_with_tls_and_faults(certificate):
    httpx = pytest.importorskip("httpx")
    path, _, client_side = certificate
    failed = []

    async def client():
        async with httpx.AsyncClient(timeout=1, verify=client_side) as session:

            async def get(number):
                try:
                    return await session.get(f"https://server:80/items/{number}")
                except httpx.HTTPError as exc:
                    failed.append(type(exc).__name__)
                    raise

            for number in range(20):
                answer = await until_it_answers(lambda: get(number), (httpx.HTTPError,))
                assert answer.json() == {"number": number}
                await asyncio.sleep(0.3)

    def faults(world, server, client):
        world.faults = Faults(duration=5, lasting=0.5, crash_every=1, partition_every=2, hosts=[server], loss=0.05, dribble=0.1)

    world = run(fastapi_server(ssl_certfile=path + ".crt", ssl_keyfile=path), client, setup=faults)
    assert failed and any(event["Kind"] == "crash" for event in world.trace())


def test_starlette_with_tls(certificate):
    httpx, uvicorn = pytest.importorskip("httpx"), pytest.importorskip("uvicorn")
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    path, _, client_side = certificate

    async def hello(request):
        return JSONResponse({"scheme": request.url.scheme, "body": (await request.body()).decode()})

    async def stream(request):
        async def parts():
            for number in range(3):
                await asyncio.sleep(1)
                yield f"{number}\n"

        return StreamingResponse(parts())

    app = Starlette(routes=[Route("/hello", hello, methods=["POST"]), Route("/stream", stream)])

    async def server():
        await uvicorn.Server(uvicorn.Config(
            app, host="0.0.0.0", port=443, log_config=None, ssl_certfile=path + ".crt", ssl_keyfile=path)).serve()

    async def client():
        async with httpx.AsyncClient(verify=client_side) as session:
            answer = await until_it_answers(lambda: session.post("https://server/hello", content="abc"), (httpx.HTTPError,))
            assert answer.json() == {"scheme": "https", "body": "abc"}
            async with session.stream("GET", "https://server/stream") as response:
                assert "".join([part async for part in response.aiter_text()]) == "0\n1\n2\n"

    run(server, client)


def test_fastapi_uvicorn_and_httpx():
    httpx = pytest.importorskip("httpx")

    async def client():
        async with httpx.AsyncClient() as session:
            first = await until_it_answers(lambda: session.get("http://server/items/3"), (httpx.HTTPError,))
            assert first.json() == {"number": 3}
            assert (await session.get("http://server/threads")).json() == {"ok": True}
            assert (await session.get("http://server/items/x")).status_code == 422

    run(fastapi_server(), client)


@pytest.mark.parametrize("how", ["plain", "tls", "faults"])
def test_websockets(tls, how):
    websockets = pytest.importorskip("websockets")
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve

    server_side, client_side = tls if how == "tls" else (None, None)

    async def server():
        async def echo(socket):
            async for message in socket:
                await socket.send(message[::-1])

        async with serve(echo, "0.0.0.0", 80, ssl=server_side) as running:
            await running.serve_forever()

    async def talk():
        async with connect(f"{'wss' if client_side else 'ws'}://server:80/", ssl=client_side) as socket:
            for _ in range(3):
                await socket.send("abc")
                assert await socket.recv() == "cba"
                await asyncio.sleep(0.5)

    async def client():
        await until_it_answers(talk, (OSError, websockets.WebSocketException))

    run(server, client, setup=crashes if how == "faults" else None)


@pytest.mark.parametrize("how", ["plain", "tls", "faults"])
def test_redis_against_a_redis_in_python(tls, how):
    redis = pytest.importorskip("redis.asyncio")
    data = {}
    server_side = tls[0] if how == "tls" else None

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

        await (await asyncio.start_server(handle, port=6379, ssl=server_side)).serve_forever()

    errors = redis.ConnectionError, redis.TimeoutError, OSError

    async def client():
        connection = redis.Redis(host="server", protocol=2, ssl=how == "tls", ssl_cert_reqs="none", ssl_check_hostname=False)
        await until_it_answers(lambda: connection.set("a", "1"), errors)
        assert await until_it_answers(lambda: connection.get("a"), errors) == b"1"
        await until_it_answers(lambda: connection.incr("a"), errors)
        assert int(await until_it_answers(lambda: connection.get("a"), errors)) >= 2
        await connection.aclose()
        data.clear()

    run(server, client, setup=crashes if how == "faults" else None)


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


def test_sockets_of_anyio(tls):
    anyio = pytest.importorskip("anyio")

    async def server():
        async def upper(stream):
            async with stream:
                async for data in stream:
                    await stream.send(data.upper())

        await (await anyio.create_tcp_listener(local_port=80)).serve(upper)

    async def client():
        stream = await until_it_answers(lambda: anyio.connect_tcp("server", 80), (OSError,))
        await stream.send(b"abc")
        assert await stream.receive() == b"ABC"
        with anyio.move_on_after(1) as scope:
            await stream.receive()
        assert scope.cancelled_caught
        await stream.aclose()

    run(server, client)


def test_grpc_is_refused():
    """grpc.aio has threads and sockets of its own. It is an error that says so, not a run that hangs."""
    grpc = pytest.importorskip("grpc")

    async def server():
        server = grpc.aio.server()
        server.add_insecure_port("0.0.0.0:80")
        await server.start()

    async def client():
        async with grpc.aio.insecure_channel("server:80") as channel:
            await channel.unary_unary("/service/method")(b"abc")

    for program in (server, client):
        world = World()
        world.host("server").start(program)
        with pytest.raises(NotSimulated, match="grpc.aio does its input and output outside of the world"):
            world.run()
