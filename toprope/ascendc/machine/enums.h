// Ascend C enumerations and parameter structures, with the vendor's names and values' order.
#pragma once

#include "block_sizes.h"
#include "data_format.h"
#include "machine.h"

enum pipe_t { PIPE_S = 0, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_MTE4, PIPE_MTE5, PIPE_V2, PIPE_FIX };
enum event_t { EVENT_ID0 = 0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };
enum cache_line_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum dcci_dst_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

namespace AscendC {

using ::event_t;
using TEventID = int8_t;

enum class TPosition : uint8_t {
    GM,
    A1,
    A2,
    B1,
    B2,
    C1,
    C2,
    CO1,
    CO2,
    VECIN,
    VECOUT,
    VECCALC,
    LCM = VECCALC,
    SPM,
    SHM = SPM,
    TSCM,
    C2PIPE2GM,
    C2PIPE2LOCAL,
    MAX
};
using QuePosition = TPosition;

enum class HardEvent : uint8_t {
    MTE2_MTE1,
    MTE1_MTE2,
    MTE1_M,
    M_MTE1,
    MTE2_V,
    V_MTE2,
    MTE3_V,
    V_MTE3,
    M_V,
    V_M,
    V_V,
    MTE3_MTE1,
    MTE1_MTE3,
    MTE1_V,
    MTE2_M,
    M_MTE2,
    V_MTE1,
    M_FIX,
    FIX_M,
    MTE3_MTE2,
    MTE2_MTE3,
    S_V,
    V_S,
    S_MTE2,
    MTE2_S,
    S_MTE3,
    MTE3_S,
    MTE2_FIX,
    FIX_MTE2,
    FIX_S,
    M_S,
    FIX_MTE3,
    MTE1_FIX,
    FIX_MTE1,
    FIX_FIX,
    FIX_V,
    MAX
};

enum class MemoryT { L1 = 0, L0A, L0B, L0C, UB, BIAS };
enum class MemDsbT { ALL = 0, DDR, UB, SEQ };
enum class CacheMode { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL = 1, CACHE_MODE_LAST = 2, CACHE_MODE_PERSISTENT = 4 };
enum class CacheRwMode { READ = 1, WRITE = 2, RW = 3 };
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };
enum class RoundMode : uint8_t {
    CAST_NONE = 0,
    CAST_RINT,
    CAST_FLOOR,
    CAST_CEIL,
    CAST_ROUND,
    CAST_TRUNC,
    CAST_ODD,
    CAST_HYBRID,
    UNKNOWN = 0xff
};
enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX = 0, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };

// Which hardware memory a logical position lives in. 310P keeps C1, C2 and CO2 elsewhere; 310B has the bias table, and CO2 in UB.
constexpr toprope::Space space_of(TPosition position) {
    using toprope::Space;
    constexpr auto& chip = toprope::kChip;
    switch (position) {
        case TPosition::GM:
            return Space::gm;
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::TSCM:
            return Space::l1;
        case TPosition::C1:
            return chip.bias_table ? Space::l1 : Space::ub;
        case TPosition::A2:
            return Space::l0a;
        case TPosition::B2:
            return Space::l0b;
        case TPosition::C2:
            return chip.bias_table ? Space::bias : Space::l0c;
        case TPosition::CO1:
            return Space::l0c;
        case TPosition::CO2:
            return chip.scratch_in_ub ? Space::ub : Space::gm;
        case TPosition::C2PIPE2GM:
            return Space::fixbuf;
        default:
            return Space::ub;
    }
}
// Which memory a position lives in, asked as kernels ask it at compile time.
constexpr bool PhyPosIsGM(TPosition pos) { return space_of(pos) == toprope::Space::gm; }
constexpr bool PhyPosIsUB(TPosition pos) { return space_of(pos) == toprope::Space::ub; }
constexpr bool PhyPosIsL1(TPosition pos) { return space_of(pos) == toprope::Space::l1; }
constexpr bool PhyPosIsL0C(TPosition pos) { return space_of(pos) == toprope::Space::l0c; }
inline constexpr const char* kPositionNames[] = {"GM",    "A1",     "A2",      "B1",  "B2",   "C1",        "C2",           "CO1", "CO2",
                                                 "VECIN", "VECOUT", "VECCALC", "SPM", "TSCM", "C2PIPE2GM", "C2PIPE2LOCAL", "MAX"};

inline constexpr int32_t DEFAULT_C0_SIZE = 32, ONE_REPEAT_BYTE_SIZE = 256;
inline constexpr int32_t DEFAULT_BLK_NUM = 8, DEFAULT_BLK_STRIDE = 1, DEFAULT_REPEAT_STRIDE = 8, CUBE_MAX_SIZE = 256;
inline constexpr int32_t HALF_DEFAULT_REPEAT_STRIDE = 4, MAX_REPEAT_TIMES = 255, BYTE_PER_FRACTAL = 512;
inline constexpr uint64_t MASK_PLACEHOLDER = 0;
inline uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};

struct UnaryRepeatParams {
    uint16_t dstBlkStride = 1, srcBlkStride = 1;
    uint16_t dstRepStride = 8, srcRepStride = 8;
    uint32_t blockNumber = 8;
    bool halfBlock = false, repeatStrideMode = false, strideSizeMode = false;
    constexpr UnaryRepeatParams() = default;
    constexpr UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint16_t dstRep, uint16_t srcRep, bool half = false)
        : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep), halfBlock(half) {}
};

struct BinaryRepeatParams {
    uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1;
    uint8_t dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
    uint32_t blockNumber = 8;
    bool repeatStrideMode = false, strideSizeMode = false;
    constexpr BinaryRepeatParams() = default;
    constexpr BinaryRepeatParams(uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep, uint8_t src1Rep)
        : dstBlkStride(dstBlk),
          src0BlkStride(src0Blk),
          src1BlkStride(src1Blk),
          dstRepStride(dstRep),
          src0RepStride(src0Rep),
          src1RepStride(src1Rep) {}
};

struct CopyRepeatParams {
    uint16_t dstStride = 1, srcStride = 1, dstRepeatSize = 8, srcRepeatSize = 8;
    constexpr CopyRepeatParams() = default;
    constexpr CopyRepeatParams(uint16_t dst, uint16_t src, uint16_t dstRepeat, uint16_t srcRepeat)
        : dstStride(dst), srcStride(src), dstRepeatSize(dstRepeat), srcRepeatSize(srcRepeat) {}
};

}  // namespace AscendC
