"""The 310B: one core with both units, the element types of A2 where its pages name them, Fixpipe, and the Matmul object."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ascendc.cube_tiling import cube_tiling
from tests.ascendc.harness import kernels
from tests.ascendc.test_matmul_object import build, clean, close, operands
from tests.ascendc.ub_kernel import FRAME, call, mistakes, ub_kernel
from toprope.errors import CompileFailed
from toprope.kernel import KernelFile
from toprope.soc import load

SOC = "ascend310b1"
# Conversions of the page of Cast for this chip: from, to, a mode.
CASTS = [
    ("int8_t", "half", "NONE"), ("uint8_t", "half", "NONE"), ("int16_t", "half", "FLOOR"), ("int16_t", "float", "NONE"),
    ("half", "int8_t", "CEIL"), ("half", "uint8_t", "TRUNC"), ("half", "int16_t", "ROUND"), ("half", "int32_t", "FLOOR"), ("half", "float", "NONE"),
    ("int32_t", "int16_t", "NONE"), ("int32_t", "float", "RINT"), ("int32_t", "int64_t", "NONE"), ("float", "int16_t", "RINT"),
    ("float", "half", "ROUND"), ("float", "int32_t", "FLOOR"), ("float", "float", "TRUNC"), ("float", "int64_t", "CEIL"),
    ("int64_t", "int32_t", "NONE"), ("int64_t", "float", "RINT"),
]  # fmt: skip
NUMPY = {
    "half": "f2",
    "float": "f4",
    "int8_t": "i1",
    "uint8_t": "u1",
    "int16_t": "i2",
    "int32_t": "i4",
    "int64_t": "i8",
}
ROUND = {"NONE": np.asarray, "RINT": np.rint, "FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc, "ROUND": np.round}
REFUSED = {
    "RpSort16": "RpSort16(a, a, 1);",
    "Scatter": "Scatter(a, a, a.ReinterpretCast<uint32_t>(), 0u, 8u);",
    "Cast": "Cast(a, a.ReinterpretCast<int4b_t>(), RoundMode::CAST_NONE, 64);",
    "SetAtomicAdd": "SetAtomicAdd<bfloat16_t>();",
}


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    text = FRAME
    for source, target, mode in CASTS:
        text += ub_kernel(
            f"cast_{source}_{target}", {"x": source, "y": target}, f"Cast(y, x, RoundMode::CAST_{mode}, 64);"
        )
    text += ub_kernel("abs_int16_t", {"x": "int16_t", "y": "int16_t"}, "Abs(y, x, 64);")
    text += ub_kernel(
        "add_int32_t", {"x": "int32_t", "y": "int32_t"}, "Add(y, y, x, 64); PipeBarrier<PIPE_V>(); Maxs(y, y, 3, 64);"
    )
    text += ub_kernel("sort", {"x": "float", "i": "uint32_t", "y": "float"}, "Sort32(y, x, i, 1);")
    return kernels(text, "chip_310b")


@pytest.mark.parametrize(("source", "target", "mode"), CASTS)
def test_conversions_of_its_page(compiled: KernelFile, source: str, target: str, mode: str) -> None:
    low = 0 if "u" in target or "u" in source else -30
    x = (np.linspace(low, 30, 64) + (0.0 if "int" in source else 0.3)).astype(NUMPY[source])
    y = np.zeros(64, NUMPY[target])
    assert not mistakes(call(compiled, f"cast_{source}_{target}", x, y, soc=SOC))
    gold = x if "int" in source or target == "half" else ROUND[mode](x.astype(np.float64))
    np.testing.assert_array_equal(y, gold.astype(NUMPY[target]))


def test_functions_with_types_that_other_coupled_chips_lack(compiled: KernelFile) -> None:
    x, y = (np.arange(64) - 32).astype(np.int16), np.zeros(64, np.int16)
    assert not mistakes(call(compiled, "abs_int16_t", x, y, soc=SOC))
    np.testing.assert_array_equal(y, np.abs(x))
    a, b = np.arange(64, dtype=np.int32), np.full(64, -9, np.int32)
    assert not mistakes(call(compiled, "add_int32_t", a, b, soc=SOC))
    np.testing.assert_array_equal(b, np.maximum(a - 9, 3))
    scores, index, out = (
        np.random.default_rng(0).permutation(32).astype(np.float32),
        np.arange(32, dtype=np.uint32),
        np.zeros(64, np.float32),
    )
    assert not mistakes(call(compiled, "sort", scores, index, out, soc=SOC))
    np.testing.assert_array_equal(out[::2], np.arange(32)[::-1])


@pytest.mark.parametrize("name", REFUSED)
def test_what_its_pages_do_not_list_is_refused(name: str) -> None:
    text = f'extern "C" __global__ __aicore__ void k(GM_ADDR x) {{ LocalTensor<half> a; {REFUSED[name]} }}'
    with pytest.raises(CompileFailed):
        kernels(text, f"refused_{name}").k[1](np.zeros(8, np.uint8), soc=SOC)


def test_a_matmul_object_computes_and_stores_from_the_one_core() -> None:
    m, k, n = 64, 96, 80
    a, b, _ = operands("half", m, k, n, 1)
    c = np.zeros((m, n), np.float32)
    run = build("h_f_nn")["h_f_nn"][1](a, b, None, None, c, cube_tiling(m, n, k), 0, soc=SOC)
    clean(run)
    close(c, a, b, None)


@pytest.mark.parametrize(
    "name", ["ascend310b1", "ascend310b2", "ascend310b3", "ascend310b4", "ascend910a", "ascend310p1"]
)
def test_chips_have_every_number_that_a_run_asks_for(name: str) -> None:
    soc = load(name)
    assert soc.number("memory.gm_bytes") >= 4 << 30 and not soc.split
    assert soc.kind_of("memory.gm_bytes") in ("documented", "assumed")
