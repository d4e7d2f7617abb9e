"""The programs of the guide run, and find what it says they find."""

import pathlib
import re

import pytest

pytestmark = pytest.mark.once

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "guide" / "python-worlds.md"


def blocks():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if PAGE.exists() else []


@pytest.mark.parametrize("number", range(len(blocks())))
def test_programs_of_the_guide(number):
    source = blocks()[number]
    if "fastapi" in source:
        for module in ("fastapi", "uvicorn", "httpx"):
            pytest.importorskip(module)
    names = {"__name__": "guide"}
    exec(compile(source, str(PAGE), "exec"), names)
    for name, test in names.items():
        if name.startswith("test_nothing_is_sold"):
            with pytest.raises(AssertionError, match="2 apples were sold") as caught:
                test()
            assert "repeat it:" in "".join(caught.value.__notes__)
        elif name.startswith("test_"):
            test()
