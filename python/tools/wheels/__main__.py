"""Builds wheels that need neither Go nor a C compiler where they are installed.

    pip install -r python/tools/wheels/requirements.txt    # in an environment of its own
    python python/tools/wheels                             # all wheels that this machine can build
    python python/tools/wheels --python 3.13 --arch aarch64 --out dist

The C compiler is that of Zig, which can build for an old version of glibc and for another processor.
Go must be installed. Each version of CPython needs its headers: those of an interpreter that is
installed, or of Debian's package libpython3.X-dev below --root. The headers of one processor serve for
the other: both have the same sizes of types.

Two builds of one commit give the same bytes.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compiling import PACKAGE, TARGETS, build_extension, build_library, extension_suffix
from headers import find_headers
from packing import pack

VERSIONS = ["3.11", "3.12", "3.13", "3.14"]


def main() -> int:
    p = argparse.ArgumentParser(prog="wheels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", nargs="+", default=VERSIONS, choices=VERSIONS, metavar="VERSION",
                   help="versions of CPython: " + ", ".join(VERSIONS) + "; all by default")
    p.add_argument("--arch", nargs="+", default=list(TARGETS), choices=list(TARGETS), metavar="ARCH",
                   help="processors: " + ", ".join(TARGETS) + "; all by default")
    p.add_argument("--root", nargs="+", default=[], type=Path, metavar="DIR",
                   help="Debian systems below a directory, to take headers from")
    p.add_argument("--out", default="dist", type=Path, metavar="DIR", help="where the wheels go; dist by default")
    p.add_argument("--strict", action="store_true", help="fail if the headers of a version are missing")
    given = p.parse_args()

    os.environ.setdefault("SOURCE_DATE_EPOCH", commit_time())
    given.out.mkdir(parents=True, exist_ok=True)
    missing = []
    with tempfile.TemporaryDirectory() as scratch:
        found = {}
        for version in given.python:
            headers = find_headers(version, given.root, Path(scratch) / f"headers-{version}")
            if headers is None:
                missing.append(version)
                print(f"left out: no headers of CPython {version}; install it, or name a --root with "
                      f"libpython{version}-dev", flush=True)
            else:
                found[version] = headers
        for arch in given.arch:
            extensions = {version: Path(scratch) / arch / version / extension_suffix(version, arch) for version in found}
            with ThreadPoolExecutor(os.cpu_count()) as pool:  # of processes: the compiler uses one processor
                compiled = [pool.submit(build_extension, arch, found[version], extensions[version]) for version in found]
                library = build_library(arch, Path(scratch) / arch / "libspindle.so")
            for version, done in zip(found, compiled):
                done.result()
                report(pack(version, arch, library, extensions[version], given.out))
    return 1 if not found or (missing and given.strict) else 0


def commit_time() -> str:
    """The time of the files in a wheel: that of the commit, so that a second build has the same."""
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=PACKAGE, capture_output=True, text=True)
    return shown.stdout.strip() or "315532800"  # the earliest time that a zip file can hold


def report(wheel: Path) -> None:
    data = wheel.read_bytes()
    print(f"{wheel}  {len(data) / 1e6:.2f} MB  sha256 {hashlib.sha256(data).hexdigest()}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
