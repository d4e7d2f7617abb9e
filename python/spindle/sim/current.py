"""The world that runs in this process."""

import threading


class _Current:
    world = None  # a World while it runs
    thread = None  # that runs it

    def is_elsewhere(self):
        """Report whether this thread is not the one of the world: the replacements do not concern it."""
        return self.thread != threading.get_ident()

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
