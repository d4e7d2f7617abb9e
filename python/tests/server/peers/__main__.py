"""Runs the cases with all servers that are installed; see the package's documentation."""

import argparse
import contextlib
import pathlib
import tempfile
from concurrent.futures import ThreadPoolExecutor

from . import page
from .cases import CASES
from .servers import NAMES, Peer, version


@contextlib.contextmanager
def starting(name, directory):
    """Yield a function that starts servers, which are stopped at the end."""
    with contextlib.ExitStack() as stack:
        def start(**options):
            peer = Peer(name, directory, **options)
            stack.callback(lambda: peer.process.poll() is None and peer.stop())
            return peer

        yield start


def outcomes(name, cases, directory):
    with starting(name, directory) as start, ThreadPoolExecutor(4) as pool:
        peer = start()
        if not peer.wait_until_ready():
            raise SystemExit(f"{name} does not start:\n{peer.log.read_text()}")
        found = pool.map(lambda case: page.cell(case.outcome(start if case.own else peer)), cases)
        return {case.name: outcome for case, outcome in zip(cases, found)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", default="", help="cases with this text in their names")
    parser.add_argument("--server", nargs="+", choices=NAMES, default=[name for name in NAMES if version(name)])
    parser.add_argument("--update", action="store_true", help="write the outcomes to the page")
    given = parser.parse_args()
    cases = [case for case in CASES if given.case in case.name]
    said, found = page.read(), {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.server:
            found[name] = outcomes(name, cases, pathlib.Path(scratch))
    for case in cases:
        for name in found:
            if found[name][case.name] != said.outcome(case, name):
                print(f"{case.name}: {name}: {found[name][case.name]}  (expected: {said.outcome(case, name)})")
    if given.update:
        page.PATH.write_text(page.updated(said, CASES, found if not given.case else {}), encoding="utf-8")


if __name__ == "__main__":
    main()
