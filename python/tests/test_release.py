"""The version is the same everywhere, and a release says what has changed."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest

import spindle

pytestmark = pytest.mark.once

TOOL = pathlib.Path(__file__).parent.parent / "tools" / "release"
if not (TOOL.parents[2] / "CHANGELOG.md").exists():
    pytest.skip("the changelog is in the Go module", allow_module_level=True)

CHANGELOG = """# Changelog

## Unreleased

The next one.

### loop

- Better.

## 0.1.0 (2026-01-02)

The first one.
"""


@pytest.fixture
def versions(monkeypatch, tmp_path):
    """The module versions of the tool, with files of its own."""
    monkeypatch.syspath_prepend(str(TOOL))
    monkeypatch.delitem(sys.modules, "versions", raising=False)
    import versions

    monkeypatch.setattr(versions, "MODULE", tmp_path)
    monkeypatch.setattr(versions, "CHANGELOG", tmp_path / "CHANGELOG.md")
    monkeypatch.setattr(versions, "PLACES", {tmp_path / "a": 'const Number = "(.*)"', tmp_path / "b": '__version__ = "(.*)"'})
    versions.CHANGELOG.write_text(CHANGELOG)
    (tmp_path / "a").write_text('// comment\nconst Number = "0.1.0"\n')
    (tmp_path / "b").write_text('__version__ = "0.1.0"\n')
    yield versions
    sys.modules.pop("versions", None)


def test_notes_are_a_section_of_the_changelog(versions):
    assert versions.notes("0.1.0", final=True) == "The first one.\n"
    assert versions.notes("0.2.0", final=False) == "The next one.\n\n### loop\n\n- Better.\n"
    with pytest.raises(versions.Mismatch, match="no section 0.2.0"):
        versions.notes("0.2.0", final=True)


def test_prepare_sets_the_version_everywhere(versions):
    versions.prepare("0.2.0rc1", "2026-03-04")
    assert versions.written() == "0.2.0rc1"
    assert "## Unreleased\n\n## 0.2.0rc1 (2026-03-04)\n\nThe next one.\n" in versions.CHANGELOG.read_text()
    assert versions.notes("0.2.0rc1", final=True).startswith("The next one.")
    with pytest.raises(versions.Mismatch, match="nothing under Unreleased"):
        versions.prepare("0.3.0", "2026-03-04")


@pytest.mark.parametrize("version, text", [("0.1.0", "has a section 0.1.0 already"), ("1.2", "no version"), ("v1.2.3", "no version")])
def test_prepare_refuses(versions, version, text):
    with pytest.raises(versions.Mismatch, match=text):
        versions.prepare(version, "2026-03-04")
    assert versions.written() == "0.1.0" and versions.CHANGELOG.read_text() == CHANGELOG


def test_versions_that_differ(versions, tmp_path):
    (tmp_path / "b").write_text('__version__ = "0.1.1"\n')
    with pytest.raises(versions.Mismatch, match="the versions differ: a has 0.1.0, b has 0.1.1"):
        versions.written()


@pytest.mark.parametrize("command", [[sys.executable, "-m", "spindle"], [os.path.join(sysconfig.get_path("scripts"), "spindle")]],
                         ids=["module", "script"])
def test_command_names_both_halves(command):
    if not os.path.exists(command[0]):
        pytest.skip("the package was installed without its scripts")
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=600)
    number = re.escape(spindle.__version__)
    python = re.escape(sys.version.split()[0])
    assert re.fullmatch(rf"spindle {number} \(CPython {python}\), libspindle {number} \(go\d.*\)\n", done.stdout), done
