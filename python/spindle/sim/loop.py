"""The loop of a simulated host."""

import asyncio
import errno
import weakref
from asyncio import exceptions, unix_events

from .. import _core
from ..internals import task_registry
from ..loop import Loop, _Watches
from . import sock as simulated
from .errors import NotSimulated, users_line
from .refuse import STOP_SIGNALS


def _refuse(what, instead):
    def method(self, *args, **kwargs):
        raise self._host.world._refused(NotSimulated(f"{what} on host {self._host.name!r}, at {users_line()}; {instead}"))

    return method


def _task(loop, coroutine, **options):
    return _core.WorldTask(coroutine, loop=loop, **options)  # sets of them have an order that follows the seed


#: asyncio.eager_task_factory in a world; Python 3.11 has none.
_EAGER = asyncio.create_eager_task_factory(_core.WorldTask) if hasattr(asyncio, "create_eager_task_factory") else None


def _numbering_of_tasks():
    """Return what is to be replaced so that each task of a world has a number, one that a library makes without create_task too.

    Python 3.14 registers tasks in C: there, those of create_task have numbers.
    """
    registry = task_registry()
    if not _core.adopt_registry(registry):
        return []
    original = vars(registry)["add"]

    def add(task):
        original(task)
        if isinstance(task.get_loop(), WorldLoop):
            task.get_loop()._number(task)

    return [(vars(registry), {"add": add})]


NUMBERING = _numbering_of_tasks()


def number_of(task):
    """Return what tasks of a loop are sorted by: the order of their creation, in each run the same.

    Numbers in names that asyncio gives are counted in the whole process, with tasks of other worlds.
    """
    number = getattr(task, "_spindle_number", 0)
    if number:
        return 0, number, ""
    name = task.get_name()
    return (1, int(name[5:]), "") if name.startswith("Task-") and name[5:].isdecimal() else (2, 0, name)


class WorldLoop(Loop):
    """The loop of a host. Its time is virtual, its sockets are those of the world."""

    block_report_after = 0

    def __new__(cls, host, process):
        return host.world._core.new_loop(cls, process)

    def __init__(self, host, process):
        self._host, self._process = host, process
        unix_events._UnixSelectorEventLoop.__init__(self, _Watches(self))
        self.__dict__["call_soon"] = self.call_soon
        self._task_factory = _task
        self._created = 0  # tasks
        self._numbered = weakref.WeakSet()  # tasks; asyncio's set has those of all worlds

    def _make_self_pipe(self):
        self._ssock = self._csock = None
        self._internal_fds = 0

    def _close_self_pipe(self):
        pass

    def is_running(self):
        return self._host.world._core.process == self._process

    def create_task(self, coro, *, name=None, **options):
        """Make a task. Names are counted in each world; with a factory, Python 3.13.0 would name all tasks None."""
        name = self._host.world._name_of_task() if name is None else name
        if self._task_factory is _EAGER:  # the first step of a task has its name already
            self._check_closed()
            task = _EAGER(self, coro, name=name, **options)
        else:
            task = super().create_task(coro, name=name, **options)
        self._number(task)
        return task

    def set_task_factory(self, factory):
        if factory is not None and factory is getattr(asyncio, "eager_task_factory", None):
            factory = _EAGER
        super().set_task_factory(factory or _task)

    def _number(self, task):
        if not hasattr(task, "_spindle_number"):
            self._created += 1
            task._spindle_number = self._created
            self._numbered.add(task)

    def _tasks(self):
        """Return the tasks that have not ended, in the order of their creation."""
        if not NUMBERING:
            return sorted(asyncio.all_tasks(self), key=number_of)
        return sorted((task for task in self._numbered if not task.done()), key=number_of)

    def default_exception_handler(self, context):
        self._host.world._unhandled(self._host, context)

    # What the world does instead of the system.

    async def getaddrinfo(self, host, port, *, family=0, type=0, proto=0, flags=0):
        return simulated.getaddrinfo(host, port, family, type, proto, flags)

    async def getnameinfo(self, sockaddr, flags=0):
        return simulated.getnameinfo(sockaddr, flags)

    def run_in_executor(self, executor, func, *args):
        """Run func later, on this thread: a world has no threads."""
        self._check_closed()
        future = self.create_future()

        def work(begun_at=users_line()):  # for messages: see errors.py
            if future.cancelled():
                return
            try:
                result = func(*args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:
                future.set_exception(exc)
            else:
                if not future.cancelled():
                    future.set_result(result)

        if self._host.world.work_time:
            self.call_later(self._host.world._draw(self._host.world.work_time), work)
        else:
            self.call_soon(work)
        return future

    async def shutdown_default_executor(self, timeout=None):
        pass

    async def create_unix_server(self, protocol_factory, path=None, *, sock=None, backlog=100, ssl=None, **options):
        options.pop("cleanup_socket", None)
        if path is None:
            return await super().create_unix_server(protocol_factory, sock=sock, backlog=backlog, ssl=ssl, **options)
        sock = simulated.Socket(simulated.real.AF_UNIX, simulated.real.SOCK_STREAM)
        try:
            sock.bind(path)
        except OSError as exc:
            sock.close()
            if exc.errno == errno.EADDRINUSE:
                raise OSError(errno.EADDRINUSE, f"Address {path!r} is already in use") from None
            raise
        try:
            return await super().create_unix_server(protocol_factory, sock=sock, backlog=backlog, ssl=ssl, **options)
        except BaseException:
            sock.close()
            raise

    def _unlink_unix(self, path):
        pass

    async def _sock_sendfile_native(self, sock, file, offset, count):
        raise exceptions.SendfileNotAvailableError("a simulated socket has no sendfile")

    async def _sendfile_native(self, transport, file, offset, count):
        raise exceptions.SendfileNotAvailableError("a simulated socket has no sendfile")

    def _make_datagram_transport(self, sock, protocol, address=None, waiter=None, extra=None):
        return asyncio.selector_events._SelectorDatagramTransport(self, sock, protocol, address, waiter, extra)

    # What it does not have.

    run_forever = _refuse("a loop of a world is run by its world", "pass the coroutine function to host.start")
    _no_signal = _refuse("a signal handler", "a world has no signals; cancel the task instead")
    subprocess_exec = _refuse("a subprocess", "a world has none; start a program on another host")
    subprocess_shell = _refuse("a subprocess", "a world has none; start a program on another host")
    connect_read_pipe = _refuse("a pipe", "a world has none; use a connection")
    connect_write_pipe = _refuse("a pipe", "a world has none; use a connection")

    def add_signal_handler(self, sig, callback, *args):
        """Do nothing for a signal that asks a program to stop, which never comes, and raise for others."""
        if sig not in STOP_SIGNALS:
            self._no_signal()

    def remove_signal_handler(self, sig):
        return False
