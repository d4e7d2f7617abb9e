"""The page about the options of other servers is complete, and names options that exist."""

import importlib
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest

from spindle.server.cli import parser

pytestmark = pytest.mark.once

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "guide" / "python-server-options.md"
if not PAGE.exists():
    pytest.skip(f"the page is in the Go module: {PAGE} is missing", allow_module_level=True)
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))
OURS = set(re.findall(r"--[\w-]+", parser().format_help()))
SAME = "the same"


def rows(name):
    """Return the options that are named in each row, and what they are called here."""
    found = []
    for line in SECTIONS[name].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            found.append((re.findall(r"`(--[\w-]+)", cells[0]), cells[1]))
    return found


def of_click(module, command):
    params = getattr(importlib.import_module(module), command).params
    return {max((o for o in p.opts if o.startswith("--")), key=len, default=None) for p in params} - {None, "--help"}


def of_hypercorn():
    """Its parser is inside its main function, so its options are read from its help."""
    text = subprocess.run([sys.executable, "-m", "hypercorn", "--help"], capture_output=True, text=True, timeout=600).stdout
    return set(re.findall(r"^ +(?:-\w(?: \S+)?, )?(--[\w-]+)", text, re.MULTILINE)) - {"--help", "--log-file"}


def of_gunicorn():
    import gunicorn.config as config

    return {max((o for o in setting.cli if o.startswith("--")), key=len, default=None)
            for setting in config.KNOWN_SETTINGS if setting.cli} - {None}


@pytest.mark.parametrize("name, options", [
    ("uvicorn", lambda: of_click("uvicorn.main", "main")), ("Granian", lambda: of_click("granian.cli", "cli")),
    ("Hypercorn", of_hypercorn), ("gunicorn", of_gunicorn)])
def test_every_option_of_another_server_is_on_the_page(name, options):
    meant = re.search(rf"{name} (\d+(\.\d+)?)", SECTIONS[name])[1]
    try:
        found = importlib.metadata.version(name.lower())
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    if not f"{found}.".startswith(f"{meant}."):
        pytest.skip(f"the page is about {name} {meant}, and {found} is installed")
    named = [option for names, _ in rows(name) for option in names]
    assert sorted(set(named)) == sorted(named), "an option is named twice"
    found = options()
    assert sorted(found - set(named)) == [], "options that are not on the page"
    assert sorted(set(named) - found) == [], "options that the server does not have"


@pytest.mark.parametrize("name", ["uvicorn", "Granian", "Hypercorn", "gunicorn"])
def test_the_page_names_options_that_exist_here(name):
    for theirs, ours in rows(name):
        for option in re.findall(r"`(--[\w-]+)", ours) + (theirs if ours.startswith(SAME) else []):
            assert option in OURS, f"{option}, named by {ours!r}"


def test_every_option_is_on_the_page():
    missing = {option for option in OURS if not option.startswith("--no-") and option not in PAGE.read_text()} - {"--help"}
    assert missing == set()


def test_options_that_only_we_have():
    named = set(re.findall(r"`(--[\w-]+)", SECTIONS["Only here"]))
    assert named <= OURS
    theirs = {option for names, ours in rows("uvicorn") if ours.startswith(SAME) for option in names}
    assert named & theirs == set()
