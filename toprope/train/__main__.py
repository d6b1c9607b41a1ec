"""python -m toprope.train fit | kernels | page: constants from published rows, products from the chip, the figures' page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from toprope.hccl.cluster import Cluster
from toprope.train.figures import page
from toprope.train.fit import write


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's first line."""
    parser = argparse.ArgumentParser(prog="python -m toprope.train", description=__doc__)
    parser.add_argument("verb", choices=("fit", "kernels", "page"))
    parser.add_argument("--out", default="docs/training_figures.md", help="where the page goes")
    args = parser.parse_args(argv)
    if args.verb == "fit":
        path = write()
        print(path.read_text("utf-8"))
    elif args.verb == "kernels":
        from toprope.train.kernels import fit_products  # loads the operator library

        for name in ("atlas-a2",):
            constants, error = fit_products(Cluster.load(name, 8))
            print(f"{name}: {constants}, mean error over the shapes {error:.1%}")
    else:
        Path(args.out).write_text(page(), encoding="utf-8")
        print(f"wrote {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
