"""The page that says where the servers differ, and which of them is right."""

import pathlib
import re

from .servers import NAMES

PATH = pathlib.Path(__file__).parents[4] / "docs" / "design" / "030-python-server-peers.md"
HEAD = f"| case | {' | '.join(NAMES)} | judgement |"
SAME = "same"


def cell(outcome):
    """Return an outcome as a cell of the table has it."""
    return re.sub(r"[^ -{}~-\uffff]|[\x80-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", outcome).strip()


class Page:
    def __init__(self, text):
        self.text = text
        self.rows = {}  # by the name of the case: cells by the name of a server, and the judgement
        for line in text.splitlines():
            cells = [part.strip() for part in line.strip().strip("|").split(" | ")]
            if line.startswith("| ") and line != HEAD and len(cells) == len(NAMES) + 2:
                self.rows[cells[0]] = dict(zip([*NAMES, "judgement"], cells[1:]))
        self.versions = dict(re.findall(r"^- (\w+) (\d+(?:\.\d+)+)", text, re.MULTILINE))

    def outcome(self, case, server):
        """Return what a server is said to do."""
        said = self.rows.get(case.name, {}).get(server, SAME)
        return cell(case.right) if said == SAME or server == "Spindle" else said


def read():
    return Page(PATH.read_text(encoding="utf-8"))


def updated(page, cases, outcomes):
    """Return the page with other outcomes: by server, and by the name of a case. Judgements stay."""
    lines = [HEAD, "|---" * (len(NAMES) + 2) + "|"]
    for case in cases:
        right = cell(case.right)
        cells = {}
        for name in NAMES:
            found = outcomes[name].get(case.name) if name in outcomes else page.outcome(case, name)
            cells[name] = SAME if name != "Spindle" and found == right else found
        if set(cells.values()) - {right, SAME}:
            judgement = page.rows.get(case.name, {}).get("judgement", "")
            lines.append(f"| {case.name} | {' | '.join(cells[name] for name in NAMES)} | {judgement} |")
    before, _, rest = page.text.partition(HEAD)
    after = rest.partition("\n\n")[2]
    return before + "\n".join(lines) + "\n" + ("\n" + after if after else "")
