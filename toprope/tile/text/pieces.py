"""The fixed functions of emitted kernels; a kernel has those that it calls."""

from __future__ import annotations

SYNC = """
// What comes first is complete before what comes next.
template <HardEvent event>
__aicore__ inline void Sync() {
    const auto id = static_cast<event_t>(GetTPipePtr()->FetchEventID(event));
    SetFlag<event>(id);
    WaitFlag<event>(id);
}
"""
CLIP = """
__aicore__ inline int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
__aicore__ inline int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }
"""
FILL = """
template <typename T>
__aicore__ inline void Fill(const LocalTensor<T>& x, T value, uint32_t count) {
    if constexpr (sizeof(T) == 1) {
        const uint8_t byte = static_cast<uint8_t>(value);
        Duplicate(x.template ReinterpretCast<int16_t>(), static_cast<int16_t>(byte * 257), (count + 1) / 2);
    } else if constexpr (sizeof(T) == 8) {  // halves of 32 bits in turn
        const LocalTensor<int32_t> words = x.template ReinterpretCast<int32_t>();
        const uint64_t bits = static_cast<uint64_t>(value);
        const int32_t low = static_cast<int32_t>(bits), high = static_cast<int32_t>(bits >> 32);
        uint64_t even[1] = {0x5555555555555555ull}, odd[1] = {0xaaaaaaaaaaaaaaaaull};
        const uint32_t repeats = (2 * count + 63) / 64;
        for (uint32_t done = 0; done < repeats; done += 248) {
            const uint8_t n = static_cast<uint8_t>(repeats - done < 248 ? repeats - done : 248);
            uint64_t mask[2] = {even[0], 0};
            Duplicate(words[done * 64], low, mask, n, 1, 8);
            mask[0] = odd[0];
            Duplicate(words[done * 64], high, mask, n, 1, 8);
        }
    } else {
        Duplicate(x, value, count);
    }
}
"""
LOAD_ROWS = """
// Lanes low to high of rows of neighbours, `stride` elements apart in global memory and `width` here; what lies in their blocks of
// 32 bytes beside them becomes `fill`.
template <typename T>
__aicore__ inline void LoadRows(const LocalTensor<T>& dst, const GlobalTensor<T>& src, int64_t rows, int64_t low, int64_t high, int64_t stride, uint32_t width, T fill) {
    if (rows <= 0 || low >= high) return;
    constexpr uint32_t perBlock = 32 / sizeof(T);
    const uint32_t before = static_cast<uint32_t>(low) % perBlock, first = static_cast<uint32_t>(low) - before;
    const uint32_t columns = static_cast<uint32_t>(high - low), size = columns * sizeof(T);
    const uint32_t padded = (before + columns + perBlock - 1) / perBlock * perBlock;
    DataCopyPadExtParams<T> pad{true, static_cast<uint8_t>(before), static_cast<uint8_t>(padded - before - columns), fill};
    if constexpr (sizeof(T) == 8) pad = {false, 0, 0, fill};
    if (rows <= 4095 && (rows == 1 || stride >= columns) && (stride - columns) * sizeof(T) < (1ull << 32)) {
        const uint32_t gap = rows == 1 ? 0 : static_cast<uint32_t>(stride - columns) * sizeof(T);
        DataCopyPad(dst[first], src[low], DataCopyExtParams{static_cast<uint16_t>(rows), size, gap, rows == 1 ? 0 : (width - padded) / perBlock, 0}, pad);
        return;
    }
    for (int64_t r = 0; r < rows; r++) DataCopyPad(dst[r * width + first], src[r * stride + low], DataCopyExtParams{1, size, 0, 0, 0}, pad);
}
"""
PUT = """
// One element to global memory.
template <typename T>
__aicore__ inline void Put(const GlobalTensor<T>& to, T value, const LocalTensor<T>& stage) {
    Sync<HardEvent::MTE3_S>();
    stage.SetValue(0, value);
    Sync<HardEvent::S_MTE3>();
    DataCopyPad(to, stage, DataCopyExtParams{1, sizeof(T), 0, 0, 0});
}
"""
STORE_ROWS = """
// The first `columns` lanes of rows of neighbours to global memory, `stride` elements apart there and `width` here.
template <typename T>
__aicore__ inline void StoreRows(const GlobalTensor<T>& dst, const LocalTensor<T>& src, int64_t rows, int64_t columns, int64_t stride, uint32_t width) {
    if (rows <= 0 || columns <= 0) return;
    constexpr uint32_t perBlock = 32 / sizeof(T);
    const uint32_t size = static_cast<uint32_t>(columns) * sizeof(T), padded = (static_cast<uint32_t>(columns) + perBlock - 1) / perBlock * perBlock;
    if (rows <= 4095 && (rows == 1 || stride >= columns) && (stride - columns) * sizeof(T) < (1ull << 32)) {
        const uint32_t gap = rows == 1 ? 0 : static_cast<uint32_t>(stride - columns) * sizeof(T);
        DataCopyPad(dst, src, DataCopyExtParams{static_cast<uint16_t>(rows), size, rows == 1 ? 0 : (width - padded) / perBlock, gap, 0});
        return;
    }
    for (int64_t r = 0; r < rows; r++) DataCopyPad(dst[r * stride], src[r * width], DataCopyExtParams{1, size, 0, 0, 0});
}
"""
STORE_PARTS = """
// Lanes low to high of rows of neighbours; rows that begin inside a block of 32 bytes go element by element.
template <typename T>
__aicore__ inline void StoreParts(const GlobalTensor<T>& dst, const LocalTensor<T>& src, int64_t rows, int64_t low, int64_t high, int64_t stride, uint32_t width, const LocalTensor<T>& stage) {
    if (rows <= 0 || low >= high) return;
    if (low % (32 / sizeof(T)) == 0) return StoreRows(dst[low], src[low], rows, high - low, stride, width);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = low; c < high; c++) Put(dst[r * stride + c], src.GetValue(r * width + c), stage);
}
"""
ON_LANE = """
// A function of the vector unit on one number.
template <typename F>
__aicore__ inline float OnLane(const LocalTensor<float>& lane, float x, F f) {
    Sync<HardEvent::V_S>();
    lane.SetValue(0, x);
    Sync<HardEvent::S_V>();
    f(lane);
    Sync<HardEvent::V_S>();
    return lane.GetValue(0);
}
"""
LANE_STEP = """
template <char fold, typename T>
__aicore__ inline T LaneStep(T a, T b) {
    if constexpr (fold == '>') return a > b || a != a ? a : b;
    else if constexpr (fold == '<') return a < b || a != a ? a : b;
    else if constexpr (fold == '*') return static_cast<T>(a * b);
    else if constexpr (fold == '|') return static_cast<T>(static_cast<int64_t>(a) | static_cast<int64_t>(b));
    else if constexpr (fold == '&') return static_cast<T>(static_cast<int64_t>(a) & static_cast<int64_t>(b));
    else return static_cast<T>(a + b);
}
template <typename T>
__aicore__ inline auto Wide(T x) {
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) return static_cast<float>(x);
    else return x;
}
"""
REDUCE_LANES = """
// dst[o, i] = the fold of src[o, :, i]: halves against halves while their number is even, then one after the other.
template <char fold, typename T>
__aicore__ inline void ReduceLanes(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& room, uint32_t outer, uint32_t extent, uint32_t inner) {
    for (uint32_t o = 0; o < outer; o++)
        for (uint32_t i = 0; i < inner; i++) {
            for (uint32_t k = 0; k < extent; k++) room.SetValue(k, src.GetValue((o * extent + k) * inner + i));
            uint32_t n = extent;
            while (n % 2 == 0) {
                n /= 2;
                for (uint32_t k = 0; k < n; k++) room.SetValue(k, static_cast<T>(LaneStep<fold>(Wide(room.GetValue(k)), Wide(room.GetValue(k + n)))));
            }
            auto sum = Wide(room.GetValue(0));
            for (uint32_t k = 1; k < n; k++) sum = LaneStep<fold>(sum, Wide(room.GetValue(k)));
            dst.SetValue(o * inner + i, static_cast<T>(sum));
        }
}
"""
SCAN_LANES = """
// Running folds along the middle axis, one after the other.
template <char fold, bool reverse, typename T>
__aicore__ inline void ScanLanes(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t outer, uint32_t extent, uint32_t inner) {
    for (uint32_t o = 0; o < outer; o++)
        for (uint32_t i = 0; i < inner; i++) {
            const uint32_t first = reverse ? extent - 1 : 0;
            T sum = src.GetValue((o * extent + first) * inner + i);
            dst.SetValue((o * extent + first) * inner + i, sum);
            for (uint32_t k = 1; k < extent; k++) {
                const uint32_t at = (o * extent + (reverse ? extent - 1 - k : k)) * inner + i;
                sum = LaneStep<fold>(sum, src.GetValue(at));
                dst.SetValue(at, sum);
            }
        }
}
"""
SORT_LANES = """
// Every line along the middle axis in order.
template <bool descending, typename T>
__aicore__ inline void SortLanes(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t outer, uint32_t extent, uint32_t inner) {
    for (uint32_t o = 0; o < outer; o++)
        for (uint32_t i = 0; i < inner; i++) {
            const uint32_t begin = o * extent * inner + i;
            for (uint32_t k = 0; k < extent; k++) dst.SetValue(begin + k * inner, src.GetValue(begin + k * inner));
            uint32_t gap = 1;
            while (gap < extent / 3) gap = 3 * gap + 1;
            for (; gap > 0; gap /= 3)
                for (uint32_t k = gap; k < extent; k++) {
                    const T x = dst.GetValue(begin + k * inner);
                    uint32_t j = k;
                    for (; j >= gap; j -= gap) {
                        const T y = dst.GetValue(begin + (j - gap) * inner);
                        if (descending ? !(Wide(y) < Wide(x)) : !(Wide(x) < Wide(y))) break;
                        dst.SetValue(begin + j * inner, y);
                    }
                    dst.SetValue(begin + j * inner, x);
                }
        }
}
"""
HISTOGRAM = """
__aicore__ inline void Histogram(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& src, uint32_t bins, uint32_t count) {
    for (uint32_t k = 0; k < bins; k++) dst.SetValue(k, 0);
    for (uint32_t k = 0; k < count; k++) {
        const int32_t bin = src.GetValue(k);
        if (bin >= 0 && bin < static_cast<int32_t>(bins)) dst.SetValue(bin, dst.GetValue(bin) + 1);
    }
}
"""
REPEAT_NUMBERS = """
// Row r of dst holds number r of v in every lane.
template <typename T>
__aicore__ inline void RepeatNumbers(const LocalTensor<T>& dst, const LocalTensor<T>& v, const LocalTensor<T>& blocks, uint32_t rows, uint32_t width) {
    constexpr uint32_t lanes = 256 / sizeof(T), perBlock = 32 / sizeof(T);
    for (uint32_t r = 0; r < rows; r += 8 * 248) Brcb(blocks[r * perBlock], v[r], (rows - r < 8 * 248 ? rows - r + 7 : 8 * 248) / 8, {1, 8});
    if (width % perBlock == 0 && width <= lanes) {
        for (uint32_t r = 0; r < rows; r += 248)
            Copy(dst[r * width], blocks[r * perBlock], width, rows - r < 248 ? rows - r : 248, {1, 0, static_cast<uint16_t>(width / perBlock), 1});
        return;
    }
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t full = width / lanes, tail = width % lanes;
        for (uint32_t done = 0; done < full; done += 248) Copy(dst[r * width + done * lanes], blocks[r * perBlock], lanes, full - done < 248 ? full - done : 248, {1, 0, 8, 0});
        if (tail > 0) Copy(dst[r * width + full * lanes], blocks[r * perBlock], tail, 1, {1, 0, 8, 0});
    }
}
"""
REPEAT_BLOCK = """
// `times` copies of `count` lanes one behind the other, doubled in every step.
template <typename T>
__aicore__ inline void RepeatBlock(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t times, uint32_t count) {
    DataCopy(dst, src, count);
    for (uint32_t have = 1; have < times; have *= 2) DataCopy(dst[have * count], dst, (times - have < have ? times - have : have) * count);
}
"""
# Calls -> the functions that they need, in order.
NEEDS = {
    "Sync": (SYNC,), "Fill": (FILL,), "LoadRows": (LOAD_ROWS,), "Put": (SYNC, PUT), "StoreRows": (STORE_ROWS,), "StoreParts": (SYNC, PUT, STORE_ROWS, STORE_PARTS), "OnLane": (SYNC, ON_LANE), "Clip": (CLIP,),
    "ReduceLanes": (LANE_STEP, REDUCE_LANES), "ScanLanes": (LANE_STEP, SCAN_LANES), "SortLanes": (LANE_STEP, SORT_LANES), "Histogram": (HISTOGRAM,),
    "RepeatNumbers": (REPEAT_NUMBERS,), "RepeatBlock": (REPEAT_BLOCK,),
}  # fmt: skip
