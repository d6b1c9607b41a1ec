"""The fixed pieces of an emitted kernel: small functions, written out only when a kernel uses them."""

from __future__ import annotations

ROW_REDUCE = """
template <char fold, typename T>
__aicore__ inline void Fold(const LocalTensor<T>& to, const LocalTensor<T>& from, uint32_t mask, uint32_t repeats, uint32_t toStride = 1, uint32_t fromStride = 8) {
    if constexpr (fold == '>') WholeReduceMax(to, from, mask, repeats, toStride, 1, fromStride, ReduceOrder::ORDER_ONLY_VALUE);
    else if constexpr (fold == '<') WholeReduceMin(to, from, mask, repeats, toStride, 1, fromStride, ReduceOrder::ORDER_ONLY_VALUE);
    else WholeReduceSum(to, from, mask, repeats, toStride, 1, fromStride);
}

// dst[r] = the sum, maximum or minimum of row r. Repeats of 256 bytes first, then their results, until one number remains.
template <char fold, typename T>
__aicore__ inline void RowReduce(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& partial, uint32_t rows, uint32_t columns, uint32_t width) {
    constexpr uint32_t lanes = 256 / sizeof(T), perBlock = 32 / sizeof(T);
    const uint32_t full = columns / lanes, tail = columns % lanes, results = full + (tail != 0), stride = width / perBlock;
    if (results <= lanes && stride <= 255) {  // many rows in one instruction
        const bool dense = columns == width && full > 0 && full % perBlock == 0;
        const uint32_t pitch = (results + perBlock - 1) / perBlock * perBlock, most = dense ? 255 / full : 248;
        for (uint32_t r = 0; r < rows; r += most) {
            const uint32_t n = rows - r < most ? rows - r : most;
            LocalTensor<T> from = src[r * width], to = results == 1 ? dst[r] : partial;
            if (dense) Fold<fold>(to, from, lanes, n * full);
            for (uint32_t j = 0; j < full && !dense; j++) Fold<fold>(to[j], from[j * lanes], lanes, n, results == 1 ? 1 : pitch, stride);
            if (tail > 0) Fold<fold>(to[full], from[full * lanes], tail, n, results == 1 ? 1 : pitch, stride);
            if (results > 1) Fold<fold>(dst[r], partial, results, n, 1, pitch / perBlock);
        }
        return;
    }
    for (uint32_t r = 0; r < rows; r++) {
        LocalTensor<T> from = src[r * width];
        for (uint32_t left = columns;; from = partial) {
            const uint32_t repeats = left / lanes, rest = left % lanes, remain = repeats + (rest != 0);
            LocalTensor<T> to = remain == 1 ? dst[r] : partial;
            for (uint32_t done = 0; done < repeats; done += 248) Fold<fold>(to[done], from[done * lanes], lanes, repeats - done < 248 ? repeats - done : 248);
            if (rest > 0) Fold<fold>(to[repeats], from[repeats * lanes], rest, 1);
            if (remain == 1) break;
            left = remain;
        }
    }
}
"""


def rows_operation(call: str, swapped: bool) -> str:
    """dst = x op v (or v op x) with one number v per row: Brcb makes a block of each, Copy a whole repeat of that."""
    across, along = (
        ("wide[r * lanes], x[at]", "{1, 1, 1, 8, 0, 8}")
        if swapped
        else ("x[at], wide[r * lanes]", "{1, 1, 1, 8, 8, 0}")
    )
    stride = "static_cast<uint8_t>(stride)"
    down, column = (
        (f"{{1, 1, 1, {stride}, 8, {stride}}}", "wide, x[at]")
        if swapped
        else (f"{{1, 1, 1, {stride}, {stride}, 8}}", "x[at], wide")
    )
    what = f"{call}(v[r], x)" if swapped else f"{call}(x, v[r])"
    return f"""
// dst = {what} for every row r. Reading one block eight times over would keep a bank busy, so it is copied out once.
template <typename T>
__aicore__ inline void {call}{"Before" if swapped else ""}Rows(const LocalTensor<T>& dst, const LocalTensor<T>& x, const LocalTensor<T>& v, const LocalTensor<T>& blocks, uint32_t rows, uint32_t width) {{
    constexpr uint32_t lanes = 256 / sizeof(T), perBlock = 32 / sizeof(T), most = 248;
    const uint32_t rowsUp = (rows + 7) / 8 * 8, full = width / lanes, tail = width % lanes, stride = width / perBlock;
    LocalTensor<T> wide = blocks[rowsUp * perBlock];
    Brcb(blocks, v, rowsUp / 8, {{1, 8}});
    for (uint32_t r = 0; r < rows; r += most) Copy(wide[r * lanes], blocks[r * perBlock], lanes, rows - r < most ? rows - r : most, {{1, 0, 8, 1}});
    if (full + (tail > 0) < rows && rows <= 255 && stride <= 255) {{  // all rows in one instruction, a repeat of the row at a time
        for (uint32_t at = 0; at < width; at += lanes) {call}(dst[at], {column}, width - at < lanes ? width - at : lanes, rows, {down});
        return;
    }}
    for (uint32_t r = 0; r < rows; r++) {{
        uint32_t at = r * width;
        if (full > 0) {call}(dst[at], {across}, lanes, full, {along});
        at += full * lanes;
        if (tail > 0) {call}(dst[at], {across}, tail, 1, {along});
    }}
}}
"""


def columns_operation(call: str, swapped: bool) -> str:
    """dst = x op v (or v op x) with one row v that serves all rows."""
    operands = "v, x[r * width]" if swapped else "x[r * width], v"
    return f"""
// dst = {call + "(v, x)" if swapped else call + "(x, v)"}, the row v for every row of x.
template <typename T>
__aicore__ inline void {call}{"Before" if swapped else ""}Columns(const LocalTensor<T>& dst, const LocalTensor<T>& x, const LocalTensor<T>& v, uint32_t rows, uint32_t width) {{
    for (uint32_t r = 0; r < rows; r++) {call}(dst[r * width], {operands}, width);
}}
"""


FILL_PITCH = """
// Zeros behind the 32-byte blocks that DataCopyPad filled, up to the row pitch.
template <typename T>
__aicore__ inline void FillPitch(const LocalTensor<T>& x, uint32_t rows, uint32_t columns, uint32_t width) {
    constexpr uint32_t perBlock = 32 / sizeof(T);
    const uint32_t filled = (columns + perBlock - 1) / perBlock * perBlock;
    if (filled == width) return;
    for (uint32_t r = 0; r < rows; r++) Duplicate(x[r * width + filled], static_cast<T>(0), width - filled);
}
"""
FILL_REPEAT = """
// Comparisons take whole repeats: zeros behind the last lane.
template <typename T>
__aicore__ inline uint32_t FillRepeat(const LocalTensor<T>& x, uint32_t count) {
    constexpr uint32_t lanes = 256 / sizeof(T);
    const uint32_t whole = (count + lanes - 1) / lanes * lanes;
    if (whole > count) Duplicate(x[count], static_cast<T>(0), whole - count);
    return whole;
}
"""

COLUMN_FOLD = """
// dst = the sum, maximum or minimum of every column, row after row.
template <char fold, typename T>
__aicore__ inline void ColumnFold(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t rows, uint32_t width) {
    DataCopy(dst, src, width);
    for (uint32_t r = 1; r < rows; r++) {
        if constexpr (fold == '>') Max(dst, dst, src[r * width], width);
        else if constexpr (fold == '<') Min(dst, dst, src[r * width], width);
        else Add(dst, dst, src[r * width], width);
    }
}
"""
SPREAD = """
// A block of 32 bytes for each element, so that single elements can be copied out.
template <typename T>
__aicore__ inline void Spread(const LocalTensor<T>& blocks, const LocalTensor<T>& x, uint32_t count) {
    constexpr uint32_t perBlock = 32 / sizeof(T), most = 248;  // repeats of 8 elements
    for (uint32_t done = 0; done < count; done += most * 8) {
        const uint32_t left = (count - done + 7) / 8;
        Brcb(blocks[done * perBlock], x[done], left < most ? left : most, {1, 8});
    }
}
"""
PACK = """
// Elements that lie one in each block of 32 bytes, side by side; zeros behind the valid ones.
template <typename T>
__aicore__ inline void Pack(const LocalTensor<T>& dst, const LocalTensor<T>& blocks, const LocalTensor<uint32_t>& steps, uint32_t rows, uint32_t columns, uint32_t width) {
    Duplicate(dst, static_cast<T>(0), rows * width);
    for (uint32_t r = 0; r < rows; r++) Gather(dst[r * width], blocks[r * width * (32 / sizeof(T))], steps, 0, columns);
}
"""
PACK_BY_OFFSET = """
// Elements of x at byte offsets; zeros behind the valid ones.
template <typename T>
__aicore__ inline void PackByOffset(const LocalTensor<T>& dst, const LocalTensor<T>& x, const LocalTensor<int32_t>& offsets, uint32_t count, uint32_t width) {
    Duplicate(dst, static_cast<T>(0), width);
    Gather(dst, x, offsets.template ReinterpretCast<uint32_t>(), 0, count);
}
"""
