"""toprope explore: look around in a run, in the terminal."""

from __future__ import annotations

import sys

from toprope.commandline import CRASHED
from toprope.commands.launching import parser, prepare
from toprope.commands.prepared import Prepared, judged
from toprope.errors import BadInput
from toprope.profile import diagnose
from toprope.report import summary


def main(argv: list[str]) -> int:
    """Exit code 0 left by the user, 2 bad input, 3 the kernel crashed or hung."""
    p = parser("explore", "Run a kernel and look at its timeline, memories and findings in the terminal.")
    p.add_argument("--time-only", action="store_true", help="skip the arithmetic: faster, results are not computed")
    options = p.parse_intermixed_args(argv)
    return _explore(prepare(options))


def _explore(prepared: Prepared) -> int:
    try:
        from toprope.explore import Explorer  # loads Textual, which only this verb needs
    except ModuleNotFoundError as error:
        raise BadInput(f"explore needs the package {error.name}", cure="pip install 'toprope[tui]'") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("explore needs a terminal", cure="use `toprope profile ... --html FILE` where there is none")
    if prepared.options.time_only:
        prepared.golden = None
    run, references = prepared.run()
    verdicts, complaint = judged(prepared, references)
    Explorer(summary.of(run, verdicts, diagnose(run))).run()
    if complaint is not None:
        raise complaint
    return CRASHED if run.trace.signal else 0
