"""Startup, shutdown and their state."""

import asyncio
import contextlib
import signal
import socket
import textwrap
import threading

import pytest

import spindle
from spindle.server import Config, Server
from spindle.server.serving import StartError, bind

from .conftest import LIMIT, running, wait_until


def lifespan_app(log, fail_start=False, fail_stop=False):
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            assert (await receive())["type"] == "lifespan.startup"
            log.append("startup")
            scope["state"]["db"] = "connected"
            if fail_start:
                await send({"type": "lifespan.startup.failed", "message": "no database"})
                return
            await send({"type": "lifespan.startup.complete"})
            assert (await receive())["type"] == "lifespan.shutdown"
            log.append("shutdown")
            if fail_stop:
                await send({"type": "lifespan.shutdown.failed", "message": "no"})
            else:
                await send({"type": "lifespan.shutdown.complete"})
            return
        log.append(scope["state"])
        scope["state"]["own"] = True
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    return app


@pytest.mark.parametrize("mode", ["auto", "on"])
def test_startup_and_shutdown_with_state(mode):
    log = []
    with running(lifespan_app(log), lifespan=mode) as server:
        client = server.connect()
        client.get()
        client.get()
    assert log[0] == "startup" and log[-1] == "shutdown"
    assert [state["db"] for state in log[1:-1]] == ["connected", "connected"]
    assert log[1] is not log[2]


@pytest.mark.parametrize("text", [None, "not a certificate"])
def test_certificate_is_checked_before_startup(tmp_path, text):
    log = []
    path = tmp_path / "cert.pem"
    if text is not None:
        path.write_text(text)
    server = Server(Config(app=lifespan_app(log), port=0, ssl_certfile=str(path)))
    with pytest.raises(StartError, match="spindle: certificate: "):
        server.run()
    assert log == []


def test_certificate_is_checked_before_workers_start(command):
    process = command("app:app", "--port", "0", "--workers", "2", "--ssl-certfile", "missing.pem")
    assert process.process.wait(LIMIT) == 1
    process.readers_end()
    assert process.err == ["spindle: ssl_certfile: missing.pem does not exist or cannot be read\n"]


async def raises(scope, receive, send):
    assert scope["type"] != "lifespan"


async def returns(scope, receive, send):
    pass


@pytest.mark.parametrize("app", [raises, returns])
def test_app_without_lifespan_is_a_fact_and_no_fault(app, caplog):
    caplog.set_level("INFO", logger="spindle.server")
    with running(app, lifespan="auto"):
        pass
    lines = [record.getMessage() for record in caplog.records if "lifespan" in record.getMessage()]
    assert lines == ["spindle: the app does not use lifespan events"]


HANGS = """
    import asyncio, os, sys

    async def app(scope, receive, send):
        assert scope["type"] == "lifespan"
        await receive()
        try:
            if sys.argv[-1] == "--no-access-log":
                await send({"type": "lifespan.startup.complete"})
                await receive()
            print("hangs", os.getpid(), flush=True)
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("cancelled", flush=True)
            raise
"""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_startup_that_hangs_can_be_stopped(command, workers, number):
    (command.directory / "hangs.py").write_text(textwrap.dedent(HANGS))
    process = command("hangs:app", "--port", "0", "--workers", str(workers))
    wait_until(lambda: "".join(process.out).count("hangs") == workers)
    assert process.stop(number) == 0
    wait_until(lambda: "".join(process.out).count("cancelled") == workers)
    assert "Traceback" not in "".join(process.err)


def test_startup_that_hangs_ends_with_the_supervisor(command):
    (command.directory / "hangs.py").write_text(textwrap.dedent(HANGS))
    process = command("hangs:app", "--port", "0", "--workers", "2")
    wait_until(lambda: "".join(process.out).count("hangs") == 2)
    process.process.kill()
    wait_until(lambda: "".join(process.out).count("cancelled") == 2)


def test_second_signal_ends_a_shutdown_that_hangs(command):
    (command.directory / "hangs.py").write_text(textwrap.dedent(HANGS))
    process = command("hangs:app", "--port", "0", "--no-access-log")
    process.url()
    process.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "hangs" in "".join(process.out))
    assert process.stop() == 0
    wait_until(lambda: "cancelled" in "".join(process.out))


def test_failed_startup(errors):
    log = []
    with running(lifespan_app(log, fail_start=True), lifespan="auto") as server:
        assert server is None
    assert log == ["startup"]
    assert "no database" in errors()[0][0]


def test_failed_shutdown(errors):
    with running(lifespan_app([], fail_stop=True), lifespan="on") as server:
        pass
    assert server.server.exit_code == 3


@pytest.mark.parametrize("mode", ["auto", "on"])
@pytest.mark.parametrize("when, code", [("serving", 0), ("stopping", 3)])
def test_lifespan_that_raises_after_its_startup(errors, mode, when, code):
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            if when == "stopping":
                await receive()
            raise ValueError("broken")
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    with running(app, lifespan=mode) as server:
        assert server.connect().get().status == 204
    assert server.server.exit_code == code
    (text, error), = errors()
    assert "lifespan failed" in text and isinstance(error, ValueError)


def test_app_without_lifespan():
    async def app(scope, receive, send):
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    with running(app, lifespan="auto") as server:
        assert server.connect().get().status == 204
    with running(app, lifespan="on") as server:
        assert server is None
    with running(app, lifespan="off") as server:
        assert server.connect().get().status == 204


def test_requests_under_way_are_finished():
    log, go_on = [], threading.Event()

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            return await lifespan_app(log)(scope, receive, send)
        log.append("begun")
        await asyncio.to_thread(go_on.wait)
        log.append("answered")
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"whole"})

    with running(app, lifespan="on") as server:
        client = server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
        idle = server.connect()
        idle_closed = threading.Thread(target=idle.closed)
        idle_closed.start()
        wait_until(lambda: "begun" in log)
        server.loop.call_soon_threadsafe(server.server.stop)
        idle_closed.join(30)
        assert not idle_closed.is_alive()
        go_on.set()
        response = client.response()
        assert (response.body, response["connection"]) == (b"whole", "close")
        server.thread.join(30)
    assert log == ["startup", "begun", "answered", "shutdown"]


def test_requests_that_take_too_long_are_cancelled():
    log = []

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            return await lifespan_app(log)(scope, receive, send)
        try:
            log.append("begun")
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    with running(app, lifespan="on", timeout_graceful_shutdown=0.1) as server:
        server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
        wait_until(lambda: "begun" in log)
    assert log == ["startup", "begun", "cancelled", "shutdown"]


def test_streams_are_finished_while_the_server_drains_and_then_cancelled():
    log, go_on = [], threading.Event()

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            return await lifespan_app(log)(scope, receive, send)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        try:
            if scope["path"] == "/ends":
                await asyncio.to_thread(go_on.wait, 30)
            else:
                await asyncio.sleep(3600)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        await send({"type": "http.response.body", "body": b"last"})
        log.append("finished")

    with running(app, lifespan="on") as server:
        ends = server.connect().send("GET /ends HTTP/1.1\nHost: test\n\n")
        endless = server.connect().send("GET /endless HTTP/1.1\nHost: test\n\n")
        for client in (ends, endless):
            client.head()
            assert client.file.readline() + client.file.readline() == b"5\r\nfirst\r\n"
        server.loop.call_soon_threadsafe(server.server.stop)
        go_on.set()
        assert ends.file.read() == b"4\r\nlast\r\n0\r\n\r\n"
        assert ends.closed()
        wait_until(lambda: "finished" in log)
        server.loop.call_soon_threadsafe(server.server.stop)  # the end of the drain time is tested above
        assert endless.closed()
        server.thread.join(30)
    assert log == ["startup", "finished", "cancelled", "shutdown"]


def test_second_stop_cancels():
    log = []

    async def app(scope, receive, send):
        try:
            log.append("begun")
            await asyncio.sleep(3600)
        finally:
            log.append("cancelled")

    with running(app) as server:
        server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
        wait_until(lambda: log)
        server.loop.call_soon_threadsafe(server.server.stop)
        server.loop.call_soon_threadsafe(server.server.stop)
        server.thread.join(30)
    assert log == ["begun", "cancelled"]


@pytest.mark.parametrize("lifespan", ["on", "off"])
def test_cancelled_server_ends_at_once(lifespan):
    log = []
    apps = 2 if lifespan == "on" else 1

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
        log.append("waits")
        try:
            await asyncio.Event().wait()
        finally:
            log.append("ended")

    async def main():
        sock = bind(Config(port=0))
        address = sock.getsockname()
        server = Server(Config(app=app, access_log=False, lifespan=lifespan))
        serving = asyncio.create_task(server.serve([sock]))
        while not server.started:
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        while log.count("waits") < apps:
            await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, LIMIT)  # before the loop can do anything
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        while log.count("ended") < apps:
            await asyncio.sleep(0)

    spindle.run(asyncio.wait_for(main(), LIMIT))
    assert log == ["waits"] * apps + ["ended"] * apps


def test_server_that_is_cancelled_twice_ends_the_lifespan():
    log = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.complete"})
        try:
            await receive()
        finally:
            log.append("ended")

    async def main():
        server = Server(Config(app=app, port=0))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0)
        serving.cancel()
        await asyncio.sleep(0)  # it waits until nothing is served any more
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert log == ["ended"]

    spindle.run(asyncio.wait_for(main(), LIMIT))


def test_server_that_cannot_begin_ends_the_lifespan(monkeypatch):
    log = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.complete"})
        try:
            await receive()
        finally:
            log.append("ended")

    async def main():
        def fails(*_):
            raise RuntimeError("cannot begin")

        monkeypatch.setattr(Server, "_begin", fails)
        with pytest.raises(RuntimeError, match="cannot begin"):
            await Server(Config(app=app, port=0)).serve()
        assert log == ["ended"]

    spindle.run(main())


def test_server_with_a_socket_that_cannot_be_served_serves_none():
    """The first socket is listened on already when the second one is refused."""
    log = []

    async def app(scope, receive, send):
        log.append(scope["type"])
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        with socket.create_connection(good.getsockname(), LIMIT):
            for _ in range(100):  # the loop would accept the connection
                await asyncio.sleep(0)
            good.setblocking(False)
            with good.accept()[0]:
                log.append("not accepted")
        await send({"type": "lifespan.shutdown.complete"})

    config = Config(app=app, port=0)
    good = bind(config)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bad:
        with pytest.raises(StartError, match=f"descriptor {bad.fileno()} cannot be listened on"):
            spindle.run(Server(config).serve([good, bad]))
    assert log == ["lifespan", "not accepted"]


def test_failed_startup_is_logged_once(caplog):
    """Starlette sends its traceback as the message, and raises the exception too."""
    async def app(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        raise ValueError("no database")

    server = Server(Config(app=app, port=0))
    spindle.run(server.serve())
    assert server.exit_code == 3
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == ["spindle: the app could not start: no database"]


def test_background_work_after_the_response_is_awaited():
    log, go_on = [], threading.Event()

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})
        await asyncio.to_thread(go_on.wait)
        log.append("done")

    with running(app) as server:
        client = server.connect()
        client.get()
        client.get()  # the connection goes on meanwhile
        server.loop.call_soon_threadsafe(server.server.stop)
        go_on.set()
        server.thread.join(30)
    assert log == ["done", "done"]
