"""What run, check and profile share: reading the command line into a launch."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toprope import launch as launches
from toprope.commandline import Parser, nearest, pairs
from toprope.commands.prepared import Prepared, References, unchanged
from toprope.commands.watch import WATCHED
from toprope.errors import BadInput
from toprope.inputs import naming
from toprope.kernel import Call, KernelFile, load
from toprope.soc import load as load_soc
from toprope.source import local_files
from toprope.testing.compare import Verdict, compare, unwritten
from toprope.testing.standards import standard
from toprope.trace import Array


def parser(verb: str, what: str) -> argparse.ArgumentParser:
    """The options that every verb which launches a kernel has."""
    p = Parser(
        prog=f"toprope {verb}",
        description=what,
        epilog="ARGUMENTS look like x='half[8, 2048]' z='half[8, 2048] out' n=16384; see docs/launch.md. Without any, the launch file beside the kernel is used. "
        "A project's folder needs --case, or an --input for each of its operator's inputs; there, ARGUMENTS are its attributes.",
    )
    p.add_argument(
        "kernel",
        metavar="FILE[:ENTRY] | FOLDER[:OPERATOR]",
        help="Ascend C source, and the kernel function if the file has several; or an operator project, or a case file",
    )
    p.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="argument specifications")
    p.add_argument("--case", default="", metavar="NAME", help="for a project or a case file: the case to launch")
    p.add_argument(
        "--input",
        action="append",
        default=[],
        nargs="+",
        metavar="TYPE[N,N]",
        help="for a project: its operator's inputs in order, as in a launch file; null leaves an optional one out",
    )
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
    if verb in WATCHED:
        p.add_argument("--watch", action="store_true", help="again whenever a file beside it is saved, until Ctrl-C")
    return p


def prepare(options: argparse.Namespace) -> Prepared:
    """The launch that the options describe. Raises BadInput when nothing says what to launch, and for options that mean nothing."""
    file_text, _, entry = options.kernel.partition(":")
    file = Path(file_text)
    _check_options(options)
    if file.is_dir() or (file.is_file() and file.suffix in _CASE_FILES):
        # Cases bring the readers of every tool's files with them, which a kernel's run needs none of.
        from toprope.commands.project_case import prepare_case

        return prepare_case(options, file, entry)
    for name in ("case", "input"):
        if getattr(options, name):
            raise BadInput(
                f"--{name} is for a project's folder{' or a case file' if name == 'case' else ''}; {file} is a source",
                cure=f"describe its arguments: NAME=VALUE, or {file.with_suffix('.toml').name} (docs/launch.md)",
            )
    return _prepare_kernel(options, file, entry)


_CASE_FILES = (".toml", ".csv", ".xlsx", ".json", ".yaml")


def _prepare_kernel(options: argparse.Namespace, file: Path, entry: str) -> Prepared:
    kernels = load(file, include=options.include, defines=options.defines)
    launch_path = options.launch or file.with_suffix(".toml")
    if options.launch and not options.launch.is_file():
        raise BadInput(
            f"there is no launch file {options.launch}", cure="leave --launch out, or write one (docs/launch.md)"
        )
    _check_defines(options.defines, file)
    described = launches.described(launch_path)
    if not entry and len(kernels.kernels) > 1:
        with_launch = [n for n in kernels.kernels if n in described]
        if len(with_launch) != 1:
            raise _nothing_said(kernels, launch_path, with_launch)
        entry = with_launch[0]
        left = [n for n in kernels.kernels if n != entry]
        print(
            f"note: {file} has {len(left)} more kernel{'s' if len(left) > 1 else ''}, not run because {launch_path} says nothing of "
            f"{'them' if len(left) > 1 else 'it'}: {', '.join(left)}",
            file=sys.stderr,
        )
    kernel = kernels[entry] if entry else next(iter(kernels.kernels.values()))
    launch = launches.read(launch_path, kernel.name)
    for name, value in pairs(options.arguments, "x='half[8, 2048]'"):
        launch.arguments[name] = launches.parse_value(value)
    if not launch.arguments and kernel.entry.parameters:
        raise _nothing_said(kernels, launch_path, [])
    for name, value in pairs(options.reference, "z='x + y'"):
        launch.reference[name] = value
    for name in ("blocks", "soc", "standard", "seed", "tiling_key"):
        if getattr(options, name) is not None:
            setattr(launch, name, getattr(options, name))
    # What is wrong with values from a launch file is said with its name; what the command line says needs none.
    source = launch_path if launch_path.is_file() and not options.arguments else None
    if options.soc is not None:
        load_soc(options.soc)
    if options.standard is not None:
        standard(options.standard)
    with naming(source):
        launches.check(kernel, launch)
        standard(launch.standard)
        arguments = launches.arguments(kernel, launch)
    poisoned = launches.outputs(launch)
    call = Call(kernel, launch.blocks, load_soc(launch.soc), arguments, {}, poisoned, launch.tiling_key)

    def judge(name: str, actual: Array, gold: Array) -> Verdict:
        verdict = compare(actual, gold, standard=launch.standard)
        inputs = [a for n, a in arguments.items() if n not in poisoned]
        return replace(verdict, unwritten=unwritten(actual, inputs) if name in poisoned else 0)

    def golden() -> References:
        before = unchanged(arguments)
        return lambda: launches.references(launch, before)

    return Prepared(call, options, judge, golden if launch.reference else None, None, source, launch)


def _check_options(options: argparse.Namespace) -> None:
    if options.blocks is not None and not 1 <= options.blocks <= launches.MOST_BLOCKS:
        raise BadInput(
            f"--blocks {options.blocks}: a launch has 1 to {launches.MOST_BLOCKS} blocks", cure="for example --blocks 8"
        )
    if not math.isfinite(options.time_limit) or options.time_limit < 0:
        raise BadInput(f"--time-limit {options.time_limit}", cure="give seconds, or 0 for no limit")
    for folder in options.include:
        if not folder.is_dir():
            raise BadInput(f"-I {folder}: there is no such folder", cure="check the path")
    for define in options.defines:
        if not re.fullmatch(r"[A-Za-z_]\w*(\([^()]*\))?(=.*)?", define, re.S):
            raise BadInput(f"-D {define}: that is no name", cure="write -D NAME or -D NAME=VALUE")


def _describes_others(kernels: KernelFile, launch_path: Path) -> str:
    others = launches.described(launch_path)
    first = next(iter(kernels.kernels))
    return (
        f"describes {', '.join(others)}: write [{first}] there"
        if others
        else f"describes none of them: write [{first}] there"
    )


def _check_defines(defines: Sequence[str], file: Path) -> None:
    """Raises BadInput for a -D that would break a constant of the same name; says on standard error which no source mentions."""
    texts = {path: text for path, text in local_files(file)} if defines else {}
    for define in defines:
        name = re.split(r"[=(]", define)[0]
        for path, text in texts.items():
            if found := re.search(rf"^.*\b(?:constexpr|const)\b[\w\s:]*?\b({name})\s*=", text, re.M):
                line = text[: found.start(1)].count("\n") + 1
                raise BadInput(
                    f"-D {name}: {path.name}:{line} has a constant of this name, which a macro would break",
                    cure=f"make it a macro that -D may set: #ifndef {name} / #define {name} ... / #endif; or change the constant",
                )
        if not any(re.search(rf"\b{name}\b", text) for text in texts.values()):
            known = sorted(
                {n for text in texts.values() for n in re.findall(r"#[ \t]*(?:ifndef|ifdef|define)[ \t]+(\w+)", text)}
            )
            print(
                f"note: -D {name} changes nothing: no line of {file.name} or its headers has this name{nearest(name, known)}",
                file=sys.stderr,
            )


def _nothing_said(kernels: KernelFile, launch_path: Path, several: Sequence[str]) -> BadInput:
    """Why nothing can be launched: what is in the file, and a complete command."""
    listed = "".join(
        f"\n  {k.entry.signature}   line {k.entry.line}, {k.entry.task_type}" for k in kernels.kernels.values()
    )
    count = f"{len(kernels.kernels)} kernel{'s' if len(kernels.kernels) > 1 else ''}"
    why = (
        f"{launch_path} describes {len(several)} of them: {', '.join(several)}"
        if several
        else f"no arguments are given, and {launch_path} "
        + (_describes_others(kernels, launch_path) if launch_path.is_file() else "does not exist")
    )
    first = kernels[several[0]] if several else next(iter(kernels.kernels.values()))
    how = (
        f"name one: {kernels.path}:{several[0]}"
        if several
        else f"describe its arguments (docs/launch.md): {launches.example_command(first)}"
    )
    return BadInput(f"nothing was run: {kernels.path} has {count}, and {why}{listed}", cure=how, code="nothing-to-run")
