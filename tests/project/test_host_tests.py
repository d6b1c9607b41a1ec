"""Unit tests of host code: a harness of the public kind on a repository of our own, its tests judged one by one."""

from __future__ import annotations

import pytest

from toprope.project.checkout import Checkout
from toprope.project.host_tests import harness_sources, host_test_sources, run_host_tests
from toprope.soc import load

HOST = """
#include "log/log.h"
#include "register/op_impl_registry.h"
#include "tiling/platform/platform_ascendc.h"
namespace optiling {
static ge::graphStatus Tile(gert::TilingContext* context) {
    const int64_t* parts = context->GetAttrs()->GetInt(0);
    const auto count = context->GetInputShape(0)->GetStorageShape().GetShapeSize();
    if (parts == nullptr || *parts <= 0 || context->GetInputTensor(1)->GetData<int32_t>()[0] != 7) return ge::GRAPH_FAILED;
    platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
    context->SetBlockDim(platform.GetCoreNumAiv());
    context->SetTilingKey(3);
    context->GetRawTilingData()->Append(count / *parts);
    context->GetWorkspaceSizes(1)[0] = 32;
    return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Shape(gert::InferShapeContext* context) {
    *context->GetOutputShape(0) = *context->GetInputShape(0);
    return ge::GRAPH_SUCCESS;
}
IMPL_OP_OPTILING(Parts).Tiling(Tile).InferShape(Shape);
}  // namespace optiling
"""
HARNESS = """
#pragma once
#include "op_tiling_context_builder.h"
#include "op_infer_shape_context_builder.h"
class PartsFaker : public gert::OpTilingContextBuilder {
public:
    gert::ContextHolder<gert::TilingContext> Make(int64_t parts, int32_t* known, fe::PlatFormInfos* platform);
};
"""
HARNESS_SOURCE = """
#include "parts_context_faker.h"
#include <nlohmann/json.hpp>
gert::ContextHolder<gert::TilingContext> PartsFaker::Make(int64_t parts, int32_t* known, fe::PlatFormInfos* platform) {
    gert::StorageShape shape({16, 8}, {16, 8}), one({1}, {1});
    gert::StorageFormat format(ge::FORMAT_ND, ge::FORMAT_ND, gert::ExpandDimsType());
    gert::Tensor x(shape, format, gert::kOnHost, ge::DT_FLOAT, nullptr), n(one, format, gert::kOnHost, ge::DT_INT32, known);
    gert::Tensor y = x;
    auto room = gert::TilingData::CreateCap(64);
    IONum(2, 1).InputTensors({&x, &n}).OutputTensors({&y}).PlatformInfo(platform);
    AppendAttr(parts).TilingData(reinterpret_cast<gert::TilingData*>(room.get())).OpType("Parts");
    auto holder = Build();
    const auto hardware = nlohmann::json::parse(R"({"cores": {"count": 12, "half": 0.5}, "list": [1, true, "a\\\\b"]})");
    std::map<std::string, std::string> values = {{"ai_core_cnt", std::to_string(hardware["cores"]["count"].get<int>())}};
    platform->SetPlatformRes("SoCInfo", values);
    return holder;
}
"""
TESTS = """
#include <gtest/gtest.h>
#include "base/registry/op_impl_space_registry_v2.h"
#include "parts_context_faker.h"
static auto Function() { return gert::DefaultOpImplSpaceRegistryV2::GetInstance().GetSpaceRegistry()->GetOpImpl("Parts"); }
TEST(Parts, tiles) {
    fe::PlatFormInfos platform;
    int32_t known = 7;
    PartsFaker faker;
    auto holder = faker.Make(4, &known, &platform);
    ASSERT_EQ(Function()->tiling(holder.GetContext()), ge::GRAPH_SUCCESS);
    EXPECT_EQ(holder.GetContext()->GetBlockDim(), 12);
    EXPECT_EQ(*static_cast<int64_t*>(holder.GetContext()->GetRawTilingData()->GetData()), 32);
    EXPECT_EQ(holder.GetContext()->GetWorkspaceNum(), 1);
}
TEST(Parts, expects_too_much) {
    fe::PlatFormInfos platform;
    int32_t known = 7;
    PartsFaker faker;
    auto holder = faker.Make(4, &known, &platform);
    Function()->tiling(holder.GetContext());
    EXPECT_EQ(holder.GetContext()->GetTilingKey(), 4);
}
TEST(Parts, infers) {
    gert::StorageShape shape({16, 8}, {16, 8});
    gert::Tensor x(shape, {}, gert::kOnHost, ge::DT_FLOAT, nullptr);
    gert::OpInferShapeContextBuilder builder;
    builder.OpType("Parts").IONum(1, 1).InputTensors({&x}).OutputTensorDesc(0, ge::DT_FLOAT, ge::FORMAT_ND, ge::FORMAT_ND);
    auto holder = builder.Build();
    EXPECT_EQ(Function()->infer_shape(holder.GetContext()), ge::GRAPH_SUCCESS);
    EXPECT_EQ(holder.GetContext()->GetOutputShape(0)->GetDim(0), 16);
}
TEST(Parts, unknown_operator) {
    EXPECT_TRUE(gert::DefaultOpImplSpaceRegistryV2::GetInstance().GetSpaceRegistry()->GetOpImpl("Nobody") == nullptr);
}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    root = tmp_path_factory.mktemp("with_host_tests")
    files = {
        "math/parts/op_kernel/parts.cpp": 'extern "C" __global__ __aicore__ void parts(GM_ADDR x) {}\n',
        "math/parts/op_host/parts_tiling.cpp": HOST,
        "math/parts/tests/ut/op_host/test_parts.cpp": TESTS,
        "math/parts/tests/ut/op_host/arch35/test_parts_950.cpp": TESTS,
        "math/parts/tests/ut/op_host/op_api/test_aclnn_parts.cpp": TESTS,
        "tests/ut/common/parts_context_faker.h": HARNESS,
        "tests/ut/common/parts_context_faker.cpp": HARNESS_SOURCE,
        "tests/ut/common/unrelated_faker.cpp": "#error not needed\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Checkout(root)


def test_sources_and_their_harness_are_found(checkout: Checkout) -> None:
    (operator,) = checkout.operators
    (source,) = host_test_sources(operator)
    assert source.name == "test_parts.cpp"
    assert [f.name for f in harness_sources(checkout, operator, source)] == ["parts_context_faker.cpp"]


@pytest.mark.slow
def test_each_test_has_a_verdict(checkout: Checkout) -> None:
    results = {r.name: r for r in run_host_tests(checkout, checkout.operators[0], load("ascend910b1"))}
    assert {name: r.verdict for name, r in results.items()} == {
        "Parts.tiles": "passed",
        "Parts.expects_too_much": "failed",
        "Parts.infers": "passed",
        "Parts.unknown_operator": "passed",
    }
    assert "(3, 4)" in results["Parts.expects_too_much"].message
