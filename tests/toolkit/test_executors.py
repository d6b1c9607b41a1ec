"""Kernels that the tile language makes of one-line definitions, and operators of the library, against the references of the same functions."""

from __future__ import annotations

import math
import zlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from toprope import ops
from toprope.project.ge_types import ge_type
from toprope.soc import load as load_soc
from toprope.toolkit.calls import Call, Item, NotServed, Tensor, tensor_of
from toprope.toolkit.definitions import COMPARED, ELEMENTS, FOREACH, REDUCED, ROWS
from toprope.toolkit.executors import Executors
from toprope.toolkit.generated import Generated, generated, kernel_of
from toprope.toolkit.library_calls import LIBRARY, library_call
from toprope.toolkit.operator_library import table
from toprope.toolkit.plans import FUNCTIONS

pytest.importorskip("torch")
SOC = "ascend910b1"
SHORT = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32)}


class Made:
    """A call made of Python values: groups of items as the device library would tell them, and the arrays behind them."""

    def __init__(self, function: str, values: list[Any]) -> None:
        self.function, self.values, self.arrays = function, values, {}
        self.at, groups = 0, []
        for v in values:
            if isinstance(v, list) and v and isinstance(v[0], np.ndarray):
                groups.append([self._item({"k": "list", "n": len(v)}), *(self._tensor(t) for t in v)])
            elif isinstance(v, np.ndarray):
                groups.append([self._tensor(v)])
            elif isinstance(v, list):
                groups.append([self._item({"k": "ints", "v": v})])
            else:
                groups.append([self._item({"k": "absent"} if v is None else {"k": "float", "v": v})])
        self.call = Call(function, groups, lambda g: g[0].data.get("v"))

    def _item(self, data: dict[str, Any]) -> Item:
        self.at += 1
        return Item(self.at - 1, data)

    def _tensor(self, array: np.ndarray) -> Item:
        steps = [s // array.itemsize for s in array.strides]
        item = self._item(
            {"k": "tensor", "dims": list(array.shape), "strides": steps, "type": ge_type(array.dtype).number}
        )
        self.arrays[item.at] = array
        return item


def numbers(seed: int, shape: tuple[int, ...], kind: Any) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind is bool:
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(kind).kind == "i":
        return rng.integers(-9, 9, shape).astype(kind)
    return (
        rng.uniform(0.3, 3, shape) * rng.choice([-1, 1], shape) * (seed % 3 > 0)
        + rng.uniform(0.3, 3, shape) * (seed % 3 == 0)
    ).astype(kind)


POSITIVE = {"Sqrt", "Rsqrt", "Log", "Log2", "Log10", "SqrtBackward"}
NUMBERS = {"PowTensorScalar": [2.0], "Threshold": [0.2, -1.5], "ThresholdV2": [0.2, -1.5], "Hardtanh": [-0.7, 0.9], "HardtanhBackward": [-0.7, 0.9],
           "LeakyReluBackward": [0.25, 0.0]}  # fmt: skip


def values_for(function: str, kind: Any, shape: tuple[int, ...] = (6, 40)) -> list[Any]:
    """Arguments for an element-wise function: tensors of one type, numbers, and a place for the result."""
    name = function.removeprefix("aclnn").removeprefix("Inplace")
    given = list(NUMBERS.get(name) or [0.5, 1.25, -0.75])
    out: list[Any] = []
    declared = table()[function]
    in_place = function.startswith("aclnnInplace")
    for n, p in enumerate(declared):
        if p.kind == "tensor" and not (n == len(declared) - 1 and not in_place):
            truth = (
                bool if (name, n) in (("SWhere", 0), ("MaskedFillScalar", 1)) or name.startswith("Logical") else kind
            )
            x = numbers(n + 1, shape, truth)
            out.append(np.abs(x) + np.asarray(0.1, x.dtype) if name in POSITIVE else x)
        elif p.kind == "tensor":
            out.append(np.zeros(shape, bool if name in COMPARED else kind))
        elif p.kind == "bool":
            out.append(False)
        elif p.kind == "dtype":
            out.append(0)
        else:
            out.append(given.pop(0))
    if name in COMPARED:  # some are equal
        first = next(v for v in out if isinstance(v, np.ndarray))
        first[::2] = 0.5
        for other in (v for v in out[1:] if isinstance(v, np.ndarray) and v.dtype == first.dtype):
            other[::3] = first[::3]
    return out


def by_tile(made: Generated, arrays: dict[int, np.ndarray]) -> None:
    """Evaluate a generated kernel on NumPy tiles, which agree bit for bit with what it emits."""
    kernel = kernel_of(made.text, made.name, SOC)
    given, backs = [], []
    for t, p in zip(made.arrays, kernel.params.values(), strict=True):
        whole = arrays[t.at].T if t.as_it_lies else arrays[t.at]
        shape = [made.dims[d.name] for d in p.dims]
        flat = np.ascontiguousarray(whole).reshape(shape)
        given.append(flat.view(np.int8) if flat.dtype == bool else flat)
        backs.append((arrays[t.at], given[-1]) if p.written else None)
    kernel(*given)
    for back in filter(None, backs):
        back[0][...] = back[1].view(back[0].dtype).reshape(back[0].shape)


def close(actual: Any, wanted: Any) -> None:
    rough = {2: 2e-2 if actual.dtype == SHORT["bf16"] else 4e-3}.get(actual.dtype.itemsize, 3e-5)
    np.testing.assert_allclose(actual.astype(np.float64), wanted.astype(np.float64), rtol=rough, atol=rough / 4)


def compared(function: str, values: list[Any]) -> None:
    """Both executors on copies of the same arguments; what either writes must agree."""
    copies = [
        [
            np.array(v)
            if isinstance(v, np.ndarray)
            else [np.array(t) for t in v]
            if isinstance(v, list) and v and isinstance(v[0], np.ndarray)
            else v
            for v in values
        ]
        for _ in range(2)
    ]
    made = Made(function, copies[0])
    for each in generated(made.call):
        by_tile(each, made.arrays)
    FUNCTIONS[function](copies[1])
    changed = 0
    for a, b, old in zip(*copies, values, strict=True):
        for x, y, z in zip(*(v if isinstance(v, list) else [v] for v in (a, b, old)), strict=True):
            if isinstance(x, np.ndarray):
                close(x, y)
                changed += not np.array_equal(x, z)
    assert changed, "nothing was written"


def forms(names: Any) -> list[str]:
    """A definition's function and its form in place, those that the vendor declares."""
    return [f"aclnn{p}{n}" for n in names for p in ("", "Inplace") if f"aclnn{p}{n}" in FUNCTIONS]


@pytest.mark.parametrize("function", forms(ELEMENTS) + forms(COMPARED) + ["aclnnGeluV2"])
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_a_definition_says_what_the_reference_says(function: str, kind: str) -> None:
    if (
        kind != "f32" and zlib.crc32(function.encode()) % 3
    ):  # every function in float32, a third of them in each of the others
        function = "aclnnMul"
    values = values_for(function, SHORT[kind])
    if function == "aclnnGeluV2":
        values[1] = 1
    compared(function, values)


SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, 88.0, -88.0, 700.0, -700.0, 0.5, 1.25, -0.75, 1e-30, -1e-30]


@pytest.mark.parametrize("function", [f for f in forms(ELEMENTS) + forms(COMPARED) if "Logical" not in f])
def test_infinities_and_what_is_no_number(function: str) -> None:
    values = values_for(function, np.float32, (16, 16))
    tensors = [v for v in values if isinstance(v, np.ndarray) and v.dtype == np.float32]
    for n, t in enumerate(tensors if "Inplace" in function else tensors[:-1]):
        t[...] = (
            np.roll(np.repeat(np.float32(SPECIAL), 16).reshape(16, 16), n, n % 2)
            if n % 2
            else np.float32(SPECIAL)[None]
        )
    special(function, values)


def special(function: str, values: list[Any]) -> None:
    """Both executors agree where the exact result is one of the special values; others may be rounded apart."""
    copies = [[np.array(v) if isinstance(v, np.ndarray) else v for v in values] for _ in range(2)]
    made = Made(function, copies[0])
    (each,) = generated(made.call)
    by_tile(each, made.arrays)
    with np.errstate(all="ignore"):
        FUNCTIONS[function](copies[1])
    out = 0 if "Inplace" in function else -1
    a, b = (np.asarray(c[out], np.float64) for c in copies)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    np.testing.assert_array_equal(np.isinf(a) & (np.abs(b) < 3e38), False)
    np.testing.assert_array_equal(np.isinf(b) & (np.abs(a) < 3e38), False)


@pytest.mark.parametrize("name", FOREACH)
def test_lists(name: str) -> None:
    lists, declared = 0, table()[f"aclnnForeach{name}"]
    values: list[Any] = []
    for n, p in enumerate(declared):
        if p.kind == "tensors":
            positive = name in POSITIVE or n == 2
            made = [numbers(3 * k if positive else k + 1 + lists, s, np.float32) for k, s in enumerate([(5, 7), (33,)])]
            values.append([np.abs(t) for t in made] if positive else made)
            lists += 1
        else:
            values.append(np.float32([0.5]) if p.kind == "tensor" else 0.5)
    if name != "ZeroInplace":
        values[-1] = [np.zeros_like(t) for t in values[-1]]
    compared(f"aclnnForeach{name}", values)


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("axes", [[-1], [0], [1, 2], [0, 1], []])
def test_reductions(name: str, axes: list[int]) -> None:
    x = numbers(4, (3, 5, 70), np.float32)
    if name in ("Max", "Min"):
        compared(f"aclnn{name}", [x, np.zeros((), np.float32)])
        return
    kept = tuple(n for d, n in enumerate(x.shape) if axes and d not in {a % 3 for a in axes})
    out = np.zeros(kept, np.float32)
    compared(
        f"aclnn{name}", [x, axes, False, None, out] if len(table()[f"aclnn{name}"]) == 5 else [x, axes, False, out]
    )


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_rows(name: str, kind: str) -> None:
    x, y, out = (numbers(n, (7, 130), SHORT[kind]) for n in (1, 2, 3))
    raised = np.exp(y.astype(np.float32))
    y = (np.log if name.startswith("Log") else np.abs)(raised / raised.sum(-1, keepdims=True)).astype(y.dtype)
    compared(f"aclnn{name}", [x, y, 1, out] if "Backward" in name else [x, -1, out])


@pytest.mark.parametrize(
    "shapes", [((4, 6, 8), (8,)), ((4, 6, 8), (6, 8)), ((4, 6, 8), (4, 1, 1)), ((4, 6, 8), (4, 6, 1)), ((5,), (5,))]
)
def test_rows_and_columns_broadcast(shapes: Any) -> None:
    compared(
        "aclnnMul",
        [numbers(1, shapes[0], np.float32), numbers(2, shapes[1], np.float32), np.zeros(shapes[0], np.float32)],
    )


@pytest.mark.parametrize("shapes", [((4, 1, 8), (1, 6, 8)), ((4, 6, 8), (1, 6, 1)), ((4, 6), (1, 1))])
def test_other_ways_to_broadcast_go_to_the_reference(shapes: Any) -> None:
    out = np.zeros(np.broadcast_shapes(*shapes), np.float32)
    with pytest.raises(NotServed, match="broadcast"):
        generated(Made("aclnnMul", [numbers(1, shapes[0], np.float32), numbers(2, shapes[1], np.float32), out]).call)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_products_of_matrices_as_they_lie(turned: tuple[bool, bool], kind: str) -> None:
    a, b = numbers(1, (24, 40), SHORT[kind]), numbers(2, (40, 16), SHORT[kind])
    a, b = (np.ascontiguousarray(t.T).T if over else t for t, over in zip((a, b), turned, strict=True))
    out, wanted = (np.zeros((24, 16), SHORT[kind]) for _ in range(2))
    made = Made("aclnnMatmul", [a, b, out, 0])
    (each,) = generated(made.call)
    by_tile(each, made.arrays)
    FUNCTIONS["aclnnMatmul"]([a, b, wanted, 0])
    close(out, wanted)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows_by_index(kind: Any) -> None:
    x, at = numbers(1, (9, 70), np.float32), np.array([[3, 0, 8], [8, 8, 1]], kind)
    made = Made("aclnnEmbedding", [x, at, np.zeros((2, 3, 70), np.float32)])
    (each,) = generated(made.call)
    by_tile(each, made.arrays)
    np.testing.assert_array_equal(made.values[2], x[at])


REFUSED = {
    "whole numbers have no sine": ("aclnnExp", [np.ones(4, np.int32), np.ones(4, np.float32)], "element types"),
    "float64": ("aclnnAbs", [np.ones(4), np.ones(4)], "element types"),
    "a middle axis": ("aclnnAmax", [np.ones((2, 3, 4), np.float32), [1], False, np.ones((2, 4), np.float32)], "neither the last nor the first"),
    "the first axis": ("aclnnSoftmax", [np.ones((2, 3), np.float32), 0, np.ones((2, 3), np.float32)], "last axis"),
    "no definition": ("aclnnErfinv", [np.ones(4, np.float32), np.ones(4, np.float32)], "no definition"),
    "the error function": ("aclnnGeluV2", [np.ones(4, np.float32), 0, np.ones(4, np.float32)], "error function"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_kernel_says_why(case: str) -> None:
    function, values, why = REFUSED[case]
    executors = Executors(load_soc(SOC))
    assert (
        executors.library(Made(function, values).call) is None
        and executors.generated(Made(function, values).call) is None
    )
    assert why in executors.why[function]


def test_large_calls_and_calls_beyond_the_time_for_compiling_go_to_the_reference(
    tmp_path: Any, monkeypatch: Any
) -> None:
    executors = Executors(load_soc(SOC), compile_limit_s=5)
    call = Made("aclnnExp", [np.zeros((1 << 12, 1 << 11), np.float32)] * 2).call
    assert executors.generated(call) is None and "too large" in executors.why["aclnnExp"]
    monkeypatch.setattr("toprope.toolkit.executors.cache_dir", lambda: tmp_path)
    assert executors.compiled(call, lambda: 3, "once") == 3
    executors.spent_s = 6
    assert executors.compiled(call, lambda: 4, "once") == 4
    assert executors.compiled(call, lambda: 5, "new") is None
    only = Executors(load_soc(SOC), allowed="reference")
    small = Made("aclnnExp", [np.zeros(4, np.float32)] * 2).call
    assert only.generated(small) is None and only.library(small) is None


def library_values(name: str) -> list[Any]:
    f = np.float32
    x, y = numbers(1, (6, 64), f), numbers(2, (6, 64), f)
    h = [numbers(n, s, np.float16) for n, s in enumerate([(32, 48), (48, 16)])]
    weight, rows = numbers(3, (64,), f), np.int32([3, 0, 5, 5])
    return {
        "Add": [x, y, 2.0, np.zeros_like(x)], "InplaceAdd": [x, y, -1.0], "PowTensorTensor": [np.abs(x), y, np.zeros_like(x)],
        "InplacePowTensorTensor": [np.abs(x), y], "Softmax": [x, -1, np.zeros_like(x)], "RmsNorm": [x, weight, 1e-5, np.zeros_like(x), np.zeros((6, 1), f)],
        "LayerNorm": [x, [64], weight, y[0], 1e-5, np.zeros_like(x), np.zeros((6, 1), f), np.zeros((6, 1), f)],
        "Matmul": [*h, np.zeros((32, 16), np.float16), 0], "Mm": [*h, np.zeros((32, 16), np.float16), 0],
        "Embedding": [x, rows, np.zeros((4, 64), f)], "IndexSelect": [x, 0, rows, np.zeros((4, 64), f)],
        "Convolution": [numbers(4, (1, 16, 6, 6), np.float16), numbers(5, (16, 16, 3, 3), np.float16), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
                        np.zeros((1, 16, 6, 6), np.float16), 0],
    }[name]  # fmt: skip


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_says_what_the_reference_says(name: str) -> None:
    values = library_values(name)
    made = Made(f"aclnn{name}", [np.array(v) if isinstance(v, np.ndarray) else v for v in values])
    call = library_call(made.call)

    def array(t: Tensor | None) -> Any:
        return None if t is None else made.arrays[t.at]

    given = {k: v for k, v in call.attributes.items() if v is not None}
    found = ops.operator(call.operator).run(*map(array, call.inputs), soc=SOC, **given)
    results = list(found.outputs.values())
    FUNCTIONS[f"aclnn{name}"](values)
    wanted = Made(f"aclnn{name}", values)
    for t, result in zip(call.outputs, results, strict=True):
        gold = wanted.arrays[t.at]
        rough = 1e-2 if gold.dtype == np.float16 else 3e-5
        np.testing.assert_allclose(
            np.asarray(result, np.float64).reshape(gold.shape), gold.astype(np.float64), rtol=rough, atol=rough
        )
    assert math.prod(results[0].shape) and tensor_of(made.call.groups[0][0]).dense
