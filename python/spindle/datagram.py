"""The transport of an internet datagram socket: asyncio's, which receives several datagrams at a time."""

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
