"""The operator library: every version of every operator equals its golden on every case and is clean under every check."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from toprope import ops, soc
from toprope.errors import BadArgument
from toprope.kernel import load
from toprope.launch import arguments, read
from toprope.ops import Plan
from toprope.testing.cases import Case
from toprope.testing.compare import compare
from toprope.testing.golden import Golden, wrapped

CHIP = soc.load("ascend910b1")
VERSIONS = ("optimised", "naive")
WRITTEN = [(n, c) for n in ops.names() for c in ops.cases(n) if c.kind == "given"]
GENERATED = [(n, c) for n in ops.names() for c in ops.cases(n) if c.kind != "given"]
# One element type of each operator in the fast tests: a type is a compilation.
FAST = [(n, c) for n, c in WRITTEN if c.tensors[0].dtype == next(d.tensors[0].dtype for m, d in WRITTEN if m == n)]


def check(name: str, version: str, case: Case) -> None:
    inputs = case.arrays()
    plan: Plan = ops.host(name).plan(version, CHIP, *inputs, **case.attrs)
    if not any(o.size for o in plan.outputs):
        return
    for output in plan.outputs:
        output.view(np.uint8).reshape(-1)[:] = 0xFF  # an element that is never written must not pass
    run = plan.launch(name)
    assert not [f for f in run.findings if f.severity != "advice"], "\n".join(map(str, run.findings))
    golden = Golden(ops.golden(name))(inputs, case.attrs)
    for output, gold in zip(plan.outputs, golden, strict=True):
        verdict = compare(output, wrapped(gold, output.dtype.name), standard=case.standard or "mixed")
        assert verdict.passed, str(verdict)


def label(value: Any) -> str:
    return value.name if isinstance(value, Case) else str(value)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "case"), FAST, ids=label)
def test_written_case(name: str, case: Case, version: str) -> None:
    check(name, version, case)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "case"), [p for p in WRITTEN if p not in FAST] + GENERATED, ids=label)
def test_every_case(name: str, case: Case, version: str) -> None:
    check(name, version, case)


@pytest.mark.parametrize("name", ops.names())
def test_a_complete_project(name: str) -> None:
    folder = ops.FOLDER / name
    assert {c.kind for c in ops.cases(name)} >= {"general", "boundary", "special", "random", "given"}
    prototype = json.loads((folder / "op_host" / f"{name}.json").read_text())
    assert [i["name"] for i in prototype[0]["input_desc"]] == [t.name for t in ops.cases(name)[0].tensors]
    assert len((folder / "README.md").read_text().splitlines()) < 80


@pytest.mark.parametrize("name", ops.names())
def test_the_optimised_version_is_the_faster_one(name: str) -> None:
    case = max((c for n, c in FAST if n == name), key=lambda c: sum(int(np.prod(t.shape)) for t in c.tensors))
    us = {v: ops.run(name, case, v, time_only=True).timeline.microseconds for v in VERSIONS}
    assert us["optimised"] < us["naive"]


@pytest.mark.parametrize("name", ops.names())
def test_the_launch_file_names_every_argument(name: str) -> None:
    folder = ops.FOLDER / name / "op_kernel"
    case = next(c for n, c in FAST if n == name)
    for version in VERSIONS:
        plan: Plan = ops.host(name).plan(version, CHIP, *case.arrays(), **case.attrs)
        kernel = load(folder / f"{name}.cpp")[plan.entry]
        launch = read(folder / f"{name}.toml", plan.entry)
        assert list(arguments(kernel, launch)) == [p.name for p in kernel.entry.parameters]
        assert launch.reference


X = np.zeros((4, 8), np.float32)
REFUSED = [
    ("softmax", (X.astype(np.int32),), {}, "int32"),
    ("softmax", (np.array(1.0, np.float32),), {}, "scalar"),
    ("add", (X, X.astype(np.float16)), {}, "same element type"),
    ("add", (X, X[:2]), {}, "shape"),
    ("add", (X.astype(np.int32), X.astype(np.int32)), {"alpha": 0.5}, "whole"),
    ("gather", (X, np.zeros(3, np.int64)), {}, "int32"),
    ("matmul", (X, X), {}, "float16"),
    ("matmul", (X.astype(np.float16), X.astype(np.float16)), {}, "(m, k)"),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "rule"), REFUSED)
def test_a_broken_rule_is_named_at_tiling_time(
    name: str, inputs: tuple[Any, ...], attributes: dict[str, Any], rule: str
) -> None:
    with pytest.raises(BadArgument) as refused:
        ops.host(name).plan("optimised", CHIP, *inputs, **attributes)
    assert rule in str(refused.value)


def test_softmax_takes_each_shape_by_the_right_strategy() -> None:
    choose = ops.host("softmax").choose
    keys = {
        shape: choose(*shape, 4, CHIP)[1]
        for shape in ((1, 1), (1_000_000, 1), (4096, 1024), (4096, 2040), (8, 20_000), (1, 1_000_000), (99, 40_000))
    }
    assert list(keys.values()) == [1, 1, 1, 2, 2, 3, 3]
    tiling, _, blocks = choose(1, 1_000_000, 4, CHIP)
    assert tiling["parts"] == blocks == CHIP.aiv


def test_an_unknown_operator_lists_the_known_ones() -> None:
    with pytest.raises(BadArgument, match="softmax"):
        ops.host("sofmax")
    with pytest.raises(BadArgument, match="tiny_rows"):
        ops.run("softmax", "tiny")
