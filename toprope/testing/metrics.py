"""One pass over (actual, golden): every precision metric, counted in float64.

The pass works on pieces small enough for the cache and on a few threads; pieces are always cut and merged the same way,
so a result depends on the data alone and never on the number of cores.

Conventions. d = actual - golden. Relative error is |d| / (|golden| + 1e-7) (CANN opbase, old ecosystem standard).
Places where both are NaN, or both the same infinity, agree and stay out of every sum. A place where only one of them is
NaN or infinite is a *special mismatch*: it makes the worst-case metrics infinite and is bad in every element test.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope.testing.elements import Array, is_float, is_integer, ordinals

RELATIVE_FLOOR = 1e-7
"""Added to |golden| before dividing. Source: CANN opbase precision standard, MERE/MARE definition."""

_PIECE = 1 << 15
_SEGMENTS = 8
_PARALLEL_FROM = 1 << 19
_EXPONENTS = 2048
_EXPONENT_BIAS = 1023

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ElementTest:
    """When one element counts as bad.

    form      bad when
    band      |d| > atol + rtol * |golden|
    relative  |d| / (|golden| + floor) > rtol
    scaled    |d| > rtol * max(1, |golden|)
    symmetric |d| / (max(|actual|, |golden|) + floor) > rtol
    ulp       distance in representable values > ulp
    small     |golden| < small and |d| > atol
    normal    |golden| >= small and relative error > rtol
    cancelled |golden| and |actual| < cancel, |golden| >= small, and relative error > rtol
    bits      the two differ in any bit (two NaNs do not)
    """

    form: str
    rtol: float = 0.0
    atol: float = 0.0
    floor: float = RELATIVE_FLOOR
    ulp: float = 0.0
    small: float = 0.0
    cancel: float = 0.0


@dataclass(frozen=True)
class Domain:
    """Normal values: |golden| >= small, and not both |golden| and |actual| below cancel."""

    small: float
    cancel: float = 0.0


@dataclass
class Measures:
    """Sums, extremes and counts over one comparison; `metrics()` turns them into the named figures."""

    size: int = 0
    agreeing_specials: int = 0
    special_mismatches: int = 0
    unequal: int = 0
    sum_error: float = 0.0
    sum_abs: float = 0.0
    sum_square: float = 0.0
    sum_golden_square: float = 0.0
    sum_golden_error: float = 0.0
    max_abs: float = 0.0
    max_golden: float = 0.0
    sum_relative: float = 0.0
    max_relative: float = 0.0
    sum_ulp: float = 0.0
    max_ulp: float = 0.0
    domain: Domain | None = None
    normal: int = 0
    normal_sum_square: float = 0.0
    normal_sum_relative: float = 0.0
    normal_max_relative: float = 0.0
    bad: dict[str, int] = field(default_factory=dict)
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_EXPONENTS, dtype=np.int64))

    def add(self, other: Measures) -> None:
        """Merge the figures of a disjoint part of the same comparison."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("max_abs", "max_golden", "max_relative", "max_ulp", "normal_max_relative"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        for name, count in other.bad.items():
            self.bad[name] = self.bad.get(name, 0) + count
        self.histogram += other.histogram

    @property
    def comparable(self) -> int:
        """Elements where both sides are finite."""
        return self.size - self.agreeing_specials - self.special_mismatches

    def metrics(self) -> dict[str, float]:
        """The named figures; means are over comparable elements, worst cases are infinite on a special mismatch.

        Names: size, max_abs, mean_abs, bias, rmse, mare, mere, max_ulp, mean_ulp, snr_db, psnr_db, cosine,
        bit_exact (0 or 1), unequal, special_mismatches, agreeing_specials, and `<test>`, `<test>_share` for
        every element test.
        """
        n = max(self.comparable, 1)
        broken = self.special_mismatches > 0
        worst = math.inf if broken else 0.0
        rmse = math.sqrt(self.sum_square / n)
        peak = self.max_golden
        result = {
            "size": self.size,
            "max_abs": max(self.max_abs, worst),
            "mean_abs": self.sum_abs / n,
            "bias": self.sum_error / n,
            "rmse": rmse,
            "mare": max(self.max_relative, worst),
            "mere": self.sum_relative / n,
            "max_ulp": max(self.max_ulp, worst),
            "mean_ulp": self.sum_ulp / n,
            "snr_db": -math.inf if broken else _decibel(self.sum_golden_square, self.sum_square),
            "psnr_db": -math.inf if broken else _decibel(peak * peak, self.sum_square / n),
            "cosine": _cosine(self),
            "bit_exact": float(self.unequal == 0),
            "unequal": self.unequal,
            "special_mismatches": self.special_mismatches,
            "agreeing_specials": self.agreeing_specials,
        }
        if self.domain is not None:
            result["normal_mare"] = max(self.normal_max_relative, worst)
            result["normal_mere"] = self.normal_sum_relative / max(self.normal, 1)
            result["normal_rmse"] = math.sqrt(self.normal_sum_square / max(self.normal, 1))
        for name, count in self.bad.items():
            result[name] = count
            result[f"{name}_share"] = count / max(self.size, 1)
        return result

    def error_histogram(self) -> dict[str, int]:
        """How many comparable elements have which relative error: "exact", then one entry per power of two present."""
        counts = {"exact": int(self.histogram[0])} if self.histogram[0] else {}
        for exponent in np.flatnonzero(self.histogram[1:]) + 1:
            counts[f"2^{int(exponent) - _EXPONENT_BIAS}"] = int(self.histogram[exponent])
        return counts


_SUMS = (
    *("size", "agreeing_specials", "special_mismatches", "unequal", "sum_error", "sum_abs", "sum_square"),
    *("sum_golden_square", "sum_golden_error", "sum_relative", "sum_ulp"),
    *("normal", "normal_sum_square", "normal_sum_relative"),
)


def _decibel(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    if signal == 0:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))


def _cosine(m: Measures) -> float:
    """Cosine of the angle between actual and golden, from sums of the error so that 1 - cosine keeps its digits."""
    dot = m.sum_golden_square + m.sum_golden_error
    actual_square = m.sum_golden_square + 2 * m.sum_golden_error + m.sum_square
    if m.sum_golden_square == 0 or actual_square <= 0:
        return float(m.sum_golden_square == 0 and m.sum_square == 0)
    return dot / math.sqrt(m.sum_golden_square) / math.sqrt(actual_square)


class _Scratch:
    """Buffers of one thread, reused for every piece: fresh memory would cost more than the arithmetic."""

    def __init__(self, length: int) -> None:
        self.x, self.y, self.d, self.e, self.t = (np.empty(length, dtype=np.float64) for _ in range(5))
        self.mask = np.empty(length, dtype=np.bool_)
        self.exponent = np.empty(length, dtype=np.int64)


def measure(
    actual: Array, golden: Array, tests: Mapping[str, ElementTest] | None = None, domain: Domain | None = None
) -> Measures:
    """Compare two arrays of the same size element by element, in memory order of their C-contiguous form.

    `actual` decides the ULP grid and the value range: `golden` may be wider (float64 for a float16 result) and is
    rounded to `actual`'s dtype wherever ULPs or the place of an infinity are judged. Complex counts as two floats.
    """
    a, g = _flat(actual), _flat(golden)
    tests = tests or {}
    if a.size != g.size:
        raise ValueError(f"measure: {a.size} actual elements against {g.size} golden ones")
    bounds = [a.size * i // _SEGMENTS for i in range(_SEGMENTS + 1)]
    parts = [slice(lo, hi) for lo, hi in itertools.pairwise(bounds) if hi > lo]
    if a.size < _PARALLEL_FROM:
        parts = [slice(0, a.size)] if a.size else []
    total = Measures(bad=dict.fromkeys(tests, 0), domain=domain)

    def segment(part: slice) -> Measures:
        return _measure_segment(a[part], g[part], tests, domain)

    if len(parts) > 1:
        with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, len(parts))) as pool:
            for result in pool.map(segment, parts):
                total.add(result)
    elif parts:
        total.add(segment(parts[0]))
    return total


def bad_elements(actual: Array, golden: Array, test: ElementTest, limit: int) -> NDArray[np.int64]:
    """Flat indices of the first `limit` elements that `test` calls bad (special mismatches included)."""
    a, g = _flat(actual), _flat(golden)
    found: list[NDArray[np.int64]] = []
    count = 0
    for start in range(0, a.size, _PIECE):
        piece = slice(start, start + _PIECE)
        mask = bad_mask(a[piece], g[piece], test)
        if mask.any():
            found.append(np.flatnonzero(mask).astype(np.int64) + start)
            count += len(found[-1])
            if count >= limit:
                break
    return np.concatenate(found)[:limit] if found else np.zeros(0, dtype=np.int64)


def bad_mask(actual: Array, golden: Array, test: ElementTest) -> Mask:
    """Which elements `test` calls bad, flat, for arrays that fit in memory once more."""
    a, g = _flat(actual), _flat(golden)
    if a.size == 0:
        return np.zeros(0, dtype=np.bool_)
    scratch = _Scratch(a.size)
    measures = Measures()
    mismatch = _errors(a, g, scratch, measures)
    if test.form == "bits":
        return np.asarray(scratch.e != 0) if is_integer(a.dtype) else _bits_differ(a, g, mismatch)
    ulp = _ulp_distance(a, g)
    mask = _apply(test, scratch, ulp, a.size).copy()
    if mismatch is not None:
        mask[mismatch[0]] = False
        mask[mismatch[1]] = True
    return mask


def relative_errors(actual: Array, golden: Array) -> Floats:
    """Relative error per element, flat; NaN where the specials agree, infinite where they do not."""
    a, g = _flat(actual), _flat(golden)
    scratch = _Scratch(a.size)
    mismatch = _errors(a, g, scratch, Measures())
    relative = scratch.e / (scratch.y + RELATIVE_FLOOR)
    if mismatch is not None:
        relative[mismatch[0]] = np.nan
        relative[mismatch[1]] = np.inf
    return relative


def _flat(values: Array) -> Array:
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.kind == "c":
        return flat.view(f"f{flat.dtype.itemsize // 2}")
    if flat.dtype.kind == "b":
        return flat.view(np.uint8)
    if is_integer(flat.dtype) and flat.dtype.kind == "V":
        return flat.astype(np.int8)
    return flat


def _measure_segment(a: Array, g: Array, tests: Mapping[str, ElementTest], domain: Domain | None) -> Measures:
    scratch = _Scratch(min(_PIECE, a.size))
    total = Measures(bad=dict.fromkeys(tests, 0))
    with np.errstate(all="ignore"):
        for start in range(0, a.size, _PIECE):
            piece = slice(start, start + _PIECE)
            _measure_piece(a[piece], g[piece], tests, domain, scratch, total)
    return total


def _errors(a: Array, g: Array, s: _Scratch, m: Measures) -> tuple[Mask, Mask] | None:
    """Fill s.d = error, s.e = |error|, s.y = |golden|, zero at special places.

    Returns None when everything is finite, else (agreeing, disagreeing) masks.
    """
    n = a.size
    x, y, d, e = s.x[:n], s.y[:n], s.d[:n], s.e[:n]
    with np.errstate(all="ignore"):
        np.copyto(x, a, casting="unsafe")
        np.copyto(y, g, casting="unsafe")
        if is_integer(a.dtype) and is_integer(g.dtype):
            _integer_difference(a, g, d)
        else:
            np.subtract(x, y, out=d)
        np.abs(d, out=e)
        specials = None if math.isfinite(float(e.max())) else _specials(x, y, a.dtype)
        if specials is not None:
            either = specials[0] | specials[1]
            for buffer in (x, y, d, e):
                buffer[either] = 0.0
            m.agreeing_specials += int(np.count_nonzero(specials[0]))
            m.special_mismatches += int(np.count_nonzero(specials[1]))
        # The sum needs the sign of golden, which the next step throws away.
        m.sum_golden_error += float(np.multiply(y, d, out=s.t[:n]).sum())
        np.abs(y, out=y)
    return specials


def _integer_difference(a: Array, g: Array, out: Floats) -> None:
    """Exact difference of whole numbers of any width, rounded once when it becomes a float."""
    if a.dtype.itemsize < 8 and g.dtype.itemsize < 8:
        np.subtract(a, g, out=out, dtype=np.float64, casting="unsafe")
        return
    # Unsigned arithmetic wraps, so larger minus smaller is exact even across the whole 64-bit range.
    larger = a > g
    wide = a.astype(np.uint64) - g.astype(np.uint64)
    np.copyto(out, np.where(larger, wide, ~wide + np.uint64(1)), casting="unsafe")
    np.negative(out, out=out, where=~larger)


def _specials(x: Floats, y: Floats, dtype: np.dtype[Any]) -> tuple[Mask, Mask]:
    """Masks (agreeing, disagreeing) of the places where either side is not finite in the result's own dtype."""
    rounded = y
    if is_float(dtype) and dtype.itemsize < 8:
        rounded = y.astype(dtype).astype(np.float64)
    special = ~(np.isfinite(x) & np.isfinite(rounded))
    same = (x == rounded) | (np.isnan(x) & np.isnan(rounded))
    return special & same, special & ~same


def _ulp_distance(a: Array, g: Array) -> Array | None:
    """Distance in representable values of a's dtype; None for whole numbers, where it equals |error|."""
    if not is_float(a.dtype):
        return None
    with np.errstate(all="ignore"):
        rounded = g if g.dtype == a.dtype else g.astype(a.dtype)
    p, q = ordinals(a), ordinals(rounded)
    if p.dtype.itemsize == 8:
        unsigned = np.maximum(p, q).view(np.uint64) - np.minimum(p, q).view(np.uint64)
        return np.asarray(unsigned.astype(np.float64))
    distance = np.subtract(p, q, dtype=np.int64 if p.dtype.itemsize == 4 else np.int32)
    return np.abs(distance, out=distance)


def _apply(test: ElementTest, s: _Scratch, ulp: Array | None, n: int) -> Mask:
    """Mask of bad elements from the buffers that `_errors` filled; s.t is overwritten."""
    y, e, t, mask = s.y[:n], s.e[:n], s.t[:n], s.mask[:n]
    if test.form == "ulp":
        return np.greater(e if ulp is None else ulp, test.ulp, out=mask)
    if test.form == "small":
        np.greater(e, test.atol, out=mask)
        return np.logical_and(mask, y < test.small, out=mask)
    if test.form == "band":
        np.multiply(y, test.rtol, out=t)
        t += test.atol
    elif test.form == "scaled":
        np.maximum(y, 1.0, out=t)
        t *= test.rtol
    elif test.form in ("relative", "normal", "cancelled"):
        np.add(y, test.floor, out=t)
        t *= test.rtol
    elif test.form == "symmetric":
        np.maximum(np.abs(s.x[:n]), y, out=t)
        t += test.floor
        t *= test.rtol
    else:
        raise ValueError(f"element test of unknown form {test.form!r}")
    np.greater(e, t, out=mask)
    if test.form == "normal":
        np.logical_and(mask, y >= test.small, out=mask)
    if test.form == "cancelled":
        mask &= (y >= test.small) & (y < test.cancel) & (np.abs(s.x[:n]) < test.cancel)
    return mask


def _measure_piece(
    a: Array, g: Array, tests: Mapping[str, ElementTest], domain: Domain | None, s: _Scratch, m: Measures
) -> None:
    n = a.size
    specials = _errors(a, g, s, m)
    y, d, e, t = s.y[:n], s.d[:n], s.e[:n], s.t[:n]
    ulp = _ulp_distance(a, g)
    m.size += n
    m.sum_error += float(d.sum())
    m.sum_abs += float(e.sum())
    m.max_abs = max(m.max_abs, float(e.max()))
    m.sum_square += float(np.multiply(d, d, out=t).sum())
    m.max_golden = max(m.max_golden, float(y.max()))
    m.sum_golden_square += float(np.multiply(y, y, out=t).sum())
    if ulp is None:
        distance: Array = e
        m.unequal += int(np.count_nonzero(e))
    else:
        if specials is not None:
            ulp[specials[0] | specials[1]] = 0
        distance = ulp
        m.unequal += int(np.count_nonzero(_bits_differ(a, g, specials)))
    m.sum_ulp += float(distance.sum())
    m.max_ulp = max(m.max_ulp, float(distance.max()))
    for name, test in tests.items():
        m.bad[name] += int(np.count_nonzero(_apply(test, s, ulp, n)))
        if specials is not None:
            m.bad[name] += int(np.count_nonzero(specials[1]))
    np.add(y, RELATIVE_FLOOR, out=t)
    relative = np.divide(e, t, out=t)
    m.sum_relative += float(relative.sum())
    m.max_relative = max(m.max_relative, float(relative.max()))
    if domain is not None:
        _add_normal(domain, relative, s, m, n)
    exponents = np.right_shift(relative.view(np.int64), 52, out=s.exponent[:n])
    if specials is not None:
        exponents = exponents[~(specials[0] | specials[1])]
    m.histogram += np.bincount(exponents, minlength=_EXPONENTS)[:_EXPONENTS]


def _add_normal(domain: Domain, relative: Floats, s: _Scratch, m: Measures, n: int) -> None:
    """Relative error and error square over the normal values alone; special places have golden 0 and drop out."""
    inside = s.y[:n] >= domain.small
    if domain.cancel:
        inside &= ~((s.y[:n] < domain.cancel) & (np.abs(s.x[:n]) < domain.cancel))
    count = int(np.count_nonzero(inside))
    if count:
        chosen = relative[inside]
        m.normal += count
        m.normal_sum_relative += float(chosen.sum())
        m.normal_max_relative = max(m.normal_max_relative, float(chosen.max()))
        m.normal_sum_square += float(np.square(s.e[:n][inside]).sum())


def _bits_differ(a: Array, g: Array, specials: tuple[Mask, Mask] | None) -> Mask:
    """Where bits differ after golden is rounded to a's dtype; two NaNs are equal whatever their bits."""
    with np.errstate(all="ignore"):
        rounded = g if g.dtype == a.dtype else g.astype(a.dtype)
    unsigned = f"u{a.dtype.itemsize}"
    different = np.not_equal(a.view(unsigned), rounded.view(unsigned))
    if specials is not None:
        different &= ~specials[0]
    return np.asarray(different)
