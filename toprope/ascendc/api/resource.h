// On-chip memory beside TPipe's queues: static allocation, what is left over, L1 queues, pools that users write themselves.
// Pages: 资源管理/LocalMemAllocator/*.md, PopStackBuffer.md, TSCM/*.md, 自定义TBufPool/*.md.
#pragma once

#include "../machine/buffer_pool.h"
#include "../machine/vector.h"

namespace toprope {
inline constexpr Op kOpAlloc{"LocalMemAllocator.Alloc", Pipe::s, Kind::mark, "init_buffer"};
}

namespace AscendC {

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

constexpr TPosition position_in(Hardware hard) {
    switch (hard) {
        case Hardware::L1:
            return TPosition::A1;
        case Hardware::L0A:
            return TPosition::A2;
        case Hardware::L0B:
            return TPosition::B2;
        case Hardware::L0C:
            return TPosition::CO1;
        case Hardware::BIAS:
            return TPosition::C2;
        case Hardware::FIXBUF:
            return TPosition::C2PIPE2GM;
        default:
            return TPosition::VECCALC;
    }
}

//: LocalMemAllocator | hands out tensors of one on-chip memory from its start on, for kernels without TPipe | any | A2 A3 310P | 资源管理/LocalMemAllocator/LocalMemAllocator简介.md
template <Hardware hard = Hardware::UB>
class LocalMemAllocator {
public:
    uint32_t GetCurAddr() const { return next_; }
    template <class T, uint32_t tileSize>
    LocalTensor<T> Alloc(toprope::Site site = toprope::Site::here()) {
        return take<T>(position_in(hard), tileSize, site);
    }
    template <TPosition pos, class T, uint32_t tileSize>
    LocalTensor<T> Alloc(toprope::Site site = toprope::Site::here()) {
        return take<T>(pos, tileSize, site);
    }
    template <class T>
    LocalTensor<T> Alloc(uint32_t tileSize, toprope::Site site = toprope::Site::here()) {
        return take<T>(position_in(hard), tileSize, site);
    }
    template <TPosition pos, class T>
    LocalTensor<T> Alloc(uint32_t tileSize, toprope::Site site = toprope::Site::here()) {
        return take<T>(pos, tileSize, site);
    }

private:
    template <class T>
    LocalTensor<T> take(TPosition position, uint32_t elements, toprope::Site site) {
        using namespace toprope;
        const Space space = space_of(position);
        const uint64_t bytes = (bytes_of<T>(elements) + 31) / 32 * 32, most = self->bytes[static_cast<int>(space)];
        if (most != 0 && next_ + bytes > most) {
            report("buffer-over-capacity", site, &kOpAlloc, "LocalMemAllocator.Alloc needs %s[%u:%llu], but %s has %llu bytes",
                   kSpaceNames[static_cast<int>(space)], next_, static_cast<unsigned long long>(next_ + bytes),
                   kSpaceNames[static_cast<int>(space)], static_cast<unsigned long long>(most));
            stop();
        }
        const LocalTensor<T> tensor(position, next_, elements);
        add_buffer({next_, static_cast<uint32_t>(bytes), site_index(site), self->index, static_cast<uint8_t>(space),
                    static_cast<uint8_t>(position), 0});
        next_ += static_cast<uint32_t>(bytes);
        return tensor;
    }
    uint32_t next_ = 0;
};

//: PopStackBuffer | a tensor over all the memory that InitBuffer has not given out | any | A2 A3 310P | 资源管理/PopStackBuffer.md
template <typename T, TPosition pos>
bool PopStackBuffer(LocalTensor<T>& popLocal) {
    const auto begin = static_cast<uint32_t>(GetTPipePtr()->GetQueueEndAddress<pos>());
    const uint32_t end = toprope::self->bytes[static_cast<int>(space_of(pos))];
    popLocal.bind(nullptr, begin, end > begin ? end - begin : 0, pos);
    return end > begin;
}

//: TSCM | a queue in L1, filled from GM or UB, read by the matrix unit | any | A2 A3 310P | 资源管理/TSCM/TSCM简介.md
template <TPosition pos, int32_t depth = 1, auto mask = 0>
using TSCM = TQueBind<pos, TPosition::TSCM, depth, mask>;

}  // namespace AscendC

// The members a user's own pool needs: TPipe::InitBufPool gives it a range, its InitBuffer hands out slots of it.
#define EXTERN_IMPL_BUFPOOL(EXT_BUFPOOL, POSITION, BUFID_SIZE)                                           \
public:                                                                                                  \
    static constexpr AscendC::TPosition bufPosition = POSITION;                                          \
    void Init() {                                                                                        \
        for (auto& slot : toprope_slots_) slot = toprope::BufferSlot{};                                  \
        toprope_used_ = 0;                                                                               \
    }                                                                                                    \
    void Reset() {                                                                                       \
        Init();                                                                                          \
        toprope_range_.next = toprope_begin_;                                                            \
    }                                                                                                    \
    AscendC::TBufHandle GetBufHandle(uint8_t offset) { return &toprope_slots_[offset % (BUFID_SIZE)]; }  \
    void SetCurAddr(uint32_t address) { toprope_range_.next = address; }                                 \
    uint32_t GetCurAddr() { return toprope_range_.next; }                                                \
    void SetCurBufSize(uint8_t used) { toprope_used_ = used; }                                           \
    uint8_t GetCurBufSize() { return toprope_used_; }                                                    \
    void take_range(toprope::Carver range) {                                                             \
        toprope_range_ = range;                                                                          \
        toprope_begin_ = range.next;                                                                     \
    }                                                                                                    \
    toprope::Carver range() const { return {toprope_range_.space, toprope_begin_, toprope_range_.end}; } \
                                                                                                         \
private:                                                                                                 \
    toprope::BufferSlot toprope_slots_[BUFID_SIZE];                                                      \
    toprope::Carver toprope_range_{toprope::Space::ub, 0, 0};                                            \
    uint32_t toprope_begin_ = 0;                                                                         \
    uint8_t toprope_used_ = 0
