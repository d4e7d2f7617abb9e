"""The server and the loop inside other projects: gunicorn, Hypercorn, Daphne, Django's runserver, Channels."""

import asyncio
import contextlib
import itertools
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import spindle

from .conftest import LIMIT, Client, wait_until

APP = """
    import asyncio, os, time

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            print("shutdown", flush=True)
            return await send({"type": "lifespan.shutdown.complete"})
        if scope["path"] == "/slow":
            print("slow", flush=True)
            await asyncio.sleep(0.5)
        if scope["path"] == "/block":
            time.sleep(1000)
        loop = type(asyncio.get_running_loop()).__module__
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-pid", str(os.getpid()).encode())]})
        await send({"type": "http.response.body", "body": f"{loop} {scope['client'][0]}".encode()})

    def wsgi(environ, start_response):
        start_response("200 OK", [])
        return [b"wsgi ", environ["wsgi.input"].read()]

    async def failing(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})
"""


class Program:
    """A process with its output, and a group of its own for those that it starts."""

    def __init__(self, command, directory, **env):
        self.process = subprocess.Popen(
            command, cwd=directory, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": str(directory), "PYTHONUNBUFFERED": "1", **env})
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def text(self):
        return "".join(self.lines)

    def wait_for(self, pattern, count=1):
        wait_until(lambda: len(re.findall(pattern, self.text)) >= count or self.process.poll() is not None)
        found = re.findall(pattern, self.text)
        assert len(found) >= count, self.text
        return found[0]

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(LIMIT)
        self.reader.join(LIMIT)
        return code


@pytest.fixture
def program(tmp_path):
    (tmp_path / "app.py").write_text(textwrap.dedent(APP))
    started = []

    def start(*command, **env):
        started.append(Program([sys.executable, *command], tmp_path, **env))
        return started[-1]

    start.directory = tmp_path
    yield start
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.wait()
        each.reader.join(LIMIT)
        each.process.stdout.close()


@pytest.fixture
def gunicorn(program):
    pytest.importorskip("gunicorn")

    def start(app, *options):
        started = program("-m", "gunicorn", "-k", "spindle.Worker", "-b", "127.0.0.1:0", "--worker-tmp-dir",
                          str(program.directory), "--no-control-socket", *options, app)
        port = int(started.wait_for(r"Listening at: https?://127.0.0.1:(\d+)"))
        started.connect = lambda: Client(socket.create_connection(("127.0.0.1", port), LIMIT))
        return started

    return start


def test_gunicorn_serves_with_our_worker(gunicorn):
    server = gunicorn("app:app", "-w", "2", "--preload")
    pids = set()
    wait_until(lambda: pids.add((response := server.connect().get())["x-pid"]) or len(pids) == 2)
    response = server.connect().get(headers="X-Forwarded-For: 1.2.3.4\n")
    assert response.body == b"spindle.loop 1.2.3.4" and response["server"] == "spindle"
    client = server.connect().send("GET /slow HTTP/1.1\nHost: a\n\n")
    server.wait_for("slow")
    assert server.stop() == 0
    assert client.response().status == 200, "a request under way is lost"
    assert server.text.count("shutdown") == 2


def test_gunicorn_serves_a_wsgi_app(gunicorn):
    server = gunicorn("app:wsgi", "--threads", "3")
    client = server.connect()
    assert client.send("POST / HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello").response().body == b"wsgi hello"
    client.close()
    assert server.stop() == 0


def test_gunicorn_replaces_workers(gunicorn):
    """One that blocks its loop, and one that has served enough."""
    server = gunicorn("app:app", "--timeout", "2", "--max-requests", "3")
    first = server.connect().get()["x-pid"]
    blocked = server.connect().send("GET /block HTTP/1.1\nHost: a\n\n")
    server.wait_for("WORKER TIMEOUT")
    assert blocked.closed()
    second = server.connect().get()["x-pid"]
    assert second != first
    server.connect().get()
    server.connect().get()
    wait_until(lambda: server.connect().get()["x-pid"] != second)
    assert server.stop(signal.SIGINT) == 0


def test_gunicorn_is_told_that_the_app_cannot_start(gunicorn):
    server = gunicorn("app:failing")
    assert server.process.wait(LIMIT) == 3
    server.reader.join(LIMIT)
    assert "the app could not start: no database" in server.text and "Worker failed to boot" in server.text


def test_gunicorn_options_of_a_subclass(program, gunicorn):
    (program.directory / "mine.py").write_text(
        "import spindle\nclass Worker(spindle.Worker):\n    OPTIONS = {'headers': [('x-mine', '1')]}\n")
    server = gunicorn("app:app", "-k", "mine.Worker")
    assert server.connect().get()["x-mine"] == "1"
    assert server.stop() == 0


def test_gunicorn_has_lists_of_ciphers_for_openssl(gunicorn, certificate):
    """They may name what Go does not have, such as ciphers with keys from RSA."""
    server = gunicorn("app:app", "--certfile", str(certificate / "cert.pem"), "--keyfile", str(certificate / "key.pem"),
                      "--ciphers", "AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:!aNULL")
    server.wait_for("left out: ciphers=AES256-GCM-SHA384")
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    context.check_hostname, context.maximum_version = False, ssl.TLSVersion.TLSv1_2
    with server.connect().sock as plain, context.wrap_socket(plain) as sock:
        assert sock.cipher()[0] == "ECDHE-RSA-AES256-GCM-SHA384"
    assert server.stop() == 0


def test_hypercorn_on_our_loop():
    serving, config = pytest.importorskip("hypercorn.asyncio"), pytest.importorskip("hypercorn.config").Config()
    httpx = pytest.importorskip("httpx")
    listener = socket.create_server(("127.0.0.1", 0))
    config.bind, config.graceful_timeout = [f"fd://{os.dup(listener.fileno())}"], 1

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": type(asyncio.get_running_loop()).__module__.encode()})

    async def main():
        done = asyncio.Event()
        server = asyncio.create_task(serving.serve(app, config, shutdown_trigger=done.wait))
        async with httpx.AsyncClient(base_url="http://127.0.0.1:%d" % listener.getsockname()[1], timeout=LIMIT) as client:
            answers = await asyncio.gather(*(client.get("/") for _ in range(10)))
        done.set()
        await server
        return {answer.text for answer in answers}

    with listener:
        assert spindle.run(main()) == {"spindle.loop"}


def test_daphne_on_our_loop(program):
    """Twisted takes a loop that is given to its reactor before Daphne is imported."""
    pytest.importorskip("daphne")
    (program.directory / "start.py").write_text(textwrap.dedent("""
        import spindle
        from twisted.internet import asyncioreactor
        asyncioreactor.install(spindle.new_event_loop())
        from daphne.server import Server
        from app import app
        server = Server(app, endpoints=["tcp:port=0:interface=127.0.0.1"], server_name="daphne",
                        ready_callable=lambda: print("port", server.listening_addresses[0][1], flush=True))
        server.run()
    """))
    server = program("start.py")
    port = int(server.wait_for(r"port (\d+)"))
    client = Client(socket.create_connection(("127.0.0.1", port), LIMIT))
    assert client.get().body == b"spindle.loop 127.0.0.1"
    client.close()
    server.stop()


MANAGE = """
    import asyncio, sys
    from django.conf import settings
    from django.http import HttpResponse
    from django.urls import path

    async def view(request):
        return HttpResponse(type(asyncio.get_running_loop()).__module__)

    urlpatterns = [path("", view)]
    settings.configured or settings.configure(
        DEBUG=True, SECRET_KEY="x", ROOT_URLCONF="manage", ALLOWED_HOSTS=["*"], STATIC_URL="static/", STATICFILES_DIRS=["assets"],
        INSTALLED_APPS=["spindle.django", "django.contrib.staticfiles"], DATABASES={})

    if __name__ == "__main__":
        from django.core.management import execute_from_command_line
        execute_from_command_line(sys.argv)
"""


@pytest.mark.parametrize("options", [["--noreload"], []], ids=str)
def test_django_runserver(program, options):
    pytest.importorskip("django")
    (program.directory / "manage.py").write_text(textwrap.dedent(MANAGE))
    (program.directory / "assets").mkdir()
    (program.directory / "assets" / "style.css").write_text("p {}")
    server = program("manage.py", "runserver", "127.0.0.1:0", *options)
    pattern = r"Starting development server at http://127.0.0.1:(\d+)/"
    port = int(server.wait_for(pattern))
    client = Client(socket.create_connection(("127.0.0.1", port), LIMIT))
    response = client.get()
    assert (response.body, response["server"]) == (b"spindle.loop", "spindle")
    assert client.get("/static/style.css").body == b"p {}"
    if not options:
        # Django has no sign that it has begun to watch, so the file changes until that is noticed.
        times = itertools.count(time.time() + 10)
        wait_until(lambda: os.utime(program.directory / "manage.py", (1, next(times))) or len(re.findall(pattern, server.text)) > 1)
    client.close()
    os.killpg(server.process.pid, signal.SIGINT)  # as a terminal does
    server.process.wait(LIMIT)


CHANNELS = """
    import django
    from django.conf import settings
    settings.configure(SECRET_KEY="x", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], CHANNEL_LAYERS={
        "default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}})
    django.setup()
    from channels.generic.websocket import AsyncJsonWebsocketConsumer
    from channels.routing import ProtocolTypeRouter, URLRouter
    from django.core.asgi import get_asgi_application
    from django.urls import path

    class Chat(AsyncJsonWebsocketConsumer):
        async def connect(self):
            await self.channel_layer.group_add("room", self.channel_name)
            await self.accept()
        async def disconnect(self, code):
            await self.channel_layer.group_discard("room", self.channel_name)
        async def receive_json(self, content):
            await self.channel_layer.group_send("room", {"type": "chat.message", "text": content})
        async def chat_message(self, event):
            await self.send_json(event["text"])

    urlpatterns = []
    app = ProtocolTypeRouter({"http": get_asgi_application(), "websocket": URLRouter([path("chat", Chat.as_asgi())])})
"""


def test_channels_of_django(command):
    """What Daphne is mostly used for."""
    pytest.importorskip("channels")
    client = pytest.importorskip("websockets.sync.client")
    (command.directory / "chat.py").write_text(textwrap.dedent(CHANNELS))
    process = command("chat:app", "--port", "0")
    found = process.url()
    url = f"ws://{found[1]}:{found[2]}/chat"
    with client.connect(url) as one, client.connect(url) as two:
        one.send('"hello"')
        assert one.recv(LIMIT) == two.recv(LIMIT) == '"hello"'
    assert process.connect().get("/missing").status == 404
    assert process.stop() == 0
