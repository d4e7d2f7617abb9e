"""Calls of Go functions, where the Go program cannot show what happens; its own tests are those of the package pyapp."""

import json

import pytest

from spindle import host
from spindle.server import frames, values


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


class NoLoop:
    """Calls at once."""

    def call_soon_threadsafe(self, function, *args):
        function(*args)


@pytest.mark.parametrize("timeout", [1e15, float("inf")])
def test_long_timeouts(monkeypatch, timeout):
    def post(header, body):
        number, due = frames.SHORT.unpack_from(header)[2:4]
        program.receive({"kind": "reply", "id": number}, values.encode(due / 86400e6))
    program = host.Host(NoLoop(), post)
    monkeypatch.setattr(host, "_host", program)
    assert host.call("f", timeout=timeout) == 365


@pytest.mark.parametrize("passed, error", [(0.5, host.GoError), (1.5, TimeoutError)])
def test_go_notices_the_end_of_the_time_first(monkeypatch, passed, error):
    clock = Clock()
    monkeypatch.setattr(host, "time", clock)

    def post(header, body):
        clock.now += passed
        failure = {"type": "context.deadlineExceededError", "message": "context deadline exceeded"}
        number = frames.SHORT.unpack_from(header)[2]
        program.receive({"kind": "failure", "id": number}, json.dumps(failure).encode())
    program = host.Host(NoLoop(), post)
    monkeypatch.setattr(host, "_host", program)
    with pytest.raises(error):
        host.call("slow", timeout=1)
