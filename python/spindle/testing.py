"""Tests with virtual time: a sleep of an hour takes no time.

    import spindle.testing

    def test_retry():
        spindle.testing.run(retries_for_an_hour())

The clock of the loop stands still while code runs, and moves to the next timer when every task
waits. Sockets work as usual. While a thread works for the loop, as in asyncio.to_thread, the clock
stands still and the loop waits for the thread; it does not know of threads that the program starts
itself. If every task waits and nothing can wake one, the run fails instead of hanging.
"""

import threading

from .loop import Loop
from .runner import run as _run

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

    def _other_threads(self):
        """Report whether threads that the loop does not count could wake it."""
        return any(thread is not threading.current_thread() and not thread.name.startswith("asyncio_")
                   for thread in threading.enumerate())

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
