"""Puts the files of a wheel together, and checks the result."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheel.wheelfile import WheelFile

from compiling import MODULE, PACKAGE

LIMIT_BYTES = 5_000_000


def pack(version: str, arch: str, library: Path, extension: Path, out: Path) -> Path:
    """Write a wheel and return its path."""
    tag = "cp" + version.replace(".", "")
    platform = f"manylinux2014_{arch}.manylinux_2_17_{arch}"
    with tempfile.TemporaryDirectory() as scratch:
        source, content = Path(scratch, "source"), Path(scratch, "content")
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "tests"))
        info = metadata(source, content)
        package = content / "spindle"
        shutil.copytree(source / "spindle", package, ignore=shutil.ignore_patterns("*.so"))
        shutil.copyfile(library, package / "libspindle.so")
        shutil.copyfile(extension, package / extension.name)
        add_licenses(content / info / "licenses")
        (content / info / "WHEEL").write_text(
            "Wheel-Version: 1.0\nGenerator: spindle\nRoot-Is-Purelib: false\n"
            + "".join(f"Tag: {tag}-{tag}-{each}\n" for each in platform.split(".")))
        set_modes(content)
        wheel = out / f"{info.removesuffix('.dist-info')}-{tag}-{tag}-{platform}.whl"
        wheel.unlink(missing_ok=True)
        with WheelFile(wheel, "w") as file:
            file.write_files(content)
    check(wheel, arch)
    return wheel


def metadata(source: Path, content: Path) -> str:
    """Let setuptools write the metadata, and return the name of its directory."""
    content.mkdir()
    made = subprocess.run(
        [sys.executable, "-c", "import sys, setuptools.build_meta as b; "
         "print(b.prepare_metadata_for_build_wheel(sys.argv[1]))", str(content)],
        cwd=source, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(source)})
    for leftover in content.glob("*.egg-info"):
        shutil.rmtree(leftover)
    return made.stdout.split("\n")[-2]


def add_licenses(to: Path) -> None:
    """Add the licenses of all that is in libspindle.so."""
    to.mkdir()
    shutil.copyfile(MODULE / "LICENSE", to / "LICENSE")
    listed = subprocess.run(
        ["go", "list", "-tags", "spindle_python", "-deps", "-f",
         "{{if .Standard}}go {{$.Root}}{{else if not .Module.Main}}{{.Module.Path}} {{.Module.Dir}}{{end}}",
         "./python/libspindle"],
        cwd=MODULE, check=True, capture_output=True, text=True, env={**os.environ, "CGO_ENABLED": "1"})
    for name, directory in sorted({tuple(line.split(" ", 1)) for line in listed.stdout.splitlines() if line}):
        shutil.copyfile(Path(directory, "LICENSE"), to / f"LICENSE.{name.replace('/', '-')}")


def set_modes(content: Path) -> None:
    """Set permissions that do not depend on the umask."""
    for path in content.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)


def check(wheel: Path, arch: str) -> None:
    """Fail if the wheel needs more of the system than its name says, or is too large."""
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True)
    if shown.returncode != 0 or f"manylinux_2_17_{arch}" not in shown.stdout.replace("\n", ""):
        sys.exit(f"auditwheel does not accept {wheel}:\n{shown.stdout}{shown.stderr}")
    if wheel.stat().st_size > LIMIT_BYTES:
        sys.exit(f"{wheel} has {wheel.stat().st_size} bytes, more than {LIMIT_BYTES}")
