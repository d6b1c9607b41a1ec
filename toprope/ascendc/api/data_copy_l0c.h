// DataCopy out of L0C on A2 and A3: Fixpipe under another name, with its scale and layout parameters in registers.
// Pages: DataCopy（L0C到GM数据搬运）, DataCopy（L0C到L1数据搬运）, SetFixpipeNz2ndFlag, SetFixpipePreQuantFlag, SetFixPipeConfig.
#pragma once

#include "fixpipe.h"

namespace toprope {

// Special registers, below those of api/registers.h.
inline constexpr Op kOpFixpipeState{"SetFixpipe", Pipe::s, Kind::state, "set_state"};

constexpr bool quantises_by_column(QuantMode_t mode) {
    return mode == QuantMode_t::VDEQF16 || mode == QuantMode_t::VQF322B8_PRE || mode == QuantMode_t::VREQ8;
}

}  // namespace toprope

namespace AscendC {

struct DataCopyCO12DstParams {
    uint8_t sid = 0;
    uint16_t nSize = 0, mSize = 0;
    uint32_t dstStride = 0;
    uint16_t srcStride = 0;
    uint8_t unitFlag = 0, clipReluPre = 0, eltWiseOp = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    uint8_t reluPre = 0;
    bool channelSplit = false, nz2ndEn = false;
    DataCopyCO12DstParams() = default;
    DataCopyCO12DstParams(uint16_t n, uint16_t m, uint32_t dst, uint16_t src, QuantMode_t quant, uint8_t relu, bool split, bool nz2nd)
        : nSize(n), mSize(m), dstStride(dst), srcStride(src), quantPre(quant), reluPre(relu), channelSplit(split), nz2ndEn(nz2nd) {}
};

//: SetFixpipePreQuantFlag | the scale of copies out of L0C, a float's bits in the low word | any | A2 A3 | 矩阵搬出辅助配置接口/SetFixpipePreQuantFlag.md
inline void SetFixpipePreQuantFlag(uint64_t config, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpFixpipeState, site, 1, 0);
    toprope::self->registers[toprope::kRegQuantScalar] = config;
}
//: SetFixpipeNz2ndFlag | how many ND matrices leave L0C in one copy, and their distances | any | A2 A3 | 矩阵搬出辅助配置接口/SetFixpipeNz2ndFlag.md
inline void SetFixpipeNz2ndFlag(uint16_t ndNum, uint16_t srcNdStride, uint16_t dstNdStride, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpFixpipeState, site, 1, 0);
    toprope::self->registers[toprope::kRegNz2Nd] = ndNum | uint64_t{srcNdStride} << 16 | uint64_t{dstNdStride} << 32;
}
//: SetFixPipeConfig | the tensor in the fixpipe buffer with one scale for each column | uint64 | A2 A3 | 矩阵搬出辅助配置接口/SetFixPipeConfig.md
template <typename T, bool setRelu = false>
void SetFixPipeConfig(const LocalTensor<T>& preTensor, bool isUnitFlag = false, toprope::Site site = toprope::Site::here()) {
    (void)isUnitFlag;  // the overlap of Mmad and Fixpipe changes no result
    toprope::record(toprope::kOpFixpipeState, site, 1, 0);
    toprope::self->registers[toprope::kRegQuantTensor] = uint64_t{preTensor.address()} + 1;
}

template <typename Dst, typename U>
void copy_co12(const Dst& dst, const LocalTensor<U>& src, const DataCopyCO12DstParams& p, toprope::Site site) {
    using T = typename Dst::PrimType;
    const uint64_t nz2nd = toprope::self->registers[toprope::kRegNz2Nd];
    FixpipeParamsV220 f(p.nSize, p.mSize, p.srcStride, p.dstStride, p.reluPre != 0, p.quantPre,
                        static_cast<int64_t>(toprope::self->registers[toprope::kRegQuantScalar]));
    f.unitFlag = p.unitFlag;
    f.isChannelSplit = p.channelSplit;
    if constexpr (std::is_same_v<Dst, GlobalTensor<T>>) {
        if (p.nz2ndEn && nz2nd != 0) {
            f.ndNum = static_cast<uint16_t>(nz2nd);
            f.srcNdStride = static_cast<uint16_t>(nz2nd >> 16);
            f.dstNdStride = static_cast<uint16_t>(nz2nd >> 32);
        }
        if (toprope::quantises_by_column(p.quantPre)) {
            const uint64_t held = toprope::self->registers[toprope::kRegQuantTensor];
            const LocalTensor<uint64_t> scales(TPosition::C2PIPE2GM, static_cast<uint32_t>(held == 0 ? 0 : held - 1), p.nSize);
            if (p.nz2ndEn) return Fixpipe<T, U, CFG_ROW_MAJOR>(dst, src, scales, f, site);
            return Fixpipe<T, U, CFG_NZ>(dst, src, scales, f, site);
        }
        if (p.nz2ndEn) return Fixpipe<T, U, CFG_ROW_MAJOR>(dst, src, f, site);
        Fixpipe<T, U, CFG_NZ>(dst, src, f, site);
    } else {
        Fixpipe<T, U, CFG_NZ>(dst, src, f, site);
    }
}
template <typename T, typename U>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyCO12DstParams& intriParams,
              toprope::Site site = toprope::Site::here()) {
    copy_co12(dst, src, intriParams, site);
}
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyCO12DstParams& intriParams,
              toprope::Site site = toprope::Site::here()) {
    copy_co12(dst, src, intriParams, site);
}

}  // namespace AscendC
