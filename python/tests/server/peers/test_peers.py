"""Spindle does what its case says, and the page of differences is about the cases.

What other servers do is no test: it may depend on time, and no change here can mend it. The command of this package
compares them with the page.
"""

import collections

import pytest

from . import page
from .__main__ import starting
from .cases import CASES
from .servers import NAMES

if not page.PATH.exists():
    pytest.skip(f"the page of differences is in the Go module: {page.PATH} is missing", allow_module_level=True)

PAGE = page.read()


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    with starting("Spindle", tmp_path_factory.mktemp("peers")) as start:
        yield start


@pytest.fixture(scope="module")
def peer(start):
    """The server of the cases that do not stop it."""
    peer = start()
    assert peer.wait_until_ready(), peer.log.read_text()
    return peer


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outcome(start, peer, case):
    assert page.cell(case.outcome(start if case.own else peer)) == page.cell(case.right)


def test_cases_have_names_of_their_own():
    assert [name for name, count in collections.Counter(case.name for case in CASES).items() if count > 1] == []


def test_page_is_about_the_cases():
    rights = {case.name: page.cell(case.right) for case in CASES}
    for name, row in PAGE.rows.items():
        assert row["Spindle"] == rights.get(name), name
        assert row["judgement"], f"{name} has no judgement"
        assert {row[server] for server in NAMES[1:]} != {page.SAME}, f"{name}: no server differs"
