"""Load for the cases of server.py that wrk cannot make."""

import os
import re
import socket
import subprocess
import time


def h2load(port, path, seconds):
    """Return how many requests by HTTP/2 were answered: 32 connections, 16 requests at a time on each."""
    text = subprocess.run(["h2load", "-c32", "-m16", f"-D{seconds}", f"http://127.0.0.1:{port}{path}"],
                          capture_output=True, text=True, check=True).stdout
    found = re.search(r"requests: \d+ total, .* (\d+) succeeded, (\d+) failed", text)
    if int(found[2]) > 0 or int(found[1]) == 0:
        raise ConnectionError(text)
    return int(found[1])


def frame(message):
    """Return a masked text frame of up to 125 bytes."""
    mask = os.urandom(4)
    return bytes([0x81, 0x80 | len(message)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(message))


def connect(port):
    sock = socket.create_connection(("127.0.0.1", port), 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                 b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(1)
    if b" 101 " not in head:
        raise ConnectionError(f"the server has refused the WebSocket: {head!r}")
    return sock


def websocket(port, connections, size, seconds):
    """Return how many messages were echoed. All connections send one; then all receive theirs."""
    message = b"x" * size
    sent, expected = frame(message), bytes([0x81, size]) + message
    sockets = [connect(port) for _ in range(connections)]
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for sock in sockets:
            sock.sendall(sent)
        for sock in sockets:
            if sock.recv(len(expected), socket.MSG_WAITALL) != expected:
                raise ConnectionError("something else was echoed")
        count += connections
    for sock in sockets:
        sock.close()
    return count
