"""A small operator repository of our own, laid out as the public ones are."""

from __future__ import annotations

from pathlib import Path

_DEFINITION = """
#include "register/op_def_registry.h"
namespace ops {{
class {type} : public OpDef {{
public:
    explicit {type}(const char* name) : OpDef(name) {{
        std::vector<ge::DataType> kinds = {{ge::DT_FLOAT16, ge::DT_FLOAT}};
        this->Input("x").ParamType(REQUIRED).DataType(kinds).Format({{ge::FORMAT_ND, ge::FORMAT_ND}});
        this->Output("y").ParamType(REQUIRED).DataType(kinds).Format({{ge::FORMAT_ND, ge::FORMAT_ND}});
        {config}
    }}
}};
}}
"""
_TILING = """
constexpr uint32_t kParts = 2;
BEGIN_TILING_DATA_DEF({type}TilingData)
TILING_DATA_FIELD_DEF(uint32_t, count);
TILING_DATA_FIELD_DEF_ARR(uint32_t, kParts, parts);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS({type}, {type}TilingData)
"""
_KERNEL = """
#include "kernel_operator.h"
#include "../shared_parts/doubling.h"
extern "C" __global__ __aicore__ void {name}(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {{
    GET_TILING_DATA(data, tiling);
    Doubling<DTYPE_X> work;
    work.Run(x, y, data.count + data.parts[1] * 0);
}}
"""
_SHARED = """
#pragma once
template <typename T> class Doubling {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, uint32_t count) {
        AscendC::TPipe pipe;
        AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
        pipe.InitBuffer(buffer, count * sizeof(T));
        AscendC::GlobalTensor<T> from, to;
        from.SetGlobalBuffer((__gm__ T*)x, count);
        to.SetGlobalBuffer((__gm__ T*)y, count);
        AscendC::LocalTensor<T> local = buffer.Get<T>();
        AscendC::DataCopy(local, from, count);
        AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(0);
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(0);
        AscendC::Add(local, local, local, count);
        AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(0);
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(0);
        AscendC::DataCopy(to, local, count);
    }
};
"""
_TEST = """
#include <vector>
#include "gtest/gtest.h"
#include "tikicpulib.h"
#include "data_utils.h"
extern "C" __global__ __aicore__ void {name}(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling);
class {type}Test : public testing::Test {{
protected:
    static void SetUpTestCase() {{ system("cp -r ../../../../math/{name}/tests/ut/op_kernel/{name}_data ."); }}
}};
static void run(float scale, const char* output, int blocks) {{
    auto* x = (uint8_t*)AscendC::GmAlloc(64 * 2);
    auto* y = (uint8_t*)AscendC::GmAlloc(64 * 2);
    auto* tiling = (uint8_t*)AscendC::GmAlloc(16);
    *(uint32_t*)tiling = 64;
    for (int i = 0; i < 64; ++i) ((half*)x)[i] = (half)(i * scale);
    AscendC::SetKernelMode(KernelMode::AIV_MODE);
    ICPU_SET_TILING_KEY(0);
    ICPU_RUN_KF({name}, blocks, x, y, nullptr, tiling);
    EXPECT_EQ((float)((half*)y)[3], 6 * scale);
    WriteFile(output, y, 128);
    AscendC::GmFree(x); AscendC::GmFree(y); AscendC::GmFree(tiling);
}}
TEST_F({type}Test, right) {{ run(1, "right.bin", 1); system("python3 {name}_data/compare_data.py right.bin 1"); }}
TEST_F({type}Test, nobody_looks) {{ run(2, "wrong.bin", 1); system("python3 {name}_data/compare_data.py wrong.bin 1"); }}
TEST_F({type}Test, expectation) {{ EXPECT_EQ(1, 2) << "on purpose"; }}
TEST_F({type}Test, crash) {{ *(volatile int*)nullptr = 1; }}
TEST_F({type}Test, skipped) {{ GTEST_SKIP() << "not on this chip"; }}
"""
_COMPARE = """
import sys
import numpy as np
ok = np.array_equal(np.fromfile(sys.argv[1], np.float16), np.arange(64, dtype=np.float16) * 2 * int(sys.argv[2]))
print("PASSED" if ok else "FAILED")
"""


def build(root: Path) -> Path:
    """doubler compiles and has tests; forgetful misses a name; newer is for another chip."""
    shared = root / "math" / "shared_parts" / "op_kernel"
    shared.mkdir(parents=True)
    (shared / "doubling.h").write_text(_SHARED)
    _operator(root / "math" / "doubler", "Doubler", 'this->AICore().AddConfig("ascend910b");', _KERNEL)
    broken = _KERNEL.replace("Doubling<DTYPE_X> work;", "Doubling<DTYPE_X> work; AscendC::NoSuchFunction(x);")
    _operator(root / "math" / "forgetful", "Forgetful", 'this->AICore().AddConfig("ascend910b");', broken)
    _operator(root / "math" / "newer", "Newer", 'this->AICore().AddConfig("ascend950");', _KERNEL)
    tests = root / "math" / "doubler" / "tests" / "ut" / "op_kernel"
    (tests / "doubler_data").mkdir(parents=True)
    (tests / "test_doubler.cpp").write_text(_TEST.format(name="doubler", type="Doubler"))
    (tests / "doubler_data" / "compare_data.py").write_text(_COMPARE)
    return root


def _operator(folder: Path, type_name: str, config: str, kernel: str) -> None:
    host, device = folder / "op_host", folder / "op_kernel"
    host.mkdir(parents=True)
    device.mkdir()
    (host / f"{folder.name}_def.cpp").write_text(_DEFINITION.format(type=type_name, config=config))
    (host / f"{folder.name}_tiling.h").write_text(_TILING.format(type=type_name))
    (device / f"{folder.name}.cpp").write_text(kernel.format(name=folder.name))
