"""The scalar unit: bit counting, scalar conversions, limits, the control register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ascendc.harness import GM, kernels
from toprope.errors import CompileFailed

MODES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ROUND": lambda v: np.trunc(v + np.copysign(0.5, v)),
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "RINT": np.rint,
}

KERNELS = (
    GM
    + r"""
extern "C" __global__ __aicore__ void bits(GM_ADDR x, GM_ADDR out, int32_t n) {
    auto v = gm<uint64_t>(x);
    auto o = gm<int64_t>(out);
    for (int i = 0; i < n; ++i) {
        const uint64_t b = v.GetValue(i);
        o.SetValue(i * 8, GetBitCount<1>(b)); o.SetValue(i * 8 + 1, GetBitCount<0>(b));
        o.SetValue(i * 8 + 2, CountLeadingZero(b)); o.SetValue(i * 8 + 3, CountBitsCntSameAsSignBit(static_cast<int64_t>(b)));
        o.SetValue(i * 8 + 4, GetSFFValue<1>(b)); o.SetValue(i * 8 + 5, GetSFFValue<0>(b));
        o.SetValue(i * 8 + 6, ScalarGetCountOfValue<1>(b) + ScalarCountLeadingZero(b) + ScalarGetSFFValue<1>(b));
    }
}
extern "C" __global__ __aicore__ void casts(GM_ADDR x, GM_ADDR ints, GM_ADDR halves, GM_ADDR bf, int32_t n) {
    auto v = gm<float>(x);
    auto o = gm<int32_t>(ints);
    auto h = gm<half>(halves);
    auto b = gm<bfloat16_t>(bf);
    for (int i = 0; i < n; ++i) {
        const float f = v.GetValue(i);
        o.SetValue(i * 4, ScalarCast<float, int32_t, RoundMode::CAST_ROUND>(f));
        o.SetValue(i * 4 + 1, Cast<float, int32_t, RoundMode::CAST_CEIL>(f));
        o.SetValue(i * 4 + 2, ScalarCast<float, int32_t, RoundMode::CAST_FLOOR>(f));
        o.SetValue(i * 4 + 3, ScalarCast<float, int32_t, RoundMode::CAST_RINT>(f));
        h.SetValue(i, ScalarCast<float, half, RoundMode::CAST_ODD>(f));
        b.SetValue(i, ToFloat(ToBfloat16(f)) == Cast(Cast(f)) ? ToBfloat16(f) : bfloat16_t(0));
    }
}
extern "C" __global__ __aicore__ void limits(GM_ADDR out) {
    auto o = gm<float>(out);
    o.SetValue(0, NumericLimits<float>::Max()); o.SetValue(1, NumericLimits<float>::Lowest()); o.SetValue(2, NumericLimits<float>::Min());
    o.SetValue(3, NumericLimits<half>::Max()); o.SetValue(4, NumericLimits<half>::DeNormMin()); o.SetValue(5, NumericLimits<half>::NegativeInfinity());
    o.SetValue(6, NumericLimits<bfloat16_t>::Max()); o.SetValue(7, NumericLimits<bfloat16_t>::QuietNaN());
    o.SetValue(8, NumericLimits<int8_t>::Min()); o.SetValue(9, NumericLimits<int16_t>::Max()); o.SetValue(10, NumericLimits<uint8_t>::Max());
    o.SetValue(11, NumericLimits<uint32_t>::Lowest());
    o.SetValue(12, NumericLimits<int64_t>::Max() == 9223372036854775807ll ? 1 : 0);
    o.SetValue(13, CeilDivision(7, 2) + CeilDivision(8, 2) * 10 + CeilDivision(1, 0) * 100);
}
extern "C" __global__ __aicore__ void control(GM_ADDR out) {
    auto o = gm<int64_t>(out);
    SetCtrlSpr<8, 10>(5);
    o.SetValue(0, GetCtrlSpr<8, 10>()); o.SetValue(1, GetCtrlSpr<9, 10>());
    ResetCtrlSpr<8, 8>();
    o.SetValue(2, GetCtrlSpr<8, 10>());
    SetSaturationFlag<SaturationMode::FLOAT>(true);
    o.SetValue(3, GetSaturationFlag<SaturationMode::FLOAT>()); o.SetValue(4, GetCtrlSpr<48, 48>());
    SetSaturationFlag<SaturationMode::FLOAT>(false);
    o.SetValue(5, GetSaturationFlag<SaturationMode::FLOAT>()); o.SetValue(6, GetCtrlSpr<48, 48>());
    o.SetValue(7, GetCtrlSpr<8, 10>());
    Nop<10>();
}
"""
)


def module() -> Any:
    return kernels(KERNELS, "scalar")


def bit_counts(value: int) -> list[int]:
    """ones, zeros, leading zeros, sign run, lowest one, lowest zero of a 64-bit number."""
    text = f"{value:064b}"
    sign_run = len(text[1:]) - len(text[1:].lstrip(text[0]))
    return [
        text.count("1"), text.count("0"), len(text) - len(text.lstrip("0")), -1 if value in (0, 2**64 - 1) else sign_run,
        text[::-1].find("1"), text[::-1].find("0"),
    ]  # fmt: skip


def round_to_odd(value: float) -> float:
    """The half that truncation gives, with its last bit set if anything was cut off."""
    with np.errstate(over="ignore"):
        nearest = np.float16(value)
    if np.isnan(value) or float(nearest) == value:
        return float(nearest)
    if np.isinf(nearest):
        return float(np.copysign(65504.0, value))
    below = (
        nearest if abs(float(nearest)) < abs(value) else np.copysign(np.nextafter(abs(nearest), np.float16(0)), nearest)
    )
    return float((below.view(np.uint16) | np.uint16(1)).view(np.float16))


def ceil_division(a: int, b: int) -> int:
    """a / b rounded up, 0 for b = 0."""
    return -(-a // b) if b else 0


def with_bits(register: int, start: int, end: int, value: int) -> int:
    """A register with the bits start..end replaced."""
    mask = ((1 << (end - start + 1)) - 1) << start
    return register & ~mask | value << start & mask


ORACLES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("GetBitCount", "CountLeadingZero", "CountBitsCntSameAsSignBit", "GetSFFValue"), bit_counts),
    **dict.fromkeys(("ScalarGetCountOfValue", "ScalarCountLeadingZero", "ScalarGetSFFValue"), bit_counts),
    **dict.fromkeys(("ScalarCast", "ToFloat", "ToBfloat16"), round_to_odd),
    "NumericLimits": np.finfo,
    "CeilDivision": ceil_division,
    **dict.fromkeys(("SetCtrlSpr", "GetCtrlSpr", "ResetCtrlSpr", "SetSaturationFlag", "GetSaturationFlag"), with_bits),
}


def test_bits() -> None:
    rng = np.random.default_rng(0)
    special = [0, 1, 2**64 - 1, 2**63, 2**63 - 1, 0x00F0000000000000, 0x0100000000000020, 0x1000000000000100]
    x = np.array(
        special + [int(v) >> s for v, s in zip(rng.integers(0, 2**63, 40), rng.integers(0, 63, 40), strict=True)],
        np.uint64,
    )
    out = np.zeros((len(x), 8), np.int64)
    module().bits[1](x, out, len(x))
    expected = [bit_counts(int(v)) for v in x]
    assert out[:, :6].tolist() == expected
    assert out[:, 6].tolist() == [e[0] + e[2] + e[4] for e in expected]


def test_scalar_conversions() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [
            [0.0, -0.0, 1.5, 2.5, -2.5, 3.14159, 65519, 65520, 1e9, -3e9, 3e9, 6e-8, 1e-9, np.inf, -np.inf],
            rng.normal(0, 2000, 200),
        ]
    ).astype(np.float32)
    ints, halves, bf = (
        np.zeros((len(x), 4), np.int32),
        np.zeros(len(x), np.float16),
        np.zeros(len(x), ml_dtypes.bfloat16),
    )
    module().casts[1](x, ints, halves, bf, len(x))
    for column, mode in enumerate(MODES):
        expected = np.clip(MODES[mode](x.astype(np.float64)), -(2**31), 2**31 - 1)
        np.testing.assert_array_equal(ints[:, column], expected.astype(np.int64), err_msg=mode)
    np.testing.assert_array_equal(halves.astype(np.float64), [round_to_odd(float(v)) for v in x])
    np.testing.assert_array_equal(bf, x.astype(ml_dtypes.bfloat16))


def test_limits() -> None:
    out = np.zeros(14, np.float32)
    module().limits[1](out)
    f, h, b = np.finfo(np.float32), np.finfo(np.float16), ml_dtypes.finfo(ml_dtypes.bfloat16)  # type: ignore[no-untyped-call]
    expected = [
        f.max,
        f.min,
        f.tiny,
        h.max,
        h.smallest_subnormal,
        -np.inf,
        float(b.max),
        np.nan,
        -128,
        32767,
        255,
        0,
        1,
        ceil_division(7, 2) + ceil_division(8, 2) * 10 + ceil_division(1, 0) * 100,
    ]
    np.testing.assert_array_equal(out, np.array(expected, np.float32))


def test_the_control_register_keeps_its_bits_apart() -> None:
    out = np.zeros(8, np.int64)
    run = module().control[1](out)
    five = with_bits(0, 8, 10, 5)
    assert out.tolist() == [
        five >> 8 & 7,
        five >> 9 & 3,
        with_bits(five, 8, 8, 0) >> 8 & 7,
        1,
        0,
        0,
        1,
        with_bits(five, 8, 8, 0) >> 8 & 7,
    ]
    assert [int(i["work"]) for i in run.trace.instrs if run.trace.ops[i["op"]].name == "Nop"] == [10]


def test_a_rounding_mode_the_scalar_unit_lacks_does_not_compile() -> None:
    file = kernels(
        'extern "C" __global__ __aicore__ void k(GM_ADDR x) { ScalarCast<float, half, RoundMode::CAST_RINT>(1.0f); }'
    )
    with pytest.raises(CompileFailed, match="float to half has CAST_ODD only"):
        file.k[1](np.zeros(8, np.float32))
