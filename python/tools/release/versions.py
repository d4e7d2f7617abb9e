"""The version: where it is written, and what the changelog says about it."""

import re
from pathlib import Path

MODULE = Path(__file__).resolve().parents[3]
CHANGELOG = MODULE / "CHANGELOG.md"
# The files that have the version, each as a line of its language.
PLACES = {
    MODULE / "internal" / "version" / "version.go": r'const Number = "(.*)"',
    MODULE / "python" / "spindle" / "_version.py": r'__version__ = "(.*)"',
}
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
UNRELEASED = "Unreleased"


class Mismatch(Exception):
    """The files do not agree on the version. The message is for the user."""


def written() -> str:
    """Return the version that all places have."""
    found = {path: re.search(pattern, path.read_text())[1] for path, pattern in PLACES.items()}
    if len(set(found.values())) != 1:
        raise Mismatch("the versions differ: " + ", ".join(f"{path.relative_to(MODULE)} has {v}" for path, v in found.items()))
    return next(iter(found.values()))


def section(changelog: str, version: str) -> str | None:
    """Return what the changelog says about a version, without its heading; None if it has no such section."""
    found = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() + "\n" if found else None


def notes(version: str, final: bool) -> str:
    """Return the notes of a release. One that is not final may still be called Unreleased."""
    changelog = CHANGELOG.read_text()
    text = section(changelog, version) or (None if final else section(changelog, UNRELEASED))
    if not text or not text.strip():
        raise Mismatch(f"CHANGELOG.md has no section {version}; 'prepare {version}' makes it of Unreleased")
    return text


def prepare(version: str, date: str) -> None:
    """Write the version to its places, and give its name to what is unreleased."""
    if not VERSION.fullmatch(version):
        raise Mismatch(f"{version} is no version; write it as 1.2.3 or 1.2.3rc1")
    changelog = CHANGELOG.read_text()
    if section(changelog, version) is not None:
        raise Mismatch(f"CHANGELOG.md has a section {version} already")
    if not (section(changelog, UNRELEASED) or "").strip():
        raise Mismatch("CHANGELOG.md has nothing under Unreleased")
    CHANGELOG.write_text(changelog.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} ({date})\n", 1))
    for path, pattern in PLACES.items():
        line = pattern.replace("(.*)", version)
        path.write_text(re.sub(pattern, line, path.read_text(), count=1))
