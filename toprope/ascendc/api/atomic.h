// Atomic mode of copies into GM (UB, L1 and L0C to GM): add, max or min with what GM holds. Pages: 原子操作/*.md.
#pragma once

#include "../machine/vector.h"

namespace toprope {

inline constexpr Op kOpSetAtomic{"SetAtomic", Pipe::s, Kind::state, "set_state"};

inline void set_atomic(AtomicOp op, Dtype type, Site site) {
    record(kOpSetAtomic, site, static_cast<uint32_t>(op), static_cast<uint32_t>(type));
    self->atomic = op;
    self->atomic_type = type;
}

template <typename T>
constexpr bool atomic_type_exists() {
    if constexpr (kChip.atomic_narrow)
        return is_one_of<T, int8_t, int16_t, half, bfloat16_t, int32_t, float>;
    else if constexpr (__NPU_ARCH__ == 3002)
        return is_one_of<T, int16_t, half, int32_t, float>;
    else if constexpr (__NPU_ARCH__ == 2002)
        return is_one_of<T, int16_t, half, float>;
    else
        return is_one_of<T, float>;
}

}  // namespace toprope

#define TOPROPE_ATOMIC_TYPE(Name, T)                \
    static_assert(toprope::atomic_type_exists<T>(), \
                  Name ": this chip has no atomic copies of this element type (see `toprope api " Name "`)")

namespace AscendC {

//: SetAtomicAdd | copies into GM add to what is there | int8, int16, int32, half, bfloat16, float | A2 A3 310P 910 | 原子操作/SetAtomicAdd.md
template <typename T>
void SetAtomicAdd(toprope::Site site = toprope::Site::here()) {
    TOPROPE_ATOMIC_TYPE("SetAtomicAdd", T);
    toprope::set_atomic(toprope::AtomicOp::add, toprope::dtype_of<T>, site);
}
//: SetAtomicMax | copies into GM keep the larger of the new and the old element | int8, int16, int32, half, bfloat16, float | A2 A3 | 原子操作/SetAtomicMax(ISASI).md
template <typename T>
void SetAtomicMax(toprope::Site site = toprope::Site::here()) {
    TOPROPE_ATOMIC_TYPE("SetAtomicMax", T);
    toprope::set_atomic(toprope::AtomicOp::max, toprope::dtype_of<T>, site);
}
//: SetAtomicMin | copies into GM keep the smaller of the new and the old element | int8, int16, int32, half, bfloat16, float | A2 A3 | 原子操作/SetAtomicMin(ISASI).md
template <typename T>
void SetAtomicMin(toprope::Site site = toprope::Site::here()) {
    TOPROPE_ATOMIC_TYPE("SetAtomicMin", T);
    toprope::set_atomic(toprope::AtomicOp::min, toprope::dtype_of<T>, site);
}
//: SetAtomicType | the element type of the atomic mode, which becomes addition if none is set | int8, int16, int32, half, bfloat16, float | A2 A3 310P | 原子操作/SetAtomicType.md
template <typename T>
void SetAtomicType(toprope::Site site = toprope::Site::here()) {
    TOPROPE_ATOMIC_TYPE("SetAtomicType", T);
    using toprope::AtomicOp;
    toprope::set_atomic(toprope::self->atomic == AtomicOp::none ? AtomicOp::add : toprope::self->atomic, toprope::dtype_of<T>, site);
}
//: SetAtomicNone | copies into GM replace what is there | any | A2 A3 310P 910 | 原子操作/DisableDmaAtomic.md
inline void SetAtomicNone(toprope::Site site = toprope::Site::here()) {
    toprope::set_atomic(toprope::AtomicOp::none, toprope::Dtype::none, site);
}
//: DisableDmaAtomic | copies into GM replace what is there | any | A2 A3 310P 910 | 原子操作/DisableDmaAtomic.md
inline void DisableDmaAtomic(toprope::Site site = toprope::Site::here()) {
    toprope::set_atomic(toprope::AtomicOp::none, toprope::Dtype::none, site);
}

enum class AtomicDtype { ATOMIC_NONE = 0, ATOMIC_F32, ATOMIC_F16, ATOMIC_S16, ATOMIC_S32, ATOMIC_S8, ATOMIC_BF16 };
enum class AtomicOp { ATOMIC_SUM = 0 };
inline constexpr toprope::Dtype kAtomicDtypes[] = {toprope::Dtype::none, toprope::Dtype::f32, toprope::Dtype::f16, toprope::Dtype::s16,
                                                   toprope::Dtype::s32,  toprope::Dtype::s8,  toprope::Dtype::bf16};

//: SetStoreAtomicConfig | atomic addition of one element type, or none | int8, int16, int32, half, bfloat16, float | A2 A3 | 原子操作/SetStoreAtomicConfig(ISASI).md
template <AtomicDtype type, AtomicOp op>
void SetStoreAtomicConfig(toprope::Site site = toprope::Site::here()) {
    toprope::set_atomic(type == AtomicDtype::ATOMIC_NONE ? toprope::AtomicOp::none : toprope::AtomicOp::add,
                        kAtomicDtypes[static_cast<int>(type)], site);
}
//: GetStoreAtomicConfig | the atomic mode that is set, as numbers of AtomicDtype and AtomicOp | any | A2 A3 | 原子操作/GetStoreAtomicConfig(ISASI).md
inline void GetStoreAtomicConfig(uint16_t& atomicType, uint16_t& atomicOp) {
    atomicType = atomicOp = 0;
    if (toprope::self->atomic == toprope::AtomicOp::none) return;
    for (uint16_t i = 1; i < 7; ++i)
        if (kAtomicDtypes[i] == toprope::self->atomic_type) atomicType = i;
    atomicOp = toprope::self->atomic == toprope::AtomicOp::add ? 0 : (toprope::self->atomic == toprope::AtomicOp::max ? 1 : 2);
}

}  // namespace AscendC
