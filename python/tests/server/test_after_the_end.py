"""What tasks that outlive their app find, and responses that cannot be as the app wants."""

import asyncio
import gc
import locale
import re
import socket
import threading

import pytest

from .conftest import wait_until
from .test_order import BODY, LENGTH, START


def test_receive_of_a_task_that_outlives_its_request(serve):
    seen = []

    async def app(scope, receive, send):
        await receive()

        async def wait():
            seen.append((await receive())["type"])

        app.task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)

    assert serve(app).connect().get().status == 500
    wait_until(lambda: seen == ["http.disconnect"])


def test_cancelled_waits_do_not_pile_up(serve):
    counts = []

    async def app(scope, receive, send):
        await receive()
        for _ in range(100):
            try:
                await asyncio.wait_for(receive(), 0.0001)
            except asyncio.TimeoutError:
                pass
        operation = receive()
        operation.send(None)
        exchange = next(r for r in gc.get_referents(operation) if type(r).__name__ == "Exchange")
        counts.extend(len(r) for r in gc.get_referents(exchange) if isinstance(r, list))
        operation.close()
        await send(START)
        await send(BODY)

    assert serve(app).connect().get().status == 200
    assert counts and counts[0] <= 9


def test_body_that_does_not_fit_its_length_can_be_corrected(serve, tmp_path):
    (tmp_path / "file").write_bytes(b"too long")

    async def app(scope, receive, send):
        await send(LENGTH)
        for wrong in ({**BODY, "body": b"too long"}, {**BODY, "body": b"abc"},
                      {"type": "http.response.pathsend", "path": str(tmp_path / "file")}):
            with pytest.raises(RuntimeError):
                await send(wrong)
        await send(BODY)

    client = serve(app).connect()
    for _ in range(2):
        response = client.get()
        assert (response.status, response.body, response.all("content-length")) == (200, b"hello", ["5"])


def test_message_that_is_too_large_for_the_server(serve):
    large = bytes((1 << 30) + 1)  # never touched, so it takes no memory

    async def app(scope, receive, send):
        await send(START)
        with pytest.raises(ValueError, match="in pieces"):
            await send({**BODY, "body": large})
        await send(BODY)

    assert serve(app).connect().get().body == b"hello"


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("trailers", [False, True])
def test_responses_without_a_body_have_no_framing(serve, status, trailers):
    async def app(scope, receive, send):
        await send({**LENGTH, "status": status, "trailers": trailers})
        await send(BODY)
        if trailers:
            await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"1")]})

    client = serve(app).connect()
    for _ in range(2):
        response = client.get()
        assert (response.status, response["transfer-encoding"]) == (status, None)
        assert response["content-length"] == (None if status == 204 else "5")


def test_date_does_not_depend_on_the_locale(serve):
    async def app(scope, receive, send):
        await send(START)
        await send(BODY)

    old = locale.setlocale(locale.LC_TIME)
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"):
        try:
            locale.setlocale(locale.LC_TIME, name)
            break
        except locale.Error:
            pass
    try:
        date = serve(app).connect().get()["date"]
    finally:
        locale.setlocale(locale.LC_TIME, old)
    assert re.fullmatch(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
                        r"\d{4} \d\d:\d\d:\d\d GMT", date)


def test_file_with_a_head_that_asks_for_chunks(serve, tmp_path):
    (tmp_path / "file").write_bytes(b"hello")

    async def app(scope, receive, send):
        await send({**START, "headers": [(b"transfer-encoding", b"chunked")], "trailers": True})
        await send({"type": "http.response.pathsend", "path": str(tmp_path / "file")})

    client = serve(app).connect()
    for _ in range(2):
        response = client.get()
        assert (response["content-length"], response["transfer-encoding"], response.body) == ("5", None, b"hello")


@pytest.mark.parametrize("change", ["shorter", "longer", "gone"])
def test_file_that_changes_while_it_is_sent(serve, tmp_path, change):
    file = tmp_path / "file"

    async def app(scope, receive, send):
        file.write_bytes(b"hello")
        await send(START)
        await send({"type": "http.response.pathsend", "path": str(file)})
        if change == "gone":
            file.unlink()
        else:
            file.write_bytes(b"hel" if change == "shorter" else b"hello, world")

    client = serve(app).connect()
    client.send("GET / HTTP/1.1\nHost: test\n\n")
    if change == "longer":
        assert client.response().body == b"hello"
        assert client.get().body == b"hello"
        return
    try:
        client.response()
        assert client.closed()
    except (EOFError, ConnectionError):
        pass


def test_request_that_came_with_its_end_is_received_first(serve):
    seen = []

    async def app(scope, receive, send):
        await asyncio.to_thread(came.wait)
        for _ in range(2):
            seen.append((await receive())["type"])

    came = threading.Event()
    client = serve(app).connect()
    client.send("GET / HTTP/1.1\nHost: test\n\n")
    client.sock.shutdown(socket.SHUT_WR)
    threading.Timer(0.2, came.set).start()
    wait_until(lambda: len(seen) == 2)
    assert seen == ["http.request", "http.disconnect"]
