"""toprope check: the findings of a run and nothing else."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from toprope.check import check, output, suppress
from toprope.commandline import CRASHED
from toprope.commands.launching import parser, prepare
from toprope.commands.prepared import Prepared
from toprope.errors import BadInput, TopropeError
from toprope.finding import Finding
from toprope.kernel import CHECK_OVERFLOW, Run
from toprope.order import inserted
from toprope.variants import variants


def main(argv: list[str]) -> int:
    """Exit code 0 no error, 1 an error, 2 bad input, 3 the kernel crashed or hung."""
    p = parser("check", "Run a kernel and list its mistakes.")
    p.add_argument(
        "--format", choices=("text", "json", "sarif", "mssanitizer", "gcc"), default="text", help="output form"
    )
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
    p.add_argument(
        "--fuzz",
        type=at_least_one,
        default=0,
        metavar="N",
        help="also launch it up to N times with other values in index tensors and with other sizes (the same ones every time)",
    )
    options = p.parse_intermixed_args(argv)
    if options.overflow:
        options.defines.append(CHECK_OVERFLOW)
    return _check(prepare(options))


def at_least_one(text: str) -> int:
    """A whole number of launches. Raises ValueError."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


@dataclass(frozen=True)
class Tried:
    """A launch of --fuzz: what it changed, what was found only there, and why it was not launched, if it was not."""

    changed: str
    findings: tuple[Finding, ...] = ()
    refused: str = ""

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {"changed": self.changed, "codes": sorted({f.code for f in self.findings}), "refused": self.refused}

    def __str__(self) -> str:
        codes = ", ".join(sorted({f.code for f in self.findings}))
        return f"fuzz: {self.changed}: {self.refused or codes or 'nothing more'}"


def _fuzzed(prepared: Prepared, run: Run) -> list[Tried]:
    """The launches of --fuzz; a finding belongs to the first launch that shows it."""
    if prepared.launch is None:
        raise BadInput(
            "--fuzz changes the description of a launch, and a project's case has none",
            cure="give the kernel's source and its arguments (docs/launch.md)",
        )
    known = {_where(f) for f in run.findings}
    out = []
    for variant in variants(prepared.call.kernel, prepared.launch, prepared.options.fuzz):
        try:
            call = replace(prepared.call, arguments=variant.arguments)
            found = replace(prepared, call=call).run()[0].findings
        except TopropeError as error:
            out.append(Tried(variant.changed, refused=f"not launched: {error.message}"))
            continue
        new = [f for f in found if _where(f) not in known and f.severity != "advice"]
        known |= {_where(f) for f in new}
        told = (replace(f, message=f"{f.message}; with {variant.changed}") for f in new)
        out.append(Tried(variant.changed, tuple(told)))
    return out


def _where(finding: Finding) -> tuple[str, frozenset[tuple[str, int]]]:
    return finding.code, frozenset((p.file, p.line) for p in finding.places)


def _only_manual(run: Run) -> int:
    """How many races the kernel has only where the vendor's compiler inserts nothing."""
    if not len(inserted(run.trace, "auto")):
        return 0
    by_hand = check(run.trace, run.soc, sync="manual", poisoned=run.poisoned)
    return sum(f.code.startswith("race-") for f in by_hand) - sum(f.code.startswith("race-") for f in run.findings)


def _check(prepared: Prepared) -> int:
    run, _ = prepared.run()
    options = prepared.options
    tried = _fuzzed(prepared, run) if options.fuzz else []
    findings = output.at_least([*run.findings, *(f for t in tried for f in t.findings)], options.level)
    unused: list[suppress.Suppression] = []
    if options.suppress:
        findings, unused = suppress.apply(findings, suppress.read_suppressions(options.suppress))
    fuzz = {"fuzz": [t.as_json() for t in tried]} if options.fuzz else None
    print(output.render("json" if options.json else options.format, findings, run.trace, fuzz), flush=True)
    if options.sync == "auto" and (more := _only_manual(run)):
        print(
            f"note: built without the compiler's syncs (--cce-auto-sync=off) this kernel has {more} race{'s' if more > 1 else ''} more: --sync manual",
            file=sys.stderr,
        )
    for each in tried:
        print(each, file=sys.stderr)
    if options.fuzz and not tried:
        print("fuzz: nothing to change: no input of integers, and no size that the kernel is told", file=sys.stderr)
    for row in unused:
        print(f"note: nothing matched the suppression {row}", file=sys.stderr)
    if run.trace.signal:
        return CRASHED
    return 1 if any(f.severity == "error" for f in findings) else 0
