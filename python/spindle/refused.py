"""The loop of an interpreter that can have none."""

from .mode import why_no_loops


class Loop:
    """Raises RuntimeError with the reason."""

    def __new__(cls):
        raise RuntimeError(why_no_loops())
