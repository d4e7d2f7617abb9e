"""The transport of an internet datagram socket: asyncio's, which receives several datagrams at a time."""

import socket
from asyncio import selector_events

from . import _core

# The most datagrams that one event of the descriptor brings: other descriptors wait meanwhile.
BURST = 16


class DatagramTransport(selector_events._SelectorDatagramTransport):
    """A transport that loop.create_datagram_endpoint makes."""

    def _read_ready(self):
        fd = self._sock.fileno()
        for _ in range(BURST):
            if self._conn_lost:
                return
            try:
                received = _core.receive_datagram(fd)
            except OSError as exc:
                self._protocol.error_received(exc)
                return
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:
                self._fatal_error(exc, "Fatal read error on datagram transport")
                return
            if received is None:
                return
            self._protocol.datagram_received(*received)


async def reusable_socket(loop, local, remote, *, family, proto, flags, reuse_port, allow_broadcast):
    """Return a socket with SO_REUSEADDR that is bound and connected, and the address that it sends to."""

    async def resolve(address):
        infos = await loop._ensure_resolved(
            address, family=family, type=socket.SOCK_DGRAM, proto=proto, flags=flags, loop=loop)
        return {(family, proto): address for family, _, proto, _, address in infos}

    locals = await resolve(local) if local else None
    remotes = await resolve(remote) if remote else dict.fromkeys(locals)
    locals = locals or dict.fromkeys(remotes)
    failures = []
    for kind in (kind for kind in locals if kind in remotes):
        sock = socket.socket(kind[0], socket.SOCK_DGRAM, kind[1])
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if allow_broadcast:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            if local:
                sock.bind(locals[kind])
            if remote and not allow_broadcast:  # a connected socket would not receive the answers to a broadcast
                await loop.sock_connect(sock, remotes[kind])
            return sock, remotes[kind]
        except BaseException as exc:
            sock.close()
            if not isinstance(exc, OSError):
                raise
            failures.append(exc)
    raise failures[0] if failures else ValueError("the local and the remote address have no family in common")
