"""References of aclnn functions that inference calls: quantisation to int8, caches of keys and values, rotary positions, experts, cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope import ops
from toprope.errors import BadInput
from toprope.toolkit.functions import Array, Values, inside, real, row, store
from toprope.toolkit.operator_library import table
from toprope.toolkit.through_torch import T, put, tensor, via

# ---- quantisation -----------------------------------------------------------------------------------------------------------------------

_ROUNDED = {"round": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


def _saturated(out: Array, value: Array) -> None:
    """Store rounded numbers, those beyond the type at its ends. Raises BadInput for types other than whole numbers of 8 bits or more."""
    if out.dtype.kind not in "iu":
        raise BadInput(f"quantisation to {out.dtype} has no reference", cure="int8, uint8 or int32")
    ends = np.iinfo(out.dtype)
    store(out, np.clip(value, float(ends.min), float(ends.max)))


def _along(number: Array | None, x: Array, axis: int) -> Any:
    """Scales or offsets as they meet a tensor: one for all, or one for each place of an axis."""
    if number is None:
        return np.float32(0)
    wide = real(number)[0].astype(np.float32)
    if wide.size == 1:
        return wide.reshape(())
    shape = [1] * x.ndim
    shape[axis % x.ndim] = wide.size
    return wide.reshape(shape)


def _quantised(v: Values) -> None:
    x, axis = v[0], v[6] if len(v) > 7 else -1
    scale = _along(v[1], x, axis)
    scale = scale * scale if v[3] else scale
    how = v[4] or "round"
    if how not in _ROUNDED:
        raise BadInput(f"rounding mode {how!r} has no reference", cure=", ".join(_ROUNDED))
    _saturated(v[-1], _ROUNDED[how](real(x)[0] * scale + _along(v[2], x, axis)))


def _to_fixed(v: Values) -> None:
    x, scales, zeros, _, axis, out = v
    _saturated(out, np.rint(real(x)[0] / _along(scales, x, axis)) + np.rint(_along(zeros, x, axis)))


def _by_row(v: Values) -> None:
    x = real(v[0])[0]
    x = x if v[1] is None else x * real(v[1])[0]
    most = np.abs(x).max(-1, keepdims=True)
    scale = most / np.float32(np.iinfo(v[2].dtype).max if v[2].dtype.kind in "iu" else 127)
    with np.errstate(all="ignore"):
        _saturated(v[2], np.where(scale > 0, np.rint(x / scale), 0))
    store(v[3], scale[..., 0])


def _from_quantised(v: Values) -> None:
    scale = real(v[1])[0]
    scale = scale * scale if v[4] else scale
    store(v[5], (v[0].astype(np.float32) + (0 if v[2] is None else real(v[2])[0])) * scale)


def _faked(x: Array, scale: Any, zero: Any, low: int, high: int, out: Array, mask: Array) -> None:
    places = np.rint(real(x)[0] / scale) + zero
    kept = (places >= low) & (places <= high)
    store(out, (np.clip(places, low, high) - zero) * scale)
    store(mask, kept)


def _faked_whole(v: Values) -> None:
    if not v[3]:
        store(v[6], v[0])
        store(v[7], True)
        return
    _faked(v[0], float(v[1].reshape(-1)[0]), float(v[2].reshape(-1)[0]), v[4], v[5], v[6], v[7])


row("AscendQuant", _quantised)
row("AscendQuantV3", _quantised)
row("Quantize", _to_fixed)
row("DynamicQuant", _by_row)
row("AscendAntiQuant", _from_quantised)
row("FakeQuantPerTensorAffineCachemask", _faked_whole)
row(
    "FakeQuantPerChannelAffineCachemask",
    lambda v: _faked(v[0], _along(v[1], v[0], v[3]), _along(v[2], v[0], v[3]), v[4], v[5], v[6], v[7]),
)

# ---- caches and positions ---------------------------------------------------------------------------------------------------------------


def _into_pages(function: str, rows: Array, cache: Array, slots: Array, mode: Any) -> None:
    """Rows of tokens to the places that the slots name, counted through all pages; slots below zero are left out."""
    if mode not in (None, "", "Norm") or slots.ndim != 1:
        raise BadInput(
            f"{function} with mode {mode!r} has no reference",
            cure="plain pages (page, place, head, width), one slot a token",
        )
    places = cache.reshape(-1, *cache.shape[2:])
    if not np.shares_memory(places, cache):
        raise BadInput(f"{function} into a cache with gaps has no reference", cure="a dense cache")
    kept = slots >= 0
    places[inside(slots[kept], len(places), function)] = rows[kept]


def _scatter_both(v: Values) -> None:
    if any(t is not None for t in v[5:8]):
        raise BadInput("aclnnScatterPaKvCache of compressed sequences has no reference", cure="leave the lengths out")
    _into_pages("aclnnScatterPaKvCache", v[0], v[1], v[2], v[8])
    _into_pages("aclnnScatterPaKvCache", v[3], v[4], v[2], v[8])


row("ScatterPaKvCache", _scatter_both)
row("ScatterPaCache", lambda v: _into_pages("aclnnScatterPaCache", v[0], v[1], v[2], v[6]))


def _turned(x: Array, cos: Array, sin: Array, size: int, neox: bool) -> Array:
    heads = real(x)[0].reshape(len(x), -1, size).copy()
    part = heads[..., : 2 * cos.shape[-1]]
    first, second = (
        (part[..., : cos.shape[-1]], part[..., cos.shape[-1] :]) if neox else (part[..., ::2], part[..., 1::2])
    )
    c, s = cos[:, None], sin[:, None]
    made = [first * c - second * s, second * c + first * s]
    heads[..., : 2 * cos.shape[-1]] = np.concatenate(made, -1) if neox else np.stack(made, -1).reshape(part.shape)
    return np.asarray(heads.reshape(x.shape))


def _by_cache(v: Values) -> None:
    if v[0].ndim != 1:
        raise BadInput(
            "aclnnRopeWithSinCosCache of several positions a token has no reference", cure="one position a token"
        )
    cos, sin = np.split(real(v[3])[0][inside(v[0], len(v[3]), "aclnnRopeWithSinCosCache")], 2, -1)
    for x, out in ((v[1], v[7]), (v[2], v[8])):
        store(out, _turned(x, cos, sin, v[5], bool(v[6])))


row("RopeWithSinCosCache", _by_cache)

# ---- experts ----------------------------------------------------------------------------------------------------------------------------


def _gated(v: Values) -> None:
    x = real(v[0])[0]
    given = {"k_group": v[3], "group_count": v[4], "group_select_mode": v[5], "renorm": v[6], "norm_type": v[7]}
    made, at = ops.golden("moe_gating_topk")(x, v[1], v[2], routed_scaling_factor=v[9], eps=v[10], **given)
    store(v[11], made)
    store(v[12], at)
    if v[8] and v[13] is not None:
        store(
            v[13],
            1 / (1 + np.exp(-x))
            if v[7] == 1
            else np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
        )


row("MoeGatingTopK", _gated)


def _grouped(function: str) -> Any:
    """Rows of groups by their own matrix each: one tensor of rows, its groups by counts or by ends."""
    names = [p.name.removesuffix("Optional").removesuffix("Out") for p in table()[function]]

    def fill(values: Values) -> None:
        a = dict(zip(names, values, strict=True))
        extras = [
            n
            for n in ("scale", "offset", "antiquantScale", "antiquantOffset", "perTokenScale", "activationInput")
            if a.get(n)
        ]
        if extras or a.get("actType") or a.get("groupType", 0) not in (0, -1):
            raise BadInput(
                f"{function} with {', '.join(extras) or 'an activation or other groups'} has no reference",
                cure="plain rows of groups",
            )
        outs = a.get("out") or a["y"]
        weights = [w[k] for w in a["weight"] for k in range(len(w))] if a["weight"][0].ndim == 3 else list(a["weight"])
        biases = (
            [b[k] for b in a["bias"] for k in range(len(b))]
            if a["bias"] and a["bias"][0].ndim == 2
            else list(a["bias"] or [])
        )
        if len(a["x"]) == len(weights):
            parts = [real(x)[0] for x in a["x"]]
        else:
            ends = np.asarray(a["groupList"], np.int64).reshape(-1)
            ends = np.cumsum(ends) if a.get("groupListType") == 1 else ends
            parts = np.split(real(a["x"][0])[0][: ends[-1]], ends[:-1])
        made = [
            p @ real(w)[0] + (real(biases[n])[0] if biases else 0)
            for n, (p, w) in enumerate(zip(parts, weights, strict=True))
        ]
        if len(outs) == len(made):
            for out, one in zip(outs, made, strict=True):
                store(out, one)
        else:
            joined = np.concatenate(made)
            store(outs[0][: len(joined)], joined)
            store(outs[0][len(joined) :], 0)

    return fill


for _name in ("GroupedMatmul", "GroupedMatmulV4", "GroupedMatmulV5"):
    row(_name, _grouped(f"aclnn{_name}"))

# ---- a cell of a long short-term memory ---------------------------------------------------------------------------------------------------


def _cell(gates: Any, cx: Any) -> tuple[Any, Any, Any]:
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = T.sigmoid(i), T.sigmoid(f), T.tanh(g), T.sigmoid(o)
    cy = f * cx + i * g
    return o * T.tanh(cy), cy, T.cat((i, f, g, o), 1)


def _cell_forward(x: Any, h: Any, cx: Any, b1: Any, b2: Any) -> Any:
    gates = x + h + (0 if b1 is None else b1) + (0 if b2 is None else b2)
    return _cell(gates, cx)


def _cell_backward(v: Values) -> None:
    gh, gc, cx, cy, kept = map(tensor, v[:5])
    i, f, g, o = kept.chunk(4, 1)
    bent = T.tanh(cy)
    inner = T.zeros_like(cx) if gc is None else gc
    inner = inner if gh is None else inner + gh * o * (1 - bent * bent)
    go = T.zeros_like(cx) if gh is None else gh * bent
    made = T.cat((inner * g * i * (1 - i), inner * cx * f * (1 - f), inner * i * (1 - g * g), go * o * (1 - o)), 1)
    put(v[6], made)
    put(v[7], inner * f)
    if v[5]:
        put(v[8], made.sum(0))


via("ThnnFusedLstmCell", _cell_forward, outs=3)
row("ThnnFusedLstmCellBackward", _cell_backward)
