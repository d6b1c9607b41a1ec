"""Register functions of the 950 against NumPy: every name over its element types, under full, partial and merging masks."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.errors import CompileFailed
from toprope.kernel import KernelFile

Array = np.ndarray[Any, Any]
SOC = "ascend950pr_958x"
CXX = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float16": "half",
    "bfloat16": "bfloat16_t",
    "float32": "float",
}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ALL = (*INTEGERS, "float16", "bfloat16", "float32")
PRODUCTS = tuple(t for t in ALL if t not in ("int8", "uint8"))


def dtype(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def wide(f: Callable[..., Array]) -> Callable[..., Array]:
    """16-bit floats in float, rounded once; integers as NumPy wraps them."""

    def run(*args: Array) -> Array:
        kind = args[0].dtype
        if kind.itemsize == 2 and kind.kind not in "iu":
            return f(*(a.astype(np.float32) for a in args)).astype(kind)
        return f(*args).astype(kind)

    return run


def flushed(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """In double, rounded once, subnormal arguments and results as 0."""

    def run(x: Array) -> Array:
        tiny = np.finfo(x.dtype).tiny
        with np.errstate(all="ignore"):
            y = f(np.where(np.abs(x) < tiny, np.copysign(0, x), x).astype(np.float64)).astype(x.dtype)
        return np.where(np.abs(y) < tiny, np.copysign(np.zeros_like(y), y), y)

    return run


def shift_left(x: Array, by: int) -> Array:
    bits = x.dtype.itemsize * 8
    plain = (x.view(f"u{x.dtype.itemsize}") << np.uint64(by).astype(f"u{x.dtype.itemsize}")).view(x.dtype)
    if x.dtype.kind == "u":
        return plain
    sign = np.array(-(2 ** (bits - 1))).astype(x.dtype)
    return (x & sign) | (plain & ~sign)


UNARY: dict[str, tuple[tuple[str, ...], Callable[[Array], Array]]] = {
    "Abs": (("int8", "int16", "float16", "int32", "float32", "int64"), np.abs),
    "Neg": (("int8", "int16", "float16", "int32", "float32", "int64"), np.negative),
    "Relu": (("float16", "int32", "float32", "int64"), lambda x: np.where((x > 0) | (x != x), x, 0).astype(x.dtype)),
    "Exp": (("float16", "float32"), flushed(np.exp)),
    "Ln": (("float16", "float32"), flushed(np.log)),
    "Log": (("float16", "float32"), flushed(np.log)),
    "Log2": (("float16", "float32"), flushed(np.log2)),
    "Log10": (("float16", "float32"), flushed(np.log10)),
    "Sqrt": (("float16", "float32"), flushed(np.sqrt)),
    "Not": (INTEGERS, np.invert),
}
BINARY: dict[str, tuple[tuple[str, ...], Callable[[Array, Array], Array]]] = {
    "Add": (ALL, wide(np.add)),
    "Sub": (ALL, wide(np.subtract)),
    "Mul": (PRODUCTS, wide(np.multiply)),
    "Max": (ALL, wide(np.maximum)),
    "Min": (ALL, wide(np.minimum)),
    "And": (INTEGERS, np.bitwise_and),
    "Or": (INTEGERS, np.bitwise_or),
    "Xor": (INTEGERS, np.bitwise_xor),
    "Prelu": (("float16", "float32"), wide(lambda x, y: np.where(x > 0, x, x * y))),
    "AbsSub": (("float16", "float32", "int64"), wide(lambda x, y: np.abs(x - y))),
}
SCALAR: dict[str, tuple[tuple[str, ...], Callable[[Array, Any], Array]]] = {
    "Adds": (ALL, lambda x, s: wide(lambda a: a + a.dtype.type(s))(x)),
    "Muls": (PRODUCTS, lambda x, s: wide(lambda a: a * a.dtype.type(s))(x)),
    "Maxs": (ALL, lambda x, s: wide(lambda a: np.maximum(a, a.dtype.type(s)))(x)),
    "Mins": (ALL, lambda x, s: wide(lambda a: np.minimum(a, a.dtype.type(s)))(x)),
    "LeakyRelu": (("float16", "float32"), lambda x, s: wide(lambda a: np.where(a > 0, a, a * a.dtype.type(s)))(x)),
    "ShiftLefts": (INTEGERS, shift_left),
    "ShiftRights": (INTEGERS, lambda x, s: x >> x.dtype.type(s)),
}
CASES = [
    (f, n, t) for f, table in (("u", UNARY), ("b", BINARY), ("s", SCALAR)) for n, (ts, _) in table.items() for t in ts
]
MERGING = ("Add", "Sub", "Mul", "Max", "Min", "And", "Or", "Xor")

PRELUDE = """


template <typename T>
__aicore__ void in(LocalTensor<T>& t, GM_ADDR gm, uint32_t bytes) {
    GlobalTensor<T> g;
    g.SetGlobalBuffer((__gm__ T*)gm, bytes / sizeof(T));
    DataCopy(t, g, bytes / sizeof(T));
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
}
template <typename T>
__aicore__ void out(GM_ADDR gm, LocalTensor<T>& t, uint32_t bytes) {
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    GlobalTensor<T> g;
    g.SetGlobalBuffer((__gm__ T*)gm, bytes / sizeof(T));
    DataCopy(g, t, bytes / sizeof(T));
}
"""
ENTRY = """
extern "C" __global__ __aicore__ void {name}(GM_ADDR a, GM_ADDR b, GM_ADDR d, uint32_t count) {{
    using T = {cxx};
    LocalTensor<T> x(TPosition::VECCALC, 0, 256 / sizeof(T)), y(TPosition::VECCALC, 256, 256 / sizeof(T)),
        z(TPosition::VECCALC, 512, 512 / sizeof(T));
    in(x, a, 256);
    in(y, b, 256);
    __ubuf__ T *xa = (__ubuf__ T*)x.GetPhyAddr(), *ya = (__ubuf__ T*)y.GetPhyAddr(), *za = (__ubuf__ T*)z.GetPhyAddr();
    __VEC_SCOPE__ {{
        uint32_t left = count;
        Reg::MaskReg all = Reg::CreateMask<T>(), mask = Reg::UpdateMask<T>(left);
        Reg::RegTensor<T> p, q, r, s;
        Reg::LoadAlign(p, xa);
        Reg::LoadAlign(q, ya);
        Reg::Move(s, q);
        {body}
        Reg::StoreAlign(za, r, all);
        Reg::StoreAlign(za + 256 / sizeof(T), s, all);
    }}
    out(d, z, 512);
}}
"""


def body(form: str, name: str) -> str:
    if form == "u":
        return f"Reg::{name}(r, p, mask);"
    if form == "s":
        return f"Reg::{name}(r, p, 3, mask);"
    merged = f"Reg::{name}<T, Reg::MaskMergeMode::MERGING>(s, p, q, mask);" if name in MERGING else ""
    return f"Reg::{name}(r, p, q, mask); {merged}"


@pytest.fixture(scope="module")
def elementwise() -> KernelFile:
    text = "".join(ENTRY.format(name=f"{n}_{t}", cxx=CXX[t], body=body(f, n)) for f, n, t in CASES)
    return kernels(PRELUDE + text, "registers")


def numbers(t: np.dtype[Any], rng: np.random.Generator, *, positive: bool = False) -> Array:
    count = 256 // t.itemsize
    if t.kind in "iu":
        return np.frombuffer(rng.bytes(256), t).copy()
    values = rng.normal(0, 4, count).astype(np.float32)
    if not positive:
        values[:4] = [0.0, -0.0, np.inf, -np.inf]
    return (np.abs(values) if positive else values).astype(t)


def ulps(got: Array, want: Array) -> float:
    if got.dtype.kind in "iu" or got.dtype.name == "bfloat16":
        return 0.0 if np.array_equal(got, want) or np.array_equal(got.view("u2"), want.view("u2")) else np.inf
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    bits = f"i{got.dtype.itemsize}"
    far = np.abs(got.view(bits).astype(np.int64) - want.view(bits).astype(np.int64))
    return float(np.where(same, 0, far).max())


@pytest.mark.parametrize(("form", "name", "kind"), CASES)
def test_elementwise(elementwise: KernelFile, form: str, name: str, kind: str) -> None:
    rng, t = np.random.default_rng(zlib.crc32(f"{name}{kind}".encode())), dtype(kind)
    a, b = numbers(t, rng, positive=name in ("Ln", "Log", "Log2", "Log10", "Sqrt")), numbers(t, rng)
    for count in (a.size, a.size // 3, 0):
        d = np.zeros(2 * a.size, t)
        elementwise[f"{name}_{kind}"](a, b, d, count, soc=SOC, blocks=1)
        with np.errstate(all="ignore"):
            full = (
                UNARY[name][1](a) if form == "u" else (BINARY[name][1](a, b) if form == "b" else SCALAR[name][1](a, 3))
            )
        want = np.where(np.arange(a.size) < count, full.astype(t), np.zeros(1, t))
        limit = 1 if name in ("Exp", "Ln", "Log", "Log2", "Log10") else 0
        assert ulps(d[: a.size], want.astype(t)) <= limit, (name, kind, count)
        if name in MERGING:
            merged = np.where(np.arange(a.size) < count, full.astype(t), b)
            assert ulps(d[a.size :], merged.astype(t)) == 0, (name, kind, count)


ROUNDS: dict[str, Callable[[Array], Array]] = {
    "RINT": np.rint,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "TRUNC": np.trunc,
    "ROUND": lambda x: np.trunc(x) + np.sign(x) * (np.abs(x - np.trunc(x)) >= 0.5),
}
TO_INTEGER = [
    ("float32", "int16"),
    ("float32", "int32"),
    ("float16", "int8"),
    ("float16", "uint8"),
    ("float16", "int16"),
    ("bfloat16", "int32"),
]
CASTS = [
    *((s, d, r, sat) for s, d in TO_INTEGER for r in ROUNDS for sat in ("SAT", "NO_SAT")),
    *(
        (s, d, "RINT", "SAT")
        for s, d in [
            ("int32", "int16"),
            ("int32", "uint8"),
            ("uint32", "uint16"),
            ("int16", "uint8"),
            ("int16", "uint32"),
        ]
    ),
    *(
        (s, d, "RINT", "NO_SAT")
        for s, d in [
            ("int32", "int16"),
            ("int32", "uint8"),
            ("uint32", "uint16"),
            ("int8", "int32"),
            ("uint8", "uint16"),
        ]
    ),
    *(
        (s, d, "RINT", "NO_SAT")
        for s, d in [("float32", "float16"), ("float32", "bfloat16"), ("float16", "float32"), ("bfloat16", "float32")]
    ),
    *(
        (s, d, "RINT", "NO_SAT")
        for s, d in [("int16", "float16"), ("int8", "float16"), ("int32", "float32"), ("int16", "float32")]
    ),
]
CAST = """
namespace traits_{name} {{ static constexpr Reg::CastTrait kTrait = {{Reg::RegLayout::{layout}, Reg::SatMode::{sat}, Reg::MaskMergeMode::ZEROING, RoundMode::CAST_{mode}}}; }}
extern "C" __global__ __aicore__ void {name}(GM_ADDR a, GM_ADDR d, uint32_t count) {{
    using S = {source};
    using D = {target};
    LocalTensor<S> x(TPosition::VECCALC, 0, 256 / sizeof(S));
    LocalTensor<D> z(TPosition::VECCALC, 512, 256 / sizeof(D));
    in(x, a, 256);
    __ubuf__ S* xa = (__ubuf__ S*)x.GetPhyAddr();
    __ubuf__ D* za = (__ubuf__ D*)z.GetPhyAddr();
    __VEC_SCOPE__ {{
        Reg::MaskReg mask = Reg::UpdateMask<S>(count), all = Reg::CreateMask<D>();
        Reg::RegTensor<S> p;
        Reg::RegTensor<D> r;
        Reg::LoadAlign(p, xa);
        Reg::Cast<D, S, traits_{name}::kTrait>(r, p, mask);
        Reg::StoreAlign(za, r, all);
    }}
    out(d, z, 256);
}}
"""


def cast_name(case: tuple[str, str, str, str]) -> str:
    return "cast_" + "_".join(case).lower()


@pytest.fixture(scope="module")
def casts() -> KernelFile:
    text = ""
    for case in CASTS:
        s, d, mode, sat = case
        layout = "UNKNOWN" if dtype(s).itemsize == dtype(d).itemsize else "ONE"
        text += CAST.format(name=cast_name(case), source=CXX[s], target=CXX[d], layout=layout, sat=sat, mode=mode)
    return kernels(PRELUDE + text, "casts")


def converted(x: Array, to: np.dtype[Any], mode: str, sat: bool) -> Array:
    if to.kind in "iu":
        low, high = np.iinfo(to).min, np.iinfo(to).max
        if x.dtype.kind in "iu":
            wide_values = x.astype(np.int64)
            grows = to.itemsize > x.dtype.itemsize and to.kind == "u" and x.dtype.kind == "i"
            return (np.clip(wide_values, low, high) if sat or grows else wide_values).astype(to)
        whole = ROUNDS[mode](x.astype(np.float64))
        clipped = np.clip(np.nan_to_num(whole, nan=0, posinf=1e18, neginf=-1e18), low, high)
        if sat:
            return clipped.astype(to)
        wraps = np.isfinite(whole)
        turned = (
            (np.where(wraps, whole, 0).astype(object) % 2 ** (8 * to.itemsize))
            .astype(np.uint64)
            .astype(f"u{to.itemsize}")
            .view(to)
        )
        return np.where(wraps, turned, clipped.astype(to))
    return x.astype(to) if x.dtype.kind != "i" else x.astype(np.float64).astype(to)


@pytest.mark.parametrize("case", CASTS, ids=cast_name)
def test_cast(casts: KernelFile, case: tuple[str, str, str, str]) -> None:
    s, d, mode, sat = case
    source, target = dtype(s), dtype(d)
    a = numbers(source, np.random.default_rng(zlib.crc32(cast_name(case).encode())))
    if source.kind not in "iu":
        a[4:12] = np.array([0.5, 1.5, -2.5, 300.25, -300.5, 3e4, np.nan, 2.0**-20], np.float32).astype(source)
    got = np.zeros(256 // target.itemsize, target)
    count = a.size - 5
    casts[cast_name(case)](a, got, count, soc=SOC, blocks=1)
    with np.errstate(all="ignore"):
        values = converted(
            np.where(np.arange(a.size) < count, a, np.zeros(1, source)).astype(source), target, mode, sat == "SAT"
        )
    want = np.zeros_like(got)
    if target.itemsize < source.itemsize:
        want[1 :: source.itemsize // target.itemsize] = values
    elif target.itemsize > source.itemsize:
        want = values[1 :: target.itemsize // source.itemsize]
    else:
        want = values
    assert ulps(got, want) == 0, np.flatnonzero(got != want)[:4]


OTHERS = {
    "interleave": ("int16", "Reg::Interleave(r, s, p, q);"),
    "deinterleave": ("int16", "Reg::DeInterleave(r, s, p, q);"),
    "select": ("float32", "Reg::Select(r, p, q, mask);"),
    "squeeze": (
        "int32",
        "Reg::MaskReg kept; Reg::Compare<T, CMPMODE::GT>(kept, p, q, mask); Reg::Squeeze(r, p, kept);",
    ),
    "compares": (
        "float16",
        "Reg::MaskReg m; Reg::Compares<T, CMPMODE::LT>(m, p, (T)0.5f, mask); Reg::Duplicate(r, (T)2.f, m);",
    ),
    "unsqueeze": (
        "int32",
        "Reg::MaskReg kept; Reg::Compare<T, CMPMODE::GT>(kept, p, q, mask); Reg::Duplicate(r, 0); Reg::Unsqueeze(r, kept);",
    ),
    "reduce_sum": ("float32", "Reg::Reduce<Reg::ReduceType::SUM>(r, p, mask);"),
    "reduce_max": ("float32", "Reg::Reduce<Reg::ReduceType::MAX>(r, p, mask);"),
    "reduce_min": ("int32", "Reg::Reduce<Reg::ReduceType::MIN>(r, p, mask);"),
    "block_sum": ("float32", "Reg::ReduceDataBlock<Reg::ReduceType::SUM>(r, p, mask);"),
    "block_max": ("int16", "Reg::ReduceDataBlock<Reg::ReduceType::MAX>(r, p, mask);"),
    "pair_sum": ("float16", "Reg::PairReduceElem(r, p, mask);"),
    "arange": ("int16", "Reg::Arange(r, 5); Reg::Arange<T, Reg::IndexOrder::DECREASE_ORDER>(s, 5);"),
    "lowest": ("float32", "Reg::Duplicate(r, p, mask);"),
    "gather": ("uint16", "Reg::Gather(r, xa, q, mask);"),
    "shuffle": ("uint16", "Reg::Gather(r, p, q);"),
    "scatter": (
        "uint32",
        "Reg::Duplicate(r, 7u); Reg::StoreAlign(za, r, all); Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_STORE>(); Reg::Scatter(za, p, q, mask); Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>(); Reg::LoadAlign(r, za);",
    ),
    "muladd": ("float32", "Reg::MulAddDst(s, p, q, all); Reg::Move(r, q); Reg::MulDstAdd(r, p, q, mask);"),
    "mull": ("int32", "Reg::Mull(r, s, p, q, all);"),
    "carry": ("uint32", "Reg::MaskReg c; Reg::Add(c, r, p, q, all); Reg::AddC(c, s, p, p, c, all);"),
    "brc": ("float32", "Reg::LoadAlign<T, Reg::LoadDist::DIST_BRC_B32>(r, xa + 3);"),
    "unpack": ("uint16", "Reg::LoadAlign<T, Reg::LoadDist::DIST_UNPACK_B16>(r, xa);"),
    "pack": (
        "uint32",
        "Reg::StoreAlign<T, Reg::StoreDist::DIST_PACK_B32>(za, p, all); Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>(); Reg::LoadAlign(r, za);",
    ),
    "two": ("uint32", "Reg::LoadAlign<T, Reg::LoadDist::DIST_DINTLV_B32>(r, s, xa);"),
    "unaligned": (
        "uint32",
        "__ubuf__ T* from = xa + 3; Reg::UnalignRegForLoad u; Reg::LoadUnAlignPre(u, from); Reg::LoadUnAlign(r, u, from, 5);",
    ),
    "histogram": (
        "uint16",
        "Reg::RegTensor<uint8_t> v; Reg::MaskReg bytes = Reg::CreateMask<uint8_t>(); Reg::LoadAlign(v, (__ubuf__ uint8_t*)xa); Reg::Duplicate(r, 1); Reg::Histograms<uint8_t, uint16_t, Reg::HistogramsBinType::BIN1, Reg::HistogramsType::ACCUMULATE>(r, v, bytes);",
    ),
    "narrow": (
        "int32",
        "Reg::RegTensor<uint16_t> h; Reg::Pack<uint16_t, int32_t, Reg::HighLowPart::HIGHEST>(h, p); r = (Reg::RegTensor<T>&)h;",
    ),
    "shift": ("int32", "Reg::Duplicate(s, 3); Reg::ShiftRight(r, p, s, mask); Reg::ShiftLeft(s, p, s, all);"),
    "expsub": ("float32", "Reg::ExpSub(r, p, q, mask);"),
    "truncate": ("float32", "Reg::Truncate<T, RoundMode::CAST_FLOOR>(r, p, mask);"),
    "div": ("float32", "Reg::Div(r, p, q, mask);"),
    "subcarry": ("uint32", "Reg::MaskReg c; Reg::Sub(c, r, p, q, all); Reg::SubC(c, s, p, p, c, all);"),
    "axpy": ("float32", "Reg::Move(r, q); Reg::Axpy(r, p, 3.f, all);"),
    "mulscast": ("float32", "Reg::RegTensor<half> h; Reg::MulsCast(h, p, 3.f, all); r = (Reg::RegTensor<T>&)h;"),
    "gatherb": (
        "uint32",
        "Reg::RegTensor<int32_t> at; Reg::Arange<int32_t, Reg::IndexOrder::DECREASE_ORDER>(at, -56); "
        "Reg::ShiftLefts(at, at, (int16_t)5, all); Reg::GatherB(r, xa, (Reg::RegTensor<uint32_t>&)at, all);",
    ),
    "load": ("uint32", "Reg::Load(r, xa + 1); Reg::Store(za, r, 9);"),
    "store": (
        "uint32",
        "Reg::UnalignRegForStore u; __ubuf__ T* to = za + 3; Reg::StoreUnAlign(to, p, u, 64); Reg::StoreUnAlign(to, p, u, 5); "
        "Reg::StoreUnAlignPost(to, u, 0); Reg::LocalMemBar<Reg::MemType::VEC_ALL, Reg::MemType::VEC_ALL>(); Reg::Load(r, za + 3); Reg::Load(s, za + 8);",
    ),
    "squeezed": (
        "uint32",
        "Reg::ClearSpr<Reg::SpecialPurposeReg::AR>(); Reg::MaskReg kept; Reg::Compare<T, CMPMODE::GT>(kept, p, q, all); "
        "Reg::UnalignRegForStore u; for (uint16_t i = 0; i < 2; ++i) { Reg::Squeeze<T, Reg::GatherMaskMode::STORE_REG>(r, p, kept); "
        "Reg::StoreUnAlign(za, r, u); } Reg::StoreUnAlignPost(za, u); "
        "Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>(); Reg::LoadAlign(r, za);",
    ),
    "maskgen": ("uint32", "Reg::MaskReg m; Reg::MaskGenWithRegTensor<T, 1>(m, p); Reg::Duplicate(r, 9u, m);"),
    "masks": (
        "uint32",
        "Reg::MaskReg a = Reg::CreateMask<T, Reg::MaskPattern::VL8>(), b = Reg::CreateMask<T, Reg::MaskPattern::M3>(), c, d, e; "
        "Reg::And(c, a, b, all); Reg::Or(d, c, mask, all); Reg::Xor(e, d, b, all); Reg::Not(e, e, all); Reg::Duplicate(r, 9u, e); "
        "Reg::Select(c, a, b, mask); Reg::Interleave<T>(d, e, c, b); Reg::DeInterleave<T>(c, b, d, e); Reg::Duplicate(s, 9u, c);",
    ),
    "maskpack": (
        "uint32",
        "Reg::MaskReg m, n; Reg::UnPack(m, mask); Reg::Pack<Reg::HighLowPart::HIGHEST>(n, m); Reg::Pack(m, m); "
        "Reg::Duplicate(r, 9u, m); Reg::Duplicate(s, 9u, n);",
    ),
    "addresses": (
        "uint32",
        "Reg::AddrReg at = Reg::CreateAddrReg<T>(1, 8, 2, 16); Reg::LoadAlign(r, xa, at); "
        "Reg::MaskReg m = Reg::CreateMask<T, Reg::MaskPattern::H>(); Reg::StoreAlign(za, r, at, m); "
        "Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>(); Reg::LoadAlign(s, za + 40);",
    ),
    "widen": ("int32", "Reg::UnPack<int32_t, int16_t, Reg::HighLowPart::HIGHEST>(r, (Reg::RegTensor<int16_t>&)p);"),
}


@pytest.fixture(scope="module")
def others() -> KernelFile:
    return kernels(
        PRELUDE + "".join(ENTRY.format(name=n, cxx=CXX[t], body=b) for n, (t, b) in OTHERS.items()), "others"
    )


def expected(name: str, a: Array, b: Array, count: int) -> tuple[Array, Array | None]:
    """What the first and, where it matters, the second register hold."""
    n, t, on = a.size, a.dtype, np.arange(a.size) < count
    zero = np.zeros(n, t)

    def first(*values: Any) -> Array:
        return np.concatenate([np.array(values, t), zero])[:n]

    masked = np.where(on, a, zero)
    if name == "interleave":
        both = np.stack([a, b], 1).ravel()
        return both[:n], both[n:]
    if name in ("deinterleave", "two"):
        both = np.concatenate([a, b])
        return both[::2], both[1::2]
    if name == "select":
        return np.where(on, a, b), None
    if name == "squeeze":
        return first(*a[on & (a > b)]), None
    if name == "compares":
        return np.where(on & (a < 0.5), t.type(2), t.type(0)), None
    if name == "unsqueeze":
        return np.concatenate([[0], np.cumsum(on & (a > b))[:-1]]).astype(t), None
    if name in ("reduce_sum", "block_sum"):
        parts = masked.reshape(8, -1) if name == "block_sum" else masked[None]
        while parts.shape[1] > 1:
            parts = parts[:, ::2] + parts[:, 1::2]
        return first(*parts[:, 0]), None
    if name in ("reduce_max", "reduce_min"):
        at = int(np.argmax(a[:count]) if name == "reduce_max" else np.argmin(a[:count]))
        return first(a[at], np.uint32(at).view(t) if t.kind == "f" else at), None
    if name == "block_max":
        blocks = np.where(on, a, np.iinfo(t).min).reshape(8, -1)
        return first(*blocks.max(1)), None
    if name == "pair_sum":
        pairs = masked.astype(np.float32)
        return first(*(pairs[::2] + pairs[1::2])), None
    if name == "arange":
        return np.arange(5, 5 + n).astype(t), np.arange(5 + n - 1, 4, -1).astype(t)
    if name == "lowest":
        return np.where(on, a[0], 0).astype(t), None
    if name == "gather":
        return np.where(on, np.concatenate([a, b])[b % n], 0).astype(t), None
    if name == "shuffle":
        return a[b % n], None
    if name == "scatter":
        out = np.full(n, 7, t)
        out[b[:count]] = a[:count]
        return out, None
    if name == "muladd":
        exact = (a.astype(np.float64) * b + b).astype(t)
        return np.where(on, (b.astype(np.float64) * a + b).astype(t), 0).astype(t), exact
    if name == "mull":
        product = a.astype(np.int64) * b.astype(np.int64)
        return product.astype(t), (product >> 32).astype(t)
    if name == "carry":
        sums = a.astype(np.uint64) + b
        return sums.astype(t), (2 * a.astype(np.uint64) + (sums >> 32)).astype(t)
    if name == "brc":
        return np.full(n, a[3]), None
    if name == "unpack":
        return np.stack([a[: n // 2], zero[: n // 2]], 1).ravel(), None
    if name == "pack":
        low = a.astype(np.uint16)
        return np.concatenate([low.view(t), np.zeros(n // 2, t)]), None
    if name == "unaligned":
        return np.concatenate([a, b])[3 : 3 + n], None
    if name == "histogram":
        below = np.cumsum(np.bincount(a.view(np.uint8), minlength=256))
        return (1 + below[128:]).astype(t), None
    if name == "narrow":
        return np.concatenate([np.zeros(n, np.uint16), a.astype(np.uint16)]).view(t), None
    if name == "div":
        return np.where(on, a / b, 0).astype(t), None
    if name == "subcarry":
        lent = (a >= b).astype(t)  # the carry is 1 where nothing is borrowed
        return a - b, (np.zeros(n, t) - (1 - lent)).astype(t)
    if name == "axpy":
        return (a.astype(np.float64) * 3 + b).astype(t), None
    if name == "mulscast":
        halves = np.zeros(2 * n, np.float16)
        halves[::2] = (a * np.float32(3)).astype(np.float16)  # ties are rare: see ulps
        return halves.view(t), None
    if name == "gatherb":
        return a.reshape(8, -1)[::-1].ravel(), None
    if name == "load":
        return np.concatenate([a, b])[1 : 1 + n], None
    if name == "store":
        stored = np.concatenate([a, a[:5], np.full(n, -1).astype(t)])
        return stored[:n], stored[5 : 5 + n]
    if name == "squeezed":
        kept = a[a > b]
        return np.concatenate([kept, kept])[:n], None
    if name == "maskgen":
        return np.where(np.unpackbits(a.view(np.uint8)[8:16], bitorder="little"), 9, 0).astype(t), None
    if name == "masks":
        i = np.arange(n)
        low, third = i < 8, i % 3 == 0
        one = ~(((low & third) | on) ^ third)
        return np.where(one, 9, 0).astype(t), np.where(np.where(on, low, third), 9, 0).astype(t)
    if name == "maskpack":
        half = np.arange(n)
        return np.where(on & (half < n // 2), 9, 0).astype(t), np.where(
            (half >= n // 2) & (half - n // 2 < count), 9, 0
        ).astype(t)
    if name == "addresses":
        moved = np.concatenate([a, b])[40 : 40 + n]
        return moved, np.where(np.arange(n) < n // 2, moved, np.uint32(2**32 - 1)).astype(t)
    if name == "widen":
        return a.view(np.int16)[n:].astype(t), None
    if name == "shift":
        return np.where(on, a >> 3, 0).astype(t), shift_left(a, 3)
    if name == "expsub":
        return np.where(on, np.exp((a - b).astype(np.float64)).astype(t), 0).astype(t), None
    return np.where(on, np.floor(a), 0).astype(t), None


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions(others: KernelFile, name: str) -> None:
    t = dtype(OTHERS[name][0])
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    a, b = numbers(t, rng, positive=True), numbers(t, rng, positive=True)
    if name in ("gather", "shuffle", "scatter"):
        b = rng.permutation(a.size).astype(t)
    count = a.size // 2 + 3
    d = np.zeros(2 * a.size, t)
    others[name](a, b, d, count, soc=SOC, blocks=1)
    one, two = expected(name, a, b, count)
    got = d[: a.size]
    if name == "pack":
        got, one = got[: a.size // 2], one[: a.size // 2]
    assert ulps(got, one.astype(t)) <= (1 if name == "expsub" else 0), (got, one)
    assert two is None or ulps(d[a.size :], two.astype(t)) == 0


# What each function is compared with stands in the tables above; the list says which functions there are.
ORACLES = [
    "Reg::Abs",
    "Reg::Add",
    "Reg::AddC",
    "Reg::Adds",
    "Reg::AbsSub",
    "Reg::And",
    "Reg::Arange",
    "Reg::Axpy",
    "Reg::Cast",
    "Reg::ClearSpr",
    "Reg::Compare",
    "Reg::Compares",
    "Reg::CreateAddrReg",
    "Reg::CreateMask",
    "Reg::DeInterleave",
    "Reg::Div",
    "Reg::Duplicate",
    "Reg::Exp",
    "Reg::ExpSub",
    "Reg::Gather",
    "Reg::GatherB",
    "Reg::Histograms",
    "Reg::Interleave",
    "Reg::LeakyRelu",
    "Reg::Ln",
    "Reg::Load",
    "Reg::LoadAlign",
    "Reg::LoadUnAlign",
    "Reg::LoadUnAlignPre",
    "Reg::LocalMemBar",
    "Reg::Log",
    "Reg::Log10",
    "Reg::Log2",
    "Reg::MaskGenWithRegTensor",
    "Reg::Max",
    "Reg::Maxs",
    "Reg::Min",
    "Reg::Mins",
    "Reg::Move",
    "Reg::MoveMask",
    "Reg::Mul",
    "Reg::MulAddDst",
    "Reg::MulDstAdd",
    "Reg::Mull",
    "Reg::Muls",
    "Reg::MulsCast",
    "Reg::Neg",
    "Reg::Not",
    "Reg::Or",
    "Reg::Pack",
    "Reg::PairReduceElem",
    "Reg::Prelu",
    "Reg::Reduce",
    "Reg::ReduceDataBlock",
    "Reg::Relu",
    "Reg::Scatter",
    "Reg::Select",
    "Reg::ShiftLeft",
    "Reg::ShiftLefts",
    "Reg::ShiftRight",
    "Reg::ShiftRights",
    "Reg::Sqrt",
    "Reg::Squeeze",
    "Reg::Store",
    "Reg::StoreAlign",
    "Reg::StoreUnAlign",
    "Reg::StoreUnAlignPost",
    "Reg::Sub",
    "Reg::SubC",
    "Reg::Truncate",
    "Reg::UnPack",
    "Reg::Unsqueeze",
    "Reg::UpdateMask",
    "Reg::Xor",
    "asc_vf_call",
]


def test_every_listed_function_is_called_by_a_kernel_here() -> None:
    texts = (
        MEMORY_MASK
        + PRELUDE
        + ENTRY
        + CAST
        + "".join(b for _, b in OTHERS.values())
        + "".join(b for _, _, b in MISTAKES.values())
    )
    called = {f"Reg::{n}" for table in (UNARY, BINARY, SCALAR) for n in table}
    assert not [n for n in ORACLES if n not in called and n not in texts]


# ---- mistakes ----------------------------------------------------------------------------------------------------------------

MISTAKES = {
    "undefined": ("undefined-register", "float32", "Reg::RegTensor<T> never; Reg::Add(r, p, never, mask);"),
    "order": ("vector-function-order", "float32", "Reg::StoreAlign(za, p, all); Reg::LoadAlign(r, za);"),
    "address": ("misaligned-address", "float32", "Reg::LoadAlign(r, xa + 1);"),
    "outside": ("on-chip-out-of-bounds", "float32", "Reg::LoadAlign(r, xa + 1000000);"),
    "unprepared": (
        "unaligned-register",
        "float32",
        "Reg::UnalignRegForLoad u; __ubuf__ T* from = xa + 1; Reg::LoadUnAlign(r, u, from, 64);",
    ),
    "unposted": (
        "unaligned-register",
        "float32",
        "Reg::Move(r, p); Reg::UnalignRegForStore u; __ubuf__ T* to = za + 1; Reg::StoreUnAlign(to, p, u, 3);",
    ),
    "many": ("register-elements", "float32", "Reg::Move(r, p); Reg::Store(za, p, 65);"),
    "twice": ("scatter-index", "uint32", "Reg::Move(r, p); Reg::Duplicate(q, 1u); Reg::Scatter(za, p, q, mask);"),
}
RIGHT = {
    "ordered": "Reg::StoreAlign(za, p, all); Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>(); Reg::LoadAlign(r, za);",
    "same_register": "Reg::StoreAlign(za, p, all); Reg::LoadAlign(p, za); Reg::Move(r, p);",
    "in_place": "Reg::Adds(r, p, 1.f, all); Reg::StoreAlign(xa, r, all);",
}


MEMORY_MASK = """
template <typename T>
__simd_vf__ inline void masked(__ubuf__ T* x, __ubuf__ T* z) {
    Reg::RegTensor<T> p, r;
    Reg::LoadAlign(p, x);
    Reg::MaskReg mask = Reg::MoveMask<T>(), all = Reg::CreateMask<T>();
    Reg::Adds(r, p, 1.f, mask);
    Reg::StoreAlign(z, r, all);
}
extern "C" __global__ __aicore__ void memory_mask(GM_ADDR a, GM_ADDR d) {
    LocalTensor<float> x(TPosition::VECCALC, 0, 64), z(TPosition::VECCALC, 512, 64);
    in(x, a, 256);
    SetVectorMask<float>(0, 0x5ull);
    asc_vf_call<masked<float>>((__ubuf__ float*)x.GetPhyAddr(), (__ubuf__ float*)z.GetPhyAddr());
    out(d, z, 256);
}
"""


def test_a_vector_function_takes_the_mask_of_the_memory_functions() -> None:
    a, d = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernels(PRELUDE + MEMORY_MASK, "memory_mask")["memory_mask"](a, d, soc=SOC, blocks=1)
    want = np.zeros(64, np.float32)
    want[[0, 2]] = a[[0, 2]] + 1
    assert np.array_equal(d, want)


@pytest.fixture(scope="module")
def mistaken() -> KernelFile:
    text = "".join(ENTRY.format(name=n, cxx=CXX[t], body=b) for n, (_, t, b) in MISTAKES.items())
    text += "".join(ENTRY.format(name=n, cxx="float", body=b) for n, b in RIGHT.items())
    return kernels(PRELUDE + text, "mistaken")


@pytest.mark.parametrize("name", [*MISTAKES, *RIGHT])
def test_mistakes_are_named_and_right_ones_are_not(mistaken: KernelFile, name: str) -> None:
    t = dtype(MISTAKES[name][1] if name in MISTAKES else "float32")
    a = numbers(t, np.random.default_rng(1), positive=True)
    run = mistaken[name](a, a.copy(), np.zeros(2 * a.size, t), a.size, soc=SOC, blocks=1)
    codes = {f.code for f in run.findings if f.severity == "error"}
    assert codes == ({MISTAKES[name][0]} if name in MISTAKES else set())


def test_what_a_register_does_not_have_is_a_sentence() -> None:
    with pytest.raises(CompileFailed, match="Reg::Mul: this chip has no Reg::Mul for this element type"):
        text = ENTRY.format(name="bad", cxx="int8_t", body="Reg::Mul(r, p, q, mask);")
        one = np.zeros(256, np.int8)
        kernels(PRELUDE + text, "bad")["bad"](one, one, np.zeros(512, np.int8), 8, soc=SOC, blocks=1)
