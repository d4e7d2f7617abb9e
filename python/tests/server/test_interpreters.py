"""--interpreters: several in one process serve one socket, and end together. Every test runs a process."""

import importlib.util
import signal
import sys
import textwrap

import pytest

from spindle.server import Config
from spindle.server.interpreters import InterpretersServer

from .conftest import LIMIT, wait_until

needs_interpreters = pytest.mark.skipif(sys.version_info < (3, 13), reason="asyncio of this version cannot be used in subinterpreters")

APP = """
    import asyncio, os, time
    import _interpreters
    HERE = str(_interpreters.get_current()[0]).encode()

    async def app(scope, receive, send):
        assert scope["type"] == "http"
        if scope["path"] == "/block":  # the interpreter accepts no connections meanwhile
            open("blocked", "x").close()
            while not os.path.exists("released"):
                time.sleep(0.01)
        while scope["path"] == "/wait" and not os.path.exists("done"):
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": HERE})
"""


@pytest.fixture
def command(command):
    (command.directory / "app.py").write_text(textwrap.dedent(APP))
    return command


def start(command, *arguments):
    process = command("app:app", "--port", "0", "--no-access-log", "--lifespan", "off", "--interpreters", "2", *arguments)
    process.wait_for_log("2 of 2 interpreters are ready")
    return process


def block_one(process, command):
    """Return a connection to an interpreter that is blocked until the file "released" is made."""
    blocked = process.connect().send("GET /block HTTP/1.1\nHost: test\n\n")
    wait_until((command.directory / "blocked").exists)
    return blocked


def failure(command, app, *arguments):
    """Return the errors of a server that cannot start."""
    (command.directory / "app.py").write_text(textwrap.dedent(app))
    process = command("app:app", "--port", "0", "--lifespan", "off", "--interpreters", "2", *arguments)
    assert process.process.wait(LIMIT) == 1
    process.readers_end()
    return process.errors()


@needs_interpreters
def test_the_address_is_logged_once(command):
    process = start(command)
    assert process.stop() == 0
    process.readers_end()
    assert process.errors().count("serving on") == 1


@needs_interpreters
def test_while_one_interpreter_is_blocked_the_other_serves(command):
    process = start(command)
    blocked = block_one(process, command)
    others = {process.connect().get().body for _ in range(3)}
    (command.directory / "released").touch()
    assert {blocked.response().body, *others} == {b"0", b"1"}


@needs_interpreters
def test_a_signal_ends_both_after_their_requests(command):
    process = start(command)
    blocked = block_one(process, command)
    waits = process.connect()
    assert waits.get().status == 200
    waits.send("GET /wait HTTP/1.1\nHost: test\n\n")
    process.process.send_signal(signal.SIGTERM)
    (command.directory / "released").touch()
    process.wait_for_log("stopping", 2)
    (command.directory / "done").touch()
    assert {blocked.response().body, waits.response().body} == {b"0", b"1"}
    assert process.process.wait(LIMIT) == 0


@needs_interpreters
def test_a_second_signal_ends_requests(command):
    process = start(command)
    blocked = block_one(process, command)
    waits = process.connect()
    assert waits.get().status == 200
    waits.send("GET /wait HTTP/1.1\nHost: test\n\n")
    (command.directory / "released").touch()
    blocked.response()
    process.process.send_signal(signal.SIGTERM)
    process.wait_for_log("stopping", 2)
    process.process.send_signal(signal.SIGTERM)
    assert process.process.wait(LIMIT) == 0
    assert waits.response().status >= 500


@needs_interpreters
def test_metrics_answer_for_all(command):
    process = start(command, "--metrics", "/metrics")
    blocked = block_one(process, command)
    for _ in range(3):
        process.connect().get()
    (command.directory / "released").touch()
    blocked.response()
    wait_until(lambda: b'spindle_requests_total{status="2xx"} 4\n' in process.connect().get("/metrics").body)


@needs_interpreters
@pytest.mark.skipif(importlib.util.find_spec("_testsinglephase") is None, reason="this Python has no modules for its own tests")
def test_a_module_that_refuses_is_named_with_the_remedy(command):
    errors = failure(command, "import _testsinglephase\n" + textwrap.dedent(APP))
    assert "module _testsinglephase does not support loading in subinterpreters; use --workers N" in errors


@needs_interpreters
def test_an_app_that_fails_in_one_interpreter_ends_the_process(command):
    errors = failure(command, APP + """
    if HERE != b"0":
        raise ValueError("not here")
    """)
    assert "ValueError: not here" in errors and "an interpreter has ended" in errors


@needs_interpreters
def test_the_limit_of_requests_ends_all(command):
    process = start(command, "--limit-max-requests", "1")
    process.connect().get()
    assert process.process.wait(LIMIT) == 0


@needs_interpreters
def test_wsgi_is_refused(command):
    assert "--workers" in failure(command, "def app(environ, start_response): ...")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this version has loops in subinterpreters")
def test_older_versions_are_refused(command):
    errors = failure(command, "async def app(scope, receive, send): ...")
    assert "CPython 3.13" in errors and "--workers" in errors


@pytest.mark.parametrize("other", [{"workers": 2}, {"reload": True}, {"limit_memory": 100}, {"timeout_worker_healthcheck": 5}])
def test_what_replaces_processes_is_refused(other):
    with pytest.raises(ValueError, match="interpreters cannot be used with"):
        Config(app="app:app", interpreters=2, **other)


@needs_interpreters
def test_an_app_must_be_named():
    async def app(scope, receive, send):
        raise AssertionError

    with pytest.raises(Exception, match="name the app"):
        InterpretersServer(Config(app=app, interpreters=2)).run()
