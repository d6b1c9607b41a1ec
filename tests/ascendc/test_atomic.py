"""Atomic copies into GM: every operation and element type, with the element type's own rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.errors import CompileFailed

TYPES = {
    "int8_t": np.int8,
    "int16_t": np.int16,
    "int32_t": np.int32,
    "half": np.float16,
    "bfloat16_t": ml_dtypes.bfloat16,
    "float": np.float32,
}
OPERATIONS = {"SetAtomicAdd": np.add, "SetAtomicMax": np.maximum, "SetAtomicMin": np.minimum}

BODY = """
extern "C" __global__ __aicore__ void {op}_{t}(GM_ADDR x, GM_ADDR out, int32_t n) {{
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 2048);
    auto ub = buffer.Get<{t}>();
    GlobalTensor<{t}> xg, og;
    xg.SetGlobalBuffer((__gm__ {t}*)x);
    og.SetGlobalBuffer((__gm__ {t}*)out);
    DataCopy(ub, xg, 256);
    PipeBarrier<PIPE_ALL>();
    {op}<{t}>();
    DataCopyPad(og, ub, DataCopyExtParams(1, n * sizeof({t}), 0, 0, 0));
    SetAtomicNone();
}}
"""
EXTRA = r"""
extern "C" __global__ __aicore__ void states(GM_ADDR out) {
    GlobalTensor<int32_t> g;
    g.SetGlobalBuffer((__gm__ int32_t*)out);
    uint16_t type, op;
    SetAtomicMax<half>();
    GetStoreAtomicConfig(type, op);
    g.SetValue(0, type); g.SetValue(1, op);
    SetStoreAtomicConfig<AtomicDtype::ATOMIC_S8, AscendC::AtomicOp::ATOMIC_SUM>();
    GetStoreAtomicConfig(type, op);
    g.SetValue(2, type); g.SetValue(3, op);
    DisableDmaAtomic();
    GetStoreAtomicConfig(type, op);
    g.SetValue(4, type);
    SetAtomicType<float>();
    GetStoreAtomicConfig(type, op);
    g.SetValue(5, type); g.SetValue(6, op);
    InitSocState();
    GetStoreAtomicConfig(type, op);
    g.SetValue(7, type);
}
extern "C" __global__ __aicore__ void mismatch(GM_ADDR x, GM_ADDR out) {
    LocalTensor<half> ub(TPosition::VECCALC, 0, 64);
    GlobalTensor<half> xg, og;
    xg.SetGlobalBuffer((__gm__ half*)x);
    og.SetGlobalBuffer((__gm__ half*)out);
    DataCopy(ub, xg, 64);
    SetAtomicAdd<float>();
    PipeBarrier<PIPE_ALL>();
    DataCopy(og, ub, 64);
}
extern "C" __global__ __aicore__ void all_cores(GM_ADDR out) {
    LocalTensor<int32_t> ub(TPosition::VECCALC, 0, 8);
    GlobalTensor<int32_t> g;
    g.SetGlobalBuffer((__gm__ int32_t*)out);
    for (int i = 0; i < 8; ++i) ub.SetValue(i, GetBlockIdx() + i);
    SetFlag<HardEvent::S_MTE3>(0);
    WaitFlag<HardEvent::S_MTE3>(0);
    SetAtomicAdd<int32_t>();
    DataCopy(g, ub, 8);
}
"""


def module() -> Any:
    return kernels("".join(BODY.format(op=op, t=t) for op in OPERATIONS for t in TYPES) + EXTRA, "atomic")


def accumulated(op: str, held: np.ndarray, given: np.ndarray) -> np.ndarray:
    """One element operation each, rounded once to the element type."""
    wide = np.float32 if held.dtype.kind not in "iu" else np.int64
    return OPERATIONS[op](held.astype(wide), given.astype(wide)).astype(held.dtype)


ORACLES: dict[str, Callable[..., Any]] = {
    name: accumulated
    for name in (
        *OPERATIONS,
        "SetAtomicNone",
        "SetAtomicType",
        "DisableDmaAtomic",
        "SetStoreAtomicConfig",
        "GetStoreAtomicConfig",
    )
}


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("op", OPERATIONS)
def test_every_operation_and_type(op: str, t: str) -> None:
    rng = np.random.default_rng(len(op + t))
    given, held = rng.normal(0, 60, (2, 256)).astype(TYPES[t])
    out = held.copy()
    n = 201
    run = module()[f"{op}_{t}"][1](given, out, n)
    assert not run.trace.reports
    expected = held.copy()
    expected[:n] = accumulated(op, held[:n], given[:n])
    np.testing.assert_array_equal(out, expected)
    ranges = run.trace.decoded()
    assert 3 in ranges.mode[ranges.space == 0] and 2 not in ranges.mode[ranges.space == 0]


def test_integers_wrap() -> None:
    given, held = np.full(256, 100, np.int8), np.full(256, 100, np.int8)
    module().SetAtomicAdd_int8_t[1](given, held, 256)
    assert (held == np.int8(-56)).all()


def test_the_mode_can_be_read_back_and_is_cleared() -> None:
    out = np.full(8, -1, np.int32)
    module().states[1](out)
    assert out.tolist() == [2, 1, 5, 0, 0, 1, 0, 0]


def test_all_cores_add_into_the_same_bytes() -> None:
    out = np.zeros(8, np.int32)
    module().all_cores[5](out)
    assert out.tolist() == [10 + 5 * i for i in range(8)]


def test_another_type_than_the_mode_is_reported() -> None:
    x, out = np.zeros(64, np.float16), np.zeros(64, np.float16)
    assert [r.code for r in module().mismatch[1](x, out).trace.reports] == ["atomic-type-mismatch"]


def test_a_type_the_chip_lacks_does_not_compile() -> None:
    file = kernels('extern "C" __global__ __aicore__ void k(GM_ADDR x) { SetAtomicAdd<uint32_t>(); }')
    with pytest.raises(CompileFailed, match="SetAtomicAdd: this chip has no atomic copies of this element type"):
        file.k[1](np.zeros(8, np.uint32))
