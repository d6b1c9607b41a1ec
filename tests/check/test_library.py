"""Operands of advanced functions: what their pages forbid is found, what they allow is not."""

from __future__ import annotations

import numpy as np
import pytest

import toprope
from toprope.check.library import APART
from toprope.kernel import KernelFile

# How each function is called on float tensors: destination, source, second source, temporary space.
UNARY = "Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Digamma Erf Erfc Floor Frac Lgamma Log Rint Sigmoid Sign Sin Sinh Tan Tanh"
CALLS = {name: f"{name}(DST, SRC, TMP, 256);" for name in UNARY.split()} | {
    "Power": "Power(DST, SRC, OTHER, TMP, 256);",
    "Fmod": "Fmod(DST, SRC, OTHER, TMP, 256);",
    "Silu": "Silu(DST, SRC, 256);",
    "Swish": "Swish(DST, SRC, 256, 1.0f);",
    "Exp": "Exp<float, 5>(DST, SRC, TMP, 256);",
    "SwiGLU": "float beta = 1.0f; SwiGLU(DST, SRC, OTHER, beta, TMP, 256);",
    "GeGLU": "GeGLU(DST, SRC, OTHER, TMP, 256);",
    "ReGlu": "ReGlu(DST, SRC, OTHER, TMP, 256);",
    "Sum": "Sum(DST, SRC, TMP, {8, 32, 32});",
    "Mean": "Mean(DST, SRC, TMP, {8, 32, 32});",
}
IN_PLACE = {
    "Gelu": "Gelu(DST, SRC, TMP, 256);",
    "FasterGelu": "FasterGelu(DST, SRC, TMP, 256);",
    "FasterGeluV2": "FasterGeluV2(DST, SRC, TMP, 256);",
    "Round": "Round(DST, SRC, TMP, 256);",
    "Trunc": "Trunc(DST, SRC, TMP, 256);",
}
KERNEL = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR z) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> used;
    pipe.InitBuffer(used, 98304);
    LocalTensor<float> src(TPosition::VECCALC, 0, 256), other(TPosition::VECCALC, 1024, 256), dst(TPosition::VECCALC, 2048, 256);
    LocalTensor<uint8_t> tmp(TPosition::VECCALC, 8192, 65536), over_src(TPosition::VECCALC, 0, 65536), over_dst(TPosition::VECCALC, 2048, 65536);
    GlobalTensor<float> xg, zg;
    xg.SetGlobalBuffer((__gm__ float*)x);
    zg.SetGlobalBuffer((__gm__ float*)z);
    DataCopy(src, xg, 256);
    DataCopy(other, xg, 256);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Duplicate(dst, 0.0f, 256);
    CALL
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(zg, WHERE, 256);
}
"""


def variant(name: str, call: str, **operands: str) -> str:
    for role, text in {"DST": "dst", "SRC": "src", "OTHER": "other", "TMP": "tmp", **operands}.items():
        call = call.replace(role, text)
    return KERNEL.replace("NAME", name).replace("CALL", call).replace("WHERE", operands.get("DST", "dst"))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> KernelFile:
    source = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
    for name, call in CALLS.items():
        source += variant(f"{name}_apart", call) + variant(f"{name}_in_place", call, DST="src")
        if "TMP" in call:
            source += variant(f"{name}_tmp_on_src", call, TMP="over_src") + variant(
                f"{name}_tmp_on_dst", call, TMP="over_dst"
            )
    for name, call in IN_PLACE.items():
        source += variant(f"{name}_in_place", call, DST="src") + variant(f"{name}_tmp_on_src", call, TMP="over_src")
    file = tmp_path_factory.mktemp("library") / "library.cpp"
    file.write_text(source)
    return toprope.load(file)


def found(kernels: KernelFile, entry: str) -> list[str]:
    x = np.linspace(0.1, 0.9, 256, dtype=np.float32)
    run = kernels[entry][1](x, np.zeros_like(x))
    return [f.message for f in run.findings if f.code == "operand-overlap"]


@pytest.mark.parametrize("name", CALLS)
def test_a_function_that_needs_its_operands_apart(kernels: KernelFile, name: str) -> None:
    assert name in APART
    assert not found(kernels, f"{name}_apart")
    (message,) = found(kernels, f"{name}_in_place")
    assert message.startswith(f"{name}: dst and a source share UB[")


@pytest.mark.parametrize("name", [*(n for n, call in CALLS.items() if "TMP" in call), *IN_PLACE])
def test_temporary_space_that_overlaps_an_operand(kernels: KernelFile, name: str) -> None:
    places = ("src", "dst") if name in CALLS else ("src",)
    for place in places:
        (message,) = found(kernels, f"{name}_tmp_on_{place}")
        assert "temporary space" in message


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_function_that_may_work_in_place(kernels: KernelFile, name: str) -> None:
    assert not found(kernels, f"{name}_in_place")
