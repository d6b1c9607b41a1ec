// Row-wise work on float matrices in UB: reductions to one value per row and operations of a matrix with one value per row.
// A row value travels as a block of eight equal floats. While a row is at most 2040 floats, rows are the repeats of an instruction and the
// columns are done 64 at a time; longer rows are done one by one.
#pragma once

#include "steps.h"

namespace toprope {

inline constexpr uint32_t kRowStrideLimit = 255 * 8;

struct Rows {
    using Tensor = AscendC::LocalTensor<float>;
    uint32_t rows, width;  // width in floats, a multiple of 8
    Site site;

    void wait() const { pipe_barrier(Pipe::v, site); }
    bool rows_repeat() const { return width <= kRowStrideLimit; }
    Steps<float> all(uint32_t per_row = 0) const { return {static_cast<int32_t>(rows * (per_row == 0 ? width : per_row)), site}; }

    // blocks[r] = the fold of the first n elements of row r. partial holds 64 floats per row (and one per 64 of a row), packed one float
    // per row (a multiple of 8).
    template <Fold fold>
    void reduce(const Tensor& blocks, const Tensor& src, uint32_t n, const Tensor& partial, const Tensor& packed) const {
        const auto stride = static_cast<int32_t>(width / 8);
        if (n <= 64)
            whole<fold>(packed, src, n, rows, stride);
        else if (rows_repeat()) {
            const uint16_t pitch = static_cast<uint16_t>(width / 8);
            for (uint32_t done = 0; done < rows; done += 255) {
                const uint32_t repeats = rows - done < 255 ? rows - done : 255;
                Tensor folded = src[uint64_t{done} * width];
                uint8_t folded_pitch = static_cast<uint8_t>(pitch);
                if (n < 128) {  // the second half is not whole: the first has to be in place before it
                    AscendC::Adds(partial[done * 64], folded, 0.f, 64, repeats, AscendC::UnaryRepeatParams(1, 1, 8, pitch), site), wait();
                    folded = partial[done * 64], folded_pitch = 8;
                }
                for (uint32_t column = 64; column < n; column += 64) {
                    const Tensor from = src[done * width + column];
                    const AscendC::BinaryRepeatParams strides(1, 1, 1, 8, folded_pitch, static_cast<uint8_t>(pitch));
                    const uint64_t mask = n - column < 64 ? n - column : 64;
                    if constexpr (fold == Fold::SUM)
                        AscendC::Add(partial[done * 64], folded, from, mask, repeats, strides, site);
                    else
                        AscendC::Max(partial[done * 64], folded, from, mask, repeats, strides, site);
                    folded = partial[done * 64], folded_pitch = 8;
                    wait();
                }
            }
            whole<fold>(packed, partial, 64, rows, 8);
        } else {
            for (uint32_t r = 0; r < rows; ++r) {
                uint32_t parts = n / 64;
                whole<fold>(partial, src[r * width], 64, parts, 8);
                if (n % 64 != 0) {
                    whole<fold>(partial[parts], src[r * width + parts * 64], n % 64, 1, 8);
                    ++parts;
                }
                for (; parts > 64; parts = (parts + 63) / 64) whole_tail<fold>(partial, parts);
                whole<fold>(packed[r], partial, parts, 1, 8);
            }
        }
        spread(blocks, packed);
    }
    // blocks[r] = eight times packed[r]; both padded to 8 rows.
    void spread(const Tensor& blocks, const Tensor& packed) const {
        for (uint32_t done = 0; done < rows; done += 248)
            AscendC::Brcb(blocks[done * 8], packed[done], static_cast<uint8_t>(((rows - done < 248 ? rows - done : 248) + 7) / 8),
                          AscendC::BrcbRepeatParams(1, 8), site);
        wait();
    }
    // dst[r] = the value of block r; dst may begin inside a block. half goes through blocks of sixteen in partial.
    template <typename T>
    void pack(const AscendC::LocalTensor<T>& dst, const Tensor& blocks, const Tensor& partial) const {
        if constexpr (std::is_same_v<T, float>)
            first_of_blocks(dst, blocks);
        else {
            const AscendC::LocalTensor<half> narrow = partial[rows * 16].template ReinterpretCast<half>();
            copy_blocks(partial, blocks, 2, 1);
            copy_blocks(partial[8], blocks, 2, 1);
            all(16).cast_out(narrow, partial);
            first_of_blocks(dst, narrow);
        }
    }
    // dst[r] = the first of the equal elements of block r: eight rows a repeat where dst begins a block, one where it does not.
    template <typename T>
    void first_of_blocks(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& blocks) const {
        constexpr uint32_t kPer = 32 / sizeof(T);
        const uint32_t eights = reinterpret_cast<uintptr_t>(dst.GetPhyAddr()) % 32 == 0 ? rows / 8 : 0;
        for (uint32_t done = 0; done < eights; done += 255)
            AscendC::BlockReduceMax<T>(dst[done * 8], blocks[done * 8 * kPer],
                                       static_cast<int32_t>(eights - done < 255 ? eights - done : 255), static_cast<int32_t>(8 * kPer), 1,
                                       1, 8, site);
        for (uint32_t done = eights * 8; done < rows; done += 255)
            AscendC::WholeReduceMax<T>(dst[done], blocks[done * kPer], 1, static_cast<int32_t>(rows - done < 255 ? rows - done : 255), 1, 1,
                                       1, AscendC::ReduceOrder::ORDER_ONLY_VALUE, site);
        wait();
    }
    // Copies one block per row, blocks `dst_stride` and `src_stride` blocks apart.
    void copy_blocks(const Tensor& dst, const Tensor& src, uint16_t dst_stride, uint16_t src_stride) const {
        const AscendC::UnaryRepeatParams strides(dst_stride, src_stride, static_cast<uint16_t>(8 * dst_stride),
                                                 static_cast<uint16_t>(8 * src_stride));
        for (uint32_t done = 0; done < rows;) {
            const uint32_t left = rows - done, repeats = left < 8 ? 1 : left / 8 < 255 ? left / 8 : 255, lanes = left < 8 ? left * 8 : 64;
            AscendC::Adds(dst[done * dst_stride * 8], src[done * src_stride * 8], 0.f, uint64_t{lanes}, repeats, strides, site);
            done += left < 8 ? left : repeats * 8;
        }
        wait();
    }

    // dst = src op blocks, row by row; op is called as op(dst, src0, src1, mask, repeats, strides).
    template <typename F>
    void with_blocks(const F& op, const Tensor& dst, const Tensor& src, const Tensor& blocks) const {
        with_blocks_of(op, dst, src, blocks, 0, width, 1);
    }
    // The same for columns begin..end - 1; the blocks of two rows are `block_pitch` blocks apart.
    template <typename F>
    void with_blocks_of(const F& op, const Tensor& dst, const Tensor& src, const Tensor& blocks, uint32_t begin, uint32_t end,
                        uint8_t block_pitch) const {
        const auto pitch = static_cast<uint8_t>(width / 8);
        if (rows_repeat()) {
            for (uint32_t done = 0; done < rows; done += 255)
                for (uint32_t column = begin; column < end; column += 64)
                    op(dst[done * width + column], src[done * width + column], blocks[done * block_pitch * 8],
                       uint64_t{end - column < 64 ? end - column : 64}, rows - done < 255 ? rows - done : 255,
                       AscendC::BinaryRepeatParams(1, 1, 0, pitch, pitch, block_pitch));
        } else
            for (uint32_t r = 0; r < rows; ++r)
                for (uint32_t column = begin; column < end;) {
                    const uint32_t left = (end - column) / 64, repeats = left == 0 ? 1 : left < 255 ? left : 255;
                    op(dst[r * width + column], src[r * width + column], blocks[r * block_pitch * 8],
                       uint64_t{left == 0 ? end - column : 64}, repeats, AscendC::BinaryRepeatParams(1, 1, 0, 8, 8, 0));
                    column += repeats * 64;
                }
        wait();
    }
    // dst = src op vector, the same vector of `width` floats for every row.
    template <typename F>
    void with_vector(const F& op, const Tensor& dst, const Tensor& src, const Tensor& vector) const {
        for (uint32_t r = 0; r < rows; ++r) op(dst[r * width], src[r * width], vector, static_cast<int32_t>(width));
        wait();
    }
    void sub_blocks(const Tensor& d, const Tensor& s, const Tensor& b) const {
        with_blocks([this](auto&&... a) { AscendC::Sub(a..., site); }, d, s, b);
    }
    void mul_blocks(const Tensor& d, const Tensor& s, const Tensor& b) const {
        with_blocks([this](auto&&... a) { AscendC::Mul(a..., site); }, d, s, b);
    }
    void div_blocks(const Tensor& d, const Tensor& s, const Tensor& b) const {
        with_blocks([this](auto&&... a) { AscendC::Div(a..., site); }, d, s, b);
    }
    void mul_vector(const Tensor& d, const Tensor& s, const Tensor& v) const {
        with_vector([this](auto&&... a) { AscendC::Mul(a..., site); }, d, s, v);
    }
    void add_vector(const Tensor& d, const Tensor& s, const Tensor& v) const {
        with_vector([this](auto&&... a) { AscendC::Add(a..., site); }, d, s, v);
    }

private:
    template <Fold fold>
    void whole(const Tensor& dst, const Tensor& src, uint32_t mask, uint32_t repeats, int32_t stride) const {
        for (uint32_t done = 0; done < repeats; done += 255) {
            const auto n = static_cast<int32_t>(repeats - done < 255 ? repeats - done : 255);
            if constexpr (fold == Fold::SUM)
                AscendC::WholeReduceSum<float>(dst[done], src[done * static_cast<uint32_t>(stride) * 8], mask, n, 1, 1, stride, site);
            else
                AscendC::WholeReduceMax<float>(dst[done], src[done * static_cast<uint32_t>(stride) * 8], mask, n, 1, 1, stride,
                                               AscendC::ReduceOrder::ORDER_ONLY_VALUE, site);
        }
        wait();
    }
    template <Fold fold>
    void whole_tail(const Tensor& partial, uint32_t parts) const {
        const uint32_t full = parts / 64;
        whole<fold>(partial, partial, 64, full, 8);
        if (parts % 64 != 0) whole<fold>(partial[full], partial[full * 64], parts % 64, 1, 8);
    }
};

// Scratch of a row-wise function: how many rows fit, and the tensors for them.
struct RowScratch {
    // whole_blocks: row values come from packed tensors, so that every round begins at a multiple of eight rows.
    AscendC::LocalTensor<float> partial, packed, blocks[4], data[3];
    uint32_t rows = 0;  // per round; 0 after a report
    RowScratch(Scratch& scratch, uint32_t total_rows, uint32_t width, RowTemporaries t, Site site)
        : RowScratch(scratch, total_rows, width, t.block_tensors, t.data_tensors, false, site) {}
    RowScratch(Scratch& scratch, uint32_t total_rows, uint32_t width, uint32_t block_tensors, uint32_t data_tensors, bool whole_blocks,
               Site site) {
        const uint32_t long_row = (width / 64 + 8) / 8 * 8;  // partial results of one row
        const auto bytes = [&](uint32_t n) { return row_scratch_bytes(n, width, block_tensors, data_tensors); };
        uint32_t room = total_rows < 8 ? total_rows : (total_rows + 7) / 8 * 8;
        const uint64_t per_row = bytes(16) - bytes(8);
        if (bytes(room) > scratch.left()) room = static_cast<uint32_t>(scratch.left() / (per_row / 8)) / 8 * 8;
        if (room == 0 && whole_blocks) room = 8;  // a shortage, reported below
        if (room == 0)
            for (room = 7; room > 1 && bytes(room) > scratch.left();) --room;
        while (room > 8 && bytes(room) > scratch.left()) room -= 8;
        const uint32_t padded = (room + 7) / 8 * 8;
        partial = scratch.take<float>(room * 64 > long_row ? room * 64 : long_row);
        packed = scratch.take<float>(padded);
        for (uint32_t i = 0; i < block_tensors; ++i) blocks[i] = scratch.take<float>(padded * 8);
        for (uint32_t i = 0; i < data_tensors; ++i) data[i] = scratch.take<float>(room * width);
        if (!scratch.enough()) return;
        rows = room;
        AscendC::Duplicate(packed, 0.f, static_cast<int32_t>(padded), site);  // Brcb reads whole groups of eight
        pipe_barrier(Pipe::v, site);
    }
};

}  // namespace toprope
