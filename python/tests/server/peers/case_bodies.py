"""Where a request's body ends, what follows it, and when it is wanted."""

from .case import Case, request
from .wire import Closed, Silence

POST = b"POST /echo HTTP/1.1\r\nHost: a\r\n"


def body(found):
    return repr(found["body"])


def framed(name, fields, data, right, version=b"1.1"):
    return request(f"body: {name}", b"POST /echo HTTP/" + version + b"\r\nHost: a\r\n" + fields + b"\r\n\r\n" + data, right, body)


def chunked(name, data, right):
    return framed(name, b"Transfer-Encoding: chunked", data, right)


def pipelined(name, requests, right, methods=("GET",) * 3):
    """Several requests at once. The outcome is the bodies of their responses, or their statuses."""

    def run(peer):
        found = []
        with peer.connect() as wire:
            wire.send(requests)
            for method in methods:
                try:
                    reply = wire.reply(method)
                except (Closed, Silence) as e:
                    found.append("silence" if isinstance(e, Silence) else "end")
                    break
                text = reply.body.decode("latin-1")
                found.append(str(reply.status) if reply.status != 200 or text.startswith("{") else text)
            if len(methods) > 10:
                found[:-1] = [f"{len(found) - 1} × {text}" for text in sorted(set(found[:-1]))]
            return ", ".join(found)

    return Case(f"pipeline: {name}", right, run)


def expecting(name, path, fields, right, version=b"1.1", later=b"hello"):
    """A request that waits for 100 before it sends its body."""

    def run(peer):
        with peer.connect() as wire:
            wire.send(b"POST /" + path + b" HTTP/" + version + b"\r\nHost: a\r\n" + fields + b"\r\n\r\n")
            found = []
            try:
                head = wire.head()
                if head.status == 100:
                    found.append("100")
                    head = wire.send(later).reply()
                found.append(str(head.status))
            except Silence:
                found.append("silence")
                wire.send(later)
                found.append(str(wire.reply().status))
            return ", ".join(found)

    return Case(f"expect: {name}", right, run)


def half_upload(peer):
    """An app that does not read the body answers, and the client never sends all of it."""
    with peer.connect() as wire:
        wire.send(b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
        reply = wire.reply()
        return f"{reply.status} {reply.body.decode()}"


GET = b" HTTP/1.1\r\nHost: a\r\n\r\n"
LENGTH = b"Content-Length: 5"

CASES = [
    framed("a length", LENGTH, b"hello", "200 'hello', keeps"),
    framed("a length of nothing", b"Content-Length: 0", b"", "200 '', keeps"),
    framed("no length", b"X-A: 1", b"", "200 '', keeps"),
    framed("length with a sign", b"Content-Length: +5", b"hello", "400, closes"),
    framed("negative length", b"Content-Length: -5", b"", "400, closes"),
    framed("length in hexadecimal", b"Content-Length: 0x5", b"hello", "400, closes"),
    framed("empty length", b"Content-Length:", b"", "400, closes"),
    framed("length with an underscore", b"Content-Length: 0_5", b"hello", "400, closes"),
    framed("list of equal lengths", b"Content-Length: 5, 5", b"hello", "400, closes"),
    framed("equal lengths", LENGTH + b"\r\n" + LENGTH, b"hello", "400, closes"),
    framed("lengths that differ", LENGTH + b"\r\nContent-Length: 6", b"hello!", "400, closes"),
    framed("length beyond 64 bits", b"Content-Length: 99999999999999999999", b"", "400, closes"),
    chunked("chunks", b"5\r\nhello\r\n0\r\n\r\n", "200 'hello', keeps"),
    chunked("chunk sizes in upper case", b"A\r\n0123456789\r\n0\r\n\r\n", "200 '0123456789', keeps"),
    chunked("chunk sizes with zeros", b"0005\r\nhello\r\n000\r\n\r\n", "200 'hello', keeps"),
    chunked("chunk extensions", b"5;a=b;c=\"d;e\"\r\nhello\r\n0;x\r\n\r\n", "200 'hello', keeps"),
    chunked("chunk size with 0x", b"0x5\r\nhello\r\n0\r\n\r\n", "400, closes"),
    chunked("chunk size with a sign", b"+5\r\nhello\r\n0\r\n\r\n", "400, closes"),
    chunked("chunk size that is empty", b"\r\nhello\r\n0\r\n\r\n", "400, closes"),
    chunked("chunk size beyond 64 bits", b"FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", "400, closes"),
    chunked("chunk size with a space", b"5 \r\nhello\r\n0\r\n\r\n", "400, closes"),
    chunked("chunk longer than its size", b"4\r\nhello\r\n0\r\n\r\n", "400, closes"),
    chunked("chunk with a bare line feed", b"5\nhello\r\n0\r\n\r\n", "400, closes"),
    chunked("chunk extension with a bare line feed", b"5;a\nb\r\nhello\r\n0\r\n\r\n", "400, closes"),
    chunked("trailers", b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "200 'hello', keeps"),
    chunked("trailers that are malformed", b"5\r\nhello\r\n0\r\nnonsense\r\n\r\n", "400, closes"),
    chunked("trailers with a length", b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n", "400, closes"),
    framed("chunks in mixed case", b"Transfer-Encoding: CHUNKed", b"5\r\nhello\r\n0\r\n\r\n", "200 'hello', keeps"),
    framed("chunks and a length", b"Transfer-Encoding: chunked\r\n" + LENGTH, b"5\r\nhello\r\n0\r\n\r\n", "400, closes"),
    framed("a length and chunks", LENGTH + b"\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", "400, closes"),
    framed("chunks in HTTP/1.0", b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", "400, closes", b"1.0"),
    framed("chunked twice", b"Transfer-Encoding: chunked, chunked", b"5\r\nhello\r\n0\r\n\r\n", "400, closes"),
    framed("two fields chunked", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", "400, closes"),
    framed("coding that is unknown", b"Transfer-Encoding: gzip, chunked", b"5\r\nhello\r\n0\r\n\r\n", "501, closes"),
    framed("coding after chunked", b"Transfer-Encoding: chunked, gzip", b"5\r\nhello\r\n0\r\n\r\n", "400, closes"),
    framed("identity", b"Transfer-Encoding: identity", b"", "501, closes"),
    framed("coding with a control character", b"Transfer-Encoding: \x0bchunked", b"5\r\nhello\r\n0\r\n\r\n", "400, closes"),
    framed("coding in quotes", b"Transfer-Encoding: \"chunked\"", b"5\r\nhello\r\n0\r\n\r\n", "400, closes"),
    request("body: of GET", b"GET /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "200 'hello', keeps", body),
    request("body: not read by the app", b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "200, keeps"),
    request("body: large, not read by the app",
            b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000, "200, keeps"),
    Case("body: not read by the app, and never sent", "200 unread", half_upload),

    request("keep-alive: Connection: close", b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200, closes"),
    request("keep-alive: Connection: CLOSE", b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: CLOSE\r\n\r\n", "200, closes"),
    request("keep-alive: both", b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n", "200, closes"),
    request("keep-alive: of HTTP/1.0", b"GET /echo HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", "200, keeps"),
    request("keep-alive: of the proxy", b"GET /echo HTTP/1.0\r\nHost: a\r\nProxy-Connection: keep-alive\r\n\r\n", "200, closes"),

    pipelined("three requests", b"".join(b"GET /" + p + GET for p in (b"slow", b"unread", b"one")), "slow, unread, one piece"),
    pipelined("a body before a request", POST + LENGTH + b"\r\n\r\nhelloGET /one" + GET, "200, one piece", ("POST", "GET")),
    pipelined("chunks before a request", POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /one" + GET,
              "200, one piece", ("POST", "GET")),
    pipelined("a body that is not read", b"POST /unread HTTP/1.1\r\nHost: a\r\n" + LENGTH + b"\r\n\r\nhelloGET /one" + GET,
              "unread, one piece", ("POST", "GET")),
    pipelined("close first", b"GET /unread HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /one" + GET, "unread, end", ("GET", "GET")),
    pipelined("nonsense behind a request", b"GET /slow" + GET + b"nonsense\r\n\r\n", "slow, 400, end"),
    pipelined("HEAD before GET", b"HEAD /one" + GET + b"GET /one" + GET, ", one piece", ("HEAD", "GET")),
    pipelined("an app that fails", b"GET /fails" + GET + b"GET /one" + GET, "500, end", ("GET", "GET")),
    pipelined("200 requests", (b"GET /unread" + GET) * 199 + b"GET /one" + GET, "199 × unread, one piece", ("GET",) * 200),

    expecting("the app reads", b"echo", LENGTH + b"\r\nExpect: 100-continue", "100, 200"),
    expecting("in mixed case", b"echo", LENGTH + b"\r\nExpect: 100-Continue", "100, 200"),
    expecting("with chunks", b"echo", b"Transfer-Encoding: chunked\r\nExpect: 100-continue", "100, 200", later=b"5\r\nhello\r\n0\r\n\r\n"),
    expecting("the app does not read", b"unread", LENGTH + b"\r\nExpect: 100-continue", "200"),
    expecting("HTTP/1.0", b"echo", LENGTH + b"\r\nExpect: 100-continue", "silence, 200", b"1.0"),
    expecting("something else", b"echo", LENGTH + b"\r\nExpect: nonsense", "417"),
    expecting("no body", b"echo", b"Content-Length: 0\r\nExpect: 100-continue", "200"),
]
