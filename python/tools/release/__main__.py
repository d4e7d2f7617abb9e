"""Makes the files of a release, in one command.

    .ci/release                    # a trial: versions, notes and bill of materials, without building anything
    .ci/release prepare 0.2.0      # write the version to its places, and name the changelog's section
    .ci/release 0.2.0              # all files, to dist: commands, wheels, source, notes, bill of materials, checksums

Two builds of one commit give the same bytes.
"""

import argparse
import datetime
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

import versions
from building import binaries, source, wheels


def release(version: str, out: Path) -> None:
    """Make all files of a release."""
    if version != versions.written():
        raise versions.Mismatch(f"the files have the version {versions.written()}; 'prepare {version}' changes it")
    notes = versions.notes(version, final=True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    files = [*binaries(version, out), source(out), *wheels(out)]
    finish(version, notes, files, out)


def finish(version: str, notes: str, files: list[Path], out: Path) -> None:
    """Write the notes, the bill of materials and the checksums of files."""
    from bill import bill

    bom = out / "spindle.cdx.json"
    bom.write_text(bill(version, files))
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted([*files, bom])]
    (out / "SHA256SUMS").write_text("".join(lines))
    (out / "NOTES.md").write_text(notes)
    print("".join(lines), end="", flush=True)


def trial() -> None:
    """Check all that can be checked quickly."""
    version = versions.written()
    with tempfile.TemporaryDirectory() as scratch:
        finish(version, versions.notes(version, final=False), [], Path(scratch))
        bom = Path(scratch, "spindle.cdx.json").read_text()
        from bill import names

        needed = {"spindle-loop", "std", "golang.org/x/sys"} - set(names(bom))
        if needed:
            raise versions.Mismatch(f"the bill of materials lacks {', '.join(needed)}")
    print(f"version {version}: its places agree, the changelog has its notes, and the bill of materials is valid")


def main() -> int:
    p = argparse.ArgumentParser(prog=".ci/release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("words", nargs="*", metavar="[prepare] VERSION")
    p.add_argument("--out", default="dist", type=Path, metavar="DIR", help="where the files go; dist by default")
    given = p.parse_args()
    try:
        match given.words:
            case []:
                trial()
            case ["prepare", version]:
                versions.prepare(version, datetime.date.today().isoformat())
            case [version]:
                release(version, given.out)
            case _:
                p.error("too many arguments")
    except versions.Mismatch as e:
        print(f"release: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
