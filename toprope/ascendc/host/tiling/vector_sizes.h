// How much temporary space the functions of the advanced vector library take, for host code that plans UB: the pages
// 高阶API/**/Get<Func>MaxMinTmpSize and Get<Func>TmpBufferFactorSize. The numbers come from lib/temporaries.h, so they are what the kernels
// of this library really use; the vendor's functions may need more or less. Plain C++. `Shape` is any type with GetShapeSize(),
// GetDimNum() and GetDim(i), such as ge::Shape.
#pragma once

#include <cstdint>

#include "../../lib/row_split.h"
#include "../../lib/temporaries.h"

namespace toprope {

// Below `least` bytes a function does not work; more than `most` it does not use.
struct SpaceRange {
    uint32_t least, most;
    void give(uint32_t& max_value, uint32_t& min_value) const {
        max_value = most;
        min_value = least;
    }
};
constexpr uint64_t padded_to(uint64_t n, uint64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// An element-wise function over `elements` elements.
constexpr SpaceRange piece_space(uint64_t elements, uint32_t temporaries, uint32_t element_bytes, uint32_t sources) {
    return {static_cast<uint32_t>(temporary_bytes(kPieceLanes, temporaries, element_bytes, sources)),
            static_cast<uint32_t>(temporary_bytes(padded_to(elements, kPieceLanes), temporaries, element_bytes, sources))};
}
// A row-wise function over rows x width elements; `vectors`: rows of floats kept besides (gamma, beta).
inline SpaceRange row_space(uint32_t rows, uint32_t width, RowTemporaries t, uint32_t vectors = 0) {
    const auto bytes = [&](uint32_t n) {
        return static_cast<uint32_t>(row_scratch_bytes(n, width, t.block_tensors, t.data_tensors) + uint64_t{vectors} * width * 4);
    };
    const uint32_t all = rows < 8 ? rows : static_cast<uint32_t>(padded_to(rows, 8));
    return {bytes(rows < 8 ? rows : 8), bytes(all)};
}

// The last axis against all the others, elements of the last padded to whole blocks.
template <typename Shape>
RowShape row_shape(const Shape& shape, uint32_t element_bytes) {
    const auto last = static_cast<uint64_t>(shape.GetDim(shape.GetDimNum() - 1));
    const auto rows = last == 0 ? 0 : static_cast<uint64_t>(shape.GetShapeSize()) / last;
    return {static_cast<uint32_t>(rows), static_cast<uint32_t>(padded_to(last, 32 / element_bytes))};
}

}  // namespace toprope

namespace AscendC {

// The size of an element-wise function, with the configuration that some of them take, and its parts as factors: a call on n elements uses
// at most maxLiveNodeCount * n * typeSize + extraBuffer bytes.
#define TOPROPE_HOST_SIZES(Name, temporaries, sources)                                                                                  \
    template <typename Shape>                                                                                                           \
    void Get##Name##MaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) { \
        toprope::piece_space(static_cast<uint64_t>(srcShape.GetShapeSize()), toprope::temporaries, typeSize, sources)                   \
            .give(maxValue, minValue);                                                                                                  \
    }                                                                                                                                   \
    template <typename Context, typename Shape>                                                                                         \
    void Get##Name##MaxMinTmpSize(const Context&, const Shape& srcShape, const uint32_t typeSize, const bool reuse, uint32_t& maxValue, \
                                  uint32_t& minValue) {                                                                                 \
        Get##Name##MaxMinTmpSize(srcShape, typeSize, reuse, maxValue, minValue);                                                        \
    }                                                                                                                                   \
    inline void Get##Name##TmpBufferFactorSize(const uint32_t typeSize, uint32_t& maxLiveNodeCount, uint32_t& extraBuffer) {            \
        maxLiveNodeCount = static_cast<uint32_t>(toprope::temporary_bytes(1, toprope::temporaries, typeSize, sources) / typeSize);      \
        extraBuffer = static_cast<uint32_t>(toprope::temporary_bytes(toprope::kPieceLanes, toprope::temporaries, typeSize, sources));   \
    }                                                                                                                                   \
    template <typename Context>                                                                                                         \
    void Get##Name##TmpBufferFactorSize(const Context&, const uint32_t typeSize, uint32_t& maxLiveNodeCount, uint32_t& extraBuffer) {   \
        Get##Name##TmpBufferFactorSize(typeSize, maxLiveNodeCount, extraBuffer);                                                        \
    }
TOPROPE_HOST_SIZES(Log, kNoTemporaries, 1)
TOPROPE_HOST_SIZES(Log2, kNoTemporaries, 1)
TOPROPE_HOST_SIZES(Log10, kNoTemporaries, 1)
TOPROPE_HOST_SIZES(Floor, kNoTemporaries, 1)
TOPROPE_HOST_SIZES(Ceil, kNoTemporaries, 1)
TOPROPE_HOST_SIZES(Trunc, kNoTemporaries, 1)
TOPROPE_HOST_SIZES(Round, kNoTemporaries, 1)
TOPROPE_HOST_SIZES(Rint, kNoTemporaries, 1)
TOPROPE_HOST_SIZES(Frac, kRoundTemporaries, 1)
TOPROPE_HOST_SIZES(Sign, kSignTemporaries, 1)
TOPROPE_HOST_SIZES(Sin, kTrigTemporaries, 1)
TOPROPE_HOST_SIZES(Cos, kTrigTemporaries, 1)
TOPROPE_HOST_SIZES(Tan, kTanTemporaries, 1)
TOPROPE_HOST_SIZES(Asin, kArcTemporaries, 1)
TOPROPE_HOST_SIZES(Acos, kArcTemporaries, 1)
TOPROPE_HOST_SIZES(Atan, kArcTemporaries, 1)
TOPROPE_HOST_SIZES(Sinh, kHyperbolicTemporaries, 1)
TOPROPE_HOST_SIZES(Cosh, kHyperbolicTemporaries, 1)
TOPROPE_HOST_SIZES(Asinh, kHyperbolicTemporaries, 1)
TOPROPE_HOST_SIZES(Acosh, kHyperbolicTemporaries, 1)
TOPROPE_HOST_SIZES(Atanh, kHyperbolicTemporaries, 1)
TOPROPE_HOST_SIZES(Tanh, kTanhTemporaries, 1)
TOPROPE_HOST_SIZES(Erf, kErfTemporaries, 1)
TOPROPE_HOST_SIZES(Erfc, kErfTemporaries, 1)
TOPROPE_HOST_SIZES(Fmod, kFmodTemporaries, 2)
TOPROPE_HOST_SIZES(Exp, kExpTemporaries, 1)
TOPROPE_HOST_SIZES(Axpy, kNoTemporaries, 0)
TOPROPE_HOST_SIZES(Clamp, kNoTemporaries, 0)
TOPROPE_HOST_SIZES(Sigmoid, kSigmoidTemporaries, 1)
TOPROPE_HOST_SIZES(Lgamma, kGammaTemporaries, 1)
TOPROPE_HOST_SIZES(Digamma, kGammaTemporaries, 1)
TOPROPE_HOST_SIZES(GeGLU, kGatedTemporaries, 2)
TOPROPE_HOST_SIZES(ReGlu, kGatedTemporaries, 2)
#undef TOPROPE_HOST_SIZES

template <typename Shape>
void GetGeluMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue) {
    toprope::piece_space(static_cast<uint64_t>(srcShape.GetShapeSize()), toprope::kGeluTemporaries, typeSize, 1).give(maxValue, minValue);
}
template <typename Shape>
uint32_t GetGeluMaxTmpSize(const Shape& srcShape, const uint32_t typeSize) {
    return toprope::piece_space(static_cast<uint64_t>(srcShape.GetShapeSize()), toprope::kGeluTemporaries, typeSize, 1).most;
}
template <typename Shape>
uint32_t GetGeluMinTmpSize(const Shape& srcShape, const uint32_t typeSize) {
    return toprope::piece_space(static_cast<uint64_t>(srcShape.GetShapeSize()), toprope::kGeluTemporaries, typeSize, 1).least;
}
#define TOPROPE_HOST_SIZES(Name)                                                                                        \
    template <typename Shape>                                                                                           \
    void Name(const Shape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) {     \
        toprope::piece_space(static_cast<uint64_t>(srcShape.GetShapeSize()), toprope::kSigmoidTemporaries, typeSize, 1) \
            .give(maxValue, minValue);                                                                                  \
    }
TOPROPE_HOST_SIZES(GetSiluTmpSize)
TOPROPE_HOST_SIZES(GetSwishTmpSize)
#undef TOPROPE_HOST_SIZES
template <typename Shape>
void GetSwiGLUMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue, const bool = false) {
    toprope::piece_space(static_cast<uint64_t>(srcShape.GetShapeSize()), toprope::kGatedTemporaries, typeSize, 2).give(maxValue, minValue);
}
inline void GetSwiGLUTmpBufferFactorSize(const uint32_t typeSize, uint32_t& maxLiveNodeCount, uint32_t& extraBuffer) {
    GetGeGLUTmpBufferFactorSize(typeSize, maxLiveNodeCount, extraBuffer);
}
template <typename Shape>
void GetXorMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) {
    maxValue = minValue = static_cast<uint32_t>(toprope::padded_to(static_cast<uint64_t>(srcShape.GetShapeSize()) * typeSize, 32));
}
inline void GetXorTmpBufferFactorSize(const uint32_t, uint32_t& maxLiveNodeCount, uint32_t& extraBuffer) {
    maxLiveNodeCount = 1;
    extraBuffer = 32;
}
template <typename Shape>
void GetPowerMaxMinTmpSize(const Shape& srcShape1, const Shape& srcShape2, const bool typeIsInt, const uint32_t typeSize, const bool,
                           uint32_t& maxValue, uint32_t& minValue) {
    const auto one = static_cast<uint64_t>(srcShape1.GetShapeSize()), two = static_cast<uint64_t>(srcShape2.GetShapeSize());
    const uint64_t elements = one > two ? one : two;
    toprope::piece_space(elements, toprope::kPowerTemporaries + 1, typeSize, 2).give(maxValue, minValue);
    if (typeIsInt) minValue = maxValue;
}

// ---- sums ----------------------------------------------------------------------------------------------------------------

inline void GetSumMaxMinTmpSize(const uint32_t n, const uint32_t typeSize, const bool, uint32_t& maxSize, uint32_t& minSize) {
    const uint64_t partials = toprope::padded_to(n, 256 / typeSize) / (256 / typeSize);
    maxSize = minSize = static_cast<uint32_t>(toprope::padded_to(partials * typeSize, 32));
}
template <typename Shape>
void GetCumSumMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool isLastAxis, const bool, uint32_t& maxValue,
                            uint32_t& minValue) {
    const auto rows = static_cast<uint64_t>(srcShape.GetDim(0)), inner = static_cast<uint64_t>(srcShape.GetDim(1));
    uint64_t bytes = typeSize < 4 ? 2 * toprope::padded_to(rows * inner * 4, 32) : 0;  // both matrices as floats
    if (isLastAxis) {
        const uint64_t lines = toprope::padded_to(rows, 8);
        bytes += inner * lines * 4 + 2 * toprope::padded_to((lines > inner ? lines : inner) * 4, 32);
    }
    maxValue = minValue = static_cast<uint32_t>(bytes);
}

}  // namespace AscendC
