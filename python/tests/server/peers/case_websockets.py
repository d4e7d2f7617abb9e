"""WebSockets: handshakes, messages and ends."""

from .case import Case
from .wire import SILENCE, Silence, Socket

TEXT, BYTES, CLOSE, PING = 1, 2, 8, 9


def handshake(name, right, fields=None, line=b"GET /echo HTTP/1.1", show=None):
    """A handshake. fields replaces those of a right one."""
    right_ones = {b"Host": b"a", b"Connection": b"Upgrade", b"Upgrade": b"websocket", b"Sec-WebSocket-Version": b"13",
                  b"Sec-WebSocket-Key": Socket.KEY}
    lines = b"".join(b"%s: %s\r\n" % (key, value) for key, value in {**right_ones, **(fields or {})}.items() if value is not None)

    def run(peer):
        with peer.connect() as wire:
            reply = wire.send(line + b"\r\n" + lines + b"\r\n").reply()
            return f"{reply.status}{' ' + show(reply) if show else ''}"

    return Case(f"WebSocket handshake: {name}", right, run)


def exchange(name, right, *frames, path=b"/echo", count=1, fields=b"", record=0):
    """Frames that a client sends, and those that it receives."""

    def run(peer):
        query = peer.id()
        with peer.socket(path + b"?" + query.encode(), fields=fields) as socket:
            if socket.answer.status != 101:
                return str(socket.answer.status)
            for frame in frames:
                socket.send(frame)
            found = [socket.receive() for _ in range(count)]
        if record:
            found += peer.wait_for_fact(query, record, 5) or ["nothing is recorded"]
        return ", ".join(found)

    return Case(f"WebSocket: {name}", right, run)


def early_frame(peer):
    """A message that is sent with the handshake."""
    with peer.socket(b"/echo", after=Socket.encode(TEXT, b"early")) as socket:
        if socket.answer.status != 101:
            return str(socket.answer.status)
        try:
            return f"{socket.answer.status}, {socket.receive(SILENCE)}"
        except Silence:
            return f"{socket.answer.status}, silence"


def leaves(reset):
    def run(peer):
        query = peer.id()
        with peer.socket(b"/late?" + query.encode()) as socket:
            socket.frame(TEXT, b"x")
            socket.receive()
            if reset:
                socket.reset()
        return ", ".join(peer.wait_for_fact(query, 2, 10)) or "nothing is recorded"

    return run


def leaves_a_stream(peer):
    query = peer.id()
    with peer.socket(b"/endless?" + query.encode()) as socket:
        socket.exactly(1000)
    return ", ".join(peer.wait_for_fact(query, 1, 30)) or "nothing is recorded"


def denial(reply):
    return reply.body.decode("latin-1")


encode = Socket.encode
BYE = encode(CLOSE, (1000).to_bytes(2, "big"))

CASES = [
    handshake("a right one", "101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", show=lambda reply: reply.get("sec-websocket-accept")),
    handshake("names in mixed case", "101", {b"Connection": b"keep-alive, UPGRADE", b"Upgrade": b"WebSocket"}),
    handshake("no key", "400", {b"Sec-WebSocket-Key": None}),
    handshake("short key", "400", {b"Sec-WebSocket-Key": b"eA=="}),
    handshake("key that is not base64", "400", {b"Sec-WebSocket-Key": b"!" * 24}),
    handshake("no version", "426", {b"Sec-WebSocket-Version": None}),
    handshake("version 8", "426 13", {b"Sec-WebSocket-Version": b"8"}, show=lambda reply: str(reply.get("sec-websocket-version"))),
    handshake("POST", "200", line=b"POST /echo HTTP/1.1"),
    handshake("HTTP/1.0", "200", line=b"GET /echo HTTP/1.0"),
    handshake("no Connection: upgrade", "200", {b"Connection": None}),
    handshake("subprotocol", "101 two", {b"Sec-WebSocket-Protocol": b"one, two"}, line=b"GET /protocol HTTP/1.1",
              show=lambda reply: str(reply.get("sec-websocket-protocol"))),
    handshake("fields of the app", "101 1 a=1 b=2", line=b"GET /fields HTTP/1.1",
              show=lambda reply: " ".join([*reply.all("x-one"), *reply.all("set-cookie")])),
    handshake("compression", "101 yes", {b"Sec-WebSocket-Extensions": b"permessage-deflate; client_max_window_bits"},
              show=lambda reply: "yes" if "permessage-deflate" in (reply.get("sec-websocket-extensions") or "") else "no"),
    handshake("denied", "403", line=b"GET /deny HTTP/1.1"),
    handshake("denied with a response", "401 a name is needed", line=b"GET /deny-with HTTP/1.1", show=denial),
    handshake("the app fails", "500", line=b"GET /fails-early HTTP/1.1"),
    handshake("the app returns", "500", line=b"GET /returns-early HTTP/1.1"),
    Case("WebSocket handshake: a message behind it", "101, text early", early_frame),

    exchange("text", "text hello", encode(TEXT, b"hello")),
    exchange("bytes", "bytes \x01\x02", encode(BYTES, b"\x01\x02")),
    exchange("empty text", "text ", encode(TEXT)),
    exchange("fragments", "text hello", encode(TEXT, b"hel", fin=False), encode(0, b"lo")),
    exchange("a ping between fragments", "pong p, text hello", encode(TEXT, b"hel", fin=False), encode(PING, b"p"), encode(0, b"lo"), count=2),
    exchange("close", "close 1000, websocket.disconnect 1000", BYE, record=1),
    exchange("close with a reason", "close 4002, websocket.disconnect 4002 done", encode(CLOSE, (4002).to_bytes(2, "big") + b"done"), record=1),
    exchange("close without a code", "close without a code, websocket.disconnect 1005", encode(CLOSE), record=1),
    exchange("close with a code of one byte", "close 1002", encode(CLOSE, b"\x03")),
    exchange("close with code 999", "close 1002", encode(CLOSE, (999).to_bytes(2, "big"))),
    exchange("close with code 1005", "close 1002", encode(CLOSE, (1005).to_bytes(2, "big"))),
    exchange("close with a reason that is not UTF-8", "close 1007", encode(CLOSE, (1000).to_bytes(2, "big") + b"\xff")),
    exchange("data after close", "close 1000, end", BYE, encode(TEXT, b"late"), count=2),
    exchange("frame without a mask", "close 1002", encode(TEXT, b"hello", masked=False)),
    exchange("reserved bit", "close 1002", encode(TEXT, b"hello", reserved=4)),
    exchange("reserved opcode", "close 1002", encode(3, b"hello")),
    exchange("fragment of a ping", "close 1002", encode(PING, b"x", fin=False)),
    exchange("ping of 126 bytes", "close 1002", encode(PING, b"x" * 126)),
    exchange("continuation of nothing", "close 1002", encode(0, b"x")),
    exchange("text inside a fragmented text", "close 1002", encode(TEXT, b"a", fin=False), encode(TEXT, b"b")),
    exchange("text that is not UTF-8", "close 1007", encode(TEXT, b"\xff\xfe")),
    exchange("a message of 17 MB", "close 1009", encode(BYTES, bytes(17 << 20))),
    exchange("what the app sees of a bad frame", "close 1002, websocket.disconnect 1002", encode(3, b"x"), record=1),
    exchange("the app closes", "close 4001 enough", path=b"/closes"),
    exchange("the app closes without a code", "close 1000", path=b"/closes-plainly"),
    exchange("the app's reason is too long", "close 4001 " + "x" * 20, path=b"/closes-long"),
    exchange("the app fails", "close 1011", path=b"/fails"),
    exchange("the app returns", "close 1000", path=b"/returns"),
    Case("WebSocket: a client that leaves", "websocket.disconnect 1006, OSError", leaves(False)),
    Case("WebSocket: a client that resets", "websocket.disconnect 1006, OSError", leaves(True)),
    Case("WebSocket: a client that leaves a stream", "OSError", leaves_a_stream),
]
