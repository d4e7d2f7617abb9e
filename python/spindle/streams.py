"""The StreamReader of a server's connection. What is hot is in C (_core.StreamReader)."""

from asyncio import streams

from . import _core


class StreamReader(_core.StreamReader, streams.StreamReader):
    """asyncio's StreamReader, with feed_data and read in C."""

    __doc__ = streams.StreamReader.__doc__
    __slots__ = ()


# A program may have replaced methods of asyncio's classes; then its methods count.
_HOT = ("read", "feed_data", "feed_eof", "at_eof", "exception")
_METHODS = [getattr(streams.StreamReader, name) for name in _HOT]


def adopt(loop, protocol):
    """Replace the reader of a new StreamReaderProtocol, unless other code has seen it."""
    if (type(protocol) is streams.StreamReaderProtocol and not loop.get_debug()
            and [getattr(streams.StreamReader, name) for name in _HOT] == _METHODS):
        _core.adopt(protocol, StreamReader)
