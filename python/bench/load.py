"""Load for echo servers that the load generator of bench/ does not speak to: TLS, UDP, idle connections.

All clients are in one thread. They send one message each, then receive the answers, so that the
server has a burst of messages to answer at a time.
"""

import os
import resource
import socket
import ssl
import time


def cpu_seconds(pid):
    """Return the CPU time of a process, of all its threads."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e9


def rate(pid, burst, messages, window):
    """Return how many messages a second of the server's CPU time answers."""
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        burst()
    count, begin, end = 0, cpu_seconds(pid), time.monotonic() + window
    while time.monotonic() < end:
        burst()
        count += messages
    return count / (cpu_seconds(pid) - begin)


def receive(sock, size):
    while size:
        data = sock.recv(size)
        if not data:
            raise ConnectionError("the server has closed the connection")
        size -= len(data)


def tls(pid, port, connections, size, window):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sockets = []
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets.append(context.wrap_socket(sock))
    message = os.urandom(size)

    def burst():
        for sock in sockets:
            sock.sendall(message)
        for sock in sockets:
            receive(sock, size)

    return rate(pid, burst, connections, window)


def udp(pid, port, connections, size, window):
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(connections)]
    message = os.urandom(size)
    for sock in sockets:
        sock.connect(("127.0.0.1", port))
        sock.settimeout(10)

    def burst():
        for sock in sockets:
            sock.send(message)
        for sock in sockets:
            if sock.recv(65536) != message:
                raise ConnectionError("another datagram came back")

    return rate(pid, burst, connections, window)


def memory(pid):
    """Return the memory of a process that no other shares, in bytes."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_")) * 1024


def idle_bytes(pid, port, first, more):
    """Return what each connection beyond the first ones adds to the server's memory."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sockets = []

    def open_to(count):
        while len(sockets) < count:
            sock = socket.create_connection(("127.0.0.1", port))
            sockets.append(sock)
            sock.sendall(b"x")
            receive(sock, 1)

    open_to(first)
    before = memory(pid)
    open_to(first + more)
    return (memory(pid) - before) / more
