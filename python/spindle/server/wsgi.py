"""Runs a WSGI app on a pool of threads, as an ASGI app."""

import asyncio
import collections
import io
import queue
import sys
import tempfile
import threading
import urllib.parse

#: How many bytes of a response may wait between the thread and the loop.
WRITE_AHEAD = 256 * 1024
#: How many bytes of a request's body are kept in memory. A longer body is put into a file.
IN_MEMORY = 512 * 1024
#: A longer body is refused, whatever the limit of the server is.
LONGEST_BODY = 1 << 30
#: How many threads may wait for slow clients in addition to those that run the app.
WAITING = 512


class WSGIApp:
    """An ASGI app that calls a WSGI app in a thread. The request has come as a whole by then; the response is streamed.

    So a slow client occupies no thread that could run the app.
    """

    def __init__(self, app, threads=32):
        self.app = app
        self.pool = _Pool(threads)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            raise RuntimeError(f"spindle: a WSGI app does not know {scope['type']!r}")
        body = await _receive_body(receive)
        if body is None:
            return
        if body is False:
            await send({"type": "http.response.start", "status": 413, "headers": [(b"connection", b"close")]})
            await send({"type": "http.response.body", "body": b"Content Too Large"})
            return
        if self.pool.loop is None:
            self.pool.loop = asyncio.get_running_loop()
        await _Call(self.app, self.pool, scope, body).run(send)


class _Pool:
    """Threads that run calls. They are started when they are needed, and do not keep the process alive.
    They know the queue and not the pool, and end with it.

    A thread that takes calls has one of a number of places. One that waits for a slow client lends its place to
    another thread, and takes the place of a thread that has ended its call when it goes on.

    A concurrent.futures.ThreadPoolExecutor would do for the rest, but makes two futures for each call.
    """

    def __init__(self, most):
        self.most = most
        self.calls = queue.SimpleQueue()  # what a thread does next; it ends if that returns true
        self.active = 0  # calls that have not ended; of the loop's thread
        self.lock = threading.Lock()
        self.places = 0  # threads that have one; guarded by lock
        self.lent = 0  # threads that have lent theirs; guarded by lock
        self.loop = None
        self.news = collections.deque()  # calls with something for the loop
        self.told = False  # the loop will look at news

    def begin(self, work):
        self.active += 1
        self.calls.put(work)
        if self.places < self.most and self.active - self.lent > self.places:
            self._grow()

    def _grow(self):
        """Start a thread, if there is a place for it."""
        with self.lock:
            if self.places == self.most:
                return
            self.places += 1
        try:
            threading.Thread(target=_serve, args=(self.calls,), name="wsgi", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            with self.lock:
                self.places -= 1
            if self.places == 0 and self.lent == 0:
                raise

    def lend(self):
        """Give up the place of this thread. Report whether that was done."""
        with self.lock:
            if self.lent == WAITING:
                return False
            self.lent += 1
            self.places -= 1
        if not self.calls.empty():
            self._grow()
        return True

    def take_back(self):
        """Wait for a place."""
        with self.lock:
            self.lent -= 1
            if self.places < self.most:
                self.places += 1
                return
        left = threading.Event()
        self.calls.put(lambda: left.set() or True)
        left.wait()

    def tell(self, call):
        """Make the loop look at a call, from a thread. One wake-up serves all calls that come before it is handled."""
        self.news.append(call)
        if not self.told:
            self.told = True
            try:
                self.loop.call_soon_threadsafe(self._look)
            except RuntimeError:
                pass  # the loop was closed: the server has stopped without waiting for the app

    def _look(self):
        self.told = False  # before the first call is taken: one that is added from now on is seen, or tells again
        while self.news:
            call = self.news.popleft()
            if call.returned and not call.done:
                call.done = True
                self.active -= 1
            if call.waiter is not None and not call.waiter.done():
                call.waiter.set_result(None)

    def __del__(self):
        for _ in range(self.places):
            self.calls.put(lambda: True)


def _serve(calls):
    while not calls.get()():
        pass


class _Call:
    """One request. work runs in a thread, the rest on the loop."""

    __slots__ = ("app", "pool", "scope", "input", "started", "missing", "ended", "ready", "put_bytes", "sent_bytes",
                 "caught_up", "blocked", "gone", "returned", "done", "error", "waiter")

    def __init__(self, app, pool, scope, body):
        self.app = app
        self.pool = pool
        self.scope = scope
        self.input = body
        self.started = None  # status and headers of start_response; "sent" when they were sent
        self.missing = None  # bytes of the body that are to come, if the app has announced its length
        self.ended = False  # the last message was put
        self.ready = collections.deque()  # messages for send
        self.put_bytes = self.sent_bytes = 0  # of bodies; the first belongs to the thread, the second to the loop
        self.caught_up = None  # a condition, once the thread had to wait until the client has caught up
        self.blocked = False  # the thread waits for caught_up
        self.gone = False
        self.returned = False  # the thread has finished
        self.done = False  # and the loop has noticed
        self.error = None
        self.waiter = None

    async def run(self, send):
        self.pool.begin(self.work)
        try:
            while True:
                while self.ready:
                    message = self.ready.popleft()
                    self.sent_bytes += len(message.get("body", b""))
                    if self.blocked:
                        self._notify()
                    await send(message)
                if self.done and not self.ready:
                    break
                self.waiter = self.pool.loop.create_future()
                await self.waiter
        finally:
            self.gone = True
            if self.caught_up is not None:
                self._notify()
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def _notify(self):
        with self.caught_up:
            self.caught_up.notify()

    # In the thread.

    def work(self):
        try:
            self.respond()
        except BaseException as e:
            self.error = e
        self.input.close()
        self.returned = True
        self.pool.tell(self)

    def respond(self):
        result = self.app(_environ(self.scope, self.input), self.start_response)
        try:
            whole = isinstance(result, (list, tuple))
            if whole:
                *pieces, last = [piece for piece in result if piece] or [b""]  # the last one ends the response
            else:
                pieces, last = result, b""  # each may take its time, so none is held back
            for piece in pieces:
                if piece:
                    self.write(piece, waits=not whole)
            self.head()
            if not self.ended:
                self.put({"type": "http.response.body", "body": last}, waits=False)
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
        for name, value in headers:
            if name == b"content-length" and value.isdigit() and self.scope["method"] != "HEAD" and status not in (204, 304):
                self.missing = int(value)
        self.put({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, data, waits=True):
        self.head()
        more = True
        if self.missing is not None:  # the piece that completes the body ends the response
            self.missing -= len(data)
            more = self.missing > 0
        if self.ended:
            raise ValueError("spindle: the response's body is longer than its content-length")
        self.ended = not more
        self.put({"type": "http.response.body", "body": data, "more_body": more}, waits and more)

    def put(self, message, waits=False):
        """Pass a message to the loop. If waits is true, the app can make more, so the client has to catch up first."""
        if waits and self.put_bytes - self.sent_bytes > WRITE_AHEAD:
            self.wait()
        if self.gone:
            raise ConnectionError("spindle: the client has disconnected")
        self.ready.append(message)
        if "body" in message:  # a head alone waits for what follows
            self.put_bytes += len(message["body"])
            self.pool.tell(self)

    def wait(self):
        """Wait until the client has caught up, without a place in the pool."""
        lent = self.pool.lend()
        if self.caught_up is None:
            self.caught_up = threading.Condition()
        with self.caught_up:
            self.blocked = True
            while self.put_bytes - self.sent_bytes > WRITE_AHEAD and not self.gone:
                self.caught_up.wait()
            self.blocked = False
        if lent:
            self.pool.take_back()


async def _receive_body(receive):
    """Return the body of a request as a file, None if the client has left, and False if the body is too long."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return io.BytesIO(message.get("body", b""))
    body = io.BytesIO()
    while message["type"] == "http.request":
        body.write(message.get("body", b""))
        if isinstance(body, io.BytesIO) and body.tell() > IN_MEMORY:
            file = tempfile.TemporaryFile()
            file.write(body.getbuffer())
            body = file
        if body.tell() > LONGEST_BODY:
            body.close()
            return False
        if not message.get("more_body"):
            body.seek(0)
            return body
        message = await receive()
    body.close()
    return None


def _environ(scope, body):
    server = scope["server"] or ("localhost", 80)
    root, path = scope["root_path"].encode(), scope["raw_path"]  # scope["path"] has lost bytes that are not UTF-8
    if b"%" in path:
        path = urllib.parse.unquote_to_bytes(path)
    if root and path.startswith(root):
        path = path[len(root):]
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": root.decode("latin-1"),
        "PATH_INFO": path.decode("latin-1"),
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
        key = _keys.get(name) or _key(name)
        if not key:
            continue
        value = value.decode("latin-1")
        if key in environ:
            value = environ[key] + (";" if key == "HTTP_COOKIE" else ",") + value
        environ[key] = value
    return environ


_keys = {}  # of fields that were seen


def _key(name):
    """Return the key of a field in environ, nothing for a field that is left out."""
    if b"_" in name:
        return ""  # it could pass for another field
    key = name.decode("latin-1").upper().replace("-", "_")
    if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        key = "HTTP_" + key
    if len(_keys) < 256:  # clients choose names, so there is a limit
        _keys[name] = key
    return key
