"""Clients that leave, and what the app notices."""

from .case import Case


def facts(peer, query, count, limit=10):
    return " ".join(peer.wait_for_fact(query, count, limit)) or "nothing is recorded"


def leaves(reset):
    """A client that leaves while the app waits for a message."""

    def run(peer):
        query = peer.id()
        with peer.connect() as wire:
            wire.send(b"GET /waits?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
            assert peer.wait_for_fact(query) == ["waits"]
            if reset:
                wire.reset()
        return facts(peer, query, 2)

    return run


def half_closes(peer):
    """A client that has sent its request, closes its side, and reads on."""
    with peer.connect() as wire:
        reply = wire.send(b"GET /slow HTTP/1.0\r\nHost: a\r\n\r\n").half_close().reply(limit=10)
        return f"{reply.status} {reply.body.decode()}"


def leaves_a_download(reset):
    def run(peer):
        query = peer.id()
        with peer.connect() as wire:
            wire.send(b"GET /endless?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n").head()
            if reset:
                wire.reset()
        return facts(peer, query, 2, 30)

    return run


def leaves_an_upload(peer):
    query = peer.id()
    with peer.connect() as wire:
        wire.send(b"POST /upload?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000)
        peer.wait_for_fact(query)
    return facts(peer, query, 2)


def bad_chunk_in_an_upload(peer):
    query = peer.id()
    with peer.connect() as wire:
        wire.send(b"POST /upload?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        peer.wait_for_fact(query)
        reply = wire.send(b"nonsense\r\n").reply()
        return f"{reply.status}, {facts(peer, query, 2, 3)}"


def after_the_response(peer):
    query = peer.id()
    with peer.connect() as wire:
        wire.send(b"GET /afterwards?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n").reply()
        return facts(peer, query, 1)


def leaves_a_silent_stream(peer):
    query = peer.id()
    with peer.connect() as wire:
        wire.send(b"GET /events?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        wire.head(10)
    return facts(peer, query, 1)


def leaves_a_pipeline(peer):
    """Two requests, and a client that leaves while the first one is answered."""
    query = peer.id()
    with peer.connect() as wire:
        wire.send(b"GET /slow?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\nGET /slow?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        peer.wait_for_fact(query)
        wire.reset()
    with peer.connect() as wire:  # it begins after the first one, so the second one has begun when it is answered, if ever
        wire.send(b"GET /slow?" + peer.id().encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n").reply()
    return f"{len(peer.facts_of(query))} of 2 requests reached the app"


CASES = [
    Case("disconnect: while the app receives", "waits http.disconnect", leaves(False)),
    Case("disconnect: by a reset, while the app receives", "waits http.disconnect", leaves(True)),
    Case("disconnect: half closed, and the response comes", "200 slow", half_closes),
    Case("disconnect: in a download", "began OSError", leaves_a_download(False)),
    Case("disconnect: by a reset, in a download", "began OSError", leaves_a_download(True)),
    Case("disconnect: in an upload", "began http.disconnect", leaves_an_upload),
    Case("disconnect: a malformed chunk in an upload", "400, began http.disconnect", bad_chunk_in_an_upload),
    Case("disconnect: receive after the response", "http.disconnect", after_the_response),
    Case("disconnect: from a silent stream", "http.disconnect", leaves_a_silent_stream),
    Case("disconnect: with a request behind", "1 of 2 requests reached the app", leaves_a_pipeline),
]
