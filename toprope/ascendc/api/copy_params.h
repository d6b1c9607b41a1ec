// Parameter structures of the copies, with the vendor's names. A field remembers the value that was meant, so that a value
// too wide for the hardware's field is reported with its number instead of being cut silently.
#pragma once

#include "../machine/vector.h"

namespace toprope {

// A register field of type T (uint8_t, uint16_t, uint32_t) that converts from any integer.
template <typename T>
struct Field {
    int64_t meant;
    Field() = default;
    template <typename V, typename = std::enable_if_t<std::is_convertible_v<V, int64_t>>>
    constexpr Field(V value) : meant(static_cast<int64_t>(value)) {}
    constexpr operator T() const { return static_cast<T>(meant); }
    Field& operator+=(int64_t v) { return *this = meant + v; }
    Field& operator-=(int64_t v) { return *this = meant - v; }
    Field& operator*=(int64_t v) { return *this = meant * v; }
    Field& operator/=(int64_t v) { return *this = meant / v; }
    Field& operator++() { return *this += 1; }
    Field& operator--() { return *this -= 1; }
};

struct FieldRange {
    const char* name;
    int64_t meant, least, most;
};

// Reports every field outside its range; the copy goes on with what the hardware's field holds.
template <size_t N>
void require_fields(const Op& op, const FieldRange (&fields)[N], Site site) {
    for (const FieldRange& f : fields)
        if (TOPROPE_UNLIKELY(f.meant < f.least || f.meant > f.most))
            report("field-overflow", site, &op, "%s: %s = %lld is outside its range [%lld, %lld]", op.name, f.name,
                   static_cast<long long>(f.meant), static_cast<long long>(f.least), static_cast<long long>(f.most));
}

inline constexpr int64_t kMaxBlockCount = 4095, kMax16 = 65535, kMax32 = 0xffffffffll, kMaxBlockLenBytes = 2097151;

}  // namespace toprope

namespace AscendC {

using U16Field = toprope::Field<uint16_t>;
using U32Field = toprope::Field<uint32_t>;

// Units: 32-byte blocks; gaps lie between the end of a block and the start of the next. DataCopyPad takes blockLen, and the gap
// on the GM side, in bytes.
struct DataCopyParams {
    U16Field blockCount = 1, blockLen = 0;
    union {
        U16Field srcGap = 0;
        U16Field srcStride;
    };
    union {
        U16Field dstGap = 0;
        U16Field dstStride;
    };
    constexpr DataCopyParams() {}
    constexpr DataCopyParams(U16Field count, U16Field len, U16Field src, U16Field dst)
        : blockCount(count), blockLen(len), srcGap(src), dstGap(dst) {}
};

// Units: blockLen and the stride on the GM side in bytes, the stride on the on-chip side in 32-byte blocks.
struct DataCopyExtParams {
    U16Field blockCount = 1;
    U32Field blockLen = 0, srcStride = 0, dstStride = 0;
    uint32_t rsv = 0;
    constexpr DataCopyExtParams() {}
    constexpr DataCopyExtParams(U16Field count, U32Field len, U32Field src, U32Field dst, uint64_t reserved)
        : blockCount(count), blockLen(len), srcStride(src), dstStride(dst), rsv(static_cast<uint32_t>(reserved)) {}
};

struct DataCopyPadParams {
    bool isPad = false;
    toprope::Field<uint8_t> leftPadding = 0, rightPadding = 0;
    uint64_t paddingValue = 0;
    constexpr DataCopyPadParams() {}
    constexpr DataCopyPadParams(bool pad, toprope::Field<uint8_t> left, toprope::Field<uint8_t> right, uint64_t value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
};

template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    toprope::Field<uint8_t> leftPadding = 0, rightPadding = 0;
    T paddingValue{};
    constexpr DataCopyPadExtParams() {}
    template <typename V>
    constexpr DataCopyPadExtParams(bool pad, toprope::Field<uint8_t> left, toprope::Field<uint8_t> right, V value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(static_cast<T>(value)) {}
};
template <typename V>
DataCopyPadExtParams(bool, toprope::Field<uint8_t>, toprope::Field<uint8_t>, V) -> DataCopyPadExtParams<V>;

enum class PaddingMode : uint8_t { Normal = 0, Compact };

struct Nd2NzParams {
    U16Field ndNum = 0, nValue = 0, dValue = 0, srcNdMatrixStride = 0, srcDValue = 0, dstNzC0Stride = 0, dstNzNStride = 0,
             dstNzMatrixStride = 0;
    constexpr Nd2NzParams() {}
    constexpr Nd2NzParams(U16Field nd_num, U16Field n, U16Field d, U16Field src_matrix, U16Field src_d, U16Field dst_c0, U16Field dst_n,
                          U16Field dst_matrix)
        : ndNum(nd_num),
          nValue(n),
          dValue(d),
          srcNdMatrixStride(src_matrix),
          srcDValue(src_d),
          dstNzC0Stride(dst_c0),
          dstNzNStride(dst_n),
          dstNzMatrixStride(dst_matrix) {}
};

struct Nz2NdParamsFull {
    U16Field ndNum = 1, nValue = 0, dValue = 0, srcNdMatrixStride = 1, srcNStride = 0, dstDStride = 0, dstNdMatrixStride = 1;
    constexpr Nz2NdParamsFull() {}
    constexpr Nz2NdParamsFull(U16Field nd_num, U16Field n, U16Field d, U16Field src_matrix, U16Field src_n, U16Field dst_d,
                              U16Field dst_matrix)
        : ndNum(nd_num),
          nValue(n),
          dValue(d),
          srcNdMatrixStride(src_matrix),
          srcNStride(src_n),
          dstDStride(dst_d),
          dstNdMatrixStride(dst_matrix) {}
};

struct SliceInfo {
    uint32_t startIndex = 0, endIndex = 0, stride = 0, burstLen = 0, shapeValue = 0;
    constexpr SliceInfo() {}
    constexpr SliceInfo(uint32_t start, uint32_t end, uint32_t gap, uint32_t burst, uint32_t shape = 0)
        : startIndex(start), endIndex(end), stride(gap), burstLen(burst), shapeValue(shape) {}
};

enum class BlockMode : uint8_t {
    BLOCK_MODE_NORMAL = 0,
    BLOCK_MODE_MATRIX,
    BLOCK_MODE_VECTOR,
    BLOCK_MODE_SMALL_CHANNEL,
    BLOCK_MODE_DEPTHWISE
};
enum class DeqScale : uint8_t { DEQ_NONE = 0, DEQ, VDEQ, DEQ8, VDEQ8, DEQ16, VDEQ16 };
enum pad_t { PAD_NONE = 0, PAD_MODE1, PAD_MODE2, PAD_MODE3, PAD_MODE4, PAD_MODE5, PAD_MODE6, PAD_MODE7, PAD_MODE8 };

struct DataCopyEnhancedParams {
    BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
    DeqScale deqScale = DeqScale::DEQ_NONE;
    uint64_t deqValue = 0;
    uint64_t deqTensorAddr = 0;
    uint8_t sidStoreMode = 0;
    bool isRelu = false;
    pad_t padMode = pad_t::PAD_NONE;
    uint64_t padValue = 0;
    constexpr DataCopyEnhancedParams() {}
    constexpr DataCopyEnhancedParams(BlockMode mode, DeqScale scale, uint64_t value, uint64_t address, uint8_t store_mode, bool relu,
                                     pad_t pad, uint64_t pad_value)
        : blockMode(mode),
          deqScale(scale),
          deqValue(value),
          deqTensorAddr(address),
          sidStoreMode(store_mode),
          isRelu(relu),
          padMode(pad),
          padValue(pad_value) {}
};

}  // namespace AscendC
