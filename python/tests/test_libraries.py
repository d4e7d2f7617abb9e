"""Other projects' libraries, unmodified, on the loop. Those not installed are left out."""

import asyncio
import contextlib
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

import spindle


async def test_aiohttp():
    aiohttp = pytest.importorskip("aiohttp")
    web = pytest.importorskip("aiohttp.web")

    async def number(request):
        return web.json_response(int(request.query["n"]))

    async def reverse(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data[::-1])
        return socket

    app = web.Application()
    app.add_routes([web.get("/", number), web.get("/ws", reverse)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    base = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    async with aiohttp.ClientSession(base) as session:

        async def get(n):
            async with session.get(f"/?n={n}") as response:
                return await response.json()

        assert await asyncio.gather(*[get(n) for n in range(200)]) == list(range(200))
        async with session.ws_connect("/ws") as socket:
            await socket.send_str("abc")
            assert (await socket.receive()).data == "cba"
    await runner.cleanup()


async def test_websockets():
    websockets = pytest.importorskip("websockets")

    async def echo(socket):
        async for message in socket:
            await socket.send(message)

    async with websockets.serve(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with websockets.connect(f"ws://127.0.0.1:{port}") as client:
            for size in (1, 1000, 500_000):
                await client.send(b"x" * size)
                assert len(await client.recv()) == size


async def test_fastapi_on_uvicorn_with_httpx():
    uvicorn, httpx = pytest.importorskip("uvicorn"), pytest.importorskip("httpx")
    app = pytest.importorskip("fastapi").FastAPI()

    @app.get("/async/{n}")
    async def on_the_loop(n: int):
        return type(asyncio.get_running_loop()).__module__

    @app.get("/sync/{n}")
    def in_a_thread(n: int):
        return n

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", loop="none"))
    with contextlib.suppress(AttributeError):
        server.install_signal_handlers = lambda: None
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
        for n in range(20):
            assert (await client.get(f"/async/{n}")).json() == "spindle.loop"
            assert (await client.get(f"/sync/{n}")).json() == n
    server.should_exit = True
    await serving


def test_uvicorn_with_our_loop_by_name(tmp_path):
    pytest.importorskip("uvicorn")
    (tmp_path / "app.py").write_text(
        "import asyncio\n"
        "async def app(scope, receive, send):\n"
        "    if scope['type'] == 'http':\n"
        "        mode = type(asyncio.get_running_loop()).__module__.encode()\n"
        "        await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "        await send({'type': 'http.response.body', 'body': mode})\n")
    sock = tmp_path / "sock"
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "app:app", "--uds", str(sock), "--loop", "spindle:new_event_loop",
         "--lifespan", "off", "--log-level", "warning"], cwd=tmp_path)

    async def get():
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(sock)
                break
            except OSError:
                assert server.poll() is None
                await asyncio.sleep(0.02)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer

    try:
        assert b"\r\nspindle.loop\r\n" in spindle.run(asyncio.wait_for(get(), 60))
    finally:
        server.terminate()
        server.wait(30)


async def test_redis(tmp_path):
    redis = pytest.importorskip("redis.asyncio")
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server")
    sock = str(tmp_path / "sock")
    server = await asyncio.create_subprocess_exec(
        "redis-server", "--port", "0", "--unixsocket", sock, "--save", "", stdout=subprocess.DEVNULL)
    client = redis.Redis(unix_socket_path=sock)
    while True:
        try:
            await client.ping()
            break
        except redis.ConnectionError:
            assert server.returncode is None
            await asyncio.sleep(0.02)
    await asyncio.gather(*[client.set(f"key{n}", n) for n in range(100)])
    assert int(await client.get("key42")) == 42
    messages = client.pubsub()
    await messages.subscribe("channel")
    await client.publish("channel", "hello")
    async for message in messages.listen():
        if message["type"] == "message":
            assert message["data"] == b"hello"
            break
    await messages.aclose()
    await client.aclose()
    server.terminate()
    await server.wait()


async def test_asyncpg():
    asyncpg = pytest.importorskip("asyncpg")
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs or os.getuid() != 0:
        pytest.skip("no PostgreSQL that this user can start")
    directory = tempfile.mkdtemp(dir="/tmp")  # short, for the socket
    shutil.chown(directory, "postgres")

    async def pg(*command):
        process = await asyncio.create_subprocess_exec(
            "runuser", "-u", "postgres", "--", *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert await process.wait() == 0

    control = os.path.join(programs[-1], "pg_ctl")
    database = os.path.join(directory, "db")
    try:
        await pg(os.path.join(programs[-1], "initdb"), "-D", database, "-A", "trust")
        await pg(control, "-D", database, "-o", f"-k {directory} -h ''", "-l", f"{directory}/log", "-w", "start")
        pool = await asyncpg.create_pool(host=directory, user="postgres", database="postgres", min_size=4, max_size=4)
        doubled = await asyncio.gather(*[pool.fetchval("select $1::int * 2", n) for n in range(100)])
        assert doubled == [2 * n for n in range(100)]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pool.execute("select pg_sleep(60)"), 0.2)
        await pool.close()
        await pg(control, "-D", database, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(directory)


async def test_anyio():
    anyio = pytest.importorskip("anyio")
    async with anyio.create_task_group() as group:
        with anyio.move_on_after(0.05) as scope:
            await anyio.sleep(60)
        assert scope.cancelled_caught
        group.start_soon(anyio.sleep, 0.01)
    assert await anyio.to_thread.run_sync(lambda: 5) == 5
    assert (await anyio.run_process(["echo", "x"])).stdout == b"x\n"


pytestmark = pytest.mark.spindle
