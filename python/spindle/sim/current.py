"""The world that runs in this process."""

import threading


class _Current:
    world = None  # a World while it runs
    thread = None  # that runs it

    def is_elsewhere(self):
        """Report whether this thread is not the one of the world: the replacements do not concern it."""
        return self.thread != threading.get_ident()

    def is_tests_own(self):
        """Report whether no program runs, but the test itself or another thread, which may use the real system.

        When a world has closed, what still runs in it are finally blocks of programs that have crashed.
        """
        return self.is_elsewhere() or self.process() < 0 and not self.world._closed

    def process(self):
        """Return the number of the process that runs, -1 if none does."""
        return -1 if self.world is None else self.world._core.process

    def host(self):
        """Return the host of the program that runs, or None."""
        process = self.process()
        return None if process < 0 else self.world._core.loops[process]._host

    def host_name(self):
        host = self.host()
        return "world" if host is None else host.name


current = _Current()
