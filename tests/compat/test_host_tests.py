"""Unit tests of host code: a harness of the public kind on a repository of our own, its tests judged one by one."""

from __future__ import annotations

import pytest

from toprope.compat.host_tests import harness_sources, host_test_sources, run_host_tests
from toprope.project.checkout import Checkout
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
NEXT = """
#include "register/op_impl_registry.h"
static ge::graphStatus Parse(gert::TilingParseContext* context) {
    *context->GetCompiledInfo<int>() = 950;
    return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Tile(gert::TilingContext*) { return ge::GRAPH_SUCCESS; }
IMPL_OP_OPTILING(PartsNext).Tiling(Tile).TilingParse<int>(Parse);
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
#include "graph.h"
#include "graph/operator_reg.h"
#include "parts_context_faker.h"
namespace ge {
REG_OP(PartsOf)
    .INPUT(x, TensorType({DT_FLOAT, DT_FLOAT16}))
    .OPTIONAL_INPUT(mask, TensorType({DT_BOOL}))
    .DYNAMIC_INPUT(more, TensorType::ALL())
    .OUTPUT(y, TensorType::ALL())
    .ATTR(index, Int, 0)
    .ATTR(pads, ListInt, {1, 2})
    .REQUIRED_ATTR(mode, String)
    .OP_END_FACTORY_REG(PartsOf)
REG_OP(Known).OUTPUT(y, TensorType::ALL()).REQUIRED_ATTR(value, Tensor).OP_END_FACTORY_REG(Known)
}  // namespace ge
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
TEST(Parts, value_behind_its_tensor) {
    std::unique_ptr<uint8_t[]> memory(new uint8_t[sizeof(gert::Tensor) + sizeof(int32_t)]);
    auto* n = new (memory.get()) gert::Tensor({{1}, {1}}, {}, gert::kFollowing, ge::DT_INT32, nullptr);
    *reinterpret_cast<int32_t*>(n + 1) = 7;
    gert::StorageShape shape({16, 8}, {16, 8});
    gert::Tensor x(shape, {}, gert::kOnHost, ge::DT_FLOAT, nullptr);
    gert::OpTilingContextBuilder builder;
    builder.OpType("Parts").IONum(2, 1).InputTensors({&x, n}).AppendAttr(int64_t(2));
    auto holder = builder.Build();
    EXPECT_EQ(Function()->tiling(holder.GetContext()), ge::GRAPH_SUCCESS);
    EXPECT_EQ(*static_cast<int64_t*>(holder.GetContext()->GetRawTilingData()->GetData()), 64);
}
TEST(Parts, prototype) {
    ge::op::PartsOf op;
    EXPECT_EQ(op.GetInputsSize(), 1);
    op.UpdateInputDesc("mask", ge::TensorDesc(ge::Shape({4}), ge::FORMAT_ND, ge::DT_BOOL));
    op.create_dynamic_input_more(2);
    EXPECT_EQ(op.GetInputsSize(), 4);
    EXPECT_EQ(op.GetInputDesc(1).GetDataType(), ge::DT_BOOL);
    int64_t index = 0;
    std::vector<int64_t> pads;
    std::string mode;
    EXPECT_EQ(op.SetAttr("index", 3).GetAttr("index", index), ge::GRAPH_SUCCESS);
    EXPECT_EQ(op.GetAttr("pads", pads), ge::GRAPH_SUCCESS);
    EXPECT_EQ(op.GetAttr("index", mode), ge::GRAPH_FAILED);
    EXPECT_EQ(index * 100 + pads[0] * 10 + pads[1], 312);
    EXPECT_EQ(op.GetAllAttrNamesAndTypes()["pads"], "VT_LIST_INT");
    ge::TensorDesc described(ge::Shape({2}), ge::FORMAT_ND, ge::DT_INT32);
    const int32_t values[] = {5, 6};
    ge::op::Known known;
    known.set_attr_value(ge::Tensor(described, reinterpret_cast<const uint8_t*>(values), sizeof values));
    op.set_input_x(known);
    ge::Tensor found;
    ge::Graph graph;
    EXPECT_EQ(graph.AddNodeByOp(op).GetInputConstData(0, found), ge::GRAPH_SUCCESS);
    EXPECT_EQ(reinterpret_cast<const int32_t*>(found.GetData())[1], 6);
    EXPECT_EQ(graph.AddNodeByOp(op).GetInputConstData(1, found), ge::GRAPH_FAILED);
}
TEST(Parts, other_generation) {
    fe::PlatFormInfos platform;
    std::map<std::string, std::string> version = {{"Short_SoC_version", "Ascend950"}, {"NpuArch", "3510"}};
    platform.SetPlatformRes("version", version);
    auto* next = gert::DefaultOpImplSpaceRegistryV2::GetInstance().GetSpaceRegistry()->GetOpImpl("PartsNext");
    ASSERT_TRUE(next != nullptr);
    gert::OpTilingParseContextBuilder builder;
    int compiled = 0;
    auto holder = builder.OpType("PartsNext").IONum(1, 1).CompiledInfo(&compiled).Build();
    auto* general = reinterpret_cast<gert::KernelContext*>(holder.GetContext());
    EXPECT_EQ(next->tiling_parse(general), ge::GRAPH_SUCCESS);
    EXPECT_EQ(compiled, 950);
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
        "math/parts/op_host/arch35/parts_next_tiling.cpp": NEXT,
        "math/parts/op_host/arch35/parts_unfinished_tiling.cpp": "#error needs more\n",
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
        "Parts.value_behind_its_tensor": "passed",
        "Parts.prototype": "passed",
        "Parts.other_generation": "passed",
        "Parts.unknown_operator": "passed",
    }
    assert "(3, 4)" in results["Parts.expects_too_much"].message
