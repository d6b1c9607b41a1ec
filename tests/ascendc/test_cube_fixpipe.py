"""Fixpipe: every quantisation mode, relu, NZ and ND, channel split, several ND matrices, GM and L1, atomic modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.ascendc.harness import kernels, left, right

ORACLES: dict[str, Callable[..., object]] = {}

# C = A x I puts any half (or int8) matrix into L0C; then it goes out in the form under test.
KERNELS = """
#define PASS(event) SetFlag<HardEvent::event>(0); WaitFlag<HardEvent::event>(0)
template <typename A, typename S> __aicore__ inline LocalTensor<S> Result(GM_ADDR a, GM_ADDR b, int32_t m, int32_t n) {
    constexpr int32_t k0 = 32 / sizeof(A);
    const int32_t mf = (m + 15) / 16, nf = (n + 15) / 16, kf = (n + k0 - 1) / k0;
    LocalTensor<A> a1(TPosition::A1, 0, 0), b1(TPosition::B1, 131072, 0), a2(TPosition::A2, 0, 0), b2(TPosition::B2, 0, 0);
    GlobalTensor<A> ag, bg;
    ag.SetGlobalBuffer((__gm__ A*)a);
    bg.SetGlobalBuffer((__gm__ A*)b);
    DataCopy(a1, ag, DataCopyParams(1, mf * kf * 16, 0, 0));
    DataCopy(b1, bg, DataCopyParams(1, nf * kf * 16, 0, 0));
    PASS(MTE2_MTE1);
    LoadData2DParams p;
    p.srcStride = 1;
    p.repeatTimes = mf * kf;
    LoadData(a2, a1, p);
    p.repeatTimes = nf * kf;
    LoadData(b2, b1, p);
    PASS(MTE1_M);
    MmadParams mm;
    mm.m = m; mm.n = n; mm.k = n;
    LocalTensor<S> c(TPosition::CO1, 0, 0);
    Mmad(c, a2, b2, mm);
    PASS(M_FIX);
    return c;
}
template <typename A, typename S, typename D, bool nz> __aicore__ inline void Out(GM_ADDR a, GM_ADDR b, GM_ADDR q, GM_ADDR d, int32_t m, int32_t n, int32_t mode, int32_t relu, int32_t split) {
    LocalTensor<S> c = Result<A, S>(a, b, m, n);
    GlobalTensor<D> to;
    to.SetGlobalBuffer((__gm__ D*)d);
    static constexpr FixpipeConfig layout = {nz ? CO2Layout::NZ : CO2Layout::ROW_MAJOR, false};
    constexpr int32_t c0 = sizeof(D) == 1 ? 32 : 16;
    const int32_t rows = (m + 15) / 16 * 16;
    FixpipeParamsV220 p(n, m, rows, nz ? rows * (split ? 8 : c0) * sizeof(D) / 32 : n, relu != 0);
    p.quantPre = (QuantMode_t)mode;
    p.isChannelSplit = split != 0;
    if (mode == VDEQF16 || mode == VQF322B8_PRE || mode == VREQ8) {
        LocalTensor<uint64_t> factors(TPosition::C1, 262144, n);
        GlobalTensor<uint64_t> qg;
        qg.SetGlobalBuffer((__gm__ uint64_t*)q);
        DataCopy(factors, qg, (n + 3) / 4 * 4);
        PASS(MTE2_FIX);
        Fixpipe<D, S, layout>(to, c, factors, p);
    } else {
        p.deqScalar = *(__gm__ uint64_t*)q;
        Fixpipe<D, S, layout>(to, c, p);
    }
}
"""
FORMS = {
    "f_f": ("half", "float", "float"), "f_h": ("half", "float", "half"), "f_b": ("half", "float", "bfloat16_t"),
    "f_s8": ("half", "float", "int8_t"), "f_u8": ("half", "float", "uint8_t"), "i_i": ("int8_t", "int32_t", "int32_t"),
    "i_h": ("int8_t", "int32_t", "half"), "i_s8": ("int8_t", "int32_t", "int8_t"),
}  # fmt: skip
NUMPY: dict[str, Any] = {
    "float": np.float32, "half": np.float16, "bfloat16_t": ml_dtypes.bfloat16, "int8_t": np.int8, "uint8_t": np.uint8,
    "int32_t": np.int32,
}  # fmt: skip
NO, F16, BF16, DEQ, VDEQ, QF, VQF, REQ, VREQ = range(9)
CASES = [
    ("f_f", NO), ("f_h", F16), ("f_b", BF16), ("f_s8", QF), ("f_s8", VQF), ("f_u8", QF), ("i_i", NO), ("i_h", DEQ), ("i_h", VDEQ),
    ("i_s8", REQ), ("i_s8", VREQ),
]  # fmt: skip


def text() -> str:
    out = KERNELS
    for name, types in FORMS.items():
        for nz in (False, True):
            out += (
                f'extern "C" __global__ __aicore__ void {name}_{"nz" if nz else "nd"}(GM_ADDR a, GM_ADDR b, GM_ADDR q, GM_ADDR d, '
                "int32_t m, int32_t n, int32_t mode, int32_t relu, int32_t split) {\n"
                f"    Out<{', '.join(types)}, {str(nz).lower()}>(a, b, q, d, m, n, mode, relu, split);\n}}\n"
            )
    return out + (
        'extern "C" __global__ __aicore__ void through_l1(GM_ADDR a, GM_ADDR b, GM_ADDR d, int32_t m, int32_t n) {\n'
        "    LocalTensor<float> c = Result<half, float>(a, b, m, n);\n"
        "    LocalTensor<half> l1(TPosition::A1, 0, 0);\n"
        "    FixpipeParamsV220 p(n, m, m, m, false);\n"
        "    p.quantPre = F322F16;\n"
        "    Fixpipe<half, float, CFG_NZ>(l1, c, p);\n"
        "    SetFlag<HardEvent::FIX_MTE3>(0); WaitFlag<HardEvent::FIX_MTE3>(0);\n"
        "    GlobalTensor<half> to;\n"
        "    to.SetGlobalBuffer((__gm__ half*)d);\n"
        "    DataCopy(to, l1, m * n);\n}\n"
        'extern "C" __global__ __aicore__ void two_matrices(GM_ADDR a, GM_ADDR b, GM_ADDR d, int32_t m, int32_t n) {\n'
        "    LocalTensor<float> c = Result<half, float>(a, b, m, n);\n"
        "    GlobalTensor<float> to;\n"
        "    to.SetGlobalBuffer((__gm__ float*)d);\n"
        "    FixpipeParamsV220 p(n / 2, m, m, n / 2, false, NoQuant, 0, 2, n / 2 / 16 * m / 16, m * n / 2);\n"
        "    SetAtomicMax<float>();\n"
        "    Fixpipe<float, float, CFG_ROW_MAJOR>(to, c, p);\n"
        "    SetAtomicNone();\n}\n"
    )


@pytest.fixture(scope="module")
def file() -> Any:
    return kernels(text(), "cube_fixpipe")


def values(kind: str, m: int, n: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    rng = np.random.default_rng(m * n)
    if kind == "half":
        x = (rng.standard_normal((m, n)) * 100).astype(np.float16)
        return x, left(x, 16), right(np.eye(n, dtype=np.float16), 16)
    x = rng.integers(-128, 128, (m, n)).astype(np.int8)
    return x, left(x, 32), right(np.eye(n, dtype=np.int8), 32)


def nd_of(c: npt.NDArray[Any], m: int, n: int, c0: int) -> npt.NDArray[Any]:
    rows = -(-m // 16) * 16
    return c.reshape(-1, rows, c0).transpose(1, 0, 2).reshape(rows, -1)[:m, :n]


@pytest.mark.parametrize("name,mode", CASES)
@pytest.mark.parametrize("nz", [False, True])
@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("m,n", [(16, 32), (21, 64), (40, 96)])
def test_modes(file: Any, name: str, mode: int, nz: bool, relu: int, m: int, n: int) -> None:
    source, _, target = FORMS[name]
    x, a, b = values(source, m, n)
    rng = np.random.default_rng(mode)
    factor = rng.uniform(0.05, 1.5, n).astype(np.float32)
    if mode not in (VDEQ, VQF, VREQ):
        factor[:] = factor[0]
    kept = factor.view(np.uint32) & np.uint32(0xFFFFE000)  # ten bits of mantissa
    q = kept.astype(np.uint64)
    offset = 3 if target in {"int8_t", "uint8_t"} else 0
    if offset:
        q |= np.uint64(offset) << np.uint64(37) | np.uint64(target == "int8_t") << np.uint64(46)
    rows = -(-m // 16) * 16
    out = np.zeros(rows * n if nz else m * n, NUMPY[target])
    run = file[f"{name}_{'nz' if nz else 'nd'}"][1](a, b, q, out, m, n, mode, relu, 0)
    assert not run.trace.reports, run.trace.reports
    wide = x.astype(np.float32)
    if relu:
        wide = np.maximum(wide, 0)
    if mode not in (NO, F16, BF16):
        wide = wide * kept.view(np.float32)
    if offset:
        limits = (-128, 127) if target == "int8_t" else (0, 255)
        gold = np.clip(np.rint(wide) + offset, *limits).astype(NUMPY[target])
    else:
        gold = wide.astype(NUMPY[target])
    got = nd_of(out, m, n, 32 if out.itemsize == 1 else 16) if nz else out.reshape(m, n)
    assert np.array_equal(got, gold)


def test_channel_split(file: Any) -> None:
    m, n = 32, 64
    x, a, b = values("half", m, n)
    out = np.zeros(m * n, np.float32)
    assert not file.f_f_nz[1](a, b, np.zeros(1, np.uint64), out, m, n, NO, 0, 1).trace.reports
    assert np.array_equal(nd_of(out, m, n, 8), x.astype(np.float32))


def test_into_l1(file: Any) -> None:
    m, n = 32, 48
    x, a, b = values("half", m, n)
    out = np.zeros(m * n, np.float16)
    assert not file.through_l1[1](a, b, out, m, n).trace.reports
    assert np.array_equal(nd_of(out, m, n, 16), x)


def test_two_matrices_with_an_atomic_maximum(file: Any) -> None:
    m, n = 32, 64
    x, a, b = values("half", m, n)
    out = np.full((2, m, n // 2), 5, np.float32)
    assert not file.two_matrices[1](a, b, out, m, n).trace.reports
    assert np.array_equal(out, np.maximum(5, np.stack([x[:, : n // 2], x[:, n // 2 :]]).astype(np.float32)))
