"""The loop: what is hot is in C (_core.Loop), what is rare is asyncio's selector loop."""

import asyncio
import gc
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
import weakref
from asyncio import base_events, constants, events, format_helpers, sslproto, unix_events
from asyncio.log import logger

from . import _core
from .datagram import DatagramTransport, reusable_socket
from .inspector import TaskIDs, TaskWalk, inspect_if_wanted, inspected_stack
from .internals import task_registry
from .mode import in_main_interpreter
from .streams import adopt
from .transport import SocketTransport

_core.set_library(os.path.join(os.path.dirname(__file__), "libspindle.so"))
gc.callbacks.append(_core.track_held)
_is_main = in_main_interpreter()  # only it has signals and daemon threads, and may fork
if _is_main:
    os.register_at_fork(after_in_child=_core.forked)


def _name_of(coroutine):
    # An object that is awaited may have neither name: that of anext(generator) has not.
    return getattr(coroutine, "__qualname__", None) or getattr(coroutine, "__name__", None) or type(coroutine).__qualname__


class _Watches:
    """What asyncio's loop and its users expect of a selector: which descriptors are watched."""

    def __init__(self, loop):
        self._loop = weakref.proxy(loop)

    def get_key(self, fileobj):
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        interest = self._loop._watched(fd)
        if not interest:
            raise KeyError(f"{fileobj!r} is not registered")
        return selectors.SelectorKey(fileobj, fd, interest, None)  # the bits are the same

    def get_map(self):
        return None

    def close(self):
        pass


class Loop(_core.Loop, unix_events._UnixSelectorEventLoop):
    """An asyncio event loop. spindle.new_event_loop makes one."""

    #: A callback that blocks the loop for so many seconds is logged while it blocks,
    #: with its stack and the name of its task. Zero turns that off.
    block_report_after = 0.25

    def __init__(self):
        unix_events._UnixSelectorEventLoop.__init__(self, _Watches(self))
        if type(self).call_soon is _core.Loop.call_soon:
            # Futures and tasks look it up for every callback; this saves the bound method each time.
            self.__dict__["call_soon"] = self.call_soon
        _core.adopt_registry(task_registry())
        if "SPINDLE_INSPECT" in os.environ:
            inspect_if_wanted()

    # Running.

    def run_forever(self):
        """Run until stop is called."""
        self._check_closed()
        self._check_running()
        self._set_coroutine_origin_tracking(self._debug)
        old_hooks = sys.get_asyncgen_hooks()
        wakes_on_signals = self._wake_on_signals()
        try:
            self._thread_id = threading.get_ident()
            sys.set_asyncgen_hooks(
                firstiter=self._asyncgen_firstiter_hook,
                finalizer=self._asyncgen_finalizer_hook,
            )
            events._set_running_loop(self)
            self._run(self.block_report_after)
        finally:
            self._stopping = False
            self._thread_id = None
            events._set_running_loop(None)
            self._set_coroutine_origin_tracking(False)
            sys.set_asyncgen_hooks(*old_hooks)
            if wakes_on_signals and not self._signal_handlers:
                signal.set_wakeup_fd(-1)

    def _wake_on_signals(self):
        """Have signals wake the loop.

        A signal may be delivered to any thread, so that it does not interrupt the wait of
        this one. Python's handler runs in the main thread when the loop wakes up.
        """
        if not _is_main or threading.current_thread() is not threading.main_thread():
            return False
        old = signal.set_wakeup_fd(self._csock.fileno(), warn_on_full_buffer=False)
        if old != -1 and old != self._csock.fileno():
            signal.set_wakeup_fd(old)  # another package's, which handles the signals
            return False
        return True

    def remove_signal_handler(self, sig):
        removed = super().remove_signal_handler(sig)
        if removed and self.is_running():
            self._wake_on_signals()
        return removed

    def set_debug(self, enabled):
        """Set whether the loop checks its use; see asyncio's documentation."""
        super().set_debug(bool(enabled))

    def close(self):
        """Close the loop."""
        if self.is_closed():
            if self.is_running():
                raise RuntimeError("Cannot close a running event loop")
            return
        super().close()
        self._release()
        self.__dict__.pop("call_soon", None)  # a cycle

    @property
    def _nest_patched(self):
        # nest_asyncio asks for it. It would replace run_forever by a version that never looks at our callbacks.
        raise RuntimeError("spindle: nest_asyncio cannot make a Spindle loop run inside itself; await the coroutine instead")

    # Called by _core.Loop.

    def _call_by_name(self, method, args, kwargs):
        def call_soon(callback, *args, context=None):
            return (callback, *args), context

        def call_later(delay, callback, *args, context=None):
            return (delay, callback, *args), context

        def call_at(when, callback, *args, context=None):
            return (when, callback, *args), context

        names = {"call_soon": call_soon, "call_soon_threadsafe": call_soon, "call_later": call_later, "call_at": call_at}
        positional, context = names[method](*args, **kwargs)
        return getattr(self, method)(*positional, context=context)

    def _callback_failed(self, handle, exc):
        callback = format_helpers._format_callback_source(handle._callback, handle._args or ())
        context = {"message": f"Exception in callback {callback}", "exception": exc, "handle": handle}
        if handle._source_traceback:
            context["source_traceback"] = handle._source_traceback
        self.call_exception_handler(context)

    def _callback_took(self, handle, seconds):
        if seconds >= self.slow_callback_duration:
            text = base_events._format_handle(handle) if hasattr(handle, "_callback") else repr(handle)
            base_events.logger.warning("Executing %s took %.3f seconds", text, seconds)

    def _report_blocked(self, seconds):
        # On the thread of the watchdog.
        frame = self._frame()
        if frame is None:
            return
        stack = list(traceback.extract_stack(frame))
        for i, entry in enumerate(stack):
            if entry.filename == __file__ and entry.name == "run_forever":
                stack = stack[i + 1 :]  # what is above is how the loop was started
                break
        try:
            task = asyncio.current_task(self)
        except RuntimeError:
            task = None
        culprit = "a callback" if task is None else f"task {task.get_name()!r} ({_name_of(task.get_coro())})"
        text = "".join(traceback.format_list(stack))
        # Python has no thread object for this thread; logging would make one that stays.
        threading.Thread(daemon=_is_main, target=logger.warning, args=(
            "spindle: %s has blocked the loop for %.2f s; nothing else can run meanwhile\n%s",
            culprit, seconds, text)).start()
        return culprit, *inspected_stack(frame, len(stack))

    _task_ids = _task_walk = None  # of the inspector

    def _inspect_tasks(self, first):
        # Inside a poll, for the inspector. Returns JSON, and None after the last tasks.
        if first:
            self._task_ids = self._task_ids or TaskIDs()
            self._task_walk = TaskWalk(self, self._task_ids)
        if self._task_walk is None:
            return None  # another walk began and ended meanwhile
        described = self._task_walk.next()
        if described is None:
            self._task_walk = None
        return described

    def _extract_stack(self):
        return format_helpers.extract_stack(sys._getframe(1))

    def _format_handle(self, handle):
        info = [type(handle).__name__]
        if handle._cancelled:
            info.append("cancelled")
        if isinstance(handle, _core.TimerHandle):
            info.append(f"when={handle._when}")
        if handle._callback is not None:
            info.append(format_helpers._format_callback_source(handle._callback, handle._args))
        if handle._source_traceback:
            frame = handle._source_traceback[-1]
            info.append(f"created at {frame[0]}:{frame[1]}")
        return "<{}>".format(" ".join(info))

    # Transports.

    def _make_socket_transport(self, sock, protocol, waiter=None, *, extra=None, server=None):
        return SocketTransport(self, sock, protocol, waiter, extra, server)

    async def create_datagram_endpoint(
        self, protocol_factory, local_addr=None, remote_addr=None, *, family=0, proto=0, flags=0,
        reuse_address=None, reuse_port=None, allow_broadcast=None, sock=None,
    ):
        """Open a datagram socket, as asyncio does. reuse_address, which asyncio has removed, sets SO_REUSEADDR."""
        options = dict(family=family, proto=proto, flags=flags, reuse_port=reuse_port, allow_broadcast=allow_broadcast)
        if not reuse_address or family == socket.AF_UNIX or local_addr is remote_addr is sock is None:
            return await super().create_datagram_endpoint(protocol_factory, local_addr, remote_addr, sock=sock, **options)
        if sock is not None:
            raise ValueError("reuse_address cannot be used with sock")
        sock, address = await reusable_socket(self, local_addr, remote_addr, **options)
        try:
            protocol = protocol_factory()
        except BaseException:
            sock.close()
            raise
        waiter = self.create_future()
        transport = self._make_datagram_transport(sock, protocol, address, waiter)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    def _make_datagram_transport(self, sock, protocol, address=None, waiter=None, extra=None):
        if isinstance(sock, socket.socket) and sock.family in (socket.AF_INET, socket.AF_INET6):
            return DatagramTransport(self, sock, protocol, address, waiter, extra)
        return super()._make_datagram_transport(sock, protocol, address, waiter, extra)

    def _make_ssl_transport(
        self, rawsock, protocol, sslcontext, waiter=None, *,
        server_side=False, server_hostname=None, extra=None, server=None,
        ssl_handshake_timeout=constants.SSL_HANDSHAKE_TIMEOUT,
        ssl_shutdown_timeout=constants.SSL_SHUTDOWN_TIMEOUT,
    ):
        adopt(self, protocol)
        ssl_protocol = sslproto.SSLProtocol(
            self, protocol, sslcontext, waiter, server_side, server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout, ssl_shutdown_timeout=ssl_shutdown_timeout)
        SocketTransport(self, rawsock, ssl_protocol, extra=extra, server=server)
        return ssl_protocol._app_transport
