"""A host of a world, and its programs."""

import asyncio
import sys

from . import arguments
from .links import nanoseconds
from .loop import WorldLoop

_BOOT, _EXIT, _PARK, _CRASH, _PAUSE, _RESUME = range(1, 7)  # libspindle/world.h
_CLOCK, _NOTE, _FAIL_CALL = 14, 16, 22
_CALLS = ("socket", "bind", "listen", "accept", "connect", "recv", "send", "sendv", "recvfrom", "sendto", "shutdown")


class _Program:
    """A coroutine function that a host runs, and runs again after a restart."""

    def __init__(self, function, args, kwargs, awaited):
        self.function, self.args, self.kwargs, self.awaited = function, args, kwargs, awaited
        caller = sys._getframe(2)
        self._file, self._line = caller.f_code.co_filename, caller.f_lineno
        self.task = None
        self.crashed = False

    def coroutine(self):
        """Call the function and return its coroutine."""
        result = self.function(*self.args, **self.kwargs)
        if not asyncio.iscoroutine(result):
            raise TypeError(
                f"spindle.sim: start and serve take a coroutine function (async def) and its arguments: {self.name} has returned {result!r}, "
                f"which is no coroutine; it was passed at {self._file}:{self._line}")
        return result

    @property
    def name(self):
        return getattr(self.function, "__qualname__", None) or repr(self.function)


class Host:
    """A machine of a world, made by World.host."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self._number = world._control(0, text=arguments.host_name(world, name))
        self.disk = {}  # what programs keep here survives a crash
        self._programs = []
        self._boot()

    def __repr__(self):
        return f"<spindle.sim host {self.name!r}>"

    def _boot(self):
        self._process = self.world._control(_BOOT, self._number)
        self._loop = WorldLoop(self, self._process)

    @property
    def up(self):
        """Whether the host runs: it has not crashed, or was restarted since."""
        return self._loop is not None

    def start(self, function, *args, **kwargs):
        """Run a coroutine function on the host. World.run waits until it returns."""
        return self._add(_Program(function, args, kwargs, True))

    def serve(self, function, *args, **kwargs):
        """Run a coroutine function that World.run does not wait for, and cancels at the end."""
        return self._add(_Program(function, args, kwargs, False))

    def _add(self, program):
        if not callable(program.function):
            raise TypeError(f"spindle.sim: start and serve take a coroutine function and its arguments, not {program.function!r}")
        self._programs.append(program)
        if program.awaited:
            self.world._pending += 1
        if self.up:
            self._run(program)
        else:
            program.crashed = True
        return self

    def _run(self, program):
        loop = self._loop
        program.crashed = False

        def begin():
            try:
                coroutine = program.coroutine()
            except Exception as exc:
                self.world._failed(self, program, exc)
                return
            program.task = loop.create_task(coroutine)
            program.task.add_done_callback(done)

        def done(task):
            if self._loop is loop:
                self.world._ended(self, program, task)

        loop.call_soon(begin)

    def crash(self):
        """End the host's programs where they are. Its connections are reset, and it does not answer."""
        if not self.up:
            return
        self.world._bury(self._loop)
        self._loop = None
        for program in self._programs:
            if program.task is None or not program.task.done():
                program.crashed, program.task = True, None
        self.world._control(_CRASH, self._number)

    def restart(self):
        """Boot the host and run the programs that the crash ended from their beginning."""
        self.crash()
        self._boot()
        for program in self._programs:
            if program.crashed:
                self._run(program)

    def pause(self):
        """Keep the host's programs from running until resume. It still receives data."""
        self.world._control(_PAUSE, self._number)

    def resume(self):
        """End a pause."""
        self.world._control(_RESUME, self._number)

    def clock(self, offset=0.0, ppm=0):
        """Make the clock run ppm millionths too fast from now on, and shift the time of day by offset seconds."""
        self.world._control(_CLOCK, self._number, x=nanoseconds(offset), y=arguments.whole("clock", "ppm", ppm, -1_000_000))

    def fail_call(self, call, errno, nth=1):
        """Make the nth call of a name from now on fail with an errno: socket, accept, connect, send, recv, bind."""
        if call not in _CALLS:
            raise ValueError(f"spindle.sim: fail_call: call is one of {', '.join(_CALLS)}, not {call!r}")
        arguments.whole("fail_call", "errno", errno, 1)
        arguments.whole("fail_call", "nth", nth, 1)
        self.world._control(_FAIL_CALL, self._number, x=nth, y=int(errno), text=call)

    def note(self, text):
        """Add a line to the trace."""
        self.world._control(_NOTE, self._number, text=str(text))

    def tasks(self):
        """Return the host's tasks that have not ended, in the order of their creation."""
        return [] if self._loop is None else self._loop._tasks()
