"""A bus on NATS, with the messages of the Go package relay/nats: callers and workers of both languages work together."""

import asyncio
import base64
import collections
import contextlib
import dataclasses
import re
import secrets

from .envelope import CODE, Envelope

INBOX = "_inbox."  # begins the addresses of callers
WORKER = "_worker."  # begins the addresses of workers
GROUP = "workers"  # the queue group of workers: each request goes to one of them
FIELDS = "Relay"  # the header with what a message has beside its body
TRACE, STATE, STATUS = "traceparent", "tracestate", "Status"
RESERVED = (FIELDS, TRACE, STATE, STATUS)
NAME = re.compile("[!-9;-~]+")
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

        if subject.startswith(INBOX):
            self._callers[subject] = receive
            wanted = {subject + ".>": ""}
            quiet = subject + ".end"
        else:
            address = self._workers.setdefault(subject, f"{WORKER}{secrets.token_hex(8)}.{subject}")
            wanted = {address: "", "_cancel." + subject: "", subject: GROUP}
            quiet = address  # which the permissions of a worker have
        subscriptions = []
        try:
            for name, group in wanted.items():
                subscriptions.append(await self._connection.subscribe(name, queue=group, cb=take))
            subscriptions.append(await self._connection.subscribe(quiet))
            await self._connection.flush()  # what is written, which may not be all
            await self._connection.flush()  # the server knows the subscriptions
        except BaseException:
            self._callers.pop(subject, None)
            for subscription in subscriptions:
                self._start(_forget(subscription))
            raise
        watch = self._start(self._watch(subscriptions[-1], receive))
        return lambda: self._start(self._leave(subject, subscriptions, watch))

    async def _watch(self, subscription, receive):
        """Wait for the end of the connection, which ends the iteration."""
        async for _ in subscription.messages:
            pass
        self._closed.set()
        receive(Envelope("closed"))

    async def _leave(self, subject, subscriptions, watch):
        """End subscriptions. What has come is received before."""
        self._callers.pop(subject, None)
        watch.cancel()
        *others, quiet = subscriptions
        await asyncio.gather(_forget(quiet), *(_end(subscription) for subscription in others))

    def publish(self, e):
        """Send a message. An answer that cannot be sent is a failure for its caller."""
        if e.kind == "request" and not self._connection.is_connected:
            raise ConnectionError("spindle.relay: there is no connection to NATS")
        try:
            message = self._message(e)
        except (TypeError, ValueError) as error:
            if e.kind not in ("reply", "item"):
                raise
            code = "too-large" if isinstance(error, _TooLarge) else "error"
            e = dataclasses.replace(e, kind="failure", headers={CODE: code}, body=str(error).encode()[:1000])
            message = self._message(e)
        if not message[0]:
            return  # the answer to a request that asks for none
        self._outbox.append((e, *message))
        if self._sender is None:
            self._sender = self._start(self._send())

    def _message(self, e):
        """Return the subject, the reply subject and the headers of a message that NATS takes."""
        for name, value in e.headers.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError(f"spindle.relay: a header is a string, not {name!r}: {value!r}")
            if name in RESERVED or name.startswith("Nats-") or not NAME.fullmatch(name) or value != value.strip() or "\r" in value or "\n" in value:
                raise ValueError(f"spindle.relay: NATS does not carry the header {name!r}: {value!r}")
        message = encode(e, self._workers)
        size = len(e.body) + sum(len(name.encode()) + len(value.encode()) + 4 for name, value in message[2].items()) + 12
        if size > self._connection.max_payload:
            raise _TooLarge(f"the message has {size} bytes, and NATS takes {self._connection.max_payload}")
        return message

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


class _TooLarge(ValueError):
    """The server takes no message of this size."""


async def _end(subscription):
    try:
        await subscription.drain()
    except Exception:  # without a connection, or the server does not answer: the client is not to make it again
        await _forget(subscription)


async def _forget(subscription):
    with contextlib.suppress(Exception):
        await subscription.unsubscribe()


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
        e.kind, e.reply_to, e.route, e.attempt = "reply", "", "", 0
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
