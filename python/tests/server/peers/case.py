"""What a case is, and how the outcomes of requests are put into words."""

import dataclasses
import json
from collections.abc import Callable

from .wire import Closed, Silence


@dataclasses.dataclass(frozen=True)
class Case:
    """Something that a client does, and what a server should do then."""

    name: str
    right: str  #: the outcome that we want; Spindle must have it
    run: Callable  #: does it with a server, and returns the outcome
    own: bool = False  #: run starts servers of its own, since it stops them

    def outcome(self, peer):
        try:
            return self.run(peer)
        except Silence:
            return "silence"
        except Closed:
            return "closes without a response"
        except ConnectionError:
            return "refuses the connection"
        except ValueError:
            return "a malformed response"


def seen(reply, show):
    """Return what the app has seen of a request that was echoed."""
    try:
        return show(json.loads(reply.body))
    except ValueError:
        return f"{reply.body.decode('latin-1')[:30]!r}"


def request(name, data, right, show=None, method="GET"):
    """A case of one request. Its outcome is the status, and whether the connection is kept."""

    def run(peer):
        with peer.connect() as wire:
            reply = wire.send(data).reply(method)
            text = str(reply.status)
            if show is not None and reply.status == 200:
                text += f" {seen(reply, show)}"
            return f"{text}, {'keeps' if wire.keeps() else 'closes'}"

    return Case(name, right, run)


def response(name, path, right, show, fields=b"", method="GET", version=b"1.1"):
    """A case of a response that the app gives. Its outcome is what show returns, and whether the connection is kept."""

    def run(peer):
        query = peer.id().encode()
        data = method.encode() + b" " + path + b"?" + query + b" HTTP/" + version + b"\r\nHost: a\r\n" + fields + b"\r\n"
        with peer.connect() as wire:
            reply = wire.send(data).reply(method)
            text = f"{reply.status} {show(reply)}".strip() if reply.status == 200 or show is not SHOW_BODY else str(reply.status)
            return f"{text}{'' if reply.whole else ', cut'}, {'keeps' if reply.whole and wire.keeps() else 'closes'}"

    return Case(name, right, run)


def SHOW_BODY(reply):
    return reply.body.decode("latin-1")


def recorded(name, path, right, count=1):
    """A case of what the app notices while it responds."""

    def run(peer):
        query = peer.id()
        with peer.connect() as wire:
            wire.send(b"GET " + path + b"?" + query.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
            try:
                status = str(wire.reply().status)
            except Closed:
                status = "closes"
            return f"{status}, {' '.join(peer.wait_for_fact(query, count, 5)) or 'nothing is recorded'}"

    return Case(name, right, run)
