"""Compiles the two halves of the package for a processor: libspindle.so, and the extension module."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[2]
MODULE = PACKAGE.parent


class Target(NamedTuple):
    zig: str  # with the oldest version of glibc that the wheel runs on
    goarch: str


TARGETS = {
    "x86_64": Target("x86_64-linux-gnu.2.17", "amd64"),
    "aarch64": Target("aarch64-linux-gnu.2.17", "arm64"),
}


def compiler(arch: str) -> list[str]:
    return [sys.executable, "-m", "ziglang", "cc", "-target", TARGETS[arch].zig]


def build_library(arch: str, to: Path) -> Path:
    """Build libspindle.so. It does not depend on the version of Python."""
    to.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-tags", "spindle_python", "-buildmode=c-shared", "-buildvcs=false", "-trimpath",
         # Go's preemption uses SIGURG, which belongs to the program; see setup.py.
         # Two builds must have the same bytes: no ID of the build, and no path of the compiler's headers.
         "-ldflags=-s -w -X=runtime.godebugDefault=asyncpreemptoff=1 -buildid= '-extldflags=-s -Wl,--build-id=none'", "-o", str(to), "./python/libspindle"],
        cwd=MODULE, check=True,
        env={**os.environ, "CGO_ENABLED": "1", "GOOS": "linux", "GOARCH": TARGETS[arch].goarch,
             "CC": " ".join(compiler(arch)), "CGO_CFLAGS": "-O2 -g0", "GOFLAGS": ""})
    to.with_suffix(".h").unlink(missing_ok=True)
    return to


def extension_suffix(version: str, arch: str) -> str:
    return f"_core.cpython-{version.replace('.', '')}-{arch}-linux-gnu.so"


def build_extension(arch: str, headers: Path, to: Path) -> None:
    """Build the extension module for the version of Python that the headers are of."""
    to.parent.mkdir(parents=True, exist_ok=True)
    sources = sorted(str(source.relative_to(PACKAGE)) for source in (PACKAGE / "src").glob("*.c"))
    subprocess.run(
        [*compiler(arch), "-O3", "-DNDEBUG", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-fno-sanitize=undefined",
         "-flto", "-shared", "-s", "-Wl,--build-id=none", f"-ffile-prefix-map={headers}=include", "-I", str(headers),
         *sources, "-o", str(to), "-ldl", "-lpthread"],
        cwd=PACKAGE, check=True)
