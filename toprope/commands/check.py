"""toprope check: the findings of a run and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

from toprope.check import check, output, suppress
from toprope.commandline import CRASHED
from toprope.commands.launching import parser, prepare
from toprope.commands.prepared import Prepared
from toprope.kernel import CHECK_OVERFLOW, Run
from toprope.order import inserted


def main(argv: list[str]) -> int:
    """Exit code 0 no error, 1 an error, 2 bad input, 3 the kernel crashed or hung."""
    p = parser("check", "Run a kernel and list its mistakes.")
    p.add_argument("--format", choices=("text", "json", "sarif", "mssanitizer"), default="text", help="output form")
    p.add_argument("--suppress", type=Path, metavar="FILE", help="suppression file (docs/sanitizer.md)")
    p.add_argument("--level", choices=("error", "warning", "advice"), default="warning", help="lowest severity shown")
    p.add_argument(
        "--overflow", action="store_true", help="also report signed integer overflows in the kernel's own lines"
    )
    p.add_argument(
        "--explore",
        action="store_true",
        help="repeat the run for every race in the order that it allows, and show what the outputs become",
    )
    options = p.parse_intermixed_args(argv)
    if options.overflow:
        options.defines.append(CHECK_OVERFLOW)
    return _check(prepare(options))


def _only_manual(run: Run) -> int:
    """How many races the kernel has only where the vendor's compiler inserts nothing."""
    if not len(inserted(run.trace, "auto")):
        return 0
    by_hand = check(run.trace, run.soc, sync="manual", poisoned=run.poisoned)
    return sum(f.code.startswith("race-") for f in by_hand) - sum(f.code.startswith("race-") for f in run.findings)


def _check(prepared: Prepared) -> int:
    run, _ = prepared.run()
    options = prepared.options
    findings = output.at_least(run.findings, options.level)
    unused: list[suppress.Suppression] = []
    if options.suppress:
        findings, unused = suppress.apply(findings, suppress.read_suppressions(options.suppress))
    print(output.render("json" if options.json else options.format, findings, run.trace))
    if options.sync == "auto" and (more := _only_manual(run)):
        print(
            f"note: built without the compiler's syncs (--cce-auto-sync=off) this kernel has {more} race{'s' if more > 1 else ''} more: --sync manual",
            file=sys.stderr,
        )
    for row in unused:
        print(f"note: nothing matched the suppression {row}", file=sys.stderr)
    if run.trace.signal:
        return CRASHED
    return 1 if any(f.severity == "error" for f in findings) else 0
