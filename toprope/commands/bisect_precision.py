"""toprope bisect-precision: run a kernel beside a float64 shadow and name the line where its error is born."""

from __future__ import annotations

import numpy as np

from toprope.commandline import document
from toprope.commands.launching import parser, prepare
from toprope.commands.prepared import Prepared, References, ended_early, unchanged
from toprope.errors import TopropeError
from toprope.precision import report
from toprope.precision.blame import diagnose
from toprope.precision.shadow import Replay, replay

CAPTURE_LIMIT_BYTES = 2 << 30


def main(argv: list[str]) -> int:
    """Exit code 0 clean, 1 a cause was found, 2 bad input, 3 the kernel crashed or hung."""
    p = parser(
        "bisect-precision",
        "Run a kernel in lockstep with float64 and report where its relative error is born and how it grows.",
    )
    p.add_argument("--all", action="store_true", help="the whole chain of steps and every line")
    options = p.parse_intermixed_args(argv)
    return _bisect(prepare(options))


def _bisect(prepared: Prepared) -> int:
    before = unchanged(prepared.arrays)
    prepared.options.capture_limit_bytes = CAPTURE_LIMIT_BYTES
    run, references = prepared.run()
    if run.trace.signal:
        raise ended_early(run)
    replayed = replay(run.trace, run.soc, before)
    diagnosis = diagnose(replayed, prepared.arrays)
    against, complaint = _against(prepared, references, replayed)
    if prepared.options.json:
        print(document("bisect-precision", report.as_json(diagnosis, replayed, against)))
    else:
        report.show(diagnosis, replayed, against, everything=prepared.options.all)
    if complaint is not None:
        raise complaint
    return 0 if diagnosis.clean else 1


def _against(
    prepared: Prepared, references: References, replayed: Replay
) -> tuple[dict[str, float], TopropeError | None]:
    """How far exact arithmetic on the kernel's own steps is from the references: large when the algorithm is at fault."""
    try:
        golden = references()
    except TopropeError as error:
        return {}, error
    found = {}
    for name, gold in golden.items():
        exact = replayed.exact(prepared.parameter(name), prepared.output(name))
        both = np.isfinite(exact) & np.isfinite(gold)
        size = float(np.linalg.norm(gold[both]))
        found[name] = float(np.linalg.norm(exact[both] - gold[both])) / size if size else 0.0
    return found, None
