// Strategies of a Matmul object: which base blocks of the result it computes. Page: MatmulPolicy.
#pragma once

#include "job.h"

namespace AscendC {
namespace Impl {
namespace Detail {

//: MatmulPolicy, TrianUpperMatmulPolicy, TrianLowerMatmulPolicy, NBuffer33MatmulPolicy | strategies of a Matmul object: every base block, those on and above or below the diagonal, 3 x 3 blocks of A kept in L1 | - | A2 A3 | MatmulPolicy
template <const auto& = CFG_NORM, typename...>
struct MatmulPolicy {
    static constexpr toprope::BlockChoice blocks = toprope::BlockChoice::all;
};
template <const auto& = CFG_NORM, typename...>
struct TrianUpperMatmulPolicy {
    static constexpr toprope::BlockChoice blocks = toprope::BlockChoice::upper;
};
template <const auto& = CFG_NORM, typename...>
struct TrianLowerMatmulPolicy {
    static constexpr toprope::BlockChoice blocks = toprope::BlockChoice::lower;
};
// The blocks are those of MatmulPolicy; what stays in L1 follows from stepM, stepKa and stepKb of the tiling, as for MDL.
template <const auto& = CFG_NORM, typename...>
struct NBuffer33MatmulPolicy {
    static constexpr toprope::BlockChoice blocks = toprope::BlockChoice::all;
};

}  // namespace Detail
}  // namespace Impl
using Impl::Detail::MatmulPolicy;
}  // namespace AscendC

namespace toprope {

// A policy of the kernel's own counts as the one that it derives from.
template <typename Policy, typename = void>
inline constexpr BlockChoice policy_blocks = BlockChoice::unknown;
template <typename Policy>
inline constexpr BlockChoice policy_blocks<Policy, std::void_t<decltype(Policy::blocks)>> = Policy::blocks;

}  // namespace toprope
