"""Finds the headers of a version of CPython."""

import shutil
import subprocess
import sys
from pathlib import Path


def find_headers(version: str, roots: list[Path], scratch: Path) -> Path | None:
    """Return a directory with Python.h of a version, or None. Scratch is for a copy, if one is needed."""
    for interpreter in interpreters(version):
        shown = subprocess.run(
            [interpreter, "-c", "import sys, sysconfig; print(*sys.version_info[:2], sep='.'); "
             "print(sysconfig.get_config_var('Py_GIL_DISABLED') or 0); print(sysconfig.get_paths()['include'])"],
            capture_output=True, text=True)
        if shown.returncode == 0:
            found, free_threaded, include = shown.stdout.split("\n")[:3]
            if found == version and free_threaded == "0" and Path(include, "Python.h").exists():
                return Path(include)
    for root in roots:
        headers = debian_headers(version, root, scratch)
        if headers is not None:
            return headers
    return None


def interpreters(version: str):
    if "%d.%d" % sys.version_info[:2] == version:
        yield sys.executable
    on_path = shutil.which("python" + version)
    if on_path:
        yield on_path
    yield from map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))


def debian_headers(version: str, root: Path, scratch: Path) -> Path | None:
    """Copy the headers out of a Debian system.

    Its /usr/include has the headers of its C library too, which must not be seen by a compiler for
    another one.
    """
    include = root / "usr" / "include" / f"python{version}"
    if not (include / "Python.h").exists():
        return None
    shutil.copytree(include, scratch, dirs_exist_ok=True)
    for config in include.parent.glob(f"*-linux-gnu/python{version}/pyconfig.h"):  # the other one includes it
        shutil.copyfile(config, scratch / "pyconfig.h")
    return scratch
