"""CPython's internals: a version that differs is refused by the import, with an error that says what to do."""

import re

import pytest

from conftest import python

# What stands for a version of CPython that differs.
CHANGES = {
    "transports": """
        class Larger(asyncio.transports._FlowControlMixin):
            __slots__ = ("more",)
        asyncio.transports._FlowControlMixin = Larger
    """,
    "tasks": """
        import _asyncio
        _asyncio.Task = asyncio.tasks._PyTask
    """,
    "streams": """
        class Larger(asyncio.StreamReader):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self._more = None
        asyncio.streams.StreamReader = Larger
    """,
    "event loops": "del asyncio.BaseEventLoop._check_running",
    "a collector": """
        import gc
        gc.get_stats = lambda: [{}]
    """,
}


@pytest.mark.parametrize("what", CHANGES)
def test_other_internals_are_refused(what):
    code, out, err = python("\nimport asyncio\n" + CHANGES[what].replace("\n        ", "\n") + "\nimport spindle\n")
    assert code == 1
    last = err.splitlines()[-1]
    assert re.fullmatch(rf"ImportError: spindle needs .*{what}.* as in CPython 3\.11 to 3\.14; this is CPython \d+\.\d+\.\d+: "
                        r"install a spindle-loop that knows this version, or one of those versions of CPython", last), err


def test_checks_leave_nothing_behind():
    code, out, err = python("""
        import asyncio, gc, warnings
        warnings.simplefilter("error")
        import spindle
        gc.collect()
        print(len(asyncio.tasks._scheduled_tasks if hasattr(asyncio.tasks, "_scheduled_tasks") else asyncio.tasks._all_tasks))
    """)
    assert (code, out, err) == (0, "0\n", "")
