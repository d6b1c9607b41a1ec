"""A launch that a case file or an operator project describes: `toprope profile FOLDER --case NAME`, or with `--input` for each input."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from toprope import launch as launches
from toprope.commandline import nearest, pairs
from toprope.commands.prepared import Prepared, References
from toprope.errors import BadInput
from toprope.kernel import DEFAULT_SOC, Call
from toprope.project.loaded import ProjectOperator, load_project
from toprope.soc import Soc
from toprope.soc import load as load_soc
from toprope.testing.cases import Case, Input
from toprope.testing.compare import Verdict
from toprope.testing.errors import FormatError
from toprope.testing.execution import Runner, completed, copied, describe, judged
from toprope.testing.readers import find_suites, recognised
from toprope.testing.runners import KernelRunner, ProjectRunner, runner_from
from toprope.testing.standards import standard
from toprope.testing.suite import Suite
from toprope.trace import Array

_LISTED = 12  # cases in a message


def prepare_case(options: argparse.Namespace, path: Path, operator: str) -> Prepared:
    """The launch of a case, or of inputs given by hand. Raises BadInput, and what reading cases and projects raises."""
    project = (path / "op_kernel").is_dir()
    words = [w for group in options.input for w in group]
    specifications = [w for w in words if not re.match(r"^\w+=", w)]
    attributes = {
        n: launches.parse_value(v)
        for n, v in pairs([*options.arguments, *(w for w in words if w not in specifications)], "alpha=2.0")
    }
    _check(options, path, project, bool(specifications))
    suites = _suites(path, project)
    if specifications:
        return _by_hand(options, load_project(path, operator), suites, specifications, attributes)
    suite, case = _chosen(options, path, suites, project)
    case = replace(case, attrs={**case.attrs, **attributes}, seed=case.seed if options.seed is None else options.seed)
    chip = options.soc or str(suite.settings.get("soc", DEFAULT_SOC))
    runner = _runner(suite, path, project, operator, chip)
    return _prepared(options, suite, case, runner, suite.inputs(case), load_soc(chip))


def _check(options: argparse.Namespace, path: Path, project: bool, by_hand: bool) -> None:
    if options.launch:
        raise BadInput("--launch is for a kernel's source", cure="a project's cases are in its case file: --case NAME")
    if by_hand and options.case:
        raise BadInput("--case and --input both say what the inputs are", cure="give one of them")
    if by_hand and not project:
        raise BadInput(
            f"--input: {path} is no operator project",
            cure="give the folder that holds op_host/ and op_kernel/, or --case NAME",
        )
    if project and (options.include or options.defines):
        raise BadInput(
            "-I and -D: a project's kernel is built as its host code decides",
            cure="change the project, or run its kernel's source",
        )
    if options.standard:
        standard(options.standard)


def _suites(path: Path, project: bool) -> list[Suite]:
    beside = (
        [path.with_name(path.stem + ending) for ending in (".cpp", ".asc", ".cce")] if path.suffix == ".toml" else []
    )
    source = next((f for f in beside if f.is_file()), None)
    if source and not recognised(path):
        raise BadInput(
            f"{path} is the launch file of {source.name}", cure=f"name the source: {source}", code="nothing-to-run"
        )
    try:
        return find_suites(path)
    except FormatError as error:
        if path.is_dir() and error.what == "no cases found":
            if project:
                return []
            raise _no_project(path) from None
        raise


def _no_project(path: Path) -> BadInput:
    """A folder that is neither a project nor has cases: what in it can be run."""
    sources = sorted(f for f in path.iterdir() if f.suffix in (".cpp", ".asc", ".cce"))
    if sources:
        main = next((f for f in sources if f.stem == "main"), sources[0])
        return BadInput(
            f"{path} is a folder with {', '.join(f.name for f in sources[:4])}, and no operator project",
            cure=f"name a source: {main}",
            code="nothing-to-run",
        )
    return BadInput(
        f"{path} is no operator project, and has no cases and no sources",
        cure="name a kernel's source, or a folder that holds op_host/ and op_kernel/",
        code="nothing-to-run",
    )


def _chosen(options: argparse.Namespace, path: Path, suites: Sequence[Suite], project: bool) -> tuple[Suite, Case]:
    known = [(s, c) for s in suites for c in s.cases]
    found = [(s, c) for s, c in known if options.case in (c.name, f"{s.name}::{c.name}")]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        names = [f"{s.name}::{c.name}" for s, c in found]
        raise BadInput(
            f"--case {options.case}: {len(found)} suites have one", cure="name one: " + ", ".join(names[:_LISTED])
        )
    by_hand = '--input "float16[1024]" for each input' if project else "write one (docs/testing.md)"
    if not known:
        raise BadInput(
            f"nothing was run: {path} is an operator project without cases",
            cure=f"say what it runs on: {by_hand}",
            code="nothing-to-run",
        )
    first = next((c for _, c in known if c.kind == "given"), known[0][1])
    if options.case:
        names = [c.name for _, c in known]
        raise BadInput(
            f"{path} has no case {options.case}{nearest(options.case, names)}{_listed(known)}",
            cure=f"for example --case {first.name}",
        )
    cure = f"name one: --case {first.name}" + (f", or give {by_hand}" if project else "")
    raise BadInput(
        f"nothing was run: {path} has {len(known)} case{'s' if len(known) > 1 else ''}, and none is named{_listed(known)}",
        cure=cure,
        code="nothing-to-run",
    )


def _listed(known: Sequence[tuple[Suite, Case]]) -> str:
    """The cases of a message: those that somebody wrote first, then the first of each generated class."""
    written = [c for _, c in known if c.kind == "given"]
    generated: dict[str, list[Case]] = {}
    for _, case in known:
        if case.kind != "given":
            generated.setdefault(case.kind, []).append(case)
    shown = written[:_LISTED]
    for cases in generated.values():
        shown += cases[: max(1, (_LISTED - len(written)) // len(generated))]
    width = max(len(c.name) for c in shown)
    rows = [f"\n  {c.name:<{width}}  {describe(c)[:90]}" for c in shown]
    left = len(known) - len(shown)
    return "".join(rows) + (f"\n  ... and {left} more: toprope test -v lists them all" if left else "")


def _runner(suite: Suite, path: Path, project: bool, operator: str, chip: str) -> Runner:
    if project and (operator or not suite.settings.get("run")):
        return ProjectRunner(load_project(path, operator), chip)
    named = str(suite.settings.get("run", ""))
    if not named:
        raise BadInput(
            f"{suite.path} does not say what its cases test",
            cure='write run = "kernel.cpp:entry" or run = "project" below [operator]',
        )
    return runner_from(named, suite, soc=chip, settings=suite.settings)


def _prepared(
    options: argparse.Namespace, suite: Suite, case: Case, runner: Runner, inputs: Sequence[Input], chip: Soc
) -> Prepared:
    if isinstance(runner, ProjectRunner):
        call = _project_call(options, runner.operator, inputs, chip, case.attrs)
    elif isinstance(runner, KernelRunner):
        if suite.reference:
            case = completed(case, suite.reference(case, copied(inputs)))
        blocks = runner.blocks if options.blocks is None else options.blocks
        runner = replace(runner, blocks=blocks, include=options.include, defines=options.defines)
        call = replace(runner.call(case, copied(inputs)), tiling_key=options.tiling_key or 0)
    else:
        raise BadInput(
            f"the cases of {suite.path} test {suite.settings.get('run')}, which is no kernel",
            cure="toprope test runs them",
        )
    return _judged_by(options, suite, case, inputs, call)


def _by_hand(
    options: argparse.Namespace,
    operator: ProjectOperator,
    suites: Sequence[Suite],
    specifications: Sequence[str],
    attributes: Mapping[str, Any],
) -> Prepared:
    chip = load_soc(options.soc or DEFAULT_SOC)
    random = np.random.default_rng(options.seed or 0)
    names = [t.name for t in operator.definition.inputs]
    names += [f"input {i}" for i in range(len(names), len(specifications))]
    inputs = [_made(n, s, random) for n, s in zip(names, specifications, strict=False)]
    call = _project_call(options, operator, inputs, chip, attributes)
    case = Case("by hand", operator.name, attrs=attributes)
    judging = [s for s in suites if s.reference and s.format == "toml"]
    suite = judging[0] if len(judging) == 1 else Suite(operator.name, operator.project.operator.folder, "given", [])
    return _judged_by(options, suite, case, inputs, call, names)


def _made(name: str, specification: str, random: np.random.Generator) -> Any:
    members = [
        launches.argument(name, text.strip(), random, Path()) for text in specification.split(";") if text.strip()
    ]
    return members if ";" in specification else members[0] if members else None


def _project_call(
    options: argparse.Namespace,
    operator: ProjectOperator,
    inputs: Sequence[Any],
    chip: Soc,
    attributes: Mapping[str, Any],
) -> Call:
    call, tiling = operator.call(*inputs, soc=chip, **attributes)
    if options.blocks is None and options.tiling_key is None:
        return call
    other = operator.changed(tiling, key=options.tiling_key, block_dim=options.blocks)
    return operator.call(*inputs, soc=chip, tiling=other, **attributes)[0]


def _judged_by(
    options: argparse.Namespace,
    suite: Suite,
    case: Case,
    inputs: Sequence[Input],
    call: Call,
    names: Sequence[str] = (),
) -> Prepared:
    """With the suite's reference, rivals and limits, and with references of the command line before them."""
    outputs: dict[str, Array] = {}
    for name, value in call.outputs.items():
        outputs |= {f"{name}[{i}]": v for i, v in enumerate(value)} if isinstance(value, list) else {name: value}
    own = launches.LaunchFile(reference=dict(pairs(options.reference, "z='x + y'")))
    if unknown := [n for n in own.reference if n not in outputs]:
        raise BadInput(
            f"a reference for {unknown[0]!r}, which is no output of {case.operator}",
            cure="its outputs are " + ", ".join(outputs),
        )
    wanted = options.standard or case.standard or "mixed"
    rivals: dict[str, Array] = {}
    if suite.competitor:
        rivals = dict(zip(outputs, suite.competitor(case, copied(inputs)), strict=False))

    def judge(name: str, actual: Array, gold: Array) -> Verdict:
        return judged(actual, gold, wanted, rivals.get(name), case.limits, inputs)

    def references() -> dict[str, Array]:
        made = suite.reference(case, copied(inputs)) if suite.reference else []
        if suite.reference and len(made) != len(outputs):
            raise BadInput(
                f"{case.operator} gives {len(outputs)} outputs, its golden {len(made)}",
                cure="return one array for each output",
            )
        given = dict(zip(names or [a.name for a in case.arguments], inputs, strict=False))
        return {**dict(zip(outputs, made, strict=False)), **launches.references(own, {**given, **case.attrs})}

    def golden() -> References:
        return references

    return Prepared(call, options, judge, golden if suite.reference or own.reference else None, outputs)
