"""--overflow: signed arithmetic that leaves its type is a finding at the kernel's line; without the option nothing changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope.finding import Finding
from toprope.kernel import CHECK_OVERFLOW

SOURCE = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void offsets(GM_ADDR z, int32_t rows, int32_t columns, int64_t large) {
    GlobalTensor<int32_t> to;
    to.SetGlobalBuffer((__gm__ int32_t*)z);
    LocalTensor<int32_t> a(TPosition::VECCALC, 0, 8);
    int32_t product = rows * columns;
    int32_t sum = rows + 2147483000;
    int32_t less = -rows - 2147483000;
    int64_t wide = large * rows;
    uint32_t wraps = uint32_t(rows) * uint32_t(columns);
    for (int i = 0; i < 3; i++) a.SetValue(i, i == 0 ? product : i == 1 ? sum + less : int32_t(wide + wraps));
    SetFlag<HardEvent::S_MTE3>(0);
    WaitFlag<HardEvent::S_MTE3>(0);
    DataCopy(to, a, 8);
}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("overflow") / "offsets.cpp"
    path.write_text(SOURCE)
    return path


def found(file: Path, defines: tuple[str, ...], *numbers: int) -> dict[str, str]:
    run = toprope.load(file, defines=defines).offsets[1](np.zeros(8, np.int32), *numbers)
    of_interest: list[Finding] = [f for f in run.findings if f.code == "integer-overflow"]
    return {f.places[0].text(): f.message for f in of_interest}


def test_each_line_is_told_with_its_numbers(file: Path) -> None:
    told = found(file, (CHECK_OVERFLOW,), 65536, 65537, 1 << 62)
    outcomes = {line: message.partition(" = ")[2] for line, message in told.items()}  # compilers may swap operands
    assert outcomes == {
        "int32_t product = rows * columns;": "4295032832 does not fit into 'int': it becomes 65536",
        "int32_t sum = rows + 2147483000;": "2147548536 does not fit into 'int': it becomes -2147418760",
        "int32_t less = -rows - 2147483000;": "-2147548536 does not fit into 'int': it becomes 2147418760",
        "int64_t wide = large * rows;": "",  # too wide for an exact result
    }
    assert "4611686018427387904" in told["int64_t wide = large * rows;"]


def test_small_numbers_are_clean(file: Path) -> None:
    assert found(file, (CHECK_OVERFLOW,), 8, 8, 8) == {}


def test_only_on_request(file: Path) -> None:
    assert found(file, (), 65536, 65537, 1 << 62) == {}


HALO = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void halo(GM_ADDR z, uint32_t begin, uint32_t halo) {
    GlobalTensor<float> from;
    from.SetGlobalBuffer((__gm__ float*)z);
    LocalTensor<float> a(TPosition::VECCALC, 0, 8);
    DataCopy(a, from[begin - halo], 8);
}
"""


def test_an_offset_below_zero_in_32_bits_is_named_without_the_option(tmp_path: Path) -> None:
    file = tmp_path / "halo.cpp"
    file.write_text(HALO)

    def told(begin: int, halo: int) -> list[str]:
        run = toprope.load(file).halo[1](np.zeros(64, np.float32), begin, halo)
        return [f.message for f in run.findings if f.code == "gm-out-of-bounds"]

    (message,) = told(0, 8)
    assert message.endswith("2^32 elements of 4 bytes before it lies byte -32: the offset left 32 bits")
    (plain,) = told(64, 0)
    assert "32 bits" not in plain
    assert told(8, 8) == []
