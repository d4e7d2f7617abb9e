"""Counts of several workers, for the metrics."""

import heapq
import os


class Tallies:
    """Memory in which workers count for the metrics, so that each of them can answer for all.

    A worker has a slot. The next one in the same slot goes on counting where it has ended. The layout is that of
    libspindle/metrics.go.
    """

    SLOTS, SIZE, ACTIVE = 512, 128, 56

    def __init__(self):
        self.file = os.fdopen(os.memfd_create("spindle"), "w+b") if hasattr(os, "memfd_create") else _temporary_file()
        self.file.truncate(self.SLOTS * self.SIZE)
        self.free = list(range(self.SLOTS))  # a heap: the lowest first

    def take(self):
        """Return a free slot. If there is none, workers share the last one."""
        return heapq.heappop(self.free) if self.free else self.SLOTS - 1

    def give_back(self, slot):
        """Free the slot of a worker that has ended: it answers no requests any more."""
        if slot not in self.free:
            os.pwrite(self.file.fileno(), bytes(8), slot * self.SIZE + self.ACTIVE)
            heapq.heappush(self.free, slot)


def _temporary_file():
    import tempfile

    return tempfile.TemporaryFile()
