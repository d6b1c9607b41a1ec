// Flags, queues and the pipe: what they do whatever their types, for queue.h and flags.h. Part of the runtime.
#include "queue.h"

namespace toprope {

static bool flag_id_valid(const Op& op, AscendC::HardEvent event, int32_t id, int32_t ids, Site site) {
    if (id >= 0 && id < ids) return true;
    report("event-id-out-of-range", site, &op, "%s<%s>(%d): event ids go from 0 to %d", op.name, kEvents[static_cast<int>(event)].name, id,
           ids - 1);
    return false;
}

void set_flag(AscendC::HardEvent event, int32_t id, Site site, int32_t ids) {
    if (!event_applies(event) || !flag_id_valid(kSetFlag, event, id, ids, site)) return;
    const EventPipes& e = kEvents[static_cast<int>(event)];
    uint8_t& state = self->flag[static_cast<int>(event)][id];
    if (TOPROPE_UNLIKELY(state != 0))
        report("flag-set-twice", site, &kSetFlag, "SetFlag<%s>(%d) while the flag is still set: nobody has waited for the first one",
               e.name, id);
    if (state < 255) ++state;  // each set has its wait, so that the waits behind a report are not accused as well
    record(kSetFlag, e.source, site, flag_work(event, id), static_cast<uint32_t>(event));
}

void wait_flag(AscendC::HardEvent event, int32_t id, Site site, int32_t ids) {
    if (!event_applies(event) || !flag_id_valid(kWaitFlag, event, id, ids, site)) return;
    const EventPipes& e = kEvents[static_cast<int>(event)];
    uint8_t& state = self->flag[static_cast<int>(event)][id];
    if (TOPROPE_UNLIKELY(state == 0)) {
        uint8_t* states = self->flag[static_cast<int>(event)];
        int32_t other = 0;
        while (other < ids && states[other] == 0) ++other;
        char hint[64] = "";
        if (other < ids) std::snprintf(hint, sizeof hint, "; set is number %d", other);
        report("flag-wait-without-set", site, &kWaitFlag,
               "WaitFlag<%s>(%d), but no SetFlag<%s>(%d) comes before it: pipe %s would wait for ever%s", e.name, id, e.name, id,
               kPipeNames[static_cast<int>(e.target)], hint);
        // Go on as if the two had the same number: what this wait was to order is no mistake of its own.
        if (other == ids) return;
        id = other;
        --states[other];
    } else {
        --state;
    }
    record(kWaitFlag, e.target, site, flag_work(event, id), static_cast<uint32_t>(event));
}

void pipe_barrier(Pipe pipe, Site site) {
    if (pipe != Pipe::all && !core_has(pipe)) return;
    if (pipe == Pipe::m || pipe == Pipe::all) self->registers[kRegSmallProduct] = 0;
    record(kPipeBarrier, pipe, site, 0, 0);
}

// ---- queues ---------------------------------------------------------------------------------------------------------------

using namespace AscendC;

// The event that travels with a buffer: raised where it is handed over, lowered where it is taken.
static void raise_event(HardEvent event, int16_t& slot_event, int16_t& slot_id, Site site) {
    slot_event = static_cast<int16_t>(event);
    slot_id = 0;
    if (event == HardEvent::V_V || !event_applies(event)) return;
    slot_id = GetTPipePtr()->AllocEventID(event, site);
    set_flag(event, slot_id, site);
}

static void lower_event(int16_t& slot_event, int16_t& slot_id, Site site) {
    if (slot_event < 0) return;
    const auto event = static_cast<HardEvent>(slot_event);
    slot_event = -1;
    if (event == HardEvent::V_V) return pipe_barrier(Pipe::v, site);
    if (!event_applies(event)) return;
    wait_flag(event, slot_id, site);
    GetTPipePtr()->ReleaseEventID(event, static_cast<TEventID>(slot_id));
}

BufferSlot& SlotQueue::allocate(TPosition position, Site site) {
    if (count_ == 0) {
        report("queue-without-buffer", site, &kAllocTensor, "AllocTensor on a queue that InitBuffer has not given any buffer");
        stop();
    }
    for (uint32_t i = 0; i < count_; ++i) {
        BufferSlot& slot = slots_[(cursor_ + i) % count_];
        if (slot.state != BufferState::free) continue;
        cursor_ = (cursor_ + i + 1) % count_;
        lower_event(slot.free_event, slot.free_id, site);
        slot.state = BufferState::occupied;
        slot.allocated = site;
        record(kAllocTensor, site, slot.queue, slot.address);
        return slot;
    }
    report("queue-no-free-buffer", site, &kAllocTensor,
           "AllocTensor: all %u buffers of this %s queue are in use; on the NPU this waits for ever (FreeTensor missing?)", count_,
           kPositionNames[static_cast<int>(position)]);
    stop();
}

BufferSlot* SlotQueue::own_slot(BufferSlot* slot, const Op& op, Site site) {
    if (slot != nullptr && slot >= slots_ && slot < slots_ + count_) return slot;
    report("tensor-of-another-queue", site, &op, "%s: this tensor was not allocated from this queue", op.name);
    return nullptr;
}

void SlotQueue::release(BufferSlot* tensor_slot, bool live, HardEvent backward, Site site) {
    BufferSlot* slot = own_slot(tensor_slot, kFreeTensor, site);
    if (slot == nullptr) return;
    if (slot->state == BufferState::free || !live) {
        report("tensor-freed-twice", site, &kFreeTensor, "FreeTensor on a tensor that has already been given back");
        return;
    }
    slot->state = BufferState::free;
    ++slot->generation;
    record(kFreeTensor, site, slot->queue, slot->address);
    raise_event(backward, slot->free_event, slot->free_id, site);
}

bool SlotQueue::enqueue(BufferSlot* tensor_slot, HardEvent forward, int32_t depth, Site site) {
    BufferSlot* slot = own_slot(tensor_slot, kEnQue, site);
    if (slot == nullptr) return false;
    if (slot->state != BufferState::occupied && slot->state != BufferState::dequeued) {
        report("enque-in-wrong-state", site, &kEnQue, "EnQue on a tensor that is %s; it must be allocated or dequeued",
               kStateNames[static_cast<int>(slot->state)]);
        return false;
    }
    if (waiting_ >= static_cast<uint32_t>(depth < 1 ? 1 : depth))
        report("queue-depth-exceeded", site, &kEnQue, "EnQue number %u without a DeQue, but the queue's depth is %d", waiting_ + 1, depth);
    slot->state = BufferState::enqueued;
    record(kEnQue, site, slot->queue, slot->address);
    order_[(first_ + waiting_) % kMaxBuffers] = static_cast<uint8_t>(slot - slots_);
    ++waiting_;
    raise_event(forward, slot->enqueue_event, slot->enqueue_id, site);
    return true;
}

BufferSlot& SlotQueue::dequeue(TPosition position, Site site) {
    if (waiting_ == 0) {
        report("deque-from-empty-queue", site, &kDeQue, "DeQue from an empty %s queue: no EnQue comes before it",
               kPositionNames[static_cast<int>(position)]);
        stop();
    }
    BufferSlot& slot = slots_[order_[first_]];
    first_ = (first_ + 1) % kMaxBuffers;
    --waiting_;
    lower_event(slot.enqueue_event, slot.enqueue_id, site);
    slot.state = BufferState::dequeued;
    record(kDeQue, site, slot.queue, slot.address);
    return slot;
}

void SlotQueue::settle_free_events(Site site) {
    for (uint32_t i = 0; i < count_; ++i) lower_event(slots_[i].free_event, slots_[i].free_id, site);
}

bool SlotQueue::any_free() const {
    for (uint32_t i = 0; i < count_; ++i)
        if (slots_[i].state == BufferState::free) return true;
    return false;
}

}  // namespace toprope

// ---- the pipe -------------------------------------------------------------------------------------------------------------

namespace AscendC {

TPipe::TPipe(int ids) : ids_(ids) { Init(); }

TPipe& TPipe::operator=(const TPipe& other) {
    for (size_t i = 0; i < sizeof carvers_ / sizeof *carvers_; ++i) carvers_[i] = other.carvers_[i];
    destroyed_ = true;
    return *this;
}

TPipe::~TPipe() {
    if (toprope::self->pipe == this) toprope::self->pipe = nullptr;
    if (!destroyed_) end_of_life(toprope::self->last_site);
}

void TPipe::Init() {
    toprope::self->pipe = this;
    toprope::self->vector = {};
    toprope::self->atomic = toprope::AtomicOp::none;
    reset_memory();
    destroyed_ = false;
}

int TPipe::lowest_free(HardEvent event) const {
    int id = 0;
    while (id < ids_ && (taken_[static_cast<int>(event)] >> id & 1u)) ++id;
    return id;
}

TEventID TPipe::AllocEventID(HardEvent event, toprope::Site site) {
    const int id = lowest_free(event);
    if (id >= ids_) {
        toprope::report("event-ids-exhausted", site, &toprope::kAllocEventID,
                        "all %d ids of event %s are taken: too many buffers in flight or a ReleaseEventID is missing", ids_,
                        toprope::kEvents[static_cast<int>(event)].name);
        toprope::stop();
    }
    taken_[static_cast<int>(event)] |= static_cast<uint8_t>(1u << id);
    return static_cast<TEventID>(id);
}

toprope::BufferSlot* TPipe::give(uint32_t num, uint32_t len, toprope::Carver& from, TPosition position, bool managed, toprope::Site site) {
    using namespace toprope;
    if (num == 0 || len == 0) {
        report("buffer-of-size-zero", site, &kInitBuffer, "InitBuffer(%u buffers, %u bytes): both must be at least 1", num, len);
        stop();
    }
    if (used_slots_ + num > static_cast<uint32_t>(kMaxBuffers)) {
        report("too-many-buffers", site, &kInitBuffer, "InitBuffer: %u buffers on this TPipe, the limit is %d", used_slots_ + num,
               kMaxBuffers);
        stop();
    }
    BufferSlot* first = &slots_[used_slots_];
    used_slots_ += num;
    ++queues_;
    for (uint32_t i = 0; i < num; ++i) {
        BufferSlot& slot = first[i];
        slot = BufferSlot{};
        slot.address = carve(from, len, position, site);
        slot.bytes = round_up(len);
        slot.position = position;
        slot.queue = queues_;
        slot.managed = managed;
        add_buffer({slot.address, slot.bytes, site_index(site), self->index, static_cast<uint8_t>(from.space),
                    static_cast<uint8_t>(position), queues_});
    }
    record(kInitBuffer, site, queues_, 0);
    return first;
}

uint32_t TPipe::carve(toprope::Carver& from, uint32_t len, TPosition position, toprope::Site site) {
    using namespace toprope;
    const uint32_t begin = from.next;
    from.next += round_up(len);
    // A space that this core type does not have takes no part here: the other build of the kernel uses it.
    if (from.next > from.end && self->bytes[static_cast<int>(from.space)] != 0) {
        report("buffer-over-capacity", site, &kInitBuffer, "InitBuffer for %s needs %s[%u:%u], but %s has %u bytes: %u too many",
               kPositionNames[static_cast<int>(position)], kSpaceNames[static_cast<int>(from.space)], begin, from.next,
               kSpaceNames[static_cast<int>(from.space)], from.end, from.next - from.end);
        stop();
    }
    return begin;
}

void TPipe::reset_memory() {
    for (int s = 0; s < toprope::kSpaces; ++s) carvers_[s] = {static_cast<toprope::Space>(s), 0, toprope::self->bytes[s]};
    for (auto& slot : slots_) slot = toprope::BufferSlot{};
    for (auto& bits : taken_) bits = 0;
    used_slots_ = 0;
}

void TPipe::settle(toprope::Site site) {
    for (uint32_t i = 0; i < used_slots_; ++i) {
        toprope::BufferSlot& slot = slots_[i];
        if (slot.free_event >= 0) {
            toprope::wait_flag(static_cast<HardEvent>(slot.free_event), slot.free_id, site);
            slot.free_event = -1;
        }
    }
}

void TPipe::settle(toprope::Site site, toprope::Space space, uint32_t begin, uint32_t end) {
    for (uint32_t i = 0; i < used_slots_; ++i) {
        toprope::BufferSlot& slot = slots_[i];
        if (space_of(slot.position) == space && slot.address >= begin && slot.address < end)
            toprope::lower_event(slot.free_event, slot.free_id, site);
    }
}

void TPipe::end_of_life(toprope::Site site) {
    settle(site);
    for (uint32_t i = 0; i < used_slots_; ++i)
        if (slots_[i].managed && slots_[i].state != toprope::BufferState::free)
            toprope::warn("tensor-never-freed", slots_[i].allocated, &toprope::kAllocTensor,
                          "the %s tensor allocated here is still %s at the end of the kernel: FreeTensor is missing",
                          kPositionNames[static_cast<int>(slots_[i].position)], toprope::kStateNames[static_cast<int>(slots_[i].state)]);
}

}  // namespace AscendC
