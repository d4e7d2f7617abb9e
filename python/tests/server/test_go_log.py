"""Go's log is Python's: its records go through logging, and obey --log-level."""

import logging
import socket
import ssl

import pytest

from .conftest import LIMIT, wait_until


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def speak_plainly(address):
    """Send what is not TLS, and wait until the server has closed the connection."""
    with socket.create_connection(address, LIMIT) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        try:
            while client.recv(1000):
                pass
        except ConnectionError:
            pass


def speak_tls(address, certificate):
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    context.check_hostname = False
    with socket.create_connection(address, LIMIT) as sock, context.wrap_socket(sock) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        while client.recv(1000):
            pass


def test_failed_handshake_is_a_record_of_logging(serve, certificate, caplog):
    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"))
    speak_plainly(("127.0.0.1", server.port))
    wait_until(lambda: any("TLS handshake failed" in r.getMessage() for r in caplog.records))
    record, = (r for r in caplog.records if "TLS handshake failed" in r.getMessage())
    assert (record.name, record.levelno) == ("spindle.server", logging.WARNING)
    assert "127.0.0.1" in record.getMessage() and "\n" not in record.getMessage()


@pytest.mark.parametrize("level, logged", [("warning", True), ("error", False)])
def test_level_of_the_log(command, certificate, level, logged):
    with socket.socket() as listener:  # the level hides the line with the port
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        process = command("app:app", "--fd", str(listener.fileno()), "--log-level", level, "--ssl-certfile",
                          str(certificate / "cert.pem"), "--ssl-keyfile", str(certificate / "key.pem"), "--lifespan", "off",
                          pass_fds=[listener.fileno()])
        for _ in range(3):
            speak_plainly(listener.getsockname())
        speak_tls(listener.getsockname(), certificate)
    assert process.stop() == 0
    process.readers_end()
    lines = [line for line in process.err if "TLS handshake failed" in line]
    assert len(lines) == (3 if logged else 0), "".join(process.err)
    assert all(line.startswith("WARNING: web: TLS handshake failed: remote=") for line in lines)
