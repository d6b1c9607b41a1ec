"""paged_attention: the rules it checks, and a schedule that covers every token once and fills all cores evenly."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from toprope import ops, soc
from toprope.errors import BadArgument

CHIP = soc.load("ascend910b1")
HOST = ops.host("paged_attention")
GOOD: dict[str, np.ndarray[Any, Any]] = {
    "query": np.zeros((2, 8, 64), np.float16),
    "key_cache": np.zeros((5, 32, 2, 64), np.float16),
    "value_cache": np.zeros((5, 32, 2, 64), np.float16),
    "block_table": np.zeros((2, 3), np.int32),
    "context_lens": np.array([96, 1], np.int32),
}
REFUSED = [
    ({"query": np.zeros((2, 8, 64), np.float32)}, "of one type"),
    ({"query": np.zeros((16, 64), np.float16)}, "(batch, heads, head size)"),
    ({"value_cache": np.zeros((5, 32, 2, 128), np.float16)}, "both caches"),
    ({"query": np.zeros((2, 7, 64), np.float16)}, "whole number of query heads"),
    ({"query": np.zeros((2, 34, 64), np.float16)}, "at most 16"),
    ({"block_table": np.zeros((2, 3), np.int64)}, "int32"),
    ({"context_lens": np.array([97, 1], np.int32)}, "room for 0 to 96"),
    ({"context_lens": np.array([-1, 1], np.int32)}, "room for 0 to 96"),
]


@pytest.mark.parametrize(("changed", "rule"), REFUSED)
def test_a_broken_rule_is_named_at_tiling_time(changed: dict[str, Any], rule: str) -> None:
    with pytest.raises(BadArgument) as refused:
        HOST.plan("optimised", CHIP, *(GOOD | changed).values())
    assert rule in str(refused.value)


def test_head_size_and_page_size_are_checked() -> None:
    caches = {name: np.zeros((5, 24, 2, 64), np.float16) for name in ("key_cache", "value_cache")}
    with pytest.raises(BadArgument, match="multiple of 16"):
        HOST.plan("optimised", CHIP, *(GOOD | caches).values())
    narrow = {n: a[..., :48].copy() for n, a in GOOD.items() if n.endswith(("query", "cache"))}
    with pytest.raises(BadArgument, match="head size 48"):
        HOST.plan("optimised", CHIP, *(GOOD | narrow).values())


@pytest.mark.parametrize("lengths", [[1], [0, 0], [5000], [100, 0, 4000, 17], list(range(1, 4000, 131))])
@pytest.mark.parametrize("kv_heads", [1, 8])
def test_the_schedule_covers_every_token_once_and_shares_them_out(lengths: list[int], kv_heads: int) -> None:
    plan = HOST.schedule(np.array(lengths), kv_heads, 24)
    seen = {(s, h): 0 for s in range(len(lengths)) for h in range(kv_heads)}
    for sequence, head, first, tokens in plan["tasks"]:
        assert first == seen[sequence, head] and 0 < tokens <= HOST.TASK
        seen[sequence, head] += tokens
    assert list(seen.values()) == [n for n in lengths for _ in range(kv_heads)]
    begins, heads = plan["cores"], plan["heads"]
    assert len(begins) <= 25 and (np.diff(begins) >= 0).all() and begins[-1] == heads[-1] == len(plan["tasks"])
    assert len(heads) == len(lengths) * kv_heads + 1
    costs = plan["tasks"][:, 3] + np.where(plan["tasks"][:, 2] == 0, HOST.TASK_COST, 0)
    most = max((costs[a:b].sum() for a, b in itertools.pairwise(begins)), default=0)
    assert most <= costs.sum() / 24 + 2 * HOST.TASK_COST
