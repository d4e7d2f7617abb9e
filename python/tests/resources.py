"""Counts what grows if something leaks."""

import ctypes
import gc
import sys
import threading
import warnings

from conftest import open_fds


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo


def clear_type_cache():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.13 has a more general one, which does not clear this cache
        sys._clear_type_cache()


def used():
    """Return what grows if something leaks: blocks of Python's, kilobytes of malloc's, descriptors, threads."""
    clear_type_cache()  # it keeps names of attributes, such as those that reprlib makes
    gc.collect()
    info = libc.mallinfo2()
    return (sys.getallocatedblocks(), (info.uordblks + info.hblkhd) // 1024, open_fds(),
            sum(not thread.name.startswith("waitpid") for thread in threading.enumerate()))
