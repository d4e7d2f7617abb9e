"""A simulated world: hosts with asyncio programs, a network, and one virtual clock."""

import asyncio
import json
import random
import signal
import sys
import traceback
import warnings

from .. import _core
from ..tree import tree
from . import arguments
from .current import current
from .errors import OUTERMOST, Deadlock, NotSimulated, SimError, Standstill, TimedOut, line_of, users_line
from .host import Host
from .links import Link, nanoseconds
from .system import System

_EXIT, _DELAY, _AFTER, _NOTE, _HEAL, _HASH, _EVENTS, _LEFT_OPEN, _RECORD = 2, 8, 15, 16, 17, 18, 19, 20, 21
_NAME_TASKS = 25
_BEGIN = 946684800 * 10**9  # 1 January 2000, in nanoseconds
_CLEANUP = 60.0  # seconds that programs have to end when they are cancelled


class _Random(random.Random):
    """The random numbers of a world, apart from those of its programs."""


class World:
    """Hosts, the network between them, and a clock. The seed determines everything that happens."""

    _make_core = staticmethod(_core.World)

    def __init__(self, seed=0, begin=None):
        """Make a world. begin is the time of day at its beginning, a datetime; by default 1 January 2000."""
        if not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise ValueError(f"spindle.sim: a seed is a whole number from 0 to 2**64-1, not {seed!r}")
        self.seed = seed
        self.random = _Random(f"spindle world {seed}")
        self.hosts = []
        self.shuffle = False  # run the ready tasks of a host in an order that follows the seed, not in asyncio's
        self.work_time = None  # seconds that to_thread takes, or a pair (least, most); None for no time
        self._core = self._make_core(seed)
        if begin is not None:
            self._core.begin_ns = round(begin.timestamp()) * 10**9 - _BEGIN
        self._system = System(self)
        self._calls, self._tokens = {}, 0
        self._named = 0  # tasks without a name of their own
        self._pending = 0  # programs of start that have not ended, crashed ones included
        self._failure = None
        self._checks = []
        self._graves = []  # tasks of hosts that have crashed
        self._closing_down = self._closed = False
        self._will_close = False  # for sure, so that the collector may be off until then
        self._began = False
        self.reports = []  # of leaks, tasks that failed unseen, and coroutines that were never awaited
        self.faults = None  # random faults: a spindle.sim.Faults
        self._script, self._only = [], None  # the faults that were drawn, and the parts that a run is limited to
        self._amounts = {}
        self._scene = ""  # the tasks when the run failed
        self._ended_at = 0
        self._line = ""  # where the run differs from its twin

    def _control(self, op, a=0, b=0, x=0, y=0, f=0.0, text=""):
        return self._core.control(op, a, b, x, y, f, text)

    # Building.

    def host(self, name):
        """Add a host. Others reach it by its name."""
        host = Host(self, name)
        self.hosts.append(host)
        return host

    def link(self, a, b):
        """Return the link between two hosts, in both directions."""
        arguments.hosts(self, "link", a, b)
        ways = [(a._number, b._number)]
        return Link(self, ways + [(b._number, a._number)] if a is not b else ways)

    def one_way(self, source, target):
        """Return the link from one host to another, without the way back."""
        arguments.hosts(self, "one_way", source, target)
        return Link(self, [(source._number, target._number)])

    def delay(self, least, most=None):
        """Set the latency of links that have none of their own. The default is from 0.2 to 1 millisecond."""
        least, most = arguments.span("delay", least, most)
        self._control(_DELAY, -1, -1, nanoseconds(least), nanoseconds(most))

    def partition(self, host, *others):
        """Cut the links between a host and others, in both directions; without others, all of its links."""
        arguments.hosts(self, "partition", host, *others)
        for other in others or self.hosts:
            if other is not host:
                self.link(host, other).cut()

    def heal(self):
        """Mend every link."""
        self._control(_HEAL)

    def after(self, seconds, function, *args):
        """Call a function when so many seconds have passed, while no program runs."""
        arguments.function("after", function)
        arguments.seconds("after", "seconds", seconds)
        self._tokens += 1
        self._calls[self._tokens] = (function, args)
        self._control(_AFTER, x=nanoseconds(seconds), y=self._tokens)

    def always(self, check):
        """Call a function after every step of a program. It raises if something is wrong."""
        self._checks.append(arguments.function("always", check))

    def note(self, text):
        """Add a line to the trace."""
        self._control(_NOTE, -1, text=str(text))

    def amount(self, name, most):
        """Return a number from 1 to most, such as the number of clients: mostly most, and less when a failure is shrunk."""
        arguments.whole("amount", "most", most, 1)
        if not isinstance(name, str):
            raise TypeError(f"spindle.sim: amount: the name of an amount is a string, not {name!r}")
        if "," in name or "=" in name:
            raise ValueError(f"spindle.sim: the name of an amount has no comma and no equals sign: {name!r}")
        if name not in self._amounts:
            self._amounts[name] = self._chosen_amount(name, most)
        return self._amounts[name]

    def length(self, most):
        """Return how many seconds the run is to last: mostly most, and less when a failure is shrunk."""
        arguments.seconds("length", "most", most)
        return self.amount("length", max(1, round(most * 1000))) / 1000

    def _chosen_amount(self, name, most):
        for part in self._only or ():
            if part.startswith(name + "="):
                return min(most, max(1, int(part[len(name) + 1 :])))
        mixed = self.seed * 0x9E3779B97F4A7C15 % 2**64
        if mixed >> 61 != 7:  # one seed in eight has a smaller world: some bugs show only there
            return most
        return min(most, max(1, int(((mixed >> 58 & 7) + 1) / 9 * most)))

    @property
    def now(self):
        """The seconds that have passed in the world."""
        return self._now_ns / 1e9

    @property
    def _now_ns(self):
        return self._control(23)

    @property
    def _wall_ns(self):
        return _BEGIN + self._core.begin_ns + self._now_ns

    # Running.

    def run(self, within=None):
        """Run until the programs of start have returned, then end the others and close the world.

        It raises what a program has raised, Deadlock if nothing can happen any more, and TimedOut
        after within seconds.
        """
        self._will_close = True
        try:
            self._run_until(lambda: self._pending == 0, within, "the programs of start have not ended")
            self._report_left()
        finally:
            self.close()

    def run_for(self, seconds):
        """Run for so many seconds, and leave the programs running."""
        over = []
        self.after(arguments.seconds("run_for", "seconds", seconds), over.append, True)
        self._drive(lambda: over)

    def until(self, condition, within):
        """Run until the condition is true. It raises TimedOut if that takes longer than within seconds."""
        arguments.function("until", condition)
        arguments.seconds("until", "within", within)
        self._checks.append(None)  # look after every step
        try:
            self._run_until(condition, within, "the condition is not met")
        finally:
            self._checks.remove(None)

    def _run_until(self, done, within, what):
        over = []
        if within is not None:
            self.after(within, over.append, True)
        self._drive(lambda: over or done())
        if not done():
            raise self._noted(TimedOut(f"{what} after {within} s\n{self._trees()}"))

    def _drive(self, done):
        if self._closed:
            raise SimError("the world is closed; make another one for another run")
        if not self._began:
            self._began = True
            self._core.shuffle = (self.seed * 0x9E3779B97F4A7C15 + 1) % 2**64 if self.shuffle else 0
            if self.faults is not None:
                self.faults._begin(self)
        self._core.watched = bool(self._checks)
        with self._system:
            try:
                self._steps(done)
            except Exception:
                self._scene = self._trees()
                raise

    def _steps(self, done):
        while True:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise self._noted(failure)
            for check in self._checks:
                if check is not None:
                    check()
            if done():
                return
            why, number = self._step()
            if why == "call":
                function, args = self._calls.pop(number)
                function(*args)
            elif why == "deadlock":
                if self._only_crashed_wait():
                    self._pending = 0
                    continue
                raise self._noted(Deadlock("every task waits, and nothing can wake one\n" + self._trees()))
            elif why == "standstill":
                raise self._noted(Standstill("a task runs again and again and never waits for anything\n" + self._trees()))

    def _step(self):
        try:
            return self._core.drive()
        except SystemExit as exc:
            if _of_signal_handler(exc):
                raise
            raise self._noted(SimError(f"a program has called sys.exit({exc.code!r}), at {line_of(exc)}; return from it instead")) from exc

    # Parts of a run: faults and amounts.

    def _keeps(self, part):
        return self._only is None or part in self._only

    def _fault_parts(self):
        return [part for part in self.faults.parts(self) if self._keeps(part)] if self.faults is not None else []

    def _amount_parts(self):
        return [f"{name}={value}" for name, value in self._amounts.items()]

    def _parts(self):
        return self._fault_parts() + self._amount_parts()

    def _unknown_parts(self):
        """Return the parts that the run is limited to and does not have."""
        known = {"none", *(self.faults.parts(self) if self.faults is not None else ()), *self._amount_parts()}
        return sorted(part for part in self._only or () if part not in known)

    # The page of a run.

    def _name_tasks(self):
        """Keep which task sends what, and more of each message, for a page."""
        self._control(_NAME_TASKS, x=4096)
        self._core.namer = _running_task

    def _page(self, title, ending, repeat, faults, passing):
        """Return a page in HTML about the run. passing are pairs of a name and a world that has not failed."""
        return self._core.page(json.dumps({
            "Title": title, "Ending": ending, "Repeat": repeat, "Faults": faults, "Hosts": [host.name for host in self.hosts],
            "Tasks": [{"Host": "", "Text": self._scene}] if self._scene else None,
            "Compare": [{"Name": name, "World": world._core.id} for name, world in passing]}))

    # Comparing two runs.

    def _record(self, before):
        self._control(_RECORD, -1 if before is None else before._core.id)
        self._core.on_differs = self._differs

    def _differs(self, process):
        """Called by C, inside the step of a process, when the run first differs from its twin."""
        loop = self._core.loops[process]
        if self._core.process == process:
            self._line = f"it runs {users_line()}"
        else:
            self._line = "its tasks wait:\n" + "\n".join(f"  {line}" for line in tree(loop).splitlines())

    def _difference(self, before, error_before, error):
        """Return how this run differs from the one before, or None."""
        found = json.loads(self._core.trace())["Difference"]
        if found:
            return (f"action {found['Number']}, at {found['At'] / 1e9:.6f} s, on host {found['Host']}: "
                    f"the first time {found['Once']}; the second time {found['Now']}\n{self._line}")
        if self.hash != before.hash:
            return "the events of the two runs differ"
        if type(error_before) is not type(error):
            return f"the first run ended with {error_before!r}, the second with {error!r}"
        return None

    def _only_crashed_wait(self):
        waiting = [p for host in self.hosts for p in host._programs if p.awaited and (p.task is None or not p.task.done())]
        return bool(waiting) and all(p.crashed for p in waiting)

    def _noted(self, exc):
        exc.add_note(f"spindle.sim: seed {self.seed}, at {self.now:.6f} s")
        return exc

    def _trees(self):
        self._core.settle()
        parts = []
        for host in self.hosts:
            if host.up:
                text = tree(host._loop)
                parts.append(f"host {host.name}:\n{text or '  no tasks'}")
            else:
                parts.append(f"host {host.name} is down")
        return "\n".join(parts)

    # Called by hosts and loops.

    def _ended(self, host, program, task):
        if program.awaited:
            self._pending -= 1
        if self._closing_down:
            return
        if not task.cancelled() and task.exception() is not None:
            self._failed(host, program, task.exception())
        if self._pending == 0:
            self._core.stop()

    def _failed(self, host, program, exc):
        exc.add_note(f"spindle.sim: program {program.name} on host {host.name}")
        if self._failure is None:
            self._failure = exc
        self._core.stop()

    def _name_of_task(self):
        self._named += 1
        return f"Task-{self._named}"

    def _refused(self, exc):
        if self._failure is None and not self._closing_down:
            self._failure = exc
            self._core.stop()
        return exc

    def _unhandled(self, host, context):
        exc = context.get("exception")
        if self._closing_down and isinstance(exc, asyncio.CancelledError):
            return  # asyncio's streams, in Python 3.11
        text = context.get("message") or "Unhandled exception in event loop"
        if isinstance(exc, NotSimulated):
            self._refused(exc)
        self.reports.append(f"host {host.name}: {text}" + ("" if exc is None else f": {exc!r}"))

    def _never_awaited(self, coro):
        code = coro.cr_code
        where = f" on host {current.host_name()}" if current.process() >= 0 else ""
        self.reports.append(f"coroutine {coro.__qualname__} ({code.co_filename}:{code.co_firstlineno}) was never awaited{where}")

    def _report_left(self):
        """Report what programs have left behind on hosts where all have returned."""
        for host in self.hosts:
            if not host.up or not host._programs or any(p.task is None or not p.task.done() for p in host._programs):
                continue
            for task in host.tasks():
                self.reports.append(f"host {host.name}: task {task.get_name()} still ran when its program had returned: {_place(task)}")
            for transport in list(host._loop._transports.values()):
                if not transport.is_closing():
                    self.reports.append(f"host {host.name}: a connection to {transport.get_extra_info('peername')} was not closed")

    def _bury(self, loop):
        """Keep what a crashed host has, so that no finally block runs before the end of the run."""
        tasks = loop._tasks()
        for task in tasks:
            task._log_destroy_pending = False
        self._graves.append((loop, tasks))

    def _draw(self, duration):
        return self.random.uniform(*duration) if isinstance(duration, tuple) else duration

    # The end.

    def close(self):
        """End all programs: cancel their tasks and let them clean up."""
        if self._closed:
            return
        self._closing_down, self._ended_at = True, self._now_ns
        hosts = [host for host in self.hosts if host.up]
        with self._system:
            try:
                self._cancel_all(hosts)
            finally:
                self._closed = True
                for host in hosts:
                    self._close_host(host)
                self._forget()
        self._hash, self._left_open = self._control(_HASH), self._control(_LEFT_OPEN)
        if self.reports:
            warnings.warn(ResourceWarning("\n".join(["spindle.sim: at the end of the run:", *self.reports])), stacklevel=3)

    def _cancel_all(self, hosts):
        for host in hosts:
            host.resume()
            host._loop.call_soon(_cancel_tasks, host)
        over = []
        self.after(_CLEANUP, over.append, True)
        self._core.watched = True
        left = []
        while not over:
            left = [task for task in left if not task.done()] or _all_tasks(hosts)
            if not left:
                break
            why, number = self._step()
            if why == "call":
                function, args = self._calls.pop(number)
                if not isinstance(getattr(function, "__self__", None), Host):  # faults have an end
                    function(*args)
            elif why in ("deadlock", "standstill"):
                break

    def _close_host(self, host):
        loop = host._loop
        left = host.tasks()
        for task in left:
            self.reports.append(f"host {host.name}: task {task.get_name()} did not end when it was cancelled: {task!r}")
            task._log_destroy_pending = False
        self._graves.append((loop, left))
        self._control(_EXIT, host._process)
        loop.close()
        host._loop = None

    def _forget(self):
        """Let go of what crashed hosts have had. Their finally blocks run now, cut off from the world."""
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            while self._graves:
                loop, tasks = self._graves.pop()
                loop.close()
                for task in tasks:
                    _close_coroutine(task.get_coro())
            self._calls.clear()
        finally:
            sys.unraisablehook = hook

    # Results.

    @property
    def hash(self):
        """A hash of everything that has happened. Two runs of one seed have the same."""
        return (self._hash if self._closed else self._control(_HASH)) & (2**64 - 1)

    def trace(self):
        """Return the events so far: dicts with At (in nanoseconds), Kind, From, To and Text."""
        return json.loads(self._core.trace())["Events"] or []


OUTERMOST.add(World._step.__code__)


def _of_signal_handler(exc):
    """Report whether a handler of a real signal has raised: Python calls it between any two lines of a program."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(exc.__traceback__))


def _running_task():
    task = asyncio.current_task() if current.process() >= 0 else None
    return "" if task is None else f"{task.get_name()} {getattr(task.get_coro(), '__qualname__', '')}".strip()


def _place(task):
    frames = task.get_stack(limit=1)
    where = f" at {frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else ""
    return f"{getattr(task.get_coro(), '__qualname__', task)}{where}"


def _close_coroutine(coroutine):
    for _ in range(100):  # each close ends one wait, and a finally block may have several
        try:
            return coroutine.close()
        except BaseException:
            pass


def _all_tasks(hosts):
    return [task for host in hosts for task in host.tasks()]


def _cancel_tasks(host):
    for task in host.tasks():
        task.cancel()
