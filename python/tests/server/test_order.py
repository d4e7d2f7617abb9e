"""Messages in an order that ASGI does not allow: a clear exception in the app, a 500 or a
closed connection for the client, and nothing left behind."""

import pytest

from .conftest import wait_until

START = {"type": "http.response.start", "status": 200, "headers": []}
LENGTH = {**START, "headers": [(b"content-length", b"5")]}
BODY = {"type": "http.response.body", "body": b"hello"}
MORE = {**BODY, "more_body": True}
TRAILERS = {"type": "http.response.trailers", "headers": []}
TRAILED = {**START, "trailers": True}
PATH = {"type": "http.response.pathsend", "path": "/dev/null"}

# messages, the exception that the last one raises, the status that the client sees or None
# if the connection is closed inside the response
BAD = [
    ([BODY], RuntimeError, 500),
    ([TRAILERS], RuntimeError, 500),
    ([PATH], RuntimeError, 500),
    ([{"type": "http.unknown"}], RuntimeError, 500),
    ([{"type": "http.request"}], RuntimeError, 500),
    ([{"type": "http.disconnect"}], RuntimeError, 500),
    ([{"type": "websocket.accept"}], RuntimeError, 500),
    ([{"type": "lifespan.startup.complete"}], RuntimeError, 500),
    ([{"status": 200}], TypeError, 500),
    ([{"type": 7}], TypeError, 500),
    ([{"type": "http.response.start"}], KeyError, 500),
    ([{**START, "status": "200"}], TypeError, 500),
    ([{**START, "status": 99}], ValueError, 500),
    ([{**START, "status": 100}], ValueError, 500),
    ([{**START, "headers": [("name", "value")]}], TypeError, 500),
    ([{**START, "headers": [(b"name",)]}], TypeError, 500),
    ([{**START, "headers": [b"name"]}], TypeError, 500),
    ([{**START, "headers": 7}], TypeError, 500),
    ([{**START, "headers": [(b"na me", b"value")]}], ValueError, 500),
    ([{**START, "headers": [(b"", b"value")]}], ValueError, 500),
    ([{**START, "headers": [(b"name", b"a\r\nb: c")]}], ValueError, 500),
    ([{**START, "headers": [(b"name", b"a\0")]}], ValueError, 500),
    ([{**START, "headers": [(b"content-length", b"x")]}], ValueError, 500),
    ([{**START, "headers": [(b"content-length", b"1"), (b"content-length", b"2")]}], ValueError, 500),
    ([START, START], RuntimeError, 500),
    ([START, TRAILERS], RuntimeError, 500),
    ([START, {"type": "http.response.body", "body": "text"}], TypeError, 500),
    ([START, PATH], FileNotFoundError, 500),
    ([LENGTH, {**BODY, "body": b"too long"}], RuntimeError, 500),
    ([LENGTH, {**BODY, "body": b"abc"}], RuntimeError, 500),
    ([START, MORE, START], RuntimeError, None),
    ([START, MORE, PATH], RuntimeError, None),
    ([LENGTH, {**MORE, "body": b"abc"}, {**BODY, "body": b"abc"}], RuntimeError, None),
    ([LENGTH, {**MORE, "body": b"abc"}, {**BODY, "body": b""}], RuntimeError, None),
    ([TRAILED, BODY, BODY], RuntimeError, None),
    ([TRAILED, BODY, {**TRAILERS, "headers": [(b"content-length", b"1")]}], ValueError, None),
    ([START, BODY, BODY], RuntimeError, 200),
    ([START, BODY, START], RuntimeError, 200),
    ([START, BODY, TRAILERS], RuntimeError, 200),
    ([TRAILED, BODY, TRAILERS, TRAILERS], RuntimeError, 200),
]


@pytest.mark.parametrize("caught", [False, True], ids=["raised", "caught"])
@pytest.mark.parametrize("messages, error, status", BAD)
def test_illegal_messages(serve, errors, messages, error, status, caught):
    raised = []

    async def app(scope, receive, send):
        for message in messages:
            try:
                await send(message)
            except Exception as e:
                raised.append(type(e))
                if not caught:
                    raise

    server = serve(app)
    client = server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
    got, fields = client.head()
    assert got == (status or 200)
    if status is None:
        rest = client.file.read()  # to the end of the connection
        assert not rest.endswith(b"0\r\n\r\n")
    elif status == 500:
        assert client.file.read() == b"Internal Server Error"
    assert raised == [error]
    wait_until(lambda: server.server._core.active == 0)
    if not caught or status != 200:
        wait_until(errors)
    assert server.connect().send("GET / HTTP/1.1\nHost: test\n\n").head()[0] == got


@pytest.mark.parametrize("messages, text", [
    ([], "without a response"),
    ([START], "before its response was complete"),
    ([START, MORE], "before its response was complete"),
    ([TRAILED, BODY], "before its response was complete"),
])
def test_app_that_returns_early(serve, errors, messages, text):
    async def app(scope, receive, send):
        for message in messages:
            await send(message)

    client = serve(app).connect().send("GET / HTTP/1.1\nHost: test\n\n")
    status, _ = client.head()
    assert status == (500 if MORE not in messages and BODY not in messages else 200)
    client.file.read()
    wait_until(errors)
    assert text in errors()[0][0]


def test_app_that_fails(serve, errors):
    async def app(scope, receive, send):
        raise ValueError("broken")

    server = serve(app)
    response = server.connect().get()
    assert (response.status, response.body, response["connection"]) == (500, b"Internal Server Error", "close")
    assert isinstance(errors()[0][1], ValueError)


def test_app_that_fails_after_waiting(serve, errors):
    import asyncio

    async def app(scope, receive, send):
        await asyncio.sleep(0.01)
        raise ValueError("broken")

    assert serve(app).connect().get().status == 500
    assert isinstance(errors()[0][1], ValueError)


@pytest.mark.parametrize("itself", [False, True])
def test_app_that_is_cancelled_is_logged(serve, errors, itself):
    import asyncio

    async def app(scope, receive, send):
        if itself:
            raise asyncio.CancelledError
        asyncio.current_task().cancel()
        await receive()
        await asyncio.sleep(0)

    assert serve(app).connect().get().status == 500
    (text, error), = errors()
    assert "cancelled" in text and isinstance(error, asyncio.CancelledError)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("exception", [SystemExit, KeyboardInterrupt])
def test_app_that_exits_does_not_end_the_server(serve, errors, waits, exception):
    import asyncio

    async def app(scope, receive, send):
        if waits:
            await asyncio.sleep(0)
        if scope["path"] == "/exit":
            raise exception
        await send(START)
        await send(BODY)

    server = serve(app)
    assert server.connect().get("/exit").status == 500
    assert isinstance(errors()[0][1], exception)
    assert server.connect().get().body == b"hello"


def test_app_that_is_not_a_coroutine(serve, errors):
    def app(scope, receive, send):
        return "text"

    assert serve(app, interface="asgi3").connect().get().status == 500
    assert isinstance(errors()[0][1], TypeError)


def test_app_that_returns_something(serve, errors):
    async def app(scope, receive, send):
        await send(START)
        await send(BODY)
        return 1

    assert serve(app).connect().get().body == b"hello"
    wait_until(errors)
    assert "must return None" in errors()[0][0]


def test_message_that_was_refused_leaves_nothing(serve):
    async def app(scope, receive, send):
        fields = [(b"connection", b"close"), (b"x-refused", b"1"), (b"na me", b"value")]
        with pytest.raises(ValueError):
            await send({**START, "headers": fields})
        await send(TRAILED)
        await send(BODY)
        with pytest.raises(ValueError):
            await send({**TRAILERS, "headers": fields[1:]})
        await send({**TRAILERS, "headers": [(b"x-sent", b"1")]})

    client = serve(app).connect()
    for _ in range(2):
        response = client.get(headers="TE: trailers\n")
        assert (response["connection"], response["x-refused"], response.trailers) == (None, None, [("x-sent", "1")])


def test_failure_after_the_response_is_logged_only(serve, errors):
    async def app(scope, receive, send):
        await send(START)
        await send(BODY)
        raise ValueError("too late")

    client = serve(app).connect()
    for _ in range(2):
        assert client.get().body == b"hello"
    wait_until(lambda: len(errors()) == 2)


@pytest.mark.parametrize("call", ["receive(1)", "send()", "send({}, {})"])
def test_wrong_calls(serve, errors, call):
    async def app(scope, receive, send):
        await eval(call)

    assert serve(app).connect().get().status == 500
    assert isinstance(errors()[0][1], TypeError)


def test_awaiting_twice_is_refused(serve, errors):
    async def app(scope, receive, send):
        operation = receive()
        await operation
        await operation

    assert serve(app).connect().get().status == 500
    assert isinstance(errors()[0][1], RuntimeError)
