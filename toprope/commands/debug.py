"""toprope debug: a kernel under gdb, with its own lines and variables."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from toprope.commandline import CRASHED, flush, guarded
from toprope.commands.launching import parser, prepare
from toprope.commands.prepared import Prepared, judged
from toprope.errors import BadInput
from toprope.kernel import cores_of
from toprope.report import summary, text

PLAIN = ("-g", "-O0")
"""Options that keep a kernel's lines and variables as they are written."""


def main(argv: list[str]) -> int:
    """Exit code of gdb; 2 bad input."""
    p = parser("debug", "Run a kernel under gdb: compiled without optimisation, all blocks in one process.")
    p.add_argument(
        "--break",
        dest="stops",
        action="append",
        default=[],
        metavar="FILE:LINE",
        help="stop there (default: where the kernel begins); several are possible",
    )
    p.add_argument(
        "--gdb-command",
        action="append",
        default=[],
        metavar="COMMAND",
        help="give gdb this command after it has stopped, and end; several in order",
    )
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = p.parse_intermixed_args(argv)
    if options.json:
        raise BadInput("debug is for people: it has no --json", cure="toprope check --json lists the findings")
    prepared = prepare(options)
    _compile(prepared)
    if options.inside:
        return _inside(prepared)
    gdb = shutil.which("gdb")
    if gdb is None:
        raise BadInput("debug needs gdb, which this machine does not have", cure="install it: apt-get install gdb")
    if not options.gdb_command and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("debug needs a terminal", cure="give gdb its commands: --gdb-command backtrace")
    # A GM pointer is a byte pointer, which gdb would print as text.
    commands = [
        "set breakpoint pending on",
        "set confirm off",
        "set print elements 8",
        "set print frame-arguments none",
    ]
    commands += [f"break {stop}" for stop in options.stops or [prepared.call.kernel.name]]
    commands += ["run", *options.gdb_command]
    flush()
    words = [
        gdb,
        "-q",
        "-iex",
        "set auto-load python-scripts off",
        *(("-batch",) if options.gdb_command else ()),
        *(w for c in commands for w in ("-ex", c)),
    ]
    os.execv(gdb, [*words, "--args", sys.executable, "-m", __spec__.name, *argv, "--inside"])


def _compile(prepared: Prepared) -> None:
    """Build the kernel with everything that a debugger wants to know. Raises CompileFailed."""
    call = prepared.call
    for core in cores_of(call.kernel, call.blocks, call.soc, call.tiling_key)[0]:
        key = call.soc.name, core.type
        if key not in call.kernel.built:
            call.kernel.built[key] = call.kernel.build(call.soc, core.type, *PLAIN)


def _inside(prepared: Prepared) -> int:
    prepared.options.in_process, prepared.options.time_limit = True, 0.0  # a debugger waits as long as it likes
    run, references = prepared.run()
    verdicts, complaint = judged(prepared, references)
    text.show(summary.of(run, verdicts), complaint=complaint)
    if complaint is not None:
        raise complaint
    return CRASHED if run.trace.signal else 0


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:], ""))
