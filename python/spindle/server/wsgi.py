"""Runs a WSGI app on a pool of threads, as an ASGI app."""

import asyncio
import collections
import concurrent.futures
import io
import sys
import threading

#: How many bytes of a response may wait between the thread and the loop.
WRITE_AHEAD = 256 * 1024


class WSGIApp:
    """An ASGI app that calls a WSGI app in a thread. Bodies stream in both directions."""

    def __init__(self, app, threads=32):
        self.app = app
        self.pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="wsgi")

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            raise RuntimeError(f"spindle: a WSGI app does not know {scope['type']!r}")
        loop = asyncio.get_running_loop()
        first = await receive()
        call = _Call(self.app, loop, scope, receive, first)
        await call.run(self.pool, send)


class _Call:
    """One request. respond runs in a thread, the rest on the loop."""

    def __init__(self, app, loop, scope, receive, first):
        self.app = app
        self.loop = loop
        self.scope = scope
        self.input = _Body(loop, receive, first)
        self.started = None  # status, headers and exc_info of start_response
        self.ready = collections.deque()  # messages for send
        self.waiting = 0  # bytes in ready
        self.event = asyncio.Event()
        self.room = threading.Condition()
        self.gone = False

    async def run(self, pool, send):
        work = self.loop.run_in_executor(pool, self.respond)
        work.add_done_callback(lambda _: self.event.set())
        try:
            while True:
                while self.ready:
                    message = self.ready.popleft()
                    with self.room:
                        self.waiting -= len(message.get("body", b""))
                        self.room.notify()
                    await send(message)
                if work.done():
                    break
                self.event.clear()
                if not self.ready and not work.done():
                    await self.event.wait()
        finally:
            with self.room:
                self.gone = True
                self.room.notify()
        await work
        while self.ready:
            await send(self.ready.popleft())

    # In the thread.

    def respond(self):
        result = self.app(_environ(self.scope, self.input), self.start_response)
        try:
            if isinstance(result, (list, tuple)):
                *pieces, last = [piece for piece in result if piece] or [b""]  # the last one ends the response
            else:
                pieces, last = result, b""  # each may take its time, so none is held back
            for piece in pieces:
                if piece:
                    self.write(piece)
            self.head()
            self.put({"type": "http.response.body", "body": last})
        finally:
            if hasattr(result, "close"):
                result.close()

    def start_response(self, status, headers, exc_info=None):
        if exc_info:
            try:
                if self.started == "sent":
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.started is not None:
            raise AssertionError("spindle: start_response was called twice")
        self.started = (int(status.split(" ", 1)[0]), [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers])
        return self.write

    def head(self):
        if self.started == "sent":
            return
        if self.started is None:
            raise AssertionError("spindle: the app has not called start_response")
        status, headers = self.started
        self.started = "sent"
        self.put({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, data):
        self.head()
        self.put({"type": "http.response.body", "body": data, "more_body": True})

    def put(self, message):
        with self.room:
            while self.waiting > WRITE_AHEAD and not self.gone:
                self.room.wait()
            if self.gone:
                raise ConnectionError("spindle: the client has disconnected")
            self.waiting += len(message.get("body", b""))
            self.ready.append(message)
        if "body" in message:  # a head alone waits for what follows
            self.loop.call_soon_threadsafe(self.event.set)


class _Body(io.RawIOBase):
    """wsgi.input: reads in the thread what the loop receives."""

    def __init__(self, loop, receive, first):
        self.loop = loop
        self.receive = receive
        self.data = first.get("body", b"")
        self.more = first.get("more_body", False)

    def readable(self):
        return True

    def fill(self):
        """Receive the next piece. Return nothing at the end."""
        while self.more:
            message = asyncio.run_coroutine_threadsafe(self._next(), self.loop).result()
            if message["type"] == "http.disconnect":
                self.more = False
                raise ConnectionError("spindle: the client has disconnected")
            self.more = message.get("more_body", False)
            if piece := message.get("body"):
                return piece
        return b""

    def collect(self, enough):
        """Receive until enough(length, last piece), or to the end."""
        pieces, length = [self.data], len(self.data)
        try:
            while not enough(length, pieces[-1]) and (piece := self.fill()):
                pieces.append(piece)
                length += len(piece)
        finally:
            if len(pieces) > 1:
                self.data = b"".join(pieces)

    async def _next(self):
        return await self.receive()

    def read(self, size=-1):
        limited = size is not None and size >= 0
        self.collect(lambda length, _: limited and length >= size)
        if not limited or size >= len(self.data):
            out, self.data = self.data, b""
            return out
        out, self.data = self.data[:size], self.data[size:]
        return out

    def readinto(self, buffer):
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readline(self, size=-1):
        limited = size is not None and size >= 0
        self.collect(lambda length, piece: b"\n" in piece or limited and length >= size)
        end = self.data.find(b"\n") + 1 or len(self.data)
        if limited:
            end = min(end, size)
        out, self.data = self.data[:end], self.data[end:]
        return out


def _environ(scope, body):
    server = scope["server"] or ("localhost", 80)
    root, path = scope["root_path"], scope["path"]
    if root and path.startswith(root):
        path = path[len(root):]
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": root.encode().decode("latin-1"),
        "PATH_INFO": path.encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 80),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": body,
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if scope["client"]:
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = scope["client"][0], str(scope["client"][1])
    for name, value in scope["headers"]:
        key = name.decode("latin-1").upper().replace("-", "_")
        if b"_" in name:
            continue  # it could pass for another field
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = "HTTP_" + key
        value = value.decode("latin-1")
        if key in environ:
            value = environ[key] + (";" if key == "HTTP_COOKIE" else ",") + value
        environ[key] = value
    return environ
