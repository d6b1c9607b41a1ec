"""References of aclnn functions, by torch: mathematics, matrices, places by index."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from toprope.errors import BadInput
from toprope.toolkit.functions import FUNCTIONS, Array, Values, inside, row, store
from toprope.toolkit.operator_library import table
from toprope.toolkit.through_torch import F, T, aten, put, tensor, via

# ---- mathematics ----------------------------------------------------------------------------------------------------------------------

via("Erfinv", lambda x: T.erfinv(x))
via("Frac", lambda x: T.frac(x))
via("Lgamma", lambda x: T.lgamma(x))
via("Digamma", lambda x: T.digamma(x))
via("Ndtri", lambda x: T.special.ndtri(x))
via("IsInf", lambda x: T.isinf(x))
via("Heaviside", lambda x, y: T.heaviside(x, y))
via("Gcd", lambda x, y: T.gcd(x, y))
via("RightShift", lambda x, y: T.bitwise_right_shift(x, y))
via("RoundDecimals", lambda x, n: T.round(x, decimals=n))
via("Logit", lambda x, eps: T.logit(x, eps if eps >= 0 else None))
via("LogitGrad", lambda x, g, eps: aten.logit_backward(g, x, eps if eps >= 0 else None))
via("AngleV2", lambda x: T.angle(x))
via("Real", lambda x: T.real(x))
via("Complex", lambda x, y: T.complex(x, y))
via("Polar", lambda x, y: T.polar(x, y))
via("XLogYTensor XLogYScalarOther", lambda x, y: T.xlogy(x, y))
via("XLogYScalarSelf", lambda x, y: T.xlogy(x, y))
via("Xlog1py", lambda x, y: T.special.xlog1py(x, y), outs=1)
via("NanToNum", lambda x, nan, up, down: T.nan_to_num(x, nan, up, down))
via("DivMod DivMods", lambda x, y, how: T.div(x, y, rounding_mode=(None, "trunc", "floor")[how]))
via("DivV3", lambda x, y, how: T.div(x, y, rounding_mode=(None, "trunc", "floor")[how]))
via("RealDiv", lambda x, y: x / y)
via("FloorDiv", lambda x, y: T.floor_divide(x, y))
via("TruncateDiv", lambda x, y: T.div(x, y, rounding_mode="trunc"))
via("TruncateMod", lambda x, y: T.fmod(x, y))
via("MulNoNan", lambda x, y: T.where(y == 0, T.zeros_like(x * y), x * y))
via("ApproximateEqual", lambda x, y, bound: (x - y).abs() < bound)
via("HardsigmoidV2", lambda x: F.hardsigmoid(x))
FUNCTIONS["aclnnInplaceAddRelu"] = lambda v: put(v[0], T.relu(tensor(v[0]) + v[2] * tensor(v[1])))
for _name in ("Asinh", "Asin"):
    for _form in ("V2", "WithAgent"):
        if f"aclnn{_name}{_form}" in table():
            via(f"{_name}{_form}", lambda x, name=_name: getattr(T, name.lower())(x))
_OF_RESULT: dict[str, Callable[[Any, Any], Any]] = {
    "AsinGrad": lambda x, g: g / (1 - x * x).sqrt(), "AsinhGrad": lambda y, g: g / T.cosh(y), "SqrtBackward": lambda y, g: g / (2 * y),
    "TanhGrad": lambda y, g: g * (1 - y * y),
}  # fmt: skip
for _name, _compute in _OF_RESULT.items():
    via(_name, _compute)
via("Linspace", lambda start, end, steps: T.linspace(start, end, steps, dtype=T.float64))
via("LogSpace", lambda start, end, steps, base: T.logspace(start, end, steps, base, dtype=T.float64))
FUNCTIONS["aclnnRange"] = lambda v: store(v[3], v[0] + np.arange(v[3].size) * v[2])

# ---- matrices -------------------------------------------------------------------------------------------------------------------------


def _exact(compute: Callable[..., Any], *values: Any) -> Any:
    """Linear algebra that torch has for floats only, of whole numbers too."""
    return compute(*(v.double() if hasattr(v, "dtype") and not v.is_floating_point() else v for v in values))


via(
    "Addr AddrV2",
    lambda x, a, b, beta, alpha: T.addr(x, a, b, beta=1 if beta is None else beta, alpha=1 if alpha is None else alpha),
)
via("Addmv", lambda x, m, v, alpha, beta: _exact(lambda *t: T.addmv(*t, beta=beta, alpha=alpha), x, m, v))
via("Addbmm", lambda x, a, b, beta, alpha: _exact(lambda *t: T.addbmm(*t, beta=beta, alpha=alpha), x, a, b))
via("AddmmWeightNz", lambda x, a, b, beta, alpha: T.addmm(x, a, b, beta=beta, alpha=alpha))
via("MatmulWeightNz BatchMatMulWeightNz", lambda a, b: T.matmul(a, b))
via("Ger", lambda a, b: T.outer(a, b))
via("Gemm", lambda a, b, c, alpha, beta, ta, tb: alpha * ((a.mT if ta else a) @ (b.mT if tb else b)) + beta * c)
via("Einsum", lambda tensors, equation: T.einsum(equation, *tensors))
via("LinalgCross", lambda x, y, dim: T.linalg.cross(x, y, dim=dim))
via("LinalgCholesky", lambda x, upper: T.linalg.cholesky(x, upper=bool(upper)))
via("Inverse", lambda x: T.linalg.inv(x))
via("Logdet", lambda x: T.logdet(x))
via("Slogdet", lambda x: T.linalg.slogdet(x), outs=2)
via("Trace", lambda x: T.trace(x))
via("Cdist", lambda x, y, p, mode: T.cdist(x, y, p))
via(
    "CdistBackward",
    lambda g, x, y, p, made: aten._cdist_backward(g.contiguous(), x.contiguous(), y.contiguous(), p, made),
)
via("Pdist PdistForward", lambda x, p: F.pdist(x, p))


def _svd(v: Values) -> None:
    x = tensor(v[0])
    if not v[2]:
        put(v[3], T.linalg.svdvals(x))
        return
    u, s, right = T.linalg.svd(x, full_matrices=bool(v[1]))
    put(v[3], s)
    put(v[4], u)
    put(v[5], right.mH)


def _qr(v: Values) -> None:
    q, r = T.linalg.qr(tensor(v[0]), mode=("reduced", "complete", "r")[v[1]])
    put(v[3], r)
    if v[1] != 2:
        put(v[2], q)


def _triangular(v: Values) -> None:
    x, a = tensor(v[0]), tensor(v[1])
    put(v[5], aten.triangular_solve(x, a, bool(v[2]), bool(v[3]), bool(v[4]))[0])
    put(v[6], a)


def _permuted_product(v: Values) -> None:
    made = T.matmul(tensor(v[0]).permute(v[4]), tensor(v[1]).permute(v[5]))
    if v[2] is not None:
        made = made + tensor(v[2])
    made = made.permute(v[6])
    if v[3] is not None:
        raise BadInput("aclnnTransposeBatchMatMul with a scale has no reference", cure="leave the scale out")
    put(v[9], made.reshape(v[9].shape))


row("Svd", _svd)
row("LinalgQr", _qr)
row("TriangularSolve", _triangular)
row("TransposeBatchMatMul", _permuted_product)
row("TransposeBatchMatMulWeightNz", _permuted_product)


def _fused_product(v: Values) -> None:
    made = T.matmul(tensor(v[0]), tensor(v[1]))
    made = made if v[2] is None else made + tensor(v[2])
    how = v[4] or ""
    if how == "add":
        made = made + tensor(v[3])
    elif how == "mul":
        made = made * tensor(v[3])
    elif how == "relu":
        made = T.relu(made)
    elif how in ("gelu_erf", "gelu_tanh"):
        made = F.gelu(made, approximate=how.removeprefix("gelu_").replace("erf", "none"))
    elif how:
        raise BadInput(f"aclnnFusedMatmul with {how!r} has no reference", cure="add, mul, relu, gelu_erf or gelu_tanh")
    put(v[6], made)


row("FusedMatmul", _fused_product)

# ---- along axes -----------------------------------------------------------------------------------------------------------------------


def _of_axis(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A choice along one axis: the value and its place."""
    return lambda x, dim, keep: compute(x, dim, bool(keep)) if x.ndim else compute(x.reshape(1), 0, False)


via("MedianDim", _of_axis(lambda x, dim, keep: T.median(x, dim, keep)), outs=2)
via("NanMedianDim", _of_axis(lambda x, dim, keep: T.nanmedian(x, dim, keep)), outs=2)
via("Median", lambda x: T.median(x))
via("NanMedian", lambda x: T.nanmedian(x))
via("Kthvalue", lambda x, k, dim, keep: T.kthvalue(x, k, dim, bool(keep)), outs=2)
via("Cummax", lambda x, dim: T.cummax(x, dim), outs=2)
via("Cummin", lambda x, dim: T.cummin(x, dim), outs=2)
via("AminmaxAll", lambda x: T.aminmax(x), outs=2)
via("AminmaxDim", lambda x, dim, keep: T.aminmax(x, dim=dim, keepdim=bool(keep)), outs=2)
via("Aminmax", lambda x, dims, keep: (T.amin(x, dims or (), bool(keep)), T.amax(x, dims or (), bool(keep))), outs=2)
via("MaxV2", lambda x, dims, keep, empty: T.amax(x, dims or (), bool(keep)))
via("MeanV2", lambda x, dims, keep, empty: x if empty and not dims else T.mean(x.float(), dims or None, bool(keep)))
via("StdMeanCorrection", lambda x, dims, n, keep: T.std_mean(x, dims or None, correction=n, keepdim=bool(keep)), outs=2)
via("VarMean", lambda x, dims, n, keep: T.var_mean(x, dims or None, correction=n, keepdim=bool(keep)), outs=2)
via("Argsort", lambda x, dim, down: T.argsort(x, dim, bool(down)))
via("ReduceLogSum", lambda x, dims, keep, empty: x if empty and not dims else T.sum(x, dims or None, bool(keep)).log())


def _cumsum(x: Any, dim: int, without: Any, backwards: Any) -> Any:
    x = x.flip(dim) if backwards else x
    made = x.cumsum(dim)
    made = made - x if without else made
    return made.flip(dim) if backwards else made


via("CumsumV2", _cumsum)
via("Bincount", lambda x, w, least: T.bincount(x.reshape(-1), w, least))
via("Histc", lambda x, bins, low, high: T.histc(x.float(), bins, low, high))
via("Bucketize", lambda x, edges, short, right: T.bucketize(x, edges, right=bool(right)))
via(
    "SearchSorted SearchSorteds",
    lambda edges, x, short, right, order: T.searchsorted(
        edges, x, right=bool(right), sorter=None if order is None else order.long()
    ),
)
via("IsInTensorScalar", lambda x, y, unique, invert: T.isin(x, y, invert=bool(invert)))
via("IsInScalarTensor", lambda x, y, unique, invert: T.isin(x, y, invert=bool(invert)))

# ---- shapes ---------------------------------------------------------------------------------------------------------------------------

via("Diag DiagFlat", lambda x, n: T.diag(x, n) if x.ndim < 3 else T.diagflat(x, n))
via("DiagFlat", lambda x, n: T.diagflat(x, n))
via("Expand Expandv", lambda x, size: x.expand(size))
via("TensorMove", lambda x: x)
via("Take", lambda x, at: T.take(x, at.long()))
via("SplitWithSize", lambda x, sizes, dim: [T.split(x, sizes, dim)])
via("SplitTensor", lambda x, size, dim: [T.split(x, size, dim)])
via("RepeatInterleave", lambda x, n, size: T.repeat_interleave(x.reshape(-1), n.long()))
via("RepeatInterleaveTensor", lambda n, size: T.repeat_interleave(n.long()))
via("RepeatInterleaveWithDim", lambda x, n, dim, size: T.repeat_interleave(x, n.long(), dim))
via("RepeatInterleaveIntWithDim", lambda x, n, dim, size: T.repeat_interleave(x, n, dim))
via(
    "ConfusionTranspose",
    lambda x, p, shape, first: x.permute(p).reshape(shape) if first else x.reshape(shape).permute(p),
)
via("ChunkCat", lambda tensors, dim, count: aten._chunk_cat(tensors, dim, count))
via("Sum SumV2 AddN", lambda tensors: sum(tensors[1:], tensors[0]))


def _repeat_gradient(g: Any, n: Any, dim: int) -> Any:
    counts = n.long().reshape(-1)
    counts = counts.expand(g.shape[dim] // int(counts)) if counts.numel() == 1 else counts
    made = T.zeros([*g.shape[:dim], len(counts), *g.shape[dim:][1:]], dtype=g.dtype)
    return made.index_add(dim, T.repeat_interleave(counts), g)


def _sliced(v: Values) -> None:
    """begin:end:step for each axis; a bit of a mask takes all of an axis, drops it, or makes a new one."""
    x, begin, end, step, begin_mask, end_mask, rest_mask, new_mask, drop_mask = v[:9]
    cut: list[Any] = []
    for n, (a, b, s) in enumerate(zip(begin, end, step or [1] * len(begin), strict=True)):
        bit = 1 << n
        if rest_mask & bit:
            cut.append(Ellipsis)
        elif new_mask & bit:
            cut.append(None)
        elif drop_mask & bit:
            cut.append(a)
        else:
            cut.append(slice(None if begin_mask & bit else a, None if end_mask & bit else b, s))
    store(v[9], x[tuple(cut)])


def _slices(v: Values) -> None:
    cut = [slice(None)] * v[0].ndim
    for begin, end, axis, step in zip(v[1], v[2], v[3], v[4], strict=True):
        cut[axis] = slice(begin, end, step)
    store(v[5], v[0][tuple(cut)])


via("RepeatInterleaveGrad", _repeat_gradient)
row("StridedSlice", _sliced)
row("SliceV2", _slices)
via("UnfoldGrad", lambda g, sizes, dim, size, step: aten.unfold_backward(g, sizes, dim, size, step))
FUNCTIONS["aclnnNpuFormatCast"] = lambda v: store(v[1], v[0])

# ---- by index -------------------------------------------------------------------------------------------------------------------------


def _along(dim: int, rank: int) -> tuple[Any, ...]:
    return (slice(None),) * (dim % max(rank, 1))


def _index_add(v: Values) -> None:
    x, dim, at, source, alpha = v[:5]
    made = T.index_add(
        tensor(x), dim, T.from_numpy(inside(at, x.shape[dim], "aclnnIndexAdd").reshape(-1)), tensor(source), alpha=alpha
    )
    put(v[-1], made)


row("IndexAdd", _index_add)
row("IndexAddV2", _index_add)


def _index_copy(x: Array, dim: int, at: Array, source: Array, out: Array) -> None:
    store(out, x)
    out[(*_along(dim, x.ndim), inside(at, x.shape[dim], "aclnnIndexCopy").reshape(-1))] = source


def _index_fill(x: Array, dim: int, at: Any, value: Any, out: Array) -> None:
    store(out, x)
    out[
        (
            *_along(dim, x.ndim),
            inside(np.asarray(at, np.int64).reshape(-1), x.shape[dim], "aclnnIndexFill"),
        )
    ] = value


row("IndexCopy", lambda v: _index_copy(v[0], v[1], v[2], v[3], v[4]))
row("InplaceIndexCopy", lambda v: _index_copy(v[0], v[1], v[2], v[3], v[0]))
for _name in ("IndexFill", "IndexFillTensor"):
    row(_name, lambda v: _index_fill(v[0], v[1], v[2], v[3], v[4]))
    row(f"Inplace{_name}", lambda v: _index_fill(v[0], v[1], v[2], v[3], v[0]))
_COMBINED = ("sum", "prod", "mean", "amax", "amin")


def _scatter_reduced(x: Any, dim: int, at: Any, source: Any, how: int, itself: Any) -> Any:
    word = ("none", "sum", "prod", "amax", "amin", "mean")[how] if how <= 5 else "none"
    return T.scatter_reduce(x, dim, at.long(), source, word, include_self=bool(itself))


FUNCTIONS["aclnnScatterReduce"] = lambda v: put(v[6], _scatter_reduced(*map(tensor, v[:6])))
FUNCTIONS["aclnnInplaceScatterReduce"] = lambda v: put(v[0], _scatter_reduced(*map(tensor, v[:6])))


def _scatter_update(v: Values) -> None:
    """Rows of `updates` go to the places that `indices` gives along the axis of the last but one kind: a cache by sequence."""
    data, at, updates, axis = v
    starts = at.reshape(-1)
    if at.ndim == 1:
        for n, begin in enumerate(starts):
            cut: list[Any] = [slice(None)] * data.ndim
            cut[0], cut[axis] = n, slice(int(begin), int(begin) + updates.shape[axis])
            data[tuple(cut)] = updates[n]
        return
    for row_at, begin in at:
        cut = [slice(None)] * data.ndim
        cut[0], cut[axis] = int(row_at), slice(int(begin), int(begin) + updates.shape[axis])
        data[tuple(cut)] = updates[int(np.flatnonzero((at == [row_at, begin]).all(1))[0])]


def _scatter_nd(v: Values) -> None:
    x, at, updates = v[:3]
    x[tuple(np.moveaxis(at, -1, 0))] = updates


def _scatter_nd_of(v: Values) -> None:
    store(v[3], v[0])
    v[3][tuple(np.moveaxis(v[1], -1, 0))] = v[2]


def _scatter_rows(combine: Any) -> Callable[[Values], None]:
    return lambda v: combine.at(v[0], v[1], v[2])


row("InplaceScatterUpdate", _scatter_update)
row("ScatterNdUpdate", _scatter_nd)
row("ScatterNd", _scatter_nd_of)
for _name, _combine in {"Div": np.divide, "Max": np.maximum, "Min": np.minimum, "Mul": np.multiply}.items():
    row(f"Scatter{_name}", _scatter_rows(_combine))
row("TfScatterAdd", _scatter_rows(np.add))
row("GatherNd", lambda v: store(v[-1], v[0][tuple(np.moveaxis(v[1], -1, 0))]))
row("GatherV2", lambda v: store(v[-1], np.take(v[0], inside(v[2], v[0].shape[v[1]], "aclnnGatherV2"), axis=v[1])))


def _gather_v3(v: Values) -> None:
    x, dim, at, batch = v[:4]
    if not batch:
        store(v[5], np.take(x, inside(at, x.shape[dim], "aclnnGatherV3"), axis=dim))
        return
    lead = math.prod(x.shape[:batch])
    flat, where = x.reshape(lead, *x.shape[batch:]), at.reshape(lead, *at.shape[batch:])
    made = [
        np.take(one, inside(place, x.shape[dim], "aclnnGatherV3"), axis=dim - batch)
        for one, place in zip(flat, where, strict=True)
    ]
    store(v[5], np.stack(made).reshape(v[5].shape))


row("GatherV3", _gather_v3)


def _masked_scatter(v: Values) -> None:
    x, mask, source = v
    mask = np.broadcast_to(mask, x.shape).astype(bool)
    x[mask] = source.reshape(-1)[: int(mask.sum())]


def _put_flat(v: Values) -> None:
    x, at, source, accumulate = v
    flat = np.ascontiguousarray(x).reshape(-1)
    where = inside(at, x.size, "aclnnInplacePut").reshape(-1)
    if accumulate:
        np.add.at(flat, where, source.reshape(-1))
    else:
        flat[where] = source.reshape(-1)
    store(x, flat.reshape(x.shape))


row("InplaceMaskedScatter", _masked_scatter)
row("InplacePut", _put_flat)
via("MaskedScale", lambda x, mask, scale: x * mask * scale)


def _fill_diagonal(v: Values) -> None:
    made = np.array(v[0])
    np.fill_diagonal(made, v[1], wrap=bool(v[2]))
    store(v[0], made)


def _renormed(v: Values) -> None:
    x, at, most, order = v
    for n in np.unique(at):
        size = float(np.linalg.norm(x[n].astype(np.float32).reshape(-1), order))
        if size > most:
            store(x[n : n + 1], x[n].astype(np.float32)[None] * (most / (size + 1e-7)))


row("InplaceFillDiagonal", _fill_diagonal)
row("EmbeddingRenorm", _renormed)


def _embedding_bag(v: Values) -> None:
    weight, at, offsets = tensor(v[0]), tensor(v[1]).long(), tensor(v[2]).long()
    made = aten._embedding_bag(weight, at, offsets, bool(v[3]), v[4], bool(v[5]), tensor(v[6]), bool(v[7]), v[8])
    for place, value in zip(v[9:13], made, strict=True):
        if place is not None and place.size == value.numel():
            put(place, value)


row("EmbeddingBag", _embedding_bag)
