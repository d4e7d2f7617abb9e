"""What becomes of an app's messages."""

from .case import SHOW_BODY, Case, recorded, response
from .wire import Closed


def shown(name, path, right, show=SHOW_BODY, **options):
    return response(f"response: {name}", path, right, show, **options)


def framing(reply):
    return reply.framing


def framed(reply):
    return f"{reply.body.decode('latin-1')} {reply.framing}".strip()


def persistence(reply):
    return f"{reply.version} {reply.framing} {(reply.get('connection') or 'nothing').lower()}"


def fields(*names):
    return lambda reply: " ".join(f"{key}={value}" for key, value in reply.fields if key.lower() in names)


def early_hint(peer):
    with peer.connect() as wire:
        reply = wire.send(b"GET /hint HTTP/1.1\r\nHost: a\r\n\r\n").reply()
        return ", ".join([*(f"{i.status} {i.get('link')}" for i in reply.interim), str(reply.status)])


def early_hint_of_an_old_client(peer):
    with peer.connect() as wire:
        reply = wire.send(b"GET /hint HTTP/1.0\r\nHost: a\r\n\r\n").reply()
        return ", ".join([*(str(i.status) for i in reply.interim), str(reply.status)])


def head_comes_first(peer):
    """The head of a stream that has nothing to say yet."""
    with peer.connect() as wire:
        head = wire.send(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n").head()
        return f"{head.status} {head.get('content-type')}"


def complete(name, path, right):
    """Whether a response that the app does not complete can be taken for a complete one."""

    def run(peer):
        with peer.connect() as wire:
            wire.send(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\n\r\n")
            try:
                reply = wire.reply()
            except Closed:
                return "closes without a response"
            return f"{reply.status} {reply.body.decode('latin-1') if reply.status == 200 else ''}".strip() \
                + (", complete" if reply.whole and reply.framing != "no length" else ", cut")

    return Case(f"failure: {name}", right, run)


def alone(case):
    """A case with a server of its own, since it may end a server."""

    def run(start):
        peer = start()
        peer.wait_until_ready()
        outcome = case.outcome(peer)
        try:
            with peer.connect() as wire:
                return outcome if wire.keeps() else f"{outcome}; the server is dead"
        except ConnectionError:
            return f"{outcome}; the server is dead"

    return Case(case.name, case.right, run, own=True)


CASES = [
    shown("a stream", b"/stream", "200 onetwothree chunks, keeps", framed),
    shown("a stream in HTTP/1.0", b"/stream", "200 onetwothree no length, closes", framed, version=b"1.0"),
    shown("a stream in HTTP/1.0 with keep-alive", b"/stream", "200 onetwothree no length, closes", framed, version=b"1.0",
          fields=b"Connection: keep-alive\r\n"),
    shown("one piece without a length", b"/one", "200 one piece length 9, keeps", framed),
    shown("nothing", b"/empty", "200 length 0, keeps", framed),
    shown("one piece in HTTP/1.0", b"/one", "200 HTTP/1.1 length 9 close, closes", persistence, version=b"1.0"),
    shown("one piece in HTTP/1.0 with keep-alive", b"/one", "200 HTTP/1.1 length 9 keep-alive, keeps", persistence, version=b"1.0",
          fields=b"Connection: keep-alive\r\n"),
    shown("HEAD of a length", b"/unread", "200 length 6, keeps", framing, method="HEAD"),
    shown("HEAD of one piece", b"/one", "200 length 9, keeps", framing, method="HEAD"),
    shown("HEAD of a stream", b"/stream", "200 chunks, keeps", framing, method="HEAD"),
    shown("HEAD of nothing", b"/empty", "200 chunks, keeps", framing, method="HEAD"),
    shown("204", b"/bodyless/204", "204 no length, keeps", framing),
    shown("204 with a body", b"/status/204", "204 no length, keeps", framing),
    shown("304", b"/bodyless/304", "304 no length, keeps", framing),
    shown("304 with a body", b"/status/304", "304 no length, keeps", framing),
    shown("205 with a body", b"/status/205", "205 length 5, keeps", framing),
    shown("status 299", b"/status/299", "299 length 5, keeps", framing),
    shown("status 599", b"/status/599", "599 length 5, keeps", framing),
    shown("status 101", b"/status/101", "500, closes"),
    alone(shown("status 99", b"/status/99", "500, closes")),
    alone(shown("status 1000", b"/status/1000", "500, closes")),
    shown("body longer than its length", b"/announced/3", "500, closes"),
    shown("body shorter than its length", b"/announced/7", "500, closes"),
    shown("HEAD with another length", b"/announced/7", "200 length 7, keeps", framing, method="HEAD"),
    shown("length that is no number", b"/announced/x", "500, closes"),
    shown("transfer-encoding of the app", b"/own_chunks", "200 12345 chunks, keeps", framed),
    shown("Connection: close of the app", b"/close", "200 bye, closes"),
    shown("cookies and other fields, in order", b"/fields", "200 set-cookie=a=1 x-one=1 set-cookie=b=2, keeps", fields("set-cookie", "x-one")),
    shown("Server and Date of the app", b"/fields", "200 1 Server 1 Date, keeps",
          lambda reply: f"{len(reply.all('server'))} Server {len(reply.all('date'))} Date"),
    shown("Server and Date", b"/one", "200 present present, keeps",
          lambda reply: " ".join("present" if reply.get(name) else "missing" for name in ("server", "date"))),
    shown("field in upper case", b"/upper", "200 X-Upper=1, keeps", fields("x-upper")),
    shown("field with a line end", b"/bad_value", "500, closes", fields("x-bad", "x-injected")),
    shown("field with a space in its name", b"/bad_name", "500, closes", fields("x bad")),
    shown("fields as text", b"/text_fields", "500, closes", fields("x-text")),
    shown("no fields and no body", b"/no_fields", "200 length 0, keeps", framed),
    shown("trailers", b"/trailers", "200 x-sum: 15, keeps", lambda reply: " ".join(reply.trailers) or "none", fields=b"TE: trailers\r\n"),
    shown("trailers that the client does not want", b"/trailers", "200 none, keeps", lambda reply: " ".join(reply.trailers) or "none"),
    Case("response: early hint", "103 </style.css>; rel=preload, 200", early_hint),
    Case("response: early hint in HTTP/1.0", "200", early_hint_of_an_old_client),
    Case("response: the head of a silent stream", "200 text/event-stream", head_comes_first),

    complete("before the response", b"/fails", "500, complete"),
    complete("after its start", b"/fails_after_start", "500, complete"),
    complete("in its body", b"/fails_in_body", "200 half, cut"),
    complete("after its end", b"/fails_after_end", "200 whole, complete"),
    complete("return without a response", b"/returns", "500, complete"),
    complete("return after the start", b"/returns_after_start", "500, complete"),
    complete("return in the body", b"/returns_in_body", "200 half, cut"),
    recorded("messages: body before the start", b"/body_first", "500, message 0 raises"),
    recorded("messages: start twice", b"/start_twice", "500, message 1 raises"),
    recorded("messages: body after the end", b"/after_end", "200, message 0 raises"),
    recorded("messages: unknown", b"/unknown_message", "500, message 0 raises"),
]
