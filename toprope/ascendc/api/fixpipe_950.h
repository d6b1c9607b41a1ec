// The way out of L0C with the parameters of the 950. Page: Fixpipe, table FixpipeParamsArch3510.
#pragma once

#include "fixpipe.h"

namespace AscendC {

struct FixpipeRows {  // the vendor's Nz2NdParams of this chip
    uint16_t ndNum = 1, srcNdStride = 0;
    uint32_t dstNdStride = 0;
};
template <CO2Layout format>
struct TransformParams {
    struct PARAMS {};
};
template <>
struct TransformParams<CO2Layout::ROW_MAJOR> {
    using PARAMS = FixpipeRows;
};
template <CO2Layout format = CO2Layout::ROW_MAJOR>
struct FixpipeParamsArch3510 {
    uint16_t nSize = 0, mSize = 0, srcStride = 0;
    uint32_t dstStride = 0;  // elements
    QuantMode_t quantPre = NoQuant;
    uint64_t deqScalar = 0;
    bool reluEn = false;
    uint8_t unitFlag = 0;
    typename TransformParams<format>::PARAMS params;
    uint8_t dualDstCtl = 0;
    bool subBlockId = false, isChannelSplit = false;
    FixpipeParamsArch3510() = default;
    FixpipeParamsArch3510(uint16_t n, uint16_t m, uint16_t src, uint32_t dst) : nSize(n), mSize(m), srcStride(src), dstStride(dst) {}
};
template <CO2Layout format = CO2Layout::ROW_MAJOR>
using FixpipeParamsC310 = FixpipeParamsArch3510<format>;

}  // namespace AscendC

namespace toprope {

// The same copy in the parameters of A2; T is the element type of the result.
template <typename T, AscendC::CO2Layout format>
AscendC::FixpipeParamsV220 older(const AscendC::FixpipeParamsArch3510<format>& p, Site site) {
    using AscendC::CO2Layout;
    static_assert(format != CO2Layout::COLUMN_MAJOR, "Fixpipe: results in columns (NZ2DN) are not modelled");
    AscendC::FixpipeParamsV220 o(p.nSize, p.mSize, p.srcStride, p.dstStride, p.reluEn, p.quantPre, static_cast<int64_t>(p.deqScalar));
    if constexpr (format == CO2Layout::ROW_MAJOR) {
        o.ndNum = p.params.ndNum;
        o.srcNdStride = p.params.srcNdStride / 16;  // counted in rows of 16 elements there, in blocks of 16 rows here
        o.dstNdStride = static_cast<uint16_t>(p.params.dstNdStride);
        if (p.params.dstNdStride > 0xffff || p.params.srcNdStride % 16 != 0)
            report("field-overflow", site, &kOpFixpipeGm,
                   "Fixpipe: srcNdStride %u and dstNdStride %u; modelled are multiples of 16 and up to 65535", p.params.srcNdStride,
                   p.params.dstNdStride);
    } else {
        const uint64_t bytes = bytes_of<T>(p.dstStride);
        if (bytes % 32 != 0)
            report("unaligned-length", site, &kOpFixpipeGm, "Fixpipe: dstStride is %u elements, no whole number of 32-byte blocks",
                   p.dstStride);
        o.dstStride = static_cast<uint32_t>(bytes / 32);
    }
    o.unitFlag = p.unitFlag;
    o.isChannelSplit = p.isChannelSplit;
    return o;
}

}  // namespace toprope

namespace AscendC {

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsArch3510<config.format>& p,
             toprope::Site site = toprope::Site::here()) {
    Fixpipe<T, U, config>(dst, src, toprope::older<T>(p, site), site);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<uint64_t>& cbufWorkspace,
             const FixpipeParamsArch3510<config.format>& p, toprope::Site site = toprope::Site::here()) {
    Fixpipe<T, U, config>(dst, src, cbufWorkspace, toprope::older<T>(p, site), site);
}
// To L1; the path to UB is refused when it is reached.
template <typename T, typename U, const FixpipeConfig& config = CFG_NZ>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsArch3510<config.format>& p,
             toprope::Site site = toprope::Site::here()) {
    Fixpipe<T, U, config>(dst, src, toprope::older<T>(p, site), site);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_NZ>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<uint64_t>& cbufWorkspace,
             const FixpipeParamsArch3510<config.format>& p, toprope::Site site = toprope::Site::here()) {
    Fixpipe<T, U, config>(dst, src, cbufWorkspace, toprope::older<T>(p, site), site);
}

}  // namespace AscendC
