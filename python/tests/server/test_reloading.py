"""Which files --reload watches."""

import os

import pytest

from spindle.server import Config
from spindle.server.reloading import Watcher


@pytest.fixture
def watch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("app.py", "page.html", "notes.txt", ".hidden.py", "sub/inner.py", "sub/deep/style.css", "node_modules/x.py", ".git/y.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")

    def changes(path, **options):
        watcher = Watcher(Config(app="app:app", reload=True, reload_delay=0, **options))
        file = tmp_path / path
        file.write_text("changed")
        os.utime(file, (1, 1))
        return watcher.changed() is not None

    return changes


@pytest.mark.parametrize("path, options, expected", [
    ("app.py", {}, True),
    ("sub/inner.py", {}, True),
    ("page.html", {}, False),
    (".hidden.py", {}, False),
    ("node_modules/x.py", {}, False),
    (".git/y.py", {}, False),
    ("page.html", {"reload_includes": ["*.html"]}, True),
    ("app.py", {"reload_includes": ["*.html"]}, True),
    ("sub/deep/style.css", {"reload_includes": ["deep/*.css"]}, True),
    ("page.html", {"reload_includes": ["deep/*.html"]}, False),
    ("app.py", {"reload_excludes": ["app.py"]}, False),
    ("app.py", {"reload_includes": ["*.html"], "reload_excludes": ["*.py"]}, False),
    ("sub/inner.py", {"reload_excludes": ["sub"]}, False),
    ("app.py", {"reload_excludes": ["sub"]}, True),
    (".hidden.py", {"reload_includes": [".*"]}, True),
    ("app.py", {"reload_dirs": ["sub"]}, False),
    ("sub/inner.py", {"reload_dirs": ["sub"]}, True),
    ("app.py", {"reload_dirs": ["sub/deep"], "reload_includes": ["sub"]}, False),
    ("sub/inner.py", {"reload_dirs": ["sub/deep"], "reload_includes": ["sub"]}, True),
], ids=str)
def test_watched_files(watch, path, options, expected):
    assert watch(path, **options) is expected


def test_process_starts_again_for_a_template(command):
    (command.directory / "page.html").write_text("")
    process = command("app:app", "--port", "0", "--reload", "--reload-include", "*.html", "--reload-delay", "0.05")
    process.wait_for_log("is ready")
    (command.directory / "page.html").write_text("changed")
    process.wait_for_log("page.html changed; starting again")
    process.wait_for_log("is ready", 2)
    assert process.stop() == 0
