"""Sources that an ordinary C++ compiler refuses: kernels named like functions of the C library, launches inside files of kernels, ASSERT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope import unit
from toprope.errors import BadInput

# A member, a method and a variable keep such a name; only the kernel, its declaration and its launches get another.
NAMED = """
#include "kernel_operator.h"
struct Sizes {{ uint32_t {name}; uint32_t cast(int v) const {{ return v; }} }};
extern "C" __global__ __aicore__ void {name}(GM_ADDR y, uint32_t n);
extern "C" __global__ __aicore__ void {name}(GM_ADDR y, uint32_t n) {{
    Sizes s{{n}};
    AscendC::GlobalTensor<uint32_t> g;
    g.SetGlobalBuffer((__gm__ uint32_t*)y, 8);
    g.SetValue(0, s.{name} + {number}u);
    AscendC::DataCacheCleanAndInvalid<uint32_t, AscendC::CacheLine::SINGLE_CACHE_LINE, AscendC::DcciDst::CACHELINE_OUT>(g);
}}
"""
NAMES = (
    "asinh",
    "div",
    "fmax",
    "select",
    "round",
    "sin",
    "index",
    "abs",
    "pow",
    "exp",
    "log",
    "erf",
    "floor",
    "rint",
    "fdim",
    "time",
)
WRAPPED = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void k(GM_ADDR y, uint32_t n) {
    uint32_t tiles = 0;
    tiles = n ASSERT(n != 0 && "n can not be zero");
    ASSERT(tiles == n, "%u tiles", tiles);
    if (n > 100) ASSERT(false);
    AscendC::GlobalTensor<uint32_t> g;
    g.SetGlobalBuffer((__gm__ uint32_t*)y, 8);
    g.SetValue(0, tiles * 2);
    AscendC::DataCacheCleanAndInvalid<uint32_t, AscendC::CacheLine::SINGLE_CACHE_LINE, AscendC::DcciDst::CACHELINE_OUT>(g);
}
#ifndef ASCENDC_CPU_DEBUG
void k_do(uint32_t blocks, void* l2, void* stream, GM_ADDR y, uint32_t n) {
    k<<<blocks, l2, stream>>>(y, n);
}
#endif
"""


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> toprope.kernel.KernelFile:
    folder = tmp_path_factory.mktemp("named")
    body = "".join(
        NAMED.format(name=name, number=i).replace("Sizes", f"Sizes{i}")
        for i, name in enumerate(NAMES)
        if name != "index"
    )
    # One entry lies in a header that the source includes.
    (folder / "index.h").write_text("#pragma once\n" + NAMED.format(name="index", number=NAMES.index("index")))
    (folder / "names.cpp").write_text(
        '#include "index.h"\n' + body + NAMED.format(name="own_name", number=99).replace("Sizes", "S")
    )
    return toprope.load(folder / "names.cpp")


@pytest.mark.parametrize("name", [n for n in NAMES if n != "index"] + ["own_name"])
def test_a_kernel_may_be_named_like_a_function_of_the_c_library(named: toprope.kernel.KernelFile, name: str) -> None:
    y = np.zeros(8, np.uint32)
    assert not [f for f in named[name][1](y, 5).findings if f.severity == "error"]
    assert y[0] == 5 + (99 if name == "own_name" else NAMES.index(name))


def test_lines_stay_and_only_the_entry_is_renamed() -> None:
    text = NAMED.format(name="round", number=1)
    out = unit.rewritten(text, "round.cpp")
    assert out.count("\n") == text.count("\n")
    assert out.count(unit.RENAMED + "round") == 2
    assert "uint32_t round;" in out and "s.round" in out
    assert unit.rewritten(NAMED.format(name="own_name", number=1), "x.cpp") == NAMED.format(name="own_name", number=1)
    launch = unit.rewritten("void f() { round<<<1, nullptr, s>>>(y, 1); round(2.5); }", "x.cpp")
    assert f"TOPROPE_LAUNCH({unit.RENAMED}round)" in launch and " round(2.5)" in launch


def test_assert_may_follow_an_expression_and_a_wrapper_may_launch(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(WRAPPED)
    kernel = toprope.load(tmp_path / "k.cpp").k
    y = np.zeros(8, np.uint32)
    assert not [f for f in kernel[1](y, 3).findings if f.severity == "error"]
    assert y[0] == 6
    failed = [f for n in (0, 101) for f in kernel[1](y, n).findings if f.code == "kernel-assert"]
    assert [f.places[0].line for f in failed] == [5, 7], "an assertion that fails is reported at its line"
    with pytest.raises(BadInput, match=r"bad\.cpp:2"):
        unit.rewritten("void f() {\n<<<1, 2>>>(y); }", "bad.cpp")


ENTRIES = """
template <typename T> __aicore__ inline void part() { Mmad(a, b, c); VECIN; }
extern "C" __global__ __aicore__ void first(GM_ADDR x) { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY); part<int>(); }
extern "C" __global__ __vector__ __aicore__ void second(GM_ADDR x) { Add(x); }
extern "C" __global__ __mix__(1, 1) __aicore__ void third(GM_ADDR x) { part<int>(); }
extern "C" __global__ __aicore__ void fourth(GM_ADDR x) { part<int>(); }
extern "C" __global__ __aicore__ void fifth(GM_ADDR x) { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0); if (x) { Sub(x); } }
"""


def test_what_one_entry_says_of_its_cores_is_about_that_entry(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(ENTRIES)
    types = {name: kernel.entry.task_type for name, kernel in toprope.load(tmp_path / "k.cpp").kernels.items()}
    assert types == {
        "first": "KERNEL_TYPE_AIC_ONLY",
        "second": "KERNEL_TYPE_AIV_ONLY",
        "third": "KERNEL_TYPE_MIX_AIC_1_1",
        "fourth": "KERNEL_TYPE_MIX_AIC_1_2",
        "fifth": "KERNEL_TYPE_MIX_AIV_1_0",
    }
    (tmp_path / "k.cpp").write_text(
        "struct All { All() { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY); } };" + ENTRIES
    )
    assert toprope.load(tmp_path / "k.cpp").fourth.entry.task_type == "KERNEL_TYPE_AIC_ONLY"


@pytest.mark.parametrize(
    ("lines", "task"),
    [
        ("", "KERNEL_TYPE_MIX_AIC_1_2"),
        ("#define ASCENDC_CUBE_ONLY\n", "KERNEL_TYPE_AIC_ONLY"),
    ],
)
def test_a_matmul_object_is_asked_by_vector_cores_unless_it_is_kept_to_the_cube(
    tmp_path: Path, lines: str, task: str
) -> None:
    text = '#include "lib/matmul_intf.h"\nextern "C" __global__ __aicore__ void k(GM_ADDR x) { REGIST_MATMUL_OBJ(a, b, c); }\n'
    (tmp_path / "k.cpp").write_text(lines + text)
    assert toprope.load(tmp_path / "k.cpp").k.entry.task_type == task
