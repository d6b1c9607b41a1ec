"""Cast in every pair and rounding mode of A2, on every 16-bit input; the 16-bit float formats; quantising conversions."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_image import (
    BF16,
    CXX,
    PRELUDE,
    REGION,
    Array,
    Call,
    Layout,
    calls,
    check_call,
    entry,
    gather,
    image_of,
    ordinary,
    same,
)
from toprope.build import shared_library
from toprope.kernel import KernelFile

FIVE = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")
SIX = (*FIVE, "NONE")
# Reference page "Cast", table of A2; int4b_t has tests of its own below.
PAIRS: dict[tuple[str, str], tuple[str, ...]] = {
    ("int8", "float16"): ("NONE",),
    ("uint8", "float16"): ("NONE",),
    ("int16", "float16"): SIX,
    ("int16", "float32"): ("NONE",),
    ("float16", "int8"): SIX,
    ("float16", "uint8"): SIX,
    ("float16", "int16"): FIVE,
    ("float16", "int32"): FIVE,
    ("float16", "float32"): ("NONE",),
    ("bfloat16", "int32"): FIVE,
    ("bfloat16", "float32"): ("NONE",),
    ("int32", "int16"): ("NONE",),
    ("int32", "float32"): SIX,
    ("int32", "int64"): ("NONE",),
    ("float32", "int16"): FIVE,
    ("float32", "float16"): (*SIX, "ODD"),
    ("float32", "bfloat16"): FIVE,
    ("float32", "int32"): FIVE,
    ("float32", "float32"): FIVE,
    ("float32", "int64"): FIVE,
    ("int64", "int32"): ("NONE",),
    ("int64", "float32"): FIVE,
}
CODES = {"NONE": 0, "RINT": 1, "FLOOR": 2, "CEIL": 3, "ROUND": 4, "TRUNC": 5, "ODD": 6}


def to_integral(x: Array, mode: str) -> Array:
    """float64 values to whole float64 values."""
    if mode in ("FLOOR", "CEIL", "TRUNC"):
        return {"FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc}[mode](x)  # type: ignore[no-any-return]
    return np.copysign(np.trunc(np.abs(x)) + (np.abs(x - np.trunc(x)) >= 0.5), x) if mode == "ROUND" else np.rint(x)


def to_format(x: Array, dtype: Any, mode: str) -> Array:
    """Values (float64, or int64 exactly) to a shorter float, by choosing between the two neighbours."""
    near = x.astype(dtype)
    if mode in ("NONE", "RINT"):
        return near
    bits = near.view(f"u{near.itemsize}").astype(np.int64)
    sign_bit = 1 << near.itemsize * 8 - 1
    magnitude = bits & ~sign_bit

    def value(b: Array) -> Array:
        return b.astype(f"u{near.itemsize}").view(near.dtype).astype(np.longdouble)

    exact = np.abs(x.astype(np.longdouble))
    low = np.where(value(magnitude) > exact, magnitude - 1, magnitude)
    high = low + 1
    negative = bits & sign_bit != 0
    top = value(high)
    limit = np.longdouble(2) * value(low) - value(low - 1)  # what the format's next number would be
    middle = (value(low) + np.where(np.isinf(top), limit, top)) / 2
    up = {
        "FLOOR": negative,
        "CEIL": ~negative,
        "TRUNC": np.zeros_like(negative),
        "ODD": low & 1 == 0,
        "ROUND": exact >= middle,
    }[mode]
    chosen = np.where((value(low) != exact) & up, high, low) | np.where(negative, sign_bit, 0)
    finite = np.isfinite(x.astype(np.float64))
    return np.where(finite, chosen, bits).astype(f"u{near.itemsize}").view(near.dtype)


def cast(x: Array, to: Any, mode: str) -> Array:
    """What Cast does: round by mode, saturate integers, NaN to 0; floats overflow to infinity."""
    to = np.dtype(to)
    if to.kind in "iu":
        info = np.iinfo(to)
        if x.dtype.kind in "iu":
            return np.clip(x.astype(object), info.min, info.max).astype(to)
        whole = to_integral(x.astype(np.float64), mode)
        inside = (
            np.nan_to_num(np.where((whole >= info.min) & (whole < float(info.max) + (to.itemsize == 8 or 1)), whole, 0))
            .astype(np.int64)
            .astype(to)
        )
        return np.where(
            np.isnan(whole),
            0,
            np.where(
                whole > info.max if to.itemsize < 8 else whole >= 2.0**63,
                info.max,
                np.where(whole < info.min, info.min, inside),
            ),
        ).astype(to)
    if x.dtype == to:
        return to_integral(x.astype(np.float64), mode).astype(to)
    return to_format(x if x.dtype.kind in "iu" else x.astype(np.float64), to, mode)


ORACLES: dict[str, Callable[..., Array]] = {
    "Cast": cast,
    "CastDequant": lambda x, scale, offset, to: cast((x.astype(np.float32) * np.float32(scale) + offset), to, "RINT"),
    "CastDeq": lambda x, scale, offset, to: cast((x.astype(np.float32) * np.float32(scale) + offset), to, "RINT"),
    "SetDeqScale": lambda x: x,
}


@pytest.fixture(scope="module")
def casts() -> KernelFile:
    def text(s: str, d: str) -> str:
        return entry(
            f"cast_{s}_{d}",
            (CXX[d], CXX[s], CXX[s]),
            """
            case 0: Cast(d, a, (RoundMode)(int)s, n); break;
            case 1: Cast(d, a, (RoundMode)(int)s, (uint64_t)n, rep, u1); break;
            case 2: Cast(d, a, (RoundMode)(int)s, m, rep, u1); break;
            case 3: COUNTED; Cast<T, U, false>(d, a, (RoundMode)(int)s, MASK_PLACEHOLDER, rep, u1); DONE; break;
            case 4: REGISTERS; Cast<T, U, false>(d, a, (RoundMode)(int)s, MASK_PLACEHOLDER, rep, u1); DONE; break;
            case 5: Cast(a.template ReinterpretCast<T>(), a, (RoundMode)(int)s, n); break;""",
        )

    scaled = entry(
        "scaled",
        ("half", "int32_t", "int32_t"),
        "case 0: SetDeqScale(half(s)); Cast(d, a, RoundMode::CAST_NONE, n); break; case 1: SetDeqScale(half(s)); CastDequant(d, a, n); break; case 2: Cast(d, a, RoundMode::CAST_NONE, n); break;",
    )
    int4 = entry(
        "to_int4",
        ("half", "half", "half"),
        "case 0: Cast(d.ReinterpretCast<int4b_t>(), a, (RoundMode)(int)s, n); break; case 1: Cast(d.ReinterpretCast<int4b_t>(), a, (RoundMode)(int)s, (uint64_t)n, rep, u1); break;",
    )
    int4 += entry(
        "from_int4",
        ("half", "half", "half"),
        "case 0: Cast(d, a.ReinterpretCast<int4b_t>(), RoundMode::CAST_NONE, n); break; case 1: Cast(d, a.ReinterpretCast<int4b_t>(), RoundMode::CAST_NONE, (uint64_t)n, rep, u1); break;",
    )
    table = "VdeqInfo info; for (int i = 0; i < 16; i++) { info.vdeqScale[i] = 0.25f * (i + 1); info.vdeqOffset[i] = i - 8; info.vdeqSignMode[i] = true; } SetDeqScale(b.template ReinterpretCast<uint64_t>(), info); PipeBarrier<PIPE_ALL>();"
    deq = entry(
        "deq",
        ("int8_t", "int16_t", "int16_t"),
        f"""
        case 0: SetDeqScale(s, -7, true); CastDequant<int8_t, int16_t, false, false>(d, a, n); break;
        case 1: SetDeqScale(s, -7, true); CastDeq<int8_t, int16_t, false, true>(d, a, n); break;
        case 2: SetDeqScale(s, 9, false); CastDequant<uint8_t, int16_t, true, false, true>(d.template ReinterpretCast<uint8_t>(), a, n, rep, u1); break;
        case 3: {{ {table} CastDequant<int8_t, int16_t, true, false>(d, a, n); }} break;""",
    )
    return kernels(PRELUDE + "".join(text(s, d) for s, d in PAIRS) + scaled + int4 + deq, "cast")


def dtype_of(name: str) -> Any:
    return BF16 if name == "bfloat16" else np.dtype(name)


def hard(rng: np.random.Generator, dtype: Any, count: int) -> Array:
    """Values around rounding ties and the limits of narrower types."""
    data = ordinary(rng, dtype, count)
    if dtype.kind == "f":
        ties = rng.integers(-300, 300, count) + rng.choice([0.0, 0.5, -0.5, 0.4999, 0.25], count)
        limits = rng.choice(
            [
                127.5,
                128.5,
                -128.5,
                255.5,
                32767.5,
                -32768.5,
                65519.0,
                65520.0,
                65536.0,
                2147483520.0,
                2147483648.0,
                -2147483648.0,
                9.3e18,
                -9.3e18,
                1e-7,
                3e-8,
                2.9e-8,
            ],
            count,
        )
        narrow = (rng.standard_normal(count) * 8).astype(np.float16).astype(np.float64) * (
            1 + rng.choice([0, 2.0**-11, -(2.0**-11), 2.0**-8], count)
        )
        with np.errstate(over="ignore"):
            data = np.choose(rng.integers(0, 4, count), [data.astype(np.float64), ties, limits, narrow]).astype(dtype)
    elif dtype.itemsize >= 4:
        data[1::3] = (
            (1 << rng.integers(20, dtype.itemsize * 8 - 2, len(data[1::3]))) + rng.integers(-3, 4, len(data[1::3]))
        ).astype(dtype)
    return data


@pytest.mark.parametrize(("source", "to"), list(PAIRS))
def test_cast(casts: KernelFile, source: str, to: str) -> None:
    s, d = dtype_of(source), dtype_of(to)
    rng = np.random.default_rng(zlib.crc32(f"{source}{to}".encode()))
    some = calls(256 // max(s.itemsize, d.itemsize), rng, (d.itemsize, s.itemsize, s.itemsize))
    for mode in PAIRS[source, to]:
        for call in some if mode == PAIRS[source, to][0] else [*some[-1:], Call("count", some[0].width, 2500)]:
            check_call(
                casts,
                f"cast_{source}_{to}",
                call,
                (d, s),
                lambda x, mode=mode: cast(x, d, mode),
                rng,
                scalar=CODES[mode],
                values=hard,
            )  # type: ignore[misc]


@pytest.mark.parametrize(
    ("source", "to"), [p for p in PAIRS if p[0] in ("float16", "bfloat16", "int16", "int8", "uint8")]
)
def test_every_input_of_16_bits(casts: KernelFile, source: str, to: str) -> None:
    s, d = dtype_of(source), dtype_of(to)
    everything = np.arange(1 << 8 * s.itemsize, dtype=np.uint32).astype(f"u{s.itemsize}").view(s)
    step = 4096
    for mode in PAIRS[source, to]:
        for begin in range(0, len(everything), step):
            chunk = everything[begin : begin + step]
            check_call(
                casts,
                f"cast_{source}_{to}",
                Call("count", 256 // max(s.itemsize, d.itemsize), len(chunk)),
                (d, s),
                lambda x, mode=mode: cast(x, d, mode),  # type: ignore[misc]
                np.random.default_rng(0),
                scalar=CODES[mode],
                values=lambda _, t, n, chunk=chunk: np.resize(chunk, n).astype(t),
            )  # type: ignore[misc]


def test_narrowing_in_place_is_right_and_gets_advice(casts: KernelFile) -> None:
    rng = np.random.default_rng(1)
    image = image_of(rng, ("float16", "float32", "float32"), ordinary)
    x = gather(image, REGION, np.arange(1000) * 4, np.float32)
    run = casts.cast_float32_float16[1](image, 5, *Call("count", 64, 1000).arguments(CODES["RINT"])[1:])
    with np.errstate(over="ignore"):
        assert same(gather(image, REGION, np.arange(1000) * 2, np.float16), x.astype(np.float16)).all()
    assert [(r.code, r.severity) for r in run.trace.reports] == [("operand-overlap", 1)]


def test_widening_in_place_is_an_error(casts: KernelFile) -> None:
    image = image_of(np.random.default_rng(2), ("float32", "float16", "float16"), ordinary)
    run = casts.cast_float16_float32[1](image, 5, *Call("count", 64, 300).arguments(0)[1:])
    assert [(r.code, r.severity) for r in run.trace.reports] == [("operand-overlap", 0)]


def test_a_mode_that_the_pair_lacks_is_reported(casts: KernelFile) -> None:
    image = image_of(np.random.default_rng(3), ("float32", "float16", "float16"), ordinary)
    run = casts.cast_float16_float32[1](image, *Call("count", 64, 64).arguments(CODES["FLOOR"]))
    assert [r.code for r in run.trace.reports] == ["cast-round-mode"]


def test_int32_to_half_is_scaled(casts: KernelFile) -> None:
    rng = np.random.default_rng(4)
    for form in (0, 1):
        image = image_of(rng, ("float16", "int32", "int32"), ordinary)
        x = gather(image, REGION, np.arange(700) * 4, np.int32)
        casts.scaled[1](image, form, *Call("count", 64, 700).arguments(0.01)[1:])
        with np.errstate(over="ignore"):
            want = (
                x.astype(np.float32) * np.float32(2**-17) * np.float32(np.float16(0.01)) * np.float32(2**17)
            ).astype(np.float16)
        assert same(gather(image, 0, np.arange(700) * 2, np.float16), want).all()
    run = casts.scaled[1](image, 2, *Call("count", 64, 700).arguments(0.01)[1:])
    assert [r.code for r in run.trace.reports] == ["deq-scale-unset"]


@pytest.mark.parametrize("mode", SIX)
def test_int4(casts: KernelFile, mode: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for begin in range(0, 1 << 16, 8192):
        image = np.zeros(3 * REGION, np.uint8)
        image[REGION : REGION + 16384] = every[begin : begin + 8192].view(np.uint8)
        casts.to_int4[1](image, *Call("count", 128, 8192).arguments(CODES[mode]))
        with np.errstate(invalid="ignore"):
            want = np.clip(cast(every[begin : begin + 8192], np.int8, mode), -8, 7).astype(np.uint8) & 15
        np.testing.assert_array_equal(image[:4096], want[::2] | want[1::2] << 4)
        assert not image[4096:REGION].any()


def test_int4_to_half_with_strides(casts: KernelFile) -> None:
    rng = np.random.default_rng(5)
    image = np.zeros(3 * REGION, np.uint8)
    image[REGION : 2 * REGION] = rng.integers(0, 256, REGION)
    source = image[REGION : 2 * REGION].copy()
    nibbles = np.stack([source & 15, source >> 4], -1).astype(np.int8).reshape(-1)
    values = np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.float16)
    casts.from_int4[1](image, *Call("count", 128, 1000).arguments())
    np.testing.assert_array_equal(gather(image, 0, np.arange(1000) * 2, np.float16), values[:1000])
    # 128 lanes a repeat: 8 blocks of dst, 2 of src, here 3 apart; repeats 5 blocks of src apart.
    casts.from_int4[1](image, *Call("mask", 128, 100, 3, layout=Layout((1, 3, 1), (8, 5, 1))).arguments())
    for repeat in range(3):
        base = repeat * 5 * 64
        want = np.concatenate([values[base : base + 64], values[base + 192 : base + 256]])[:100]
        np.testing.assert_array_equal(gather(image, 0, repeat * 256 + np.arange(100) * 2, np.float16), want)


def test_dequantise_to_8_bits(casts: KernelFile) -> None:
    rng = np.random.default_rng(6)
    scale = 0.3
    seen = np.array(scale, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)  # the unit keeps 10 bits of mantissa
    seen_scale = seen.view(np.float32)
    blocks, lane = np.arange(320) // 16, np.arange(320) % 16
    for form, half, to, offset in ((0, 0, np.int8, -7), (1, 16, np.int8, -7), (2, 16, np.uint8, 9), (3, 0, np.int8, 0)):
        image = image_of(
            rng,
            ("int8", "int16", "int16"),
            lambda r, t, n: (
                r.integers(-128, 128, n).astype(t) if t.itemsize == 1 else r.integers(-900, 900, n).astype(t)
            ),
        )
        x = gather(image, REGION, np.arange(320) * 2, np.int16)
        want = image.copy()
        n = 128 if form == 2 else 320
        call = Call("count", 128, n, 2, layout=Layout((1, 1, 1), (8, 8, 1)))
        casts.deq[1](image, form, *call.arguments(scale)[1:])
        if form == 3:
            result = cast(
                x.astype(np.float32) * (np.float32(0.25) * (lane + 1)).astype(np.float32)
                + (lane - 8).astype(np.float32),
                to,
                "RINT",
            )
        else:
            result = ORACLES["CastDequant"](x, seen_scale, offset, to)
        total = 256 if form == 2 else 320
        want[blocks[:total] * 32 + half + lane[:total]] = result[:total].view(np.uint8)
        np.testing.assert_array_equal(image[:REGION], want[:REGION])


def test_float_formats_on_all_inputs() -> None:
    """machine/formats.h against ml_dtypes and NumPy: every 16-bit pattern decoded, and its neighbourhood encoded."""
    library = ctypes.CDLL(
        str(
            shared_library(
                """
#include "machine/formats.h"
extern "C" void decode(const uint16_t* in, float* h, float* b, int n) { for (int i = 0; i < n; i++) { h[i] = toprope::half_to_float(in[i]); b[i] = toprope::bfloat16_to_float(in[i]); } }
extern "C" void encode(const float* in, uint16_t* h, uint16_t* b, int n) { for (int i = 0; i < n; i++) { h[i] = toprope::float_to_half(in[i]); b[i] = toprope::float_to_bfloat16(in[i]); } }
"""
            )
        )
    )
    bits = np.arange(1 << 16, dtype=np.uint16)
    half, brain = np.empty(1 << 16, np.float32), np.empty(1 << 16, np.float32)

    def pointer(a: Array) -> ctypes.c_void_p:
        return ctypes.c_void_p(a.ctypes.data)

    library.decode(pointer(bits), pointer(half), pointer(brain), len(bits))
    assert same(half, bits.view(np.float16).astype(np.float32)).all()
    assert same(brain, bits.view(ml_dtypes.bfloat16).astype(np.float32)).all()
    for base in (half, brain):
        for delta in (-2, -1, 0, 1, 2, 0x800, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001):
            values = (base.view(np.int32) + np.int32(delta)).view(np.float32)
            h, b = np.empty(1 << 16, np.uint16), np.empty(1 << 16, np.uint16)
            library.encode(pointer(values), pointer(h), pointer(b), len(values))
            with np.errstate(all="ignore"):
                assert same(h.view(np.float16), values.astype(np.float16)).all()
                assert same(b.view(ml_dtypes.bfloat16), values.astype(ml_dtypes.bfloat16)).all()


def test_saturation_mode_replaces_infinity_and_nan() -> None:
    """A2 keeps infinities and NaN unless SetSaturationFlag asks for the largest number and 0 (CTRL[48])."""
    text = PRELUDE + entry(
        "saturate",
        ("half", "float", "float"),
        """case 0: Cast(d, a, RoundMode::CAST_RINT, n); break;
        case 1: SetSaturationFlag<SaturationMode::FLOAT>(true); Cast(d, a, RoundMode::CAST_RINT, n); Add(d[512], d, d, n);
                SetSaturationFlag<SaturationMode::FLOAT>(false); break;""",
    )
    values = np.resize(np.array([1e6, -1e6, np.nan, np.inf, 40000.0, 2.5], np.float32), 300)
    for form in (0, 1):
        image = np.zeros(3 * REGION, np.uint8)
        image[REGION : REGION + 1200] = values.view(np.uint8)
        kernels(text, "saturate").saturate[1](image, form, *Call("count", 64, 300).arguments()[1:])
        with np.errstate(over="ignore"):
            want = values.astype(np.float16)
            if form == 1:
                want = np.where(np.isnan(want), np.float16(0), np.clip(want, np.float16(-65504), np.float16(65504)))
                twice = np.clip(want + want, np.float16(-65504), np.float16(65504))
                assert same(image[1024:1624].view(np.float16), twice).all()
        assert same(image[:600].view(np.float16), want).all()
