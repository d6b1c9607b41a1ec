"""Kernels as public repositories write them: what only the vendor's compiler takes, keys behind macros, cube and vector cores in one test."""

from __future__ import annotations

from pathlib import Path

import pytest

from toprope.compat.compile import problem_of
from toprope.compat.unit_tests import run_tests
from toprope.project.checkout import Checkout
from toprope.project.definition import read_definition
from toprope.soc import load

DEFINITION = """
class {type} : public OpDef {{
public:
    explicit {type}(const char* name) : OpDef(name) {{
        this->Input("x").ParamType(REQUIRED).DataType({{ge::DT_FLOAT16, ge::DT_FLOAT}}).Format({{ge::FORMAT_ND, ge::FORMAT_ND}});
        OpAICoreConfig config;
        this->AICore().AddConfig("ascend910b", config);
        config.ExtendCfgInfo("opFile.value", "{name}_apt");
        this->AICore().AddConfig("ascend950", config);
    }}
}};
"""
DIALECT = """
#include "kernel_operator.h"
#define DEVICE __forceinline__ [aicore]
struct Sizes { static constexpr int32_t tile = 64; };
class Worker {
public:
    static constexpr Sizes sizes;
    template <int32_t CORE_TYPE = g_coreType>
    DEVICE void operator()(int32_t n);
    template <>
    DEVICE void operator()<AscendC::AIC>(int32_t n) { done = n; }
    template <>
    DEVICE void operator()<AscendC::AIV>(int32_t n) { done = n * sizes.tile; }
    int32_t done = 0;
};
extern "C" __global__ __aicore__ void dialect(GM_ADDR x) {
    Worker work;
    work(3);
}
"""
KEYED = """
#include "kernel_operator.h"
#include "ascendc/host_api/tiling/template_argument.h"
#define KEYED_SLOW 1
#define KEYED_FAST 2
#define KEYED_MODES KEYED_FAST, KEYED_SLOW
ASCENDC_TPL_ARGS_DECL(Keyed, ASCENDC_TPL_UINT_DECL(MODE, 8, ASCENDC_TPL_UI_LIST, KEYED_MODES), ASCENDC_TPL_BOOL_DECL(ODD, 0, 1));
#define KEYED_CHOICE(mode, odd) \\
    ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_UINT_SEL(MODE, ASCENDC_TPL_UI_LIST, mode), ASCENDC_TPL_BOOL_SEL(ODD, odd))
ASCENDC_TPL_SEL(KEYED_CHOICE(KEYED_FAST, 1), KEYED_CHOICE(KEYED_SLOW, 0));
template <uint32_t MODE, bool ODD>
__global__ __aicore__ void keyed(GM_ADDR x) {
    static_assert(MODE == KEYED_FAST && ODD, "the first allowed combination");
    static_assert(sizeof(DTYPE_X) == 2 && sizeof(DTYPE_SCALE) == 4, "a type that code declares counts as float");
}
"""
# A class template specialised inside a class, an entry that calls another, and a struct that headers ask for before the entry names it.
CALLS = """
#include "kernel_operator.h"
#include "ascendc/host_api/tiling/template_argument.h"
#define CALLS_PARAMS int MODE, bool ODD
ASCENDC_TPL_ARGS_DECL(Calls, ASCENDC_TPL_UINT_DECL(MODE, 8, ASCENDC_TPL_UI_LIST, 5), ASCENDC_TPL_BOOL_DECL(ODD, 1));
ASCENDC_TPL_SEL(ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_UINT_SEL(MODE, ASCENDC_TPL_UI_LIST, 5), ASCENDC_TPL_BOOL_SEL(ODD, 1)));
struct CallsTiling { uint32_t count; };
template <typename T> class Chooser {
public:
    template <class U>
    struct Kind {
        static constexpr int value = 1;
    };
    template <>
    struct Kind<void> {
        static constexpr int value = 2;
    };
    __forceinline__ [aicore] uint32_t Run(GM_ADDR tiling) {
        GET_TILING_DATA(data, tiling);
        static_assert(Kind<int>::value == 1 && Kind<void>::value == 2, "both kinds");
        return data.count;
    }
};
template <CALLS_PARAMS>
__global__ __aicore__ void calls_part(GM_ADDR x, AscendC::TPipe& pipe) {}
template <CALLS_PARAMS>
__global__ __aicore__ void calls(GM_ADDR x, GM_ADDR workspace, GM_ADDR tiling) {
    REGISTER_TILING_DEFAULT(CallsTiling);
    static_assert(MODE == 5 && ODD, "parameters behind a macro");
    AscendC::TPipe pipe;
    Chooser<float>().Run(tiling);
    calls_part<MODE, ODD>(x, pipe);
}
"""
MIXED = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void mixed(GM_ADDR out) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    AscendC::GlobalTensor<int32_t> o;
    o.SetGlobalBuffer((__gm__ int32_t*)out);
    if ASCEND_IS_AIC {
        o.SetValue(0, 7);
        AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE, AscendC::DcciDst::CACHELINE_OUT>(o);
        AscendC::CrossCoreSetFlag<2, PIPE_FIX>(1);
    }
    if ASCEND_IS_AIV {
        AscendC::CrossCoreWaitFlag(1);
        const int32_t mine = 16 * (1 + AscendC::GetSubBlockIdx());
        o.SetValue(mine, o.GetValue(0) + AscendC::GetSubBlockIdx());
        AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE, AscendC::DcciDst::CACHELINE_OUT>(o[mine]);
    }
}
"""
MIXED_TEST = """
#include "gtest/gtest.h"
#include "tikicpulib.h"
extern "C" __global__ __aicore__ void mixed(GM_ADDR out);
static int32_t* launched(bool closure) {
    auto* out = reinterpret_cast<int32_t*>(AscendC::GmAlloc(192));
    AscendC::SetKernelMode(KernelMode::MIX_MODE);
    const auto call = [](GM_ADDR x) { mixed(x); };
    if (closure)
        ICPU_RUN_KF(call, 1, reinterpret_cast<uint8_t*>(out));
    else
        ICPU_RUN_KF(mixed, 1, reinterpret_cast<uint8_t*>(out));
    return out;
}
TEST(mixed_test, function) {
    int32_t* out = launched(false);
    EXPECT_EQ(out[16] + 100 * out[32], 807);
}
TEST(mixed_test, closure) {
    int32_t* out = launched(true);
    EXPECT_EQ(out[16] + 100 * out[32], 807);
}
"""

# A test that brings the tiling struct in a header of its own, functions in a source beside a header, and a path up out of its folder.
HELPED = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void helped(GM_ADDR out, GM_ADDR tiling) {
    GET_TILING_DATA(data, tiling);
    AscendC::GlobalTensor<uint32_t> o;
    o.SetGlobalBuffer((__gm__ uint32_t*)out);
    o.SetValue(0, data.count);
    AscendC::DataCacheCleanAndInvalid<uint32_t, AscendC::CacheLine::SINGLE_CACHE_LINE, AscendC::DcciDst::CACHELINE_OUT>(o);
}
"""
HELPED_HOST = """
namespace optiling {
BEGIN_TILING_DATA_DEF(HelpedTilingData)
TILING_DATA_FIELD_DEF(uint32_t, count);
TILING_DATA_FIELD_DEF(uint32_t, other);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Helped, HelpedTilingData)
}
"""
HELPED_TEST = """
#include "gtest/gtest.h"
#include "tikicpulib.h"
#include "helped_tiling_function.h"
#include "given.h"
#include "../op_kernel/helped_extra.h"
extern "C" __global__ __aicore__ void helped(GM_ADDR out, GM_ADDR tiling);
TEST(helped_test, runs) {
    auto* out = reinterpret_cast<uint32_t*>(AscendC::GmAlloc(64));
    auto* data = reinterpret_cast<HelpedTilingData*>(AscendC::GmAlloc(sizeof(HelpedTilingData)));
    data->count = given::count() + EXTRA;
    AscendC::SetKernelMode(KernelMode::AIV_MODE);
    ICPU_RUN_KF(helped, 1, reinterpret_cast<uint8_t*>(out), reinterpret_cast<uint8_t*>(data));
    EXPECT_EQ(out[0], 47u);
}
"""


def helped(root: Path) -> None:
    operator(root, "helped", HELPED, HELPED_TEST)
    folder = root / "math" / "helped"
    (folder / "op_host" / "helped_tiling.h").write_text(HELPED_HOST)
    (folder / "op_kernel" / "helped_extra.h").write_text("#pragma once\n#define EXTRA 5\n")
    tests = folder / "tests" / "ut" / "op_kernel"
    (tests / "helped_tiling_function.h").write_text(
        "#pragma once\n#include <cstdint>\nstruct HelpedTilingData { uint32_t count; uint32_t other; };\n"
    )
    (tests / "given.h").write_text("#pragma once\n#include <cstdint>\nnamespace given { uint32_t count(); }\n")
    (tests / "given.cpp").write_text('#include "given.h"\nnamespace given { uint32_t count() { return 42; } }\n')


def operator(root: Path, name: str, kernel: str, test: str = "") -> None:
    folder = root / "math" / name
    for part in ("op_host", "op_kernel", "tests/ut/op_kernel"):
        (folder / part).mkdir(parents=True)
    (folder / "op_host" / f"{name}_def.cpp").write_text(DEFINITION.format(type=name.title(), name=name))
    (folder / "op_kernel" / f"{name}.cpp").write_text(kernel)
    (folder / "op_kernel" / f"{name}_apt.cpp").write_text("#error another chip's kernel\n")
    if test:
        (folder / "tests" / "ut" / "op_kernel" / f"test_{name}.cpp").write_text(test)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    root = tmp_path_factory.mktemp("kernels")
    operator(root, "dialect", DIALECT)
    operator(root, "keyed", KEYED)
    operator(root, "calls", CALLS)
    operator(root, "mixed", MIXED, MIXED_TEST)
    helped(root)
    return Checkout(root)


def test_a_kernel_file_belongs_to_the_configurations_after_it(checkout: Checkout) -> None:
    file = checkout.root / "math" / "keyed" / "op_host" / "keyed_def.cpp"
    definition = read_definition(file, "ascend910b1")
    assert definition is not None and definition.kernel_files == {"ascend950": "keyed_apt"}


@pytest.mark.parametrize("name", ["dialect", "keyed", "calls"])
def test_kernels_compile_as_they_are(checkout: Checkout, name: str) -> None:
    soc = load("ascend910b1")
    found = next(o for o in checkout.operators if o.name == name)
    (kernel,) = found.kernels(soc.name)
    assert problem_of(checkout, found, kernel, soc) is None


def test_a_test_of_both_core_types_runs_both(checkout: Checkout) -> None:
    found = next(o for o in checkout.operators if o.name == "mixed")
    results = run_tests(checkout, found, load("ascend910b1"))
    assert {r.name.split(".")[-1]: (r.verdict, r.message) for r in results} == {
        "function": ("findings", "race-between-cores"),
        "closure": ("findings", "race-between-cores"),
    }


def test_a_test_may_bring_structs_and_sources_of_its_own(checkout: Checkout) -> None:
    found = next(o for o in checkout.operators if o.name == "helped")
    results = run_tests(checkout, found, load("ascend910b1"))
    assert [(r.name, r.verdict, r.message) for r in results] == [("helped_test.runs", "passed", "")]
    (found.test_folder / "given.cpp").unlink()
    (missing,) = run_tests(checkout, found, load("ascend910b1"))
    assert missing.verdict == "not-built" and "given::count" in missing.message
