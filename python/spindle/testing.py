"""Tests with virtual time: a sleep of an hour takes no time.

    import spindle.testing

    def test_retry():
        spindle.testing.run(retries_for_an_hour())

The clock of the loop stands still while code runs, and moves to the next timer when every task
waits. If nothing can wake a task, the run fails instead of hanging, with the tasks and what each
awaits.

What is outside of the test takes real time. While a thread works for the loop, as in
asyncio.to_thread, the clock stands still and the loop waits for the thread. While a descriptor is
watched that another process may make ready (a connection to a database, the pipe of a
subprocess), a time-out takes as long as it says. Connections within the process, listeners and
datagram sockets without a peer do not count. The loop does not know of threads that the program
starts itself.
"""

import threading

from .loop import Loop
from .outside import reached_from_outside
from .runner import run as _run
from .tree import tree

__all__ = ["new_event_loop", "run"]


class _VirtualLoop(Loop):
    block_report_after = 0  # a debugger may hold it up

    def __init__(self):
        super().__init__()
        self._virtual_time = True

    def run_in_executor(self, executor, func, *args):
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, future):
        self._threads -= 1

    def _others_may_wake(self, has_timer):
        """Report whether the loop has to wait in reality, when every task waits."""
        fds = [fd for fd in self._watched_fds() if fd != self._ssock.fileno()]
        threads = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
        if any("waitpid-" in name for name in threads) or reached_from_outside(fds):
            return True
        # Without a timer there is nothing else to do.
        return not has_timer and bool(fds or any(not name.startswith("asyncio_") for name in threads))

    def _deadlock(self):
        raise RuntimeError(
            "spindle: deadlock: every task waits, and there is no timer, descriptor or thread that could wake one\n"
            + tree(self))

    async def shutdown_default_executor(self, *args, **kwargs):
        self._threads += 1  # a thread joins the executor's
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            self._threads -= 1


def new_event_loop():
    """Return a new loop with virtual time, which begins at zero."""
    return _VirtualLoop()


def run(main, *, debug=None):
    """Run a coroutine on a new loop with virtual time and return its result."""
    return _run(main, debug, new_event_loop, "spindle.testing.run")
