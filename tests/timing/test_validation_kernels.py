"""The kernels of the published rows compute what they claim to, and do the work that their sources publish."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from toprope.kernel import Run, load
from toprope.trace import PIPES
from toprope.validation import experiment

pytestmark = pytest.mark.compiler

KERNELS = experiment.HERE / "kernels"
ROWS = {f"{row.kernel}-{row.id}": row for row in experiment.published()}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def kernel(name: str, entry: str | None = None, **defines: Any) -> Any:
    return load(KERNELS / f"{name}.cpp", defines=tuple(f"{k}={v}" for k, v in defines.items()))[entry or name]


def shares(*numbers: int) -> np.ndarray:
    return np.array([*numbers, *[0] * (8 - len(numbers))], np.uint32)


def clean(run: Run, *known: str) -> None:
    assert [str(f) for f in run.findings if f.severity == "error" and f.code not in known] == []
    assert run.timeline.released_waits == 0


@pytest.mark.parametrize("operation", [0, 1, 2, 3])
def test_tiles(operation: int) -> None:
    rng, count = np.random.default_rng(operation), 3 * 256 + 96
    first = rng.integers(0, 2, count, np.uint8) if operation >= 2 else rng.standard_normal(count).astype(np.float16)
    second = rng.integers(0, 2, count, np.uint8) if operation == 2 else rng.standard_normal(count).astype(np.float16)
    third, out = rng.standard_normal(count).astype(np.float16), np.zeros_like(second)
    golden = {
        0: lambda: first * second,
        1: lambda: np.maximum(first, 0),
        2: lambda: first | second,
        3: lambda: np.where(first != 0, second, third),
    }[operation]()
    run = kernel("tiles", OPERATION=operation, TILE=256)[2](first, second, third, out, shares(2, 512, count - 512))
    clean(run)
    np.testing.assert_array_equal(out, golden)


def test_a_row_divided_by_its_number_and_a_number_spread_over_its_row() -> None:
    rng = np.random.default_rng(1)
    x, numbers, y = (rng.standard_normal(s).astype(np.float16) for s in ((12, 64), 12, (12, 64)))
    run = kernel("broadcast_rows", OPERATION=0, WIDTH=64, QUEUE_DEPTH=2, TILE=256)[2](x, numbers, y, shares(2, 8, 4, 0))
    clean(run)
    np.testing.assert_allclose(y, x / numbers[:, None], rtol=2e-3)
    run = kernel("broadcast_rows", OPERATION=1, WIDTH=64, QUEUE_DEPTH=1, TILE=256)[2](x, numbers, y, shares(2, 5, 5, 1))
    clean(run)
    np.testing.assert_array_equal(y[:11], np.repeat(numbers[:11, None], 64, 1))


@pytest.mark.parametrize("by_row", [0, 1])
def test_norm_rows(by_row: int) -> None:
    rng = np.random.default_rng(by_row)
    x, weight, bias = (rng.standard_normal(s).astype(np.float16) for s in ((24, 32), 32, 32))
    y = np.zeros_like(x)
    run = kernel("norm_rows", BY_ROW=by_row, TILE=256)[2](x, weight, bias, y, shares(2, 16, 8))
    clean(run, "race-missing-pipe-barrier")  # the published kernel loads its weights again without one
    wide = x.astype(np.float32)
    golden = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    if by_row:
        golden = golden * weight + bias
    np.testing.assert_allclose(y.astype(np.float32), golden, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("period", [0, 32])
def test_polar(period: int) -> None:
    rng = np.random.default_rng(period)
    x, angle = rng.standard_normal(640).astype(np.float32), rng.uniform(-3, 3, period or 640).astype(np.float32)
    out = np.zeros((640, 2), np.float32)
    clean(kernel("polar", TILE=256, PERIOD=period, BUFFERS=2)[2](x, angle, out, shares(352, 288, 1)))
    turned = x * np.exp(1j * np.resize(angle, 640).astype(np.float64))
    np.testing.assert_allclose(out[:, 0] + 1j * out[:, 1], turned, atol=1e-5)


@pytest.mark.parametrize("element", ["float", "half"])
def test_adam(element: str) -> None:
    rng = np.random.default_rng(2)
    kind = np.float16 if element == "half" else np.float32
    var, grad, m, v = (np.abs(rng.standard_normal((64, 512))).astype(kind) for _ in range(4))
    out = np.zeros_like(var)
    made = kernel("adam", ELEMENT=element, NARROW=int(element == "half"), BLOCK_M=64, BLOCK_N=256, SUB_M=32)
    clean(made[4](var, grad, m, v, out, 64, 512))
    var, grad, m, v = (a.astype(np.float64) for a in (var, grad, m, v))
    update = (0.9 * m + 0.1 * grad) / (np.sqrt(0.99 * v + 0.01 * grad**2) + 1e-8) + 0.01 * var
    np.testing.assert_allclose(out, var - 0.001 * update, rtol=1e-3 if element == "half" else 1e-5)


def test_gelu() -> None:
    x = np.random.default_rng(3).standard_normal(1024).astype(np.float32)
    y = np.zeros_like(x)
    clean(kernel("gelu", TILE=256)[2](x, y, x.size))
    np.testing.assert_allclose(y, x / (1 + np.exp(-1.59576912 * (x + 0.044715 * x**3))), atol=1e-4)


def test_gated_decode() -> None:
    rng = np.random.default_rng(4)
    batch, heads, values, n = 1, 8, 8, 128
    mixed = rng.standard_normal((batch, (2 * heads + values) * n)).astype(BFLOAT16)
    a, b = (rng.standard_normal((batch, values)).astype(BFLOAT16) for _ in range(2))
    logs, biases = (rng.standard_normal(values).astype(np.float32) for _ in range(2))
    state = rng.standard_normal((1, values, n, n)).astype(np.float32)
    old, out = state.astype(np.float64), np.zeros((batch, values, n), BFLOAT16)
    run = kernel("gated_decode")[1](mixed, a, b, logs, biases, state, np.zeros(1, np.int64), out, batch, heads, values)
    clean(run)
    for h in range(values):
        q, k, v = (
            mixed[0, (first + h) * n : (first + h + 1) * n].astype(np.float64) for first in (0, heads, 2 * heads)
        )
        q, k = (x / np.sqrt((x**2).sum() + 1e-6) for x in (q, k))
        beta = 1 / (1 + np.exp(-float(b[0, h])))
        x = float(a[0, h]) + float(biases[h])
        decay = np.exp(-np.exp(logs[h]) * max(x, np.log1p(np.exp(min(x, 20)))))
        now = decay * old[0, h]
        now = now + np.outer(beta * (v - now @ k), k)
        np.testing.assert_allclose(state[0, h], now, atol=2e-2)
        np.testing.assert_allclose(out[0, h].astype(np.float64), now @ (q * 0.088), atol=3e-2)


def test_batched_matmul() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((3, 256, 256)).astype(np.float16), rng.standard_normal((3, 256, 32)).astype(np.float16)
    c = np.zeros((3, 256, 32), np.float32)
    from toprope.validation.launches import _cube_tiling

    stated = {"usedCoreNum": 1, "M": 256, "N": 32, "Ka": 256, "Kb": 256, "singleCoreM": 256, "singleCoreN": 32, "singleCoreK": 256, "baseM": 256,
              "baseN": 32, "baseK": 64, "depthA1": 4, "depthB1": 4, "stepM": 1, "stepN": 1, "stepKa": 4, "stepKb": 4, "dbL0A": 2, "dbL0B": 2, "dbL0C": 1}  # fmt: skip
    clean(kernel("batched_matmul")[2](a, b, c, _cube_tiling(stated), 3))
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=0.1)


def test_the_last_tile_of_a_product_may_be_lower_and_narrower() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((80, 256)).astype(np.float16), rng.standard_normal((144, 256)).astype(np.float16)
    c = np.zeros((80, 144), np.float32)
    tiling = {
        "BASE_M": 64,
        "BASE_N": 128,
        "BASE_K": 64,
        "SINGLE_M": 64,
        "SINGLE_N": 128,
        "STEP_KA": 2,
        "STEP_KB": 2,
        "L1_BUFFERS": 2,
    }
    made = kernel("matmul", **tiling, UNIT_FLAG=1, CORES_M=1, TRANS_B=1, ZIGZAG=2, RESULT="float")
    clean(made[3](a, b, c, 80, 144, 256))
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, atol=0.1)


def work(name: str, part: int = 1) -> tuple[Run, dict[str, int], float, float]:
    """Instructions by pipe and the bytes that a launch reads and writes in GM."""
    run = experiment.launch(replace(ROWS[name], part=part))
    pipes = run.trace.instrs["pipe"]
    copies = np.array([op.kind == "copy" for op in run.trace.ops])[run.trace.instrs["op"]]
    counts = {pipe: int(((pipes == i) & copies).sum()) for i, pipe in enumerate(PIPES)}
    traffic = run.timeline.traffic
    return run, counts, traffic.l2_read_bytes, traffic.l2_write_bytes


@pytest.mark.parametrize(
    ("name", "megabytes", "copies"),
    [
        ("data_copy-s2", 301.99, 12288 * 12288 // (64 * 64)),
        ("data_copy-s3", 301.99, 12288 * 12288 // (64 * 1024)),
        ("data_copy-s5", 4 * 301.99, 4 * 12288 * 12288 // (64 * 1024)),
        ("data_copy-s7", 301.99, 48 * 6144 * 512 // (128 * 64)),
        ("data_copy-l2", 301.99, 12288 * 12288 // (64 * 256)),
    ],
)
def test_copies_move_what_the_source_publishes(name: str, megabytes: float, copies: int) -> None:
    """301.99 MB in the scenario's tiles (README of the data_copy example)."""
    _, counts, read, written = work(name)
    assert counts["MTE2"] == copies and written == 0
    assert read / 1e6 == pytest.approx(megabytes, rel=1e-4)


@pytest.mark.parametrize(("name", "share"), [("data_copy-s5", 0.00005), ("data_copy-s6", 0.75)])
def test_l2_hits_are_those_published(name: str, share: float) -> None:
    """Hit rates of 0.005 % and 75 % (README of the data_copy example, repeated reads)."""
    run, *_ = work(name)
    assert run.timeline.traffic.read_hit_share == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize(("name", "tile"), [("add-c2", 4096), ("add-c4", 16384), ("add-c6", 16256)])
def test_additions_load_twice_and_store_once_a_tile(name: str, tile: int) -> None:
    _, counts, read, written = work(name)
    rows = [8192 // 48 + (core < 8192 % 48) for core in range(48)]
    tiles = sum(-(-r * 8192 // tile) for r in rows)
    assert (counts["MTE2"], counts["MTE3"]) == (2 * tiles, tiles)
    assert (read, written) == (2 * 8192 * 8192 * 2, 8192 * 8192 * 2)


def test_reads_past_l2_leave_nothing_there() -> None:
    run, *_ = work("data_copy-s8")
    assert run.timeline.traffic.hbm_read_bytes == pytest.approx(48 * 6144 * 512 * 2, rel=1e-6)
