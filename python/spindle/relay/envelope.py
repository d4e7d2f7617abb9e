"""Messages on a bus, and the errors of calls."""

import dataclasses


@dataclasses.dataclass(slots=True)
class Envelope:
    """A message. Requests, cancellations and credits go to workers, and items, replies and failures to callers."""

    kind: str
    subject: str = ""
    reply_to: str = ""
    id: str = ""  # of the call
    seq: int = 0  # the number of an item; in a request for a stream and in a credit the items that are allowed
    deadline: float | None = None  # the seconds that remain
    traceparent: str = ""
    tracestate: str = ""
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    route: str = ""  # for buses: where answers to a request go, or a message to the worker of an answer, if that is not clear otherwise
    sender: str = ""  # of an answer: the subject of its request
    attempt: int = 0  # how often a bus has delivered the request, and the same in its answers

    def header(self):
        """Return the header of a frame."""
        header = {"kind": self.kind, "id": self.id}
        for name in ("subject", "reply_to", "seq", "traceparent", "tracestate", "headers"):
            if value := getattr(self, name):
                header[name] = value
        if self.deadline is not None:
            header["deadline_us"] = max(1, int(self.deadline * 1e6))
        return header


def of_frame(header, body):
    """Return the envelope of a frame."""
    due = header.get("deadline_us")
    return Envelope(header["kind"], header.get("subject", ""), header.get("reply_to", ""), header.get("id", ""), header.get("seq", 0),
                    due and due / 1e6, header.get("traceparent", ""), header.get("tracestate", ""), header.get("headers", {}), bytes(body))


CODE = "Relay-Error"  # the header of a failure with its code
MOST_ITEMS = 2**32 - 1  # of a stream: Envelope.seq has 32 bits


class RemoteError(Exception):
    """The handler has failed, or its worker. code says how, such as "error" or "exited"."""

    def __init__(self, message, code="error"):
        super().__init__(message)
        self.code = code


class NoResponder(Exception):
    """No worker serves the subject."""
