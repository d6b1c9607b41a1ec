// DataCopy of a rectangular part of a tensor with up to eight dimensions. Page: DataCopy（GM与UB切片数据搬运）.
#pragma once

#include "data_copy.h"

namespace toprope {

// Pieces along one dimension: dimension 0 in runs of burstLen 32-byte blocks, the others one index at a time; `stride` is the gap.
template <typename T>
struct SliceWalk {
    uint64_t pieces, piece_bytes, first, step;  // first and step in elements of this dimension
    SliceWalk(const AscendC::SliceInfo& s, bool innermost) {
        const uint64_t run = innermost ? uint64_t{s.burstLen} * kBlockBytes / sizeof(T) : 1;
        const uint64_t length = uint64_t{s.endIndex} - s.startIndex + 1;
        piece_bytes = run * sizeof(T);
        first = s.startIndex;
        step = run + s.stride;
        pieces = step == 0 || s.endIndex < s.startIndex ? 0 : (length + s.stride) / step;
    }
};

template <typename T, typename Dst, typename Src>
void copy_slices(const Dst& dst, const Src& src, const AscendC::SliceInfo* d_info, const AscendC::SliceInfo* s_info, uint32_t dims,
                 Site site) {
    const Path path = route(end_space(src), end_space(dst), "DataCopy(slice)", site);
    if (path == Path::none) return;
    const Op& op = kCopyOps[static_cast<int>(path)];
    if (dims == 0 || dims > AscendC::K_MAX_DIM) {
        report("field-overflow", site, &op, "DataCopy of slices: dimValue = %u is outside its range [1, 8]", dims);
        return;
    }
    uint64_t outer = 1;
    for (uint32_t i = 0; i < dims; ++i) {
        const SliceWalk<T> d(d_info[i], i == 0), s(s_info[i], i == 0);
        if (d.pieces != s.pieces || d.piece_bytes != s.piece_bytes || s.pieces == 0) {
            report("slice-mismatch", site, &op,
                   "DataCopy of slices: dimension %u has %llu pieces of %llu bytes in dst and %llu of %llu in src", i,
                   static_cast<unsigned long long>(d.pieces), static_cast<unsigned long long>(d.piece_bytes),
                   static_cast<unsigned long long>(s.pieces), static_cast<unsigned long long>(s.piece_bytes));
            return;
        }
        if (i > 0) outer *= s.pieces;
    }
    const SliceWalk<T> d0(d_info[0], true), s0(s_info[0], true);
    uint64_t index[AscendC::K_MAX_DIM] = {};
    for (uint64_t row = 0; row < outer; ++row) {
        uint64_t d_at = d0.first, s_at = s0.first, d_size = d_info[0].shapeValue, s_size = s_info[0].shapeValue;
        for (uint32_t i = 1; i < dims; ++i) {
            const SliceWalk<T> d(d_info[i], false), s(s_info[i], false);
            d_at += (d.first + index[i] * d.step) * d_size;
            s_at += (s.first + index[i] * s.step) * s_size;
            d_size *= d_info[i].shapeValue;
            s_size *= s_info[i].shapeValue;
        }
        copy_rows<T>(op, dst[static_cast<uint32_t>(d_at)], src[static_cast<uint32_t>(s_at)],
                     {s0.pieces, s0.piece_bytes, s0.step * sizeof(T), d0.step * sizeof(T)}, kFormSlice, site);
        for (uint32_t i = 1; i < dims && ++index[i] == SliceWalk<T>(s_info[i], false).pieces; ++i) index[i] = 0;
    }
}

}  // namespace toprope

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const SliceInfo dstSliceInfo[], const SliceInfo srcSliceInfo[],
              const uint32_t dimValue = 1, toprope::Site site = toprope::Site::here()) {
    toprope::copy_slices<T>(dst, src, dstSliceInfo, srcSliceInfo, dimValue, site);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const SliceInfo dstSliceInfo[], const SliceInfo srcSliceInfo[],
              const uint32_t dimValue = 1, toprope::Site site = toprope::Site::here()) {
    toprope::copy_slices<T>(dst, src, dstSliceInfo, srcSliceInfo, dimValue, site);
}

}  // namespace AscendC
