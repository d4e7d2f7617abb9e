import asyncio
import gc
import os
import signal
import ssl
import subprocess
import sys
import textwrap
import threading

import pytest

import spindle

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job in the background; some tests would not end

# Go's runtime opens an epoll descriptor and an eventfd of its own when it first needs them.
# A loop that is left open has five descriptors.
GO_FDS = 2


@pytest.fixture
def loop():
    """A loop that is closed after the test, and left nothing open."""
    fds, threads = open_fds(), threading.active_count()
    loop = spindle.new_event_loop()
    yield loop
    if not loop.is_closed():
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    gc.collect()
    assert open_fds() <= fds + GO_FDS
    assert threading.active_count() <= threads


@pytest.fixture(params=[spindle.new_event_loop, asyncio.SelectorEventLoop], ids=["spindle", "asyncio"])
def run(request):
    """Runs a coroutine on Spindle's loop, and in another test on asyncio's: the outcome is the same."""

    def run(main):
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(asyncio.wait_for(main, 30))

    return run


@pytest.fixture(scope="session", autouse=True)
def go_is_loaded():
    """Load Go before the first test counts descriptors: its runtime has some of its own."""
    spindle.new_event_loop().close()


@pytest.fixture(scope="session")
def tls(tmp_path_factory):
    """The contexts of a server and of a client that trusts every server."""
    path = str(tmp_path_factory.mktemp("tls") / "pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=test",
         "-days", "1", "-keyout", path, "-out", path + ".crt"], check=True, capture_output=True)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(path + ".crt", path)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    return server, client


def open_fds():
    return len(os.listdir("/proc/self/fd"))


def python(source, *args, timeout=600):
    """Run source in an interpreter of its own and return its exit code, output and errors."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=timeout)
    return done.returncode, done.stdout, done.stderr


async def echo_server(factory=None, **kwargs):
    """Start an echo server on a free port and return it with its address."""

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)

    server = await asyncio.get_running_loop().create_server(factory or Echo, "127.0.0.1", 0, **kwargs)
    return server, server.sockets[0].getsockname()


def pytest_collection_modifyitems(items):
    """Run the tests of frameworks last: some leave threads behind."""
    items.sort(key=lambda item: "test_frameworks" in item.nodeid)
