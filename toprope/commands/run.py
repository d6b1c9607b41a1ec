"""toprope run: compile, run on all blocks, compare with a reference, list findings, show the time; whole host programs too."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from toprope.commandline import CRASHED, document
from toprope.commands.launching import parser, prepare
from toprope.commands.prepared import Prepared, judged
from toprope.kernel import DEFAULT_SOC
from toprope.report import summary, text
from toprope.soc import load as load_soc
from toprope.toolkit.source import SOURCES, is_program


def main(argv: list[str]) -> int:
    """Exit code 0 clean, 1 an error finding or a failed comparison, 2 bad input, 3 the kernel crashed or hung."""
    p = parser("run", "Compile a kernel, run all blocks, compare, check, time.")
    p.add_argument("--save", type=Path, metavar="FOLDER", help="write the outputs there as .npy")
    p.add_argument("--verbose", action="store_true", help="every finding in full, also advice")
    p.add_argument(
        "--project",
        action="append",
        default=[],
        type=Path,
        metavar="FOLDER",
        help="for a host program: an operator project whose aclnn functions it calls",
    )
    p.add_argument(
        "--program-limit",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="for a host program: stop it when it runs longer (default 600)",
    )
    options = p.parse_intermixed_args(argv)
    sources = [Path(options.kernel), *(Path(a) for a in options.arguments if a.endswith(SOURCES))]
    if any(map(is_program, sources)):
        return _run_program(options, sources)
    return _run(prepare(options))


def _run(prepared: Prepared) -> int:
    run, references = prepared.run()
    verdicts, complaint = judged(prepared, references)
    result = summary.of(run, verdicts)
    if prepared.options.save:
        prepared.options.save.mkdir(parents=True, exist_ok=True)
        for name, array in run.outputs.items():
            np.save(prepared.options.save / f"{name}.npy", array)
    if prepared.options.json:
        print(document("run", summary.as_json(result, complaint)))
    else:
        text.show(result, verbose=prepared.options.verbose, complaint=complaint)
    if complaint is not None:
        raise complaint
    if run.trace.signal:
        return CRASHED
    return 1 if result.errors or not result.passed else 0


def _run_program(options: argparse.Namespace, sources: list[Path]) -> int:
    """Sources of which one has a main function; the program's own arguments follow their names."""
    # Host programs bring the readers of operator projects with them: a tenth of a kernel's cached run, which needs neither.
    from toprope.toolkit.run import run_program
    from toprope.toolkit.show import finish

    result = run_program(
        sources,
        load_soc(options.soc or DEFAULT_SOC),
        arguments=[a for a in options.arguments if not a.endswith(SOURCES)],
        include=options.include,
        defines=options.defines,
        projects=options.project,
        time_limit_s=options.time_limit,
        host_limit_s=options.program_limit,
        quiet=options.json,
    )
    finish(result, as_json_text=options.json, verbose=options.verbose)
    if result.code < 0:
        return CRASHED
    return 1 if result.code or result.errors else 0
