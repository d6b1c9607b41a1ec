"""compare(), the metrics under it, and the standards table."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toprope.testing import compare, standards
from toprope.testing.compare import error_map, unwritten
from toprope.testing.elements import ordinals
from toprope.testing.errors import StandardError
from toprope.testing.metrics import ElementTest, Measures, bad_elements, measure

SMALL_FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def plain_metrics(a, g):
    """The textbook formulas, one at a time, on whole arrays in float64."""
    x, y = a.astype(np.float64), g.astype(np.float64)
    d = x - y
    relative = np.abs(d) / (np.abs(y) + 1e-7)
    return {
        "max_abs": np.abs(d).max(),
        "mean_abs": np.abs(d).mean(),
        "bias": d.mean(),
        "rmse": math.sqrt((d * d).mean()),
        "mare": relative.max(),
        "mere": relative.mean(),
        "snr_db": 10 * math.log10((y * y).sum() / (d * d).sum()),
        "psnr_db": 20 * math.log10(np.abs(y).max() / math.sqrt((d * d).mean())),
        "cosine": x @ y / math.sqrt((x @ x) * (y @ y)),
    }


@pytest.mark.parametrize("name", ["float64", "float32", *SMALL_FLOATS])
@pytest.mark.parametrize("size", [1, 7, 32768, 100_001])
def test_metrics_match_the_textbook(name, size):
    random = np.random.default_rng(size)
    golden = random.normal(size=size)
    actual = (golden * (1 + 1e-2 * random.normal(size=size))).astype(dtype(name))
    got = measure(actual, golden).metrics()
    for metric, expected in plain_metrics(actual, golden).items():
        assert got[metric] == pytest.approx(expected, rel=1e-9, abs=1e-15), metric


def test_pieces_and_threads_do_not_change_the_figures():
    random = np.random.default_rng(1)
    golden = random.normal(size=1 << 20).astype(np.float32)
    actual = golden + random.normal(size=golden.size).astype(np.float32) * np.float32(1e-3)
    whole = measure(actual, golden).metrics()
    assert whole == measure(actual, golden).metrics()
    parts = Measures()
    for piece in np.array_split(np.arange(golden.size), 5):
        parts.add(measure(actual[piece], golden[piece]))
    for name, value in parts.metrics().items():
        assert whole[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("name", [*SMALL_FLOATS, "float32", "float64"])
def test_one_step_is_one_ulp(name):
    """Every finite 16-bit or 8-bit value and its successor; a sample of the wider ones."""
    kind = dtype(name)
    if kind.itemsize <= 2:
        bits = np.arange(1 << 8 * kind.itemsize, dtype=np.uint64).astype(f"u{kind.itemsize}")
        with np.errstate(invalid="ignore"):
            values = np.unique(bits.view(kind).astype(np.float64))
        values = values[np.isfinite(values)]
    else:
        base = np.array([1.0, 3e-30, 7e20, 5e-310 if name == "float64" else 1e-40], dtype=kind)
        values = np.unique(np.concatenate([base, np.nextafter(base, kind.type(np.inf))]).astype(np.float64))
        values = np.concatenate([-values[::-1], values])
        steps = np.diff(ordinals(values.astype(kind)).astype(np.int64))
        assert np.count_nonzero(steps == 1) == 2 * base.size
        return
    assert np.array_equal(np.diff(ordinals(values.astype(kind)).astype(np.int64)), np.ones(values.size - 1))


def test_four_bit_float_is_ordered():
    values = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn)
    order = np.argsort(ordinals(values), kind="stable")
    assert np.all(np.diff(values.astype(np.float32)[order]) >= 0)
    assert ordinals(values)[0] == ordinals(values)[8] == 0


def test_zero_signs_are_equal_in_value_and_differ_in_bits():
    minus, plus = np.array([-0.0, 1], np.float32), np.array([0.0, 1], np.float32)
    assert compare(minus, plus).metrics["max_ulp"] == 0
    verdict = compare(minus, plus, "binary")
    assert not verdict.passed and verdict.bad[0].index == (0,)


def test_integers_are_exact_over_the_whole_range():
    low, high = np.array([-(2**63), 5]), np.array([2**63 - 1, 5])
    verdict = compare(low, high)
    assert verdict.metrics["max_abs"] == float(2**64) and verdict.metrics["unequal"] == 1
    big = np.array([2**63 + 1], dtype=np.uint64)
    assert compare(big, big - np.uint64(1)).metrics["max_abs"] == 1.0
    assert not compare(big, big - np.uint64(1), "binary").passed
    assert compare(np.array([True, False]), np.array([True, True])).metrics["unequal"] == 1


@pytest.mark.parametrize("name", ["float32", *SMALL_FLOATS[:3]])
def test_places_of_nan_and_infinity(name):
    kind = dtype(name)
    good = np.array([1.0, np.nan, 2.0], dtype=kind)
    assert compare(good, good).passed and compare(good, good, "binary").passed
    moved = np.array([np.nan, 1.0, 2.0], dtype=kind)
    verdict = compare(moved, good)
    assert not verdict.passed
    assert verdict.metrics["special_mismatches"] == 2 and verdict.metrics["max_abs"] == math.inf
    assert {e.index for e in verdict.bad} == {(0,), (1,)}


def test_infinity_is_judged_in_the_dtype_of_the_result():
    golden = np.array([70000.0, -np.inf, 1.0])
    assert compare(np.array([np.inf, -np.inf, 1.0], np.float16), golden).passed
    assert not compare(np.array([np.inf, np.inf, 1.0], np.float16), golden).passed
    assert not compare(np.array([np.inf, -np.inf, 1.0], np.float32), golden).passed


@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=20))
@settings(max_examples=80, deadline=None)
def test_any_pair_of_floats_gives_figures_without_nan(pairs):
    actual, golden = (np.array(side, dtype=np.float32) for side in zip(*pairs, strict=True))
    verdict = compare(actual, golden)
    assert not any(math.isnan(v) for v in verdict.metrics.values())
    assert compare(golden, golden).passed
    assert sum(verdict.histogram.values()) + verdict.metrics["agreeing_specials"] == len(pairs)
    assert str(verdict)


def test_a_standard_is_as_strict_as_it_says():
    golden = np.full(1000, 1.0)
    for name, dtype_name, inside, outside in [
        ("stat-rel-err", "float32", 1.2e-4, 1.3e-4),
        ("unit-test", "float32", 0.9e-4, 1.1e-4),
        ("verify-result", "float16", 1.9e-3, 2.9e-3),
        ("catlass", "float32", 0.0039, 0.0040),
        ("catlass-deep", "float32", 0.0077, 0.0079),
        ("torch-npu", "float32", 0.9e-4, 1.1e-4),
        ("msprobe-absolute", "float32", 9e-7, 1.1e-6),
        ("mixed", "float32", 9.8e-4, 1.1e-3),
    ]:
        kind = np.dtype(dtype_name)
        assert compare((golden + inside).astype(kind), golden, name).passed, name
        assert not compare((golden + outside).astype(kind), golden, name).passed, name


def test_mixed_lets_one_percent_lie_outside_unless_the_error_is_huge():
    golden = np.ones(1000)
    actual = golden.astype(np.float32)
    actual[:10] += np.float32(5e-3)
    assert compare(actual, golden).passed
    actual[10] += np.float32(5e-3)
    assert not compare(actual, golden).passed
    actual = golden.astype(np.float32)
    actual[0] = 2
    verdict = compare(actual, golden)
    assert not verdict.passed and verdict.bad[0].actual == 2
    # A large value may be off by more than the absolute limit as long as it is within 32 ULP.
    assert compare(np.float32([1e9 + 64]), np.array([1e9])).passed


def test_ratio_standards_compare_with_a_competitor():
    random = np.random.default_rng(3)
    golden = random.normal(size=5000)
    competitor = golden.astype(np.float16)
    worse = (golden * (1 + random.normal(size=5000) * 4e-3)).astype(np.float16)
    assert compare(competitor, golden, "benchmark-l2", competitor=competitor).passed
    verdict = compare(worse, golden, "benchmark-l2", competitor=competitor)
    assert not verdict.passed and verdict.metrics["normal_mere_ratio"] > 10
    with pytest.raises(StandardError, match="competitor"):
        compare(worse, golden, "benchmark-l1")


def test_cann_bench_excuses_cancellation_that_the_reference_shares():
    golden = np.array([1e-3, 1.0, 2.0])
    actual = np.array([2e-3, 1.0, 2.0], np.float32)
    assert compare(actual, golden, "cann-bench", competitor=actual).passed
    assert not compare(actual, golden, "stat-rel-err").passed
    beyond = np.array([1e-3, 1.0, 2.1], np.float32)
    assert not compare(beyond, golden, "cann-bench", competitor=beyond).passed


def test_every_standard_accepts_golden_itself_and_states_its_source():
    for name, entry in standards().items():
        assert entry.source and entry.title
        covered = 0
        for kind in ("float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "int32", "bool", "complex64"):
            values = np.array([1, 0, 1]).astype(dtype(kind))
            try:
                verdict = compare(values, values, name, competitor=values)
            except StandardError:
                continue
            covered += 1
            assert verdict.passed, (name, kind)
        assert covered, name


def test_names_of_other_tools_and_overridden_limits():
    golden = np.ones(4)
    actual = np.full(4, 1.004, np.float32)
    assert compare(golden.astype(np.float32), golden, "binary_equal").standard == "binary"
    assert not compare(actual, golden, "isclose").passed
    assert compare(actual, golden, "isclose", rtol=5e-3).passed
    with pytest.raises(StandardError, match="known"):
        compare(actual, golden, "no-such-standard")
    with pytest.raises(StandardError, match="float32"):
        compare(actual, golden, "quant")


def test_quantised_output_may_be_one_step_off():
    golden = np.array([1, 2, 3])
    assert compare(np.int8([2, 2, 3]), golden, "quant").passed
    assert not compare(np.int8([3, 2, 3]), golden, "quant").passed


def test_shape_mismatch_is_a_failed_verdict():
    verdict = compare(np.zeros((2, 3), np.float32), np.zeros((3, 2)))
    assert not verdict.passed and "[2, 3]" in verdict.summary() and "[3, 2]" in str(verdict)


def test_empty_and_scalar_tensors():
    assert compare(np.zeros((0, 4), np.float32), np.zeros((0, 4))).passed
    verdict = compare(np.float32(1.5), 1.0)
    assert not verdict.passed and verdict.bad[0].index == ()


def test_complex_numbers_count_as_two_floats():
    golden = np.array([1 + 1j, 2 - 2j])
    actual = golden.astype(np.complex64)
    actual[1] += 1j
    verdict = compare(actual, golden)
    assert verdict.metrics["size"] == 4 and not verdict.passed and verdict.bad[0].index == (1,)


def test_explanation_names_the_bad_element():
    golden = np.linspace(1, 2, 200).reshape(10, 20)
    actual = golden.astype(np.float32)
    actual[7, 3] = 9
    text = str(compare(actual, golden))
    assert "FAILED" in text and "[7, 3]" in text and f"{golden[7, 3]:.9g}" in text


def test_error_map_points_at_the_corner():
    golden = np.ones((4, 30, 100))
    actual = golden.astype(np.float32)
    actual[3, 29, 99] = np.nan
    actual[0, 0, 0] = 1.5
    grid = error_map(actual, golden, rows=6, columns=10)
    assert grid.shape == (6, 10) and grid[-1, -1] == math.inf and grid[0, 0] == pytest.approx(0.5)
    assert np.count_nonzero(grid) == 2
    assert error_map(np.zeros(3), np.zeros(3)).shape == (1, 3)
    assert error_map(np.zeros(10_000), np.zeros(10_000), 8, 20).shape == (8, 20)


def test_bad_elements_stop_at_the_limit():
    golden = np.zeros(100_000)
    actual = np.ones(100_000, np.float32)
    assert bad_elements(actual, golden, ElementTest("band"), 5).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.torch
def test_torch_tensors_of_every_width():
    torch = pytest.importorskip("torch")
    x = torch.linspace(-3, 3, 50)
    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn):
        verdict = compare(x.to(kind), x.double())
        assert verdict.passed and verdict.dtype == str(kind).removeprefix("torch.")


def test_bits_of_a_nan_that_an_input_holds_too_are_no_element_that_was_not_written():
    untouched = np.full(4, 0xFFFF, np.uint16).view(np.float16)
    untouched[0] = 1.0
    assert unwritten(untouched) == 3
    assert unwritten(untouched, [np.ones(4, np.float32), 7, None]) == 3
    assert unwritten(untouched, [np.array([1, 0xFFFF], np.uint16)]) == 0
    assert unwritten(untouched, [np.full(1, -1, np.int64)]) == 0
    assert unwritten(np.ones(4, np.float16), [np.full(1, -1, np.int64)]) == 0
