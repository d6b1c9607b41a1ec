// What a Matmul object is made of: matrix types, configurations, callbacks. Names and field order are the vendor's.
// Pages: Matmul使用说明, MatmulConfig, GetMMConfig, Matmul模板参数, MatmulCallBackFunc.
#pragma once

#include "../../machine/cube.h"
#include "../tiling_structs.h"

enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR = ND, COLUMN_MAJOR = VECTOR + 1 };
enum class LayoutMode { NONE = 0, BSNGD, SBNGD, BNGS1S2, NORMAL };

namespace AscendC {

using ::CubeFormat;
using ::LayoutMode;

enum class BatchMode : uint8_t { NONE = 0, BATCH_LESS_THAN_L1, BATCH_LARGE_THAN_L1, SINGLE_LARGE_THAN_L1 };
enum class BatchOutMode : uint8_t { SINGLE_BATCH = 0, MULTI_BATCH, DEFAULT, DYNAMIC };
enum class IterateOrder { ORDER_M = 0, ORDER_N, UNDEF };
enum class ScheduleType : uint8_t { INNER_PRODUCT = 0, OUTER_PRODUCT, N_BUFFER_33 };
enum IterateMode : uint8_t {
    ITERATE_MODE_NORMAL = 1,
    ITERATE_MODE_ALL = 2,
    ITERATE_MODE_BATCH = 4,
    ITERATE_MODE_N_BATCH = 8,
    ITERATE_MODE_DEFAULT = 15
};
enum class MatmulConfigMode { CONFIG_NORM = 0, CONFIG_MDL, CONFIG_SPECIALMDL, CONFIG_IBSHARE };

namespace Impl {
inline constexpr int32_t QUEUE_DEPTH = 1;  // of the queue in L0C that a kernel keeps itself
}
// The element type of the product of a left matrix of type T, as it lies in L0C.
template <typename T>
struct GetMmDstType {
    using Type = std::conditional_t<std::is_same_v<T, int8_t> || std::is_same_v<T, int4b_t>, int32_t, float>;
};

//: MatmulType | position, format, element type and layout of one matrix of a Matmul object | any | A2 A3 310P | Matmul使用说明
template <TPosition POSITION, CubeFormat FORMAT, typename TYPE, bool ISTRANS = false, LayoutMode LAYOUT = LayoutMode::NONE,
          bool IBSHARE = false, TPosition SRCPOS = TPosition::GM>
struct MatmulType {
    static constexpr TPosition pos = POSITION;
    static constexpr CubeFormat format = FORMAT;
    using T = TYPE;
    static constexpr bool isTrans = ISTRANS;
    static constexpr LayoutMode layout = LAYOUT;
    static constexpr bool ibShare = IBSHARE;
    static constexpr TPosition srcPos = SRCPOS;
};

//: SparseMatmulType | the right matrix of a 4:2 sparse product, made dense and stored transposed, and where its index matrix lies | int8_t | A2 A3 | 4-2稀疏矩阵乘
template <TPosition POSITION, TPosition INDEX_POSITION, CubeFormat FORMAT, typename TYPE, bool ISTRANS = false,
          LayoutMode LAYOUT = LayoutMode::NONE, bool IBSHARE = false>
struct SparseMatmulType : MatmulType<POSITION, FORMAT, TYPE, ISTRANS, LAYOUT, IBSHARE> {
    static constexpr TPosition indexPosition = INDEX_POSITION;
    static_assert(std::is_same_v<TYPE, int8_t> && ISTRANS && POSITION == TPosition::GM && INDEX_POSITION == TPosition::GM,
                  "SparseMatmulType: int8_t, stored transposed, matrix and index in GM");
};

struct MatmulConfig {
    bool doNorm = false, doBasicBlock = false, doMultiDataLoad = false;
    uint32_t basicM = 0, basicN = 0, basicK = 0;
    bool intrinsicsCheck = false, isNBatch = false, enVecND2NZ = false, doSpecialBasicBlock = false;
    uint32_t doMTE2Preload = 0, singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, stepM = 0, stepN = 0, baseMN = 0, singleCoreMN = 0;
    bool enUnitFlag = true, isPerTensor = false, hasAntiQuantOffset = false, doIBShareNorm = false, doSpecialMDL = false, enableInit = true;
    BatchMode batchMode = BatchMode::NONE;
    bool enableEnd = true, enableGetTensorC = true, enableSetOrgShape = true, enableSetBias = true, enableSetTail = true,
         enableQuantVector = true, enableSetDefineData = true;
    uint8_t iterateMode = ITERATE_MODE_DEFAULT;
    bool enableReuse = true, enableUBReuse = true, enableL1CacheUB = false, intraBlockPartSum = false;
    IterateOrder iterateOrder = IterateOrder::UNDEF;
    ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
    bool enableDoubleCache = false, isBiasBatch = true, enableStaticPadZeros = false, isPartialOutput = false, enableMixDualMaster = false,
         isA2B2Shared = false, isEnableChannelSplit = false, enableKdimReorderLoad = false, isCO1Shared = false;
    uint32_t sharedCO1BufferSize = 64 * 1024;
    BatchOutMode bmmOutMode = BatchOutMode::SINGLE_BATCH;
    bool enableL1BankConflictOptimise = false, enableRelu = false;
};

//: GetNormalConfig | the configuration that moves one base block a time into L1 | - | A2 A3 310P | GetNormalConfig
constexpr MatmulConfig GetNormalConfig(bool intrinsicsLimit = false, bool batchLoop = false, bool isVecND2NZ = false,
                                       BatchMode bmmMode = BatchMode::BATCH_LESS_THAN_L1, bool isMsgReuse = true,
                                       IterateOrder iterateOrder = IterateOrder::UNDEF,
                                       ScheduleType scheduleType = ScheduleType::INNER_PRODUCT, bool enUnitFlag = true,
                                       bool enableMixDualMaster = false, BatchOutMode bmmOutMode = BatchOutMode::SINGLE_BATCH) {
    MatmulConfig c;
    c.doNorm = true;
    c.intrinsicsCheck = intrinsicsLimit;
    c.isNBatch = batchLoop;
    c.enVecND2NZ = isVecND2NZ;
    c.batchMode = bmmMode;
    c.enableReuse = isMsgReuse;
    c.iterateOrder = iterateOrder;
    c.scheduleType = scheduleType;
    c.enUnitFlag = enUnitFlag;
    c.enableMixDualMaster = enableMixDualMaster;
    c.bmmOutMode = bmmOutMode;
    return c;
}
//: GetMDLConfig | the configuration that moves many base blocks into L1 with one copy | - | A2 A3 310P | GetMDLConfig
constexpr MatmulConfig GetMDLConfig(bool intrinsicsLimit = false, bool batchLoop = false, uint32_t doMTE2Preload = 0,
                                    bool isVecND2NZ = false, bool isPerTensor = false, bool hasAntiQuantOffset = false,
                                    bool enUnitFlag = false, bool isMsgReuse = true, bool enableUBReuse = true,
                                    bool enableL1CacheUB = false, bool enableMixDualMaster = false, bool enableKdimReorderLoad = false) {
    MatmulConfig c = GetNormalConfig(intrinsicsLimit, batchLoop, isVecND2NZ);
    c.doNorm = false;
    c.doMultiDataLoad = true;
    c.doMTE2Preload = doMTE2Preload;
    c.isPerTensor = isPerTensor;
    c.hasAntiQuantOffset = hasAntiQuantOffset;
    c.enUnitFlag = enUnitFlag;
    c.enableReuse = isMsgReuse;
    c.enableUBReuse = enableUBReuse;
    c.enableL1CacheUB = enableL1CacheUB;
    c.enableMixDualMaster = enableMixDualMaster;
    c.enableKdimReorderLoad = enableKdimReorderLoad;
    return c;
}
//: GetSpecialMDLConfig | as GetMDLConfig, with two base blocks of N although K does not fit into L1 | - | A2 A3 310P | GetSpecialMDLConfig
constexpr MatmulConfig GetSpecialMDLConfig(bool intrinsicsLimit = false, bool batchLoop = false, uint32_t doMTE2Preload = 0,
                                           bool isVecND2NZ = false, bool isPerTensor = false, bool hasAntiQuantOffset = false) {
    MatmulConfig c = GetMDLConfig(intrinsicsLimit, batchLoop, doMTE2Preload, isVecND2NZ, isPerTensor, hasAntiQuantOffset);
    c.doMultiDataLoad = false;
    c.doSpecialMDL = true;
    return c;
}
//: GetIBShareNormConfig | as GetNormalConfig, and a matrix that both vector cores use is moved once | - | A2 A3 | GetIBShareNormConfig
constexpr MatmulConfig GetIBShareNormConfig(bool intrinsicsLimit = false, bool batchLoop = false, bool isVecND2NZ = false,
                                            BatchMode bmmMode = BatchMode::BATCH_LESS_THAN_L1, bool isDoubleCache = false,
                                            bool enUnitFlag = true) {
    MatmulConfig c = GetNormalConfig(intrinsicsLimit, batchLoop, isVecND2NZ, bmmMode);
    c.doNorm = false;
    c.doIBShareNorm = true;
    c.enableDoubleCache = isDoubleCache;
    c.enUnitFlag = enUnitFlag;
    return c;
}
//: GetBasicConfig | a configuration with the base block as constants | - | A2 A3 310P | GetBasicConfig
constexpr MatmulConfig GetBasicConfig(uint32_t basicM, uint32_t basicN, uint32_t basicK, bool intrinsicsLimit = false,
                                      bool batchLoop = false, BatchMode bmmMode = BatchMode::BATCH_LESS_THAN_L1) {
    MatmulConfig c = GetNormalConfig(intrinsicsLimit, batchLoop, false, bmmMode);
    c.doNorm = false;
    c.doBasicBlock = true;
    c.basicM = basicM;
    c.basicN = basicN;
    c.basicK = basicK;
    c.baseMN = basicM * basicN;
    return c;
}
//: GetSpecialBasicConfig | a configuration with base block and single-core shape as constants | - | A2 A3 310P | MatmulConfig
constexpr MatmulConfig GetSpecialBasicConfig(uint32_t basicM, uint32_t basicN, uint32_t basicK, uint32_t singleCoreM, uint32_t singleCoreN,
                                             uint32_t singleCoreK, uint32_t stepM, uint32_t stepN, bool intrinsicsLimit = false,
                                             bool batchLoop = false, BatchMode bmmMode = BatchMode::BATCH_LESS_THAN_L1) {
    MatmulConfig c = GetBasicConfig(basicM, basicN, basicK, intrinsicsLimit, batchLoop, bmmMode);
    c.doBasicBlock = false;
    c.doSpecialBasicBlock = true;
    c.singleCoreM = singleCoreM;
    c.singleCoreN = singleCoreN;
    c.singleCoreK = singleCoreK;
    c.stepM = stepM;
    c.stepN = stepN;
    c.singleCoreMN = singleCoreM * singleCoreN;
    return c;
}

struct MatmulShapeParams {
    uint32_t singleCoreM, singleCoreN, singleCoreK, basicM, basicN, basicK;
};
struct MatmulQuantParams {
    bool isPerTensor, hasAntiQuantOffset;
};
struct MatmulBatchParams {
    bool isNBatch;
    BatchMode batchMode = BatchMode::BATCH_LESS_THAN_L1;
    bool isBiasBatch = true;
    BatchOutMode bmmOutMode = BatchOutMode::SINGLE_BATCH;
};
struct MatmulFuncParams {
    bool intrinsicsLimit, enVecND2NZ = false, enableDoubleCache = false, enableL1CacheUB = false;
    uint32_t doMTE2Preload = 0;
    IterateOrder iterateOrder = IterateOrder::UNDEF;
    ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
    bool enableReuse = true, enableUBReuse = true, isPartialOutput = false, isA2B2Shared = false, isEnableChannelSplit = false,
         enableKdimReorderLoad = false;
};
struct MatmulBiasParams {
    bool enableSetBias = true, isBiasBatch = true;
};

//: GetMMConfig | a configuration from a template and any of its parts | - | A2 A3 310P | GetMMConfig
template <MatmulConfigMode configMode, typename... ArgTypes>
constexpr MatmulConfig GetMMConfig(ArgTypes&&... args) {
    MatmulConfig c = configMode == MatmulConfigMode::CONFIG_MDL
                         ? GetMDLConfig()
                         : (configMode == MatmulConfigMode::CONFIG_SPECIALMDL
                                ? GetSpecialMDLConfig()
                                : (configMode == MatmulConfigMode::CONFIG_IBSHARE ? GetIBShareNormConfig() : GetNormalConfig()));
    const auto apply = [&c](const auto& part) {
        using P = std::decay_t<decltype(part)>;
        if constexpr (std::is_same_v<P, MatmulShapeParams>) {
            c.singleCoreM = part.singleCoreM;
            c.singleCoreN = part.singleCoreN;
            c.singleCoreK = part.singleCoreK;
            c.basicM = part.basicM;
            c.basicN = part.basicN;
            c.basicK = part.basicK;
        } else if constexpr (std::is_same_v<P, MatmulQuantParams>) {
            c.isPerTensor = part.isPerTensor;
            c.hasAntiQuantOffset = part.hasAntiQuantOffset;
        } else if constexpr (std::is_same_v<P, MatmulBatchParams>) {
            c.isNBatch = part.isNBatch;
            c.batchMode = part.batchMode;
            c.isBiasBatch = part.isBiasBatch;
            c.bmmOutMode = part.bmmOutMode;
        } else if constexpr (std::is_same_v<P, MatmulBiasParams>) {
            c.enableSetBias = part.enableSetBias;
            c.isBiasBatch = part.isBiasBatch;
        } else {
            static_assert(std::is_same_v<P, MatmulFuncParams>, "GetMMConfig takes Matmul{Shape,Quant,Batch,Func,Bias}Params");
            c.intrinsicsCheck = part.intrinsicsLimit;
            c.enVecND2NZ = part.enVecND2NZ;
            c.enableDoubleCache = part.enableDoubleCache;
            c.enableL1CacheUB = part.enableL1CacheUB;
            c.doMTE2Preload = part.doMTE2Preload;
            c.iterateOrder = part.iterateOrder;
            c.scheduleType = part.scheduleType;
            c.enableReuse = part.enableReuse;
            c.enableUBReuse = part.enableUBReuse;
            c.isPartialOutput = part.isPartialOutput;
            c.isA2B2Shared = part.isA2B2Shared;
            c.isEnableChannelSplit = part.isEnableChannelSplit;
            c.enableKdimReorderLoad = part.enableKdimReorderLoad;
        }
    };
    (apply(args), ...);
    return c;
}

// Tiling numbers as constants; -1 where the run-time tiling decides.
struct MatmulApiStaticTiling {
    int32_t usedCoreNum = -1, M = -1, N = -1, Ka = -1, Kb = -1, singleCoreM = -1, singleCoreN = -1, singleCoreK = -1, baseM = -1,
            baseN = -1, baseK = -1, depthA1 = -1, depthB1 = -1, stepM = -1, stepN = -1, stepKa = -1, stepKb = -1, isBias = -1,
            transLength = -1, iterateOrder = -1, dbL0A = -1, dbL0B = -1, dbL0C = -1, shareMode = -1, shareL1Size = -1, shareL0CSize = -1,
            shareUbSize = -1, batchM = -1, batchN = -1, singleBatchM = -1, singleBatchN = -1, mxTypePara = -1;
    MatmulConfig cfg{};
};

struct DataCopyOutParams {
    uint16_t cBurstNum = 0, burstLen = 0, srcStride = 0;
    uint32_t dstStride = 0;
    uint16_t oriNSize = 0;
    bool enUnitFlag = false;
    uint64_t quantScalar = 0, cbufWorkspaceAddr = 0;
};

//: MatmulCallBackFunc | the user's own copies: result out of L0C, A and B into L1 | - | A2 A3 | MatmulCallBackFunc
template <void (*DataCopyOut)(const __gm__ void* gm, const LocalTensor<int8_t>& co1Local, const void* dataCopyOutParams,
                              const uint64_t tilingPtr, const uint64_t dataPtr) = nullptr,
          void (*CopyA1)(const LocalTensor<int8_t>& aMatrix, const __gm__ void* gm, int row, int col, int useM, int useK,
                         const uint64_t tilingPtr, const uint64_t dataPtr) = nullptr,
          void (*CopyB1)(const LocalTensor<int8_t>& bMatrix, const __gm__ void* gm, int row, int col, int useK, int useN,
                         const uint64_t tilingPtr, const uint64_t dataPtr) = nullptr>
struct MatmulCallBackFunc {
    static constexpr auto out = DataCopyOut;
    static constexpr auto a1 = CopyA1;
    static constexpr auto b1 = CopyB1;
};

struct MatrixOffset {
    int32_t offset = 0, row = 0, col = 0, height = 0, width = 0;
};

}  // namespace AscendC

inline constexpr AscendC::MatmulConfig CFG_NORM = AscendC::GetNormalConfig(), CFG_MDL = AscendC::GetMDLConfig(),
                                       CFG_IBSHARE_NORM = AscendC::GetIBShareNormConfig(),
                                       MM_CFG_BB = AscendC::GetBasicConfig(128, 128, 128);

namespace AscendC {
using ::CFG_IBSHARE_NORM;
using ::CFG_MDL;
using ::CFG_NORM;
using ::MM_CFG_BB;
}  // namespace AscendC

// Kernels name these outside the namespace as well.
using AscendC::BatchMode;
using AscendC::BatchOutMode;
using AscendC::GetBasicConfig;
using AscendC::GetIBShareNormConfig;
using AscendC::GetMDLConfig;
using AscendC::GetMMConfig;
using AscendC::GetNormalConfig;
using AscendC::GetSpecialBasicConfig;
using AscendC::GetSpecialMDLConfig;
using AscendC::IterateMode;
using AscendC::IterateOrder;
using AscendC::MatmulApiStaticTiling;
using AscendC::MatmulBatchParams;
using AscendC::MatmulBiasParams;
using AscendC::MatmulConfig;
using AscendC::MatmulConfigMode;
using AscendC::MatmulFuncParams;
using AscendC::MatmulQuantParams;
using AscendC::MatmulShapeParams;
using AscendC::ScheduleType;

namespace toprope {

constexpr AscendC::MatmulConfig matmul_config(const AscendC::MatmulConfig& c) { return c; }
constexpr AscendC::MatmulConfig matmul_config(const AscendC::MatmulApiStaticTiling& t) { return t.cfg; }

template <class TYPE, typename = void>
inline constexpr bool is_sparse = false;
template <class TYPE>
inline constexpr bool is_sparse<TYPE, std::void_t<decltype(TYPE::indexPosition)>> = true;

constexpr int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
constexpr int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }
constexpr int32_t up(int32_t a, int32_t b) { return (a + b - 1) / b * b; }

}  // namespace toprope

namespace AscendC {

//: GetMatmulApiTiling | tiling constants for a configuration that names its shapes | - | A2 A3 310P | GetMatmulApiTiling
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE>
constexpr MatmulApiStaticTiling GetMatmulApiTiling(const MatmulConfig& mmCFG, int32_t l1Size = 512 * 1024) {
    MatmulApiStaticTiling t;
    t.cfg = mmCFG;
    const auto given = [](uint32_t v) { return v == 0 ? -1 : static_cast<int32_t>(v); };
    t.singleCoreM = given(mmCFG.singleCoreM);
    t.singleCoreN = given(mmCFG.singleCoreN);
    t.singleCoreK = given(mmCFG.singleCoreK);
    t.baseM = given(mmCFG.basicM);
    t.baseN = given(mmCFG.basicN);
    t.baseK = given(mmCFG.basicK);
    if (t.baseM < 0 || t.baseN < 0 || t.baseK < 0 || t.singleCoreK < 0) return t;
    const auto a_block = static_cast<int32_t>(toprope::bytes_of<typename A_TYPE::T>(static_cast<uint64_t>(t.baseM) * mmCFG.basicK));
    const auto b_block = static_cast<int32_t>(toprope::bytes_of<typename B_TYPE::T>(static_cast<uint64_t>(t.baseN) * mmCFG.basicK));
    // Half of L1 each; a bias and a vector of quantisation factors come out of the whole.
    const int32_t half = (l1Size - t.baseN * 16) / 2, steps = toprope::up(t.singleCoreK, t.baseK) / t.baseK;
    const int32_t ka = toprope::most(1, toprope::least(steps, half / a_block / 2)),
                  kb = toprope::most(1, toprope::least(steps, half / b_block / 2));
    const bool packed = mmCFG.doMultiDataLoad || mmCFG.doSpecialMDL;
    // MDL wants one step to be a multiple of the other.
    int32_t small = toprope::least(ka, kb), large = toprope::most(ka, kb);
    large = large / small * small;
    t.stepM = t.stepN = 1;
    t.stepKa = packed ? (ka < kb ? small : large) : 1;
    t.stepKb = packed ? (ka < kb ? large : small) : 1;
    if (ka == kb) t.stepKa = t.stepKb = packed ? ka : 1;
    t.depthA1 = packed ? t.stepKa * 2 : ka * 2;
    t.depthB1 = packed ? t.stepKb * 2 : kb * 2;
    t.dbL0A = a_block * 2 <= 65536 ? 2 : 1;
    t.dbL0B = b_block * 2 <= 65536 ? 2 : 1;
    t.dbL0C = t.baseM * t.baseN * 8 <= 131072 ? 2 : 1;
    t.iterateOrder = mmCFG.iterateOrder == IterateOrder::ORDER_N ? 1 : 0;
    t.isBias = 0;
    return t;
}

}  // namespace AscendC
