// Fills a part of GM with one value, through the UB that InitBuffer has not given out.
#pragma once

#include "data_copy_pad.h"
#include "resource.h"
#include "sync.h"

namespace toprope {

inline constexpr uint32_t kFillPieceBytes = 32 * 1024;

// The value as a pattern that Duplicate can write: 16-bit lanes, of which 1-byte and 8-byte elements must consist.
template <typename T>
uint16_t fill_pattern(const Op& op, T value, Site site) {
    uint16_t lanes[4];
    for (uint32_t i = 0; i < 8; i += sizeof(T)) std::memcpy(reinterpret_cast<uint8_t*>(lanes) + i, &value, sizeof(T));
    for (uint16_t lane : lanes)
        if (lane != lanes[0]) {
            report("fill-value-64-bit", site, &op,
                   "%s: 8-byte elements can be filled only with values whose four 16-bit parts are equal, such as 0", op.name);
            break;
        }
    return lanes[0];
}
inline constexpr Op kOpGlobalFill{"InitGlobalMemory", Pipe::s, Kind::mark, "scalar"};

}  // namespace toprope

namespace AscendC {

//: InitGlobalMemory | fills size elements of GM with a value; needs a TPipe and spare UB | integers, half, bfloat16, float | A2 A3 310P | Utils-API
template <typename T>
void InitGlobalMemory(GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const T value, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (self->type == CoreType::aic || size == 0) return;
    LocalTensor<T> spare;
    PopStackBuffer<T, TPosition::VECCALC>(spare);
    uint32_t bytes = spare.GetLength() / kBlockBytes * kBlockBytes;
    if (bytes == 0) {
        report("temporary-space-too-small", site, &kOpGlobalFill,
               "InitGlobalMemory needs spare UB behind the buffers of TPipe, at least 32 bytes; none is left");
        return;
    }
    if (bytes > kFillPieceBytes) bytes = kFillPieceBytes;
    const uint64_t total = size * sizeof(T);
    if (bytes > total) bytes = static_cast<uint32_t>(whole_blocks(total));
    // 4-byte values are filled as they are; the others as 16-bit lanes.
    if constexpr (sizeof(T) == 4)
        Duplicate(spare.template ReinterpretCast<uint32_t>(), __builtin_bit_cast(uint32_t, value), static_cast<int32_t>(bytes / 4), site);
    else
        Duplicate(spare.template ReinterpretCast<uint16_t>(), fill_pattern(kOpGlobalFill, value, site), static_cast<int32_t>(bytes / 2),
                  site);
    TPipe& pipe = *GetTPipePtr();
    const TEventID filled = pipe.AllocEventID(HardEvent::V_MTE3, site);
    toprope::set_flag(HardEvent::V_MTE3, filled, site);
    toprope::wait_flag(HardEvent::V_MTE3, filled, site);
    pipe.ReleaseEventID(HardEvent::V_MTE3, filled);
    for (uint64_t done = 0; done < total; done += bytes) {
        const uint64_t piece = total - done < bytes ? total - done : bytes;
        DataCopyPad(gmWorkspaceAddr[done / sizeof(T)], spare, DataCopyExtParams(1, piece, 0, 0, 0), site);
    }
    const TEventID stored = pipe.AllocEventID(HardEvent::MTE3_V, site);
    toprope::set_flag(HardEvent::MTE3_V, stored, site);
    toprope::wait_flag(HardEvent::MTE3_V, stored, site);
    pipe.ReleaseEventID(HardEvent::MTE3_V, stored);
}
//: InitOutput | fills size elements of GM with a value, 0 if none is given | integers, half, bfloat16, float | A2 A3 310P | Utils-API
template <typename T>
void InitOutput(GlobalTensor<T> gmWorkspaceAddr, uint32_t size, T value = 0, toprope::Site site = toprope::Site::here()) {
    InitGlobalMemory(gmWorkspaceAddr, size, value, site);
}
// The other Fill, of GM, for fewer types than InitGlobalMemory. Page: 张量变换/Fill-97.md.
template <typename T>
void Fill(GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const T value, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(is_one_of<T, uint16_t, int16_t, half, uint32_t, int32_t, float>,
                  "Fill of GM takes uint16_t, int16_t, half, uint32_t, int32_t and float");
    InitGlobalMemory(gmWorkspaceAddr, size, value, site);
}

}  // namespace AscendC
