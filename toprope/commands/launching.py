"""What run, check and profile share: reading the command line into a launch, and running it in a child process."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toprope import launch as launches
from toprope.errors import BadInput, TopropeError
from toprope.kernel import Kernel, KernelFile, Run, load
from toprope.testing.compare import Verdict, compare
from toprope.trace import Array

CRASHED = 3


@dataclass
class Prepared:
    """A kernel with everything to launch it; `inputs` are copies taken before the run, for the references."""

    kernel: Kernel
    launch: launches.LaunchFile
    arguments: dict[str, Any]
    options: argparse.Namespace

    def run(self) -> tuple[Run, Callable[[], dict[str, Array]]]:
        """Launch. The second value computes the references from the inputs as they were before the run."""
        before = (
            {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in self.arguments.items()}
            if self.launch.reference
            else {}
        )
        run = self.kernel[self.launch.blocks](
            *self.arguments.values(),
            soc=self.launch.soc,
            tiling_key=self.launch.tiling_key,
            time_limit_s=self.options.time_limit,
            time_only=getattr(self.options, "time_only", False),
            sync=self.options.sync,
            explore=getattr(self.options, "explore", False),
            poisoned=launches.outputs(self.launch),
        )
        return run, lambda: launches.references(self.launch, before)


def judged(
    prepared: Prepared, references: Callable[[], dict[str, Array]]
) -> tuple[dict[str, Verdict], TopropeError | None]:
    """A verdict per output that has a reference, and why there is none.

    A reference that cannot be computed must not cost the user the report: the caller shows it first, then raises the complaint.
    """
    try:
        return {
            name: compare(np.asarray(prepared.arguments[name]), gold, standard=prepared.launch.standard)
            for name, gold in references().items()
        }, None
    except TopropeError as error:
        return {}, error


def parser(verb: str, what: str) -> argparse.ArgumentParser:
    """The options that every verb which launches a kernel has."""
    p = argparse.ArgumentParser(
        prog=f"toprope {verb}",
        description=what,
        epilog="ARGUMENTS look like x='half[8, 2048]' z='half[8, 2048] out' n=16384; see docs/launch.md. Without any, the launch file beside the kernel is used.",
    )
    p.add_argument(
        "kernel", metavar="FILE[:ENTRY]", help="Ascend C source, and the kernel function if the file has several"
    )
    p.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="argument specifications")
    p.add_argument("--blocks", type=int, help="number of blocks (default: launch file, else 1)")
    p.add_argument("--soc", help="chip (default ascend910b1; `toprope socs` lists them)")
    p.add_argument("--launch", type=Path, help="launch file (default: FILE with the ending .toml)")
    p.add_argument(
        "--reference",
        action="append",
        default=[],
        metavar="NAME=EXPRESSION",
        help="NumPy expression, file.py:function or @file.npy for an output",
    )
    p.add_argument("--standard", help="precision standard of the comparison (default mixed)")
    p.add_argument("--seed", type=int, help="seed of the random inputs (default 0)")
    p.add_argument("--tiling-key", type=int, help="value that TILING_KEY_IS sees")
    p.add_argument(
        "--sync",
        choices=("auto", "manual"),
        default="auto",
        help="auto: the compiler adds barriers inside the vector pipe (vendor default)",
    )
    p.add_argument("-I", dest="include", action="append", default=[], type=Path, help="include folder")
    p.add_argument(
        "-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]", help="preprocessor define"
    )
    p.add_argument(
        "--time-limit", type=float, default=60.0, metavar="SECONDS", help="stop a kernel that runs longer (default 60)"
    )
    p.add_argument("--json", action="store_true", help="machine-readable output")
    return p


def prepare(options: argparse.Namespace) -> Prepared | None:
    """The launch that the options describe; None (after printing what is in the file) when no argument is known at all."""
    file_text, _, entry = options.kernel.partition(":")
    file = Path(file_text)
    if options.blocks is not None and options.blocks < 1:
        raise BadInput(f"--blocks {options.blocks}: a launch needs at least one block", cure="for example --blocks 8")
    kernels = load(file, include=options.include, defines=options.defines)
    launch_path = options.launch or file.with_suffix(".toml")
    if options.launch and not options.launch.is_file():
        raise BadInput(
            f"there is no launch file {options.launch}", cure="leave --launch out, or write one (docs/launch.md)"
        )
    described = _described(launch_path)
    if not entry and len(kernels.kernels) > 1:
        with_launch = [n for n in kernels.kernels if n in described]
        if len(with_launch) != 1:
            _list(kernels)
            return None
        entry = with_launch[0]
    kernel = kernels[entry] if entry else next(iter(kernels.kernels.values()))
    launch = launches.read(launch_path, kernel.name)
    for token in options.arguments:
        name, equals, value = token.partition("=")
        if not equals:
            raise BadInput(f"{token!r} is not NAME=VALUE", cure="for example x='half[8, 2048]'")
        launch.arguments[name] = launches.parse_value(value)
    if not launch.arguments and kernel.entry.parameters:
        _list(kernels)
        return None
    for token in options.reference:
        name, _, value = token.partition("=")
        launch.reference[name] = value
    for name in ("blocks", "soc", "standard", "seed", "tiling_key"):
        if getattr(options, name) is not None:
            setattr(launch, name, getattr(options, name))
    return Prepared(kernel, launch, launches.arguments(kernel, launch), options)


def _described(path: Path) -> set[str]:
    try:
        return {
            line.strip()[1:-1]
            for line in path.read_text().splitlines()
            if line.strip().startswith("[") and "." not in line
        }
    except OSError:
        return set()


def _list(kernels: KernelFile) -> None:
    print(f"{kernels.path} has {len(kernels.kernels)} kernel{'s' if len(kernels.kernels) > 1 else ''}:")
    for kernel in kernels.kernels.values():
        print(f"  {kernel.entry.signature}   line {kernel.entry.line}, {kernel.entry.task_type}")
    first = next(iter(kernels.kernels.values()))
    print(f"\nto run one, describe its arguments (docs/launch.md):\n  {launches.example_command(first)}")


def in_child(work: Callable[[], int], time_limit_s: float) -> int:
    """Run `work` in a child process, so that a kernel with wild pointers cannot take the report down with it.

    The runtime turns most crashes and hangs into findings inside the child; what is left (a corrupted heap, a blocked signal)
    ends here in one message and exit code 3.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = CRASHED
        try:
            code = work()
        except TopropeError as error:
            print(error, file=sys.stderr)
            code = 2
        except KeyboardInterrupt:
            code = 130
        except Exception as error:
            # A mistake of ours: one line for the user, the traceback for whoever reports it.
            print(
                f"internal-error: {type(error).__name__}: {error}\ncure: please report this; TOPROPE_DEBUG=1 shows where it happened",
                file=sys.stderr,
            )
            if os.environ.get("TOPROPE_DEBUG"):
                traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    deadline = time.monotonic() + (time_limit_s * 2 + 60 if time_limit_s else float("inf"))
    pause = 0.001
    while True:
        try:
            pid, status = os.waitpid(child, os.WNOHANG)
        except KeyboardInterrupt:
            os.kill(child, signal.SIGKILL)
            raise
        if pid:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            print(
                f"kernel-time-limit: the run did not end within {time_limit_s:g} s and could not be interrupted\ncure: raise --time-limit or look for an endless loop",
                file=sys.stderr,
            )
            return CRASHED
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        print(
            f"kernel-crash: the kernel destroyed its process ({name}), most likely by writing through a wild pointer\ncure: use GlobalTensor/LocalTensor accesses, which are checked, or run under gdb",
            file=sys.stderr,
        )
        return CRASHED
    return os.WEXITSTATUS(status)
