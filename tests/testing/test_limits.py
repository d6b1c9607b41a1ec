"""Every limit of the precision standards, written down once more and tried at the limit: just inside passes, just outside fails.

standards.toml is data that nothing else would contradict; a number that changes there must change here as well, on purpose. The figures are
those of the documents named as `source` in the table.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from toprope.testing import compare, standards
from toprope.testing.elements import dtype_of
from toprope.testing.metrics import ElementTest, bad_mask, measure

# standard -> (requirements, {row: (element tests' numbers, bounds)}). "exact": equal bits. A number is a limit as it is used in the end.
F4, F5, F6, F7, F8, F9 = (2.0**-n for n in (4, 5, 6, 7, 8, 9))
F10, F11, F13, F14, F16, F20, F30 = (2.0**-n for n in (10, 11, 13, 14, 16, 20, 30))
EXACT: Any = "exact"
BAND, REL, SCALED, ULP, SMALL, NORMAL, CANCEL = "band", "relative", "scaled", "ulp", "small", "normal", "cancelled"
SMALL_ROWS = {"float32": (F14, F30), "float16": (F11, F16), "bfloat16": (F8, F16)}


def ratio_rows(mare: float, mere: float, small: float | None) -> dict[str, Any]:
    bounds = {"normal_mare_ratio": mare, "normal_mere_ratio": mere, "normal_rmse_ratio": mere}
    bounds |= {"small_ratio": small} if small else {}
    return {
        name: ({SMALL: {"small": s, "atol": a}}, bounds, {"small": s, "cancel": 0.0})
        for name, (s, a) in SMALL_ROWS.items()
    }


def mean_rows(**thresholds: float) -> dict[str, Any]:
    return {name: ({}, {"mere": t, "mare": 10 * t}) for name, t in thresholds.items()}


def cann_bench(threshold: float, small: float, atol: float, cancel: float) -> Any:
    tests = {
        SMALL: {"small": small, "atol": atol},
        CANCEL: {"small": small, "cancel": cancel, "rtol": 10 * threshold},
    }
    bounds = {"normal_mere": threshold, "normal_mare": 10 * threshold, "small_ratio": 2, "cancelled_ratio": 2}
    return tests, bounds, {"small": small, "cancel": cancel}


def msopst_fine(rtol: float, atol: float, share: float, most: float) -> Any:
    return {BAND: {"rtol": rtol, "atol": atol}}, {"outside_share": share, "max_abs": most}


def torch_npu(precision: float, floor: float) -> Any:
    tests = {BAND: {"atol": precision}, REL: {"rtol": precision, "floor": floor}}
    return tests, {"absolute_share": precision, "relative_share": precision}


def mixed(rtol: float, atol: float, most: float) -> Any:
    return {BAND: {"rtol": rtol, "atol": atol}}, {"outside_share": 0.01, "max_abs": most, "max_ulp": 32}


def band(rtol: float, atol: float, share: float) -> Any:
    return {BAND: {"rtol": rtol, "atol": atol}}, {"outside_share": share}


PINNED: dict[str, dict[str, Any]] = {
    "mixed": {
        "float32": mixed(F10, F16, 1e-2),
        "float16": mixed(F9, F9, 1e-1),
        "bfloat16": mixed(F6, F6, 1.0),
        "float8_e4m3fn": mixed(0.25, F4, 1.0),
        "float8_e5m2": mixed(0.5, 0.125, 1e-1),
        "float4_e2m1fn": EXACT,
        "float8_e8m0fnu": EXACT,
        "float": mixed(F10, F16, 1e-2),
        "integer": EXACT,
    },
    "stat-rel-err": mean_rows(float32=F13, float16=F10, bfloat16=F7, float8_e4m3fn=0.125, float8_e5m2=0.25, float=F13)
    | {"integer": EXACT},
    "dual-thousandth": {
        name: ({REL: {"rtol": t}}, {"outside_share": t})
        for name, t in (("float32", 1e-4), ("float16", 1e-3), ("bfloat16", 1e-3))
    }
    | {"integer": EXACT},
    "benchmark-l0": ratio_rows(10, 2, 2),
    "benchmark-l1": ratio_rows(5, 1.5, 2),
    "benchmark-l2": ratio_rows(2, 1.2, 2),
    "benchmark-catlass": ratio_rows(5, 1.5, None),
    "cann-bench": {
        "float32": cann_bench(F13, F14, F30, F8),
        "float16": cann_bench(F10, F11, F16, F5),
        "bfloat16": cann_bench(F7, F8, F16, 0.125),
        "integer": EXACT,
    },
    "binary": {"float": ({}, {"unequal": 0}), "integer": ({}, {"unequal": 0})},
    "quant": {"integer": ({BAND: {"atol": 1.0}}, {"outside": 0})},
    "requant": {name: ({ULP: {"ulp": 1}}, {"outside_share": 0.001}) for name in ("float8_e4m3fn", "float8_e5m2")},
    "catlass": {
        n: ({SCALED: {"rtol": r}}, {"outside": 0}) for n, r in (("float32", F8), ("float16", F8), ("bfloat16", F7))
    }
    | {"integer": EXACT},
    "catlass-deep": {
        n: ({SCALED: {"rtol": r}}, {"outside": 0}) for n, r in (("float32", F7), ("float16", F7), ("bfloat16", F6))
    }
    | {"integer": EXACT},
    "unit-test": {
        n: ({BAND: {"rtol": r}}, {"outside": 0}) for n, r in (("float32", 1e-4), ("float16", 1e-3), ("bfloat16", 1e-2))
    }
    | {"integer": EXACT},
    "verify-result": {"float32": band(1e-6, 1e-9, 1e-4), "float16": band(1e-3, 1e-3, 1e-3), "integer": EXACT},
    "torch-npu": {
        "float32": torch_npu(1e-4, 1e-9),
        "float16": torch_npu(1e-3, 6e-8),
        "bfloat16": torch_npu(1e-3, 6e-8),
        "integer": EXACT,
    },
    "close": {
        "float32": band(1e-4, 1e-8, 1e-4),
        "float16": band(1e-3, 1e-8, 1e-3),
        "bfloat16": band(1e-3, 1e-8, 1e-3),
        "float": band(1e-4, 1e-8, 1e-4),
        "integer": EXACT,
    },
    "cosine": {n: ({}, {"cosine": 0.99, "special_mismatches": 0}) for n in ("float", "integer")},
    "msopst": {
        n: ({"symmetric": {"rtol": 0.01, "floor": 1e-9}}, {"outside_share": 0.05}) for n in ("float", "integer")
    },
    "msopst-fine": {
        "float32": msopst_fine(1e-4, 1e-4, 1e-4, 0.01),
        "float16": msopst_fine(1e-3, 1e-3, 1e-3, 0.1),
        "integer": msopst_fine(1e-3, 1.0, 1e-3, 1.0),
    },
    "msprobe-absolute": {
        n: ({NORMAL: {"small": s, "rtol": r}, SMALL: {"small": s, "atol": a}}, {"large": 0, "small": 0})
        for n, r, a, s in (("float32", F20, F30, F20), ("float16", F10, F16, F10), ("bfloat16", F8, F16, F10))
    }
    | {"integer": EXACT},
    "msprobe-ulp": {
        n: ({ULP: {"ulp": u}}, {"mean_ulp": m, "outside_share": s})
        for n, u, m, s in (("float32", 32, 64, 0.05), ("float16", 1, 0, 0.001), ("bfloat16", 1, 0, 0.001))
    },
    "msprobe-accumulative": {
        n: ({SCALED: {"rtol": r}}, {"outside": 0}) for n, r in (("float32", F11), ("float16", F8), ("bfloat16", F7))
    }
    | {"integer": EXACT},
    "msprobe-precheck": {
        n: ({REL: {"rtol": t}}, {"max_abs": 0.001, "cosine": 0.99, "outside_share": t})
        for n, t in (("float32", 1e-3), ("float16", 1e-2), ("bfloat16", 1e-2))
    }
    | {"integer": EXACT},
    "msprobe-compare": {"float": ({}, {"cosine": 0.99, "max_abs": 0.001, "mare": 0.001}), "integer": EXACT},
}
DEFAULT = {"rtol": 0.0, "atol": 0.0, "floor": 1e-7, "ulp": 0.0, "small": 0.0, "cancel": 0.0}
# Which side of a limit passes, by metric where it is not the usual "at most".
STRICT = {
    "stat-rel-err": {"mere", "mare"},
    "dual-thousandth": {"outside_share"},
    "cann-bench": {"normal_mere", "normal_mare"},
    "msopst": {"outside_share"},
    "msprobe-ulp": {"mean_ulp", "outside_share"},
    "msprobe-precheck": {"max_abs", "outside_share", "cosine"},
}
ALTERNATIVES = {
    "mixed": [["outside_share"], ["max_abs", "max_ulp"]],
    "torch-npu": [["absolute_share", "relative_share"]],
    "msprobe-ulp": [["mean_ulp", "outside_share"]],
    "msprobe-precheck": [["max_abs", "cosine"], ["max_abs", "outside_share"]],
}


def rows() -> list[tuple[str, str]]:
    return [(name, row) for name, table in PINNED.items() for row in table]


def a_dtype(row: str) -> np.dtype[Any]:
    return (
        np.dtype({"float": "float64", "integer": "int32"}.get(row, "float32"))
        if row in ("float", "integer")
        else dtype_of(row)
    )


def test_every_row_of_the_table_is_pinned() -> None:
    assert {name: set(s.dtypes) for name, s in standards().items()} == {n: set(t) for n, t in PINNED.items()}


@pytest.mark.parametrize(("name", "row"), rows(), ids=lambda x: str(x))
def test_a_row_is_what_the_documents_say(name: str, row: str) -> None:
    rules, pinned = standards()[name].rules(a_dtype(row)), PINNED[name][row]
    if pinned == EXACT:
        assert not rules.tests and [[str(b) for b in line] for line in rules.require] == [["unequal <= 0"]]
        return
    tests, bounds, *domain = pinned
    have = {t.form: {k: getattr(t, k) for k in DEFAULT} for t in rules.tests.values()}
    assert have == {form: DEFAULT | numbers for form, numbers in tests.items()}
    assert {b.metric: b.limit for line in rules.require for b in line} == bounds
    for bound in (b for line in rules.require for b in line):
        strict = bound.metric in STRICT.get(name, set())
        sign = ">" if bound.metric == "cosine" else "<"
        assert bound.relation == (sign if strict else sign + "="), bound
    if name in ALTERNATIVES:
        assert [[b.metric for b in line] for line in rules.require] == ALTERNATIVES[name]
    else:
        assert all(len(line) == 1 for line in rules.require)
    assert vars(rules.domain) == domain[0] if domain else rules.domain is None


# Element tests: (test, golden, error that is still good, error that is bad). All numbers are exact in binary.
AT_LIMITS = {
    "band": (ElementTest("band", rtol=0.25, atol=0.5), 4.0, 1.5, 1.5 + F20),
    "band of a negative": (ElementTest("band", rtol=0.25, atol=0.5), -4.0, 1.5, 1.5 + F20),
    "relative": (ElementTest("relative", rtol=0.25, floor=0.5), 1.5, 0.5, 0.5 + F20),
    "relative of a negative": (ElementTest("relative", rtol=0.25, floor=0.5), -1.5, 0.5, 0.5 + F20),
    "scaled below 1": (ElementTest("scaled", rtol=0.25), 0.5, 0.25, 0.25 + F20),
    "scaled above 1": (ElementTest("scaled", rtol=0.25), 8.0, 2.0, 2.0 + F20),
    "symmetric, result larger": (ElementTest("symmetric", rtol=0.5, floor=0.0), 4.0, 4.0, 4.0 + F20),
    "symmetric, result smaller": (ElementTest("symmetric", rtol=0.5, floor=0.0), 4.0, -2.0, -2.0 - F20),
    "symmetric with floor": (ElementTest("symmetric", rtol=0.5, floor=1.0), 4.0, -2.5, -2.5 - F20),
    "small": (ElementTest("small", small=1.0, atol=0.25), 0.5, 0.25, 0.25 + F20),
    "normal": (ElementTest("normal", small=1.0, rtol=0.25, floor=0.0), 1.0, 0.25, 0.25 + F20),
    "cancelled": (ElementTest("cancelled", small=F10, cancel=1.0, rtol=0.25, floor=0.0), 0.5, 0.125, 0.125 + F20),
}  # fmt: skip
NEVER = {
    "small: golden at the edge": (ElementTest("small", small=1.0, atol=0.25), 1.0, 100.0),
    "normal: golden below the edge": (ElementTest("normal", small=1.0, rtol=0.25), 1.0 - F20, 100.0),
    "cancelled: golden at the edge": (ElementTest("cancelled", small=F10, cancel=1.0, rtol=0.25), 1.0, 0.5),
    "cancelled: result at the edge": (ElementTest("cancelled", small=F10, cancel=1.0, rtol=0.25), 0.5, 0.5),
    "cancelled: golden too small": (ElementTest("cancelled", small=F10, cancel=1.0, rtol=0.25), F11, 0.5),
}


@pytest.mark.parametrize("case", AT_LIMITS)
def test_an_element_at_its_limit(case: str) -> None:
    test, golden, inside, outside = AT_LIMITS[case]
    actual, wanted = np.array([golden + inside, golden + outside]), np.array([golden, golden])
    assert list(bad_mask(actual, wanted, test)) == [False, True]
    assert measure(actual, wanted, {"x": test}).bad == {"x": 1}


@pytest.mark.parametrize("case", NEVER)
def test_an_element_that_a_test_does_not_judge(case: str) -> None:
    test, golden, error = NEVER[case]
    assert not bad_mask(np.array([golden + error]), np.array([golden]), test).any()


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_steps_at_places_of_nan_and_infinity(kind: str) -> None:
    """Where both sides are the same special, nothing is added; where one is, the worst figures are infinite and the means are not."""
    t = dtype_of(kind)
    golden = np.array([math.nan, math.inf, -math.inf, 1.0, 0.0])
    one_step = float(np.nextafter(t.type(1.0), t.type(2.0))) if kind != "bfloat16" else 1.0 + F7
    actual = np.array([math.nan, math.inf, -math.inf, one_step, -0.0], dtype=t)
    got = measure(actual, golden, {"far": ElementTest("ulp", ulp=0)}).metrics()
    assert (got["max_ulp"], got["mean_ulp"], got["agreeing_specials"], got["special_mismatches"]) == (1, 0.5, 3, 0)
    assert (got["far"], got["unequal"], got["max_abs"]) == (
        1,
        2,
        pytest.approx(one_step - 1),
    )  # -0.0 differs in its bit
    for wrong in (math.nan, math.inf, -math.inf):
        got = measure(np.array([wrong, one_step], dtype=t), np.ones(2), {"far": ElementTest("ulp", ulp=1e9)}).metrics()
        assert got["max_ulp"] == got["max_abs"] == got["mare"] == math.inf and got["mean_ulp"] == 1
        assert (got["far"], got["special_mismatches"], got["snr_db"]) == (1, 1, -math.inf)
    payload = np.array([math.nan], dtype=t)
    payload.view(f"u{t.itemsize}")[0] ^= 1  # another NaN
    got = measure(payload, np.array([math.nan])).metrics()
    assert (got["max_ulp"], got["mean_ulp"], got["unequal"], got["bit_exact"]) == (0, 0, 0, 1)


def test_a_share_at_its_limit() -> None:
    """mixed: 1 % of the elements may lie outside, 1 of 10,000 more may not; a huge error is excused up to 32 steps."""
    golden = np.full(10_000, 1.0)
    for kind, most in (("float32", 1e-2), ("float16", 1e-1), ("bfloat16", 1.0)):
        t, tolerance = dtype_of(kind), {"float32": F10 + F16, "float16": 2 * F9, "bfloat16": 2 * F6}[kind]
        for bad, passes in ((100, True), (101, False)):
            actual = golden.astype(t)
            actual[:bad] = t.type(1.0 + 1.5 * tolerance)
            assert compare(actual, golden).passed is passes, (kind, bad)
        actual = golden.astype(t)
        actual[0] = t.type(1 + 0.9 * most)
        assert compare(actual, golden).passed
        actual[0] = t.type(1 + 1.1 * most)
        assert not compare(actual, golden).passed


@pytest.mark.parametrize(
    ("standard", "mean", "worst"), [("benchmark-l0", 2, 10), ("benchmark-l1", 1.5, 5), ("benchmark-l2", 1.2, 2)]
)
def test_a_ratio_at_its_limit(standard: str, mean: float, worst: float) -> None:
    golden = np.full(4096, 1.0)
    rival = (golden + 64 * F20).astype(np.float32)
    for factor, passes in ((mean - 0.02, True), (mean + 0.02, False)):
        actual = (golden + round(64 * factor) * F20).astype(np.float32)
        assert compare(actual, golden, standard, competitor=rival).passed is passes
    for factor, passes in ((worst - 0.02, True), (worst + 0.02, False)):
        actual = rival.copy()
        actual[0] = 1 + round(64 * factor) * F20
        assert compare(actual, golden, standard, competitor=rival).passed is passes, factor


def test_a_mean_at_its_limit() -> None:
    for kind, threshold in (("float32", F13), ("float16", F10), ("bfloat16", F7)):
        golden = np.full(1000, 1.0)
        for factor, passes in ((0.98, True), (1.02, False)):
            actual = np.full(1000, 1.0 + threshold * factor)
            rules = standards()["stat-rel-err"].rules(dtype_of(kind))
            metrics = measure(actual, golden).metrics()
            assert all(any(b.holds(metrics[b.metric]) for b in line) for line in rules.require) is passes, kind


def test_the_extended_types_are_those_of_ml_dtypes() -> None:
    assert dtype_of("bf16") == np.dtype(ml_dtypes.bfloat16)
