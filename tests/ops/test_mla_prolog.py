"""mla_prolog beyond its cases: rules named at tiling time, a cache of which other rows stay, every core has weights to read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops, soc
from toprope.errors import TopropeError

CORES = soc.load("ascend910b1").aic
NAMES = ("x", "w_dq", "w_uq", "w_dkv", "w_kr", "gamma_q", "gamma_kv", "cos", "sin", "slots")
SHAPES = ((3, 64), (64, 32), (32, 128), (64, 16), (64, 32), (32,), (16,), (3, 32), (3, 32), (3,))


def tensors() -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    made = {n: random.normal(size=s).astype(np.float16) for n, s in zip(NAMES, SHAPES, strict=True)}
    return made | {"slots": np.array([5, 0, 2], np.int32)}


@pytest.mark.parametrize(
    ("changed", "attributes", "rule"),
    [
        ({"x": np.zeros((3, 64), np.float32)}, {}, "x DT_FLOAT,"),
        ({"slots": np.zeros(3, np.int64)}, {}, "slots DT_INT64"),
        ({"slots": np.array([0, 1, 9], np.int32)}, {}, "rows 0 to 7"),
        ({"w_dkv": np.zeros((60, 16), np.float16)}, {}, "w_dkv"),
        ({"cos": np.zeros((2, 32), np.float16)}, {}, "cos"),
        ({}, {"heads": 3}, "3 heads"),
        ({}, {"epsilon": 0.0}, "epsilon"),
        ({"x": np.zeros((3, 64, 1), np.float16)}, {}, "matrices that are not empty"),
        ({"w_kr": np.zeros((64, 24), np.float16), "cos": np.zeros((3, 24), np.float16)}, {}, "sin has another shape"),
        ({n: np.zeros((r, 24), np.float16) for n, r in (("w_kr", 64), ("cos", 3), ("sin", 3))}, {}, "a multiple of 16"),
    ],
)
def test_a_broken_rule_is_named(changed: dict[str, Any], attributes: dict[str, Any], rule: str) -> None:
    given = tensors() | changed
    with pytest.raises(TopropeError) as refused:
        ops.operator("mla_prolog").tiling(
            shapes=[a.shape for a in given.values()],
            dtypes=[a.dtype.name for a in given.values()],
            values={"slots": given["slots"]},
            **({"heads": 2, "cache_rows": 8} | attributes),
        )
    assert rule in str(refused.value)


@pytest.mark.parametrize("version", ["optimised", "naive"])
def test_rows_of_the_cache_that_no_token_writes_stay(version: str) -> None:
    query, *caches = np.zeros((3, 128), np.float16), np.full((8, 16), 7, np.float16), np.full((8, 32), 7, np.float16)
    operator = ops.operator("mla_prolog", version)
    run = operator.run(*tensors().values(), heads=2, cache_rows=8, out=[query, *caches])
    written = [5, 0, 2]
    assert not [f for f in run.findings if f.severity == "error"]
    for cache in caches:
        assert np.all(np.delete(cache, written, axis=0) == 7)
        assert not np.any(np.all(cache[written] == 7, axis=1))


@pytest.mark.parametrize("tokens", [1, 128, 129, 1000])
def test_columns_of_a_tile_leave_no_core_without_weights(tokens: int) -> None:
    hidden, ranks = 7168, (1536, 512, 64)
    shapes = [(tokens, hidden), (hidden, ranks[0]), (ranks[0], 6144), *((hidden, r) for r in ranks[1:])]
    shapes += [(r,) for r in ranks[:2]] + [(tokens, ranks[2])] * 2 + [(tokens,)]
    found = ops.operator("mla_prolog").tiling(
        shapes=shapes, dtypes=["float16"] * 9 + ["int32"], heads=32, soc="ascend910b1"
    )
    for columns, all_columns in ((found.fields["downColumns"], sum(ranks)), (found.fields["upColumns"], 6144)):
        tiles = ops.ceil_div(all_columns, columns) * ops.ceil_div(tokens, 128)
        assert columns % 16 == 0
        assert columns <= 256
        assert tiles >= 0.8 * CORES
