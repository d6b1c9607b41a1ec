"""References of aclnn functions, by torch: convolution, pooling, normalisation, padding, resizing, sampling."""

from __future__ import annotations

from typing import Any

from toprope.toolkit.functions import Values, row, store
from toprope.toolkit.through_torch import F, T, aten, gradients, masked, put, tensor, via

# ---- convolution ----------------------------------------------------------------------------------------------------------------------


def _pairs(size: Any, count: int) -> list[int]:
    values = list(size) if size else []
    return values * count if len(values) == 1 else values


def _convolution(
    x: Any, w: Any, b: Any, stride: Any, pad: Any, dilation: Any, transposed: Any, more: Any, groups: int
) -> Any:
    count = w.ndim - 2
    if len(pad) == 2 * count and count > 0 and not transposed:  # before and behind each axis
        flat = [p for axis in reversed(range(count)) for p in pad[2 * axis : 2 * axis + 2]]
        x, pad = F.pad(x, flat), [0] * count
    alone = x.ndim == count + 1
    made = aten.convolution(
        x[None] if alone else x, w, b, _pairs(stride, count), _pairs(pad, count), _pairs(dilation, count), bool(transposed),
        _pairs(more, count) or [0] * count, groups,
    )  # fmt: skip
    return made[0] if alone else made


def _convolution_backward(
    g: Any,
    x: Any,
    w: Any,
    bias: Any,
    stride: Any,
    pad: Any,
    dilation: Any,
    transposed: Any,
    more: Any,
    groups: int,
    mask: Any,
) -> Any:
    count = w.ndim - 2
    return aten.convolution_backward(
        g, x, w, bias or None, _pairs(stride, count), _pairs(pad, count), _pairs(dilation, count), bool(transposed),
        _pairs(more, count) or [0] * count, groups, [bool(m) for m in mask],
    )  # fmt: skip


via("Convolution", _convolution)
via("ConvolutionBackward", _convolution_backward, outs=3)
via(
    "ConvDepthwise2d",
    lambda x, w, size, b, stride, pad, dilation: F.conv2d(x, w, b, stride, pad, dilation, x.shape[-3]),
)
via("ConvTbc", lambda x, w, b, pad: aten.conv_tbc(x, w, b, pad))
via("ConvTbcBackward", lambda g, x, w, b, pad: aten.conv_tbc_backward(g, x, w, b, pad), outs=3)
via("Im2col", lambda x, size, dilation, pad, stride: aten.im2col(x, size, dilation, pad, stride))
via(
    "Im2colBackward", lambda g, size, kernel, dilation, pad, stride: aten.col2im(g, size, kernel, dilation, pad, stride)
)

# ---- pooling --------------------------------------------------------------------------------------------------------------------------

for _n in "23":
    via(f"AdaptiveAvgPool{_n}d", lambda x, size, n=_n: getattr(aten, f"_adaptive_avg_pool{n}d")(x, size))
    via(f"AdaptiveAvgPool{_n}dBackward", lambda g, x, n=_n: getattr(aten, f"_adaptive_avg_pool{n}d_backward")(g, x))
    via(f"AdaptiveMaxPool{_n}d", lambda x, size, n=_n: getattr(aten, f"adaptive_max_pool{n}d")(x, size), outs=2)
    via(
        f"AdaptiveMaxPool{_n}dBackward",
        lambda g, x, at, n=_n: getattr(aten, f"adaptive_max_pool{n}d_backward")(g, x, at.long()),
    )


def _average(count: str, backward: bool) -> Any:
    def compute(*v: Any) -> Any:
        *tensors, size, stride, pad, ceil, padded, divisor = v
        name = f"avg_pool{count}d{'_backward' if backward else ''}"
        return getattr(aten, name)(*tensors, size, stride, pad, bool(ceil), bool(padded), divisor or None)

    return compute


for _n in "23":
    via(f"AvgPool{_n}d", _average(_n, False))
    via(f"AvgPool{_n}dBackward", _average(_n, True))


def _max_pool(count: str) -> Any:
    def compute(x: Any, size: Any, stride: Any, pad: Any, dilation: Any, ceil: Any) -> Any:
        return getattr(aten, f"max_pool{count}d_with_indices")(x, size, stride, pad, dilation, bool(ceil))

    return compute


def _max_pool_backward(count: str) -> Any:
    def compute(g: Any, x: Any, at: Any, size: Any, stride: Any, pad: Any, dilation: Any, ceil: Any) -> Any:
        _, at = _max_pool(count)(
            x, size, stride, pad, dilation, ceil
        )  # the mask of the forward pass is the device's own affair
        return getattr(aten, f"max_pool{count}d_with_indices_backward")(
            g, x, size, stride, pad, dilation, bool(ceil), at
        )

    return compute


via("MaxPool2dWithIndices", _max_pool("2"), outs=2)
via("MaxPool3dWithArgmax", _max_pool("3"), outs=2)
via("MaxPool2dWithIndicesBackward MaxPool2dWithMaskBackward", _max_pool_backward("2"))
via("MaxPool3dWithArgmaxBackward", _max_pool_backward("3"))


def _max_pool_with_mask(v: Values) -> None:
    """The mask has a bit for each place of the window; the backward pass here does without it, so it is left empty."""
    made, _ = _max_pool("2")(*map(tensor, v[:6]))
    put(v[6], made)
    store(v[7], 0)


row("MaxPool2dWithMask", _max_pool_with_mask)
via("MaxUnpool2d", lambda x, at, size: aten.max_unpool2d(x, at.long(), size))
via("MaxUnpool3d", lambda x, at, size, stride, pad: aten.max_unpool3d(x, at.long(), size, stride, pad))
via("GlobalAveragePool", lambda x: x.mean(tuple(range(2, x.ndim)), keepdim=True))
via("GlobalMaxPool", lambda x: x.amax(tuple(range(2, x.ndim)), keepdim=True))

# ---- normalisation --------------------------------------------------------------------------------------------------------------------


def _channels(value: Any, like: Any) -> Any:
    return value.reshape([1, -1] + [1] * (like.ndim - 2))


def _rest(x: Any) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _batch_norm(v: Values) -> None:
    x, w, b, mean, var = map(tensor, v[:5])
    training, momentum, eps = bool(v[5]), v[6], v[7]
    state = [None if t is None else t.clone() for t in (mean, var)]
    made, save_mean, save_inverse = aten.native_batch_norm(x, w, b, *state, training, momentum, eps)
    put(v[8], made)
    if training:
        for place, value in zip((*v[3:5], v[9], v[10]), (*state, save_mean, save_inverse), strict=True):
            if value is not None:
                put(place, value)


def _batch_norm_backward(
    g: Any, x: Any, w: Any, mean: Any, var: Any, kept_mean: Any, kept_inverse: Any, training: Any, eps: float, mask: Any
) -> Any:
    return aten.native_batch_norm_backward(
        g, x, w, mean, var, kept_mean, kept_inverse, bool(training), eps, [bool(m) for m in mask]
    )


row("BatchNorm", _batch_norm)
via("BatchNormBackward", _batch_norm_backward, outs=3)
via("BatchNormStats", lambda x, eps: (x.mean(_rest(x)), 1 / (x.var(_rest(x), unbiased=False) + eps).sqrt()), outs=2)
via("BatchNormReduce", lambda x: (x.sum(_rest(x)), (x * x).sum(_rest(x))), outs=2)


def _elements(x: Any, w: Any, b: Any, mean: Any, inverse: Any, eps: float) -> Any:
    made = (x - _channels(mean, x)) * _channels(inverse, x)
    made = made if w is None else made * _channels(w, x)
    return made if b is None else made + _channels(b, x)


def _elements_backward(g: Any, x: Any, mean: Any, inverse: Any, w: Any, sums: Any, products: Any, counter: Any) -> Any:
    total = counter.sum()
    scale = inverse if w is None else inverse * w
    moved = (
        g - _channels(sums / total, x) - (x - _channels(mean, x)) * _channels(inverse * inverse * products / total, x)
    )
    return moved * _channels(scale, x)


def _reduce_backward(
    g: Any, x: Any, mean: Any, inverse: Any, w: Any, wants_input: Any, wants_weight: Any, wants_bias: Any
) -> Any:
    sums = g.sum(_rest(g))
    products = (g * (x - _channels(mean, x))).sum(_rest(g))
    return sums, products, products * inverse if wants_weight else None, sums if wants_bias else None


via("BatchNormElemt", _elements)
via("BatchNormElemtBackward", _elements_backward)
via("BatchNormReduceBackward", _reduce_backward, outs=4)


def _gathered_stats(v: Values) -> None:
    mean, inverse, running_mean, running_var = map(tensor, v[1:5])
    momentum, eps, counts = v[5], v[6], tensor(v[7]).reshape(-1, 1)
    total = counts.sum()
    all_mean = (mean * counts).sum(0) / total
    var = 1 / (inverse * inverse) - eps
    all_var = ((var + (mean - all_mean) ** 2) * counts).sum(0) / total
    put(v[8], all_mean)
    put(v[9], 1 / (all_var + eps).sqrt())
    if running_mean is not None:
        put(v[3], (1 - momentum) * running_mean + momentum * all_mean)
    if running_var is not None:
        put(v[4], (1 - momentum) * running_var + momentum * all_var * total / (total - 1))


def _synchronised_stats(v: Values) -> None:
    sums, squares, counts, mean, var = map(tensor, v[:5])
    momentum, eps = v[5], v[6]
    total = counts.sum()
    batch = sums.sum(0) / total
    spread = squares.sum(0) / total - batch * batch
    put(v[3], (1 - momentum) * mean + momentum * batch)
    put(v[4], (1 - momentum) * var + momentum * spread * total / (total - 1))
    put(v[7], batch)
    put(v[8], 1 / (spread + eps).sqrt())


row("BatchNormGatherStatsWithCounts", _gathered_stats)
row("SyncBatchNormGatherStats", _synchronised_stats)


def _group_norm(x: Any, w: Any, b: Any, n: int, c: int, rest: int, groups: int, eps: float) -> Any:
    return aten.native_group_norm(x.contiguous(), w, b, n, c, rest, groups, eps)


def _group_norm_backward(
    g: Any, x: Any, mean: Any, rstd: Any, w: Any, n: int, c: int, rest: int, groups: int, mask: Any
) -> Any:
    wide = [t.reshape(n, groups) for t in (mean, rstd)]
    return aten.native_group_norm_backward(
        g.contiguous(), x.contiguous(), *wide, w, n, c, rest, groups, [bool(m) for m in mask]
    )


def _group_norm_silu(x: Any, w: Any, b: Any, groups: int, eps: float, activate: Any = True) -> Any:
    made, mean, rstd = _group_norm(x, w, b, x.shape[0], x.shape[1], x[0, 0].numel(), groups, eps)
    return F.silu(made) if activate else made, mean, rstd


def _group_norm_swish(x: Any, w: Any, b: Any, groups: int, layout: Any, eps: float, activate: Any, scale: float) -> Any:
    made, mean, rstd = _group_norm(x, w, b, x.shape[0], x.shape[1], x[0, 0].numel(), groups, eps)
    return (made * T.sigmoid(scale * made) if activate else made), mean, rstd


def _group_norm_swish_grad(
    g: Any,
    mean: Any,
    rstd: Any,
    x: Any,
    w: Any,
    b: Any,
    groups: int,
    layout: Any,
    scale: float,
    wants_w: Any,
    wants_b: Any,
) -> Any:
    def forward(x: Any, w: Any, b: Any) -> Any:
        outer = [x.shape[0], groups] + [1] * (x.ndim - 1)
        split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
        axes = tuple(range(2, split.ndim))
        moved = split - split.mean(axes, keepdim=True)
        made = moved * ((moved * moved).mean(axes, keepdim=True) + eps.reshape(outer)).rsqrt()
        made = made.reshape(x.shape) * _channels(w, x) + _channels(b, x)
        return made * T.sigmoid(scale * made)

    split = x.reshape(x.shape[0], groups, -1)
    eps = 1 / rstd.reshape(x.shape[0], groups) ** 2 - split.var(2, unbiased=False)  # what rounding left of it
    return masked(gradients(forward, (x, w, b), g), (True, wants_w, wants_b))


via("GroupNorm", _group_norm, outs=3)
via("GroupNormBackward", _group_norm_backward, outs=3)
via("GroupNormSilu GroupNormSiluV2", _group_norm_silu, outs=3)
via("GroupNormSwish", _group_norm_swish, outs=3)
via("GroupNormSwishGrad", _group_norm_swish_grad, outs=3)
via("FastLayerNorm", lambda x, shape, w, b, eps: aten.native_layer_norm(x, shape, w, b, eps), outs=3)
via("Renorm", lambda x, p, dim, most: aten.renorm(x, p, dim, most))


def _layer(x: Any, w: Any, b: Any, eps: float) -> Any:
    return aten.native_layer_norm(x, list(w.shape), w, b, eps)


def _add_layer_norm(x1: Any, x2: Any, w: Any, b: Any, bias: Any, eps: float, more: Any) -> Any:
    x = x1 + x2 if bias is None else x1 + x2 + bias
    return (*_layer(x, w, b, eps), x if more else None)


def _add_layer_norm_grad(g: Any, x1: Any, x2: Any, rstd: Any, mean: Any, w: Any, more: Any) -> Any:
    x = x1 + x2
    dx, dw, db = aten.native_layer_norm_backward(g, x, list(w.shape), mean, rstd, w, T.zeros_like(w), [True] * 3)
    return dx if more is None else dx + more, dw, db


def _rms(x: Any, w: Any, eps: float) -> tuple[Any, Any]:
    rstd = (x * x).mean(tuple(range(x.ndim - w.ndim, x.ndim)), keepdim=True).add(eps).rsqrt()
    return x * rstd * w, rstd


def _rms_norm_grad(g: Any, x: Any, rstd: Any, w: Any) -> Any:
    axes = tuple(range(x.ndim - w.ndim, x.ndim))
    normal, inner = x * rstd, g * w
    dx = (inner - normal * (inner * normal).mean(axes, keepdim=True)) * rstd
    return dx, (g * normal).sum(tuple(range(x.ndim - w.ndim)))


def _deep_norm(x: Any, gx: Any, b: Any, w: Any, alpha: float, eps: float) -> Any:
    made, mean, rstd = _layer(x * alpha + gx, w, b, eps)
    return mean, rstd, made


def _deep_norm_grad(g: Any, x: Any, gx: Any, w: Any, mean: Any, rstd: Any, alpha: float) -> Any:
    total = x * alpha + gx
    dx, dw, db = aten.native_layer_norm_backward(g, total, list(w.shape), mean, rstd, w, T.zeros_like(w), [True] * 3)
    return dx * alpha, dx, db, dw


def _instance_norm(x: Any, w: Any, b: Any, layout: str, eps: float) -> Any:
    moved = x.movedim(-1, 1) if layout == "NHWC" else x
    axes = tuple(range(2, moved.ndim))
    mean, var = moved.mean(axes, keepdim=True), moved.var(axes, unbiased=False, keepdim=True)
    made = (moved - mean) * (var + eps).rsqrt() * _channels(w, moved) + _channels(b, moved)
    results = (made, mean, var)
    return tuple(t.movedim(1, -1) for t in results) if layout == "NHWC" else results


via("AddLayerNorm", _add_layer_norm, outs=4)
via("AddLayerNormGrad", _add_layer_norm_grad, outs=3)
via("AddRmsNorm", lambda x1, x2, w, eps: (*_rms(x1 + x2, w, eps), x1 + x2), outs=3)
via("AddRmsNormCast", lambda x1, x2, w, eps: ((made := _rms(x1 + x2, w, eps))[0], made[0], made[1], x1 + x2), outs=4)
via("RmsNormGrad", _rms_norm_grad, outs=2)
via("GemmaRmsNorm", lambda x, w, eps: _rms(x, 1 + w, eps), outs=2)
via("DeepNorm", _deep_norm, outs=3)
via("DeepNormGrad", _deep_norm_grad, outs=4)
via("InstanceNorm", _instance_norm, outs=3)


def _add_rms_norm_in_place(v: Values) -> None:
    x = tensor(v[0]) + tensor(v[1])
    made, rstd = _rms(x, tensor(v[2]), v[3])
    put(v[0], made)
    put(v[1], x)
    put(v[4], rstd)


row("InplaceAddRmsNorm", _add_rms_norm_in_place)

# ---- padding, resizing, sampling ------------------------------------------------------------------------------------------------------

via("ConstantPadNd", lambda x, pad, value: F.pad(x, pad, value=value))
for _n in "123":
    for _way in ("reflection", "replication"):
        _name = f"{_way.capitalize()}Pad{_n}d"
        via(_name, lambda x, pad, name=f"{_way}_pad{_n}d": getattr(aten, name)(x, pad))
        via(f"{_name}Backward", lambda g, x, pad, name=f"{_way}_pad{_n}d_backward": getattr(aten, name)(g, x, pad))
for _n in "23":
    via(f"CircularPad{_n}d", lambda x, pad: F.pad(x, pad, "circular"))
    via(f"CircularPad{_n}dBackward", lambda g, x, pad: gradients(lambda t: F.pad(t, pad, "circular"), (x,), g)[0])


def _scales(values: Any) -> list[float | None]:
    return [float(v) if v and v > 0 else None for v in values]


def _resized(name: str, corners: bool, backward: bool, *, given: bool = True) -> Any:
    before = 2 + backward + corners  # the tensor, sizes, and whether corners are aligned

    def compute(*v: Any) -> Any:
        head: list[Any] = [bool(t) if isinstance(t, bool) else t for t in v[:before]]
        count = len(head[1])
        scales = _scales(v[before:]) if given else []
        return getattr(aten, name)(*head, *(scales + [None] * count)[:count])

    return compute


for _word, _op, _corners in (
    ("Linear1d", "linear1d", True), ("Bilinear2d", "bilinear2d", True), ("Trilinear3d", "trilinear3d", True), ("Bicubic2d", "bicubic2d", True),
    ("Nearest1d", "nearest1d", False), ("Nearest2d", "nearest2d", False), ("Nearest3d", "nearest3d", False),
):  # fmt: skip
    via(f"Upsample{_word}", _resized(f"upsample_{_op}", _corners, False))
    via(f"Upsample{_word}Backward", _resized(f"upsample_{_op}_backward", _corners, True))
for _n in "12":
    via(f"UpsampleNearest{_n}dV2", _resized(f"upsample_nearest{_n}d", False, False))
for _n in "123":
    via(f"UpsampleNearestExact{_n}d", _resized(f"_upsample_nearest_exact{_n}d", False, False))
    via(f"UpsampleNearestExact{_n}dBackward", _resized(f"_upsample_nearest_exact{_n}d_backward", False, True))
via("UpsampleBilinear2dBackwardV2", _resized("upsample_bilinear2d_backward", True, True))
via("UpsampleBilinear2dAA", _resized("_upsample_bilinear2d_aa", True, False))
via("UpsampleBilinear2dAABackward", _resized("_upsample_bilinear2d_aa_backward", True, True))
via("UpsampleBicubic2dAA", _resized("_upsample_bicubic2d_aa", True, False))
via("UpsampleBicubic2dAAGrad", _resized("_upsample_bicubic2d_aa_backward", True, True))
for _n in "23":
    via(
        f"GridSampler{_n}D",
        lambda x, grid, way, edge, corners, n=_n: getattr(aten, f"grid_sampler_{n}d")(
            x, grid, way, edge, bool(corners)
        ),
    )
    via(
        f"GridSampler{_n}DBackward",
        lambda g, x, grid, way, edge, corners, mask, n=_n: getattr(aten, f"grid_sampler_{n}d_backward")(
            g, x, grid, way, edge, bool(corners), [bool(m) for m in mask]
        ),
        outs=2,
    )
via("AffineGrid", lambda theta, size, corners: aten.affine_grid_generator(theta, size, bool(corners)))
via("ChannelShuffle", lambda x, groups: aten.channel_shuffle(x, groups))
