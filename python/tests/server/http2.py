"""A client of HTTP/2 that sees every frame, made of the library h2."""

import socket
import ssl

import h2.config
import h2.connection
import h2.events
import h2.settings

from .conftest import LIMIT, Response


class Client2:
    """A connection with any number of streams."""

    def __init__(self, server, certificate=None, settings=None):
        self.sock = socket.create_connection(("127.0.0.1", server.port), LIMIT)
        if certificate is not None:
            context = ssl.create_default_context(cafile=certificate / "cert.pem")
            context.check_hostname = False
            context.set_alpn_protocols(["h2", "http/1.1"])
            self.sock = context.wrap_socket(self.sock, server_hostname="localhost")
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False))
        self.h2.local_settings.update(settings or {})
        self.h2.initiate_connection()
        self.interim = {}  # by stream: the fields of interim responses
        self.responses = {}  # by stream
        self.ended = set()
        self.resets = {}  # by stream: the code
        self.goodbyes = []  # the last stream of each GOAWAY
        self.received = b""
        self.echoes = 0  # of pings
        self.acknowledges = True  # what is received, so that the server may send more
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def request(self, path="/", method="GET", headers=(), body=None, end=True, authority="test"):
        """Begin a request, and return its stream."""
        stream = self.h2.get_next_available_stream_id()
        pseudo = [(":method", method), (":scheme", "http"), (":path", path)] + ([(":authority", authority)] if authority else [])
        self.h2.send_headers(stream, [*pseudo, *headers], end_stream=end and body is None)
        self.flush()
        if body is not None:
            self.send(stream, body, end)
        return stream

    def send(self, stream, data, end=False):
        """Send a piece of a body, as fast as the server allows."""
        while data:
            while not (size := min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(data))):
                self.step()
            self.h2.send_data(stream, data[:size])
            data = data[size:]
            self.flush()
        if end:
            self.h2.end_stream(stream)
            self.flush()

    def ping(self):
        """Wait until the server has taken all that was sent."""
        echoes = self.echoes
        self.h2.ping(b"received")
        self.flush()
        self.until(lambda: self.echoes > echoes)

    def reset(self, stream):
        self.h2.reset_stream(stream, 8)
        self.flush()

    def step(self):
        """Wait for what the server sends next."""
        self.read()
        self.take()
        self.flush()

    def read(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError("the connection was closed")
        self.received += data

    def kinds(self):
        """Return the kinds of the frames that have come and were not handled."""
        at, kinds = 0, []
        while at + 9 <= len(self.received):
            kinds.append(self.received[at + 3])
            at += 9 + int.from_bytes(self.received[at:at + 3], "big")
        return kinds

    def take(self):
        """Handle the frames that have come as a whole. h2 takes a GOAWAY for the end of everything, which it is not."""
        while len(self.received) >= 9 and len(self.received) >= (size := 9 + int.from_bytes(self.received[:3], "big")):
            frame, self.received = self.received[:size], self.received[size:]
            for event in self.h2.receive_data(frame):
                self._handle(event)
            if self.h2.state_machine.state is h2.connection.ConnectionState.CLOSED:
                self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN

    def _handle(self, event):
        stream = getattr(event, "stream_id", None)
        if isinstance(event, h2.events.InformationalResponseReceived):
            self.interim.setdefault(stream, []).append(event.headers)
        elif isinstance(event, h2.events.ResponseReceived):
            (_, status), *fields = event.headers
            self.responses[stream] = Response(int(status), fields, b"", [])
        elif isinstance(event, h2.events.DataReceived):
            self.responses[stream].body += event.data
            if self.acknowledges:
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
        elif isinstance(event, h2.events.TrailersReceived):
            self.responses[stream].trailers = event.headers
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.add(stream)
        elif isinstance(event, h2.events.StreamReset):
            self.resets[stream] = event.error_code
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goodbyes.append(event.last_stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            self.echoes += 1

    def until(self, condition):
        while not condition():
            self.step()

    def response(self, stream):
        """Wait for the end of a response."""
        self.until(lambda: stream in self.ended or stream in self.resets)
        assert stream in self.ended, f"the stream was reset: {self.resets[stream]!r}"
        return self.responses[stream]

    def get(self, path="/", headers=(), method="GET", **options):
        return self.response(self.request(path, method, headers, **options))

    def close(self):
        self.sock.close()
