// DataCopyPad: rows of any number of bytes. Into UB every row is filled up to whole 32-byte blocks; out of UB only the row's bytes leave.
// Pages: DataCopyPad（GMToUB非对齐数据搬运）, DataCopyPad（UBToGM非对齐数据搬运）, DataCopyPad（UBToL1非对齐数据搬运）, SetPadValue(ISASI).
#pragma once

#include "data_copy_nz.h"
#include "registers.h"

namespace toprope {

inline constexpr Op kOpSetPadValue{"SetPadValue", Pipe::s, Kind::state, "set_state"};

inline uint64_t whole_blocks(uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

// One row's filling. A row without padding on either side gets its own first element behind it; padding that nobody gave a
// value is left undefined (the poison of fresh memory), as the page says.
struct Padding {
    uint64_t left = 0, right = 0;  // bytes
    bool valued = false;
    uint8_t value[8] = {};
    bool given() const { return valued && left + right != 0; }  // a value counts only where a side is padded
    bool defined() const { return valued || left + right == 0; }
};

inline void touch_filler(Instr& instr, const CopyEnd& end, uint64_t offset, uint64_t bytes, uint64_t count, uint64_t step) {
    if (bytes == 0) return;
    touch(instr, end.space, Mode::write, end.address + offset, bytes, count, count > 1 ? static_cast<int64_t>(step) : 0, false, true);
}

template <typename T, typename V>
Padding padding_of(const Op& op, bool is_pad, int64_t left, int64_t right, V value, Site site) {
    require_fields(op,
                   {{"leftPadding in bytes", left * static_cast<int64_t>(sizeof(T)), 0, kBlockBytes},
                    {"rightPadding in bytes", right * static_cast<int64_t>(sizeof(T)), 0, kBlockBytes}},
                   site);
    Padding p;
    p.left = static_cast<uint8_t>(left) * sizeof(T);
    p.right = static_cast<uint8_t>(right) * sizeof(T);
    if (p.left > kBlockBytes) p.left = kBlockBytes;
    if (p.right > kBlockBytes) p.right = kBlockBytes;
    if (is_pad) {
        std::memcpy(p.value, &value, sizeof(T) < sizeof(V) ? sizeof(T) : sizeof(V));
        p.valued = true;
        if (sizeof(T) == 8)
            for (uint8_t byte : p.value)
                if (byte != 0) {
                    report("pad-value-64-bit", site, &op, "%s: the padding value of 8-byte elements can only be 0", op.name);
                    break;
                }
    } else if (special_register(kRegPadSet) != 0) {
        std::memcpy(p.value, &special_register(kRegPadValue), sizeof(T));
        p.valued = true;
    }
    return p;
}

template <uint32_t element_bytes>
void fill_elements(uint8_t* to, uint64_t bytes, const uint8_t* value) {
    for (uint64_t i = 0; i + element_bytes <= bytes; i += element_bytes) std::memcpy(to + i, value, element_bytes);
}

template <typename T>
void copy_pad_in(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src, uint64_t count, uint64_t bytes,
                 uint64_t src_gap_bytes, uint64_t dst_gap_blocks, const Padding& pad, Site site) {
    const Op& op = kPadOps[0];
    if (count == 0 || bytes == 0) return;
    const uint64_t filled = whole_blocks(pad.left + bytes + pad.right), dst_step = filled + dst_gap_blocks * kBlockBytes,
                   src_step = bytes + src_gap_bytes;
    CopyEnd d, s;
    if (!(open_end(d, op, "dst", dst, (count - 1) * dst_step + filled, true, site) &
          open_end(s, op, "src", src, (count - 1) * src_step + bytes, false, site)))
        return refuse(d.space, d.address, (count - 1) * dst_step + filled, site);
    Instr& instr = record(op, site, static_cast<uint32_t>(count), copy_arg(dtype_of<T>, d, s, kFormPad));
    touch_rows(instr, s, Mode::read, 0, bytes, count, src_step);
    // Padding without a value is filler: from here on nobody has written those bytes, whatever they held before.
    const uint64_t tail = filled - pad.left - bytes;
    if (pad.given()) {
        touch_rows(instr, d, Mode::write, 0, filled, count, dst_step);
    } else {
        touch_rows(instr, d, Mode::write, pad.left, bytes, count, dst_step);
        touch_filler(instr, d, 0, pad.left, count, dst_step);
        touch_filler(instr, d, pad.left + bytes, tail, count, dst_step);
    }
    if (!self->execute) return;
    if (filled == bytes && dst_step == bytes && src_step == bytes) {
        std::memcpy(d.host, s.host, count * bytes);
        return;
    }
    for (uint64_t r = 0; r < count; ++r) {
        uint8_t* row = d.host + r * dst_step;
        const uint8_t* from = s.host + r * src_step;
        std::memcpy(row + pad.left, from, bytes);
        if (filled == bytes) continue;
        if (!pad.defined() || (!pad.given() && launch_info.poison != 0xff)) {
            std::memset(row, launch_info.poison, pad.left);
            std::memset(row + pad.left + bytes, launch_info.poison, tail);
            continue;
        }
        const uint8_t* value = pad.left + pad.right == 0 ? from : pad.value;
        fill_elements<sizeof(T)>(row, pad.left, value);
        fill_elements<sizeof(T)>(row + pad.left + bytes, tail, value);
    }
}

template <typename T>
bool require_pad_chip(const Op& op, int64_t bytes, Site site) {
    static_assert(kChip.pads || sizeof(T) == 0, "DataCopyPad: this chip has no DataCopyPad; copy whole 32-byte blocks with DataCopy");
    if (bytes % static_cast<int64_t>(sizeof(T)) != 0)
        report("unaligned-length", site, &op, "%s: blockLen = %lld bytes is not a whole number of %zu-byte elements", op.name,
               static_cast<long long>(bytes), sizeof(T));
    return true;
}

template <typename T, typename Params>
void require_pad_fields(const Op& op, const Params& p, int64_t most_len, int64_t most_stride, Site site) {
    require_fields(op,
                   {{"blockCount", p.blockCount.meant, 0, kMaxBlockCount},
                    {"blockLen", p.blockLen.meant, 0, most_len},
                    {"srcStride", p.srcStride.meant, 0, most_stride},
                    {"dstStride", p.dstStride.meant, 0, most_stride}},
                   site);
    require_pad_chip<T>(op, p.blockLen.meant, site);
}

template <typename T, typename Params>
void copy_pad_out(const AscendC::GlobalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Params& p, int64_t most_len,
                  int64_t most_stride, Site site) {
    if (route(src.space(), Space::gm, "DataCopyPad", site) != Path::ub_gm) return;
    const Op& op = kPadOps[1];
    require_pad_fields<T>(op, p, most_len, most_stride, site);
    const uint64_t bytes = p.blockLen;
    copy_rows<T>(op, dst, src,
                 {p.blockCount, bytes, whole_blocks(bytes) + uint64_t{p.srcStride} * kBlockBytes, bytes + uint64_t{p.dstStride}}, kFormPad,
                 site);
}

}  // namespace toprope

namespace AscendC {

//: SetPadValue | the value that DataCopyPad fills with when isPad is false | int8 to int64, half, bfloat16, float, double | A2 A3 | Memory矢量计算/数据搬运辅助配置接口/SetPadValue(ISASI).md
template <typename T, TPosition pos = TPosition::MAX>
void SetPadValue(T paddingValue, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    record(kOpSetPadValue, site, 1, static_cast<uint32_t>(dtype_of<T>));
    special_register(kRegPadValue) = 0;
    std::memcpy(&special_register(kRegPadValue), &paddingValue, sizeof(T));
    special_register(kRegPadSet) = 1;
}

//: DataCopyPad | copies rows of any number of bytes between GM and UB, filling up to 32 bytes on the UB side | int8 to int64, half, bfloat16, float, double | A2 A3 | Memory矢量计算/数据搬运/DataCopyPad（GMToUB非对齐数据搬运）.md
template <typename T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                 const DataCopyPadExtParams<T>& padParams, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(mode == PaddingMode::Normal, "DataCopyPad: PaddingMode::Compact exists on Ascend 950 only");
    if (route(Space::gm, dst.space(), "DataCopyPad", site) == Path::none) return;
    if (dst.space() != Space::ub) {
        report("no-such-path", site, &kPadOps[0], "DataCopyPad from GM goes to UB on this chip, not to %s",
               kSpaceNames[static_cast<int>(dst.space())]);
        return;
    }
    require_pad_fields<T>(kPadOps[0], dataCopyParams, kMaxBlockLenBytes, kMax32, site);
    copy_pad_in(
        dst, src, dataCopyParams.blockCount, dataCopyParams.blockLen, dataCopyParams.srcStride, dataCopyParams.dstStride,
        padding_of<T>(kPadOps[0], padParams.isPad, padParams.leftPadding.meant, padParams.rightPadding.meant, padParams.paddingValue, site),
        site);
}
template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& dataCopyParams,
                 const DataCopyPadParams& padParams, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (route(Space::gm, dst.space(), "DataCopyPad", site) == Path::none) return;
    if (dst.space() != Space::ub) {
        report("no-such-path", site, &kPadOps[0], "DataCopyPad from GM goes to UB on this chip, not to %s",
               kSpaceNames[static_cast<int>(dst.space())]);
        return;
    }
    require_pad_fields<T>(kPadOps[0], dataCopyParams, kMax16, kMax16, site);
    copy_pad_in(
        dst, src, dataCopyParams.blockCount, dataCopyParams.blockLen, dataCopyParams.srcStride, dataCopyParams.dstStride,
        padding_of<T>(kPadOps[0], padParams.isPad, padParams.leftPadding.meant, padParams.rightPadding.meant, padParams.paddingValue, site),
        site);
}
template <typename T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                 toprope::Site site = toprope::Site::here()) {
    static_assert(mode == PaddingMode::Normal, "DataCopyPad: PaddingMode::Compact exists on Ascend 950 only");
    toprope::copy_pad_out(dst, src, dataCopyParams, toprope::kMaxBlockLenBytes, toprope::kMax32, site);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& dataCopyParams,
                 toprope::Site site = toprope::Site::here()) {
    toprope::copy_pad_out(dst, src, dataCopyParams, toprope::kMax16, toprope::kMax16, site);
}
// UB to L1: the rows are read as an ND matrix and written as NZ.
template <typename T, typename Params>
auto DataCopyPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, const Params& dataCopyParams, const Nd2NzParams& nd2nzParams,
                 toprope::Site site = toprope::Site::here())
    -> std::enable_if_t<toprope::is_one_of<Params, DataCopyParams, DataCopyExtParams>> {
    (void)dataCopyParams;  // only tells how the data reach GM on the way
    toprope::copy_nd2nz(dst, src, nd2nzParams, site);
}

}  // namespace AscendC
