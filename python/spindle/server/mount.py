"""What servers below a path of a Go program have in common. See mounted.py."""

import urllib.parse

from .config import TrustedProxies, _split


def adapt(config):
    """Change what a server of its own would do otherwise."""
    config.http = "1"  # which Go speaks with its workers
    config.find_module = "set App.Dir to the directory of the module"
    config.drain_idle = 0.0  # Go sends no more requests before it stops the worker


class Mounted:
    """A base of servers."""

    def _proxies(self):
        trusted = TrustedProxies(self.config.forwarded_allow_ips) if self.config.proxy_headers else None
        return Mount(self.config.root_path, trusted)


class Mount:
    """Completes a scope by what only the Go program knows: client, scheme, root path, and the client's protocol.

    They are the same for all requests of a connection, so they are remembered.
    """

    def __init__(self, root_path, trusted):
        self.root_path = root_path
        self.trusted = trusted
        self._known = {}

    def __call__(self, scope):
        headers = scope["headers"]
        at = len(headers) - 1  # the Go program sends it last; fields of a WebSocket have another order
        while headers[at][0] != b"spindle-mount":
            if at == 0:
                return  # a request of another program
            at -= 1
        value = headers.pop(at)[1]
        known = self._known.get(value)
        if known is None:
            known = self._parse(value)
        client, secure, root, forwarded, http2 = known
        if client is not None:
            scope["client"] = client
        if secure:
            scope["scheme"] = "wss" if scope["type"] == "websocket" else "https"
        if root is not None:
            scope["root_path"] = root
        if http2:
            scope["http_version"] = "2"
        if forwarded and self.trusted is not None:
            self.trusted(scope)

    def _parse(self, value):
        client, flags, root = value.decode("latin-1").split(" ", 2)
        known = (_split(client) if client != "-" else None, "s" in flags,
                 self.root_path + urllib.parse.unquote(root) if root != "-" else None, "f" in flags, "2" in flags)
        if len(self._known) >= 4096:
            self._known.clear()
        self._known[value] = known
        return known
