"""The standard descriptors: input, output and errors."""

import os


def open_missing():
    """Open /dev/null in place of those that the process was started without.

    Otherwise the system gives their numbers to the next files that are opened, and the access log is written to a
    socket, or to the memory of the metrics.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
