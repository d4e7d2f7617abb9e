"""The beginning and the end of a server. Each case has servers of its own."""

import contextlib
import signal
import threading

from .case import Case
from .wire import LIMIT, Closed, Silence


def ending(code):
    if isinstance(code, int) and code < 0:
        return f"ends by {signal.Signals(-code).name}"
    return "exit code 0" if code == 0 else "exit with an error"


def beginning(name, lifespan, right):
    """Whether the server serves with such a lifespan, and its exit code after SIGTERM, or at once."""

    def run(start):
        peer = start(lifespan=lifespan)
        if not peer.wait_until_ready():
            return f"does not serve, {ending(peer.ended())}"
        code = peer.stop()
        return ", ".join(["serves", *peer.facts_of("lifespan"), ending(code)])

    return Case(f"lifespan: {name}", right, run, own=True)


def state(start):
    peer = start()
    peer.wait_until_ready()
    with peer.connect() as wire:
        return "shared" if b'"state": "yes"' in wire.send(b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n").reply().body else "not shared"


def fetch(peer, path=b"/slow"):
    """Begin a request in a thread. Return a function that waits for its outcome."""
    found, query = [], peer.id()

    def run():
        with peer.connect() as wire:
            try:
                reply = wire.send(b"GET " + path + b"?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n").reply(limit=LIMIT)
                found.append(f"{reply.status} {reply.body.decode()[:20]}" + ("" if reply.whole else ", cut"))
            except (Closed, Silence, OSError):
                found.append("lost")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def outcome():
        thread.join(LIMIT)
        return found[0] if found else "silence"

    return outcome, query


def in_flight(number):
    def run(start):
        peer = start()
        peer.wait_until_ready()
        outcome, query = fetch(peer)
        peer.wait_for_fact(query)
        peer.process.send_signal(number)
        return f"{outcome()}, {ending(peer.ended())}"

    return run


def idle_connection(start):
    """A connection that waits for its next request does not delay the end."""
    peer = start()
    peer.wait_until_ready()
    with peer.connect() as wire:
        wire.send(b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n").reply()
        code = peer.stop()
        return "ends" if code != "it had to be killed" else code


def request_on_its_way(start):
    """A request on a kept connection, when the server has begun to stop."""
    peer = start()
    peer.wait_until_ready()
    outcome, query = fetch(peer)
    peer.wait_for_fact(query)  # so that the server has something to wait for
    with peer.connect() as wire:
        wire.send(b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n").reply()
        peer.process.send_signal(signal.SIGTERM)
        peer.wait_until_refused()
        try:
            reply = wire.send(b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n").reply(limit=LIMIT)
            text = f"{reply.status}, {reply.get('connection') or 'no Connection'}"
        except (Closed, Silence):
            text = "lost"
    outcome()
    peer.ended()
    return text


def stream_at_the_end(start):
    """A stream without an end, when the time for requests is over."""
    peer = start(graceful=1)
    peer.wait_until_ready()
    with peer.connect() as wire:
        query = peer.id()
        wire.send(b"GET /waits?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        peer.wait_for_fact(query)
        code = peer.stop()
    return "ends" if code != "it had to be killed" else code


def socket_at_the_end(start):
    peer = start(graceful=2)
    peer.wait_until_ready()
    with contextlib.closing(peer.socket(b"/echo").sock) as _:
        pass
    with peer.socket(b"/echo") as socket:
        socket.frame(1, b"x")
        socket.receive()
        peer.process.send_signal(signal.SIGTERM)
        frame = socket.receive()
    peer.ended()
    return frame


def upload_at_the_end(start):
    """An upload with a body that comes when the server is stopping."""
    peer = start()
    peer.wait_until_ready()
    with peer.connect() as wire:
        query = peer.id()
        wire.send(b"POST /upload?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
        peer.wait_for_fact(query)
        peer.process.send_signal(signal.SIGTERM)
        try:
            reply = wire.send(b"world").reply(limit=LIMIT)
            text = f"{reply.status} {reply.body.decode()}"
        except (Closed, Silence):
            text = "lost"
    peer.ended()
    return text


CASES = [
    beginning("complete", "complete", "serves, startup, shutdown, exit code 0"),
    beginning("none", "none", "serves, exit code 0"),
    beginning("returns at once", "returns", "serves, exit code 0"),
    beginning("startup fails", "fails", "does not serve, exit with an error"),
    beginning("raises while the app serves", "raises-later", "serves, startup, exit code 0"),
    beginning("shutdown fails", "shutdown-fails", "serves, startup, shutdown, exit with an error"),
    beginning("shutdown raises", "shutdown-raises", "serves, startup, shutdown, exit with an error"),
    Case("lifespan: state", "shared", state, own=True),
    Case("end: SIGTERM with a request", "200 slow, exit code 0", in_flight(signal.SIGTERM), own=True),
    Case("end: SIGINT with a request", "200 slow, exit code 0", in_flight(signal.SIGINT), own=True),
    Case("end: an idle connection", "ends", idle_connection, own=True),
    Case("end: a request on its way", "200, close", request_on_its_way, own=True),
    Case("end: an upload under way", "200 10", upload_at_the_end, own=True),
    Case("end: a request that waits for ever", "ends", stream_at_the_end, own=True),
    Case("end: a WebSocket", "close 1001", socket_at_the_end, own=True),
]
