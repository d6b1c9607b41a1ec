// Output of a kernel that works on plain pointers, without the namespace. Pages: Utils-API/调测接口/*.md.
#pragma once

#include <ctime>

#include "debug.h"

namespace toprope {

// The on-chip memory that a pointer leads into and the offset in it; gm if it is none of this core's memories.
struct Where {
    Space space;
    uint32_t offset;
};
inline Where where_of(const void* pointer) {
    const auto* at = static_cast<const uint8_t*>(pointer);
    for (int s = 0; s < kSpaces; ++s)
        if (self->memory[s] != nullptr && at >= self->memory[s] && at < self->memory[s] + self->bytes[s])
            return {static_cast<Space>(s), static_cast<uint32_t>(at - self->memory[s])};
    return {Space::gm, 0};
}
inline AscendC::TPosition position_in(Space space) {
    switch (space) {
        case Space::l1:
            return AscendC::TPosition::A1;
        case Space::l0a:
            return AscendC::TPosition::A2;
        case Space::l0b:
            return AscendC::TPosition::B2;
        case Space::l0c:
            return AscendC::TPosition::CO1;
        default:
            return AscendC::TPosition::VECCALC;
    }
}
template <typename T>
void dump_pointer(T* input, uint32_t desc, uint32_t count, Site site) {
    using Element = std::remove_const_t<T>;
    const Where where = where_of(input);
    if (where.space == Space::gm) {
        AscendC::GlobalTensor<Element> tensor;
        tensor.SetGlobalBuffer(const_cast<Element*>(input));
        dump_global(tensor, desc, count, nullptr, site);
    } else {
        dump_local(AscendC::LocalTensor<Element>(position_in(where.space), where.offset, count), desc, count, nullptr, site);
    }
}

}  // namespace toprope

//: asc_dump, asc_dump_gm, asc_dump_ubuf, asc_dump_l1buf, asc_dump_cbuf | prints dump_size elements from an address in GM, UB, L1 or L0C, with a number to tell dumps apart | any | A2 A3 | 调测接口/asc_dump.md
template <typename T>
void asc_dump(T* input, uint32_t desc, uint32_t dump_size, toprope::Site site = toprope::Site::here()) {
    toprope::dump_pointer(input, desc, dump_size, site);
}
template <typename T>
void asc_dump_gm(T* input, uint32_t desc, uint32_t dump_size, toprope::Site site = toprope::Site::here()) {
    toprope::dump_pointer(input, desc, dump_size, site);
}
template <typename T>
void asc_dump_ubuf(T* input, uint32_t desc, uint32_t dump_size, toprope::Site site = toprope::Site::here()) {
    toprope::dump_pointer(input, desc, dump_size, site);
}
template <typename T>
void asc_dump_l1buf(T* input, uint32_t desc, uint32_t dump_size, toprope::Site site = toprope::Site::here()) {
    toprope::dump_pointer(input, desc, dump_size, site);
}
template <typename T>
void asc_dump_cbuf(T* input, uint32_t desc, uint32_t dump_size, toprope::Site site = toprope::Site::here()) {
    toprope::dump_pointer(input, desc, dump_size, site);
}
//: asc_time_stamp | prints desc_id and the core's instruction count if ASCENDC_TIME_STAMP_ON is defined | any | A2 A3 | 调测接口/asc_time_stamp.md
inline void asc_time_stamp(uint32_t desc_id) { AscendC::PrintTimeStamp(desc_id); }
// Profiling marks do nothing here: `toprope profile` shows every instruction anyway.
inline void asc_prof_start() {}
inline void asc_prof_stop() {}
//: toprope_clock | what `clock()` of utils/debug/asc_time.h means in a kernel: GetSystemCycle | any | A2 A3 | 调测接口/clock.md
inline uint64_t toprope_clock(toprope::Site site = toprope::Site::here()) { return static_cast<uint64_t>(AscendC::GetSystemCycle(site)); }
