"""`python -m toprope.validation`: predict every published row and write docs/validation.md."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from toprope.validation import report
from toprope.validation.experiment import published, run

PAGE = Path("docs") / "validation.md"  # of the checkout that it is called in


def main(arguments: list[str] | None = None) -> int:
    """Run the rows, print one line each, write the page."""
    parser = argparse.ArgumentParser(prog="python -m toprope.validation", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also the slow rows")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("--output", type=Path, default=PAGE, help="where the page goes (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    outcomes = []
    for row in published():
        if row.slow and not chosen.all:
            continue
        outcome = run(row)
        outcomes.append(outcome)
        if not chosen.json:
            print(
                f"{row.series:28} {row.id:4} published {row.us:12,.2f} us, predicted {outcome.us:12,.2f} us  {outcome.error:+6.1%}",
                flush=True,
            )
    if chosen.json:
        print(json.dumps(report.as_json(outcomes), indent=2))
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(report.markdown(outcomes, complete=chosen.all))
    return 0


if __name__ == "__main__":
    sys.exit(main())
