"""Host side of moe_gating_topk: checks x, bias and the attributes, and decides how rows lie in UB and how many are worked on at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, c_type, ceil_div, outputs
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
TYPES = ("float32", "float16", "bfloat16")
SORTED = 32  # what Sort32 sorts; so many experts can be chosen at most
SORTED_WHOLE = 128  # rows up to this width are sorted as a whole: looking for their best blocks first does not pay
RESIDENT_WIDTH = 4096  # a row up to this width is done by one core
NAIVE_WIDTH = 8192
GROUPED_WIDTH = 1024
LEAST_PART = 4096  # experts of a part: below, another meeting of the cores takes longer than what it saves
REPEATS = 255  # of one instruction


def plan(
    version: str,
    soc: Soc,
    x: Array,
    bias: Array | None = None,
    *,
    cores_per_row: int = 0,
    k: int = 1,
    group_count: int = 1,
    k_group: int = 1,
    group_select_mode: int = 0,
    norm_type: int = 0,
    renorm: int = 0,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
) -> Plan:
    """The launch of a version ("optimised", "naive") for x of rows x experts.

    Outputs y (weights, like x) and expert_idx (int32), both rows x k. cores_per_row sets how many cores share a row; 0 leaves it to
    the host. Raises BadArgument where a rule is broken.
    """
    if x.dtype.name not in TYPES:
        raise BadArgument(f"moe_gating_topk of {x.dtype.name}", cure=f"convert x to one of {', '.join(TYPES)}")
    if x.ndim != 2:
        raise BadArgument(f"x has shape {x.shape}", cure="it must be (rows, experts)")
    rows, experts = x.shape
    if bias is not None and (bias.dtype != np.float32 or bias.shape != (experts,)):
        raise BadArgument(
            f"bias is {bias.dtype.name} of shape {bias.shape}",
            cure=f"give float32 of shape ({experts},), one per expert",
        )
    _check(experts, k, group_count, k_group, group_select_mode, norm_type, renorm)
    parts = 1
    if version == "optimised" and (cores_per_row > 1 or experts > RESIDENT_WIDTH):
        parts = cores_per_row or _parts(rows, experts, group_count, bias is not None, soc)
    part = ceil_div(ceil_div(experts, parts), SORTED) * SORTED if parts > 1 else experts
    tiling = layout(part, k, group_count, RESIDENT_WIDTH if version == "optimised" else NAIVE_WIDTH, x.itemsize)
    tiling |= {"rows": rows, "experts": experts, "k": k, "groups": group_count, "keptGroups": k_group}
    tiling |= {"topTwo": group_select_mode, "renorm": renorm, "sigmoid": norm_type, "biased": int(bias is not None)}
    tiling |= {"parts": parts, "partExperts": part}
    teams = max(1, min(rows, soc.aiv // parts))
    tiling["coreRows"] = max(1, ceil_div(rows, teams))
    whole = version == "optimised" and parts == 1
    tiling["tileRows"] = _tile_rows(tiling, x.itemsize, soc) if whole else 1
    blocks = max(1, ceil_div(rows, tiling["coreRows"])) if whole else teams * parts
    y, indices = np.empty((rows, k), x.dtype), np.empty((rows, k), np.int32)
    workspace = np.zeros(2 * blocks * (2 * tiling["keep"] + 16), np.float32) if parts > 1 else None
    fields: dict[str, int | float] = {**tiling, "scale": routed_scaling_factor, "epsilon": eps}
    entry = "moe_gating_topk" if version == "optimised" else "moe_gating_topk_naive"
    arguments = (x, bias, y, indices, workspace, fields)
    return Plan(entry, blocks, arguments, (y, indices), 1 if parts == 1 else 2, (f"DTYPE_X={c_type(x.dtype)}",))


def _parts(rows: int, experts: int, groups: int, biased: bool, soc: Soc) -> int:
    """How many cores share a row: enough that a part fits, and as many as rows leave free while parts are long enough."""
    if groups > 1 or biased:
        raise BadArgument(
            f"{experts} experts with groups or a bias", cure=f"rows of more than {RESIDENT_WIDTH} experts take neither"
        )
    least = ceil_div(experts, RESIDENT_WIDTH)
    if least > soc.aiv:
        raise BadArgument(f"{experts} experts", cure=f"at most {soc.aiv * RESIDENT_WIDTH} on this chip")
    return max(least, min(soc.aiv // max(1, rows), experts // LEAST_PART))


def _check(experts: int, k: int, groups: int, kept: int, mode: int, norm: int, renorm: int) -> None:
    if not 1 <= groups <= SORTED or experts % groups:
        raise BadArgument(
            f"{experts} experts in {groups} groups", cure=f"group_count divides the experts and is 1 to {SORTED}"
        )
    if not 1 <= kept <= groups:
        raise BadArgument(f"k_group {kept} of {groups} groups", cure="k_group is 1 to group_count")
    if mode not in (0, 1) or norm not in (0, 1) or renorm not in (0, 1):
        raise BadArgument(
            f"group_select_mode {mode}, norm_type {norm}, renorm {renorm}",
            cure="group_select_mode: 0 largest, 1 sum of the two largest; norm_type: 0 softmax, 1 sigmoid; renorm: 0 or 1",
        )
    if mode == 1 and experts // groups < 2:
        raise BadArgument("group_select_mode 1 adds the two best of a group of one", cure="use larger groups or mode 0")
    allowed = min(SORTED, experts // groups * kept)
    if not 1 <= k <= allowed:
        raise BadArgument(
            f"k = {k} of {experts // groups * kept} experts that may be chosen", cure=f"k is 1 to {allowed} here"
        )


def layout(experts: int, k: int, groups: int, widest: int, item_bytes: int) -> dict[str, int]:
    """How a row lies in UB, and how many entries of it are looked at and kept."""
    group_width = ceil_div(experts // groups, SORTED) * SORTED if groups > 1 else experts
    width = SORTED
    while width < groups * group_width:
        width *= 2
    most = widest if groups == 1 else GROUPED_WIDTH
    if width > most:
        raise BadArgument(
            f"{experts} experts in {groups} groups take {width} places",
            cure=f"at most {most}, groups rounded up to {SORTED} and their sum to a power of two",
        )
    blocks = 8
    while blocks < k:
        blocks *= 2
    keep = ceil_div(k, 8) * 8
    if keep != k and item_bytes == 2:
        keep = ceil_div(k, 16) * 16
    return {
        "width": width,
        "groupWidth": group_width,
        "blocks": blocks if width > SORTED_WHOLE else 0,
        "keep": keep,
    }


def _tile_rows(t: dict[str, int], item_bytes: int, soc: Soc) -> int:
    """As many rows as UB and the repeat counts of the instructions allow, but no more than a core has."""
    width, keep, blocks = t["width"], t["keep"], t["blocks"]
    wide = (item_bytes == 2) + (not t["sigmoid"] or t["biased"]) + bool(t["biased"] or t["groups"] > 1)
    sorted_first, near = (width // 8, blocks * 8) if blocks else (width, 0)
    entries = max(sorted_first, near, width if t["groups"] > 1 else 0, SORTED)
    floats = wide * width + width / 8 + 73 + 4 * entries + sorted_first + 3 * blocks + 2 * SORTED + 2 * near + 9 * keep
    floats += 64 + SORTED + 3 * blocks + (7 * SORTED if t["groups"] > 1 else 0)
    row_bytes = 2 * item_bytes * (width + keep) + 8 * keep + 4 * floats
    shared = 4 * (3 * width + 64 + 16 * keep) + (4 << 10)
    fit = int((soc.bytes_of("ub") - shared) / row_bytes)
    limit = REPEATS * 64 // width if blocks else REPEATS * SORTED // width
    if blocks:
        limit = min(limit, REPEATS * 4 // blocks)
    if t["groups"] > 1:
        limit = min(limit, REPEATS * SORTED // width)
    most = max(1, min(t["coreRows"], fit, limit, REPEATS))
    return ceil_div(t["coreRows"], ceil_div(t["coreRows"], most))  # tiles of one size


def optimised(x: Array, bias: Array | None = None, **attributes: Any) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "moe_gating_topk", "optimised", x, bias, **attributes)


def naive(x: Array, bias: Array | None = None, **attributes: Any) -> Any:
    """The same, naive version."""
    return outputs(plan, "moe_gating_topk", "naive", x, bias, **attributes)
