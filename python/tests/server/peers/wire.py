"""A connection that shows what a server does with it, whatever that is."""

import os
import re
import select
import socket
import struct
import zlib

#: Seconds. A server that says nothing for so long has nothing to say.
SILENCE = 3
#: Seconds. Only a server that hangs takes so long.
LIMIT = 30


class Silence(Exception):
    """The server neither answers nor closes the connection."""


class Closed(Exception):
    """The server has closed the connection instead of answering."""


class Reply:
    """A response, as far as it came."""

    def __init__(self, status, version, fields):
        self.status, self.version, self.fields = status, version, fields
        self.body, self.trailers, self.whole, self.interim = b"", [], True, []

    def get(self, name):
        return next((value for key, value in self.fields if key.lower() == name), None)

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name]

    @property
    def framing(self):
        """How the body ends: length 5, chunks, close, or nothing at all."""
        if self.get("transfer-encoding"):
            return "chunks" if not self.get("content-length") else "chunks and a length"
        length = self.get("content-length")
        return f"length {length}" if length is not None else "no length"


class Wire:
    """A connection to a server."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), LIMIT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError:
            pass  # what it has answered before counts
        return self

    def reset(self):
        """Leave without a word."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)
        return self

    def _more(self, limit):
        if not select.select([self.sock], [], [], limit)[0] and (limit >= LIMIT or self._silent()):
            raise Silence
        try:
            data = self.sock.recv(65536)
        except OSError:
            data = b""
        self.data += data
        return bool(data)

    def _silent(self):
        """Report whether the server says nothing although it has the time: it answers others first."""
        with Wire(self.sock.getpeername()[1]) as other:
            other.keeps()
        return not select.select([self.sock], [], [], SILENCE / 3)[0]

    def line(self, limit=LIMIT):
        while b"\n" not in self.data:
            if not self._more(limit):
                raise Closed
        line, _, self.data = self.data.partition(b"\n")
        return line.rstrip(b"\r").decode("latin-1")

    def exactly(self, count, limit=LIMIT):
        """Return so many bytes, or as many as come before the end."""
        while len(self.data) < count and self._more(limit):
            pass
        data, self.data = self.data[:count], self.data[count:]
        return data

    def rest(self):
        while self._more(LIMIT):
            pass
        data, self.data = self.data, b""
        return data

    def head(self, limit=SILENCE):
        found = re.fullmatch(r"(HTTP/\d\.\d) (\d{3})( .*)?", first := self.line(limit))
        if found is None:
            raise Closed(first)
        fields = []
        while line := self.line():
            name, _, value = line.partition(":")
            fields.append((name, value.strip()))
        return Reply(int(found[2]), found[1], fields)

    def reply(self, method="GET", limit=SILENCE):
        """Return a response."""
        interim = []
        while (reply := self.head(limit)).status < 200 and reply.status != 101:
            interim.append(reply)
        reply.interim = interim
        if method == "HEAD" or reply.status in (101, 204, 304):
            return reply
        try:
            self._body(reply)
        except Closed:
            reply.whole = False
        return reply

    def _body(self, reply):
        if "chunked" in (reply.get("transfer-encoding") or ""):
            while size := int(self.line().partition(";")[0] or "0", 16):
                reply.body += (data := self.exactly(size))
                if len(data) < size:
                    raise Closed
                self.line()
            while line := self.line():
                reply.trailers.append(line)
        elif reply.get("content-length") is not None:
            length = int(reply.get("content-length"))
            reply.body = self.exactly(length)
            reply.whole = len(reply.body) == length
        else:
            reply.body = self.rest()

    def keeps(self):
        """Report whether the server takes another request."""
        self.send(b"GET /one HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        try:
            return self.reply(limit=LIMIT).body == b"one piece"
        except (Closed, Silence, ValueError):
            return False


class Socket(Wire):
    """A WebSocket."""

    KEY = b"dGhlIHNhbXBsZSBub25jZQ=="

    def __init__(self, port, path, fields=b"", after=b""):
        super().__init__(port)
        self.send(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                  b"Sec-WebSocket-Key: " + self.KEY + b"\r\n" + fields + b"\r\n" + after)
        self.answer = self.reply()

    @staticmethod
    def encode(opcode, payload=b"", fin=True, masked=True, reserved=0):
        first = (0x80 if fin else 0) | reserved << 4 | opcode
        bit, length = 0x80 if masked else 0, len(payload)
        size = bytes([bit | length]) if length < 126 else bytes([bit | 126]) + struct.pack(">H", length) if length < 65536 \
            else bytes([bit | 127]) + struct.pack(">Q", length)
        if not masked:
            return bytes([first]) + size + payload
        mask = os.urandom(4)
        pad = (mask * (length // 4 + 1))[:length]
        covered = (int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")).to_bytes(length, "big")
        return bytes([first]) + size + mask + covered

    def frame(self, *args, **kwargs):
        return self.send(self.encode(*args, **kwargs))

    def receive(self, limit=LIMIT):
        """Return the next frame that is no ping, as text. The end of the connection is a frame, too."""
        while (frame := self._receive(limit)).startswith("ping"):
            pass
        return frame

    def _receive(self, limit):
        head = self.exactly(2, limit)
        if len(head) < 2:
            return "end"
        length = head[1] & 127
        if length > 125:
            length = int.from_bytes(self.exactly(2 if length == 126 else 8), "big")
        payload = self.exactly(length)
        if head[0] & 0x40:
            payload = zlib.decompressobj(-15).decompress(payload + b"\0\0\xff\xff")
        opcode = head[0] & 15
        if opcode == 8:
            code = int.from_bytes(payload[:2], "big") if payload else "without a code"
            reason = payload[2:].decode("utf-8", "replace")
            return f"close {code}" + (f" {reason[:20]}" if opcode == 8 and reason and code >= 4000 else "")
        names = {1: "text", 2: "bytes", 9: "ping", 10: "pong"}
        return f"{names.get(opcode, opcode)} {payload.decode('latin-1')}"
