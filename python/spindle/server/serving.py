"""Runs a server on a Spindle loop."""

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import socket
import stat

import spindle

from .. import _core
from .config import TrustedProxies
from .errors import StartError
from .importing import load_app
from .lifespan import CANCEL_WAIT, Lifespan

logger = logging.getLogger("spindle.server")


class _Nothing(dict):
    """An empty dict that stays empty, since all requests share it."""

    def _refuse(self, *args, **kwargs):
        raise TypeError("spindle: the options of an extension cannot be changed; replace them in scope[\"extensions\"]")

    __setitem__ = __ior__ = setdefault = update = _refuse


NOTHING = _Nothing()
EXTENSIONS = dict.fromkeys(("http.response.trailers", "http.response.pathsend", "http.response.early_hint"), NOTHING)


class ClientDisconnected(OSError):
    """The app sends to a client that has disconnected."""


def bind(config):
    """Return a socket that listens as the configuration says."""
    if config.fd is not None:
        try:
            os.set_inheritable(config.fd, False)
            return socket.socket(fileno=os.dup(config.fd))
        except OSError as e:
            raise StartError(f"spindle: descriptor {config.fd} is not a socket: {e.strerror}") from None
    if config.uds is not None:
        return _bind_unix(config)
    try:
        found = socket.getaddrinfo(config.host or None, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as e:
        raise StartError(f"spindle: the host {config.host!r} cannot be resolved: {getattr(e, 'strerror', e)}") from None
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        sock.listen(config.backlog)
    except OSError as e:
        sock.close()
        hint = {98: "another program listens there; choose another port with --port",
                13: "ports below 1024 need privileges"}.get(e.errno, e.strerror)
        raise StartError(f"spindle: cannot listen on {config.host}:{config.port}: {hint}") from None
    return sock


def _bind_unix(config):
    mode = 0o666  # the directory decides which users can connect
    try:
        found = os.stat(config.uds).st_mode
        if stat.S_ISSOCK(found):
            mode = stat.S_IMODE(found)
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(config.uds)
                except OSError:
                    os.unlink(config.uds)  # nothing listens there any more
                else:
                    raise StartError(f"spindle: another program listens on {config.uds}")
    except FileNotFoundError:
        pass
    except OSError as e:
        raise StartError(f"spindle: cannot listen on {config.uds}: {e.strerror}") from None
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.bind(config.uds)
        os.chmod(config.uds, mode)
        sock.listen(config.backlog)
    except OSError as e:
        sock.close()
        raise StartError(f"spindle: cannot listen on {config.uds}: {e.strerror or e}") from None
    return sock


def check_files(config):
    """Raise StartError if a file of TLS is missing. The supervisor, which has no Go, can check no more."""
    for name in ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs"):
        path = getattr(config, name)
        if path is not None and not os.access(path, os.R_OK):
            raise StartError(f"spindle: {name}: {path} does not exist or cannot be read")


def describe(config, sock):
    """Return where a socket listens, for people."""
    address = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return f"unix socket {address}"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{'https' if config.secure else 'http'}://{host}:{address[1]}"


class Server:
    """Serves an app. run serves until a signal comes; serve does so in a loop that runs."""

    stop_signals = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, config):
        self.config = config
        self.started = False
        self.exit_code = 0
        self._loaded = None  # the app, and its interface
        self._core = None
        self._stop = None
        self._signals = 0
        self._cancelling = False  # requests are cancelled, because the server ends
        self._orphaned = False  # the process that stops this one is gone

    def run(self, sockets=None):
        """Serve until SIGINT or SIGTERM. Return the exit code."""
        self._load()  # not in the loop: the app may call asyncio.run, or what refuses to run in a coroutine
        spindle.run(self.serve(sockets))
        return self.exit_code

    def _load(self):
        if self._loaded is None:
            self._loaded = load_app(self.config)
        return self._loaded

    def stop(self):
        """Stop in order: finish the requests under way. A second call ends them."""
        self._signals += 1
        if self._stop is not None:
            self._stop.set()

    async def serve(self, sockets=None):
        """Serve until stop is called."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, spindle.Loop):
            raise RuntimeError("spindle: the server needs a Spindle loop; start it with spindle.run")
        self._stop = asyncio.Event()
        loop._report_blocked = lambda seconds: None  # an import blocks the loop; nothing else could run
        try:
            app, interface = self._load()
        finally:
            del loop._report_blocked
        sockets = sockets or [bind(self.config)]
        handled = self._handle_signals(loop)
        lifespan = Lifespan(app, "off" if interface in ("wsgi", "asgi2") and self.config.lifespan == "auto" else self.config.lifespan)
        try:
            self._check()
            await self._starting()
            if not await self._unless(lifespan, lifespan.startup(), self._stop.wait()):
                return
            if lifespan.failed:
                self.exit_code = 3
                return
            try:
                self._begin(loop, app, interface, lifespan.state, sockets)
            except OSError as e:
                await self._unless(lifespan, lifespan.shutdown(), self._until_given_up(self._signals + 1))
                raise StartError(str(e)) from None
            self._announce(sockets)
            self.started = True
            await self._started()
            await self._stop.wait()
            await self._end(sockets)
            await self._unless(lifespan, lifespan.shutdown(), self._until_given_up(self._signals + 1))
            if lifespan.failed:
                self.exit_code = 3
        except BaseException:
            await self._give_up(lifespan)
            raise
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
            for sock in sockets:
                sock.close()
            if self.config.uds and self.config.fd is None:
                try:
                    os.unlink(self.config.uds)
                except OSError:
                    pass

    def _check(self):
        """Find out before the app starts whether the certificates can be used."""
        if self.config.secure:
            try:
                _core.check_server(json.dumps(self.config.for_go([])).encode())
            except OSError as e:
                raise StartError(str(e)) from None

    async def _starting(self):
        """Called before the app's startup."""

    def _announce(self, sockets):
        """Log where the server can be reached."""
        for sock in sockets:
            logger.info("spindle: serving on %s (stop with Ctrl+C)", describe(self.config, sock))

    async def _started(self):
        """Called when connections are accepted."""

    async def _unless(self, lifespan, work, ended):
        """Wait for a part of the lifespan, and cancel it if the server has to end before. Report whether it was completed."""
        tasks = [asyncio.ensure_future(work), asyncio.ensure_future(ended)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        completed = tasks[0].done()
        for task in tasks:
            task.cancel()
        if not completed:
            logger.warning("spindle: cancelling the app's lifespan")
            await lifespan.cancel()
        return completed

    async def _give_up(self, lifespan):
        """End at once, because serve was cancelled or has failed."""
        if self._core is not None:
            self._core.drain()  # so that it says when nothing is served any more
            self._core.abort()
            self._cancelling = True
            for task in self._core.tasks():
                task.cancel()
        try:
            if self._core is not None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._drained.wait(), 1)
        finally:  # even if serve is cancelled again
            await lifespan.cancel()

    def _handle_signals(self, loop):
        handled = []
        try:
            for number in self.stop_signals:
                loop.add_signal_handler(number, self.stop)
                handled.append(number)
        except (RuntimeError, ValueError):
            pass  # not in the main thread: the caller stops the server
        return handled

    def _begin(self, loop, app, interface, state, sockets):
        config = self.config
        version = "2.0" if interface == "asgi2" else "3.0"
        address = sockets[0].getsockname()
        common = {
            "asgi": {"version": version, "spec_version": "2.5"},
            "http_version": "1.1",
            "server": (address, None) if isinstance(address, str) else address[:2],
            "root_path": config.root_path,
            # Of each request. A copy that has their keys need not grow.
            "path": None, "raw_path": None, "query_string": None, "headers": None, "client": None,
        }
        if state is not None:
            common["state"] = None
        limit = config.limit_max_requests or 0
        if limit and config.limit_max_requests_jitter:
            limit += random.randint(0, config.limit_max_requests_jitter)
        self._drained = asyncio.Event()
        self._core = _core.Server(
            loop, app, json.dumps(config.for_go([s.fileno() for s in sockets])).encode(),
            {"type": "http", **common, "scheme": "https" if config.secure else "http", "method": None, "extensions": EXTENSIONS},
            {"type": "websocket", **common, "scheme": "wss" if config.secure else "ws", "subprotocols": None,
             "extensions": {"websocket.http.response": NOTHING}},
            config.root_path.encode(), state, _await, self._report, self._event,
            self._proxies(), ClientDisconnected,
            _fields([("server", config.server_name)] if config.server_name else []), _fields(config.other_headers),
            config.dated, config.limit_concurrency or 0, limit)

    def _proxies(self):
        """Return what corrects the scopes of requests with fields of proxies, or None."""
        return TrustedProxies(self.config.forwarded_allow_ips) if self.config.proxy_headers else None

    def _event(self, name):
        if name == "drained":
            self._drained.set()
        elif name == "max_requests":
            logger.warning("spindle: stopping after %d requests, as configured", self._core.total)
            self._limit_reached()

    def _limit_reached(self):
        """Called when as many requests were served as may be."""
        self.stop()

    def _report(self, what, error):
        texts = {
            "failed": "the app raised an exception",
            "cancelled": "the app was cancelled, but not by the server",
            "returned": "the app must return None",
            "no response": "the app returned without a response",
            "incomplete response": "the app returned before its response was complete",
            "no handshake": "the app returned without accepting or closing the WebSocket",
        }
        if isinstance(error, asyncio.CancelledError):
            if self._cancelling:
                return
            what = "cancelled"
        if _is_disconnect(error):
            logger.debug("spindle: the client has disconnected: %r", error)
            return
        logger.error("spindle: %s", texts[what], exc_info=error)

    async def _end(self, sockets):
        """Finish the requests under way, for as long as they may take."""
        core, loop = self._core, asyncio.get_running_loop()
        logger.info("spindle: stopping")
        core.drain()
        for sock in sockets:
            sock.close()  # connections that wait in its queue are refused, unless other processes have it
        forced = loop.create_task(self._until_forced())
        limit = self.config.timeout_graceful_shutdown
        waiting = loop.create_task(self._until_idle())
        await asyncio.wait([waiting, forced], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            tasks = core.tasks()
            if tasks:  # otherwise only connections are left
                logger.warning("spindle: cancelling %d requests that took longer than the shutdown may take", len(tasks))
            self._cancelling = True
            for task in tasks:
                task.cancel()
            await asyncio.wait([waiting], timeout=CANCEL_WAIT)
            core.abort()
            await asyncio.wait([waiting], timeout=1)
        for task in (waiting, forced):
            task.cancel()

    async def _until_idle(self):
        await self._drained.wait()
        while self._core.active:
            await asyncio.sleep(0.02)

    async def _until_forced(self):
        while self._signals < 2:
            await asyncio.sleep(0.1)

    async def _until_given_up(self, signals):
        """Wait for so many signals, or for a while if no process is left to send them."""
        patience = CANCEL_WAIT
        while self._signals < max(2, signals) and patience > 0:
            await asyncio.sleep(0.1)
            if self._orphaned:
                patience -= 0.1


def _fields(pairs):
    return b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in pairs)


async def _await(awaitable):
    """Make a coroutine of what an app has returned."""
    return await awaitable


def _is_disconnect(error):
    """Report whether an exception is a disconnect, or a framework's in its place, or a group of such."""
    while error is not None:
        if isinstance(error, ClientDisconnected):
            return True
        if isinstance(error, BaseExceptionGroup) and all(map(_is_disconnect, error.exceptions)):
            return True
        error = error.__cause__ or error.__context__
    return False
