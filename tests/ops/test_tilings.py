"""What the hosts decide, without a launch: every element has one core, copies begin on lines, buffers fit UB, bands are about square."""

from __future__ import annotations

import pytest

from toprope import ops, soc

CHIPS = ("ascend910b1", "ascend910b4", "ascend910_9391")
SIZES = (1, 255, 257, 12_345, 1 << 20, 50_000_001)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_add_and_pow_give_each_element_to_one_core(chip: str, dtype: str) -> None:
    item = 2 if dtype == "float16" else 4
    for name in ("add", "pow"):
        operator = ops.operator(name)
        for size in SIZES:
            tiling = operator.tiling(shapes=[(size,), (size,)], dtypes=dtype, soc=chip)
            share = tiling.fields["coreLength"]
            assert tiling.block_dim <= soc.load(chip).aiv and tiling.fields["length"] == size
            assert (tiling.block_dim - 1) * share < size <= tiling.block_dim * share
            assert share * item % 512 == 0


@pytest.mark.parametrize("chip", CHIPS)
def test_tiles_of_add_fill_ub_and_not_more(chip: str) -> None:
    add, there = ops.operator("add"), soc.load(chip)
    for dtype, buffers in (
        ("float32", 6 * 4),
        ("float16", 6 * 2 + 2 * 4),
        ("bfloat16", 6 * 2 + 2 * 4),
        ("int32", 6 * 4),
    ):
        tiling = add.tiling(shapes=[(50_000_001,)] * 2, dtypes=dtype, soc=chip, alpha=2.0)
        assert 0.98 < tiling.fields["tileLength"] * buffers / there.bytes_of("ub") <= 1
        assert tiling.fields["bypassL2"] == (
            3 * 50_000_001 * (4 if "32" in dtype else 2) > there.number("memory.l2_bytes")
        )
        assert tiling.fields["alpha"] == 2.0


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 7001), (48, 512), (3000, 160), (100_000, 33)])
def test_cast_scale_bias_covers_rows_and_columns(rows: int, columns: int) -> None:
    operator, aiv = ops.operator("cast_scale_bias"), soc.load("ascend910b1").aiv
    tiling = operator.tiling(shapes=[(rows, columns), (columns,), (columns,)], dtypes=["int32", "float32", "float32"])
    fields = tiling.fields
    teams, rest = divmod(tiling.block_dim, fields["parts"])
    assert rest == 0 and tiling.block_dim <= aiv
    assert (teams - 1) * fields["coreRows"] < rows <= teams * fields["coreRows"]
    assert (fields["parts"] - 1) * fields["partColumns"] < columns <= fields["parts"] * fields["partColumns"]
    assert fields["tileRows"] <= min(fields["coreRows"], 255)


def test_blocks_of_matmul_share_the_work_evenly_and_the_first_rungs_have_none() -> None:
    shapes = [(4096, 4096), (4096, 4096)]
    rungs = {
        v: ops.operator("matmul", v).tiling(shapes=shapes)
        for v in ("naive", "buffered", "packets", "blocks", "kept", "optimised")
    }
    found = [tuple(t.fields[f] for f in ("partsM", "partsN", "bandTiles", "keepEvery")) for t in rungs.values()]
    assert (
        found == [(1, 1, 1, 0)] * 3 + [(3, 8, 11, 8)] * 3
    )  # 1,365 rows in 11 tiles by 2 x 256 columns; 8 of 64 steps are kept
    assert {t.block_dim for t in rungs.values()} == {24}
    assert ops.operator("matmul", "packets").tiling(shapes=[(100, 64), (64, 300)]).block_dim == 2  # a tile is 128 x 256


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (128, 512, 24576), (8192, 8192, 8192), (40_000, 64, 16), (17, 4000, 2000)]
)
def test_blocks_of_matmul_fit_the_chip(m: int, k: int, n: int) -> None:
    tiling, chip = ops.operator("matmul").tiling(shapes=[(m, k), (k, n)]), soc.load("ascend910b1")
    fields = tiling.fields
    assert tiling.block_dim == fields["partsM"] * fields["partsN"] <= chip.aic
    assert fields["partsM"] <= ops.ceil_div(m, 16) and fields["partsN"] <= ops.ceil_div(n, 64)  # nobody without work
    steps = ops.ceil_div(k, 64)
    assert fields["keepEvery"] == 0 or (k > 256 and ops.ceil_div(steps, fields["keepEvery"]) <= 8)  # so many fit L1
    rows = fields["bandTiles"] * fields["partsM"] * 128
    assert fields["bandTiles"] == 1 or rows * k * 2 <= chip.number("memory.l2_bytes") / 2
