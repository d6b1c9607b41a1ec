"""References of aclnn functions, by torch: attention with its gradients, rotary positions, and the routing of mixtures of experts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from toprope.errors import BadInput
from toprope.toolkit.functions import Values, row, store
from toprope.toolkit.operator_library import table
from toprope.toolkit.through_torch import T, gradients, put, tensor, via

# ---- attention: everything by name, because the versions differ in what stands between -------------------------------------------------


def _named(function: str, values: Values) -> dict[str, Any]:
    """The arguments of a call by the names of the table, lower case, without Optional, Out, In and Ref behind them."""
    out: dict[str, Any] = {}
    for parameter, value in zip(table()[function], values, strict=True):
        name = re.sub(r"(Optional|Out|In|Ref)+$", "", parameter.name) or parameter.name
        out.setdefault(name.lower(), value)
    return out


def _heads_first(x: Any, layout: str, heads: int) -> Any:
    """A tensor as (batch, heads, length, width)."""
    if layout == "BSH":
        return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)
    if layout == "SBH":
        return x.reshape(x.shape[0], x.shape[1], heads, -1).permute(1, 2, 0, 3)
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "BNSD":
        return x
    if layout == "TND":
        return x.transpose(0, 1)[None]
    raise BadInput(f"layout {layout} has no reference", cure="BSH, SBH, BSND, BNSD or TND")


def _back(x: Any, layout: str, shape: Sequence[int]) -> Any:
    if layout == "SBH":
        return x.permute(2, 0, 1, 3).reshape(shape)
    if layout == "TND":
        return x[0].transpose(0, 1).reshape(shape)
    return x.reshape(shape) if layout == "BNSD" else x.transpose(1, 2).reshape(shape)


def _hidden(mask: Any, mode: int, q: int, k: int, before: int, after: int) -> Any:
    """Where attention does not look (true); None: everywhere. `mode` as the vendor numbers them."""
    rows, columns = T.arange(q)[:, None], T.arange(k)[None]
    if mode in (0, 1):
        found = None if mask is None else mask.bool()
        if mode == 0 and (before < q or after < k):
            band = (columns > rows + after) | (columns < rows - before)
            found = band if found is None else found | band
        return found
    if mode == 2:
        return columns > rows
    if mode == 3:
        return columns > rows + (k - q)
    if mode == 4:
        return (columns > rows + (k - q) + after) | (columns < rows + (k - q) - before)
    raise BadInput(f"sparse mode {mode} has no reference", cure="modes 0 to 4 have one")


def _attention(q: Any, k: Any, v: Any, scale: float, hidden: Any, shift: Any) -> tuple[Any, Any, Any]:
    """Attention of (batch, heads, length, width): its result, and the maximum and the sum of each row."""
    groups = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(groups, 1) if groups > 1 else t for t in (k, v))
    scores = q @ k.transpose(-1, -2)
    scores = scores * scale if shift is None else (scores + shift / scale) * scale
    if hidden is not None:
        hidden = hidden.reshape((1,) * (4 - hidden.ndim) + tuple(hidden.shape)) if hidden.ndim < 4 else hidden
        scores = scores.masked_fill(hidden[..., : q.shape[2], : k.shape[2]], -1e30)
    most = scores.amax(-1, keepdim=True)
    raised = T.exp(scores - most)
    if hidden is not None:
        raised = raised * (scores > -1e29)
    total = raised.sum(-1, keepdim=True)
    return (raised / total.clamp_min(1e-30)) @ v, most, total


def _spans(ends: Any) -> list[tuple[int, int]]:
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _one_call(a: dict[str, Any], q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """The attention of one call on torch tensors in their layout; in TND piece by piece."""
    layout, heads = a["inputlayout"], int(a["headnum"])
    shift = a.get("realshift", a.get("pseshift"))
    shift, mask = tensor(shift), tensor(a.get("attenmask"))
    options = int(a["sparsemode"]), int(a["pretokens"]), int(a["nexttokens"])
    if layout != "TND":
        width = q.shape[-1] // heads if layout in ("BSH", "SBH") else q.shape[-1]
        others = k.shape[-1] // width if layout in ("BSH", "SBH") else 0
        parts = [_heads_first(q, layout, heads), *(_heads_first(t, layout, others) for t in (k, v))]
        hidden = _hidden(mask, options[0], parts[0].shape[2], parts[1].shape[2], *options[1:])
        made, most, total = _attention(parts[0], parts[1], parts[2], a["scalevalue"], hidden, shift)
        shape = (
            (*q.shape[:-1], heads * parts[2].shape[-1]) if layout in ("BSH", "SBH") else (*q.shape[:-1], v.shape[-1])
        )
        return _back(made, layout, shape), most, total
    results: list[tuple[Any, Any, Any]] = []
    for (a0, a1), (b0, b1) in zip(_spans(a["actualseqqlen"]), _spans(a["actualseqkvlen"]), strict=True):
        parts = [_heads_first(t, "TND", heads) for t in (q[a0:a1], k[b0:b1], v[b0:b1])]
        hidden = _hidden(mask, options[0], a1 - a0, b1 - b0, *options[1:])
        made, most, total = _attention(parts[0], parts[1], parts[2], a["scalevalue"], hidden, shift)
        results.append((made[0].transpose(0, 1), most[0].transpose(0, 1), total[0].transpose(0, 1)))
    joined = [T.cat([r[n] for r in results]) for n in range(3)]
    return joined[0], joined[1], joined[2]


def _refuse_rest(function: str, a: dict[str, Any], *names: str) -> None:
    for name in names:
        given = a.get(name)
        absent = given is None or (isinstance(given, list) and not given)
        if not absent and not (name == "keepprob" and a[name] == 1):
            raise BadInput(f"{function} with {name} has no reference", cure=f"leave {name} out")


_UNUSED = ("dropmask", "paddingmask", "prefix", "keepprob", "sink", "queryrope", "keyrope")


def _forward(function: str) -> Any:
    def fill(values: Values) -> None:
        a = _named(function, values)
        _refuse_rest(function, a, *_UNUSED)
        made, most, total = _one_call(a, *(tensor(a[n]) for n in ("query", "key", "value")))
        put(a["attention"], made)
        for place, value in ((a["softmaxmax"], most), (a["softmaxsum"], total)):
            if place is not None and place.size:
                put(place, value.expand(*value.shape[:-1], 8))  # the vendor's rows are eight wide

    return fill


def _backward(function: str) -> Any:
    def fill(values: Values) -> None:
        a = _named(function, values)
        _refuse_rest(function, a, *_UNUSED)
        given = [tensor(a[n]) for n in ("query", "key", "value")]
        for place, made in zip(
            (a["dq"], a["dk"], a["dv"]), gradients(lambda *t: _one_call(a, *t)[0], given, tensor(a["dy"])), strict=True
        ):
            put(place, made)

    return fill


for _name in table():
    if _name.startswith(("aclnnFlashAttentionScoreGrad", "aclnnFlashAttentionUnpaddingScoreGrad")):
        row(_name.removeprefix("aclnn"), _backward(_name))
    elif _name.startswith(("aclnnFlashAttentionScore", "aclnnFlashAttentionVarLenScore")):
        row(_name.removeprefix("aclnn"), _forward(_name))


def _inference(function: str) -> Any:
    """Attention for inference: lengths of each sequence, pages of keys and values; what is quantised has no reference."""

    def fill(values: Values) -> None:
        a = _named(function, values)
        _refuse_rest(
            function,
            a,
            *(
                n
                for n in a
                if ("scale" in n and n != "scalevalue")
                or "offset" in n
                or "prefix" in n
                or ("rope" in n and "mode" not in n)
            ),
        )
        layout, heads = a["inputlayout"].split("_")[0], int(a["numheads"])
        q, keys, vals = tensor(a["query"]), a["key"], a["value"]
        keys, vals = (t if isinstance(t, list) else [t] for t in (keys, vals))
        if layout not in ("BSH", "BSND", "BNSD") or len(keys) != 1:
            raise BadInput(
                f"{function} with layout {layout} and {len(keys)} tensors of keys has no reference",
                cure="BSH, BSND or BNSD, one tensor",
            )
        others = int(a.get("numkeyvalueheads") or heads) or heads
        whole = _heads_first(q, layout, heads)
        pages = a.get("blocktable")
        lengths = a.get("actualseqlengthskv") or (
            a.get("actualseqlengths") if function.startswith("aclnnIncre") else None
        )
        mask, shift = tensor(a.get("attenmask")), tensor(a.get("pseshift"))
        mode, before, after = (
            int(a.get("sparsemode") or 0),
            int(a.get("pretokens", 1 << 31)),
            int(a.get("nexttokens", 1 << 31)),
        )
        parts = []
        for n in range(whole.shape[0]):
            k, v = (
                _paged(tensor(t[0]), pages[n], others)
                if pages is not None
                else _heads_first(tensor(t[0]), layout, others)[n]
                for t in (keys, vals)
            )
            length = k.shape[1] if not lengths else int(lengths[n if len(lengths) > 1 else 0])
            k, v = k[None, :, :length], v[None, :, :length]
            one = mask if mask is None or mask.shape[0] != whole.shape[0] or mask.ndim < 3 else mask[n : n + 1]
            hidden = _hidden(one, mode, whole.shape[2], length, before, after)
            parts.append(_attention(whole[n : n + 1], k, v, a["scalevalue"], hidden, shift)[0])
        out = a["attention"]
        put(out, _back(T.cat(parts), layout, out.shape))

    return fill


def _paged(cache: Any, pages: Any, heads: int) -> Any:
    """Keys or values of one sequence out of the pages of a cache, heads first."""
    chosen = cache[T.from_numpy(np.asarray(pages[pages >= 0], np.int64))]
    if cache.ndim == 4:  # page, head, place, width
        return chosen.permute(1, 0, 2, 3).reshape(heads, -1, cache.shape[-1])
    return chosen.reshape(-1, heads, cache.shape[-1] // heads).transpose(0, 1)


for _name in table():
    if _name.startswith(("aclnnPromptFlashAttention", "aclnnIncreFlashAttention", "aclnnFusedInferAttentionScore")):
        row(_name.removeprefix("aclnn"), _inference(_name))

# ---- rotary positions -------------------------------------------------------------------------------------------------------------------


def _rotated(x: Any, mode: int) -> Any:
    if mode == 0:  # halves
        a, b = x.chunk(2, -1)
        return T.cat((-b, a), -1)
    if mode == 1:  # neighbours
        return T.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    if mode == 2:  # quarters
        a, b, c, d = x.chunk(4, -1)
        return T.cat((-b, a, -d, c), -1)
    a, b = x[..., ::2], x[..., 1::2]  # neighbours in, halves out
    return T.cat((-b, a), -1)


def _rotary(x: Any, cos: Any, sin: Any, mode: int) -> Any:
    if mode == 3:
        return T.cat((x[..., ::2], x[..., 1::2]), -1) * cos + _rotated(x, 3) * sin
    return x * cos + _rotated(x, mode) * sin


def _rotary_gradient(g: Any, cos: Any, sin: Any, x: Any, mode: int) -> Any:
    given = T.zeros_like(g) if x is None else x
    made = gradients(lambda t, c, s: _rotary(t, c, s, mode), (given, cos, sin), g)
    return made if x is not None else (made[0], None, None)


via("RotaryPositionEmbedding", _rotary)
via("RotaryPositionEmbeddingGrad", _rotary_gradient, outs=3)
via("InterleaveRope", lambda x, cos, sin: _rotary(x, cos, sin, 3))


def _rotary_in_place(v: Values) -> None:
    mode = {"half": 0, "interleave": 1, "quarter": 2}[v[5]] if len(v) > 5 and v[5] else 0
    if v[4] not in (1, 2, 3, 4):
        raise BadInput(
            f"aclnnApplyRotaryPosEmb with layout {v[4]} has no reference", cure="1 is BSND, 2 SBND, 3 BNSD, 4 TND"
        )
    for place in v[:2]:
        put(place, _rotary(tensor(place), tensor(v[2]), tensor(v[3]), mode))


row("ApplyRotaryPosEmb", _rotary_in_place)
row("ApplyRotaryPosEmbV2", _rotary_in_place)

# ---- mixtures of experts ----------------------------------------------------------------------------------------------------------------


def _gating(v: Values) -> None:
    x, finished, k = tensor(v[0]), v[1], v[2]
    chances = T.softmax(x, -1)
    most, at = chances.topk(k, -1)
    if finished is not None:
        at = at.masked_fill(T.from_numpy(finished.astype(bool))[..., None], x.shape[-1])
    renorm = len(v) > 6 and v[3]
    put(v[-3], T.softmax(x.gather(-1, most.argsort(-1) * 0 + chances.topk(k, -1).indices), -1) if renorm else most)
    put(v[-2], at)
    if len(v) == 6:
        rows = x.shape[:-1].numel()
        put(v[-1], T.arange(rows * k).reshape(k, rows).T.reshape(at.shape))
    elif v[4]:
        put(v[-1], chances)


def _permuted_tokens(v: Values) -> None:
    tokens, at, count = v[0], v[1], v[2]
    if v[3]:
        raise BadInput("aclnnMoeTokenPermute with padding has no reference", cure="paddedMode=false")
    order = np.argsort(at.reshape(-1), kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    each = 1 if at.ndim == 1 else at.shape[1]
    chosen = order[: count or None]
    store(v[4], tokens[chosen // each])
    store(v[5], places)


def _gathered_tokens(tokens: Any, at: Any, chances: Any) -> Any:
    each = 1 if chances is None else chances.shape[1]
    inside = at < tokens.shape[0]
    chosen = tokens[at.clamp_max(tokens.shape[0] - 1)] * inside[:, None]
    chosen = chosen.reshape(-1, each, tokens.shape[1])
    return (chosen if chances is None else chosen * chances[..., None]).sum(1)


def _unpermuted_tokens(v: Values) -> None:
    if v[3]:
        raise BadInput("aclnnMoeTokenUnpermute with padding has no reference", cure="paddedMode=false")
    put(v[5], _gathered_tokens(tensor(v[0]), tensor(v[1]).long(), tensor(v[2])))


def _unpermuted_gradient(v: Values) -> None:
    tokens, g, at, chances = map(tensor, v[:4])
    if tokens is None:
        tokens = T.zeros((at.numel(), g.shape[1]))
    made = gradients(lambda t, c: _gathered_tokens(t, at.long(), c), (tokens, chances), g)
    put(v[6], made[0])
    if chances is not None:
        put(v[7], made[1])


def _permuted_gradient(v: Values) -> None:
    g, at, each = tensor(v[0]), tensor(v[1]).long(), v[2]
    inside = at < g.shape[0]
    chosen = g[at.clamp_max(g.shape[0] - 1)] * inside[:, None]
    put(v[4], chosen.reshape(-1, each, g.shape[1]).sum(1))


row("MoeGatingTopKSoftmax", _gating)
row("MoeGatingTopKSoftmaxV2", _gating)
row("MoeTokenPermute", _permuted_tokens)
row("MoeTokenPermuteGrad", _permuted_gradient)
row("MoeTokenUnpermute", _unpermuted_tokens)
row("MoeTokenUnpermuteGrad", _unpermuted_gradient)
row("MoeComputeExpertTokens", lambda v: store(v[2], np.searchsorted(v[0], np.arange(v[1]), side="right")))
