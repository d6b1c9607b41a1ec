// A tiling function as a class whose steps derived classes fill in (opbase: Ops::Base::TilingBaseClass).
#pragma once

#include <memory>
#include <sstream>

#include "../exe_graph/runtime/tiling_context.h"
#include "../log/log.h"
#include "../tiling/platform/platform_ascendc.h"
#include "../util/platform_util.h"
#include "../util/shape_util.h"

namespace Ops {
namespace Base {

struct AiCoreParams {
    uint64_t ubSize = 0, blockDim = 0, numBlocks = 0, aicNum = 0, l1Size = 0, l0aSize = 0, l0bSize = 0, l0cSize = 0;
};
struct CompileInfoCommon {
    uint32_t aivNum = 0, aicNum = 0;
    uint64_t ubSize = 0, l1Size = 0, l0aSize = 0, l0bSize = 0, l0cSize = 0, l2CacheSize = 0;
    int64_t coreNum = 0;
    int32_t socVersion = 0;
    uint32_t rsvd = 0;
};

class TilingBaseClass {
public:
    explicit TilingBaseClass(gert::TilingContext* context) : context_(context) {}
    virtual ~TilingBaseClass() = default;
    virtual void Reset(gert::TilingContext* context) { context_ = context; }

    // The steps in order, up to the first that does not succeed. GRAPH_PARAM_INVALID: this class is not made for the case.
    ge::graphStatus DoTiling() {
        if (context_ == nullptr) return ge::GRAPH_FAILED;
        if (const auto status = GetShapeAttrsInfo(); status != ge::GRAPH_SUCCESS) return status;
        if (const auto status = GetPlatformInfo(); status != ge::GRAPH_SUCCESS) return status;
        if (!IsCapable()) return ge::GRAPH_PARAM_INVALID;
        using Step = ge::graphStatus (TilingBaseClass::*)();
        for (Step step : {&TilingBaseClass::DoOpTiling, &TilingBaseClass::DoLibApiTiling, &TilingBaseClass::GetWorkspaceSize,
                          &TilingBaseClass::PostTiling})
            if (const auto status = (this->*step)(); status != ge::GRAPH_SUCCESS) return status;
        context_->SetTilingKey(GetTilingKey());
        DumpTilingInfo();
        return ge::GRAPH_SUCCESS;
    }

protected:
    using Status = ge::graphStatus;
    virtual Status DoLibApiTiling() = 0;
    virtual Status DoOpTiling() = 0;
    virtual Status GetPlatformInfo() = 0;
    virtual Status GetShapeAttrsInfo() = 0;
    virtual Status GetWorkspaceSize() = 0;
    virtual Status PostTiling() = 0;
    virtual bool IsCapable() = 0;
    virtual uint64_t GetTilingKey() const = 0;
    virtual void DumpTilingInfo() {}

    static uint32_t CalcTschBlockDim(uint32_t sliceNum, uint32_t aicCoreNum, uint32_t aivCoreNum) {
        return platform_ascendc::PlatformAscendC(nullptr).CalcTschBlockDim(sliceNum, aicCoreNum, aivCoreNum);
    }
    template <typename Shape>
    std::string GetShapeDebugStr(const Shape& shape) const {
        return list_text(shape, shape.GetDimNum());
    }
    std::string GetTensorDebugStr(const gert::StorageShape* shape, const gert::CompileTimeTensorDesc* desc) {
        return shape == nullptr || desc == nullptr ? "nil" : ToString(desc->GetDataType()) + ToString(*shape);
    }
    std::string GetTilingContextDebugStr() {
        std::string out;
        for (size_t i = 0; i < context_->GetComputeNodeInputNum(); ++i)
            out += GetTensorDebugStr(context_->GetInputShape(i), context_->GetInputDesc(i)) + " ";
        return out;
    }
    std::string GetTilingDataDebugStr() const {
        const gert::TilingData* data = context_->GetRawTilingData();
        return list_text(static_cast<const int32_t*>(data->GetData()), data->GetDataSize() / sizeof(int32_t));
    }

    gert::TilingContext* context_ = nullptr;
    std::unique_ptr<platform_ascendc::PlatformAscendC> ascendcPlatform_;
    uint32_t blockDim_ = 0;
    uint64_t workspaceSize_ = 0, tilingKey_ = 0;
    AiCoreParams aicoreParams_;
};

}  // namespace Base
}  // namespace Ops

#ifdef ASCENDC_OP_TEST
#define ASCENDC_EXTERN_C extern "C"
#else
#define ASCENDC_EXTERN_C
#endif
