"""The fixed pieces of an emitted Triton program: small functions, written out only when a kernel uses them."""

from __future__ import annotations

VALID = """
// Lanes of a block that lie below a mask's limit.
__aicore__ inline uint32_t Valid(int64_t limit, uint32_t size) {
    return limit <= 0 ? 0 : (limit < size ? static_cast<uint32_t>(limit) : size);
}
"""
SYNC = """
// What comes first is complete before what comes next.
template <HardEvent event>
__aicore__ inline void Sync() {
    const auto id = static_cast<event_t>(GetTPipePtr()->FetchEventID(event));
    SetFlag<event>(id);
    WaitFlag<event>(id);
}
"""
LOAD_ROWS = """
// Rows of neighbours from global memory, `stride` elements apart there and `width` here; `fill` up to the next block of 32 bytes.
template <typename T>
__aicore__ inline void LoadRows(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t rows, uint32_t columns, int64_t stride, uint32_t width, T fill) {
    if (rows == 0 || columns == 0) return;
    constexpr uint32_t perBlock = 32 / sizeof(T);
    const uint32_t padded = (columns + perBlock - 1) / perBlock * perBlock, size = columns * sizeof(T);
    const DataCopyPadExtParams<T> pad{true, 0, static_cast<uint8_t>(padded - columns), fill};
    if (rows == 1 || stride >= columns) {
        const uint32_t gap = rows == 1 ? 0 : static_cast<uint32_t>(stride - columns) * sizeof(T);
        DataCopyPad(dst, src, DataCopyExtParams{static_cast<uint16_t>(rows), size, gap, rows == 1 ? 0 : (width - padded) / perBlock, 0}, pad);
        return;
    }
    for (uint32_t r = 0; r < rows; r++) DataCopyPad(dst[r * width], src[r * stride], DataCopyExtParams{1, size, 0, 0, 0}, pad);
}
"""
STORE_ROWS = """
// Rows of neighbours to global memory, `stride` elements apart there and `width` here.
template <typename T>
__aicore__ inline void StoreRows(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t rows, uint32_t columns, int64_t stride, uint32_t width) {
    if (rows == 0 || columns == 0) return;
    constexpr uint32_t perBlock = 32 / sizeof(T);
    const uint32_t padded = (columns + perBlock - 1) / perBlock * perBlock, size = columns * sizeof(T);
    if (rows == 1 || stride >= columns) {
        const uint32_t gap = rows == 1 ? 0 : static_cast<uint32_t>(stride - columns) * sizeof(T);
        DataCopyPad(dst, src, DataCopyExtParams{static_cast<uint16_t>(rows), size, rows == 1 ? 0 : (width - padded) / perBlock, gap, 0});
        return;
    }
    for (uint32_t r = 0; r < rows; r++) DataCopyPad(dst[r * stride], src[r * width], DataCopyExtParams{1, size, 0, 0, 0});
}
"""
FILL_ROWS = """
// `fill` behind the blocks of 32 bytes that a load filled, and in the rows that it left out.
template <typename T>
__aicore__ inline void FillRows(const LocalTensor<T>& x, uint32_t rows, uint32_t columns, uint32_t allRows, uint32_t width, T fill) {
    constexpr uint32_t perBlock = 32 / sizeof(T);
    const uint32_t filled = (columns + perBlock - 1) / perBlock * perBlock;
    const uint32_t used = columns == 0 ? 0 : rows;
    for (uint32_t r = 0; r < used && filled < width; r++) FillLanes(x[r * width + filled], fill, width - filled);
    if (used < allRows) FillLanes(x[used * width], fill, (allRows - used) * width);
}
"""
FILL_LANES = """
template <typename T>
__aicore__ inline void FillLanes(const LocalTensor<T>& x, T fill, uint32_t count) {
    if constexpr (sizeof(T) == 1) {
        const uint8_t byte = static_cast<uint8_t>(fill);
        Duplicate(x.template ReinterpretCast<int16_t>(), static_cast<int16_t>(byte * 257), count / 2);
    } else if constexpr (sizeof(T) == 8) {
        Duplicate(x.template ReinterpretCast<int32_t>(), static_cast<int32_t>(0), count * 2);
    } else {
        Duplicate(x, fill, count);
    }
}
"""
KEEP_LANES = """
// Lanes of the first `columns` of the first `rows` stay, the others become `value`.
template <typename T>
__aicore__ inline void KeepLanes(const LocalTensor<T>& x, uint32_t rows, uint32_t columns, uint32_t allRows, uint32_t width, T value) {
    constexpr uint32_t lanes = 256 / sizeof(T);
    const uint32_t used = columns == 0 ? 0 : rows, at = columns / lanes * lanes, kept = columns % lanes;
    for (uint32_t r = 0; r < used && columns < width; r++) {
        uint32_t next = at;
        if (kept > 0) {
            const uint32_t here = width - at < lanes ? width - at : lanes;
            uint64_t mask[2] = {Bits(here < 64 ? here : 64) & ~Bits(kept < 64 ? kept : 64), here > 64 ? Bits(here - 64) & ~(kept > 64 ? Bits(kept - 64) : 0) : 0};
            if (mask[0] != 0 || mask[1] != 0) Duplicate(x[r * width + at], value, mask, 1, 1, 8);
            next = at + lanes;
        }
        if (next < width) Duplicate(x[r * width + next], value, width - next);
    }
    if (used < allRows) Duplicate(x[used * width], value, (allRows - used) * width);
}
"""
BITS = """
__aicore__ inline uint64_t Bits(uint32_t count) {
    return count >= 64 ? ~0ull : (1ull << count) - 1;
}
"""
REPEAT_NUMBER = """
// Row r of dst holds number r of v in every lane.
template <typename T>
__aicore__ inline void RepeatNumbers(const LocalTensor<T>& dst, const LocalTensor<T>& v, const LocalTensor<T>& blocks, uint32_t rows, uint32_t width) {
    constexpr uint32_t lanes = 256 / sizeof(T), perBlock = 32 / sizeof(T);
    Brcb(blocks, v, (rows + 7) / 8, {1, 8});
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t full = width / lanes, tail = width % lanes;
        for (uint32_t done = 0; done < full; done += 248) Copy(dst[r * width + done * lanes], blocks[r * perBlock], lanes, full - done < 248 ? full - done : 248, {1, 0, 8, 0});
        if (tail > 0) Copy(dst[r * width + full * lanes], blocks[r * perBlock], tail, 1, {1, 0, 8, 0});
    }
}
"""
GATHER_ROWS = """
// Pieces of rows that entries name: row r of dst comes from src[entry * scale].
template <typename T, typename E>
__aicore__ inline void GatherRows(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LocalTensor<E>& entries, int64_t scale, uint32_t rows, uint32_t columns, uint32_t width, T fill) {
    for (uint32_t r = 0; r < rows; r++) LoadRows(dst[r * width], src[static_cast<int64_t>(entries.GetValue(r)) * scale], 1, columns, 0, width, fill);
}
"""
GATHER_ELEMENTS = """
// Elements that entries name, one by one through the scalar unit.
template <typename T, typename E>
__aicore__ inline void GatherElements(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LocalTensor<E>& entries, int64_t scale, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) dst.SetValue(k, src.GetValue(static_cast<int64_t>(entries.GetValue(k)) * scale));
}
"""
SCATTER_ROWS = """
// Pieces of rows to where entries say.
template <typename T, typename E>
__aicore__ inline void ScatterRows(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<E>& entries, int64_t scale, uint32_t rows, uint32_t columns, uint32_t width) {
    for (uint32_t r = 0; r < rows; r++) StoreRows(dst[static_cast<int64_t>(entries.GetValue(r)) * scale], src[r * width], 1, columns, 0, width);
}
"""
SPACED = """
// Elements `stride` apart: each lands in a block of 32 bytes, and the vector unit puts them side by side.
template <typename T>
__aicore__ inline void LoadSpaced(const LocalTensor<T>& blocks, const GlobalTensor<T>& src, uint32_t count, int64_t stride) {
    constexpr uint32_t most = 4095, perBlock = 32 / sizeof(T);
    const DataCopyPadExtParams<T> pad{true, 0, static_cast<uint8_t>(perBlock - 1), static_cast<T>(0)};
    for (uint32_t done = 0; done < count; done += most) {
        const uint32_t n = count - done < most ? count - done : most;
        DataCopyPad(blocks[done * perBlock], src[done * stride], DataCopyExtParams{static_cast<uint16_t>(n), sizeof(T), static_cast<uint32_t>(stride - 1) * static_cast<uint32_t>(sizeof(T)), 0, 0}, pad);
    }
}
"""
PACK_SPACED = """
template <typename T>
__aicore__ inline void PackSpaced(const LocalTensor<T>& dst, const LocalTensor<T>& blocks, const LocalTensor<uint32_t>& steps, uint32_t count, uint32_t all, T fill) {
    Duplicate(dst, fill, all);
    if (count > 0) Gather(dst, blocks, steps, 0, count);
}
"""
STORE_SPACED = """
// Elements to places `stride` apart: a block of 32 bytes for each, copied out one by one.
template <typename T>
__aicore__ inline void StoreSpaced(const GlobalTensor<T>& dst, const LocalTensor<T>& blocks, uint32_t count, int64_t stride) {
    constexpr uint32_t perBlock = 32 / sizeof(T), most = 4095;
    for (uint32_t done = 0; done < count; done += most) {
        const uint32_t n = count - done < most ? count - done : most;
        DataCopyPad(dst[done * stride], blocks[done * perBlock], DataCopyExtParams{static_cast<uint16_t>(n), sizeof(T), 0, static_cast<uint32_t>(stride - 1) * static_cast<uint32_t>(sizeof(T)), 0});
    }
}
"""
