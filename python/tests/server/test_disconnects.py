"""Clients that leave, or send a body that cannot be taken: what the app, the log and the metrics see."""

import asyncio
import json

import pytest

from spindle.server.serving import ClientDisconnected

from .conftest import wait_until
from .test_streaming import START, reset

UPLOAD = "POST / HTTP/1.1\nHost: test\nContent-Length: 10\n\nhello"
CHUNKED = "POST / HTTP/1.1\nHost: test\nTransfer-Encoding: chunked\n\n"


async def until_disconnect(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


def read_to_the_end(ended, answer=None):
    async def app(scope, receive, send):
        if scope["path"] == "/metrics":
            return
        await until_disconnect(receive)
        ended.append(scope["path"])
        if answer:
            await answer(send)

    return app


def lines(capfd):
    return [json.loads(line)["status"] for line in capfd.readouterr().out.splitlines()]


def test_upload_that_the_client_aborts_is_no_error(serve, errors, capfd):
    ended = []
    server = serve(read_to_the_end(ended), access_log=True, access_log_format="json", metrics="/metrics")
    client = server.connect().send(UPLOAD)
    client.close()
    wait_until(lambda: ended and server.server._core.active == 0)
    assert errors() == []
    metrics = server.connect().get("/metrics").body.decode()
    assert 'status="5xx"} 0\n' in metrics
    assert "spindle_requests_aborted_total 1\n" in metrics
    server.stop()
    assert lines(capfd) == [0]


def test_app_that_sends_nothing_and_has_not_seen_the_disconnect(serve, errors):
    """The client has only closed its sending side, and waits for an answer."""
    arrived, go_on = [], asyncio.Event()

    async def app(scope, receive, send):
        arrived.append(1)
        await go_on.wait()

    server = serve(app)
    client = server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
    wait_until(lambda: arrived)
    client.sock.shutdown(1)
    server.call(go_on.set)
    assert client.response().status == 500
    wait_until(errors)


@pytest.mark.parametrize("answer", [
    None, lambda send: send(START), lambda send: fail(), lambda send: start_and_fail(send),
], ids=["returns", "sends", "fails", "sends and fails"])
@pytest.mark.parametrize("status, options, request_text", [
    (408, {"timeout_body": 0.1}, UPLOAD),
    (413, {"limit_body_size": 10}, CHUNKED + "14\n" + "x" * 20),
    (400, {}, CHUNKED + "nonsense\n"),
])
def test_body_that_cannot_be_taken(serve, caplog, capfd, status, options, request_text, answer):
    """The server answers itself; whatever the app does afterwards does not count."""
    ended = []
    server = serve(read_to_the_end(ended, answer), access_log=True, access_log_format="json", **options)
    client = server.connect().send(request_text)
    response = client.response()
    assert (response.status, response["connection"]) == (status, "close")
    assert client.closed()
    wait_until(lambda: ended and server.server._core.active == 0)
    assert [r for r in caplog.records if r.levelname == "ERROR" and "KeyError" not in r.exc_text] == []
    server.stop()
    assert lines(capfd) == [status]


async def fail():
    raise KeyError("the app's own")


async def start_and_fail(send):
    await send(START)
    raise KeyError("the app's own")


def test_body_that_fails_after_the_app_has_answered(serve, errors):
    async def app(scope, receive, send):
        await send(START)
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await until_disconnect(receive)
        await send({"type": "http.response.body", "body": b" and ended"})

    client = serve(app, timeout_body=1).connect()  # the app must have answered by then
    client.send(UPLOAD)
    response = client.response()
    assert (response.status, response.body) == (200, b"begun and ended")
    assert errors() == []


class Mine(Exception):
    pass


def raise_from(error):
    try:
        raise error
    except Exception as e:
        raise Mine from e


@pytest.mark.parametrize("wrap, logged", [
    (lambda e: ExceptionGroup("", [e]), False),
    (lambda e: ExceptionGroup("", [e, ExceptionGroup("", [e, e])]), False),
    (lambda e: BaseExceptionGroup("", [e, e]), False),
    (lambda e: ExceptionGroup("", [e, ValueError()]), True),
    (lambda e: ExceptionGroup("", [ValueError()]), True),
], ids=["one", "nested", "base", "with another", "another"])
@pytest.mark.parametrize("chained", [False, True])
def test_disconnect_in_a_group_is_no_error(serve, errors, wrap, logged, chained):
    ended = []

    async def app(scope, receive, send):
        await send(START)
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})
        except ClientDisconnected as e:
            group = wrap(e)
        ended.append(1)
        if chained:
            raise_from(group)
        raise group

    server = serve(app)
    client = server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
    client.head()
    reset(client)
    wait_until(lambda: ended and server.server._core.active == 0)
    assert bool(errors()) == logged
