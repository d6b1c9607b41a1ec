"""The fixed pieces of an emitted kernel: small functions, written out only when a kernel uses them."""

from __future__ import annotations

BLOCK_BYTES, REPEAT_BYTES = 32, 256
GROUP_ROWS = 64  # rows that go together where each needs a whole repeat of scratch

ROW_REDUCE = """
// Short rows: a repeat takes the same block of eight rows, so that all its lanes work. Calls use(first row, lanes, repeats).
template <typename T, typename Use>
__aicore__ inline void EightRows(uint32_t rows, Use use) {
    constexpr uint32_t perBlock = 32 / sizeof(T), most = 248;
    for (uint32_t r = 0; r < rows / 8 * 8; r += 8 * most) use(r, 8 * perBlock, (rows - r) / 8 < most ? (rows - r) / 8 : most);
    if (rows % 8 > 0) use(rows / 8 * 8, rows % 8 * perBlock, 1u);
}

template <char fold, typename T>
__aicore__ inline void Join(const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t mask, uint32_t repeats, const BinaryRepeatParams& strides) {
    if constexpr (fold == '>') Max(to, a, b, mask, repeats, strides);
    else if constexpr (fold == '<') Min(to, a, b, mask, repeats, strides);
    else Add(to, a, b, mask, repeats, strides);
}
template <char fold, typename T>
__aicore__ inline void Blocks(const LocalTensor<T>& to, const LocalTensor<T>& from, uint32_t mask, uint32_t repeats, uint32_t blockStride, uint32_t repeatStride) {
    if constexpr (fold == '>') BlockReduceMax(to, from, repeats, mask, 1, blockStride, repeatStride);
    else if constexpr (fold == '<') BlockReduceMin(to, from, repeats, mask, 1, blockStride, repeatStride);
    else BlockReduceSum(to, from, repeats, mask, 1, blockStride, repeatStride);
}
// to[r] = a[r] with b[r] for the first `count` elements of every row: in one instruction for all rows, or in one for each row.
template <char fold, typename T>
__aicore__ inline void JoinRows(const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t rows, uint32_t count, uint32_t toWidth, uint32_t aWidth, uint32_t bWidth) {
    constexpr uint32_t lanes = 256 / sizeof(T), perBlock = 32 / sizeof(T), most = 248;
    const uint32_t widest = aWidth > bWidth ? aWidth : bWidth;
    if ((count + lanes - 1) / lanes <= rows && widest / perBlock <= 255 && toWidth / perBlock <= 255) {
        const BinaryRepeatParams strides(1, 1, 1, static_cast<uint8_t>(toWidth / perBlock), static_cast<uint8_t>(aWidth / perBlock), static_cast<uint8_t>(bWidth / perBlock));
        for (uint32_t at = 0; at < count; at += lanes) Join<fold>(to[at], a[at], b[at], count - at < lanes ? count - at : lanes, rows, strides);
        return;
    }
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t at = 0, take; at < count; at += take) {
            const uint32_t left = count - at, repeats = left < lanes ? 1 : left / lanes < most ? left / lanes : most;
            take = left < lanes ? left : repeats * lanes;
            Join<fold>(to[r * toWidth + at], a[r * aWidth + at], b[r * bWidth + at], left < lanes ? left : lanes, repeats, {1, 1, 1, 8, 8, 8});
        }
    }
}

// Rows of less than a repeat: their blocks one after the other, eight rows in a repeat, then the lanes of what is left.
template <char fold, typename T>
__aicore__ inline void ShortRowReduce(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& partial, uint32_t rows, uint32_t columns, uint32_t width) {
    constexpr uint32_t perBlock = 32 / sizeof(T);
    const uint8_t stride = static_cast<uint8_t>(width / perBlock), step = static_cast<uint8_t>(8 * stride);
    if (columns % perBlock > 0) {  // what changes nothing behind the last element
        const T neutral = static_cast<T>(fold == '>' ? -__builtin_inff() : fold == '<' ? __builtin_inff() : -0.0f);
        const LocalTensor<T> last = src[columns / perBlock * perBlock];
        EightRows<T>(rows, [&](uint32_t row, uint32_t lanes, uint32_t repeats) {
            uint64_t mask[2] = {0, 0};
            for (uint32_t lane = 0; lane < lanes; lane++)
                if (lane % perBlock >= columns % perBlock) mask[lane / 64] |= 1ull << lane % 64;
            Duplicate(last[row * width], neutral, mask, static_cast<uint8_t>(repeats), stride, step);
        });
    }
    for (uint32_t at = perBlock; at < columns; at += perBlock)
        EightRows<T>(rows, [&](uint32_t row, uint32_t lanes, uint32_t repeats) {
            const LocalTensor<T> to = partial[row * perBlock], here = src[row * width];
            if (at == perBlock) Join<fold>(to, here, here[at], lanes, repeats, {1, stride, stride, 8, step, step});
            else Join<fold>(to, to, here[at], lanes, repeats, {1, 1, stride, 8, 8, step});
        });
    EightRows<T>(rows, [&](uint32_t row, uint32_t lanes, uint32_t repeats) {
        if (columns <= perBlock) Blocks<fold>(dst[row], src[row * width], lanes, repeats, stride, step);
        else Blocks<fold>(dst[row], partial[row * perBlock], lanes, repeats, 1, 8);
    });
}

// dst[r] = the sum, maximum or minimum of row r. Longer rows: at most eight stripes one after the other, then halves against halves.
template <char fold, typename T>
__aicore__ inline void RowReduce(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& partial, uint32_t rows, uint32_t columns, uint32_t width) {
    constexpr uint32_t lanes = 256 / sizeof(T), perBlock = 32 / sizeof(T), most = @GROUP@;
    if (columns <= (sizeof(T) == 4 ? lanes / 4 * 3 : lanes)) return ShortRowReduce<fold>(dst, src, partial, rows, columns, width);
    uint32_t stripe = lanes;
    while ((columns + stripe - 1) / stripe > 8) stripe *= 2;
    for (uint32_t first = 0; first < rows; first += most) {
        const uint32_t n = rows - first < most ? rows - first : most;
        const LocalTensor<T> x = src[first * width], folded = partial[columns <= stripe ? 0 : n * stripe];
        for (uint32_t at = stripe; at < columns; at += stripe) {
            const uint32_t count = columns - at < stripe ? columns - at : stripe;
            const bool fresh = at == stripe && count == stripe;
            if (at == stripe && count < stripe) Copy(partial, x, lanes, static_cast<uint8_t>(n), {1, 1, 8, static_cast<uint16_t>(width / perBlock)});
            JoinRows<fold>(partial, fresh ? x : partial, x[at], n, count, stripe, fresh ? width : stripe, width);
        }
        uint32_t left = stripe;
        for (; left > lanes; left /= 2) JoinRows<fold>(partial, partial, partial[left / 2], n, left / 2, stripe, stripe, stripe);
        if constexpr (sizeof(T) == 2) {
            for (; left > 2 * perBlock; left /= 2) JoinRows<fold>(partial, partial, partial[left / 2], n, left / 2, stripe, stripe, stripe);
            JoinRows<fold>(folded, partial, partial[perBlock], n, perBlock, perBlock, stripe, stripe);
        } else if (columns <= stripe) {  // a repeat of each row; its last block may be missing
            Duplicate(folded, static_cast<T>(fold == '>' ? -__builtin_inff() : fold == '<' ? __builtin_inff() : -0.0f), n * perBlock);
            Blocks<fold>(folded, x, columns, n, 1, width / perBlock);
        } else if (stripe / perBlock <= 255) {
            Blocks<fold>(folded, partial, lanes, n, 1, stripe / perBlock);
        } else {
            for (uint32_t r = 0; r < n; r++) Blocks<fold>(folded[r * perBlock], partial[r * stripe], lanes, 1, 1, 8);
        }
        EightRows<T>(n, [&](uint32_t row, uint32_t active, uint32_t repeats) { Blocks<fold>(dst[first + row], folded[row * perBlock], active, repeats, 1, 8); });
    }
}
""".replace("@GROUP@", str(GROUP_ROWS))


def row_reduce_bytes(rows: int, columns: int, bits: int) -> int:
    """Scratch of RowReduce: of each row of a group a stripe (a repeat, or at most a quarter of the row) and a block; of short rows a block each."""
    stripe = (
        REPEAT_BYTES + -(-columns * bits // 32 // BLOCK_BYTES) * BLOCK_BYTES if columns * bits > 8 * REPEAT_BYTES else 0
    )
    return min(rows, GROUP_ROWS) * stripe + -(-rows // 8) * 8 * BLOCK_BYTES + REPEAT_BYTES


def rows_room_bytes(rows: int) -> int:
    """Scratch of an operation with one number per row: a block for every row, and a whole repeat for the rows of a group."""
    return -(-rows // 8) * 8 * BLOCK_BYTES + min(rows, GROUP_ROWS) * REPEAT_BYTES


def rows_operation(call: str, swapped: bool) -> str:
    """dst = x op v (or v op x) with one number v per row: Brcb makes a block of each, for longer rows Copy a whole repeat of that."""

    def operation(to: str, wide: str, mask: str, repeats: str, strides: tuple[str, str, str, str, str, str]) -> str:
        d, x, v, dr, xr, vr = strides
        operands = f"{wide}, x[{to}]" if swapped else f"x[{to}], {wide}"
        order = (d, v, x, dr, vr, xr) if swapped else (d, x, v, dr, xr, vr)
        return f"{call}(dst[{to}], {operands}, {mask}, {repeats}, {{{', '.join(order)}}});"

    short = operation(
        "row * width + at", "room[row * perBlock]", "active", "repeats", ("stride", "stride", "1", "step", "step", "8")
    )
    down = operation(
        "first * width + at",
        "wide",
        "width - at < lanes ? width - at : lanes",
        "n",
        ("1", "1", "1", "stride", "stride", "8"),
    )
    along = operation(
        "r * width + at",
        "wide[(r - first) * lanes]",
        "left < lanes ? left : lanes",
        "repeats",
        ("1", "1", "1", "8", "8", "0"),
    )
    what = f"{call}(v[r], x)" if swapped else f"{call}(x, v[r])"
    return f"""
// dst = {what} for every row r. Reading one block eight times over would keep a bank busy, so it is copied out once.
template <typename T>
__aicore__ inline void {call}{"Before" if swapped else ""}Rows(const LocalTensor<T>& dst, const LocalTensor<T>& x, const LocalTensor<T>& v, const LocalTensor<T>& room, uint32_t rows, uint32_t width) {{
    constexpr uint32_t lanes = 256 / sizeof(T), perBlock = 32 / sizeof(T), most = {GROUP_ROWS};
    const uint8_t stride = static_cast<uint8_t>(width / perBlock), step = static_cast<uint8_t>(8 * stride);
    if (width < lanes) {{
        for (uint32_t r = 0; r < rows; r += 8 * 248) Brcb(room[r * perBlock], v[r], (rows - r < 8 * 248 ? rows - r + 7 : 8 * 248) / 8, {{1, 8}});
        for (uint32_t at = 0; at < width; at += perBlock) {{
            for (uint32_t row = 0, take; row < rows; row += take) {{  // a repeat takes the same block of eight rows
                const uint32_t left = rows - row, repeats = left < 8 ? 1 : left / 8 < 248 ? left / 8 : 248, active = (left < 8 ? left : 8) * perBlock;
                take = left < 8 ? left : 8 * repeats;
                {short}
            }}
        }}
        return;
    }}
    const LocalTensor<T> wide = room[((rows < most ? rows : most) + 7) / 8 * 8 * perBlock];
    for (uint32_t first = 0; first < rows; first += most) {{
        const uint32_t n = rows - first < most ? rows - first : most;
        Brcb(room, v[first], (n + 7) / 8, {{1, 8}});
        Copy(wide, room, lanes, n, {{1, 0, 8, 1}});
        if ((width + lanes - 1) / lanes < n && width / perBlock <= 255) {{  // all rows in one instruction, a repeat of the row at a time
            for (uint32_t at = 0; at < width; at += lanes) {down}
            continue;
        }}
        for (uint32_t r = first; r < first + n; r++) {{
            for (uint32_t at = 0, take; at < width; at += take) {{
                const uint32_t left = width - at, repeats = left < lanes ? 1 : left / lanes < 248 ? left / lanes : 248;
                take = left < lanes ? left : repeats * lanes;
                {along}
            }}
        }}
    }}
}}
"""


def columns_operation(call: str, swapped: bool) -> str:
    """dst = x op v (or v op x) with one row v that serves all rows."""
    one, many = (
        ("v, x[r * width]", "v[at], x[r * width + at]") if swapped else ("x[r * width], v", "x[r * width + at], v[at]")
    )
    strides = "stride, 0, stride" if swapped else "stride, stride, 0"
    return f"""
// dst = {call + "(v, x)" if swapped else call + "(x, v)"}, the row v for every row of x.
template <typename T>
__aicore__ inline void {call}{"Before" if swapped else ""}Columns(const LocalTensor<T>& dst, const LocalTensor<T>& x, const LocalTensor<T>& v, uint32_t rows, uint32_t width) {{
    constexpr uint32_t lanes = 256 / sizeof(T), most = 248;
    const uint8_t stride = static_cast<uint8_t>(width * sizeof(T) / 32);
    if ((width + lanes - 1) / lanes >= rows || width * sizeof(T) / 32 > 255) {{
        for (uint32_t r = 0; r < rows; r++) {call}(dst[r * width], {one}, width);
        return;
    }}
    for (uint32_t r = 0; r < rows; r += most) {{  // many rows in one instruction, a repeat of the row at a time
        for (uint32_t at = 0; at < width; at += lanes) {call}(dst[r * width + at], {many}, width - at < lanes ? width - at : lanes, rows - r < most ? rows - r : most, {{1, 1, 1, {strides}}});
    }}
}}
"""


FILL_PITCH = """
// Zeros behind the 32-byte blocks that DataCopyPad filled, up to the row pitch.
template <typename T>
__aicore__ inline void FillPitch(const LocalTensor<T>& x, uint32_t rows, uint32_t columns, uint32_t width) {
    constexpr uint32_t perBlock = 32 / sizeof(T);
    const uint32_t filled = (columns + perBlock - 1) / perBlock * perBlock;
    if (filled == width) return;
    const uint32_t most = width / perBlock <= 255 ? 248 : 1;
    for (uint32_t r = 0; r < rows; r += most)
        Duplicate(x[r * width + filled], static_cast<T>(0), static_cast<uint64_t>(width - filled), static_cast<uint8_t>(rows - r < most ? rows - r : most), 1, static_cast<uint8_t>(width / perBlock));
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
