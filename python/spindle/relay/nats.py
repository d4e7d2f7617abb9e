"""A bus on NATS, with the messages of the Go package relay/nats: callers and workers of both languages work together."""

import asyncio
import base64
import collections
import contextlib
import re
import secrets

from .envelope import CODE, Envelope

INBOX = "_inbox."  # begins the addresses of callers
WORKER = "_worker."  # begins the addresses of workers
GROUP = "workers"  # the queue group of workers: each request goes to one of them
FIELDS = "Relay"  # the header with what a message has beside its body
TRACE, STATE, STATUS = "traceparent", "tracestate", "Status"
TRACEPARENT = re.compile("00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Nats:
    """A bus on a connection of the package nats-py, which the program opens and closes.

        connection = await nats.connect("nats://localhost:4222")
        async with relay.Caller(relay.Nats(connection)) as caller:
            reply = await caller.call("upper", b"hello", timeout=5)
    """

    counts_credit = True

    def __init__(self, connection):
        self._connection = connection
        self._callers = {}  # by address
        self._workers = {}  # addresses for credits, by subject
        self._outbox = collections.deque()
        self._sender = None
        self._tasks = set()
        self._closed = asyncio.Event()
        self.dropped = 0  # answers and cancellations that could not be sent, and messages that are not ours

    async def subscribe(self, subject, receive):
        """Receive the answers of a caller's address, or the requests of a subject, with their cancellations and credits."""
        async def take(message):
            try:
                e = decode(message)
            except ValueError:
                self.dropped += 1
            else:
                receive(e)

        listen = self._connection.subscribe
        if subject.startswith(INBOX):
            self._callers[subject] = receive
            subscriptions = [await listen(subject + ".>", cb=take)]
            quiet = subject + ".end"
        else:
            address = self._workers.setdefault(subject, f"{WORKER}{secrets.token_hex(8)}.{subject}")
            subscriptions = [await listen(address, cb=take), await listen("_cancel." + subject, cb=take),
                             await listen(subject, queue=GROUP, cb=take)]
            quiet = address  # which the permissions of a worker have
        watch = self._start(self._watch(await listen(quiet), receive))
        await self._connection.flush()  # the server knows them
        return lambda: self._start(self._leave(subject, subscriptions, watch))

    async def _watch(self, subscription, receive):
        """Wait for the end of the connection, which ends the iteration."""
        try:
            async for _ in subscription.messages:
                pass
        finally:
            if self._connection.is_closed:
                self._closed.set()
                receive(Envelope("closed"))
            else:
                await subscription.unsubscribe()

    async def _leave(self, subject, subscriptions, watch):
        """End subscriptions. What has come is received before."""
        self._callers.pop(subject, None)
        for subscription in reversed(subscriptions):
            with contextlib.suppress(Exception):  # without a connection there is nothing to end
                await subscription.drain()
        watch.cancel()
        await asyncio.wait([watch])

    def publish(self, e):
        """Send a message. One that cannot be sent fails, or is an answer that its caller waits for in vain."""
        to, reply, headers = encode(e, self._workers)
        if not to:
            return  # the answer to a request that asks for none
        if e.kind == "request" and not self._connection.is_connected:
            raise ConnectionError("spindle.relay: there is no connection to NATS")
        if len(e.body) > self._connection.max_payload:
            if e.kind not in ("reply", "item"):
                raise ValueError(f"spindle.relay: {len(e.body)} bytes are more than NATS takes, which is {self._connection.max_payload}")
            text = f"the reply has {len(e.body)} bytes"
            e = Envelope("failure", e.subject, id=e.id, headers={CODE: "too-large"}, body=text.encode(), route=e.route, attempt=e.attempt)
            to, reply, headers = encode(e, self._workers)
        self._outbox.append((e, to, reply, headers))
        if self._sender is None:
            self._sender = self._start(self._send())

    async def _send(self):
        try:
            while self._outbox:
                e, to, reply, headers = self._outbox.popleft()
                try:
                    await self._connection.publish(to, e.body, reply=reply, headers=headers or None)
                except Exception as error:  # of the connection
                    self._fail(e, error)
        finally:
            self._sender = None

    def _fail(self, e, error):
        receive = self._callers.get(e.reply_to) if e.kind == "request" else None
        if receive is None:
            self.dropped += 1
        else:
            receive(Envelope("failure", id=e.id, headers={CODE: "down"}, body=f"{type(error).__name__}: {error}".encode()))

    async def drain(self):
        """Wait until NATS's client has what was published."""
        while self._sender is not None:
            await asyncio.wait([self._sender])

    async def wait_closed(self):
        await self._closed.wait()

    def close(self):
        """End the workers. The connection stays open."""
        self._closed.set()

    def _start(self, coroutine):
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def encode(e, workers):
    """Return the subject, the reply subject and the headers of a message."""
    headers = dict(e.headers)
    if e.kind == "request":
        if e.tracestate:
            headers[STATE] = e.tracestate
        return e.subject, f"{e.reply_to}.{_numbers(e)}.{_call(e.id)}", headers
    if e.kind in ("cancel", "credit"):
        to = e.route or "_cancel." + e.subject
        headers[FIELDS] = f"{e.kind} {_call(e.id)} {e.seq} 0 {_micros(e)} {e.reply_to}"
        return to, "", headers
    if e.kind != "reply" or e.seq:
        headers[FIELDS] = f"{e.kind} {_call(e.id)} {e.seq} {e.attempt} 0"
        if worker := workers.get(e.sender):
            headers[FIELDS] += " " + worker
        if e.traceparent:
            headers[TRACE] = e.traceparent
    return e.route or e.subject, "", headers


def decode(message):
    """Return a message as an envelope. ValueError means that it is not one."""
    e = Envelope("request", message.subject, message.reply, body=message.data, route=message.reply, attempt=1)
    headers = message.headers or {}
    if e.subject.startswith(INBOX):
        e.kind, e.reply_to, e.attempt = "reply", "", 0
        e.id = _uncall(e.subject.rpartition(".")[2])
        if headers.get(STATUS) == "503" and not e.body:
            return Envelope("failure", e.subject, id=e.id, headers={CODE: "no-responder"}, body=b"no worker serves the subject")
    elif e.reply_to.startswith(INBOX):
        address, _, rest = e.reply_to[len(INBOX):].partition(".")
        e.reply_to = INBOX + address
        coded, whole, call = rest.partition(".")
        if whole:
            _unnumber(e, coded)
        e.id = _uncall(call if whole else rest)
    for name, value in headers.items():
        if name == FIELDS:
            _fields(e, value)
        elif name == TRACE:
            e.traceparent = value
        elif name == STATE:
            e.tracestate = value
        elif not name.startswith("Nats-"):
            e.headers[name] = value
    if e.kind == "reply" and CODE in e.headers:
        e.kind = "failure"
    return e


def _fields(e, text):
    fields = text.split(" ")
    if not 5 <= len(fields) <= 6 or fields[0] not in ("request", "reply", "item", "failure", "cancel", "credit"):
        raise ValueError(f"spindle.relay: malformed header {FIELDS}: {text!r}")
    if not e.subject.startswith(INBOX):  # otherwise the subject has it, which the server has checked
        e.id = _uncall(fields[1])
    e.kind, e.seq, e.attempt = fields[0], int(fields[2]), int(fields[3])
    e.deadline = int(fields[4]) / 1e6 or None
    if len(fields) == 5:
        return
    if not e.subject.startswith(INBOX):
        e.reply_to = fields[5]
    elif fields[5].startswith(WORKER):  # a worker does not make a caller publish to other subjects
        e.route = fields[5]


def _numbers(e):
    """Return what a request has beside its body, for its reply subject."""
    b = _varint(_micros(e)) + _varint(e.seq) + _varint(1)
    if TRACEPARENT.fullmatch(e.traceparent):
        b += bytes.fromhex(e.traceparent[3:].replace("-", ""))
    return base64.urlsafe_b64encode(b).rstrip(b"=").decode()


def _unnumber(e, coded):
    b = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
    numbers = []
    for _ in range(3):
        n = shift = 0
        while True:
            if not b or shift > 63:
                raise ValueError("spindle.relay: malformed reply subject")
            n |= (b[0] & 127) << shift
            shift += 7
            b, more = b[1:], b[0] & 128
            if not more:
                break
        numbers.append(n)
    e.deadline, e.seq, e.attempt = numbers[0] / 1e6 or None, numbers[1], numbers[2]
    if len(b) == 25:
        e.traceparent = f"00-{b[:16].hex()}-{b[16:24].hex()}-{b[24:].hex()}"
    elif b:
        raise ValueError("spindle.relay: malformed reply subject")


def _micros(e):
    return 0 if e.deadline is None else max(1, int(e.deadline * 1e6))


def _varint(n):
    b = bytearray()
    while n > 127:
        b.append(n & 127 | 128)
        n >>= 7
    b.append(n)
    return bytes(b)


def _call(text):
    """Return the ID of a call as NATS's messages have it, in base 36."""
    return "-".join(_base36(int(n)) for n in text.split("-")) if text else "0"


def _uncall(text):
    return "-".join(str(int(n, 36)) for n in text.split("-"))


def _base36(n):
    digits = ""
    while True:
        n, digit = divmod(n, 36)
        digits = DIGITS[digit] + digits
        if not n:
            return digits
