"""Counts what grows if something leaks."""

import ctypes
import gc
import sys
import threading

from conftest import open_fds


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo


def used():
    """Return what grows if something leaks: blocks of Python's, kilobytes of malloc's, descriptors, threads."""
    gc.collect()
    info = libc.mallinfo2()
    return (sys.getallocatedblocks(), (info.uordblks + info.hblkhd) // 1024, open_fds(),
            sum(not thread.name.startswith("waitpid") for thread in threading.enumerate()))
