"""toprope exec: run a command with the toolkit's environment; every program in it is checked, timed and reported on."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from toprope.soc import load as load_soc
from toprope.toolkit.choices import CHOICES
from toprope.toolkit.execute import run
from toprope.toolkit.prefix import real_toolkit
from toprope.toolkit.show import finish

CRASHED = 3


def main(argv: list[str]) -> int:
    """The command's exit code; 1 if it was 0 and there are error findings, 2 bad input, 3 if a signal ended it."""
    p = argparse.ArgumentParser(
        prog="toprope exec",
        description="Run a command with the toolkit's environment: programs made for the vendor's toolkit use the software NPU.",
        epilog="for example: toprope exec -- ./demo    or: toprope exec -- bash run.sh",
    )
    p.add_argument("--soc", default="", help="the chip; default: what the kernels were compiled for, ascend910b1 first")
    p.add_argument("--json", action="store_true", help="print the report as JSON")
    p.add_argument(
        "--report", type=Path, metavar="FILE", help="write it: .json, .sarif, .perfetto.json, or a folder for all three"
    )
    p.add_argument("--verbose", action="store_true", help="copies and advice, too")
    p.add_argument(
        "--time-limit", type=float, default=0.0, metavar="SECONDS", help="stop the command when it runs longer"
    )
    p.add_argument(
        "--executors",
        choices=CHOICES,
        default="",
        help="who may answer aclnn calls that no package of yours does: all (default: library operators, kernels made for the call, "
        "references), library (no made kernels), reference",
    )
    p.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    options = p.parse_args(argv)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        p.error("no command: toprope exec -- ./demo")
    if options.soc:
        load_soc(options.soc)
    if named := real_toolkit():
        print(f"note: the toolkit at {named} is not used by this command")
    if options.executors:
        os.environ["TOPROPE_EXECUTORS"] = options.executors
    finished = run(command, soc=options.soc, limit_s=options.time_limit)
    finish(finished, as_json_text=options.json, verbose=options.verbose, report=options.report)
    if finished.code < 0:
        return CRASHED
    return finished.code or int(bool(finished.errors))
