"""Vector functions tested on a whole image of UB: what must change is checked, and that nothing else does.

A kernel of this module copies an image of UB in, runs one call on three operands at fixed places and copies the image out. The oracle
knows which lanes a call has, finds their bytes by the documented stride rules, and computes the expected image with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from toprope.kernel import KernelFile, Run

Array = np.ndarray[Any, Any]
REGION = 24576  # bytes of UB that each operand may use
DST, SRC0, SRC1 = 0, REGION, 2 * REGION
IMAGE = 3 * REGION
FORMS = ("count", "mask", "bits", "counter", "registers")
LENGTHS = (1, 7, 31, 64, 65, 127, 128, 129, 256, 1000, 5000)

CXX = {
    "float16": "half",
    "bfloat16": "bfloat16_t",
    "float32": "float",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
}

PRELUDE = f"""
constexpr uint32_t REGION = {REGION};
struct Ub {{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    GlobalTensor<uint8_t> gm;
    LocalTensor<uint8_t> all;
    __attribute__((noinline)) Ub(GM_ADDR image) {{
        gm.SetGlobalBuffer(image);
        pipe.InitBuffer(buffer, 3 * REGION);
        all = buffer.Get<uint8_t>();
        DataCopy(all, gm, 3 * REGION);
        PipeBarrier<PIPE_ALL>();
    }}
    __attribute__((noinline)) ~Ub() {{
        PipeBarrier<PIPE_ALL>();
        DataCopy(gm, all, 3 * REGION);
    }}
    template <typename T> LocalTensor<T> at(uint32_t region) {{ return all[region * REGION].ReinterpretCast<T>(); }}
}};
#define COUNTED SetMaskCount(); SetVectorMask<T, MaskMode::COUNTER>(n)
#define REGISTERS SetVectorMask<T>(hi, lo)
#define DONE SetMaskNorm(); ResetMask()
"""


def entry(name: str, types: Sequence[str], cases: str) -> str:
    """The text of a kernel whose `switch (form)` has these cases; types: those of dst (d, T), src0 (a, U) and src1 (b)."""
    d, a, b = types
    return f"""
extern "C" __global__ __aicore__ void {name}(GM_ADDR image, int32_t form, int32_t n, uint32_t rep, int32_t db, int32_t ab, int32_t bb, int32_t dr, int32_t ar, int32_t br,
                                             uint64_t lo, uint64_t hi, float s) {{
    Ub ub(image);
    auto d = ub.at<{d}>(0);
    auto a = ub.at<{a}>(1);
    auto b = ub.at<{b}>(2);
    using T = {d}; using U = {a};
    uint64_t m[2] = {{lo, hi}};
    const UnaryRepeatParams u1(db, ab, dr, ar);
    const BinaryRepeatParams p2(db, ab, bb, dr, ar, br);
    switch (form) {{ {cases} }}
}}
"""


@dataclass(frozen=True)
class Layout:
    """Strides of a call in 32-byte blocks, operand by operand: dst, src0, src1."""

    block: tuple[int, int, int] = (1, 1, 1)
    repeat: tuple[int, int, int] = (8, 8, 8)


@dataclass(frozen=True)
class Call:
    """One call: its form, lanes and layout. `width` is the number of lanes of a repeat."""

    form: str
    width: int
    n: int = 0
    repeats: int = 1
    bits: int = 0
    layout: Layout = field(default_factory=Layout)

    def lanes(self) -> tuple[Array, Array]:
        """Repeat and lane number of every lane that takes part."""
        if self.form in ("count", "counter"):
            flat = np.arange(self.n)
            return flat // self.width, flat % self.width
        chosen = (
            np.arange(min(self.n, self.width))
            if self.form == "mask"
            else np.flatnonzero([self.bits >> i & 1 for i in range(self.width)])
        )
        repeat, lane = np.meshgrid(np.arange(self.repeats), chosen, indexing="ij")
        return repeat.ravel(), lane.ravel()

    def offsets(self, operand: int, item_bytes: int) -> Array:
        """Byte offsets of the lanes of an operand (0 = dst, 1 = src0, 2 = src1) from its start."""
        repeat, lane = self.lanes()
        block = self.layout.block[operand] if self.form != "count" else 1
        stride = self.layout.repeat[operand] if self.form != "count" else self.width * item_bytes // 32
        per_block = 32 // item_bytes
        return (repeat * stride + lane // per_block * block) * 32 + lane % per_block * item_bytes

    def arguments(self, scalar: float = 0.0) -> tuple[Any, ...]:
        low, high = self.bits & (1 << 64) - 1, self.bits >> 64
        return (
            FORMS.index(self.form),
            self.n,
            self.repeats,
            *self.layout.block,
            *self.layout.repeat,
            low,
            high,
            float(scalar),
        )


def gather(image: Array, start: int, offsets: Array, dtype: Any) -> Array:
    """The elements of an operand, in lane order."""
    size = np.dtype(dtype).itemsize
    return image[start + offsets[:, None] + np.arange(size)].copy().view(dtype).ravel()


def scatter(image: Array, start: int, offsets: Array, values: Array) -> None:
    size = values.dtype.itemsize
    image[start + offsets[:, None] + np.arange(size)] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, size)


def image_of(
    rng: np.random.Generator, dtypes: Sequence[Any], values: Callable[[np.random.Generator, Any, int], Array]
) -> Array:
    """A fresh image: every region filled with values of its operand's type."""
    image = np.zeros(IMAGE, np.uint8)
    for start, dtype in zip((DST, SRC0, SRC1), dtypes, strict=False):
        count = REGION // np.dtype(dtype).itemsize
        with np.errstate(all="ignore"):
            image[start : start + REGION] = np.ascontiguousarray(values(rng, np.dtype(dtype), count)).view(np.uint8)
    return image


def ordinary(rng: np.random.Generator, dtype: Any, count: int) -> Array:
    """Values that a kernel may meet: mixed sizes and signs, a few special ones."""
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        data = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        data[::7] = rng.integers(max(info.min, -5), 6, len(data[::7]))
        return data
    spread = 4 if dtype.itemsize == 2 else 30
    data = (rng.standard_normal(count) * np.exp2(rng.uniform(-spread, spread, count))).astype(dtype)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 65504.0, 6e-8, -1e-5], np.float32).astype(dtype)
    data[::53] = rng.choice(special, len(data[::53]))
    return data


def calls(
    width: int, rng: np.random.Generator, sizes: tuple[int, int, int] = (1, 1, 1), longest: int = REGION
) -> list[Call]:
    """Representative calls of an instruction with `width` lanes; sizes are the element bytes of dst, src0, src1."""
    packed = tuple(width * s // 32 for s in sizes)
    out = [Call("count", width, n) for n in LENGTHS if n * max(sizes) <= longest]
    plain = Layout(repeat=packed)  # type: ignore[arg-type]
    out += [
        Call("mask", width, n, r, layout=plain)
        for n, r in ((width, 3), (width // 2 + 3, 4), (1, 2), (7, 1), (width + 5, 2))
    ]
    gaps = Layout((2, 1, 3), (packed[0] * 2 + 1, packed[1] + 2, packed[2] * 3))
    broadcast = Layout((1, 1, 0), (packed[0], packed[1], 1))
    everyone, odd = (1 << width) - 1, int.from_bytes(rng.bytes(width // 8), "little")
    for layout in (gaps, broadcast):
        out += [Call("mask", width, width - 5, 3, layout=layout), Call("bits", width, 0, 3, odd, layout)]
    out += [
        Call("bits", width, 0, 2, bits, plain) for bits in (everyone, odd, 0b1110 << (width // 2), 1 << (width - 1))
    ]
    out += [Call("counter", width, n, 1, layout=layout) for n in (width - 3, width * 3 + 5) for layout in (plain, gaps)]
    out += [Call("registers", width, 0, 2, odd, plain)]
    return out


def same(got: Array, want: Array, ulps: int = 0) -> Array:
    """Where two arrays agree: bits, or any NaN for NaN, or (floats) within so many units in the last place."""
    equal = got.view(f"u{got.itemsize}") == want.view(f"u{want.itemsize}")
    if got.dtype.kind in "fV":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            nan = np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
        equal |= nan
        if ulps:
            kind = f"i{got.itemsize}"
            distance = np.abs(got.view(kind).astype(np.int64) - want.view(kind).astype(np.int64))
            equal |= (distance <= ulps) & np.isfinite(got.astype(np.float64)) & np.isfinite(want.astype(np.float64))
    return equal


def check_call(
    file: KernelFile,
    name: str,
    call: Call,
    dtypes: Sequence[Any],
    oracle: Callable[..., Array],
    rng: np.random.Generator,
    *,
    scalar: float = 0.0,
    ulps: int = 0,
    values: Callable[[np.random.Generator, Any, int], Array] = ordinary,
    reads_dst: bool = False,
) -> Run:
    """Run a call and compare the whole image with the oracle's."""
    image = image_of(rng, dtypes, values)
    want = image.copy()
    starts = (DST, SRC0, SRC1)
    operands = [
        gather(image, start, call.offsets(i, np.dtype(t).itemsize), t)
        for i, (start, t) in enumerate(zip(starts, dtypes, strict=False))
    ]
    with np.errstate(all="ignore"):
        result = oracle(*(operands[1:] + operands[:1] if reads_dst else operands[1:]))
    out = call.offsets(0, np.dtype(dtypes[0]).itemsize)
    scatter(want, DST, out, np.asarray(result, dtype=dtypes[0]))
    run = getattr(file, name)[1](image, *call.arguments(scalar))
    assert [r.code for r in run.trace.reports if r.severity == 0] == [], f"{name} {call}"
    region = slice(DST, DST + REGION)
    good = same(image[region].view(dtypes[0]), want[region].view(dtypes[0]), ulps)
    where = np.flatnonzero(~good)
    assert where.size == 0, (
        f"{name} {call}: element {where[0]} of dst is {image[region].view(dtypes[0])[where[0]]}, want {want[region].view(dtypes[0])[where[0]]}"
    )
    np.testing.assert_array_equal(image[REGION:], want[REGION:], err_msg=f"{name} {call}: a source changed")
    return run


BF16 = np.dtype(ml_dtypes.bfloat16)
