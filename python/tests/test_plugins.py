"""Programs that make the loop themselves can be told to make ours: test plugins, servers, notebooks."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request

import pytest

import spindle

pytestmark = pytest.mark.once

HERE = "import asyncio, spindle\ndef check(): assert isinstance(asyncio.get_running_loop(), spindle.Loop)\n"


def run_pytest(tmp_path, conftest, test, *options):
    (tmp_path / "conftest.py").write_text(HERE + textwrap.dedent(conftest))
    (tmp_path / "test_it.py").write_text("import pytest\nfrom conftest import check\n" + textwrap.dedent(test))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", *options], cwd=tmp_path,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_pytest_plugin(tmp_path):
    out = run_pytest(tmp_path, "", """
    @pytest.fixture
    def fixture(): return 7
    @pytest.mark.spindle
    async def test_plain(fixture): check(); assert fixture == 7
    @pytest.mark.spindle
    @pytest.mark.parametrize("n", [1, 2])
    async def test_parameters(n): check()
    class TestMethods:
        pytestmark = pytest.mark.spindle
        async def test_method(self): check()
    @pytest.mark.spindle
    def test_not_async(): pass
    """, "-p", "no:asyncio", "-p", "no:anyio")
    assert "5 passed" in out


def test_pytest_plugin_refuses_other_arguments(tmp_path):
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.spindle(virtualtime=True)\nasync def test(): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert "the only argument of the marker spindle is virtual_time=True" in done.stdout


def test_marker_under_the_auto_mode_of_pytest_asyncio(tmp_path):
    pytest.importorskip("pytest_asyncio")
    out = run_pytest(tmp_path, "", """
    import asyncio, functools, time
    def decorated(function):
        @functools.wraps(function)
        async def call(*args, **kwargs): return await function(*args, 7, **kwargs)
        return call
    @pytest.fixture
    def fixture(): return 7
    @pytest.mark.spindle
    async def test_plain(fixture): check(); assert fixture == 7
    class TestMethods:
        @pytest.mark.spindle(virtual_time=True)
        async def test_method(self):
            check()
            self.began = time.monotonic()
            await asyncio.sleep(3600)
        @pytest.mark.spindle
        @decorated
        async def test_decorated(self, argument=None): check(); assert argument == 7
    async def test_of_asyncio():
        with pytest.raises(AssertionError): check()
    """, "-p", "no:anyio", "-o", "asyncio_mode=auto")
    assert "4 passed" in out


def test_pytest_asyncio_hook(tmp_path):
    plugin = pytest.importorskip("pytest_asyncio.plugin")
    if not hasattr(plugin, "_collect_hook_loop_factories"):
        pytest.skip("this pytest-asyncio has no hook for loop factories")
    out = run_pytest(tmp_path, """
    def pytest_asyncio_loop_factories(config, item):
        return {"spindle": spindle.new_event_loop}
    """, """
    @pytest.mark.asyncio
    async def test_on_our_loop(): check()
    """, "--asyncio-mode=strict")
    assert "1 passed" in out


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="policies are deprecated")
def test_pytest_asyncio_policy(tmp_path):
    pytest.importorskip("pytest_asyncio")
    out = run_pytest(tmp_path, """
    import pytest
    @pytest.fixture(scope="session")
    def event_loop_policy():
        return spindle.EventLoopPolicy()
    """, """
    @pytest.mark.asyncio
    async def test_on_our_loop(): check()
    """, "--asyncio-mode=strict")
    assert "1 passed" in out


def test_anyio_plugin(tmp_path):
    pytest.importorskip("anyio")
    out = run_pytest(tmp_path, """
    import pytest
    @pytest.fixture
    def anyio_backend():
        return "asyncio", {"loop_factory": spindle.new_event_loop}
    """, """
    import anyio
    @pytest.mark.anyio
    async def test_on_our_loop():
        check()
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0.001)
        assert await anyio.to_thread.run_sync(int) == 0
    """, "-p", "no:asyncio")
    assert "1 passed" in out


def test_anyio_run():
    anyio = pytest.importorskip("anyio")

    async def main():
        return type(asyncio.get_running_loop())

    assert anyio.run(main, backend_options={"loop_factory": spindle.new_event_loop}) is spindle.Loop


@pytest.mark.parametrize("base", ["asyncio", "spindle"])
def test_fastapi_test_client(base):
    """It runs the application on a loop of its own in a thread, also beside a loop of Spindle."""
    testclient, fastapi = pytest.importorskip("fastapi.testclient"), pytest.importorskip("fastapi")

    @contextlib.asynccontextmanager
    async def lifespan(app):
        yield {"loop": type(asyncio.get_running_loop()).__module__}

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.get("/")
    async def loop(request: fastapi.Request):
        await asyncio.sleep(0.001)
        return [type(asyncio.get_running_loop()).__module__, request.state.loop]

    @app.websocket("/ws")
    async def echo(socket: fastapi.WebSocket):
        await socket.accept()
        await socket.send_text((await socket.receive_text())[::-1])
        await socket.close()

    def use():
        with testclient.TestClient(app, backend_options={"loop_factory": spindle.new_event_loop}) as client:
            assert client.get("/").json() == ["spindle.loop"] * 2
            with client.websocket_connect("/ws") as socket:
                socket.send_text("abc")
                assert socket.receive_text() == "cba"

    async def main():
        use()

    use()
    (spindle if base == "spindle" else asyncio).run(main())


def test_gunicorn_forks_before_the_first_loop(tmp_path):
    """The master imports the package and the application; its workers make the loops."""
    pytest.importorskip("gunicorn")
    pytest.importorskip("uvicorn")
    (tmp_path / "app.py").write_text(textwrap.dedent("""
    import asyncio, os, warnings
    import spindle
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from uvicorn_worker import UvicornWorker
        except ImportError:
            from uvicorn.workers import UvicornWorker

    class Worker(UvicornWorker):
        CONFIG_KWARGS = {"loop": "spindle:new_event_loop", "http": "h11", "lifespan": "off"}

    async def app(scope, receive, send):
        body = f"{type(asyncio.get_running_loop()).__module__} {os.getpid()}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": body})
    """))
    try:
        __import__("uvicorn_worker")
    except ImportError:
        pytest.importorskip("uvicorn.workers", exc_type=ImportError)
    log = tmp_path / "log"
    master = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--preload", "-w", "2", "-k", "app.Worker", "-b", "127.0.0.1:0",
         "--worker-tmp-dir", str(tmp_path), "--no-control-socket", "app:app"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log.open("w"),
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"})
    try:
        end, workers = time.monotonic() + 60, set()
        while len(workers) < 2:
            assert master.poll() is None and time.monotonic() < end, log.read_text()
            lines = [line for line in log.read_text().splitlines() if "Listening at: " in line]
            with contextlib.suppress(OSError, IndexError):
                url = lines[0].split("Listening at: ")[1].split()[0]
                module, pid = urllib.request.urlopen(url, timeout=10).read().decode().split()
                assert module == "spindle.loop"
                workers.add(pid)
            time.sleep(0.01)
        master.send_signal(signal.SIGTERM)
        assert master.wait(60) == 0
    finally:
        if master.poll() is None:
            master.kill()
            master.wait()


def test_ipython_awaits_and_refuses_nested_loops():
    """A cell of IPython may await; a loop inside the loop that runs the cell is refused."""
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-m", "IPython", "--colors=NoColor", "--HistoryManager.enabled=False", "-c",
                           textwrap.dedent("""
    import asyncio, spindle
    async def main(): return 6 * 7
    print("awaited", await main())
    print("ran", await asyncio.to_thread(spindle.run, main()))
    try:
        spindle.run(main())
    except RuntimeError as error:
        print("refused:", error)
    """)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert "awaited 42\nran 42\nrefused: spindle.run cannot be called from a running event loop" in done.stdout, done


def test_kernel_of_a_notebook(tmp_path):
    manager = pytest.importorskip("jupyter_client.manager")
    pytest.importorskip("ipykernel")
    kernel, client = manager.start_new_kernel(
        kernel_name="python3", startup_timeout=600, env={**os.environ, "IPYTHONDIR": str(tmp_path)})
    try:
        def cell(source):
            said = []
            reply = client.execute_interactive(
                textwrap.dedent(source), timeout=600, allow_stdin=False,
                output_hook=lambda message: said.append(message["content"].get("text", "")))
            content = reply["content"]
            return content["status"], content.get("evalue", "") or "".join(said)

        assert cell("import asyncio, spindle\nasync def main(): return 42\nprint(await main())") == ("ok", "42\n")
        assert cell("import asyncio; print(await asyncio.to_thread(spindle.run, main()))") == ("ok", "42\n")
        status, error = cell("spindle.run(main())")
        assert status == "error" and "await the coroutine" in error
        status, error = cell("spindle.new_event_loop().run_until_complete(main())")
        assert status == "error" and "another loop is running" in error
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def test_nest_asyncio_is_refused(loop):
    """It would run asyncio's queue of callbacks, which our loop does not have."""

    async def main():
        with pytest.raises(RuntimeError, match="nest_asyncio"):
            hasattr(loop, "_nest_patched")  # what nest_asyncio.apply asks first
        with pytest.raises(RuntimeError, match="already running"):
            loop.run_until_complete(loop.create_future())

    loop.run_until_complete(main())
