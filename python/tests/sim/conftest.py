import pytest

from spindle.sim.system import hash_is_pinned


@pytest.fixture(autouse=True)
def hashes_are_pinned():
    if not hash_is_pinned():
        pytest.skip("set PYTHONHASHSEED=0: the order of sets differs in each process otherwise")
