"""The transport of a stream socket: what is rare. The rest is in C (_core.Transport)."""

import socket
import sys
import warnings
from asyncio import base_events, constants, futures, trsock
from asyncio.log import logger

from . import _core
from .streams import adopt


class SocketTransport(_core.Transport):
    """A transport that loop.create_connection and loop.create_server make."""

    __slots__ = ()
    _start_tls_compatible = True
    _sendfile_compatible = constants._SendfileMode.TRY_NATIVE

    def __init__(self, loop, sock, protocol, waiter=None, extra=None, server=None):
        self._extra = {} if extra is None else extra
        self._extra["socket"] = trsock.TransportSocket(sock)
        adopt(loop, protocol)
        self._attach(loop, sock, protocol)
        _hold(sock)
        self._server = server
        if server is not None:
            server._attach(*self._for_server())
        else:
            self.get_extra_info("peername")  # a peer that has left has none
        loop._transports[self._sock_fd] = self
        base_events._set_nodelay(sock)
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._start_reading)  # not before connection_made
        if waiter is not None:
            loop.call_soon(futures._set_result_unless_cancelled, waiter, None)

    def __repr__(self):
        info = [type(self).__name__]
        if self._sock is None:
            info.append("closed")
        elif self._closing:
            info.append("closing")
        info.append(f"fd={self._sock_fd}")
        loop = self._loop
        if loop is not None and not loop.is_closed():
            watched = loop._watched(self._sock_fd)
            info.append("read=polling" if watched & 1 else "read=idle")
            state = "polling" if watched & 2 else "idle"
            info.append(f"write=<{state}, bufsize={self.get_write_buffer_size()}>")
        return "<{}>".format(" ".join(info))

    def __del__(self, _warn=warnings.warn):
        if self._sock is not None:
            _warn(f"unclosed transport {self!r}", ResourceWarning, source=self)
            _let_go(self._sock)
            self._sock.close()

    # Addresses are looked up when they are asked for: most connections never need them.

    def get_extra_info(self, name, default=None):
        """Return information about the connection."""
        extra = self._extra
        if name not in extra and name in ("sockname", "peername"):
            try:
                extra[name] = self._sock.getsockname() if name == "sockname" else self._sock.getpeername()
            except (OSError, AttributeError):
                extra[name] = None
        return extra.get(name, default)

    # Flow control.

    def get_write_buffer_limits(self):
        """Return the low and the high water mark of the write buffer."""
        return (self._low_water, self._high_water)

    def set_write_buffer_limits(self, high=None, low=None):
        """Set the high and the low water mark of the write buffer."""
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_water, self._low_water = high, low
        self._maybe_pause_protocol()

    def writelines(self, list_of_data):
        """Send several pieces of data."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self):
        """Report whether write_eof works."""
        return True

    def write_eof(self):
        """Close the sending direction once the buffered data is sent."""
        if self._closing or self._eof:
            return
        self._eof = True
        if not self.get_write_buffer_size():
            self._sock.shutdown(socket.SHUT_WR)

    # Closing.

    def close(self):
        """Close the connection once the buffered data is sent."""
        if self._closing:
            return
        self._closing = True
        self._stop_reading()
        if not self.get_write_buffer_size():
            self._conn_lost += 1
            self._loop.call_soon(self._call_connection_lost, None)

    def abort(self):
        """Close the connection at once."""
        self._force_close(None)

    def _force_close(self, exc):
        if self._conn_lost:
            return
        self._discard()
        self._closing = True
        self._conn_lost += 1
        self._loop.call_soon(self._call_connection_lost, exc)

    def _call_connection_lost(self, exc):
        self._conn_lost += 1  # connection_lost may abort
        self._fail_empty_waiter(exc)
        try:
            self._protocol.connection_lost(exc)
        finally:
            self.get_extra_info("sockname")
            sock, server = self._sock, self._server
            self._release()  # the loop must forget the descriptor before it is closed
            _let_go(sock)
            sock.close()
            self._server = None
            if server is not None:
                server._detach(*self._for_server())

    def _for_server(self):
        return (self,) if sys.version_info >= (3, 13) else ()

    def _fatal_error(self, exc, message="Fatal error on transport"):
        if isinstance(exc, OSError):
            if self._loop.get_debug():
                logger.debug("%r: %s", self, message, exc_info=True)
        else:
            self._loop.call_exception_handler({
                "message": message, "exception": exc, "transport": self, "protocol": self._protocol})
        self._force_close(exc)

    # Called by _core.Transport.

    def _protocol_failed(self, method, exc):
        self._loop.call_exception_handler({
            "message": f"protocol.{method}() failed", "exception": exc,
            "transport": self, "protocol": self._protocol})

    def _write_after_loss(self):
        logger.warning("socket.send() raised exception.")

    def _write_failed(self, exc):
        self._fatal_error(exc, "Fatal write error on socket transport")

    def _all_sent(self):
        if self._empty_waiter is not None and not self._empty_waiter.done():
            self._empty_waiter.set_result(None)
        if self._closing:
            self._call_connection_lost(None)
        elif self._eof:
            self._sock.shutdown(socket.SHUT_WR)

    # sendfile.

    def _make_empty_waiter(self):
        if self._empty_waiter is not None:
            raise RuntimeError("Empty waiter is already set")
        waiter = self._loop.create_future()
        self._empty_waiter = waiter
        if not self.get_write_buffer_size():
            waiter.set_result(None)
        return waiter

    def _reset_empty_waiter(self):
        self._empty_waiter = None

    def _fail_empty_waiter(self, exc):
        if self._empty_waiter is not None and not self._empty_waiter.done():
            self._empty_waiter.set_exception(exc or ConnectionAbortedError("the transport was closed before its buffer was sent"))


# The transport uses the descriptor by its number. A program that closes the socket object must
# not free the number for another connection meanwhile.


def _hold(sock):
    if isinstance(sock, socket.socket):
        sock._io_refs += 1


def _let_go(sock):
    if isinstance(sock, socket.socket):
        sock._decref_socketios()
