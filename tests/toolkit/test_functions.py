"""References of aclnn functions against torch on the CPU: types, broadcasting, tensors in place, nothing and single numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toprope.errors import BadInput
from toprope.toolkit.plans import FUNCTIONS

torch = pytest.importorskip("torch")
TABLE = Path(__file__).parents[2] / "toprope" / "toolkit" / "aclnn_functions.tsv"
DECLARED = {
    row.split("\t")[0]: row.split("\t")[1].split() for row in TABLE.read_text().splitlines() if not row.startswith("#")
}
F = torch.nn.functional


def numbers(seed: int, shape: tuple[int, ...], kind: Any = np.float32) -> Any:
    rng = np.random.default_rng(seed)
    if np.dtype(kind).kind in "iu":
        return rng.integers(-4, 5, shape).astype(kind)
    return rng.integers(0, 2, shape).astype(bool) if kind is bool else rng.uniform(-3, 3, shape).astype(kind)


def called(name: str, values: list[Any], out: Any) -> Any:
    """Fill `out`, which stands at its place among the values, from the function."""
    FUNCTIONS[f"aclnn{name}"]([out if v is OUT else v for v in values])
    return out


OUT = object()


def agree(actual: Any, wanted: Any) -> None:
    gold = wanted.numpy() if hasattr(wanted, "numpy") else np.asarray(wanted)
    assert actual.shape == gold.shape and actual.dtype == gold.dtype
    short = actual.dtype == np.float16
    np.testing.assert_allclose(
        actual.astype(np.float64), gold.astype(np.float64), rtol=2e-3 if short else 2e-5, atol=1e-3 if short else 2e-6
    )


def test_every_row_is_a_function_that_the_vendor_declares() -> None:
    assert set(FUNCTIONS) <= set(DECLARED) and len(FUNCTIONS) > 750


UNARY = {
    "Acos": torch.acos, "Asinh": torch.asinh, "Atan": torch.atan, "Cos": torch.cos, "Erf": torch.erf, "Exp": torch.exp, "Expm1": torch.expm1,
    "Log": torch.log, "Log1p": torch.log1p, "Reciprocal": torch.reciprocal, "Rsqrt": torch.rsqrt, "Sigmoid": torch.sigmoid, "Sin": torch.sin,
    "Sqrt": torch.sqrt, "Tanh": torch.tanh, "Gelu": lambda t: F.gelu(t, approximate="tanh"), "Silu": F.silu, "Mish": F.mish, "LogSigmoid": F.logsigmoid, "Hardswish": F.hardswish,
    "Hardsigmoid": F.hardsigmoid, "Selu": F.selu, "Abs": torch.abs, "Ceil": torch.ceil, "Floor": torch.floor, "Neg": torch.neg,
    "Relu": torch.relu, "Round": torch.round, "Sign": torch.sign, "Trunc": torch.trunc, "Sinc": torch.sinc, "Exp2": torch.exp2,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 2)])
def test_one_tensor(name: str, kind: Any, shape: tuple[int, ...]) -> None:
    x = numbers(1, shape, kind)
    agree(called(name, [x, OUT], np.empty_like(x)), UNARY[name](torch.from_numpy(np.asarray(x))))
    if f"aclnnInplace{name}" in FUNCTIONS:
        place = np.array(x)
        FUNCTIONS[f"aclnnInplace{name}"]([place])
        agree(place, UNARY[name](torch.from_numpy(np.asarray(x))))


BINARY: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "Add": (lambda x, y: x + 2 * y, (2,), None), "Sub": (lambda x, y: x - 2 * y, (2,), None), "Mul": (torch.mul, (), None),
    "Div": (torch.div, (), None), "Maximum": (torch.maximum, (), None), "Minimum": (torch.minimum, (), None), "Atan2": (torch.atan2, (), None),
    "FmodTensor": (torch.fmod, (), None), "RemainderTensorTensor": (torch.remainder, (), None), "FloorDivide": (torch.floor_divide, (), None),
    "EqTensor": (torch.eq, (), bool), "LtTensor": (torch.lt, (), bool), "GeTensor": (torch.ge, (), bool), "NeTensor": (torch.ne, (), bool),
    "LogicalAnd": (torch.logical_and, (), bool), "LogicalXor": (torch.logical_xor, (), bool), "LogAddExp": (torch.logaddexp, (), None),
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("shapes", [((3, 5), (3, 5)), ((3, 1), (1, 5)), ((4,), ()), ((0, 2), (2,))])
def test_two_tensors_of_shapes_that_broadcast(name: str, kind: Any, shapes: Any) -> None:
    function, more, result = BINARY[name]
    x, y = numbers(2, shapes[0], kind), numbers(3, shapes[1], kind)
    wanted = function(torch.from_numpy(np.asarray(x)), torch.from_numpy(np.asarray(y)))
    agree(called(name, [x, y, *more, OUT], np.empty(np.broadcast_shapes(*shapes), result or kind)), wanted)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_whole_numbers(kind: Any) -> None:
    x, y = numbers(4, (4, 6), kind), numbers(5, (4, 6), kind)
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    agree(called("Add", [x, y, 3, OUT], np.empty_like(x)), a + 3 * b)
    agree(called("BitwiseAndTensor", [x, y, OUT], np.empty_like(x)), a & b)
    agree(called("Div", [x, np.abs(y) + kind(1), OUT], np.empty(x.shape, np.float32)), a / (b.abs() + 1))
    agree(called("Maximum", [x, y, OUT], np.empty_like(x)), torch.maximum(a, b))
    agree(
        called("Cast", [numbers(6, (5,)), None, OUT], np.empty(5, kind)),
        torch.from_numpy(numbers(6, (5,))).to(torch.from_numpy(x).dtype),
    )


def test_numbers_beside_tensors_and_in_place() -> None:
    x = numbers(7, (3, 4), np.float16)
    t = torch.from_numpy(x)
    agree(called("Adds", [x, 1.5, 2.0, OUT], np.empty_like(x)), t + 3.0)
    agree(called("PowTensorScalar", [np.abs(x), 2.0, OUT], np.empty_like(x)), t.abs() ** 2.0)
    agree(called("Clamp", [x, -1.0, None, OUT], np.empty_like(x)), torch.clamp(t, -1.0))
    agree(called("GtScalar", [x, 0.5, OUT], np.empty(x.shape, bool)), t > 0.5)
    agree(called("GeluV2", [x, 1, OUT], np.empty_like(x)), F.gelu(t, approximate="tanh"))
    place = np.array(x)
    FUNCTIONS["aclnnInplaceMuls"]([place, 0.25])
    agree(place, t * 0.25)
    FUNCTIONS["aclnnInplaceMaskedFillScalar"]([place, x > 0, 7.0])
    agree(place, (t * 0.25).masked_fill(t > 0, 7.0))


REDUCED: dict[str, tuple[list[Any], Callable[[Any], Any]]] = {
    "ReduceSum": ([[1], True, None], lambda t: t.sum(1, keepdim=True)), "Mean": ([[0, -1], False, None], lambda t: t.mean((0, -1))),
    "Amax": ([[-1], False], lambda t: t.amax(-1)), "Amin": ([[0], False], lambda t: t.amin(0)), "ProdDim": ([1, False, None], lambda t: t.prod(1)),
    "Var": ([[1], True, False], lambda t: t.var(1)), "Std": ([[1], 1, False], lambda t: t.std(1)), "Softmax": ([-1], lambda t: t.softmax(-1)),
    "LogSoftmax": ([1], lambda t: t.log_softmax(1)), "Cumsum": ([1, None], lambda t: t.cumsum(1)), "Cumprod": ([-1, None], lambda t: t.cumprod(-1)),
    "LogSumExp": ([[1], False], lambda t: t.logsumexp(1)), "Flip": ([[0, 2]], lambda t: t.flip((0, 2))), "Permute": ([[2, 0, 1]], lambda t: t.permute(2, 0, 1)),
    "Roll": ([[1, -2], [0, 2]], lambda t: t.roll((1, -2), (0, 2))), "Repeat": ([[2, 1, 3]], lambda t: t.repeat(2, 1, 3)), "Triu": ([1], lambda t: t.triu(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCED)
def test_along_axes(name: str) -> None:
    x = numbers(8, (2, 3, 4))
    attributes, function = REDUCED[name]
    wanted = function(torch.from_numpy(x)).contiguous()
    agree(called(name, [x, *attributes, OUT], np.empty(tuple(wanted.shape), np.float32)), wanted)


@pytest.mark.parametrize("largest", [True, False])
def test_orders_keep_equal_elements_in_place(largest: bool) -> None:
    x = np.array([[3.0, 1.0, 3.0, 2.0], [0.0, 0.0, 1.0, 0.0]], np.float32)
    out, at = np.empty_like(x), np.empty(x.shape, np.int64)
    FUNCTIONS["aclnnSort"]([x, True, 1, largest, out, at])
    wanted = torch.sort(torch.from_numpy(x), dim=1, descending=largest, stable=True)
    agree(out, wanted.values), agree(at, wanted.indices)
    top, where = np.empty((2, 2), np.float32), np.empty((2, 2), np.int64)
    FUNCTIONS["aclnnTopk"]([x, 2, 1, largest, True, top, where])
    agree(top, wanted.values[:, :2]), agree(where, wanted.indices[:, :2])
    best, index = np.empty((2, 1), np.float32), np.empty((2, 1), np.int64)
    FUNCTIONS["aclnnMaxDim" if largest else "aclnnMinDim"]([x, 1, True, best, index])
    agree(best, wanted.values[:, :1]), agree(index, wanted.indices[:, :1])


def test_by_index() -> None:
    x, index = numbers(9, (5, 3)), np.array([4, 0, -1])
    agree(called("IndexSelect", [x, 0, index, OUT], np.empty((3, 3), np.float32)), x[[4, 0, 4]])
    agree(called("Embedding", [x, index.reshape(1, 3), OUT], np.empty((1, 3, 3), np.float32)), x[[[4, 0, 4]]])
    rows = np.array([[0, 1], [2, 2]])
    agree(
        called("Gather", [x, 1, rows, OUT], np.empty((2, 2), np.float32)),
        torch.gather(torch.from_numpy(x), 1, torch.from_numpy(rows)),
    )
    for bad in (5, -6):
        with pytest.raises(BadInput, match="into 5 rows"):
            called("IndexSelect", [x, 0, np.array([bad]), OUT], np.empty((1, 3), np.float32))


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_products_and_norms(kind: Any) -> None:
    a, b, bias = numbers(10, (2, 4, 8), kind), numbers(11, (2, 8, 3), kind), numbers(12, (2, 4, 3), kind)
    left, right, added = map(torch.from_numpy, (a, b, bias))
    agree(called("BatchMatMul", [a, b, OUT, 0], np.empty((2, 4, 3), kind)), left @ right)
    agree(
        called("Baddbmm", [bias, a, b, 0.5, 2.0, OUT, 0], np.empty((2, 4, 3), kind)),
        torch.baddbmm(added, left, right, beta=0.5, alpha=2.0),
    )
    w, c = numbers(13, (8,), kind), numbers(14, (8,), kind)
    mean, rstd = np.empty((2, 4, 1), np.float32), np.empty((2, 4, 1), np.float32)
    wanted = F.layer_norm(left, (8,), torch.from_numpy(w), torch.from_numpy(c), 1e-5)
    agree(called("LayerNorm", [a, [8], w, c, 1e-5, OUT, mean, rstd], np.empty_like(a)), wanted)
    np.testing.assert_allclose(mean[..., 0], a.astype(np.float32).mean(-1), rtol=1e-4, atol=1e-5)
    agree(
        called("RmsNorm", [a, w, 1e-5, OUT, rstd], np.empty_like(a)),
        F.rms_norm(left.float(), (8,), torch.from_numpy(w).float(), 1e-5).to(left.dtype),
    )


def test_gradients() -> None:
    x = torch.from_numpy(numbers(15, (3, 6))).requires_grad_()
    g = torch.from_numpy(numbers(16, (3, 6)))
    for name, function, given in (
        ("SigmoidBackward", torch.sigmoid, "out"), ("TanhBackward", torch.tanh, "out"), ("SiluBackward", F.silu, "in"),
    ):  # fmt: skip
        made = function(x)
        (wanted,) = torch.autograd.grad(made, x, g)
        values = [g.numpy(), (made if given == "out" else x).detach().numpy(), OUT]
        agree(called(name, values, np.empty((3, 6), np.float32)), wanted)
    for name, function in (("SoftmaxBackward", torch.softmax), ("LogSoftmaxBackward", torch.log_softmax)):
        made = function(x, -1)
        (wanted,) = torch.autograd.grad(made, x, g)
        agree(called(name, [g.numpy(), made.detach().numpy(), -1, OUT], np.empty((3, 6), np.float32)), wanted)


def test_the_gradient_of_a_layer_norm_and_of_gelu() -> None:
    x = torch.from_numpy(numbers(18, (2, 3, 6))).requires_grad_()
    w, b = (torch.from_numpy(numbers(n, (6,))).requires_grad_() for n in (19, 20))
    g = torch.from_numpy(numbers(21, (2, 3, 6)))
    wanted = torch.autograd.grad(F.layer_norm(x, (6,), w, b), (x, w, b), g)
    data = x.detach().numpy()
    mean = data.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(data.var(-1, keepdims=True) + 1e-5)
    outs = [np.empty((2, 3, 6), np.float32), np.empty(6, np.float32), np.empty(6, np.float32)]
    FUNCTIONS["aclnnLayerNormBackward"](
        [g.numpy(), data, [6], mean, rstd, w.detach().numpy(), b.detach().numpy(), [True] * 3, *outs]
    )
    for out, gold in zip(outs, wanted, strict=True):
        np.testing.assert_allclose(out, gold.numpy(), rtol=1e-4, atol=1e-5)
    for how in ("none", "tanh"):
        (slope,) = torch.autograd.grad(F.gelu(x, approximate=how), x, g)
        made = called("GeluBackwardV2", [g.numpy(), data, how, OUT], np.empty((2, 3, 6), np.float32))
        np.testing.assert_allclose(made, slope.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses(reduction: int, weighted: bool) -> None:
    words = ("none", "mean", "sum")
    x = torch.log_softmax(torch.from_numpy(numbers(22, (4, 5))), -1).requires_grad_()
    target, weight = torch.tensor([1, 4, 2, 0]), torch.from_numpy(np.abs(numbers(23, (5,)))) if weighted else None
    wanted = F.nll_loss(x, target, weight, ignore_index=2, reduction=words[reduction])
    g = torch.ones_like(wanted)
    out, total = np.empty(tuple(wanted.shape), np.float32), np.empty((), np.float32)
    values = [x.detach().numpy(), target.numpy(), None if weight is None else weight.numpy(), reduction, 2]
    FUNCTIONS["aclnnNLLLoss"]([*values, out, total])
    agree(out, wanted.detach())
    (slope,) = torch.autograd.grad(wanted, x, g)
    agree(called("NLLLossBackward", [g.numpy(), *values, total, OUT], np.empty((4, 5), np.float32)), slope)
    y = torch.from_numpy(numbers(24, (4, 5)))
    for name, function in (("MseLoss", F.mse_loss), ("L1Loss", F.l1_loss)):
        gold = function(x.detach(), y, reduction=words[reduction])
        agree(
            called(name, [x.detach().numpy(), y.numpy(), reduction, OUT], np.empty(tuple(gold.shape), np.float32)), gold
        )


def test_more_by_index() -> None:
    x = numbers(25, (4, 3))
    t = torch.from_numpy(x)
    rows, columns = np.array([0, 3, 0]), np.array([2, 1, -1])
    agree(called("Index", [x, [rows, columns], OUT], np.empty(3, np.float32)), x[rows, columns])
    agree(called("Index", [x, [x > 0], OUT], np.empty(int((x > 0).sum()), np.float32)), x[x > 0])
    for accumulate in (False, True):
        place = np.array(x)
        FUNCTIONS["aclnnIndexPutImpl"]([place, [rows, columns], np.float32([1, 2, 1]), accumulate, False])
        agree(
            place,
            t.clone().index_put_(
                (torch.from_numpy(rows), torch.from_numpy(columns)), torch.tensor([1.0, 2.0, 1.0]), accumulate
            ),
        )
    index, source = np.array([[0, 1, 2], [2, 0, 1]]), numbers(26, (2, 3))
    at, values = torch.from_numpy(index), torch.from_numpy(source)
    agree(called("Scatter", [x, 0, index, source, 0, OUT], np.empty_like(x)), t.scatter(0, at, values))
    agree(called("ScatterAdd", [x, 0, index, source, OUT], np.empty_like(x)), t.scatter_add(0, at, values))
    agree(called("ScatterValue", [x, 0, index, 2.5, 0, OUT], np.empty_like(x)), t.scatter(0, at, 2.5))
    with pytest.raises(BadInput, match="no reference"):
        called("Scatter", [x, 0, index, source, 1, OUT], np.empty_like(x))
    weight = torch.zeros(5, 3, requires_grad=True)
    ids = torch.tensor([[1, 2], [1, 4]])
    g = torch.from_numpy(numbers(27, (2, 2, 3)))
    (wanted,) = torch.autograd.grad(F.embedding(ids, weight, padding_idx=4), weight, g)
    agree(
        called("EmbeddingDenseBackward", [g.numpy(), ids.numpy(), 5, 4, False, OUT], np.empty((5, 3), np.float32)),
        wanted,
    )


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, float("inf"), float("-inf"), 0.0])
def test_norms_of_vectors(order: float) -> None:
    x = numbers(28, (3, 4))
    agree(
        called("LinalgVectorNorm", [x, order, [1], True, None, OUT], np.empty((3, 1), np.float32)),
        torch.linalg.vector_norm(torch.from_numpy(x), order, 1, True),
    )


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adam_w_and_lists(amsgrad: bool, maximize: bool) -> None:
    start, gradients = numbers(29, (5,)), [numbers(n, (5,)) for n in (30, 31)]
    p = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimiser = torch.optim.AdamW([p], lr=0.01, weight_decay=0.1, amsgrad=amsgrad, maximize=maximize)
    var, m, second, greatest = start.copy(), *(np.zeros(5, np.float32) for _ in range(3))
    for step, g in enumerate(gradients, 1):
        p.grad = torch.from_numpy(g.copy())
        optimiser.step()
        FUNCTIONS["aclnnApplyAdamWV2"](
            [var, m, second, greatest, g, np.float32([step]), 0.01, 0.9, 0.999, 0.1, 1e-8, amsgrad, maximize]
        )
    agree(var, p.detach())
    lists = [[numbers(n, (3,)), numbers(n + 1, (2, 2))] for n in (32, 34)]
    outs = [np.empty_like(t) for t in lists[0]]
    FUNCTIONS["aclnnForeachAddListV2"]([*lists, 0.5, outs])
    for out, x, y in zip(outs, *lists, strict=True):
        np.testing.assert_allclose(out, x + 0.5 * y, rtol=1e-6)
    FUNCTIONS["aclnnForeachDivScalarList"]([lists[0], np.float32([2.0, 4.0]), outs])
    for out, x, n in zip(outs, lists[0], (2, 4), strict=True):
        np.testing.assert_allclose(out, x / n)
    FUNCTIONS["aclnnForeachMulScalar"]([lists[0], np.float32([2.0]), outs])
    for out, x in zip(outs, lists[0], strict=True):
        np.testing.assert_allclose(out, x * 2)


def test_views_with_strides_are_filled_where_they_are() -> None:
    whole = np.zeros((4, 6), np.float32)
    x = numbers(17, (3, 4))
    FUNCTIONS["aclnnAdd"]([x, x, 1, whole.T[::2]])
    np.testing.assert_allclose(whole.T[::2], 2 * x)
    assert not whole.T[1::2].any()
