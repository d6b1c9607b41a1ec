// Register programming of the 950 (AscendC::Reg): vector, mask, address and unaligned registers, and what every instruction on them does.
// Pages: 基础API/Reg矢量计算/{寄存器数据类型,辅助数据类型,VF调用,同步控制}. Registers are values of the host program; an instruction
// computes at once, is recorded on pipe V, and touches UB where it loads or stores.
#pragma once

#include "../machine/vector.h"

namespace toprope {

inline constexpr uint32_t kRegisterLength = 256;  // VL, bytes of a vector register
inline constexpr uint32_t kMaskBits = 256;

// What a store of this vector function wrote and no LocalMemBar has ordered before later loads.
struct PendingStore {
    uint32_t begin, end;
    const void* source;
};
// Of the running core; a vector function is one after the other on it.
struct VectorFunction {
    static constexpr uint32_t kMost = 64;
    PendingStore stores[kMost];
    uint32_t count = 0;
    uint32_t squeezed_bytes = 0;  // AR
    uint32_t stored_bytes = 0;    // of those, what StoreUnAlign has stored
    void store(uint32_t begin, uint32_t end, const void* source) {
        for (uint32_t i = 0; i < count; ++i)
            if (stores[i].end == begin && stores[i].source == source) {
                stores[i].end = end;
                return;
            }
        if (count == kMost) {  // the oldest is forgotten: what is not checked here is at most a finding too few
            std::memmove(stores, stores + 1, sizeof(PendingStore) * (kMost - 1));
            --count;
        }
        stores[count++] = {begin, end, source};
    }
    const PendingStore* stored(uint32_t begin, uint32_t end, const void* target) const {
        for (uint32_t i = 0; i < count; ++i)
            if (stores[i].begin < end && begin < stores[i].end && stores[i].source != target) return &stores[i];
        return nullptr;
    }
};
inline VectorFunction& vector_function() {
    static VectorFunction functions[256];
    return functions[self->index % 256];
}

inline constexpr Op kVectorFunction{"vector function", Pipe::v, Kind::compute, "reg_function"};
inline constexpr Op kRegBarrier{"Reg::LocalMemBar", Pipe::v, Kind::compute, "reg_barrier"};

// A vector function begins: its start costs once, and what earlier functions stored is visible.
inline void begin_vector_function(Site site) {
    record(kVectorFunction, site, 1, 0);
    vector_function().count = 0;
}
// `for` runs its body once; the macro __VEC_SCOPE__ stands before a block.
struct VectorScope {
    bool first = true;
    explicit VectorScope(Site site) { begin_vector_function(site); }
    bool once() {
        const bool now = first;
        first = false;
        return now;
    }
};

}  // namespace toprope

#define __VEC_SCOPE__ for (toprope::VectorScope toprope_scope(toprope::Site{__FILE__, __LINE__}); toprope_scope.once();)

namespace AscendC {
namespace Reg {

struct DefaultType {};
struct RegTrait {
    int REG_NUM = 1;
};
inline constexpr RegTrait RegTraitNumOne{1}, RegTraitNumTwo{2};

enum class MaskMergeMode { UNKNOWN, MERGING, ZEROING };
enum class PostLiteral { POST_MODE_NORMAL, POST_MODE_UPDATE };
enum class RegLayout { UNKNOWN = -1, ZERO, ONE, TWO, THREE };
enum class SatMode { UNKNOWN = -1, NO_SAT, SAT };
enum class HighLowPart { LOWEST, HIGHEST };
enum class DataCopyMode { NORM, DATA_BLOCK_COPY };
enum class MemType { VEC_STORE, VEC_LOAD, SCALAR_STORE, SCALAR_LOAD, VEC_ALL, SCALAR_ALL };
enum class MaskDist { DIST_NORM, DIST_US, DIST_DS, DIST_PACK };
enum class GatherMaskMode { NO_STORE_REG, STORE_REG };
enum class SpecialPurposeReg { AR };
enum class IndexOrder { INCREASE_ORDER, DECREASE_ORDER };
enum class ReduceType { SUM, MAX, MIN };
enum class PairReduce { SUM };
enum class HistogramsBinType { BIN0, BIN1 };
enum class HistogramsType { FREQUENCY, ACCUMULATE };
enum class MaskPattern { ALL, VL1, VL2, VL3, VL4, VL8, VL16, VL32, VL64, VL128, M3, M4, H, Q, ALLF = 15 };
enum class LoadDist {
    DIST_NORM,
    DIST_BRC_B8,
    DIST_BRC_B16,
    DIST_BRC_B32,
    DIST_US_B8,
    DIST_US_B16,
    DIST_DS_B8,
    DIST_DS_B16,
    DIST_UNPACK_B8,
    DIST_UNPACK_B16,
    DIST_UNPACK_B32,
    DIST_UNPACK4_B8,
    DIST_BLK,
    DIST_E2B_B16,
    DIST_E2B_B32,
    DIST_DINTLV_B8,
    DIST_DINTLV_B16,
    DIST_DINTLV_B32
};
enum class StoreDist {
    DIST_NORM,
    DIST_NORM_B8,
    DIST_NORM_B16,
    DIST_NORM_B32,
    DIST_FIRST_ELEMENT_B8,
    DIST_FIRST_ELEMENT_B16,
    DIST_FIRST_ELEMENT_B32,
    DIST_PACK_B16,
    DIST_PACK_B32,
    DIST_PACK_B64,
    DIST_PACK4_B32,
    DIST_INTLV_B8,
    DIST_INTLV_B16,
    DIST_INTLV_B32
};
struct CastTrait {
    RegLayout layoutMode = RegLayout::UNKNOWN;
    SatMode satMode = SatMode::UNKNOWN;
    MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
    RoundMode roundMode = RoundMode::CAST_NONE;
};
inline constexpr CastTrait castTrait{};

// A vector register. `defined` is ours: an instruction that reads a register which none has written is a mistake of the kernel.
// Two registers hold 64-bit elements side by side here; on the chip their halves lie apart.
template <typename T, const RegTrait& regTrait = RegTraitNumOne>
struct RegTensor {
    using ActualT = T;
    static constexpr const RegTrait& trait = regTrait;
    static constexpr uint32_t kBytes = toprope::kRegisterLength * static_cast<uint32_t>(regTrait.REG_NUM);
    static constexpr uint32_t kCount = kBytes / sizeof(T);
    static constexpr uint32_t kStep = toprope::kMaskBits / kCount;  // mask bits of an element
    static_assert(regTrait.REG_NUM == 1 || sizeof(T) == 8, "RegTensor: two registers hold 64-bit elements; complex32 is not modelled");
    alignas(64) uint8_t bytes[kBytes];
    bool defined = false;
    T* data() { return reinterpret_cast<T*>(bytes); }
    const T* data() const { return reinterpret_cast<const T*>(bytes); }
};

// 256 bits; an element of n bytes has the lowest of n bits.
struct MaskReg {
    uint64_t words[4] = {};
    bool get(uint32_t bit) const { return (words[bit >> 6] >> (bit & 63)) & 1u; }
    void set(uint32_t bit, bool on = true) {
        const uint64_t one = uint64_t{1} << (bit & 63);
        words[bit >> 6] = on ? words[bit >> 6] | one : words[bit >> 6] & ~one;
    }
};
struct AddrReg {
    uint64_t elements = 0;
};
// What the chip keeps of an unaligned access; here the access is made at once, and the pairing of the calls is checked: where the load
// that it is prepared for begins, where bytes of a store wait for StoreUnAlignPost.
struct UnalignReg {
    const void* next = nullptr;
    const void* pending = nullptr;
    toprope::Site stored{"", 0};
    UnalignReg() = default;
    UnalignReg(const UnalignReg&) = default;
    UnalignReg& operator=(const UnalignReg&) = default;
    ~UnalignReg();
};
using UnalignRegForLoad = UnalignReg;
using UnalignRegForStore = UnalignReg;

template <typename T, typename U>
using Element = std::conditional_t<std::is_same_v<T, DefaultType>, typename U::ActualT, T>;

}  // namespace Reg
namespace MicroAPI = Reg;
}  // namespace AscendC

namespace toprope {

namespace reg = AscendC::Reg;

template <typename R>
inline constexpr bool is_register = false;
template <typename T, const reg::RegTrait& trait>
inline constexpr bool is_register<reg::RegTensor<T, trait>> = true;
template <typename R>
using IfRegister = std::enable_if_t<is_register<R>, int>;

constexpr uint64_t mask_pattern(uint32_t step) {
    uint64_t p = 0;
    for (uint32_t i = 0; i < 64; i += step) p |= uint64_t{1} << i;
    return p;
}
// The lowest bits of all elements are set.
inline bool covers(const reg::MaskReg& m, uint32_t step) {
    const uint64_t p = mask_pattern(step);
    return ((m.words[0] & p) == p) && ((m.words[1] & p) == p) && ((m.words[2] & p) == p) && ((m.words[3] & p) == p);
}

template <typename R>
void require_defined(const R& r, const Op& op, Site site) {
    if (TOPROPE_UNLIKELY(!r.defined))
        report("undefined-register", site, &op, "%s reads a vector register that no instruction has written", op.name);
}

// ---- UB ------------------------------------------------------------------------------------------------------------------

// The offset of a pointer in UB, or ~0 after a report when [pointer, pointer + bytes) is not inside it or not aligned.
inline uint32_t reg_address(const Op& op, const char* role, const void* pointer, uint32_t bytes, uint32_t alignment, Site site) {
    const auto at = static_cast<const uint8_t*>(pointer) - self->memory[static_cast<int>(Space::ub)];
    const int64_t capacity = self->bytes[static_cast<int>(Space::ub)];
    if (TOPROPE_UNLIKELY(at < 0 || at + int64_t{bytes} > capacity)) {
        report("on-chip-out-of-bounds", site, &op, "%s: %s covers UB[%lld:%lld] of %lld bytes", op.name, role, static_cast<long long>(at),
               static_cast<long long>(at + bytes), static_cast<long long>(capacity));
        return ~0u;
    }
    if (TOPROPE_UNLIKELY(at % alignment != 0))
        report("misaligned-address", site, &op, "%s: %s begins at UB[%lld], which is no multiple of %u bytes", op.name, role,
               static_cast<long long>(at), alignment);
    return static_cast<uint32_t>(at);
}
// A load of rows x row_bytes, stride apart; `target` is the register that it fills.
inline bool reg_load(const Op& op, const void* from, uint32_t span, uint32_t row_bytes, uint32_t rows, int64_t stride, uint32_t alignment,
                     const void* target, Dtype type, Site site) {
    const uint32_t at = reg_address(op, "src", from, span, alignment, site);
    Instr& instr = record(op, site, 1, static_cast<uint32_t>(type));
    if (at == ~0u) return false;
    if (const PendingStore* p = vector_function().stored(at, at + span, target))
        report("vector-function-order", site, &op,
               "%s reads UB[%u:%u], of which UB[%u:%u] was stored by this vector function with no LocalMemBar<VEC_STORE, VEC_LOAD> between",
               op.name, at, at + span, p->begin, p->end);
    touch(instr, Space::ub, Mode::read, at, row_bytes, rows, stride, false, true);  // a whole register; a mask chooses later what counts
    return true;
}
// Where a store of at most `span` bytes goes; which of them it writes is touched by the caller.
inline Instr* reg_store(const Op& op, void* to, uint32_t span, uint32_t alignment, const void* source, Dtype type, Site site,
                        uint32_t* at) {
    *at = reg_address(op, "dst", to, span, alignment, site);
    Instr& instr = record(op, site, 1, static_cast<uint32_t>(type));
    if (*at == ~0u) return nullptr;
    if (span != 0) vector_function().store(*at, *at + span, source);
    return &instr;
}

// ---- lanes ---------------------------------------------------------------------------------------------------------------

// dst = f(i) for the elements of the mask. Elements left out become 0, or keep their value.
template <typename T, typename R, typename F>
void reg_apply(R& dst, const reg::MaskReg& mask, bool merge, F f) {
    T* out = reinterpret_cast<T*>(dst.bytes);
    constexpr uint32_t n = R::kBytes / sizeof(T), step = kMaskBits / n;
    if (covers(mask, step)) {
        T room[n];
        TOPROPE_IVDEP
        for (uint32_t i = 0; i < n; ++i) room[i] = f(i);
        std::memcpy(out, room, sizeof room);
    } else {
        T room[n];
        for (uint32_t i = 0; i < n; ++i) room[i] = mask.get(i * step) ? f(i) : (merge ? out[i] : T{});
        std::memcpy(out, room, sizeof room);
    }
    dst.defined = true;
}
template <auto mode>
constexpr bool reg_merges() {
    if constexpr (std::is_same_v<decltype(mode), reg::MaskMergeMode>)
        return mode == reg::MaskMergeMode::MERGING;
    else
        return mode->mrgMode == reg::MaskMergeMode::MERGING;
}

}  // namespace toprope

inline AscendC::Reg::UnalignReg::~UnalignReg() {
    if (TOPROPE_UNLIKELY(pending != nullptr && reinterpret_cast<uintptr_t>(pending) % toprope::kBlockBytes != 0))
        toprope::report("unaligned-register", stored, &toprope::kVectorFunction,
                        "StoreUnAlign left its last bytes in the unaligned register; no StoreUnAlignPost writes them");
}

// ---- masks ---------------------------------------------------------------------------------------------------------------

namespace toprope {
inline constexpr Op kRegCreateMask{"Reg::CreateMask", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegUpdateMask{"Reg::UpdateMask", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegMoveMask{"Reg::MoveMask", Pipe::v, Kind::compute, "reg_single"};
}  // namespace toprope

namespace AscendC {
namespace Reg {

//: Reg::CreateMask | a mask of a fixed pattern | any | 950 | 基础API/Reg矢量计算/寄存器数据类型/MaskReg.md
template <typename T, MaskPattern mode = MaskPattern::ALL, const RegTrait& regTrait = RegTraitNumOne>
MaskReg CreateMask(toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegCreateMask, site, 1, 0);
    constexpr uint32_t n = toprope::kRegisterLength * static_cast<uint32_t>(regTrait.REG_NUM) / sizeof(T), step = toprope::kMaskBits / n;
    MaskReg m;
    for (uint32_t i = 0; i < n; ++i) {
        bool on = false;
        switch (mode) {
            case MaskPattern::ALL:
                on = true;
                break;
            case MaskPattern::VL1:
                on = i < 1;
                break;
            case MaskPattern::VL2:
                on = i < 2;
                break;
            case MaskPattern::VL3:
                on = i < 3;
                break;
            case MaskPattern::VL4:
                on = i < 4;
                break;
            case MaskPattern::VL8:
                on = i < 8;
                break;
            case MaskPattern::VL16:
                on = i < 16;
                break;
            case MaskPattern::VL32:
                on = i < 32;
                break;
            case MaskPattern::VL64:
                on = i < 64;
                break;
            case MaskPattern::VL128:
                on = i < 128;
                break;
            case MaskPattern::M3:
                on = i % 3 == 0;
                break;
            case MaskPattern::M4:
                on = i % 4 == 0;
                break;
            case MaskPattern::H:
                on = i < n / 2;
                break;
            case MaskPattern::Q:
                on = i < n / 4;
                break;
            default:
                break;  // ALLF: none
        }
        if (on) m.set(i * step);
    }
    return m;
}
//: Reg::UpdateMask | a mask of the first elements, and how many remain | any | 950 | 基础API/Reg矢量计算/寄存器数据类型/MaskReg.md
template <typename T, const RegTrait& regTrait = RegTraitNumOne>
MaskReg UpdateMask(uint32_t& scalarValue, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegUpdateMask, site, 1, 0);
    constexpr uint32_t n = toprope::kRegisterLength * static_cast<uint32_t>(regTrait.REG_NUM) / sizeof(T), step = toprope::kMaskBits / n;
    MaskReg m;
    const uint32_t active = scalarValue < n ? scalarValue : n;
    for (uint32_t i = 0; i < active; ++i) m.set(i * step);
    scalarValue -= active;
    return m;
}
//: Reg::MoveMask | the mask that SetVectorMask has set, as a mask register | any | 950 | 基础API/Reg矢量计算/MaskReg计算/MoveMask.md
template <typename T>
MaskReg MoveMask(toprope::Site site = toprope::Site::here()) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "MoveMask: 16-bit and 32-bit elements");
    toprope::record(toprope::kRegMoveMask, site, 1, 0);
    MaskReg m;
    for (uint32_t i = 0; i < toprope::kMaskBits; ++i) {
        const uint32_t bit = i / static_cast<uint32_t>(sizeof(T));
        const uint64_t word = bit < 64 ? toprope::self->vector.mask_low : toprope::self->vector.mask_high;
        if ((word >> (bit & 63)) & 1u) m.set(i);
    }
    return m;
}
//: Reg::CreateAddrReg | an address offset from the indices of up to four loops and their strides | any | 950 | 基础API/Reg矢量计算/寄存器数据类型/AddrReg.md
template <typename T>
AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0) {
    return {uint64_t{index0} * stride0};
}
template <typename T>
AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1, uint32_t stride1) {
    return {uint64_t{index0} * stride0 + uint64_t{index1} * stride1};
}
template <typename T>
AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1, uint32_t stride1, uint16_t index2, uint32_t stride2) {
    return {uint64_t{index0} * stride0 + uint64_t{index1} * stride1 + uint64_t{index2} * stride2};
}
template <typename T>
AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1, uint32_t stride1, uint16_t index2, uint32_t stride2,
                      uint16_t index3, uint32_t stride3) {
    return {uint64_t{index0} * stride0 + uint64_t{index1} * stride1 + uint64_t{index2} * stride2 + uint64_t{index3} * stride3};
}
//: Reg::LocalMemBar | orders the loads and stores of a vector function | any | 950 | 基础API/Reg矢量计算/同步控制/LocalMemBar.md
template <MemType src, MemType dst>
void LocalMemBar(toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegBarrier, site, 1, 0);
    constexpr bool from_store = src == MemType::VEC_STORE || src == MemType::VEC_ALL;
    if (from_store) toprope::vector_function().count = 0;
}
//: Reg::ClearSpr | sets the register of squeezed bytes to 0 | any | 950 | 基础API/Reg矢量计算/系统变量访问/ClearSpr.md
template <SpecialPurposeReg spr>
void ClearSpr() {
    toprope::vector_function().squeezed_bytes = toprope::vector_function().stored_bytes = 0;
}
template <SpecialPurposeReg spr>
int64_t GetSpr() {
    return toprope::vector_function().squeezed_bytes;
}

}  // namespace Reg

//: asc_vf_call | runs a vector function | any | 950 | 基础API/Reg矢量计算/VF调用/asc_vf_call.md
template <auto function, typename... Arguments>
void VF_CALL(Arguments&&... arguments) {
    toprope::begin_vector_function(toprope::self->last_site);
    function(std::forward<Arguments>(arguments)...);
}

}  // namespace AscendC
template <auto function, typename... Arguments>
void asc_vf_call(Arguments&&... arguments) {
    AscendC::VF_CALL<function>(std::forward<Arguments>(arguments)...);
}
