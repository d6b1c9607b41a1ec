"""A tiling struct that the host registers and the kernel writes out as well: every difference of the fields is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope.check import tiling_mismatches
from toprope.finding import Finding

HOST = """BEGIN_TILING_DATA_DEF(CopyTiling)
TILING_DATA_FIELD_DEF(uint32_t, total);
TILING_DATA_FIELD_DEF(uint64_t, tiles);
TILING_DATA_FIELD_DEF_ARR(uint16_t, 4, rest);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Copy, CopyTiling)
"""
KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
DEFINITION
extern "C" __global__ __aicore__ void copy(GM_ADDR z, GM_ADDR tiling) {
    GET_TILING_DATA_WITH_STRUCT(CopyTiling, t, tiling);
    LocalTensor<float> a(TPosition::VECCALC, 0, 8);
    Duplicate(a, (float)t.total, 8);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    GlobalTensor<float> to;
    to.SetGlobalBuffer((__gm__ float*)z);
    DataCopy(to, a, 8);
}
"""


def source(folder: Path, struct: str) -> Path:
    for name in ("op_host", "op_kernel"):
        (folder / name).mkdir()
    (folder / "op_host" / "copy_tiling.h").write_text(HOST)
    file = folder / "op_kernel" / "copy.cpp"
    file.write_text(KERNEL.replace("DEFINITION", struct))
    return file


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("uint32_t total; uint32_t tiles; uint16_t rest[4];", "uint64_t tiles at byte 8 on the host is uint32_t tiles at byte 4 in the kernel"),
        ("uint64_t tiles; uint32_t total; uint16_t rest[4];", "the host puts uint32_t total at byte 0 where the kernel reads uint64_t tiles at byte 0"),
        ("uint32_t total; uint64_t tiles; uint16_t rest[2];", "uint16_t rest[4] at byte 16 on the host is uint16_t rest[2] at byte 16 in the kernel"),
        ("uint32_t total; uint64_t tiles;", "uint16_t rest[4] at byte 16 is a field on the host and missing in the kernel"),
    ],
)  # fmt: skip
def test_each_difference_is_named(tmp_path: Path, members: str, message: str) -> None:
    file = source(tmp_path, f"struct CopyTiling {{ {members} }};")
    (told,) = tiling_mismatches(file)
    assert told.code == "tiling-field-mismatch" and message in told.message
    assert told.places[0].line == 3 and told.places[0].text().startswith("struct CopyTiling")


@pytest.mark.parametrize("struct", ["struct CopyTiling { uint32_t total; int64_t tiles; uint16_t rest[4]; };", ""])
def test_the_same_fields_are_clean_and_run(tmp_path: Path, struct: str) -> None:
    z = np.zeros(8, np.float32)
    run = toprope.load(source(tmp_path, struct)).copy[1](z, {"total": 7, "tiles": 2, "rest": [1, 2, 3, 4]})
    assert [f for f in run.findings if f.severity != "advice"] == [] and (z == 7).all()


def test_a_run_tells_it(tmp_path: Path) -> None:
    file = source(tmp_path, "struct CopyTiling { uint32_t total; uint32_t tiles; uint16_t rest[4]; };")
    run = toprope.load(file).copy[1](np.zeros(8, np.float32), b"\\0" * 16)
    told: list[Finding] = [f for f in run.findings if f.severity == "error"]
    assert [f.code for f in told] == ["tiling-field-mismatch"]


PLAIN = "struct Sizes { uint32_t total; float scale; uint32_t tiles; };\n"
BESIDE = """#include "kernel_operator.h"
using namespace AscendC;
struct Sizes { MEMBERS };
extern "C" __global__ __aicore__ void scaled(GM_ADDR z, GM_ADDR tiling) {
    const __gm__ Sizes* sizes = CAST;
    LocalTensor<float> a(TPosition::VECCALC, 0, 8);
    Duplicate(a, sizes->scale, 8);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    GlobalTensor<float> to;
    to.SetGlobalBuffer((__gm__ float*)z);
    DataCopy(to, a, 8);
}
"""
CASTS = ["(__gm__ Sizes*)tiling", "reinterpret_cast<const __gm__ Sizes*>(tiling)"]


def beside(folder: Path, members: str, cast: str) -> Path:
    (folder / "main.cpp").write_text(PLAIN + "int main() { Sizes s; scaled(&s); }\n")
    (folder / "other.cpp").write_text("struct Sizes { double other; };\nint unrelated() { return 1; }\n")
    (folder / "scaled.cpp").write_text(BESIDE.replace("MEMBERS", members).replace("CAST", cast))
    return folder / "scaled.cpp"


@pytest.mark.parametrize("cast", CASTS)
def test_a_struct_that_the_host_program_writes_out_is_compared_too(tmp_path: Path, cast: str) -> None:
    (told,) = tiling_mismatches(beside(tmp_path, "uint32_t total; uint32_t tiles; float scale;", cast))
    assert told.code == "tiling-field-mismatch"
    assert "the host puts float scale at byte 4 where the kernel reads uint32_t tiles at byte 4" in told.message


@pytest.mark.parametrize("cast", CASTS)
def test_an_argument_smaller_than_the_struct_that_it_is_cast_to(tmp_path: Path, cast: str) -> None:
    kernel = toprope.load(beside(tmp_path, "uint32_t total; float scale; uint32_t tiles;", cast)).scaled
    small, right = (kernel[1](np.zeros(8, np.float32), np.zeros(n, np.uint8)) for n in (8, 12))
    assert "12 bytes, tiling has 8" in "".join(f.message for f in small.findings if f.code == "tiling-size-mismatch")
    assert not [f for f in right.findings if f.severity == "error"]
