"""The host's tiling of products: legal and balanced for any sizes, and the Matmul object computes with what it says."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ascendc.cube_tiling import FIELDS, cube_tiling
from tests.ascendc.test_matmul_object import build, clean, close, operands
from toprope.build import shared_library
from toprope.vendor_paths import INCLUDE

FLOAT, HALF, INT8, INT32, INT4 = 0, 1, 2, 3, 29
BITS = {FLOAT: 32, HALF: 16, INT8: 8, INT4: 4}
HOST = """
#include "host/tiling/matmul_tiling.cpp"
// optiling's struct: fields behind functions.
struct Written {
    int32_t base_m = 0;
#define SETTER(x) void set_##x(int32_t) {}
    void set_baseM(int32_t v) { base_m = v; }
    SETTER(usedCoreNum) SETTER(M) SETTER(N) SETTER(Ka) SETTER(Kb) SETTER(singleCoreM) SETTER(singleCoreN) SETTER(singleCoreK)
    SETTER(baseN) SETTER(baseK) SETTER(depthA1) SETTER(depthB1) SETTER(stepM) SETTER(stepN) SETTER(stepKa) SETTER(stepKb)
    SETTER(isBias) SETTER(transLength) SETTER(iterateOrder) SETTER(shareMode) SETTER(shareL1Size) SETTER(shareL0CSize)
    SETTER(shareUbSize) SETTER(batchM) SETTER(batchN) SETTER(singleBatchM) SETTER(singleBatchN) SETTER(dbL0A) SETTER(dbL0B)
    SETTER(dbL0C) SETTER(ALayoutInfoB) SETTER(ALayoutInfoS) SETTER(ALayoutInfoN) SETTER(ALayoutInfoG) SETTER(ALayoutInfoD)
    SETTER(BLayoutInfoB) SETTER(BLayoutInfoS) SETTER(BLayoutInfoN) SETTER(BLayoutInfoG) SETTER(BLayoutInfoD) SETTER(CLayoutInfoB)
    SETTER(CLayoutInfoS1) SETTER(CLayoutInfoN) SETTER(CLayoutInfoG) SETTER(CLayoutInfoS2) SETTER(BatchNum)
};
enum class Memory { L0_A, L0_B, L0_C, L1, L2, UB };
struct Platform {  // as platform_ascendc::PlatformAscendC
    void GetCoreMemSize(const Memory& memory, uint64_t& size) const {
        const uint64_t sizes[] = {65536, 65536, 131072, 65536, 0, 196608};
        size = sizes[static_cast<int>(memory)];
    }
    uint32_t GetCoreNumAic() const { return 20; }
};
using namespace matmul_tiling;
// base M by the setters, base M fixed by the user, bytes of L1 used when the platform has 64 KB, cores of a batch.
extern "C" void checks(int32_t* out) {
    MatmulApiTiling one;
    one.SetShape(300, 200, 100);
    Written w;
    one.GetTiling(w);
    out[0] = w.base_m == one.GetBaseM() && w.base_m > 0;
    one.SetFixSplit(48, 64, -1);
    one.GetTiling(w);
    out[1] = one.GetBaseM() == 48 && one.GetBaseN() == 64;
    MultiCoreMatmulTiling small{Platform{}};
    small.SetDim(8);
    small.SetShape(4096, 4096, 4096);
    AscendC::tiling::TCubeTiling t;
    small.GetTiling(t);
    out[2] = (t.depthA1 * t.baseM + t.depthB1 * t.baseN) * t.baseK * 2;
    int32_t dim, m, n, a, b;
    small.GetCoreNum(dim, m, n);
    out[3] = dim <= 8 && m * n == dim;
    BatchMatmulTiling batch;
    batch.SetDim(6);
    batch.SetBatchInfoForNormal(10, 10, 64, 64, 64);
    batch.GetTiling(t);
    batch.GetCoreNum(dim, m, n, a, b);
    out[4] = dim;
    MultiCoreMatmulTiling fixed;
    fixed.SetDim(4);
    fixed.SetShape(256, 256, 64);
    fixed.SetSingleShape(128, 64, 64);
    out[5] = fixed.GetTiling(t) == -1;  // eight cores would be needed
    fixed.SetDim(8);
    out[6] = fixed.GetTiling(t) == 0 && t.singleCoreM == 128 && t.singleCoreN == 64 && t.usedCoreNum == 8;
    MatmulApiTiling none;
    out[7] = none.GetTiling(t) == -1;  // no shape
}
"""


@pytest.fixture(scope="module")
def host() -> ctypes.CDLL:
    return ctypes.CDLL(str(shared_library(HOST, include=(Path(INCLUDE),))))


def tiled(
    host: ctypes.CDLL, m: int, n: int, k: int, cores: int, a: int = HALF, c: int = FLOAT, *flags: int
) -> dict[str, int]:
    """The tiling; `flags`: A transposed, B transposed, bias, split K, L1 bytes, L0C bytes."""
    given_ = np.array([m, n, k, cores, a, c, *flags, *[0] * (6 - len(flags))], np.int32)
    out = np.zeros(len(FIELDS), np.int32)
    assert host.toprope_matmul_tiling(given_.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p)) == 0
    return dict(zip(FIELDS, map(int, out), strict=True))


def up(a: int, b: int) -> int:
    return -(-a // b) * b


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 5000), st.integers(1, 24), st.sampled_from(list(BITS)),
    st.booleans(), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_every_tiling_is_legal(
    m: int, n: int, k: int, cores: int, a: int, ta: bool, tb: bool, bias: bool, split: bool
) -> None:
    host = ctypes.CDLL(str(shared_library(HOST, include=(Path(INCLUDE),))))
    t = tiled(host, m, n, k, cores, a, INT32 if BITS[a] < 16 else FLOAT, int(ta), int(tb), int(bias), int(split))
    size = BITS[a] / 8
    assert 1 <= t["usedCoreNum"] <= cores
    parts = [-(-whole // t[f"singleCore{axis}"]) for axis, whole in (("M", m), ("N", n), ("K", k))]
    assert np.prod(parts) == t["usedCoreNum"] and (split or t["singleCoreK"] == k)
    assert t["baseM"] % 16 == 0 and t["baseN"] % 16 == 0 and t["baseK"] % max(16, 256 // BITS[a]) == 0
    assert t["baseM"] * t["baseK"] * size * t["dbL0A"] <= 65536 and t["baseN"] * t["baseK"] * size * t["dbL0B"] <= 65536
    assert t["baseM"] * t["baseN"] * 4 * t["dbL0C"] <= 131072
    assert not bias or t["baseN"] * 4 <= 1024
    l1 = (t["depthA1"] * t["baseM"] + t["depthB1"] * t["baseN"]) * t["baseK"] * size + (t["baseN"] * 4 if bias else 0)
    assert l1 <= 524288
    steps = -(-t["singleCoreK"] // t["baseK"])
    loads = sorted(-(-steps // t[s]) for s in ("stepKa", "stepKb"))
    assert loads[1] % loads[0] == 0  # what the MDL template asks for
    assert t["depthA1"] in {t["stepKa"], 2 * t["stepKa"]} and t["depthB1"] in {t["stepKb"], 2 * t["stepKb"]}


def test_large_products_use_all_cores_evenly(host: ctypes.CDLL) -> None:
    t = tiled(host, 4096, 4096, 4096, 24)
    assert t["usedCoreNum"] == 24
    assert t["singleCoreM"] * t["singleCoreN"] <= 1.1 * 4096 * 4096 / 24
    assert t["baseM"] * t["baseN"] >= 128 * 128  # large blocks: few reads of A and B


@pytest.mark.parametrize(("m", "n", "k", "cores"), [(512, 512, 128, 2), (256, 256, 64, 2), (1024, 640, 256, 2)])
def test_cores_get_whole_rows_when_the_cuts_are_much_alike(
    host: ctypes.CDLL, m: int, n: int, k: int, cores: int
) -> None:
    t = tiled(host, m, n, k, cores)
    assert (t["usedCoreNum"], t["singleCoreM"], t["singleCoreN"]) == (cores, m // cores, n)


def test_the_librarys_own_tiling_is_saved_as_it_lies() -> None:
    text = """#include "register/tilingdata_base.h"
#include "register/vendor_tilings.h"
BEGIN_TILING_DATA_DEF(Outer)
TILING_DATA_FIELD_DEF(uint16_t, first);
TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, cube);
END_TILING_DATA_DEF;
extern "C" int64_t saved(int32_t* to, int32_t whole) {
    optiling::TCubeTiling t;
    t.set_usedCoreNum(3), t.set_M(77), t.set_BatchNum(5);
    Outer outer;
    outer.set_first(9), outer.cube = t;
    const optiling::TilingDef& d = whole ? static_cast<const optiling::TilingDef&>(outer) : t;
    d.SaveToBuffer(to, d.GetDataSize() - 1);
    const int32_t untouched = to[0];
    d.SaveToBuffer(to, d.GetDataSize());
    return untouched == -1 ? static_cast<int64_t>(d.GetDataSize()) : -1;
}
""".replace("BEGIN_TILING", "namespace optiling {\nBEGIN_TILING").replace(
        "END_TILING_DATA_DEF;", "END_TILING_DATA_DEF;\n}\nusing optiling::Outer;"
    )
    library = ctypes.CDLL(str(shared_library(text, include=(Path(INCLUDE), Path(INCLUDE) / "host"))))
    alone, inside = np.full(80, -1, np.int32), np.full(80, -1, np.int32)
    size = library.saved(alone.ctypes.data_as(ctypes.c_void_p), 0)
    assert library.saved(inside.ctypes.data_as(ctypes.c_void_p), 1) == size + 8 and size == 200
    assert list(alone[:2]) == [3, 77] and 5 in alone[40:50] and alone[50] == -1
    assert inside[0] == 9 and list(inside[2:52]) == list(alone[:50])


def test_k_is_split_only_when_allowed_and_worth_it(host: ctypes.CDLL) -> None:
    assert tiled(host, 16, 16, 8192, 24)["usedCoreNum"] == 1
    assert tiled(host, 16, 16, 8192, 24, HALF, FLOAT, 0, 0, 0, 1)["usedCoreNum"] > 4


def test_the_other_classes_and_settings(host: ctypes.CDLL) -> None:
    out = np.zeros(8, np.int32)
    host.checks(out.ctypes.data_as(ctypes.c_void_p))
    assert list(out[:2]) == [1, 1] and 0 < out[2] <= 65536 and list(out[3:]) == [1, 6, 1, 1, 1]


@pytest.mark.parametrize("m,n,k,bias", [(333, 250, 200, 1), (64, 64, 512, 0), (17, 500, 40, 1)])
def test_the_object_computes_with_it(host: ctypes.CDLL, m: int, n: int, k: int, bias: int) -> None:
    t = tiled(host, m, n, k, 6, HALF, FLOAT, 0, 1, bias, 0)
    a, b, bias_values = operands("half", m, k, n, m)
    bias_values = bias_values.astype(np.float32)
    c = np.zeros((m, n), np.float32)
    tiling = cube_tiling(m, n, k, **t)
    run = build("h_f_nt")["h_f_nt"][t["usedCoreNum"]](
        a, np.ascontiguousarray(b.T), bias_values, np.zeros(1, np.uint64), c, tiling, 0
    )
    clean(run)
    close(c, a, b, bias_values if bias else None)
