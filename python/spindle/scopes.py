"""Cancel scopes and nurseries for asyncio code, with Trio's semantics.

    with spindle.move_on_after(5):
        await slow()            # is cancelled after five seconds; the program continues after the block

    async with spindle.Nursery() as nursery:
        nursery.start_soon(fetch, "a")
        nursery.start_soon(fetch, "b")
                                # both have ended here, whatever happened

Cancellation is a state and not an event: in a cancelled scope every wait fails, until the block
is left. A wait is what suspends the task; a lock that is free, or a queue that has an item, does not.
A cancellation by Task.cancel is asyncio's own: it is delivered once, and passes through scopes and
shields.
"""

import asyncio
import contextlib
import inspect
import math
import weakref

__all__ = ["CancelScope", "Nursery", "fail_after", "move_on_after", "move_on_at"]

_places = weakref.WeakKeyDictionary()  # task → _Place

_POLL = 0.01  # seconds


class _Place:
    """Where a task is."""

    __slots__ = ("scope", "cancelled_wait", "in_nursery_exit")

    def __init__(self, scope):
        self.scope = scope  # the innermost one
        self.cancelled_wait = None  # the future that a scope has cancelled last, while the task waits for it
        self.in_nursery_exit = False  # the task waits for tasks that are cancelled themselves


class CancelScope:
    """A block of code that can be cancelled: with CancelScope() as scope."""

    def __init__(self, *, deadline: float = math.inf, shield: bool = False):
        self._deadline = deadline
        self._shield = shield
        self._cancel_called = False
        self._cancelled_caught = False
        self._host = None
        self._active = False  # entered and not left
        self._parent = None
        self._children = set()
        self._tasks = set()
        self._calls = {}  # task → how often this scope has called its cancel
        self._timer = self._delivery = None

    @property
    def cancel_called(self) -> bool:
        """Whether the scope was cancelled, by a call or by its deadline."""
        if self._active and self._has_passed():
            self.cancel()
        return self._cancel_called

    @property
    def cancelled_caught(self) -> bool:
        """Whether the block was left because the scope was cancelled."""
        return self._cancelled_caught

    @property
    def deadline(self) -> float:
        """The time of the loop's clock at which the scope is cancelled; it can be set."""
        return self._deadline

    @deadline.setter
    def deadline(self, when: float) -> None:
        self._deadline = when
        if self._active:
            self._arm()

    @property
    def shield(self) -> bool:
        """Whether cancellation of outer scopes stops at this one; it can be set."""
        return self._shield

    @shield.setter
    def shield(self, value: bool) -> None:
        self._shield = value
        if self._active and not value:
            outer = self._blame()
            if outer is not None:
                outer._deliver_soon()

    def cancel(self) -> None:
        """Cancel the scope. It may be called before the block is entered and after it is left."""
        if not self._cancel_called:
            self._cancel_called = True
            if self._active:
                self._deliver_soon()

    def __enter__(self):
        if self._host is not None:
            raise RuntimeError("spindle: a CancelScope is entered twice")
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("spindle: a CancelScope is entered outside a task")
        self._host, self._active = task, True
        self._cancelling = task.cancelling()
        place = _places.get(task)
        if place is None:
            place = _places[task] = _Place(None)
        self._parent, place.scope = place.scope, self
        if self._parent is not None:
            self._parent._tasks.discard(task)
            self._parent._children.add(self)
        self._tasks.add(task)
        if self._has_passed():
            self._cancel_called = True
        self._arm()
        blamed = self._blame()
        if blamed is not None:
            blamed._deliver_soon()
        return self

    def __exit__(self, kind, error, traceback):
        task, parent = self._host, self._parent
        if asyncio.current_task() is not task or _places[task].scope is not self:
            raise RuntimeError("spindle: a CancelScope is left by another task, or not as the innermost one")
        self._active = False
        if self._timer is not None:
            self._timer.cancel()
        self._tasks.discard(task)
        _places[task].scope = parent
        if parent is not None:
            parent._children.discard(self)
            parent._tasks.add(task)
            blamed = parent._blame()
            if blamed is not None:
                blamed._deliver_soon()  # it may have found no task outside a shield
        if not self._tasks and not self._children and self._delivery is not None:
            self._delivery.cancel()
        for _ in range(self._calls.get(task, 0)):
            task.uncancel()
        self._calls.clear()
        if not self._cancel_called or not isinstance(error, asyncio.CancelledError):
            return False
        if parent is not None and not self._shield and parent._blame() is not None:
            return False  # it belongs to the outer scope
        if task.cancelling() > self._cancelling:
            return False  # it belongs to a Task.cancel
        self._cancelled_caught = True
        return True

    def _blame(self):
        """Return the outermost cancelled scope that reaches the code in this one, or None."""
        blamed, scope = None, self
        while scope is not None:
            if scope._cancel_called:
                blamed = scope
            if scope._shield:
                break
            scope = scope._parent
        return blamed

    def _has_passed(self):
        return self._deadline != math.inf and asyncio.get_running_loop().time() >= self._deadline

    def _arm(self):
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deadline != math.inf and not self._cancel_called:
            self._timer = asyncio.get_running_loop().call_at(self._deadline, self.cancel)

    def _deliver_soon(self, _=None):
        if self._delivery is None and self._active:
            self._delivery = asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self):
        """Cancel every wait in the scope, and the next wait of each task, until no task is left in it."""
        self._delivery = None
        again, scopes = False, [self]
        while scopes:
            scope = scopes.pop()
            scopes += [child for child in scope._children if not child._shield]
            for task in list(scope._tasks):
                if self._cancel_wait(task, _places[task]):
                    again = True
        if again:
            self._deliver_soon()

    def _cancel_wait(self, task, place):
        """Cancel what a task waits for. Report whether its next wait may begin in this tick.

        If the cancellation is under way, _deliver_soon is called when it has ended.
        """
        if place.in_nursery_exit:
            return False
        waiter = task._fut_waiter
        if waiter is not None and waiter.done():
            return True  # the wait has its result, and the next one fails
        if waiter is not None and waiter is place.cancelled_wait:
            self._follow(waiter)
            return False
        if waiter is None and not _is_suspended(task):
            return True  # it has not begun
        place.cancelled_wait = waiter
        if task.cancel():
            self._calls[task] = self._calls.get(task, 0) + 1
        return True

    def _follow(self, waiter):
        """Follow a wait that was cancelled and has not ended: it is for other tasks, which clean up.

        Their waits fail too, as they would if the code were called directly.
        """
        waiter.remove_done_callback(self._deliver_soon)
        waiter.add_done_callback(self._deliver_soon)
        for task in [waiter] if isinstance(waiter, asyncio.Task) else getattr(waiter, "_children", ()):
            if not isinstance(task, asyncio.Task) or task.done():
                continue
            place = _places.get(task)
            if place is None:
                place = _places[task] = _Place(None)
            if place.scope is not None and place.scope._is_shielded():
                asyncio.get_running_loop().call_later(_POLL, self._deliver_soon)
            elif self._cancel_wait(task, place):
                self._deliver_soon()

    def _is_shielded(self):
        scope = self
        while scope is not None and not scope._shield:
            scope = scope._parent
        return scope is not None


def _is_suspended(task):
    """Report whether a task without a future has begun: it is in asyncio.sleep(0)."""
    frame = getattr(task.get_coro(), "cr_frame", None)
    # What is no coroutine of Python, such as anext(generator) or a coroutine in C, has no frame.
    return frame is None or frame.f_lasti >= 0 and inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_SUSPENDED


def move_on_after(seconds: float, *, shield: bool = False) -> CancelScope:
    """Return a scope that is cancelled after some seconds. The program continues after the block."""
    return CancelScope(deadline=_in(seconds), shield=shield)


def move_on_at(deadline: float, *, shield: bool = False) -> CancelScope:
    """Return a scope that is cancelled at a time of the loop's clock."""
    return CancelScope(deadline=deadline, shield=shield)


@contextlib.contextmanager
def fail_after(seconds: float, *, shield: bool = False):
    """Cancel the block after some seconds, and raise TimeoutError if that has ended it."""
    with CancelScope(deadline=_in(seconds), shield=shield) as scope:
        yield scope
    if scope.cancelled_caught:
        raise TimeoutError(f"spindle: the block did not end within {seconds} s")


def _in(seconds):
    if not seconds >= 0:
        raise ValueError(f"spindle: a timeout of {seconds!r} s; it must not be negative")
    return asyncio.get_running_loop().time() + seconds


class Nursery:
    """A block that ends when all tasks that were started in it have ended.

    If a task fails, the others are cancelled, and the block raises an ExceptionGroup. nursery.cancel_scope
    cancels all of them.
    """

    def __init__(self):
        self.cancel_scope = CancelScope()
        self._running = set()  # tasks
        self._starting = {}  # task → the _Status that Nursery.start awaits
        self._errors = []
        self._cancelled = False  # a task was ended by the cancellation of a scope
        self._open = False
        self._empty = None

    def start_soon(self, function, *args, name=None) -> None:
        """Start function(*args), a coroutine function, as a task of the nursery."""
        self._start(_coroutine("start_soon", function, args), name)

    async def start(self, function, *args, name=None):
        """Start a task and wait until it calls task_status.started(value); return value.

        If the task fails before that, start raises its exception, and the nursery continues. If the caller is
        cancelled before that, start cancels the task with Task.cancel.
        """
        status = _Status(asyncio.get_running_loop().create_future())
        task = self._start(_coroutine("start", function, args, task_status=status), name)
        self._starting[task] = status
        try:
            return await status._started
        except BaseException:
            if not task.done():
                with CancelScope(shield=True):
                    task.cancel()
                    await asyncio.wait([task])
            raise

    def _start(self, coro, name):
        if not self._open:
            coro.close()
            raise RuntimeError("spindle: a task is started in a nursery that is not open")
        scope = self.cancel_scope
        task = asyncio.Task(coro, loop=asyncio.get_running_loop(), name=name)  # never begins at once
        self._running.add(task)
        scope._tasks.add(task)
        _places[task] = _Place(scope)
        task.add_done_callback(self._ended)
        blamed = scope._blame()
        if blamed is not None:
            blamed._deliver_soon()
        return task

    def _ended(self, task):
        self._running.discard(task)
        scope = self.cancel_scope
        scope._tasks.discard(task)
        while scope is not None:
            scope._calls.pop(task, None)
            scope = scope._parent
        error = None if task.cancelled() else task.exception()
        status = self._starting.pop(task, None)
        if status is not None and not status._started.done():
            status._fail(error)
        elif error is not None:
            self._errors.append(error)
            self.cancel_scope.cancel()
        elif task.cancelled() and self.cancel_scope._blame() is not None:
            self._cancelled = True
            self.cancel_scope.cancel()
        if self._empty is not None and not self._running:
            _complete(self._empty)

    async def __aenter__(self):
        self.cancel_scope.__enter__()
        self._open = True
        return self

    async def __aexit__(self, kind, error, traceback):
        scope = self.cancel_scope
        cancelled = error if isinstance(error, asyncio.CancelledError) else None
        ours = cancelled is None or scope._blame() is not None  # else code has raised it by itself
        if error is not None:
            if cancelled is None:
                self._errors.append(error)
            scope.cancel()
        cancelled = await self._wait() or cancelled
        self._open = False
        if self._errors:
            scope.__exit__(None, None, None)
            raise BaseExceptionGroup("unhandled errors in a Nursery", self._errors) from None
        if cancelled is None and self._cancelled:
            cancelled = asyncio.CancelledError()  # as if the code of the task had been called directly
        if cancelled is None or not ours:
            scope.__exit__(None, None, None)
        elif scope.__exit__(type(cancelled), cancelled, cancelled.__traceback__):
            return True
        if cancelled is not None:
            raise cancelled
        return False

    async def _wait(self):
        """Wait for the tasks. Return the cancellation by Task.cancel that came meanwhile, or None.

        Scopes do not cancel this wait: it ends when they have cancelled the tasks.
        """
        cancelled, place = None, _places[asyncio.current_task()]
        place.in_nursery_exit = True
        while True:  # at least once: other tasks run, and deadlines that have passed count
            self._empty = asyncio.get_running_loop().create_future()
            if not self._running:
                asyncio.get_running_loop().call_soon(_complete, self._empty)
            try:
                await self._empty
            except asyncio.CancelledError as caught:
                self.cancel_scope.cancel()
                cancelled = caught
            if not self._running:
                break
        place.in_nursery_exit = False
        return cancelled


def _complete(future):
    if not future.done():
        future.set_result(None)


def _coroutine(method, function, args, **kwargs):
    if inspect.iscoroutine(function):
        name = function.__name__
        function.close()
        raise TypeError(f"spindle: Nursery.{method} was given a coroutine; give it the function and its arguments: "
                        f"{method}({name}, ...)")
    coro = function(*args, **kwargs)
    if not asyncio.iscoroutine(coro):
        raise TypeError(f"spindle: Nursery.{method}: {function!r} returned {coro!r} and not a coroutine; is it an async function?")
    return coro


class _Status:
    """The argument task_status of a task that Nursery.start has started."""

    def __init__(self, started):
        self._started = started

    def started(self, value=None) -> None:
        """Report that the task is ready; Nursery.start returns value."""
        if self._started.done():
            if not self._started.cancelled():
                raise RuntimeError("spindle: task_status.started is called twice")
            return
        self._started.set_result(value)

    def _fail(self, error):
        """Report that the task has ended without calling started."""
        self._started.set_exception(
            error or RuntimeError("spindle: the task ended without calling task_status.started"))
