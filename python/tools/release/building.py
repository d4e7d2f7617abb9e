"""Builds the files of a release. Two builds of one commit give the same bytes."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from versions import MODULE

SYSTEMS = [("linux", "amd64"), ("linux", "arm64"), ("darwin", "amd64"), ("darwin", "arm64")]


def commit_time() -> int:
    """The time of all files in a release."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=MODULE, capture_output=True, text=True)
    return int(shown.stdout.strip() or 315532800)


def binary(system: str, processor: str, to: Path) -> Path:
    """Build the command spindle."""
    subprocess.run(
        ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", str(to), "./cmd/spindle"],
        cwd=MODULE, check=True, env={**os.environ, "CGO_ENABLED": "0", "GOOS": system, "GOARCH": processor, "GOFLAGS": ""})
    return to


def binaries(version: str, out: Path) -> list[Path]:
    made = []
    for system, processor in SYSTEMS:
        name = f"spindle-{version}-{system}-{processor}"
        with tempfile.TemporaryDirectory() as scratch:
            program = binary(system, processor, Path(scratch, "spindle"))
            files = {f"{name}/spindle": (program.read_bytes(), 0o755)}
        for document in ("LICENSE", "README.md", "CHANGELOG.md"):
            files[f"{name}/{document}"] = ((MODULE / document).read_bytes(), 0o644)
        made.append(archive(out / f"{name}.tar.gz", files))
    return made


def wheels(out: Path) -> list[Path]:
    tool = MODULE / "python" / "tools" / "wheels"
    with tempfile.TemporaryDirectory() as scratch:
        python = environment(Path(scratch), tool / "requirements.txt")
        subprocess.run([python, str(tool), "--strict", "--out", str(out)], check=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": str(commit_time())})
    return sorted(out.glob("*.whl"))


def environment(scratch: Path, requirements: Path) -> str:
    """Make a virtual environment, and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(scratch / "venv")], check=True)
    python = str(scratch / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "-r", str(requirements)], check=True)
    return python


def source(out: Path) -> Path:
    """Make the source distribution, and pack it again without the times and names of this machine."""
    tool = MODULE / "python" / "tools" / "wheels"
    with tempfile.TemporaryDirectory() as scratch:
        python = environment(Path(scratch), tool / "requirements.txt")
        subprocess.run([python, "setup.py", "-q", "egg_info", "--egg-base", scratch, "sdist", "--dist-dir", scratch],
                       cwd=MODULE / "python", check=True)
        made, = Path(scratch).glob("*.tar.gz")
        with tarfile.open(made) as tar:
            files = {member.name: (tar.extractfile(member).read(), 0o755 if member.mode & 0o100 else 0o644)
                     for member in tar.getmembers() if member.isfile()}
        return archive(out / made.name, files)


def archive(to: Path, files: dict[str, tuple[bytes, int]]) -> Path:
    """Write a .tar.gz with bytes that depend on the files alone."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, (data, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), mode, commit_time()
            tar.addfile(entry, io.BytesIO(data))
    to.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))
    return to
