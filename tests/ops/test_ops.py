"""The operator library: every version of every operator equals its golden on every case and is clean under every check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops, soc
from toprope.errors import BadArgument
from toprope.kernel import load
from toprope.launch import arguments, read
from toprope.new.files import DEFAULT_UNITS, build_files
from toprope.project.errors import InferFailed, TilingFailed
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
    # Outputs start with every bit set: an element that is never written does not pass.
    call = ops.operator(name, version).run(*inputs, **case.attrs)
    assert not [f for f in call.findings if f.severity != "advice"], "\n".join(map(str, call.findings))
    golden = Golden(ops.golden(name))(inputs, case.attrs)
    for output, gold in zip(call.outputs.values(), golden, strict=True):
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
    operator = ops.operator(name)
    assert [t.name for t in operator.definition.inputs] == [t.name for t in ops.cases(name)[0].tensors]
    others = [t for t in operator.project.operators if t != operator.name]
    assert f"{operator.name}Naive" in others
    for path, text in build_files(operator.name, name, DEFAULT_UNITS, others).items():
        assert path.startswith(".github") or (folder / path).read_text() == text
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
        kernel = ops.operator(name, version).run(*case.arrays(), options={"time_only": True}, **case.attrs).run
        launch = read(folder / f"{name}.toml", kernel.kernel)
        assert list(arguments(load(folder / f"{name}.cpp")[kernel.kernel], launch)) == list(kernel.arguments)
        assert launch.reference


X = np.zeros((4, 8), np.float32)
REFUSED = [
    ("softmax", (X.astype(np.int32),), {}, "x DT_INT32"),
    ("softmax", (np.array(1.0, np.float32),), {}, "scalar"),
    ("add", (X, X.astype(np.float16)), {}, "same element type"),
    ("add", (X, X[:2]), {}, "shape"),
    ("add", (X.astype(np.int32), X.astype(np.int32)), {"alpha": 0.5}, "whole"),
    ("gather", (X, np.zeros(3, np.int64)), {}, "indices DT_INT64"),
    ("matmul", (X, X), {}, "lists: a DT_FLOAT16, b DT_FLOAT16"),
    ("matmul", (X.astype(np.float16), X.astype(np.float16)), {}, "(m, k)"),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "rule"), REFUSED)
def test_a_broken_rule_is_named_at_tiling_time(
    name: str, inputs: tuple[Any, ...], attributes: dict[str, Any], rule: str
) -> None:
    with pytest.raises((BadArgument, TilingFailed, InferFailed)) as refused:
        ops.operator(name).run(*inputs, options={"time_only": True}, **attributes)
    assert rule in str(refused.value) and refused.value.cure


def test_softmax_takes_each_shape_by_the_right_strategy() -> None:
    softmax = ops.operator("softmax")
    shapes = ((1, 1), (1_000_000, 1), (4096, 1024), (4096, 2040), (8, 20_000), (1, 1_000_000), (99, 40_000))
    assert [softmax.tiling(shapes=[s], dtypes="float32").key for s in shapes] == [1, 1, 1, 2, 2, 3, 3]
    tiling = softmax.tiling(shapes=[(1, 1_000_000)], dtypes="float32")
    assert tiling.fields["parts"] == tiling.block_dim == CHIP.aiv


def test_an_unknown_operator_lists_the_known_ones() -> None:
    with pytest.raises(BadArgument, match="softmax"):
        ops.operator("sofmax")
    with pytest.raises(BadArgument, match=r"no version 'fast'.*\n.*optimised, naive"):
        ops.operator("softmax", "fast")
    with pytest.raises(BadArgument, match="tiny_rows"):
        ops.run("softmax", "tiny")
