"""More references of aclnn functions: what training and indexing need. Importing this module adds its rows to `FUNCTIONS`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from toprope.errors import BadInput
from toprope.toolkit.functions import (
    FUNCTIONS,
    Array,
    Function,
    Values,
    axes_of,
    erf,
    inside,
    power,
    real,
    row,
    sigmoid,
    store,
    two,
    worked,
)


def _gelu_slope(x: Any, approximate: Any = None) -> Any:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        part = np.tanh(inner)
        return 0.5 * (1 + part) + 0.5 * x * (1 - part**2) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return 0.5 * (1 + erf(x / math.sqrt(2)).astype(x.dtype)) + x * np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)


row("GeluBackward", lambda v: two(lambda g, x: g * _gelu_slope(x))(v[:2], v[2]))
row("GeluBackwardV2", lambda v: two(lambda g, x: g * _gelu_slope(x, v[2]))(v[:2], v[3]))
row("LeakyReluBackward", lambda v: two(lambda g, x: np.where(x > 0, g, g * v[2]))(v[:2], v[4]))


def _layer_norm_backward(v: Values) -> None:
    g, x, shape, mean, rstd, weight, _, _, dx, dweight, dbias = v
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    rows = tuple(range(x.ndim - len(shape)))
    gradient, wide = real(g, x)
    outer = (*x.shape[: x.ndim - len(shape)], *([1] * len(shape)))
    normal = (wide - mean.reshape(outer)) * rstd.reshape(outer)
    inner = gradient if weight is None else gradient * real(weight)[0]
    if dx is not None:
        means = inner.mean(axis=axes, keepdims=True), (inner * normal).mean(axis=axes, keepdims=True)
        store(dx, (inner - means[0] - normal * means[1]) * rstd.reshape(outer))
    if dweight is not None:
        store(dweight, (gradient * normal).sum(axis=rows))
    if dbias is not None:
        store(dbias, gradient.sum(axis=rows))


row("LayerNormBackward", _layer_norm_backward)


# ---- losses: 0 none, 1 mean, 2 sum ------------------------------------------------------------------------------------------------


def _collected(value: Any, reduction: int) -> Any:
    return value if reduction == 0 else value.mean() if reduction == 1 else value.sum()


def _loss(name: str, compute: Callable[..., Any]) -> None:
    row(name, lambda v: store(v[3], _collected(compute(*real(v[0], v[1])), v[2])))


_loss("MseLoss", lambda x, y: (x - y) ** 2)
_loss("L1Loss", lambda x, y: np.abs(x - y))
row(
    "MseLossBackward",
    lambda v: two(lambda g, x, y: 2 * g * (x - y) / (x.size if v[3] == 1 else 1), real)(v[:3], v[4]),
)


def _weights(target: Array, weight: Any, ignored: int, classes: int) -> tuple[Array, Array]:
    """Class of each sample (0 where it is ignored), and its weight. Raises BadInput for a class that there is not."""
    counted = target != ignored
    at = np.where(counted, target, 0)
    inside(at, classes, "aclnnNLLLoss")
    return at, np.where(counted, 1.0 if weight is None else real(weight)[0][at], 0.0).astype(np.float32)


def _nll_loss(v: Values) -> None:
    x, target, weight, reduction, ignored, out, total = v
    at, share = _weights(target, weight, ignored, x.shape[-1])
    (wide,) = real(x)
    each = -np.take_along_axis(wide, at[..., None], -1)[..., 0] * share
    store(out, each if reduction == 0 else each.sum() / (share.sum() if reduction == 1 else 1))
    store(total, share.sum())


def _nll_loss_backward(v: Values) -> None:
    g, x, target, weight, reduction, ignored, _, out = v
    at, share = _weights(target, weight, ignored, x.shape[-1])
    made = np.zeros(x.shape, np.float32)
    scale = share / share.sum() if reduction == 1 else share
    np.put_along_axis(made, at[..., None], (-scale * real(g)[0])[..., None], -1)
    store(out, made)


row("NLLLoss", _nll_loss)
row("NLLLossBackward", _nll_loss_backward)


# ---- more by index ---------------------------------------------------------------------------------------------------------------


def _at(indices: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Indices of several axes as NumPy takes them; an axis without one is taken whole."""
    out: list[Any] = []
    axis = 0
    for index in indices:
        if index is None or (index.size == 0 and shape[axis] and index.ndim == 1 and index.dtype.kind != "b"):
            out.append(slice(None))
            axis += 1
        elif index.dtype.kind == "b":
            out.append(index)
            axis += index.ndim
        else:
            out.append(inside(index, shape[axis], "aclnnIndex"))
            axis += 1
    return tuple(out)


def _put(v: Values) -> None:
    x, indices, values, accumulate, _ = v
    if accumulate:
        np.add.at(x, _at(indices, x.shape), values)
    else:
        x[_at(indices, x.shape)] = values


def _scattered(combine: Callable[[Array, Any, Array], None] | None) -> Function:
    def fill(v: Values) -> None:
        x, dim, index, source = v[:4]
        out = v[-1]
        store(out, x)
        at = list(np.indices(index.shape))
        at[dim % x.ndim] = inside(index, x.shape[dim], "aclnnScatter")
        cut = (
            source[tuple(slice(0, n) for n in index.shape)]
            if isinstance(source, np.ndarray) and source.ndim
            else source
        )
        if combine is None and v[4] not in (0, None):
            raise BadInput(
                f"scatter with reduction {v[4]} has no reference", cure="scatter without one, or aclnnScatterAdd"
            )
        if combine is None:
            out[tuple(at)] = cut
        else:
            combine(out, tuple(at), cut)

    return fill


row("Index", lambda v: store(v[2], v[0][_at(v[1], v[0].shape)]))
row("IndexPutImpl", _put)
row("Scatter", _scattered(None))
row("ScatterValue", _scattered(None))
row("ScatterAdd", _scattered(np.add.at))
for _name in ("Scatter", "ScatterValue"):
    row(f"Inplace{_name}", lambda v: _scattered(None)([np.array(v[0]), *v[1:], v[0]]))
row("OneHot", lambda v: store(v[5], np.where(np.moveaxis(np.arange(v[1]) == v[0][..., None], -1, v[4]), v[2], v[3])))
row("Eye", lambda v: store(v[2], np.eye(v[0], v[1])))
row("Equal", lambda v: store(v[2], bool(np.array_equal(v[0], v[1]))))
row("Slice", lambda v: store(v[5], v[0][(slice(None),) * (v[1] % v[0].ndim) + (slice(v[2], v[3], v[4]),)]))
row("RepeatInterleaveInt", lambda v: store(v[3], np.repeat(v[0], v[1])))
row("Norm", lambda v: store(v[4], _norm(v[0], v[1], v[2], v[3])))
row("LinalgVectorNorm", lambda v: store(v[5], _norm(v[0], v[1], v[2], v[3])))


def _norm(x: Array, order: float, dims: Any, keep: Any) -> Any:
    magnitude = np.abs(real(x)[0])
    axis, keepdims = axes_of(dims, x.ndim), bool(keep)
    if order == math.inf:
        return magnitude.max(axis=axis, keepdims=keepdims)
    if order == -math.inf:
        return magnitude.min(axis=axis, keepdims=keepdims)
    if order == 0:
        return (magnitude != 0).sum(axis=axis, keepdims=keepdims)
    return (magnitude**order).sum(axis=axis, keepdims=keepdims) ** (1 / order)


def _embedding_backward(v: Values) -> None:
    g, indices, rows, padding, scaled, out = v
    if scaled:
        raise BadInput("an embedding's gradient scaled by frequency has no reference", cure="scale_grad_by_freq=False")
    made = np.zeros(out.shape, np.float32)
    flat = indices.reshape(-1)
    kept = flat != padding
    np.add.at(
        made, inside(flat[kept], int(rows), "aclnnEmbeddingDenseBackward"), real(g.reshape(len(flat), -1)[kept])[0]
    )
    store(out, made)


row("EmbeddingDenseBackward", _embedding_backward)


# ---- lists of tensors ------------------------------------------------------------------------------------------------------------


def _each(
    compute: Callable[..., Any], kind: Callable[..., list[Any]] = worked
) -> Callable[[Sequence[Sequence[Any]], Sequence[Array]], None]:
    def fill(lists: Sequence[Sequence[Any]], outs: Sequence[Array]) -> None:
        for out, *values in zip(outs, *lists, strict=True):
            two(compute, kind)(values, out)

    return fill


def _number(v: Any) -> Any:
    return v.reshape(-1)[0] if isinstance(v, np.ndarray) else v


def _of_one(name: str, compute: Callable[..., Any], kind: Callable[..., list[Any]]) -> None:
    row(f"Foreach{name}", lambda v: _each(compute, kind)([v[0]], v[1]))


def _with_a_number(names: Sequence[str], compute: Callable[..., Any], lists: int = 1) -> None:
    for name in names:
        row(f"Foreach{name}", lambda v: _each(lambda *t: compute(*t, _number(v[lists])))(v[:lists], v[lists + 1]))


def _with_a_number_each(name: str, compute: Callable[..., Any]) -> None:
    row(f"Foreach{name}", lambda v: _each(compute)([v[0], list(np.asarray(v[1]).reshape(-1))], v[2]))


def _scaled_lists(names: Sequence[str], compute: Callable[..., Any]) -> None:
    for name in names:
        row(f"Foreach{name}", lambda v: _each(lambda x, y: compute(x, y * _number(v[2])))(v[:2], v[3]))


_of_one("Abs", np.abs, worked)
_of_one("Neg", np.negative, worked)
_of_one("Copy", lambda x: x, worked)
_of_one("Sqrt", np.sqrt, real)
_of_one("Exp", np.exp, real)
_of_one("Log", np.log, real)
_of_one("Reciprocal", lambda x: 1 / x, real)
_of_one("Tanh", np.tanh, real)
_of_one("Sigmoid", sigmoid, real)
_with_a_number(["AddScalar", "AddScalarV2"], np.add)
_with_a_number(["SubScalar", "SubScalarV2"], np.subtract)
_with_a_number(["MulScalar", "MulScalarV2"], np.multiply)
_with_a_number(["DivScalar", "DivScalarV2"], np.true_divide)
_with_a_number(["LerpScalar"], lambda x, end, weight: x + weight * (end - x), lists=2)
_with_a_number(["AddcmulScalar", "AddcmulScalarV2"], lambda x, a, b, value: x + value * (a * b), lists=3)
_with_a_number(["AddcdivScalar", "AddcdivScalarV2"], lambda x, a, b, value: x + value * (a / b), lists=3)
_with_a_number_each("AddScalarList", np.add)
_with_a_number_each("SubScalarList", np.subtract)
_with_a_number_each("MulScalarList", np.multiply)
_with_a_number_each("DivScalarList", np.true_divide)
_scaled_lists(["AddList", "AddListV2"], np.add)
_scaled_lists(["SubList", "SubListV2"], np.subtract)
row("ForeachMulList", lambda v: _each(np.multiply)(v[:2], v[2]))
row("ForeachDivList", lambda v: _each(np.true_divide, real)(v[:2], v[2]))
row("ForeachPowScalarAndTensor", lambda v: _each(lambda x: np.power(v[0], x))([v[1]], v[2]))


def _addcdiv_list(v: Values) -> None:
    for at, out in enumerate(v[4]):
        two(lambda x, a, b, value: x + value * (a / b))([v[0][at], v[1][at], v[2][at], v[3].reshape(-1)[at]], out)


def _cleared(v: Values) -> None:
    for tensor in v[0]:
        store(tensor, 0)


row("ForeachAddcdivScalarList", _addcdiv_list)
row("ForeachZeroInplace", _cleared)


def _adam_w(v: Values) -> None:
    var, m, second, greatest, grad, step, lr, beta1, beta2, decay, eps, amsgrad, maximize = v
    g = np.negative(real(grad)[0]) if maximize else real(grad)[0]
    count = float(np.asarray(step).reshape(-1)[0])
    p = real(var)[0] * (1 - lr * decay)
    store(m, beta1 * real(m)[0] + (1 - beta1) * g)
    store(second, beta2 * real(second)[0] + (1 - beta2) * g * g)
    spread = second
    if amsgrad:
        store(greatest, np.maximum(greatest, second))
        spread = greatest
    denominator = np.sqrt(real(spread)[0] / (1 - beta2**count)) + eps
    store(var, p - lr / (1 - beta1**count) * real(m)[0] / denominator)


row("ApplyAdamWV2", _adam_w)

# ---- more lists -------------------------------------------------------------------------------------------------------------------

for _name, _compute in {
    "Acos": np.arccos, "Asin": np.arcsin, "Atan": np.arctan, "Cos": np.cos, "Cosh": np.cosh, "Erf": erf, "Erfc": lambda x: 1 - erf(x),
    "Expm1": np.expm1, "Log10": np.log10, "Log1p": np.log1p, "Log2": np.log2, "Sin": np.sin, "Sinh": np.sinh, "Tan": np.tan,
}.items():  # fmt: skip
    _of_one(_name, cast(Callable[..., Any], _compute), real)
_of_one("Sign", np.sign, worked)
for _name, _combine in {"Maximum": np.maximum, "Minimum": np.minimum, "Pow": power}.items():
    _with_a_number([f"{_name}Scalar", f"{_name}ScalarV2"], cast(Callable[..., Any], _combine))
    _with_a_number_each(f"{_name}ScalarList", cast(Callable[..., Any], _combine))
    row(f"Foreach{_name}List", lambda v, combine=_combine: _each(combine)(v[:2], v[2]))  # type: ignore[misc]
row("ForeachLerpList", lambda v: _each(lambda x, end, weight: x + weight * (end - x))(v[:3], v[3]))


def _product_lists(combine: Callable[[Any, Any], Any]) -> Function:
    """x1 + scalar * combine(x2, x3), with a scalar of its own for each."""

    def fill(v: Values) -> None:
        for at, out in enumerate(v[4]):
            scale = np.asarray(v[3]).reshape(-1)[at]
            two(lambda x, a, b, value: x + value * combine(a, b))([v[0][at], v[1][at], v[2][at], scale], out)

    return fill


for _name in ("ForeachAddcmulScalarList", "ForeachAddcmulList"):
    row(_name, _product_lists(np.multiply))
row("ForeachAddcdivList", _product_lists(np.true_divide))
for _name, _source in {
    "Log": "Log", "MulScalar": "MulScalar", "SubScalar": "SubScalar", "MulList": "MulList", "DivList": "DivList", "AddList": "AddList",
    "SubList": "SubList",
}.items():  # fmt: skip
    row(f"Foreach{_name}Inplace", lambda v, source=_source: FUNCTIONS[f"aclnnForeach{source}"]([*v, v[0]]))  # type: ignore[misc]
row("ForeachACosInplace", lambda v: FUNCTIONS["aclnnForeachAcos"]([*v, v[0]]))


def _norms(v: Values) -> None:
    for x, out in zip(v[0], v[2], strict=True):
        store(out, _norm(x.reshape(-1), float(_number(v[1])), None, False))


_ROUNDED = {1: np.rint, 2: np.floor, 3: np.ceil, 4: np.rint, 5: np.trunc}


def _rounded(v: Values) -> None:
    how = int(_number(v[1]))
    if how == 7:
        _each(lambda x: x - np.trunc(x))([v[0]], v[2])
    elif how in _ROUNDED:
        _each(_ROUNDED[how])([v[0]], v[2])
    else:
        raise BadInput(
            f"rounding mode {how} has no reference", cure="1 to 5 and 7 are round, floor, ceil, round, trunc, frac"
        )


def _unscaled(v: Values) -> None:
    for gradient in v[0]:
        wide = real(gradient)[0]
        if not np.isfinite(wide).all():
            store(v[1], 1)
        store(gradient, wide * _number(v[2]))


row("ForeachNorm", _norms)
row("ForeachRoundOffNumber", _rounded)
row("ForeachRoundOffNumberV2", _rounded)
row("ForeachNonFiniteCheckAndUnscale", _unscaled)


# ---- optimisers -------------------------------------------------------------------------------------------------------------------


def _adam(v: Values) -> None:
    var, m, second = v[:3]
    power1, power2, lr, beta1, beta2, eps = (float(_number(t)) for t in v[3:9])
    g = real(v[9])[0]
    store(m, beta1 * real(m)[0] + (1 - beta1) * g)
    store(second, beta2 * real(second)[0] + (1 - beta2) * g * g)
    rate = lr * math.sqrt(1 - power2) / (1 - power1)
    moved = beta1 * real(m)[0] + (1 - beta1) * g if v[11] else real(m)[0]
    store(var, real(var)[0] - rate * moved / (np.sqrt(real(second)[0]) + eps))


def _adam_of(v: Values) -> None:
    for at in range(3):
        store(v[12 + at], v[at])
    _adam([*v[12:15], *v[3:12]])


def _adam_w_of_powers(v: Values) -> None:
    var, m, second = v[:3]
    power1, power2, lr, decay, beta1, beta2, eps = (float(_number(t)) for t in v[3:10])
    g = np.negative(real(v[10])[0]) if v[13] else real(v[10])[0]
    p = real(var)[0] * (1 - lr * decay)
    store(m, beta1 * real(m)[0] + (1 - beta1) * g)
    store(second, beta2 * real(second)[0] + (1 - beta2) * g * g)
    spread = second
    if v[12]:
        store(v[11], np.maximum(v[11], second))
        spread = v[11]
    store(var, p - lr / (1 - power1) * real(m)[0] / (np.sqrt(real(spread)[0] / (1 - power2)) + eps))


def _sgd(v: Values) -> None:
    decay, momentum, lr, damping, nesterov, maximize, first = v[4:]
    for at, (p, gradient) in enumerate(zip(v[0], v[1], strict=True)):
        g = real(gradient)[0]
        if v[3] is not None:
            g = g / float(_number(v[3]))
            store(gradient, g)
        g = np.negative(g) if maximize else g
        g = g + decay * real(p)[0] if decay else g
        if momentum:
            kept = v[2][at]
            store(kept, g if first else momentum * real(kept)[0] + (1 - damping) * g)
            g = g + momentum * real(kept)[0] if nesterov else real(kept)[0]
        store(p, real(p)[0] - lr * g)


def _amp_scale(v: Values) -> None:
    scale, tracker = float(_number(v[0])), int(_number(v[1]))
    if float(_number(v[2])):
        scale, tracker = scale * v[4], 0
    elif tracker + 1 == v[5]:
        grown = np.float32(scale * v[3])
        scale, tracker = float(grown) if np.isfinite(grown) else scale, 0
    else:
        tracker += 1
    store(v[6], scale)
    store(v[7], tracker)


row("ApplyAdam", _adam)
row("ApplyAdamD", _adam_of)
row("ApplyAdamW", _adam_w_of_powers)
row("FusedSgd", _sgd)
row("AmpUpdateScale", _amp_scale)
row("ApplyGradientDescent", lambda v: store(v[0], real(v[0])[0] - float(_number(v[1])) * real(v[2])[0]))
