"""python -m toprope.serve.planning fit | page: what engines add, from published rows; the page that compares."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from toprope.serve.planning.engine_time import write
from toprope.serve.planning.published_page import page


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's first line."""
    parser = argparse.ArgumentParser(prog="python -m toprope.serve.planning", description=__doc__)
    parser.add_argument("verb", choices=("fit", "page"))
    parser.add_argument("--out", default="docs/serving_figures.md", help="where the page goes")
    args = parser.parse_args(argv)
    if args.verb == "fit":
        print(write().read_text("utf-8"))
    else:
        Path(args.out).write_text(page(), encoding="utf-8")
        print(f"wrote {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
