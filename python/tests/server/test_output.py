"""The server outlives the readers of its output, and needs no output."""

import os
import signal
import socket
import ssl
import subprocess
import sys

import pytest

from .conftest import LIMIT, Client, wait_until


def connect(path, certificate=None):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(LIMIT)
    sock.connect(path)
    if certificate is None:
        return Client(sock)
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    context.check_hostname = False
    return Client(context.wrap_socket(sock))


def listens(path):
    """Report whether a server listens. The file of a socket is there a moment before."""
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(path) == 0


def requests(path, certificate, count=20):
    for _ in range(count):
        client = connect(path, certificate)
        assert client.get().body == b"hello"
        client.close()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("output", ["stdout", "stderr"])
def test_reader_of_the_output_goes_away(command, certificate, output, workers):
    """The access log is written to standard output, a failed TLS handshake to standard error."""
    reader, writer = os.pipe()
    path = str(command.directory / "socket")
    process = command("app:app", "--uds", path, "--workers", str(workers), "--ssl-certfile", str(certificate / "cert.pem"),
                      "--ssl-keyfile", str(certificate / "key.pem"), **{output: writer})
    os.close(writer)
    wait_until(lambda: listens(path))
    requests(path, certificate, 1)
    os.close(reader)
    for _ in range(3):
        requests(path, certificate)
        with socket.socket(socket.AF_UNIX) as plain:
            plain.connect(path)
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            plain.settimeout(LIMIT)
            while plain.recv(1000):
                pass
    pids = {connect(path, certificate).get()["x-pid"] for _ in range(10)}
    assert process.process.poll() is None
    assert "was killed" not in "".join(process.err)
    assert len(pids) <= workers  # none was replaced
    process.stop()


@pytest.mark.parametrize("workers", [1, 2])
def test_standard_descriptors_are_closed(command, workers):
    """The access log must not be written to what has got the number of a closed descriptor, such as the metrics."""
    path = str(command.directory / "socket")
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", sys.executable, "-m", "spindle", "app:app", "--uds", path,
         "--workers", str(workers), "--metrics", "/metrics"], cwd=command.directory)
    try:
        wait_until(lambda: listens(path))
        requests(path, None)
        pids = {process.pid, int(connect(path).get()["x-pid"])}
        for pid in pids:
            assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)} == {"/dev/null"}
        counted = connect(path).get("/metrics").body.decode()
        assert 'status="2xx"} 21\n' in counted and "spindle_websockets_total 0\n" in counted
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
