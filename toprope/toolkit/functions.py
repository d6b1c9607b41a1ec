"""aclnn functions that have no kernel here: what they compute, in NumPy, as a reference. A function that is not in the table is refused by name.

One row is all that a function needs. Each takes the values of the call in its order (tensors as arrays in device memory, scalars as numbers,
None for what was left out) and fills the tensors that the function writes. Numbers are worked on in float32 where the tensors are shorter
floats, as the vendor's pages say of most functions, and rounded once when they are stored. What a row cannot do it refuses: BadInput.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from toprope.errors import BadInput

Values = Sequence[Any]
Shapes = dict[int, tuple[int, ...]]
"""Of arguments (by their place) whose shape hangs on the data: how large the results are."""
Function = Callable[[Values], Shapes | None]
Array = np.ndarray[Any, Any]

FUNCTIONS: dict[str, Function] = {}


# ---- how values are worked on ---------------------------------------------------------------------------------------------------


def _is_short(kind: np.dtype[Any]) -> bool:
    return kind.itemsize < 4 and kind.kind not in "iub"


def worked(*values: Any) -> list[Any]:
    """Tensors in the type that they are worked on in; numbers stay numbers."""
    kinds = [v.dtype for v in values if isinstance(v, np.ndarray)]
    if any(_is_short(k) for k in kinds):
        wide = np.dtype(np.float64) if any(k == np.float64 for k in kinds) else np.dtype(np.float32)
        return [v.astype(wide) if isinstance(v, np.ndarray) else v for v in values]
    return list(values)


def _wide(out: Array) -> np.dtype[Any]:
    """The type that a result is worked on in."""
    return np.dtype(np.float32) if _is_short(out.dtype) else out.dtype


def real(*values: Any) -> list[Any]:
    """As `worked`, whole numbers as float32: functions whose result is no whole number."""
    return [v.astype(np.float32) if isinstance(v, np.ndarray) and v.dtype.kind in "iub" else v for v in worked(*values)]


def store(out: Array, value: Any) -> None:
    made = np.asarray(value)
    if made.shape != out.shape:
        made = np.broadcast_to(made, out.shape) if made.size != out.size else made.reshape(out.shape)
    if out.dtype.kind in "iu" and made.dtype.kind == "f":
        made = np.trunc(made)
    with np.errstate(all="ignore"):
        out[...] = made.astype(out.dtype)


# Forms that the vendor does not declare; aclnn_functions.tsv has those that it does.
_NOT_IN_PLACE = {
    "Abs", "BitwiseNot", "Clamp", "ClampMin", "ClampTensor", "Gelu", "IsFinite", "IsNegInf", "IsPosInf", "LeftShift", "LeftShifts",
    "LogAddExp", "LogAddExp2", "LogSigmoid", "LogicalXor", "Maximum", "Minimum", "Sign", "Signbit", "Silu", "Square",
}  # fmt: skip


def row(name: str, function: Function) -> None:
    if name.removeprefix("Inplace") not in _NOT_IN_PLACE or not name.startswith("Inplace"):
        FUNCTIONS[f"aclnn{name}"] = function


def axes_of(dims: Any, rank: int) -> tuple[int, ...] | None:
    """Axes of a reduction; none given: all of them."""
    return tuple(int(d) % max(rank, 1) for d in dims) if dims and rank else None


# ---- one tensor in, one out ------------------------------------------------------------------------------------------------------

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Any) -> Any:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + erf(x / math.sqrt(2)).astype(x.dtype))


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


_REAL: dict[str, Callable[[Any], Any]] = {
    "Acos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin, "Asinh": np.arcsinh, "Atan": np.arctan, "Atanh": np.arctanh,
    "Cos": np.cos, "Cosh": np.cosh, "Erf": erf, "Erfc": lambda x: 1 - erf(x), "Exp": np.exp, "Exp2": np.exp2, "Expm1": np.expm1,
    "Log": np.log, "Log10": np.log10, "Log1p": np.log1p, "Log2": np.log2, "Reciprocal": lambda x: 1 / x, "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Sigmoid": sigmoid, "Sin": np.sin, "Sinc": np.sinc, "Sinh": np.sinh, "Sqrt": np.sqrt, "Tan": np.tan, "Tanh": np.tanh,
    "Gelu": lambda x: _gelu_tanh(x), "Silu": lambda x: x * sigmoid(x), "Mish": lambda x: x * np.tanh(_softplus(x)), "LogSigmoid": lambda x: -_softplus(-x),
    "Hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6, "Hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "Selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
}  # fmt: skip
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs, "Ceil": np.ceil, "Floor": np.floor, "Neg": np.negative, "Relu": lambda x: np.maximum(x, 0), "Round": np.rint,
    "Sign": lambda x: (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype), "Signbit": np.signbit, "Trunc": np.trunc, "BitwiseNot": np.invert, "LogicalNot": np.logical_not,
    "IsFinite": np.isfinite, "IsPosInf": np.isposinf, "IsNegInf": np.isneginf, "Square": np.square,
}  # fmt: skip


def _unary(name: str, compute: Callable[[Any], Any], kind: Callable[..., list[Any]]) -> None:
    def fill(x: Array, out: Array) -> None:
        with np.errstate(all="ignore"):
            store(out, compute(*kind(x)))

    row(name, lambda v: fill(v[0], v[1]))
    row(f"Inplace{name}", lambda v: fill(v[0], v[0]))


for _name, _compute in _REAL.items():
    _unary(_name, _compute, real)
for _name, _compute in _PLAIN.items():
    _unary(_name, _compute, worked)
row("GeluV2", lambda v: store(v[2], (_gelu_tanh if v[1] == 1 else _gelu)(*real(v[0]))))
row("FastGelu", lambda v: store(v[1], real(v[0])[0] * sigmoid(1.702 * real(v[0])[0])))


# ---- two tensors, or a tensor and a number ----------------------------------------------------------------------------------------


def _as_its_type(number: Any, tensor: Array) -> Any:
    """A number beside a tensor of a short float takes its type, as comparisons and differences have it."""
    short = isinstance(number, float) and isinstance(tensor, np.ndarray) and _is_short(tensor.dtype)
    return float(np.asarray(number).astype(tensor.dtype)) if short else number


def _scaled(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    return lambda x, y, alpha: combine(x, y if alpha is None or alpha == 1 else np.multiply(y, alpha))


def two(compute: Callable[..., Any], kind: Callable[..., list[Any]] = worked) -> Callable[[Values, Array], None]:
    def fill(values: Values, out: Array) -> None:
        with np.errstate(all="ignore"):
            store(out, compute(*kind(*values)))

    return fill


def _binary(
    names: Sequence[str], compute: Callable[..., Any], kind: Callable[..., list[Any]] = worked, *, count: int = 2
) -> None:
    """The rows of one function: its forms for two tensors and for a number, out of place and in place. `count` values come before `out`."""
    fill = two(compute, kind)
    for name in names:
        row(name, lambda v: fill(v[:count], v[count]))
        row(f"Inplace{name}", lambda v: fill(v[:count], v[0]))


_binary(["Add", "Adds"], _scaled(np.add), count=3)
_binary(["Sub", "Subs"], _scaled(np.subtract), count=3)
row("AddV3", lambda v: two(_scaled(np.add))(v[:3], v[3]))
row("Rsub", lambda v: two(lambda x, y, alpha: y - np.multiply(x, alpha))(v[:3], v[3]))
row("Rsubs", lambda v: FUNCTIONS["aclnnRsub"]([v[0], _as_its_type(v[1], v[0]), *v[2:]]))
row("AddRelu", lambda v: two(lambda x, y, a: np.maximum(_scaled(np.add)(x, y, a), 0))(v[:3], v[3]))
_binary(["Mul", "Muls"], np.multiply)
_binary(["Div", "Divs"], np.true_divide, real)
_binary(["FloorDivide", "FloorDivides"], np.floor_divide)
_binary(["RemainderTensorTensor", "RemainderTensorScalar"], np.remainder)
row("RemainderScalarTensor", lambda v: two(np.remainder)(v[:2], v[2]))
_binary(["FmodTensor", "FmodScalar"], np.fmod)
_binary(["Maximum"], np.maximum)
_binary(["Minimum"], np.minimum)


def power(x: Any, y: Any) -> Any:
    """x to the power y; of whole numbers with an exponent below zero 0, but of 1 and -1 themselves."""
    if np.asarray(x).dtype.kind not in "iu" or np.asarray(y).dtype.kind not in "iu" or not (np.asarray(y) < 0).any():
        return np.power(x, y)
    odd = np.where(np.asarray(y) % 2 != 0, x, 1)
    return np.where(np.asarray(y) < 0, np.where(np.abs(x) == 1, odd, 0), np.power(x, np.maximum(y, 0)))


_binary(["PowTensorTensor", "PowTensorScalar"], power)
row(
    "PowScalarTensor",
    lambda v: two(lambda y: power(np.asarray(v[0]).astype(_wide(v[2])), y.astype(_wide(v[2]))))(v[1:2], v[2]),
)
_binary(["Atan2"], np.arctan2, real)
_binary(["LogAddExp"], np.logaddexp, real)
_binary(["LogAddExp2"], np.logaddexp2, real)
for _word, _compare in {
    "Eq": np.equal,
    "Ne": np.not_equal,
    "Gt": np.greater,
    "Ge": np.greater_equal,
    "Lt": np.less,
    "Le": np.less_equal,
}.items():
    _binary([f"{_word}Tensor"], _compare)
    fill_compared = two(_compare)
    row(f"{_word}Scalar", lambda v, f=fill_compared: f([v[0], _as_its_type(v[1], v[0])], v[2]))  # type: ignore[misc]
    row(f"Inplace{_word}Scalar", lambda v, f=fill_compared: f([v[0], _as_its_type(v[1], v[0])], v[0]))  # type: ignore[misc]
for _word, _logic in {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}.items():
    _binary([f"Logical{_word}"], _logic)
for _word, _bits in {"And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor}.items():
    _binary([f"Bitwise{_word}Tensor", f"Bitwise{_word}Scalar"], _bits)
_binary(["LeftShift", "LeftShifts"], np.left_shift)
_binary(["LeakyRelu"], lambda x, slope: np.where(x > 0, x, x * slope))
_binary(["Threshold"], lambda x, bound, value: np.where(x <= bound, value, x), count=3)
_binary(["Addcmul"], lambda x, a, b, value: x + value * (a * b), count=4)
_binary(["Addcdiv"], lambda x, a, b, value: x + value * (a / b), real, count=4)
_binary(["Lerp", "Lerps"], lambda x, end, weight: x + weight * (end - x), count=3)
row("SWhere", lambda v: two(lambda c, x, y: np.where(c, x, y))(v[:3], v[3]))


def _is_close(v: Values) -> None:
    x, y = worked(v[0], v[1])
    store(v[5], np.isclose(x, y, rtol=v[2], atol=v[3], equal_nan=bool(v[4])))


row("IsClose", _is_close)


def _clamped(x: Any, low: Any, high: Any) -> Any:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


_binary(["Clamp", "ClampTensor"], _clamped, count=3)
_binary(["ClampMin", "ClampMinTensor"], lambda x, low: np.maximum(x, low))
_binary(["ClampMax", "ClampMaxTensor"], lambda x, high: np.minimum(x, high))


# ---- filling and copying ---------------------------------------------------------------------------------------------------------

row("InplaceCopy", lambda v: store(v[0], v[1]))
row("Cast", lambda v: store(v[2], v[0]))
row("InplaceZero", lambda v: store(v[0], 0))
row("InplaceOne", lambda v: store(v[0], 1))
row("InplaceFillScalar", lambda v: store(v[0], v[1]))
row("InplaceFillTensor", lambda v: store(v[0], v[1]))
row("InplaceMaskedFillScalar", lambda v: store(v[0], np.where(v[1], np.asarray(v[2]).astype(v[0].dtype), v[0])))
row("InplaceMaskedFillTensor", FUNCTIONS["aclnnInplaceMaskedFillScalar"])
row("Permute", lambda v: store(v[2], v[0].transpose(v[1])))
row("Repeat", lambda v: store(v[2], np.tile(v[0], v[1])))
row("Flip", lambda v: store(v[2], np.flip(v[0], axes_of(v[1], v[0].ndim))))
row("Roll", lambda v: store(v[3], np.roll(v[0], tuple(v[1]) if v[2] else v[1][0], tuple(v[2]) if v[2] else None)))
row(
    "Cat",
    lambda v: store(
        v[2], np.concatenate([t for t in v[0] if t.ndim > 0 and not (t.ndim == 1 and t.size == 0)] or v[0], v[1])
    ),
)
row("Stack", lambda v: store(v[2], np.stack(v[0], v[1])))
for _name, _part in {"Triu": np.triu, "Tril": np.tril}.items():
    row(_name, lambda v, part=_part: store(v[2], part(v[0], v[1])))  # type: ignore[misc]
    row(f"Inplace{_name}", lambda v, part=_part: store(v[0], part(v[0], v[1])))  # type: ignore[misc]


def _arange(v: Values) -> None:
    start, _, step, out = v
    store(out, start + np.arange(out.size) * step)


row("Arange", _arange)


# ---- along axes ------------------------------------------------------------------------------------------------------------------


def _reduced(compute: Callable[..., Any], kind: Callable[..., list[Any]] = worked) -> Callable[..., None]:
    def fill(x: Array, dims: Any, keep: Any, out: Array) -> None:
        with np.errstate(all="ignore"):
            store(out, compute(kind(x)[0], axis=axes_of(dims, x.ndim), keepdims=bool(keep)))

    return fill


row("ReduceSum", lambda v: _reduced(np.sum)(v[0], v[1], v[2], v[4]))
row("ReduceNansum", lambda v: _reduced(np.nansum)(v[0], v[1], v[2], v[4]))
row("Mean", lambda v: _reduced(np.mean, real)(v[0], v[1], v[2], v[4]))
row("Prod", lambda v: _reduced(np.prod)(v[0], None, False, v[2]))
row("ProdDim", lambda v: _reduced(np.prod)(v[0], [v[1]], v[2], v[4]))
row("Amax", lambda v: _reduced(np.max)(v[0], v[1], v[2], v[3]))
row("Amin", lambda v: _reduced(np.min)(v[0], v[1], v[2], v[3]))
row("Max", lambda v: _reduced(np.max)(v[0], None, False, v[1]))
row("Min", lambda v: _reduced(np.min)(v[0], None, False, v[1]))
row("All", lambda v: _reduced(np.all)(v[0], v[1], v[2], v[3]))
row("Any", lambda v: _reduced(np.any)(v[0], v[1], v[2], v[3]))
row("ArgMax", lambda v: store(v[3], np.argmax(v[0], v[1])))
row("ArgMin", lambda v: store(v[3], np.argmin(v[0], v[1])))


def _extreme(choose: Callable[..., Any]) -> Function:
    def fill(v: Values) -> None:
        x, dim, _, out, indices = v
        if x.ndim == 0:
            store(out, x)
            store(indices, 0)
            return
        at = np.expand_dims(choose(x, dim), dim)
        store(out, np.take_along_axis(x, at, dim))
        store(indices, at)

    return fill


row("MaxDim", _extreme(np.argmax))
row("MinDim", _extreme(np.argmin))


def _variance(x: Array, dims: Any, correction: Any) -> tuple[Any, Any]:
    (wide,) = real(x)
    axes = axes_of(dims, x.ndim)
    count = x.size if axes is None else math.prod(x.shape[a] for a in axes)
    mean = wide.mean(axis=axes, keepdims=True)
    with np.errstate(all="ignore"):
        return ((wide - mean) ** 2).sum(axis=axes) / np.float32(max(count - correction, 0)), mean


row("Var", lambda v: store(v[4], _variance(v[0], v[1], int(v[2]))[0]))
row("VarCorrection", lambda v: store(v[4], _variance(v[0], v[1], v[2])[0]))
row("Std", lambda v: store(v[4], np.sqrt(_variance(v[0], v[1], v[2])[0])))


def _soft(x: Any, dim: int) -> Any:
    raised = np.exp(x - x.max(axis=dim, keepdims=True)) if x.size else x
    return raised / raised.sum(axis=dim, keepdims=True)


def _log_soft(x: Any, dim: int) -> Any:
    moved = x - x.max(axis=dim, keepdims=True) if x.size else x
    return moved - np.log(np.exp(moved).sum(axis=dim, keepdims=True))


row("Softmax", lambda v: store(v[2], _soft(real(v[0])[0], v[1])))
row("LogSoftmax", lambda v: store(v[2], _log_soft(real(v[0])[0], v[1])))
row(
    "LogSumExp",
    lambda v: _reduced(lambda x, axis, keepdims: np.logaddexp.reduce(x, axis=axis, keepdims=keepdims), real)(*v),
)
row("Cumsum", lambda v: store(v[3], np.cumsum(worked(v[0])[0], axis=v[1])))
row("Cumprod", lambda v: store(v[3], np.cumprod(worked(v[0])[0], axis=int(v[1]))))


def _sorted(v: Values) -> None:
    x, _, dim, descending, out, indices = v
    order = np.argsort(x, axis=dim, kind="stable")
    if descending:
        order = x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    store(out, np.take_along_axis(x, order, dim))
    store(indices, order)


row("Sort", _sorted)


def _largest(v: Values) -> None:
    x, k, dim, largest, _, out, indices = v
    order = (
        x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
        if largest
        else np.argsort(x, axis=dim, kind="stable")
    )
    order = np.take(order, np.arange(k), axis=dim)
    store(out, np.take_along_axis(x, order, dim))
    store(indices, order)


row("Topk", _largest)


# ---- by index --------------------------------------------------------------------------------------------------------------------


def inside(index: Array, size: int, name: str) -> Array:
    """Indices with those below zero counted from the end. Raises BadInput for one outside."""
    if index.size and (int(index.min()) < -size or int(index.max()) >= size):
        raise BadInput(
            f"{name}: an index of {int(index.min())} to {int(index.max())} into {size} rows",
            cure="give indices inside the tensor",
        )
    return np.where(index < 0, index + size, index)


row("IndexSelect", lambda v: store(v[3], np.take(v[0], inside(v[2], v[0].shape[v[1]], "aclnnIndexSelect"), axis=v[1])))
row("Embedding", lambda v: store(v[2], v[0][inside(v[1], v[0].shape[0], "aclnnEmbedding")]))


def _gathered(v: Values) -> None:
    x, dim, index, out = v
    if not x.ndim or not index.ndim:  # a single number is one of one
        x, index = np.atleast_1d(x), np.atleast_1d(index)
    at = inside(index, x.shape[dim], "aclnnGather")
    cut = tuple(slice(None) if d == dim % x.ndim else slice(0, n) for d, n in enumerate(index.shape))
    store(out, np.take_along_axis(x[cut], at, dim))


row("Gather", _gathered)


# ---- products --------------------------------------------------------------------------------------------------------------------


def _product(a: Any, b: Any) -> Any:
    left, right = worked(a, b)
    return np.matmul(left, right)


for _name in ("Matmul", "Mm", "BatchMatMul"):
    row(_name, lambda v: store(v[2], _product(v[0], v[1])))
row("Dot", lambda v: store(v[2], np.dot(*worked(v[0], v[1]))))
row("Mv", lambda v: store(v[2], _product(v[0], v[1])))


def _added_product(v: Values) -> Any:
    bias, a, b, beta, alpha = v[:5]
    made = alpha * _product(a, b)
    return made if beta == 0 else made + beta * worked(bias)[0]


for _name in ("Addmm", "Baddbmm"):
    row(_name, lambda v: store(v[5], _added_product(v)))
    row(f"Inplace{_name}", lambda v: store(v[0], _added_product(v)))


# ---- norms -----------------------------------------------------------------------------------------------------------------------


def _layer_norm(v: Values) -> None:
    x, shape, weight, bias, eps, out, mean_out, rstd_out = v
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    (wide,) = real(x)
    mean = wide.mean(axis=axes, keepdims=True)
    rstd = 1 / np.sqrt(((wide - mean) ** 2).mean(axis=axes, keepdims=True) + np.float32(eps))
    made = (wide - mean) * rstd
    made = made if weight is None else made * real(weight)[0]
    store(out, made if bias is None else made + real(bias)[0])
    for place, value in ((mean_out, mean), (rstd_out, rstd)):
        if place is not None:
            store(place, value)


def _rms_norm(v: Values) -> None:
    x, gamma, eps, out, rstd_out = v
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    (wide,) = real(x)
    rstd = 1 / np.sqrt((wide**2).mean(axis=axes, keepdims=True) + np.float32(eps))
    store(out, wide * rstd * real(gamma)[0])
    store(rstd_out, rstd)


row("LayerNorm", _layer_norm)
row("RmsNorm", _rms_norm)


# ---- gradients -------------------------------------------------------------------------------------------------------------------

row("ThresholdBackward", lambda v: two(lambda g, x, bound: np.where(x <= bound, 0, g))(v[:3], v[3]))
row("SigmoidBackward", lambda v: two(lambda g, y: g * y * (1 - y))(v[:2], v[2]))
row("TanhBackward", lambda v: two(lambda g, y: g * (1 - y * y))(v[:2], v[2]))
row("SiluBackward", lambda v: two(lambda g, x: g * sigmoid(x) * (1 + x * (1 - sigmoid(x))))(v[:2], v[2]))
row("SoftmaxBackward", lambda v: two(lambda g, y, dim: y * (g - (g * y).sum(axis=dim, keepdims=True)))(v[:3], v[3]))
row("LogSoftmaxBackward", lambda v: two(lambda g, y, dim: g - np.exp(y) * g.sum(axis=dim, keepdims=True))(v[:3], v[3]))
