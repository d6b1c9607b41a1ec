// Fixpipe with FixpipeParams, the form before FixpipeParamsV220: columns of blocks as bursts, with gaps between their ends and begins.
#pragma once

#include "fixpipe.h"

namespace AscendC {

struct QuantParams {
    QuantMode_t quantPre = NoQuant;
    uint64_t deqScalar = 0;
    QuantParams() = default;
    QuantParams(QuantMode_t mode) : quantPre(mode) {}
    QuantParams(QuantMode_t mode, uint64_t scalar) : quantPre(mode), deqScalar(scalar) {}
};

struct Nz2NdParams {
    bool nz2ndEn = false;
    uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0, originalNSize = 0;
};

// T: element type in L0C. burstLen and, without nz2nd, both strides count 32 bytes; with nz2nd dstStride is a row in elements.
template <typename T>
struct FixpipeParams {
    uint16_t cburstNum = 1, burstLen = 1, srcStride = 0;
    uint32_t dstStride = 0;
    QuantParams quantParams;
    bool reluEn = false;
    Nz2NdParams nz2ndParams;
    uint8_t unitFlag = 0;
    FixpipeParams() = default;
    FixpipeParams(uint16_t bursts, uint16_t length, uint16_t source, uint32_t target)
        : cburstNum(bursts), burstLen(length), srcStride(source), dstStride(target) {}
};

}  // namespace AscendC

namespace toprope {

template <typename D, typename S>
AscendC::FixpipeParamsV220 fixpipe_params(const AscendC::FixpipeParams<S>& p) {
    constexpr uint32_t row_bytes = 16 * sizeof(S);
    const uint32_t rows = p.burstLen * 32u / row_bytes;
    AscendC::FixpipeParamsV220 v;
    v.nSize = p.nz2ndParams.nz2ndEn ? p.nz2ndParams.originalNSize : static_cast<uint16_t>(p.cburstNum * 16);
    v.mSize = static_cast<uint16_t>(rows);
    v.srcStride = static_cast<uint16_t>((p.burstLen + p.srcStride) * 32u / row_bytes);
    v.dstStride = p.nz2ndParams.nz2ndEn ? p.dstStride : static_cast<uint32_t>(rows * 16 * sizeof(D) / 32) + p.dstStride;
    v.quantPre = p.quantParams.quantPre;
    v.deqScalar = p.quantParams.deqScalar;
    v.reluEn = p.reluEn;
    v.unitFlag = p.unitFlag;
    if (p.nz2ndParams.nz2ndEn) {
        v.ndNum = p.nz2ndParams.ndNum;
        v.srcNdStride = p.nz2ndParams.srcNdStride;
        v.dstNdStride = p.nz2ndParams.dstNdStride;
    }
    return v;
}

}  // namespace toprope

namespace AscendC {

template <typename T, typename U>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParams<U>& p, toprope::Site site = toprope::Site::here()) {
    toprope::fixpipe_to_gm<T, U>(dst, src, nullptr, p.nz2ndParams.nz2ndEn ? CFG_ROW_MAJOR : CFG_NZ, toprope::fixpipe_params<T>(p), site);
}
template <typename T, typename U>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<uint64_t>& cbufWorkspace, const FixpipeParams<U>& p,
             toprope::Site site = toprope::Site::here()) {
    const FixpipeParamsV220 v = toprope::fixpipe_params<T>(p);
    if (const uint64_t* factors = toprope::column_factors(cbufWorkspace, v, site))
        toprope::fixpipe_to_gm<T, U>(dst, src, factors, p.nz2ndParams.nz2ndEn ? CFG_ROW_MAJOR : CFG_NZ, v, site);
}
template <typename T, typename U>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParams<U>& p, toprope::Site site = toprope::Site::here()) {
    toprope::fixpipe_to_l1<T, U>(dst, src, nullptr, CFG_NZ, toprope::fixpipe_params<T>(p), site);
}

template <typename T, typename U>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<uint64_t>& cbufWorkspace, const FixpipeParams<U>& p,
             toprope::Site site = toprope::Site::here()) {
    const FixpipeParamsV220 v = toprope::fixpipe_params<T>(p);
    if (const uint64_t* factors = toprope::column_factors(cbufWorkspace, v, site))
        toprope::fixpipe_to_l1<T, U>(dst, src, factors, CFG_NZ, v, site);
}

}  // namespace AscendC
