"""Limits, time-outs, TLS, proxies, and what Go answers itself."""

import asyncio
import json
import re
import socket
import ssl
import threading

import pytest

import spindle
from spindle.server import Config, Server
from spindle.server.serving import StartError, bind

from .conftest import LIMIT, Client, wait_until


SOON = 1  # second; the client must have sent what it sends by then
KEY = "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"hello"})


async def describe(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": repr((scope["client"], scope["scheme"])).encode()})


def test_concurrency_limit(serve):
    go_on = threading.Event()

    async def app(scope, receive, send):
        await asyncio.to_thread(go_on.wait)
        await hello(scope, receive, send)

    server = serve(app, limit_concurrency=1)
    first = server.connect().send("GET / HTTP/1.1\nHost: test\n\n")
    wait_until(lambda: server.server._core.active == 1)
    refused = server.connect().get()
    assert (refused.status, refused.body, refused["server"]) == (503, b"Service Unavailable", "spindle")
    head = server.connect().get(method="HEAD")
    assert (head.status, head["content-length"]) == (503, "19")
    go_on.set()
    assert first.response().status == 200
    assert server.connect().get().status == 200


def test_idle_connections_are_closed(serve):
    client = serve(hello, timeout_keep_alive=0.05).connect()
    assert client.get().body == b"hello"
    assert client.closed()


def test_slow_header_is_answered_with_408(serve):
    client = serve(hello, timeout_header=SOON).connect()
    client.send(b"GET / HTTP/1.1\r\nHost:")
    assert client.response().status == 408


def test_slow_body_is_a_disconnect(serve):
    seen = []

    async def app(scope, receive, send):
        while (message := await receive())["type"] != "http.disconnect":
            seen.append(message["body"])
        seen.append("disconnect")

    serve(app, timeout_body=SOON).connect().send("POST / HTTP/1.1\nHost: test\nContent-Length: 10\n\nhello")
    wait_until(lambda: seen == [b"hello", "disconnect"])


def test_body_limit(serve):
    client = serve(hello, limit_body_size=10).connect()
    assert client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 11\n\n").response().status == 413


def test_header_limit(serve):
    client = serve(hello, limit_header_size=1000).connect()
    assert client.get(headers="X: " + "x" * 2000 + "\n").status == 431


def test_limits_can_be_raised(serve):
    client = serve(hello, limit_request_line=100_000, limit_header_fields=1000, limit_header_size=1_000_000).connect()
    assert client.get("/" + "x" * 90_000).status == 200
    assert client.get(headers="X: y\n" * 900).status == 200


REFUSED = [
    ("GET /" + "x" * 9000 + " HTTP/1.1\nHost: test\n\n", 414, None),
    ("GET /path HTTP/1.1\nHost: test\n" + "X: y\n" * 200 + "\n", 431, "GET /path"),
    ("GET /path HTTP/1.1\nHost: test\nX: " + "x" * 70_000 + "\n\n", 431, "GET /path"),
    ("POST /path HTTP/1.1\nHost: test\nContent-Length: 11\n\n", 413, "POST /path"),
    ("GET /path HTTP/1.1\n\n", 400, "GET /path"),
    ("nonsense\n\n", 400, None),
    ("GET /path HTTP/1.1\nHost", 408, "GET /path"),
    ("GET /path HTTP/1.1\nHost: test\nConnection: Upgrade\nUpgrade: websocket\n\n", 426, "GET /path"),
]


@pytest.mark.parametrize("form", ["common", "json"])
def test_refused_requests_are_logged_and_counted(serve, capfd, form):
    server = serve(hello, access_log=True, access_log_format=form, metrics="/metrics", timeout_header=SOON, limit_body_size=10)
    for text, status, _ in REFUSED:
        assert server.connect().send(text).response().status == status
    assert f'{{status="4xx"}} {len(REFUSED)}\n' in server.connect().get("/metrics").body.decode()
    server.stop()
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == len(REFUSED)
    for line, (_, status, request) in zip(lines, REFUSED, strict=True):
        assert len(line) < 2000
        if form == "json":
            found = json.loads(line)
            found = found["status"], f"{found['method']} {found['target']}".strip() or None, found["remote"]
        else:
            remote, text, code = re.fullmatch(r'(\S+) - - \[.*\] "(.*)" (\d+) 0', line).groups()
            found = int(code), text.removesuffix(" HTTP/1.1") if text != "-" else None, remote
        if status == 414:  # the line may have come at once
            request = found[1] if found[1] in ("GET", "GET /" + "x" * 1023 + "...") else "GET"
        assert found == (status, request, "127.0.0.1")


@pytest.mark.parametrize("headers, trusted, expected", [
    ("X-Forwarded-For: 1.2.3.4\nX-Forwarded-Proto: https\n", "127.0.0.1", (("1.2.3.4", 0), "https")),
    ("X-Forwarded-For: 6.6.6.6, 1.2.3.4, 127.0.0.1\n", "127.0.0.0/8", (("1.2.3.4", 0), "http")),
    ("X-Forwarded-For: [::5]:80\n", "*", (("::5", 80), "http")),
    ("X-Forwarded-For: 6.6.6.6, 1.2.3.4\n", "*", (("6.6.6.6", 0), "http")),
    ("X-Forwarded-For: 1.2.3.4\nX-Forwarded-Proto: https\n", "10.0.0.1", None),
    ("X-Forwarded-Proto: nonsense\n", "127.0.0.1", None),
    ("X-Forwarded-For: [::5]:" + 5000 * "1" + "\n", "*", (("::5", 0), "http")),
    ("X-Forwarded-For:\n", "*", None),
    ("X-Forwarded-For: , 1.2.3.4\n", "*", None),
    ("X-Forwarded-For: [], 127.0.0.1\n", "127.0.0.1", None),
])
def test_forwarding_fields_of_trusted_proxies_only(serve, headers, trusted, expected):
    client = serve(describe, forwarded_allow_ips=trusted).connect()
    got = eval(client.get(headers=headers).body)
    assert got == (expected or (client.sock.getsockname(), "http"))


@pytest.mark.parametrize("alone", [True, False], ids=["unix", "unix and tcp"])
def test_client_of_a_unix_socket_cannot_be_a_trusted_proxy(alone, tmp_path, monkeypatch, capfd):
    """Its end can have a name that looks like the address of one."""
    monkeypatch.chdir(tmp_path)
    clients = []

    async def app(scope, receive, send):
        clients.append((scope["client"], scope["scheme"]))
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
            return
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    def ask(client, fields=""):
        client.sendall(f"GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 6.6.6.6\r\n"
                       f"X-Forwarded-Proto: https\r\n{fields}\r\n".encode())
        client.recv(1000)

    def ask_all():
        for number, fields in enumerate(("", KEY.replace("\n", "\r\n"))):
            with socket.socket(socket.AF_UNIX) as client:
                client.bind(f"127.0.0.1:{number}")
                client.connect("socket")
                ask(client, fields)
        if not alone:
            with socket.create_connection(sockets[1].getsockname()) as client:
                ask(client)

    config = Config(app=app, uds="socket", lifespan="off")
    sockets = [bind(config)] if alone else [bind(config), bind(Config(port=0))]

    async def main():
        server, started = Server(config), asyncio.Event()

        async def note():
            started.set()

        server._started = note
        task = asyncio.create_task(server.serve(sockets))
        await started.wait()
        await asyncio.to_thread(ask_all)
        server.stop()
        await task

    spindle.run(asyncio.wait_for(main(), LIMIT))
    assert clients[:2] == [(None, "http"), (None, "ws")]
    assert alone or clients[2] == (("6.6.6.6", 0), "https")
    assert [line[0] for line in capfd.readouterr().out.splitlines()[:2]] == ["-", "-"]


def test_forwarded_port_that_only_looks_like_a_number(serve):
    client = serve(describe, forwarded_allow_ips="*").connect()
    client.send(b"GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: [::5]:\xb2\r\n\r\n")
    assert eval(client.response().body) == (("::5", 0), "http")


def test_forwarding_fields_can_be_ignored(serve):
    client = serve(describe, proxy_headers=False).connect()
    assert eval(client.get(headers="X-Forwarded-For: 1.2.3.4\n").body)[0] == client.sock.getsockname()


def test_tls(serve, certificate):
    server = serve(describe, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"))
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    context.check_hostname = False
    plain = socket.create_connection(("127.0.0.1", server.port), LIMIT)
    client = Client(context.wrap_socket(plain))
    for _ in range(2):
        assert eval(client.get().body)[1] == "https"
    client.close()


def test_client_certificates(serve, certificate):
    files = {"ssl_certfile": str(certificate / "cert.pem"), "ssl_keyfile": str(certificate / "key.pem")}
    server = serve(describe, **files, ssl_ca_certs=str(certificate / "cert.pem"))

    def get(context):
        context.check_hostname = False
        client = Client(context.wrap_socket(socket.create_connection(("127.0.0.1", server.port), LIMIT)))
        try:
            return client.get().status
        finally:
            client.close()

    without = ssl.create_default_context(cafile=certificate / "cert.pem")
    with pytest.raises((OSError, EOFError)):
        get(without)
    having = ssl.create_default_context(cafile=certificate / "cert.pem")
    having.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    assert get(having) == 200


def test_certificate_that_cannot_be_read(tmp_path):
    config = Config(app=hello, port=0, ssl_certfile=str(tmp_path / "missing.pem"), lifespan="off")
    with pytest.raises(StartError, match="certificate"):
        Server(config).run()


def test_large_bodies_over_tls(serve, certificate):
    body = bytes(range(256)) * 10_000

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        for at in range(0, len(body), 100_000):
            await send({"type": "http.response.body", "body": body[at : at + 100_000], "more_body": True})
        await send({"type": "http.response.body"})

    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"))
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    context.check_hostname = False
    client = Client(context.wrap_socket(socket.create_connection(("127.0.0.1", server.port), LIMIT)))
    assert client.get().body == body
    client.close()


def test_metrics_and_health(serve):
    client = serve(hello, metrics="/metrics", health="/healthz", ready="/readyz").connect()
    for _ in range(3):
        client.get()
    assert client.get("/healthz").body == client.get("/readyz").body == b"ok\n"
    metrics = client.get("/metrics").body.decode()
    assert 'spindle_requests_total{status="2xx"} 3\n' in metrics
    assert "spindle_requests_active 0\n" in metrics
    assert "spindle_response_bytes_total 15\n" in metrics


def test_unix_socket(serve, tmp_path):
    path = str(tmp_path / "socket")
    server = serve(describe, uds=path)
    assert eval(server.connect().get().body) == (None, "http")
