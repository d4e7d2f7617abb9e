"""Frames on two pipes, as the Go package relay has them: two lengths, a header in JSON, and a body.

A short header is in binary, as the Go package internal/frame has it.
"""

import asyncio
import collections
import errno
import fcntl
import json
import os
import struct
import threading

from .._core import new_bytes

SIZES = struct.Struct(">II")
READ = 256 << 10  # bytes that are read at a time
LARGE_READS = 8  # in a turn of the loop, of a pipe's content each
WRITE = 64  # frames that are written at a time
PIPE = 1 << 20  # the capacity of the pipes, if the system allows it


SHORT = struct.Struct(">BIQQB")  # the beginning of a short header
KINDS = ("request", "reply", "item", "failure", "cancel", "credit")
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}

_to_json = json.JSONEncoder(separators=(",", ":")).encode


def _head(header):
    return header if type(header) is bytes else _to_json(header).encode()


def short(kind, number=0, seq=0, deadline_us=0, traceparent="", headers=b""):
    """Return a short header. headers are of texts. Of seq, which may count for years, the last 32 bits are sent."""
    trace = traceparent.encode()[:255] if traceparent else b""
    return SHORT.pack(_NUMBERS[kind], seq & 0xffffffff, number, deadline_us, len(trace)) + trace + headers


def texts(*names_and_values):
    """Return texts for a short header."""
    return b"".join(bytes((len(text),)) + text for text in map(str.encode, names_and_values))


def _read_head(data, begin, end):
    """Return a header as a dict. That of a short one has a number as its ID."""
    if data[begin] >= 9:  # as JSON begins
        return json.loads(data[begin:end])
    kind, seq, number, due, length = SHORT.unpack_from(data, begin)
    header = {"kind": KINDS[kind], "id": number}
    if seq:
        header["seq"] = seq
    if due:
        header["deadline_us"] = due
    at = begin + SHORT.size
    if at == end:
        return header
    if length:
        header["traceparent"] = data[at:at + length].decode()
        at += length
    if at < end:
        headers = header["headers"] = {}
        while at < end:
            name, at = _read_text(data, at)
            headers[name], at = _read_text(data, at)
    return header


def _read_text(data, at):
    after = at + 1 + data[at]
    return data[at + 1:after].decode(), after


def frame(header, body=b""):
    """Return a frame. Header is a dict, JSON, or a short one."""
    head = _head(header)
    return SIZES.pack(4 + len(head) + len(body), len(head)) + head + body


def enlarge(fd):
    """Let a pipe hold more."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE)
    except (OSError, AttributeError):
        pass  # another system, or the user's pipes have as much as they may


class Frames:
    """The frames of two pipes, on a loop. receive(header, body) gets each frame, and ended() the end.

    All methods but send_from_thread are for the thread of the loop.
    """

    def __init__(self, loop, input, output, receive, ended):
        self._loop, self._input, self._output = loop, input, output
        self._receive, self._ended = receive, ended
        self._buffers = [memoryview(bytearray(READ))]  # a new one for each read would be new memory of the system
        self._rest = b""  # of what was read
        self._large = None  # the header and the body of a large frame that has not come as a whole
        self._left = None  # a memoryview of the part of the body that has not come
        self._writing = threading.Lock()  # held to write, and to take from _out
        self._out = collections.deque()
        self._drained = None  # a future for drain
        self._closed = False  # for threads
        self._flushing = False  # _flush is called soon, or when the pipe can be written; loop only
        for fd in (input, output):
            os.set_blocking(fd, False)
            enlarge(fd)
        loop.add_reader(input, self._readable)

    # Writing

    def send(self, header, body=b""):
        """Send a frame. The first frame of a turn of the loop is written at once, and the others together."""
        if self._flushing or self._out or len(body) >= READ:
            self._add(header, body)
            if self._flushing:
                return
            self._flushing = True
        else:
            data = frame(header, body)
            self._flushing = True  # a destructor may send while _writing is held
            with self._writing:
                self._write(data)
        if not self._out or self._write_waiting():
            self._loop.call_soon(self._flush)

    def send_from_thread(self, header, body):
        """Send a frame, at once if no other one waits. For any thread."""
        with self._writing:
            if self._closed:
                return
            if self._out or len(body) >= READ:
                self._add(header, body)
            else:
                self._write(frame(header, body))
        if self._out:
            self._loop.call_soon_threadsafe(self._flush)

    def _add(self, header, body):
        """Add a frame to those that wait."""
        if len(body) < READ:
            self._out.append(frame(header, body))
        else:  # not copied
            head = _head(header)
            self._out.extend((SIZES.pack(4 + len(head) + len(body), len(head)) + head, body))

    def _write(self, data):
        """Write a frame before those that wait. What is left of it is the first that waits. _writing is held."""
        try:
            n = os.write(self._output, data)
        except OSError:  # _write_waiting finds out more
            n = 0
        if n < len(data):
            self._out.appendleft(memoryview(data)[n:])

    def _flush(self):
        if not self._out or self._write_waiting():
            self._flushing = False

    def _write_waiting(self):
        """Write what waits. Report whether that was all; otherwise _flush follows when the pipe takes more."""
        out = self._out
        with self._writing:
            while out:
                some = [out[i] for i in range(min(len(out), WRITE))]
                try:
                    n = os.writev(self._output, some)
                except BlockingIOError:
                    n = 0
                except OSError:  # the Go program is gone; the end of the input says so, too
                    out.clear()
                    break
                if not self._sent(n):
                    self._loop.add_writer(self._output, self._writable)
                    return False
        return True

    def _sent(self, n):
        """Forget n bytes of what is to be written. Report whether they end a frame."""
        out = self._out
        if self._drained is not None and len(out) <= WRITE:
            self._drained.set_result(None)
            self._drained = None
        while out and n >= len(out[0]):
            n -= len(out.popleft())
            if n == 0:
                return True
        out[0] = memoryview(out[0])[n:]
        return False

    def _writable(self):
        self._loop.remove_writer(self._output)
        self._flush()

    async def drain(self):
        """Wait until the pipe has taken most of what was sent."""
        while len(self._out) > WRITE:
            self._drained = self._drained or self._loop.create_future()
            await asyncio.shield(self._drained)

    def finish(self):
        """Write what is left. The loop does not run any more."""
        with self._writing:
            self._closed = True
            os.set_blocking(self._output, True)
            while self._out:
                self._sent(os.write(self._output, self._out[0]))

    # Reading

    def pause(self):
        """Read no more than what has been read."""
        self._loop.remove_reader(self._input)

    def resume(self):
        self._loop.add_reader(self._input, self._readable)

    def close(self):
        """Read and write no more."""
        self._loop.remove_reader(self._input)
        self._loop.remove_writer(self._output)
        with self._writing:
            self._closed = True
            self._out.clear()
            self._flushing = True  # nothing is to be written

    def _readable(self):
        if self._large is not None:
            self._read_large()
            return
        n = self._read_into(self._buffers)
        if n:
            data = self._buffers[0][:n].tobytes()
            self._rest = self._parse(self._rest + data if self._rest else data)

    def _read_into(self, buffers):
        """Return how many bytes were read. None says that there are none now, and 0 that there will be none."""
        try:
            n = os.readv(self._input, buffers)
        except BlockingIOError:
            return None
        except OSError as e:
            if e.errno == errno.EINTR:
                return None
            n = 0
        if not n:
            self._loop.remove_reader(self._input)
            self._ended()
        return n

    def _read_large(self):
        """Read more of a large body, as much as comes while the loop may do nothing else."""
        for _ in range(LARGE_READS):
            n = self._read_into([self._left])
            if not n:
                return
            self._left = self._left[n:]
            if not self._left:
                (header, body), self._large, self._left = self._large, None, None
                self._receive(header, body)
                return

    def _parse(self, data):
        """Pass the frames on. Return the beginning of one that has not come as a whole."""
        at, end = 0, len(data)
        while end - at >= 8:
            size, head = SIZES.unpack_from(data, at)
            begin, after = at + 8 + head, at + 4 + size
            if after > end:
                if size > READ and begin < end:  # the body is not copied again
                    body, left = new_bytes(after - begin)
                    left[:end - begin] = data[begin:]
                    self._large, self._left = (_read_head(data, at + 8, begin), body), left[end - begin:]
                    return b""
                break
            self._receive(_read_head(data, at + 8, begin), data[begin:after])
            at = after
        return data[at:] if at else data
