// Loads into L0A and L0B: 2D (fractal by fractal), transposed, 3D (im2col), and constant fill.
// Pages: LoadData_2D, LoadData_2D_V2, LoadDataWithTranspose, LoadData_3D, Fill, SetFmatrix.
#pragma once

#include "load_params.h"

namespace toprope {

inline constexpr Op kOpLoadDataA{"LoadData", Pipe::mte1, Kind::copy, "l1_to_l0a"};
inline constexpr Op kOpLoadDataB{"LoadData", Pipe::mte1, Kind::copy, "l1_to_l0b"};
inline constexpr Op kOpLoadDataGm{"LoadData", Pipe::mte2, Kind::copy, "gm_to_l1"};
inline constexpr Op kOpTransposeA{"LoadDataWithTranspose", Pipe::mte1, Kind::copy, "l1_to_l0a_transpose"};
inline constexpr Op kOpTransposeB{"LoadDataWithTranspose", Pipe::mte1, Kind::copy, "l1_to_l0b_transpose"};
inline constexpr Op kOpLoad3dA{"LoadData", Pipe::mte1, Kind::copy, "l1_to_l0a_3d"};
inline constexpr Op kOpLoad3dB{"LoadData", Pipe::mte1, Kind::copy, "l1_to_l0b_3d"};
inline constexpr Op kOpFillL0{"Fill", Pipe::mte1, Kind::compute, "fill_l0"};
inline constexpr Op kOpFillL1{"Fill", Pipe::mte2, Kind::compute, "fill_l1"};

inline bool require_l0(const Op& op, Space space, Site site) {
    if (space == Space::l0a || space == Space::l0b) return true;
    report("wrong-position", site, &op, "%s: dst is in %s; it must be in L0A or L0B (A2, B2)", op.name,
           kSpaceNames[static_cast<int>(space)]);
    return false;
}

// The square matrix of `side` elements that transposing loads work on: `fractals` fractals joined, transposed, split again.
template <typename T>
struct Square {
    static constexpr uint32_t kSide = kElementBits<T> == 4 ? 64 : (sizeof(T) == 1 ? 32 : 16);
    static constexpr uint32_t kFractals = kElementBits<T> == 4 ? 4 : (sizeof(T) == 2 ? 1 : 2);
    // Element (row, column) in the joined fractals: 4- and 8-bit fractals are stacked, 32-bit ones stand side by side.
    static uint64_t at(uint32_t row, uint32_t column, const uint64_t (&fractal)[4]) {
        constexpr uint32_t k0 = kK0<T>;
        const uint32_t f = sizeof(T) == 4 ? column / k0 : row / 16;
        return fractal[f] * 8 / kElementBits<T> + row % 16 * k0 + column % k0;
    }
};

template <typename T>
void copy_element(uint8_t* to, uint64_t to_index, const uint8_t* from, uint64_t from_index) {
    if constexpr (kElementBits<T> == 4) {
        const auto nibble = static_cast<uint8_t>(from[from_index / 2] >> (from_index % 2 * 4) & 0xf);
        uint8_t& byte = to[to_index / 2];
        byte = static_cast<uint8_t>(to_index % 2 ? (byte & 0x0f) | (nibble << 4) : (byte & 0xf0) | nibble);
    } else {
        std::memcpy(to + to_index * sizeof(T), from + from_index * sizeof(T), sizeof(T));
    }
}

template <typename T>
void transpose_square(uint8_t* to, const uint64_t (&to_fractal)[4], const uint8_t* from, const uint64_t (&from_fractal)[4]) {
    using S = Square<T>;
    for (uint32_t r = 0; r < S::kSide; ++r)
        for (uint32_t c = 0; c < S::kSide; ++c) copy_element<T>(to, S::at(c, r, to_fractal), from, S::at(r, c, from_fractal));
}

// From the lowest to the end of the highest fractal that `repeats` steps touch; a negative step walks down from `start`.
struct FractalRange {
    int64_t first;
    uint64_t count;
};
inline FractalRange fractal_range(int64_t start, uint32_t repeats, int64_t step, uint32_t each) {
    const int64_t last = start + step * (static_cast<int64_t>(repeats) - 1);
    const int64_t low = start < last ? start : last, high = start < last ? last : start;
    return {low, static_cast<uint64_t>(high - low) + each};
}

template <typename T, typename Source>
void load_2d(const Op& op, const AscendC::LocalTensor<T>& dst, const Source* src_host, uint64_t src_address, Space src_space,
             const AscendC::LoadData2DParams& p, Site site) {
    const int64_t step = p.addrMode != 0 ? -int64_t{p.srcStride} : p.srcStride;
    const uint64_t span = (uint64_t{p.repeatTimes} * (1 + p.dstGap) - p.dstGap) * kFractalBytes;
    if (!require_operand(op, "dst", dst, span, dst.space() == Space::l1 ? 32 : 512, site)) return;
    Instr& instr = record(op, site, p.repeatTimes, static_cast<uint32_t>(dtype_of<T>) | static_cast<uint32_t>(p.ifTranspose) << 9);
    const int64_t first = p.addrMode != 0 ? p.startIndex + step * (p.repeatTimes - 1) : p.startIndex;
    touch(instr, src_space, Mode::read, src_address + static_cast<uint64_t>(first * static_cast<int64_t>(kFractalBytes)), kFractalBytes,
          p.repeatTimes, int64_t{p.srcStride} * kFractalBytes);
    touch(instr, dst.space(), Mode::write, dst.address(), kFractalBytes, p.repeatTimes, int64_t{1 + p.dstGap} * kFractalBytes);
    if (TOPROPE_UNLIKELY(capturing)) {
        const auto from = static_cast<int64_t>(src_address) + p.startIndex * int64_t{kFractalBytes};
        const int64_t from_step = step * kFractalBytes, to_step = int64_t{1 + p.dstGap} * kFractalBytes;
        if (p.ifTranspose)
            keep_numbers({kKeptLoops, from, dst.address(), 2, p.repeatTimes, from_step, to_step, 16, 32, 2, 16, 2, 32});
        else
            keep_numbers({kKeptLoops, from, dst.address(), kFractalBytes, p.repeatTimes, from_step, to_step});
    }
    if (!self->execute) return;
    for (uint32_t r = 0; r < p.repeatTimes; ++r) {
        const auto* from = reinterpret_cast<const uint8_t*>(src_host) + (p.startIndex + step * r) * static_cast<int64_t>(kFractalBytes);
        uint8_t* to = dst.host() + uint64_t{r} * (1 + p.dstGap) * kFractalBytes;
        if (!p.ifTranspose)
            std::memcpy(to, from, kFractalBytes);
        else
            transpose_16x16(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const uint16_t*>(from));
    }
}

// ---- im2col ----------------------------------------------------------------------------------------------------------------

struct FeatureMap {
    uint32_t h, w, pad_left, pad_right, pad_top, pad_bottom;
    static FeatureMap load() {
        const uint64_t v = self->registers[kRegFmatrix];
        return {static_cast<uint32_t>(v & 0xffff),     static_cast<uint32_t>(v >> 16 & 0xffff), static_cast<uint32_t>(v >> 32 & 0xff),
                static_cast<uint32_t>(v >> 40 & 0xff), static_cast<uint32_t>(v >> 48 & 0xff),   static_cast<uint32_t>(v >> 56 & 0xff)};
    }
    static void store(uint32_t h, uint32_t w, const uint8_t* pad) {
        self->registers[kRegFmatrix] =
            h | uint64_t{w} << 16 | uint64_t{pad[0]} << 32 | uint64_t{pad[1]} << 40 | uint64_t{pad[2]} << 48 | uint64_t{pad[3]} << 56;
    }
};

// SetLoadDataRepeat: how often a 3D load runs, and how far apart. The register holds times + 1, so that 0 is the state of a fresh core.
struct LoadRepeat {
    uint32_t times;
    uint16_t stride;
    bool along_k;
    static LoadRepeat load() {
        const uint64_t v = self->registers[kRegLoadRepeat];
        return {v == 0 ? 1 : static_cast<uint32_t>(v & 0xffff) - 1, static_cast<uint16_t>(v >> 16), (v >> 32 & 1) != 0};
    }
    void store() const { self->registers[kRegLoadRepeat] = (times + 1) | uint64_t{stride} << 16 | static_cast<uint64_t>(along_k) << 32; }
};

struct Im2col {
    FeatureMap map;
    uint32_t channels, stride_w, stride_h, filter_w, filter_h, dilation_w, dilation_h;
    uint32_t out_w, out_h;
    // Index of the source element of (m, k) in NC1HWC0 order, or -1 for padding.
    int64_t source(uint32_t m, uint32_t k, uint32_t c0) const {
        const uint32_t lane = k % c0, tap = k / c0, kw = tap % filter_w, kh = tap / filter_w % filter_h, c1 = tap / (filter_w * filter_h);
        const int64_t y = int64_t{m / out_w} * stride_h + int64_t{kh} * dilation_h - map.pad_top;
        const int64_t x = int64_t{m % out_w} * stride_w + int64_t{kw} * dilation_w - map.pad_left;
        if (y < 0 || x < 0 || y >= map.h || x >= map.w || m / out_w >= out_h) return -1;
        return ((int64_t{c1} * map.h + y) * map.w + x) * c0 + lane;
    }
};

// What part of the im2col matrix is loaded. Repeats take blocks of m (or k) that begin `jump` apart and put them next to each other.
struct LoadExtent {
    uint32_t k, m, k_start, m_start;
    bool transpose;
    uint32_t m_block, m_jump, k_block, k_jump;
    LoadExtent(uint32_t k_, uint32_t m_, uint32_t k_start_, uint32_t m_start_, bool transpose_)
        : k(k_), m(m_), k_start(k_start_), m_start(m_start_), transpose(transpose_), m_block(m_), m_jump(0), k_block(k_), k_jump(0) {}
    uint32_t row(uint32_t i) const { return m_start + (m_jump == 0 ? i : i / m_block * m_jump + i % m_block); }
    uint32_t column(uint32_t i) const { return k_start + (k_jump == 0 ? i : i / k_block * k_jump + i % k_block); }
    bool repeats() const { return m_jump != 0 || k_jump != 0; }
};

// A plain matrix (1x1 filter) into L0A as it is, or 16-bit elements turned: whole fractals at a time. False: not such a case.
template <typename T>
bool load_plain_fractals(uint8_t* to, const uint8_t* from, const Im2col& map, const LoadExtent& e, bool to_b, bool turned) {
    constexpr uint32_t c0 = kK0<T>;
    const uint32_t rows = map.map.h * map.map.w;
    if (map.filter_w != 1 || map.filter_h != 1 || map.stride_w != 1 || map.stride_h != 1 || e.repeats() || e.k_start % c0 != 0 ||
        (map.map.pad_left | map.map.pad_right | map.map.pad_top | map.map.pad_bottom) != 0)
        return false;
    if (turned && sizeof(T) != 2) return false;
    const uint32_t mf = ceil_div(e.m, 16), kf = ceil_div(e.k, c0);
    // Where fractal (i, j) of the image goes: along the rows of the matrix in L0, or down its columns (L0A of the 950).
    const auto place = [&](uint32_t i, uint32_t j) {
        const bool across = to_b || turned == kChip.l0a_column_major;
        return (across ? uint64_t{i} * kf + j : uint64_t{j} * mf + i) * kFractalBytes;
    };
    for (uint32_t i = 0; i < mf; ++i)
        for (uint32_t j = 0; j < kf; ++j) {
            const uint32_t m = e.m_start + i * 16, present = m < rows ? (rows - m < 16 ? rows - m : 16) : 0;
            const uint8_t* source = from + (uint64_t{e.k_start / c0 + j} * rows + m) * 32;
            uint8_t fractal[kFractalBytes];
            if (present < 16) {
                std::memset(fractal, 0, sizeof fractal);
                std::memcpy(fractal, source, present * 32);
                source = fractal;
            }
            if (!turned)
                std::memcpy(to + place(i, j), source, kFractalBytes);
            else
                transpose_16x16(reinterpret_cast<uint16_t*>(to + place(i, j)), reinterpret_cast<const uint16_t*>(source));
        }
    return true;
}

template <typename T>
void load_3d(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Im2col& map, const LoadExtent& e, Site site) {
    const Op& op = dst.space() == Space::l0b ? kOpLoad3dB : kOpLoad3dA;
    if (self->type == CoreType::aiv || map.map.h == 0 || map.map.w == 0 || map.channels == 0 || e.k == 0 || e.m == 0 || map.filter_w == 0 ||
        map.filter_h == 0)
        return;
    if (!require_l0(op, dst.space(), site)) return;
    constexpr uint32_t c0 = kK0<T>;
    const bool to_b = dst.space() == Space::l0b, turned = to_b || e.transpose;
    // Rows and columns of the matrix in L0: im2col as it is for L0A, turned round for L0B and transposed loads.
    const uint32_t rows = to_b ? e.m : (turned ? e.k : e.m), columns = to_b ? e.k : (turned ? e.m : e.k);
    const uint32_t row_fractals = to_b ? ceil_div(rows, c0) : ceil_div(rows, 16),
                   column_fractals = to_b ? ceil_div(columns, 16) : ceil_div(columns, c0);
    const uint64_t bytes = uint64_t{row_fractals} * column_fractals * kFractalBytes;
    const uint64_t source_bytes = bytes_of<T>(uint64_t{ceil_div(map.channels, c0)} * map.map.h * map.map.w * c0);
    if (!(require_operand(op, "dst", dst, bytes, 512, site) & require_operand(op, "src", src, 0, 32, site))) return;
    if (uint64_t{src.address()} + source_bytes > self->bytes[static_cast<int>(Space::l1)]) {
        report("on-chip-out-of-bounds", site, &op, "LoadData: a feature map of %ux%u with %u channels needs %llu bytes of L1 from %u on",
               map.map.h, map.map.w, map.channels, static_cast<unsigned long long>(source_bytes), src.address());
        return;
    }
    Instr& instr =
        record(op, site, row_fractals * column_fractals, static_cast<uint32_t>(dtype_of<T>) | static_cast<uint32_t>(turned) << 9);
    // What is read: whole channel blocks for a general filter; for 1x1 filters (plain matrices) the rows and channel blocks asked for.
    if (map.filter_w == 1 && map.filter_h == 1 && map.stride_w == 1 && map.stride_h == 1 && e.k % c0 == 0 && !e.repeats()) {
        const uint32_t present = map.map.h * map.map.w > e.m_start ? map.map.h * map.map.w - e.m_start : 0;
        const uint32_t m = e.m < present ? e.m : present;
        if (m > 0)
            touch(instr, Space::l1, Mode::read, src.address() + (uint64_t{e.k_start / c0} * map.map.h * map.map.w + e.m_start) * 32,
                  uint64_t{m} * 32, e.k / c0, int64_t{map.map.h} * map.map.w * 32);
    } else {  // the channel blocks whose taps are asked for
        const uint64_t block = uint64_t{map.map.h} * map.map.w * 32;
        const uint32_t blocks = ceil_div(map.channels, c0), columns_of_block = map.filter_w * map.filter_h * c0;
        const uint32_t first = e.repeats() ? 0 : e.k_start / columns_of_block;
        const uint32_t end = e.repeats() ? blocks : ceil_div(e.k_start + e.k, columns_of_block);
        const uint32_t last = end < blocks ? end : blocks;
        if (first < last) touch(instr, Space::l1, Mode::read, src.address() + first * block, (last - first) * block, 1, 0, false, true);
    }
    touch(instr, dst.space(), Mode::write, dst.address(), bytes);
    if (TOPROPE_UNLIKELY(capturing))
        keep_numbers(
            {kKeptImage,   src.address(),  dst.address(),   kElementBits<T>,  rows,         columns,      to_b,         turned,
             map.map.h,    map.map.w,      map.map.pad_top, map.map.pad_left, map.channels, map.stride_w, map.stride_h, map.filter_w,
             map.filter_h, map.dilation_w, map.dilation_h,  map.out_w,        map.out_h,    e.k_start,    e.m_start,    e.m_block,
             e.m_jump,     e.k_block,      e.k_jump});
    if (!self->execute) return;
    const T pad = [] {
        T v;
        std::memcpy(static_cast<void*>(&v), &self->registers[kRegLoadPadValue], sizeof v);
        return v;
    }();
    const uint8_t* from = src.host();
    uint8_t* to = dst.host();
    if (load_plain_fractals<T>(to, from, map, e, to_b, turned)) return;
    const uint32_t channels = ceil_div(map.channels, c0) * c0 * map.filter_w * map.filter_h;
    for (uint32_t r = 0; r < (to_b ? row_fractals * c0 : row_fractals * 16); ++r)
        for (uint32_t c = 0; c < (to_b ? column_fractals * 16 : column_fractals * c0); ++c) {
            // L0A: zZ (950: its fractals down the columns), L0B: nZ (inside a fractal the columns are the slow axis).
            const uint64_t fractal =
                to_b ? uint64_t{r / c0} * column_fractals + c / 16
                     : (kChip.l0a_column_major ? uint64_t{c / c0} * row_fractals + r / 16 : uint64_t{r / 16} * column_fractals + c / c0);
            const uint64_t index = fractal * 16 * c0 + (to_b ? c % 16 * c0 + r % c0 : r % 16 * c0 + c % c0);
            const uint32_t m = e.row(to_b ? r : (turned ? c : r)), k = e.column(to_b ? c : (turned ? r : c));
            const int64_t at = k < channels ? map.source(m, k, c0) : -1;
            if (at >= 0)
                copy_element<T>(to, index, from, static_cast<uint64_t>(at));
            else
                copy_element<T>(to, index, reinterpret_cast<const uint8_t*>(&pad), 0);
        }
}

}  // namespace toprope

namespace AscendC {

//: LoadData | load fractals (2D), im2col (3D) or from GM into L1/L0 | half bfloat16_t float int8_t uint8_t int32_t int4b_t | A2 A3 310P | LoadData_2D, LoadData_3D
template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& p, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    const Op& op = dst.space() == Space::l0b ? kOpLoadDataB : kOpLoadDataA;
    if (self->type == CoreType::aiv || p.repeatTimes == 0 || !require_l0(op, dst.space(), site)) return;
    if (p.ifTranspose && sizeof(T) != 2) {
        report("transpose-needs-16-bit", site, &op, "LoadData with ifTranspose works on 16-bit elements only; use LoadDataWithTranspose");
        return;
    }
    const int64_t start = p.startIndex, step = p.addrMode != 0 ? -int64_t{p.srcStride} : p.srcStride;
    const FractalRange range = fractal_range(start, p.repeatTimes, step, 1);
    if (range.first < 0 || !require_operand(op, "src", src, (static_cast<uint64_t>(range.first) + range.count) * kFractalBytes, 32, site))
        return;
    load_2d<T>(op, dst, src.host(), src.address(), Space::l1, p, site);
}
template <typename T>
void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& p,
              toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (self->type == CoreType::aiv || p.repeatTimes == 0) return;
    const int64_t start = p.startIndex, step = p.addrMode != 0 ? -int64_t{p.srcStride} : p.srcStride;
    const FractalRange range = fractal_range(start, p.repeatTimes, step, 1);
    const auto* base = reinterpret_cast<const uint8_t*>(src.pointer());
    if (gm_address(base + range.first * static_cast<int64_t>(kFractalBytes), range.count * kFractalBytes, kOpLoadDataGm, site, false) == 0)
        return;
    load_2d<T>(kOpLoadDataGm, dst, base, gm_address(base, 1, kOpLoadDataGm, site, false), Space::gm, p, site);
}

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParamsV2& p,
              toprope::Site site = toprope::Site::here()) {
    // The V2 form walks K outside and M inside; each K step is one run of fractals.
    for (uint32_t k = 0; k < p.kStep; ++k) {
        LoadData2DParams run;
        run.startIndex = static_cast<uint16_t>((p.kStartPosition + k) * static_cast<uint32_t>(p.srcStride) + p.mStartPosition);
        run.repeatTimes = static_cast<uint8_t>(p.mStep);
        run.srcStride = 1;
        run.ifTranspose = p.ifTranspose;
        LoadData(dst[k * p.dstStride * toprope::kFractalBytes * 8 / toprope::kElementBits<T>], src, run, site);
    }
}

template <typename T, const IsResetLoad3dConfig& defaultConfig = IS_RESER_LOAD3D_DEFAULT_CONFIG>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData3DParamsV2<T>& p,
              toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if constexpr (defaultConfig.isSetFMatrix) FeatureMap::store(p.l1H, p.l1W, p.padList);
    if constexpr (defaultConfig.isSetPadding) std::memcpy(&self->registers[kRegLoadPadValue], &p.padValue, sizeof(T));
    Im2col map{FeatureMap::load(),
               p.channelSize,
               p.strideW,
               p.strideH,
               p.filterW + (p.filterSizeW ? 256u : 0u),
               p.filterH + (p.filterSizeH ? 256u : 0u),
               p.dilationFilterW,
               p.dilationFilterH,
               0,
               0};
    const auto outputs = [](uint32_t size, uint32_t pads, uint32_t filter, uint32_t dilation, uint32_t stride) {
        const uint32_t reach = dilation * (filter - 1) + 1;
        return size + pads < reach || stride == 0 ? 1u : (size + pads - reach) / stride + 1;
    };
    if (map.filter_w != 0 && map.filter_h != 0) {
        map.out_w = outputs(map.map.w, map.map.pad_left + map.map.pad_right, map.filter_w, map.dilation_w, map.stride_w);
        map.out_h = outputs(map.map.h, map.map.pad_top + map.map.pad_bottom, map.filter_h, map.dilation_h, map.stride_h);
    }
    LoadExtent extent(p.kExtension, p.mExtension, p.kStartPt, p.mStartPt, p.enTranspose && sizeof(T) >= 2);
    const LoadRepeat repeat = LoadRepeat::load();
    if (repeat.times == 0) return;
    if (repeat.times > 1 && !repeat.along_k) {
        extent.m *= repeat.times;
        extent.m_jump = uint32_t{repeat.stride} * 16;
    } else if (repeat.times > 1) {
        extent.k *= repeat.times;
        extent.k_jump = uint32_t{repeat.stride} * kK0<T>;
    }
    load_3d(dst, src, map, extent, site);
}
template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData3DParamsV2Pro& p,
              toprope::Site site = toprope::Site::here()) {
    LoadData3DParamsV2<T> full;
    full.channelSize = p.channelSize;
    full.enTranspose = p.enTranspose;
    full.filterSizeW = p.filterSizeW;
    full.filterSizeH = p.filterSizeH;
    full.kExtension = static_cast<uint16_t>(p.extConfig);
    full.mExtension = static_cast<uint16_t>(p.extConfig >> 16);
    full.kStartPt = static_cast<uint16_t>(p.extConfig >> 32);
    full.mStartPt = static_cast<uint16_t>(p.extConfig >> 48);
    full.strideW = static_cast<uint8_t>(p.filterConfig);
    full.strideH = static_cast<uint8_t>(p.filterConfig >> 8);
    full.filterW = static_cast<uint8_t>(p.filterConfig >> 16);
    full.filterH = static_cast<uint8_t>(p.filterConfig >> 24);
    full.dilationFilterW = static_cast<uint8_t>(p.filterConfig >> 32);
    full.dilationFilterH = static_cast<uint8_t>(p.filterConfig >> 40);
    static constexpr IsResetLoad3dConfig kFromRegisters = {false, false};
    LoadData<T, kFromRegisters>(dst, src, full, site);
}

template <typename T>
void LoadData(const LocalTensor<T>&, const LocalTensor<T>&, const LoadData3DParamsV1<T>&) {
    static_assert(sizeof(T) == 0,
                  "LoadData with LoadData3DParamsV1: A2 and A3 do not have it, and other chips' is not supported; use LoadData3DParamsV2");
}

//: LoadDataWithTranspose | load and transpose squares of fractals from L1 into L0A or L0B | half bfloat16_t float int32_t uint32_t int8_t uint8_t int4b_t | A2 A3 | LoadDataWithTranspose
template <typename T>
void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2dTransposeParams& p,
                           toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    using S = Square<T>;
    const Op& op = dst.space() == Space::l0b ? kOpTransposeB : kOpTransposeA;
    if (self->type == CoreType::aiv || p.repeatTimes == 0 || !require_l0(op, dst.space(), site)) return;
    const int64_t step = p.addrMode != 0 ? -int64_t{p.srcStride} : p.srcStride;
    const FractalRange range = fractal_range(p.startIndex, p.repeatTimes, step, 1);
    constexpr uint64_t kSquare = uint64_t{S::kFractals} * kFractalBytes;
    const uint64_t inner = uint64_t{S::kFractals - 1} * (1 + p.dstFracGap) + 1;
    const uint64_t span = (uint64_t{p.repeatTimes - 1u} * (1 + p.dstGap) + inner) * kFractalBytes;
    if (range.first < 0 || !(require_operand(op, "src", src, (static_cast<uint64_t>(range.first) + range.count) * kSquare, 32, site) &
                             require_operand(op, "dst", dst, span, 512, site)))
        return;
    Instr& instr = record(op, site, p.repeatTimes * S::kFractals, static_cast<uint32_t>(dtype_of<T>) | 1u << 9);
    touch(instr, Space::l1, Mode::read, src.address() + static_cast<uint64_t>(range.first) * kSquare, kSquare, p.repeatTimes,
          int64_t{p.srcStride} * static_cast<int64_t>(kSquare));
    const bool outer = S::kFractals > 1 && p.repeatTimes > 1;
    const int64_t between = int64_t{1 + p.dstGap} * kFractalBytes;
    touch(instr, dst.space(), Mode::write, dst.address(), kFractalBytes, S::kFractals > 1 ? S::kFractals : p.repeatTimes,
          S::kFractals > 1 ? int64_t{1 + p.dstFracGap} * kFractalBytes : between, outer);
    if (outer) touch(instr, dst.space(), Mode::write, 0, 0, p.repeatTimes, between);
    if (TOPROPE_UNLIKELY(capturing)) {  // narrower elements hold no rounded numbers
        const auto from = src.address() + static_cast<int64_t>(p.startIndex * kSquare), from_step = step * static_cast<int64_t>(kSquare);
        const int64_t fractal = int64_t{1 + p.dstFracGap} * kFractalBytes;
        if (sizeof(T) == 2) keep_numbers({kKeptLoops, from, dst.address(), 2, p.repeatTimes, from_step, between, 16, 32, 2, 16, 2, 32});
        if (sizeof(T) == 4)
            keep_numbers({kKeptLoops, from, dst.address(), 4, p.repeatTimes, from_step, between, 2, 256, fractal, 8, 32, 4, 2,
                          kFractalBytes, 256, 8, 4, 32});
    }
    if (!self->execute) return;
    for (uint32_t r = 0; r < p.repeatTimes; ++r) {
        uint64_t from[4] = {}, to[4] = {};
        for (uint32_t f = 0; f < S::kFractals; ++f) {
            from[f] = static_cast<uint64_t>(p.startIndex + step * r) * kSquare + uint64_t{f} * kFractalBytes;
            to[f] = (uint64_t{r} * (1 + p.dstGap) + uint64_t{f} * (1 + p.dstFracGap)) * kFractalBytes;
        }
        transpose_square<T>(dst.host(), to, src.host(), from);
    }
}

//: Fill, InitConstValue | set L1, L0A or L0B blocks to one value | half bfloat16_t int16_t uint16_t float int32_t uint32_t | A2 A3 310P | Fill
template <typename T>
void Fill(const LocalTensor<T>& dst, const InitConstValueParams<T>& p, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    const bool l1 = dst.space() == Space::l1;
    const Op& op = l1 ? kOpFillL1 : kOpFillL0;
    const uint32_t unit = l1 ? 32 : kFractalBytes, blocks = p.blockNum != 0 || toprope::kChip.a2_types ? p.blockNum : 1;
    if (self->type == CoreType::aiv || p.repeatTimes == 0 || blocks == 0) return;
    const uint64_t span = (uint64_t{p.repeatTimes} * (blocks + p.dstGap) - p.dstGap) * unit;
    if (!require_operand(op, "dst", dst, span, unit, site)) return;
    Instr& instr = record(op, site, p.repeatTimes, static_cast<uint32_t>(dtype_of<T>));
    touch(instr, dst.space(), Mode::write, dst.address(), uint64_t{blocks} * unit, p.repeatTimes, int64_t{blocks + p.dstGap} * unit);
    if (!self->execute) return;
    for (uint32_t r = 0; r < p.repeatTimes; ++r) {
        T* to = reinterpret_cast<T*>(dst.host() + uint64_t{r} * (blocks + p.dstGap) * unit);
        for (uint64_t i = 0; i < uint64_t{blocks} * unit / sizeof(T); ++i) to[i] = p.initValue;
    }
}
template <typename T>
void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<T>& p, toprope::Site site = toprope::Site::here()) {
    Fill(dst, p, site);
}

//: SetFmatrix, SetLoadDataPaddingValue, SetLoadDataBoundary, SetLoadDataRepeat | registers of the 3D load: feature map, padding, repeat | - | A2 A3 310P | SetFmatrix
inline void SetFmatrix(uint16_t l1H, uint16_t l1W, const uint8_t padList[4], const FmatrixMode& fmatrixMode,
                       toprope::Site = toprope::Site::here()) {
    if (fmatrixMode == FmatrixMode::FMATRIX_LEFT) toprope::FeatureMap::store(l1H, l1W, padList);
}
template <typename T>
void SetLoadDataPaddingValue(const T padValue) {
    std::memcpy(&toprope::self->registers[toprope::kRegLoadPadValue], &padValue, sizeof(T));
}
inline void SetLoadDataBoundary(uint32_t) {}
inline void SetLoadDataRepeat(const LoadDataRepeatParam& p) {
    toprope::LoadRepeat{p.repeatTime, p.repeatStride, p.repeatMode == 1}.store();
}

}  // namespace AscendC
