"""A callback that blocks is reported while it blocks."""

import asyncio
import hashlib
import logging
import sys
import threading
import time

import pytest
from spindle.server import Config, Server


class Log(logging.Handler):
    """Notes what is logged, and whether a function of this file that blocks was reported.

    On a busy machine, the loop may get no CPU for so long that another callback is reported before.
    """

    def __init__(self):
        super().__init__()
        self.arrived = threading.Event()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())
        if "until_reported" in self.messages[-1]:
            self.arrived.set()

    def reports(self):
        return [message for message in self.messages if "until_reported" in message]


@pytest.fixture
def log():
    handler = Log()
    logging.getLogger("asyncio").addHandler(handler)
    yield handler
    logging.getLogger("asyncio").removeHandler(handler)


def sleep_until_reported(log):
    log.arrived.wait(30)  # in a lock, without the GIL


def compute_until_reported(log):
    end = time.monotonic() + 30
    while not log.arrived.is_set() and time.monotonic() < end:
        hashlib.sha256(b"x" * 1000).digest()


@pytest.mark.parametrize("block", [sleep_until_reported, compute_until_reported])
def test_blocking_task_is_reported_while_it_blocks(loop, log, block):
    loop.block_report_after = 0.05

    async def main():
        asyncio.current_task().set_name("the culprit")
        block(log)
        return log.reports()

    report, = loop.run_until_complete(main())
    assert "the culprit" in report and block.__name__ in report
    assert "run_forever" not in report


def test_blocking_callback_is_reported(loop, log):
    loop.block_report_after = 0.05
    loop.call_soon(sleep_until_reported, log)
    loop.call_soon(loop.stop)
    loop.run_forever()
    report, = log.reports()
    assert "a callback has blocked" in report


def test_busy_and_waiting_loops_are_not_reported(loop, log):
    loop.block_report_after = 0.2

    async def main():
        began, longest = time.monotonic(), 0
        last = began
        while last < began + 0.5:
            await asyncio.sleep(0)
            last, before = time.monotonic(), last
            longest = max(longest, last - before)
        await asyncio.sleep(0.5)
        return longest

    longest = loop.run_until_complete(main())
    assert log.messages == [] or longest >= 0.2  # a busy machine may give the loop no CPU for so long


def test_report_can_be_turned_off(loop, log):
    loop.block_report_after = 0

    async def main():
        time.sleep(0.3)

    loop.run_until_complete(main())
    assert log.messages == []


def test_blocking_step_of_an_async_generator_is_reported(loop, log):
    """The awaitable of anext has no name."""

    async def generate():
        sleep_until_reported(log)
        yield

    async def main():
        await loop.create_task(anext(generate()))

    loop.run_until_complete(main())
    assert len(log.reports()) == 1


def test_loop_that_waits_for_the_gil_in_a_poll_is_not_reported(loop):
    """A server's loop lets other threads have the GIL while it polls. When one of them keeps it, no callback is to blame."""
    loop.block_report_after = 0.05
    server = Server(Config(app=lambda scope, receive, send: None, port=0, lifespan="off", interface="asgi3"))
    go, reports, found = threading.Event(), [], []

    def keep():
        go.wait(30)
        for _ in range(5):
            sum(range(8_000_000))  # without giving up the GIL
            time.sleep(0)

    async def main():
        keeps = threading.Thread(target=keep)
        keeps.start()
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.001)
        loop._report_blocked = reports.append
        go.set()
        while keeps.is_alive():
            await asyncio.sleep(0)  # so that the loop polls, and does not wait
        found.extend(reports)
        server.stop()
        await serving

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # the loop gives up the GIL in polls only
    try:
        loop.run_until_complete(main())
    finally:
        sys.setswitchinterval(interval)
    assert found == []
