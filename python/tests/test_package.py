"""The package is built from its source, and says what is missing if it cannot be."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

SOURCE = pathlib.Path(__file__).parent.parent

pytest.importorskip("setuptools")


def build(path, *, before="", **environment):
    """Run setup.py build_ext with the programs in path only. Return the exit code and what it says."""
    program = f"import sys; sys.argv = ['setup.py', 'build_ext', '--build-lib', {str(path)!r}, '--build-temp', {str(path)!r}]\n" \
        f"{before}\n__file__ = 'setup.py'\nexec(compile(open('setup.py').read(), 'setup.py', 'exec'))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=SOURCE, env={**os.environ, "PATH": str(path), **environment},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stderr


def fake(path, name, output=""):
    program = path / name
    program.write_text(f"#!/bin/sh\necho '{output}'\n")
    program.chmod(0o755)


def test_go_is_missing(tmp_path):
    fake(tmp_path, "cc")
    code, said = build(tmp_path, CC="cc")
    assert code == 1 and "spindle: go was not found" in said and "install Go" in said


def test_go_is_old(tmp_path):
    fake(tmp_path, "go", "go1.19.8")
    code, said = build(tmp_path, CC="cc")
    assert code == 1 and "the Go command is go1.19.8; install Go 1.26 or later" in said


def test_compiler_is_missing(tmp_path):
    fake(tmp_path, "go", "go1.26.1")
    code, said = build(tmp_path, CC="cc")
    assert code == 1 and "spindle: cc was not found" in said and "install a C compiler" in said


def test_headers_are_missing(tmp_path):
    fake(tmp_path, "go", "go1.26.1")
    fake(tmp_path, "cc")
    code, said = build(tmp_path, CC="cc", before="import sysconfig; paths = sysconfig.get_paths\n"
                       "sysconfig.get_paths = lambda *args, **kwargs: {**paths(*args, **kwargs), 'include': '/nowhere'}")
    assert code == 1 and "install the headers of Python" in said


def test_free_threaded_python_is_refused(tmp_path):
    code, said = build(tmp_path, before="import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1")
    assert code == 1 and "free-threaded builds of Python are not supported" in said


def test_in_free_threaded_python_only_the_loop_is_refused():
    program = ("import sys; sys.abiflags = 't'; import spindle; assert spindle.detect_mode(); print('imported', flush=True); "
               "spindle.new_event_loop()")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.stdout == "imported\n", done.stderr
    assert done.returncode == 1 and "RuntimeError: spindle: loops in free-threaded builds" in done.stderr


@pytest.mark.once
def test_source_distribution_builds(tmp_path):
    """It has the Go files that it is built from, so that a wheel can be made of it alone, without a proxy for modules."""
    if shutil.which("go") is None:
        pytest.skip("no go command")

    def run(*command, cwd, **env):
        done = subprocess.run(
            [sys.executable, *command], cwd=cwd, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr

    tree = tmp_path / "tree"  # setup.py writes into its own directory, which other tests read
    shutil.copytree(SOURCE.parent, tree, ignore=shutil.ignore_patterns(".git", "build", "*.egg-info", "node_modules", "__pycache__"))
    run("setup.py", "-q", "egg_info", "--egg-base", str(tmp_path), "sdist", "--dist-dir", str(tmp_path), cwd=tree / SOURCE.name)
    archive, = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path)
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    assert (unpacked / "spindle" / "_core.pyi").exists()
    run("setup.py", "-q", "build", "--build-lib", str(tmp_path / "built"), "--build-temp", str(tmp_path / "temp"), cwd=unpacked,
        GOPROXY="off", GOMODCACHE=str(tmp_path / "modules"))
    built = tmp_path / "built"
    assert (built / "spindle" / "libspindle.so").exists() and (built / "spindle" / "py.typed").exists()
    program = "import asyncio, spindle; spindle.run(asyncio.sleep(0)); print(spindle.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(built)}, capture_output=True,
        text=True, timeout=600)
    assert done.stdout.startswith(str(built)), done.stderr


def test_a_build_leaves_nothing_in_the_tree(tmp_path):
    """Two builds at once would break each other."""
    tree = tmp_path / "python"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("build", "tests", "__pycache__", "*.so"))
    subprocess.run([sys.executable, "setup.py", "-q", "build_py"], cwd=tree, check=True, timeout=600, stdin=subprocess.DEVNULL, capture_output=True)
    assert not (tree / "build").exists()
