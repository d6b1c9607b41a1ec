"""`python -m toprope.validation`: predict every published row and write docs/validation.md; `fit`: solve the constants first."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from toprope import soc
from toprope.validation import fit, page, picture, report
from toprope.validation.experiment import Outcome, published

PAGE = Path("docs") / "validation.md"  # of the checkout that it is called in


def main(arguments: list[str] | None = None) -> int:
    """Run the rows, print one line each, write the page and its pictures."""
    parser = argparse.ArgumentParser(prog="python -m toprope.validation", description=__doc__)
    parser.add_argument(
        "do",
        nargs="?",
        choices=["page", "fit", "bands"],
        default="page",
        help="fit: solve the constants and write them into the chip file and fitted.toml; bands: also write timing/evidence.toml; page: predict (default)",
    )
    parser.add_argument("--all", action="store_true", help="also the slow rows")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("--output", type=Path, default=PAGE, help="where the page goes (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.do == "fit":
        return _fit()
    outcomes = []
    for outcome in _predicted(slow=chosen.all):
        outcomes.append(outcome)
        if not chosen.json:
            print(line(outcome), flush=True)
    if chosen.json:
        print(json.dumps(report.as_json(outcomes), indent=2))
    if chosen.do == "bands":
        fit.store_bands(fit.bands(outcomes), fit.plans(outcomes))
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(page.markdown(outcomes, complete=chosen.all))
    figures = chosen.output.parent / "figures"
    figures.mkdir(exist_ok=True)
    for kind, rows in report.by(outcomes, lambda o: o.row.kind).items():
        (figures / f"validation-{page.slug(kind)}.svg").write_text(picture.scatter(kind, rows))
    s = report.summary(outcomes)
    print(
        f"{s.rows} rows, each blind to its publisher: mean absolute error {s.mean_error:.1%}, median {s.median_error:.1%}, "
        f"log r {s.correlation:.3f}, pipe times {s.median_pipe_error:.1%}",
        file=sys.stderr,
    )
    return 0


def _predicted(*, slow: bool) -> Iterator[Outcome]:
    solved = fit.fitted()
    return (fit.blind(row, solved) for row in published() if slow or not row.slow)


def line(outcome: Outcome) -> str:
    """A row in one line."""
    row = outcome.row
    return f"{fit.name_of(row):36} published {row.us:12,.2f} us, predicted {outcome.us:12,.2f} us  {outcome.error:+7.1%}, seen {outcome.seen_error:+7.1%}"


def _fit() -> int:
    solved = fit.solve(say=True)
    for c in fit.constants():
        without = ", ".join(f"without {name} {values[c.name]:.4g}" for name, values in solved.without.items())
        print(f"{c.name}: {solved.all_rows[c.name]:.4g} (prior {c.prior:.4g}); {without}; from {', '.join(c.rows)}")
    fit.store(solved)
    soc.load.cache_clear()  # the chip file has changed, and so has fitted.toml
    fit.fitted.cache_clear()
    outcomes = list(_predicted(slow=False))
    fit.store_bands(fit.bands(outcomes), fit.plans(outcomes))
    s = report.summary(outcomes)
    print(
        f"left out by publisher: mean absolute error {s.mean_error:.1%}, median {s.median_error:.1%}, log r {s.correlation:.3f} over {s.rows} rows"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
