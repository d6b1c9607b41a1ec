// What queues, pipes and pools share: where a queue's buffers lie, which events travel with them, and how memory is carved.
#pragma once

#include "flags.h"

namespace toprope {

inline constexpr Op kInitBuffer{"InitBuffer", Pipe::s, Kind::mark, "init_buffer"};
inline constexpr Op kAllocTensor{"AllocTensor", Pipe::s, Kind::alloc, "queue_alloc"};
inline constexpr Op kFreeTensor{"FreeTensor", Pipe::s, Kind::free, "queue_free"};
inline constexpr Op kEnQue{"EnQue", Pipe::s, Kind::enque, "queue_enque"};
inline constexpr Op kDeQue{"DeQue", Pipe::s, Kind::deque, "queue_deque"};
inline constexpr Op kAllocEventID{"AllocEventID", Pipe::s, Kind::mark, "event_id"};

inline constexpr int kMaxBuffers = 64;
inline constexpr const char* kStateNames[] = {"free", "allocated", "enqueued", "dequeued"};

constexpr bool in_l1(AscendC::TPosition p) { return space_of(p) == Space::l1; }

// The buffer of a queue lies where its tensor is handed over: at the destination of a load, at the source of a store.
constexpr AscendC::TPosition buffer_position(AscendC::TPosition source, AscendC::TPosition target) {
    return source == AscendC::TPosition::GM || in_l1(source) ? target : source;
}

// The event that EnQue sets and DeQue waits for; the backward one of FreeTensor/AllocTensor is its mirror.
constexpr AscendC::HardEvent forward_event(AscendC::TPosition source, AscendC::TPosition target) {
    using AscendC::HardEvent;
    const Space from = space_of(source), to = space_of(target);
    if (from == Space::gm) return to == Space::l1 ? HardEvent::MTE2_MTE1 : (to == Space::ub ? HardEvent::MTE2_V : HardEvent::MTE2_M);
    if (from == Space::l1) return to == Space::fixbuf ? HardEvent::MTE1_FIX : (to == Space::ub ? HardEvent::MTE1_V : HardEvent::MTE1_M);
    if (from == Space::l0c) return to == Space::ub ? HardEvent::M_V : HardEvent::M_FIX;
    if (to == Space::l1) return HardEvent::MTE3_MTE1;
    if (to == Space::ub)
        return source == AscendC::TPosition::VECIN && target == AscendC::TPosition::VECOUT ? HardEvent::MTE2_MTE3 : HardEvent::V_V;
    return HardEvent::V_MTE3;
}

constexpr AscendC::HardEvent backward_event(AscendC::TPosition source, AscendC::TPosition target) {
    const EventPipes forward = kEvents[static_cast<int>(forward_event(source, target))];
    for (int i = 0; i < static_cast<int>(AscendC::HardEvent::MAX); ++i)
        if (kEvents[i].source == forward.target && kEvents[i].target == forward.source) return static_cast<AscendC::HardEvent>(i);
    return AscendC::HardEvent::V_V;
}

// A piece of on-chip memory that InitBuffer carves from: the whole of every space (TPipe) or one range (TBufPool).
struct Carver {
    Space space;
    uint32_t next, end;
};

// Puts a buffer of a user's pool at its address.
inline void place_slot(BufferSlot& slot, uint32_t address, uint32_t bytes, AscendC::TPosition position, bool managed, Site site) {
    slot = BufferSlot{};
    slot.address = address;
    slot.bytes = bytes;
    slot.position = position;
    slot.managed = managed;
    add_buffer(
        {address, bytes, site_index(site), self->index, static_cast<uint8_t>(space_of(position)), static_cast<uint8_t>(position), 0});
}

}  // namespace toprope
