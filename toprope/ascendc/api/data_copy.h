// DataCopy in the forms that keep the layout: by element count, by blocks with gaps, with enhancement parameters.
// Pages: 数据搬运导览 (all paths), DataCopy（GM与UB…）, DataCopy（UBToUB…）, DataCopy（GMToL1…）, DataCopy（L1To…）.
#pragma once

#include "copy_rows.h"

namespace toprope {

// Count form: the hardware moves whole 32-byte blocks and drops the rest.
template <typename T, typename Dst, typename Src>
void copy_count(const Dst& dst, const Src& src, uint32_t count, Site site) {
    const Path path = route(end_space(src), end_space(dst), "DataCopy", site);
    if (path == Path::none) return;
    const Op& op = kCopyOps[static_cast<int>(path)];
    const uint64_t bytes = bytes_of<T>(count), whole = bytes / kBlockBytes * kBlockBytes;
    if (TOPROPE_UNLIKELY(bytes != whole))
        report("unaligned-length", site, &op,
               "DataCopy of %u elements is %llu bytes, which is not a multiple of 32: only %llu bytes are copied", count,
               static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(whole));
    copy_rows<T>(op, dst, src, {1, whole, whole, whole}, kFormPlain, site);
}

// Units of DataCopyParams by path, in bytes. To the fixpipe buffer the gaps are distances between starts.
struct BlockUnits {
    uint32_t length, src_gap, dst_gap;
    bool distances;
};
constexpr BlockUnits block_units(Path path) {
    if (path == Path::l1_bias) return {64, 32, 64, false};
    if (path == Path::l1_fixbuf) return {128, 32, 128, true};
    return {32, 32, 32, false};
}

template <typename T, typename Dst, typename Src>
void copy_blocks(const Dst& dst, const Src& src, const AscendC::DataCopyParams& p, Site site) {
    const Path path = route(end_space(src), end_space(dst), "DataCopy", site);
    if (path == Path::none) return;
    const Op& op = kCopyOps[static_cast<int>(path)];
    require_fields(op,
                   {{"blockCount", p.blockCount.meant, 0, kMaxBlockCount},
                    {"blockLen", p.blockLen.meant, 0, kMax16},
                    {"srcGap", p.srcGap.meant, 0, kMax16},
                    {"dstGap", p.dstGap.meant, 0, kMax16}},
                   site);
    const BlockUnits u = block_units(path);
    const uint64_t bytes = uint64_t{p.blockLen} * u.length, src_gap = uint64_t{p.srcGap} * u.src_gap,
                   dst_gap = uint64_t{p.dstGap} * u.dst_gap;
    copy_rows<T>(op, dst, src, {p.blockCount, bytes, u.distances ? src_gap : bytes + src_gap, u.distances ? dst_gap : bytes + dst_gap},
                 kFormPlain, site);
}

}  // namespace toprope

namespace AscendC {

//: DataCopy | copies between memories: count of elements, blocks with gaps, slices, ND to NZ, NZ to ND | any | A2 A3 310P 910 | 数据搬运导览/数据搬运导览.md
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count, toprope::Site site = toprope::Site::here()) {
    toprope::copy_count<T>(dst, src, count, site);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, toprope::Site site = toprope::Site::here()) {
    toprope::copy_count<T>(dst, src, count, site);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, toprope::Site site = toprope::Site::here()) {
    toprope::copy_count<T>(dst, src, count, site);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& repeatParams,
              toprope::Site site = toprope::Site::here()) {
    toprope::copy_blocks<T>(dst, src, repeatParams, site);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams,
              toprope::Site site = toprope::Site::here()) {
    toprope::copy_blocks<T>(dst, src, repeatParams, site);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams,
              toprope::Site site = toprope::Site::here()) {
    toprope::copy_blocks<T>(dst, src, repeatParams, site);
}

}  // namespace AscendC
