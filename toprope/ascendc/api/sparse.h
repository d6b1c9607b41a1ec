// Products with a right matrix of which two of every four elements in a column are zero, and the broadcast of a vector into L0C (310P).
// Pages: LoadDataWithSparse, MmadWithSparse, 辅助矩阵分形格式详解 (the index matrix), BroadCastVecToMM(ISASI).
#pragma once

#include "load_data.h"
#include "mmad.h"

namespace toprope {

inline constexpr Op kOpLoadSparse{"LoadDataWithSparse", Pipe::mte1, Kind::copy, "l1_to_l0b"};
inline constexpr Op kOpMmadSparse{"MmadWithSparse", Pipe::m, Kind::compute, "mmad"};
inline constexpr Op kOpBroadcastMm{"BroadCastVecToMM", Pipe::v, Kind::copy, "ub_to_l0c"};

// The buffer beside L0B that holds the index matrix, a quarter of its size; there is no other way to reach it.
inline constexpr uint32_t kIndexFractalBytes = 128, kIndexBytes = 16384, kMostCores = 128;
template <int only>
struct SparseIndex {
    static inline uint8_t memory[kMostCores][kIndexBytes];
};
inline uint8_t* sparse_index() { return SparseIndex<0>::memory[self->index % kMostCores]; }

}  // namespace toprope

namespace AscendC {

//: LoadDataWithSparse | load a dense right matrix from L1 into L0B with the index matrix of a 4:2 sparse one | int8_t, index uint8_t | A2 A3 | LoadDataWithSparse
template <typename T = int8_t, typename U = uint8_t>
void LoadDataWithSparse(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<U>& idx, const LoadData2DParams& p,
                        toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(std::is_same_v<T, int8_t> && std::is_same_v<U, uint8_t>, "LoadDataWithSparse works on int8_t with an index of uint8_t");
    if (self->type == CoreType::aiv || p.repeatTimes == 0) return;
    if (dst.space() != Space::l0b) {
        report("wrong-position", site, &kOpLoadSparse, "LoadDataWithSparse: dst is in %s; it must be in L0B (B2)",
               kSpaceNames[static_cast<int>(dst.space())]);
        return;
    }
    const uint64_t bytes = uint64_t{p.repeatTimes} * kFractalBytes, from = uint64_t{p.startIndex} * kFractalBytes,
                   index_bytes = uint64_t{p.repeatTimes} * kIndexFractalBytes, index_from = uint64_t{p.startIndex} * kIndexFractalBytes;
    if (!(require_operand(kOpLoadSparse, "dst", dst, bytes, 512, site) &
          require_operand(kOpLoadSparse, "src", src, from + bytes, 32, site) &
          require_operand(kOpLoadSparse, "idx", idx, index_from + index_bytes, 32, site)))
        return;
    Instr& instr = record(kOpLoadSparse, site, p.repeatTimes, static_cast<uint32_t>(dtype_of<T>));
    touch(instr, Space::l1, Mode::read, src.address() + from, bytes);
    touch(instr, Space::l1, Mode::read, idx.address() + index_from, index_bytes);
    touch(instr, Space::l0b, Mode::write, dst.address(), bytes);
    if (!self->execute) return;
    std::memcpy(dst.host(), src.host() + from, bytes);
    std::memcpy(sparse_index() + dst.address() / 4, idx.host() + index_from, index_bytes);
}

//: MmadWithSparse | dst (+)= fm x filter, filter's zeros left out: of four columns of fm two are picked by the index | int8_t -> int32_t | A2 A3 | MmadWithSparse
template <typename T = int32_t, typename U = int8_t>
void MmadWithSparse(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<U>& filter, const MmadParams& p,
                    toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(std::is_same_v<T, int32_t> && std::is_same_v<U, int8_t>, "MmadWithSparse multiplies int8_t into int32_t");
    if (self->type == CoreType::aiv || p.m == 0 || p.n == 0 || p.k == 0) return;
    constexpr uint32_t k0 = kK0<int8_t>;
    const uint32_t mf = ceil_div(p.m, 16), nf = ceil_div(p.n, 16), dense = ceil_div(p.k, 2), kf = ceil_div(dense, k0),
                   wide = ceil_div(p.k, k0);
    const uint64_t a_bytes = uint64_t{mf} * wide * kFractalBytes, b_bytes = uint64_t{kf} * nf * kFractalBytes,
                   c_bytes = uint64_t{mf} * nf * 1024;
    if (!(require_operand(kOpMmadSparse, "dst", dst, c_bytes, 1024, site) & require_operand(kOpMmadSparse, "fm", fm, a_bytes, 512, site) &
          require_operand(kOpMmadSparse, "filter", filter, b_bytes, 512, site)))
        return;
    const bool from_table = !p.cmatrixInitVal && p.cmatrixSource, accumulate = !from_table && (!p.cmatrixInitVal || p.isBias);
    Instr& instr = record(kOpMmadSparse, site, mf * kf * nf,
                          static_cast<uint32_t>(dtype_of<U>) | (accumulate ? 0 : kMmadInit) | (from_table ? kMmadBias : 0));
    touch(instr, Space::l0a, Mode::read, fm.address(), a_bytes);
    touch(instr, Space::l0b, Mode::read, filter.address(), b_bytes);
    touch(instr, Space::l0c, accumulate ? Mode::update : Mode::write, dst.address(), c_bytes);
    if (!self->execute) return;
    const auto* a = reinterpret_cast<const int8_t*>(fm.host());
    const auto* b = reinterpret_cast<const int8_t*>(filter.host());
    const uint8_t* index = sparse_index() + filter.address() / 4;
    auto* c = reinterpret_cast<int32_t*>(dst.host());
    const auto* table = reinterpret_cast<const int32_t*>(self->memory[static_cast<int>(Space::bias)]);
    for (uint32_t n = 0; n < p.n; ++n)
        for (uint32_t m = 0; m < p.m; ++m) {
            int32_t sum = from_table ? table[n] : 0;
            for (uint32_t k = 0; k < dense; ++k) {
                // Column n of B's fractal row; two bits of index for each of its elements, low bits first.
                const uint64_t at = (uint64_t{k / k0} * nf + n / 16) * kFractalBytes + n % 16 * k0 + k % k0;
                const uint32_t picked = k / 2 * 4 + k % 2 + (index[at / 4] >> (at % 4 * 2) & 3u);
                if (picked >= p.k) continue;
                sum += a[(uint64_t{m / 16} * wide + picked / k0) * kFractalBytes + m % 16 * k0 + picked % k0] * b[at];
            }
            int32_t& to = c[(uint64_t{n / 16} * mf + m / 16) * 256 + m % 16 * 16 + n % 16];
            to = accumulate ? to + sum : sum;
        }
}

}  // namespace AscendC

#if __NPU_ARCH__ == 2201 || __NPU_ARCH__ == 3510
TOPROPE_ABSENT("310P", BroadCastVecToMM)
#else
namespace AscendC {

//: BroadCastVecToMM | copy a vector from UB into L0C, every 16 elements sixteen times | half int32_t float | 310P | BroadCastVecToMM(ISASI)
template <typename T, typename U>
void BroadCastVecToMM(const LocalTensor<T>& dst, const LocalTensor<U>& src, const int32_t blockCount, const uint8_t blockLen,
                      const uint8_t srcGap, const uint8_t dstGap, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(std::is_same_v<T, U> && is_one_of<T, half, int32_t, float>,
                  "BroadCastVecToMM: half, int32_t or float, the same on both sides");
    if (blockCount <= 0 || blockLen == 0) return;
    const auto count = static_cast<uint64_t>(blockCount);
    const uint64_t row = 16 * sizeof(T), src_step = blockLen * row + uint64_t{srcGap} * 32,
                   dst_step = (uint64_t{blockLen} + dstGap) * 256 * sizeof(T);
    if (!(require_operand(kOpBroadcastMm, "dst", dst, (count - 1) * dst_step + blockLen * 256 * sizeof(T), 1024, site) &
          require_operand(kOpBroadcastMm, "src", src, (count - 1) * src_step + blockLen * row, 32, site)))
        return;
    Instr& instr = record(kOpBroadcastMm, site, static_cast<uint32_t>(count), static_cast<uint32_t>(dtype_of<T>));
    touch(instr, Space::ub, Mode::read, src.address(), blockLen * row, count, static_cast<int64_t>(src_step));
    touch(instr, Space::l0c, Mode::write, dst.address(), blockLen * 256 * sizeof(T), count, static_cast<int64_t>(dst_step));
    if (!self->execute) return;
    for (uint64_t i = 0; i < count * blockLen * 16; ++i)
        std::memcpy(dst.host() + i / (blockLen * 16u) * dst_step + i % (blockLen * 16u) * row,
                    src.host() + i / (blockLen * 16u) * src_step + i % (blockLen * 16u) / 16 * row, row);
}

}  // namespace AscendC
#endif
