"""The command line: options, errors, signals. Most tests run a process."""

import contextlib
import json
import os
import re
import signal
import socket
import textwrap

import pytest

from spindle.server import serve
from spindle.server.cli import parser, read_config, read_env_file

from .conftest import LIMIT, Client, wait_until


@pytest.mark.parametrize("arguments", [
    ["app:app"], ["app"], ["app.py"], ["app.py:app"], ["app:factory", "--factory"], ["app:app", "--host", "localhost"],
], ids=" ".join)
def test_ways_to_name_an_app(command, arguments):
    process = command(*arguments, "--port", "0")
    assert process.connect().get().body == b"hello"
    assert process.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_it(command, number):
    process = command("app:app", "--port", "0")
    process.url()
    assert process.stop(number) == 0


LOADING = '''
    import asyncio

    async def prepare():
        await asyncio.sleep(0)

    asyncio.run(prepare())

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    def factory():
        asyncio.run(prepare())
        return app

    def wsgi(environ, start_response):
        start_response("200 OK", [])
        return [b"hello"]
'''


@pytest.mark.parametrize("arguments", [
    ["loading:app"], ["loading.py"], ["loading:factory", "--factory"], ["loading:wsgi"], ["loading:app", "--workers", "2"],
], ids=" ".join)
def test_app_is_imported_before_the_loop_runs(command, arguments):
    """So that the import may call asyncio.run, or Django's ORM, which refuses to run in a coroutine."""
    (command.directory / "loading.py").write_text(textwrap.dedent(LOADING))
    process = command(*arguments, "--port", "0")
    assert process.connect().get().body == b"hello"
    assert process.stop() == 0


@pytest.mark.parametrize("arguments, text", [
    (["missing:app"], "or on the path; start the server where the module is, or set app_dir (the command's --app-dir)"),
    (["missing:app", "--app-dir", "/dev"], "there is no module 'missing' in /dev or on the path"),
    (["app:missing"], "no attribute 'missing'; it has app, factory, wsgi"),
    (["missing.py"], "there is no file missing.py"),
    (["app:"], "write module:attribute"),
    (["broken:app"], "importing broken failed"),
    (["needs:app"], "No module named 'not_installed'"),
    (["app:os"], "cannot be called"),
    (["app:app", "--port", "x"], "invalid int value"),
    (["app:app", "--prt", "1"], "unrecognized arguments: --prt 1 (did you mean --port?); see python -m spindle --help"),
    (["app:app", "--knit"], "unrecognized arguments: --knit; see python -m spindle --help"),
    (["app:app", "--port", "99999"], "port must be from 0 to 65535"),
    (["app:app", "--workers", "0"], "workers must be from 1 to 1024"),
    (["app:app", "--header", "x"], "write it as"),
    (["app:app", "--fd", "77"], "descriptor 77"),
    (["app:app", "--ssl-certfile", "missing.pem"], "missing.pem"),
    (["app:app", "--host", "nowhere.invalid"], "cannot be resolved"),
    ([], "name the app"),
    (["app:app", "--ssl-keyfile", "key.pem"], "TLS needs a certificate"),
    (["app:app", "--ssl-ca-certs", "ca.pem"], "TLS needs a certificate"),
    (["app:app", "--static", "/a=missing"], "static /a: there is no directory missing"),
    (["app:app", "--static", "a=."], "a prefix that begins with /"),
    (["app:app", "--metrics", "metrics"], "metrics must be a path"),
    (["app:app", "--header", "x y: z"], "'x y': 'z' cannot be a header field"),
    (["app:app", "--header", "x: a\nb"], "cannot be a header field"),
    (["factories:fails", "--factory"], "in fails"),
    (["factories:needs_one", "--factory"], "the factory cannot be called without arguments"),
], ids=str)
def test_errors_are_for_people(command, arguments, text):
    (command.directory / "broken.py").write_text("def f():\n    return 1 / 0\n\nf()\n")
    (command.directory / "needs.py").write_text("import not_installed\n")
    (command.directory / "factories.py").write_text("def fails():\n    raise TypeError('inside')\n\ndef needs_one(x):\n    pass\n")
    process = command(*arguments)
    assert process.process.wait(LIMIT) != 0
    wait_until(lambda: text in "".join(process.err))
    error = process.errors()
    assert "spindle/server" not in error and "importlib" not in error
    if "broken" in error:
        assert "in f" in error and "ZeroDivisionError" in error


def test_errors_of_environment_and_pyproject(command):
    process = command("app:app", "--port", "0", env={"WEB_CONCURRENCY": "many"})
    assert process.process.wait(LIMIT) == 2
    wait_until(lambda: "WEB_CONCURRENCY=many: not a number of workers" in "".join(process.err))
    (command.directory / "pyproject.toml").write_text("[tool.spindle]\nport = 0\n")
    process = command("app:app")
    assert process.process.wait(LIMIT) == 2
    wait_until(lambda: "options belong into the table tool.spindle.server" in "".join(process.err))


def test_port_that_is_taken(command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = command("app:app", "--port", str(taken.getsockname()[1]))
        assert process.process.wait(LIMIT) == 1
    wait_until(lambda: "another program listens there" in "".join(process.err))


def test_environment_and_pyproject(command):
    (command.directory / "pyproject.toml").write_text('[tool.spindle.server]\napp = "app:app"\nheader = ["X-From: toml"]\nport = 1\n')
    process = command("--port", "0", env={"SPINDLE_SERVER_HEADER": "false"})
    response = process.connect().get()
    assert (response["x-from"], response["server"]) == ("toml", None)


def test_names_of_variables(command):
    process = command("app:app", "--port", "0", env={"SPINDLE_HEADER": "X-One: 1;X-Two: 2", "SPINDLE_NO_SERVER_HEADER": "true"})
    response = process.connect().get()
    assert (response["x-one"], response["x-two"], response["server"]) == ("1", "2", "spindle")
    assert process.stop() == 0
    process = command("app:app", "--port", "0", env={"SPINDLE_HEADERS": "X-One: 1"})
    assert process.connect().get()["x-one"] == "1"
    process = command("app:app", "--port", "0", env={"SPINDLE_ACCESS_LOG": "perhaps"})
    assert process.process.wait(LIMIT) == 2
    wait_until(lambda: "SPINDLE_ACCESS_LOG=perhaps: not a value" in "".join(process.err))


def test_trusted_proxies_of_the_environment():
    for arguments, environment, expected in (
            ([], {}, "127.0.0.1,::1"), ([], {"FORWARDED_ALLOW_IPS": "10.0.0.1"}, "10.0.0.1"),
            ([], {"FORWARDED_ALLOW_IPS": "10.0.0.1", "SPINDLE_FORWARDED_ALLOW_IPS": "*"}, "*"),
            (["--forwarded-allow-ips", "10.0.0.2"], {"FORWARDED_ALLOW_IPS": "10.0.0.1"}, "10.0.0.2")):
        assert read_config(["app:app", *arguments], environment).forwarded_allow_ips == expected


def test_serve_with_workers_on_a_port_that_is_taken(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert serve("app:app", port=taken.getsockname()[1], workers=2) == 1
    assert "another program listens there" in capsys.readouterr().err


def test_unix_socket_and_descriptor(command):
    path = command.directory / "socket"
    process = command("app:app", "--uds", str(path))
    wait_until(path.exists)
    process.wait_for_log("serving on")
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(LIMIT)
    sock.connect(str(path))
    assert Client(sock).get().body == b"hello"
    assert process.stop() == 0
    assert not path.exists()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = command("app:app", "--fd", str(listener.fileno()), pass_fds=[listener.fileno()])
        assert process.connect().get().body == b"hello"


def test_unix_socket_is_for_every_user(command):
    path = command.directory / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        process = command("app:app", "--uds", str(path), umask=0o077)
        process.wait_for_log("serving on")
        assert path.stat().st_mode & 0o777 == 0o666
        assert process.stop() == 0
        left.bind(str(path))  # and nothing listens there any more
    path.chmod(0o660)
    process = command("app:app", "--uds", str(path))
    process.wait_for_log("serving on")
    assert path.stat().st_mode & 0o777 == 0o660


def test_wsgi_is_detected(command):
    client = command("app:wsgi", "--port", "0").connect()
    response = client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 2\n\nhi").response()
    assert (response["x-method"], response.body) == ("POST", b"hi!")


@pytest.mark.parametrize("form", ["common", "combined", "json"])
def test_access_log(command, form):
    process = command("app:app", "--port", "0", "--access-log-format", form)
    process.connect().get("/path?q=\"", headers="User-Agent: tests\n")
    process.stop()
    wait_until(lambda: process.out)
    line = process.out[0]
    if form == "json":
        entry = json.loads(line)
        assert (entry["method"], entry["target"], entry["status"], entry["bytes"]) == ("GET", '/path?q="', 200, 5)
        assert entry["took_ms"] >= 0 and entry["user_agent"] == "tests"
    else:
        assert re.match(r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:[\d:]{8} [+-]\d{4}\] "GET /path\?q=\\" HTTP/1\.1" 200 5', line)
        assert ('"-" "tests"' in line) == (form == "combined")


@pytest.mark.parametrize("form", ["common", "json"])
def test_access_log_says_how_many_lines_are_lost(command, form):
    os.mkfifo(command.directory / "log")
    (command.directory / "slow.py").write_text("import os\nfrom app import app\nos.dup2(os.open('log', os.O_RDWR), 1)\n")
    process = command("slow:app", "--port", "0", "--access-log-format", form)
    client = process.connect()
    with open(command.directory / "log") as log:
        for _ in range(400):
            client.get("/" + 4000 * "x")
        client.close()
        process.process.send_signal(signal.SIGTERM)
        lines = log.read().splitlines()
    if form == "json":
        lost = json.loads(lines[-1])["lost_lines"]
        assert all(json.loads(line)["status"] == 200 for line in lines[:-1])
    else:
        lost = int(re.fullmatch(r"spindle: the access log is too slow; lost (\d+) lines", lines[-1])[1])
    assert lost > 0 and len(lines) - 1 + lost == 400


@pytest.mark.parametrize("options, address", [
    ([], "192.0.2.1"), (["--forwarded-allow-ips", "127.0.0.0/8,192.0.2.1"], "198.51.100.9"),
    (["--forwarded-allow-ips", "*"], "203.0.113.5"), (["--forwarded-allow-ips", "10.0.0.1"], "127.0.0.1"),
    (["--no-proxy-headers"], "127.0.0.1")])
def test_access_log_names_the_client_of_a_trusted_proxy(command, options, address):
    (command.directory / "client.py").write_text(textwrap.dedent("""
        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": scope["client"][0].encode()})
    """))
    process = command("client:app", "--port", "0", "--lifespan", "off", *options)
    client = process.connect()
    fields = "X-Forwarded-For: 203.0.113.5\nX-Forwarded-For: 198.51.100.9:4711, 192.0.2.1\n"
    assert client.get(headers=fields).body.decode() == address
    client.get(headers='X-Forwarded-For: 1" 2\n')
    named = [client.get(headers=f"X-Forwarded-For: {forwarded}\n").body.decode()
             for forwarded in ("host.test:80", "192.0.2.7:99999", "[::5]:x", "[]", "[::5", "::5]", ":80", "a:b:80")]
    process.stop()
    wait_until(lambda: len(process.out) == 2 + len(named))
    assert process.out[0].split(" ")[0] == address
    assert process.out[1].split(" ")[1:3] == ["-", "-"]  # the client has not forged a column
    assert [line.split(" ")[0] for line in process.out[2:]] == named  # as the app names them


def test_access_log_counts_the_bytes_that_were_sent(command):
    process = command("app:app", "--port", "0", "--access-log-format", "json")
    client = process.connect()
    client.get(method="HEAD")
    client.get()
    wait_until(lambda: len(process.out) == 2)
    assert [json.loads(line)["bytes"] for line in process.out] == [0, 5]


def test_access_log_has_websockets(command):
    (command.directory / "sockets.py").write_text(textwrap.dedent("""
        async def app(scope, receive, send):
            assert scope["type"] == "websocket"
            await receive()
            if scope["path"] == "/denied":
                await send({"type": "websocket.close"})
            else:
                await send({"type": "websocket.accept"})
                await receive()
    """))
    process = command("sockets:app", "--port", "0", "--lifespan", "off")
    for path, status in ("/open?q=1", 101), ("/denied", 403):
        client = process.connect().send(f"GET {path} HTTP/1.1\nHost: test\nConnection: Upgrade\nUpgrade: websocket\n"
                                        "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n")
        assert client.head()[0] == status
        client.close()
    assert process.stop() == 0
    wait_until(lambda: len(process.out) == 2)
    assert '"GET /open?q=1 HTTP/1.1" 101 0' in process.out[0]
    assert '"GET /denied HTTP/1.1" 403 0' in process.out[1]


def test_readiness_while_stopping(command):
    process = command("app:app", "--port", "0", "--ready", "/ready", "--health", "/health", "--no-access-log")
    other = process.connect()
    assert (other.get("/ready").status, other.get("/health").status) == (200, 200)
    asks = {path: process.connect().send(f"GET {path} HTTP/1.1\n") for path in ("/ready", "/health")}
    other.get()  # so the server has read the beginning of the others
    process.process.send_signal(signal.SIGTERM)
    process.wait_for_log("stopping")
    answers = {path: client.send("Host: test\n\n").response() for path, client in asks.items()}
    assert answers["/ready"].status == 503 and answers["/ready"]["connection"] == "close"
    assert answers["/health"].status == 200
    assert process.process.wait(LIMIT) == 0


def test_max_requests(command):
    process = command("app:app", "--port", "0", "--limit-max-requests", "3")
    client = process.connect()
    for _ in range(3):
        client.get()
    assert process.process.wait(LIMIT) == 0


def test_max_requests_with_jitter(command):
    process = command("app:app", "--port", "0", "--limit-max-requests", "3", "--limit-max-requests-jitter", "4")
    served = 0
    client = process.connect()
    with contextlib.suppress(OSError, EOFError):
        while served < 20:
            client.get()
            served += 1
    assert process.process.wait(LIMIT) == 0
    assert 3 <= served <= 8  # a request that was sent before the end is answered


def test_asgi2_is_detected(command):
    (command.directory / "old.py").write_text(textwrap.dedent("""
        class App:
            def __init__(self, scope):
                self.scope = scope

            async def __call__(self, receive, send):
                message = await receive()
                text = repr((self.scope["type"], self.scope["asgi"]["version"], message["body"]))
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": text.encode()})

        def function(scope):
            return App(scope)
    """))
    for arguments in (["old:App"], ["old:function"], ["old:App", "--interface", "asgi2"]):
        client = command(*arguments, "--port", "0").connect()
        response = client.send("POST / HTTP/1.1\nHost: test\nContent-Length: 2\n\nhi").response()
        assert eval(response.body) == ("http", "2.0", b"hi")


def test_env_file(command):
    (command.directory / "settings.env").write_text(
        "# a comment\nSPINDLE_HEADER=X-From: file\nexport COLOUR='deep blue'\nKEPT=file\nno assignment\n")
    (command.directory / "shows.py").write_text(textwrap.dedent("""
        import os

        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": f"{os.environ['COLOUR']} {os.environ['KEPT']}".encode()})
    """))
    process = command("shows:app", "--port", "0", "--env-file", "settings.env", env={"KEPT": "outside"})
    response = process.connect().get()
    assert (response.body, response["x-from"]) == (b"deep blue outside", "file")
    process = command("shows:app", "--port", "0", env={"KEPT": "outside", "SPINDLE_ENV_FILE": "settings.env"})
    assert process.connect().get().body == b"deep blue outside"
    process = command("shows:app", "--port", "0", "--env-file", "missing.env")
    assert process.process.wait(LIMIT) == 2
    wait_until(lambda: "missing.env: No such file" in "".join(process.err))


def test_values_of_an_env_file(tmp_path):
    (tmp_path / "env").write_text("""A=1 # comment\nB="x # y" # z\nC='q"q'\n D = spaced\nE=\nF=a#b\nG= # only\nH="open\n#I=1\n""")
    environment = {}
    read_env_file(parser(), tmp_path / "env", environment)
    assert environment == {"A": "1", "B": "x # y", "C": 'q"q', "D": "spaced", "E": "", "F": "a#b", "G": "", "H": '"open'}


@pytest.mark.parametrize("table, text", [
    ("port = 'x'", "not a value"), ("nonsense = 1", "no option 'nonsense'"), ("port = ", "pyproject.toml"),
], ids=["type", "name", "syntax"])
def test_pyproject_with_mistakes(command, table, text):
    (command.directory / "pyproject.toml").write_text(f"[tool.spindle.server]\n{table}\n")
    process = command("app:app")
    assert process.process.wait(LIMIT) == 2
    wait_until(lambda: text in "".join(process.err))
