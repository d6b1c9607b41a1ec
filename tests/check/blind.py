"""Counts what the check says about kernels whose findings were written down before it first ran on them: two pages of one draw.

`python -m tests.check.blind PAGE...` prints a line for each kernel that does not come out as written, and the figures.
With `--record` the verdicts go into blind.toml, which docs/bug_rows.md shows.
"""

from __future__ import annotations

import argparse
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.check.pages import FOLDER, Case, cases, findings
from toprope.finding import Finding

RECORD = Path(__file__).with_name("blind.toml")
LOOKED_AT, HELD_BACK = FOLDER / "fresh_looked_at.md", FOLDER / "fresh_held_back.md"
_OFFSET = 2  # lines that the harness puts in front


@dataclass(frozen=True)
class Verdict:
    """How a kernel came out: right, noticed (another code or another line), missed; for a kernel without fault clean or false-alarm."""

    name: str
    word: str
    cascades: int  # error findings that nothing wrote down, beside the right one
    told: tuple[str, ...]

    @property
    def faulty(self) -> bool:
        """Whether a finding was expected."""
        return self.word in ("right", "noticed", "missed")


def judged(case: Case, found: Sequence[Finding]) -> Verdict:
    """The verdict on the findings of a case. Advice counts for nothing."""
    expected = {(code, line + _OFFSET) for _, codes, line in case.expected() for code in codes.split("|")}
    serious = [f for f in found if f.severity != "advice"]
    right = [f for f in serious if any((f.code, p.line) in expected for p in f.places)]
    others = [f for f in serious if f not in right]
    if not expected:
        word = "false-alarm" if others else "clean"
    else:
        word = "right" if right else "noticed" if others else "missed"
    cascades = sum(f.severity == "error" for f in others) if right else 0
    return Verdict(case.name, word, cascades, tuple(str(f) for f in others))


def figures(verdicts: Sequence[Verdict]) -> str:
    """Counts of the words, as a sentence."""
    counts = Counter(v.word for v in verdicts)
    faulty = sum(v.faulty for v in verdicts)
    clean = len(verdicts) - faulty
    more = sum(v.cascades > 0 for v in verdicts)
    return (
        f"{counts['right']} of {faulty} faults named with the right cause ({counts['right'] / max(faulty, 1):.1%}), "
        f"{counts['noticed']} noticed with another code or on another line, {counts['missed']} missed; {more} with a second error that is "
        f"none; {counts['false-alarm']} false alarms in {clean} kernels without fault"
    )


def recorded() -> dict[str, list[Verdict]]:
    """The verdicts of the first runs by page, as --record kept them."""
    tables = tomllib.loads(RECORD.read_text()) if RECORD.exists() else {}
    return {
        page: [Verdict(name, row["verdict"], row["cascades"], ()) for name, row in rows.items()]
        for page, rows in tables.items()
    }


def main() -> None:
    """Count pages."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("pages", nargs="*", type=Path, default=[LOOKED_AT, HELD_BACK])
    p.add_argument("--record", action="store_true", help="write the verdicts into blind.toml")
    options = p.parse_args()
    for page in options.pages:
        verdicts = [judged(case, findings(case)) for case in cases(page)]
        for v in verdicts:
            if v.word not in ("right", "clean") or v.cascades:
                print(f"-- {v.name}: {v.word}" + "".join(f"\n{told}" for told in v.told))
        print(f"{page.stem}: {figures(verdicts)}")
        if options.record:
            rows = "".join(f'{v.name} = {{ verdict = "{v.word}", cascades = {v.cascades} }}\n' for v in verdicts)
            with RECORD.open("a") as file:
                file.write(f"[{page.stem}]\n{rows}\n")


if __name__ == "__main__":
    main()
