"""paged_attention: the rules it checks, and a schedule that covers every token once and fills all cores evenly."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from toprope import ops, soc
from toprope.errors import TopropeError
from toprope.project.host import Tiling

CORES = soc.load("ascend910b1").aic
TASK, GRAIN, TASK_COST = 1024, 128, 256
GOOD: dict[str, np.ndarray[Any, Any]] = {
    "query": np.zeros((2, 8, 64), np.float16),
    "key_cache": np.zeros((5, 32, 2, 64), np.float16),
    "value_cache": np.zeros((5, 32, 2, 64), np.float16),
    "block_table": np.zeros((2, 3), np.int32),
    "context_lens": np.array([96, 1], np.int32),
}
REFUSED = [
    ({"query": np.zeros((2, 8, 64), np.float32)}, "query DT_FLOAT,"),
    ({"query": np.zeros((16, 64), np.float16)}, "(batch, heads, head size)"),
    ({"value_cache": np.zeros((5, 32, 2, 128), np.float16)}, "both caches"),
    ({"query": np.zeros((2, 7, 64), np.float16)}, "whole number of query heads"),
    ({"query": np.zeros((2, 34, 64), np.float16)}, "at most 16"),
    ({"block_table": np.zeros((2, 3), np.int64)}, "block_table DT_INT64"),
    ({"block_table": np.zeros((1, 3), np.int32)}, "int32 of shapes (2,"),
    ({"context_lens": np.array([97, 1], np.int32)}, "room for 0 to 96"),
    ({"context_lens": np.array([-1, 1], np.int32)}, "room for 0 to 96"),
]


def tiling(tensors: dict[str, np.ndarray[Any, Any]], version: str = "optimised") -> Tiling:
    arrays = list(tensors.values())
    return ops.operator("paged_attention", version).tiling(
        shapes=[a.shape for a in arrays], dtypes=[a.dtype.name for a in arrays], values=dict(tensors), soc="ascend910b1"
    )


@pytest.mark.parametrize("version", ["optimised", "naive"])
@pytest.mark.parametrize(("changed", "rule"), REFUSED)
def test_a_broken_rule_is_named_at_tiling_time(changed: dict[str, Any], rule: str, version: str) -> None:
    with pytest.raises(TopropeError) as refused:
        tiling(GOOD | changed, version)
    assert rule in str(refused.value)


def test_head_size_and_page_size_are_checked() -> None:
    caches = {name: np.zeros((5, 24, 2, 64), np.float16) for name in ("key_cache", "value_cache")}
    with pytest.raises(TopropeError, match="multiple of 16"):
        tiling(GOOD | caches)
    narrow = {n: a[..., :48].copy() for n, a in GOOD.items() if n.endswith(("query", "cache"))}
    with pytest.raises(TopropeError, match="head size 48"):
        tiling(GOOD | narrow)


@pytest.mark.parametrize("lengths", [[1], [0, 0], [5000], [100, 0, 4000, 17], list(range(1, 4000, 131))])
@pytest.mark.parametrize("kv_heads", [1, 8])
def test_the_parts_cover_every_token_once_and_are_even(lengths: list[int], kv_heads: int) -> None:
    pages = -(-max(lengths) // 128) or 1
    cache = np.zeros((1, 128, kv_heads, 64), np.float16)
    found = tiling(
        {
            "query": np.zeros((len(lengths), kv_heads, 64), np.float16),
            "key_cache": cache,
            "value_cache": cache,
            "block_table": np.zeros((len(lengths), pages), np.int32),
            "context_lens": np.array(lengths, np.int32),
        }
    )
    cores, fields = found.block_dim, found.fields
    begins = list(zip(*(fields[n][: cores + 1] for n in ("firstHead", "firstToken", "firstTask")), strict=True))
    ends = [lengths[h // kv_heads] for h in range(len(lengths) * kv_heads)]
    assert cores <= CORES and begins[0] == (0, 0, 0) and begins[-1][:2] == (len(ends), 0)
    assert all(token % GRAIN == 0 for _, token, _ in begins)
    costs = []
    for (head, token, task), (to_head, to_token, to_task) in itertools.pairwise(begins):
        pieces = [
            (token if h == head else 0, to_token if h == to_head else ends[h])
            for h in range(head, min(to_head + 1, len(ends)))
        ]
        assert all(a <= b for a, b in pieces)  # parts follow each other, so that every token is in one of them
        assert sum(-(-(b - a) // TASK) for a, b in pieces) == to_task - task
        costs.append(sum(b - a + (TASK_COST if a == 0 < b else 0) for a, b in pieces))
    assert max(costs) <= sum(costs) / CORES + 2 * TASK_COST


def test_many_tasks_of_many_cores_join() -> None:
    random = np.random.default_rng(0)
    lengths = np.array([3000, 0, 129, 2049], np.int32)
    table = random.permutation(4 * 24).reshape(4, 24).astype(np.int32)
    keys, values = (random.normal(0, 1, (96, 128, 2, 64)).astype(np.float16) for _ in range(2))
    query = random.normal(0, 1, (4, 6, 64)).astype(np.float16)
    call = ops.operator("paged_attention").run(query, keys, values, table, lengths)
    wanted = ops.golden("paged_attention")(*(a.astype(np.float64) for a in (query, keys, values)), table, lengths)
    assert call.tiling.block_dim == CORES and not [f for f in call.findings if f.severity == "error"]
    assert np.abs(call.outputs["out"] - wanted).max() < 2e-3
