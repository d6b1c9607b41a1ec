"""toprope run: compile, run on all blocks, compare with a reference, list findings, show the time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from toprope.commands.launching import CRASHED, Prepared, in_child, judged, parser, prepare
from toprope.report import summary, text


def main(argv: list[str]) -> int:
    """Exit code 0 clean, 1 an error finding or a failed comparison, 2 bad input, 3 the kernel crashed or hung."""
    p = parser("run", "Compile a kernel, run all blocks, compare, check, time.")
    p.add_argument("--save", type=Path, metavar="FOLDER", help="write the outputs there as .npy")
    p.add_argument("--verbose", action="store_true", help="every finding in full, also advice")
    options = p.parse_intermixed_args(argv)
    prepared = prepare(options)
    if prepared is None:
        return 0
    return in_child(lambda: _run(prepared), options.time_limit)


def _run(prepared: Prepared) -> int:
    run, references = prepared.run()
    verdicts, complaint = judged(prepared, references)
    result = summary.of(run, verdicts)
    if prepared.options.save:
        prepared.options.save.mkdir(parents=True, exist_ok=True)
        for name, array in run.outputs.items():
            np.save(prepared.options.save / f"{name}.npy", array)
    if prepared.options.json:
        print(json.dumps(summary.as_json(result), indent=1))
    else:
        text.show(result, verbose=prepared.options.verbose)
    if complaint is not None:
        raise complaint
    if run.trace.signal:
        return CRASHED
    return 1 if result.errors or not result.passed else 0
