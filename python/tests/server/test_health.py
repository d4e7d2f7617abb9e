"""Workers that block their loop are replaced, if that is wanted."""

import textwrap
import types

from spindle.server import Config
from spindle.server.workers import Supervisor, Worker

BLOCKS = """
    import os, time

    async def app(scope, receive, send):
        assert scope["type"] == "http"
        if scope["path"] == "/block":
            time.sleep(1000)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
"""


def test_worker_that_blocks_its_loop_is_replaced(command):
    (command.directory / "blocks.py").write_text(textwrap.dedent(BLOCKS))
    process = command("blocks:app", "--port", "0", "--timeout-worker-healthcheck", "2", "--no-access-log")
    process.wait_for_log("is ready")
    pid = process.connect().get().body
    blocked = process.connect().send("GET /block HTTP/1.1\nHost: test\n\n")
    process.wait_for_log("has blocked its loop for 2 seconds; killing it")
    process.wait_for_log("is ready", 2)
    assert process.connect().get().body != pid
    assert blocked.closed()
    assert process.stop() == 0


def test_worker_is_killed_only_for_an_answer_that_is_missing(monkeypatch):
    """A supervisor that was stopped for a while does not blame its workers."""
    now, said, killed = 1000.0, [], []
    monkeypatch.setattr("spindle.server.workers.time", types.SimpleNamespace(monotonic=lambda: now))
    worker = Worker.__new__(Worker)
    worker.process = types.SimpleNamespace(pid=1, kill=lambda: killed.append(now))
    worker.tell = said.append
    worker.leaving = worker.old = worker.ready = False
    worker.ask_at = worker.asked_at = float("inf")
    supervisor = Supervisor(Config(app="app:app", timeout_worker_healthcheck=10))
    supervisor.workers = [worker]
    now += 100  # an import may take its time
    supervisor._check_health()
    assert said == [] and killed == []
    supervisor._heard(worker, b"ready\n")
    supervisor._check_health()
    supervisor._heard(worker, b"here\n")
    assert said == ["answer"]
    now += 1000
    supervisor._check_health()
    assert said == ["answer"] * 2 and killed == []
    now += 9
    supervisor._check_health()
    assert killed == []
    now += 2
    supervisor._check_health()
    supervisor._check_health()
    assert killed == [now]
