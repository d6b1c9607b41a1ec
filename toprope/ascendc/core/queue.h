// TPipe, TQue, TQueBind: who owns on-chip memory and how buffers travel between pipes.
// Rules: reference pages TPipe, TQue, TQueBind, TBufPool; the summary is in docs/design/queues.md.
#pragma once

#include "tbuf.h"

namespace AscendC {

class TPipe;
template <TPosition position, uint32_t bufIDSize>
class TBufPool;
inline TPipe* GetTPipePtr();

// Common part of TQue and TQueBind: the buffers and their order.
template <TPosition source, TPosition target, int32_t depth = 1, auto mask = 0>
class TQueBind {
public:
    static constexpr bool isTQue = true;
    static constexpr TPosition srcPosition = source, dstPosition = target;
    static constexpr TPosition bufPosition = toprope::buffer_position(source, target);

    template <typename T>
    LocalTensor<T> AllocTensor(toprope::Site site = toprope::Site::here()) {
        LocalTensor<T> tensor;
        AllocTensor(tensor, site);
        return tensor;
    }
    template <typename T>
    void AllocTensor(LocalTensor<T>& tensor, toprope::Site site = toprope::Site::here()) {
        using namespace toprope;
        if (count_ == 0) {
            report("queue-without-buffer", site, &kAllocTensor, "AllocTensor on a queue that InitBuffer has not given any buffer");
            stop();
        }
        for (uint32_t i = 0; i < count_; ++i) {
            BufferSlot& slot = slots_[(cursor_ + i) % count_];
            if (slot.state != BufferState::free) continue;
            cursor_ = (cursor_ + i + 1) % count_;
            settle_free_event(slot, site);
            slot.state = BufferState::occupied;
            slot.allocated = site;
            record(kAllocTensor, site, slot.queue, slot.address);
            tensor.bind(&slot, slot.address, slot.bytes, bufPosition);
            return;
        }
        report("queue-no-free-buffer", site, &kAllocTensor,
               "AllocTensor: all %u buffers of this %s queue are in use; on the NPU this waits for ever (FreeTensor missing?)", count_,
               kPositionNames[static_cast<int>(bufPosition)]);
        stop();
    }
    template <typename T>
    void FreeTensor(const LocalTensor<T>& tensor, toprope::Site site = toprope::Site::here()) {
        using namespace toprope;
        BufferSlot* slot = own_slot(tensor.slot(), kFreeTensor, site);
        if (slot == nullptr) return;
        if (slot->state == BufferState::free || !tensor.live()) {
            report("tensor-freed-twice", site, &kFreeTensor, "FreeTensor on a tensor that has already been given back");
            return;
        }
        slot->state = BufferState::free;
        ++slot->generation;
        record(kFreeTensor, site, slot->queue, slot->address);
        raise(toprope::backward_event(source, target), slot->free_event, slot->free_id, site);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor, toprope::Site site = toprope::Site::here()) {
        return enqueue(tensor.slot(), toprope::forward_event(source, target), site);
    }
    template <TPosition from, TPosition to, typename T>
    bool EnQue(const LocalTensor<T>& tensor, toprope::Site site = toprope::Site::here()) {
        return enqueue(tensor.slot(), toprope::forward_event(from, to), site);
    }
    // Without a type: takes the buffer out of the queue, nothing more.
    void DeQue(toprope::Site site = toprope::Site::here()) { DeQue<uint8_t>(site); }
    template <typename T>
    LocalTensor<T> DeQue(toprope::Site site = toprope::Site::here()) {
        LocalTensor<T> tensor;
        DeQue(tensor, site);
        return tensor;
    }
    template <TPosition from, TPosition to, typename T>
    LocalTensor<T> DeQue(toprope::Site site = toprope::Site::here()) {
        return DeQue<T>(site);
    }
    template <typename T>
    void DeQue(LocalTensor<T>& tensor, toprope::Site site = toprope::Site::here()) {
        using namespace toprope;
        if (waiting_ == 0) {
            report("deque-from-empty-queue", site, &kDeQue, "DeQue from an empty %s queue: no EnQue comes before it",
                   kPositionNames[static_cast<int>(bufPosition)]);
            stop();
        }
        BufferSlot& slot = slots_[order_[first_]];
        first_ = (first_ + 1) % kMaxBuffers;
        --waiting_;
        lower(slot.enqueue_event, slot.enqueue_id, site);
        slot.state = BufferState::dequeued;
        record(kDeQue, site, slot.queue, slot.address);
        tensor.bind(&slot, slot.address, slot.bytes, bufPosition);
    }

    bool VacantInQue() const { return waiting_ < static_cast<uint32_t>(depth < 1 ? 1 : depth); }
    bool HasTensorInQue() const { return waiting_ != 0; }
    int32_t GetTensorCountInQue() const { return static_cast<int32_t>(waiting_); }
    bool HasIdleBuffer() const {
        for (uint32_t i = 0; i < count_; ++i)
            if (slots_[i].state == toprope::BufferState::free) return true;
        return false;
    }
    void FreeAllEvent(toprope::Site site = toprope::Site::here()) {
        for (uint32_t i = 0; i < count_; ++i) settle_free_event(slots_[i], site);
    }
    TBuffAddr GetBufferAddr(TBufHandle handle) const {
        return {handle->bytes, handle->address, handle, static_cast<uint8_t>(handle->position)};
    }
    // For pools that users write: the queue's buffers are `num` slots from `first` on; each gets its place.
    void InitStartBufHandle(TBufHandle first, uint8_t num, uint32_t) { take_buffers(first, num); }
    template <typename Pool>
    void InitBufHandle(Pool*, uint32_t index, TBufHandle first, uint32_t curPoolAddr, uint32_t len,
                       toprope::Site site = toprope::Site::here()) {
        toprope::place_slot(first[index], curPoolAddr, len, bufPosition, true, site);
    }

    // Called by InitBuffer.
    void take_buffers(toprope::BufferSlot* slots, uint32_t count) {
        slots_ = slots;
        count_ = count;
        cursor_ = first_ = waiting_ = 0;
    }

private:
    toprope::BufferSlot* own_slot(toprope::BufferSlot* slot, const toprope::Op& op, toprope::Site site) {
        if (slot != nullptr && slot >= slots_ && slot < slots_ + count_) return slot;
        toprope::report("tensor-of-another-queue", site, &op, "%s: this tensor was not allocated from this queue", op.name);
        return nullptr;
    }
    bool enqueue(toprope::BufferSlot* tensor_slot, HardEvent event, toprope::Site site) {
        using namespace toprope;
        BufferSlot* slot = own_slot(tensor_slot, kEnQue, site);
        if (slot == nullptr) return false;
        if (slot->state != BufferState::occupied && slot->state != BufferState::dequeued) {
            report("enque-in-wrong-state", site, &kEnQue, "EnQue on a tensor that is %s; it must be allocated or dequeued",
                   kStateNames[static_cast<int>(slot->state)]);
            return false;
        }
        if (waiting_ >= static_cast<uint32_t>(depth < 1 ? 1 : depth))
            report("queue-depth-exceeded", site, &kEnQue, "EnQue number %u without a DeQue, but the queue's depth is %d", waiting_ + 1,
                   depth);
        slot->state = BufferState::enqueued;
        record(kEnQue, site, slot->queue, slot->address);
        order_[(first_ + waiting_) % kMaxBuffers] = static_cast<uint8_t>(slot - slots_);
        ++waiting_;
        raise(event, slot->enqueue_event, slot->enqueue_id, site);
        return true;
    }
    static inline void raise(HardEvent event, int16_t& slot_event, int16_t& slot_id, toprope::Site site);
    static inline void lower(int16_t& slot_event, int16_t& slot_id, toprope::Site site);
    static void settle_free_event(toprope::BufferSlot& slot, toprope::Site site) { lower(slot.free_event, slot.free_id, site); }

    toprope::BufferSlot* slots_ = nullptr;
    uint32_t count_ = 0, cursor_ = 0, first_ = 0, waiting_ = 0;
    uint8_t order_[toprope::kMaxBuffers] = {};
};

constexpr TPosition queue_source(TPosition position) {
    switch (position) {
        case TPosition::A2:
            return TPosition::A1;
        case TPosition::B2:
            return TPosition::B1;
        case TPosition::C2:
            return TPosition::C1;
        case TPosition::C2PIPE2GM:
            return TPosition::B1;
        case TPosition::CO1:
        case TPosition::CO2:
        case TPosition::VECOUT:
        case TPosition::VECCALC:
            return position;
        default:
            return TPosition::GM;
    }
}
constexpr TPosition queue_target(TPosition position) {
    switch (position) {
        case TPosition::CO1:
            return TPosition::CO2;
        case TPosition::CO2:
        case TPosition::VECOUT:
            return TPosition::GM;
        default:
            return position;
    }
}
// Choices that a queue takes as its mask argument, a pointer to one of these. Sizes and numbers are those of InitBuffer; the conversions
// nd2nz and nz2nd are 310P's. Page: TQue简介.
struct TQueConfig {
    bool nd2nz = false, nz2nd = false, scmBlockGroup = false;
    uint32_t bufferLen = 0, bufferNumber = 0, consumerSize = 0;
    TPosition consumer[8] = {};
    bool enableStaticEvtId = false, enableLoopQueue = false;
};

template <TPosition position, int32_t depth = 1, auto mask = 0>
class TQue : public TQueBind<queue_source(position), queue_target(position), depth, mask> {};

class TPipe {
public:
    TPipe() { Init(); }
    // A copy gives out buffers behind those of its original and ends without the original's checks.
    TPipe(const TPipe& other) { *this = other; }
    TPipe& operator=(const TPipe& other) {
        for (size_t i = 0; i < sizeof carvers_ / sizeof *carvers_; ++i) carvers_[i] = other.carvers_[i];
        destroyed_ = true;
        return *this;
    }
    ~TPipe() {
        if (toprope::self->pipe == this) toprope::self->pipe = nullptr;
        if (!destroyed_) end_of_life(toprope::self->last_site);
    }
    void Init() {
        toprope::self->pipe = this;
        toprope::self->vector = {};
        toprope::self->atomic = toprope::AtomicOp::none;
        reset_memory();
        destroyed_ = false;
    }
    // num buffers of len bytes each, in the memory of the queue's position; len is rounded up to 32 bytes.
    template <class Queue>
    bool InitBuffer(Queue& queue, uint8_t num, uint32_t len, toprope::Site site = toprope::Site::here()) {
        return init_from(queue, num, len, carvers_[static_cast<int>(space_of(Queue::bufPosition))], site);
    }
    template <TPosition position>
    bool InitBuffer(TBuf<position>& buffer, uint32_t len, toprope::Site site = toprope::Site::here()) {
        return init_from(buffer, 1, len, carvers_[static_cast<int>(space_of(position))], site);
    }
    template <class Pool>
    bool InitBufPool(Pool& pool, uint32_t len, toprope::Site site = toprope::Site::here()) {
        toprope::Carver& from = carvers_[static_cast<int>(space_of(Pool::bufPosition))];
        const uint32_t begin = carve(from, len, Pool::bufPosition, site);
        pool.take_range({from.space, begin, begin + round_up(len)});
        return true;
    }
    // Both pools use the same memory, one after the other.
    template <class Pool, class Other>
    bool InitBufPool(Pool& pool, uint32_t len, Other& shared, toprope::Site site = toprope::Site::here()) {
        toprope::Carver range = shared.range();
        if (range.next + round_up(len) > range.end)
            toprope::report("buffer-over-capacity", site, &toprope::kInitBuffer,
                            "InitBufPool: %u bytes do not fit into the shared pool of %u", len, range.end - range.next);
        range.end = range.next + round_up(len);
        pool.take_range(range);
        return true;
    }
    void Reset(toprope::Site site = toprope::Site::here()) {
        settle(site);
        reset_memory();
    }
    void Destroy(toprope::Site site = toprope::Site::here()) {
        end_of_life(site);
        toprope::pipe_barrier(toprope::Pipe::all, site);
        destroyed_ = true;
    }

    void DestroyWithoutPipeAll(toprope::Site site = toprope::Site::here()) {
        end_of_life(site);
        destroyed_ = true;
    }

    // A place in GM to move UB buffers out to and back; offsets in bytes, sizes in elements. Copies are api/data_copy.h's.
    template <typename T>
    void InitSpmBuffer(const GlobalTensor<T>& workspace, int32_t bufferSize) {
        spill_ = reinterpret_cast<uint8_t*>(workspace.pointer());
        spill_bytes_ = static_cast<uint32_t>(bufferSize);
    }
    template <typename T>
    void WriteSpmBuffer(const LocalTensor<T>& from, int32_t writeSize, int32_t writeOffset = 0,
                        toprope::Site site = toprope::Site::here()) {
        DataCopy(spill<T>(writeOffset, toprope::bytes_of<T>(static_cast<uint32_t>(writeSize)), site), from,
                 static_cast<uint32_t>(writeSize), site);
    }
    template <typename T, class Params>
    void WriteSpmBuffer(const LocalTensor<T>& from, const Params& copyParams, int32_t writeOffset = 0,
                        toprope::Site site = toprope::Site::here()) {
        DataCopy(spill<T>(writeOffset, 0, site), from, copyParams, site);
    }
    template <typename T>
    void ReadSpmBuffer(const LocalTensor<T>& to, int32_t readSize, int32_t readOffset = 0, toprope::Site site = toprope::Site::here()) {
        DataCopy(to, spill<T>(readOffset, toprope::bytes_of<T>(static_cast<uint32_t>(readSize)), site), static_cast<uint32_t>(readSize),
                 site);
    }
    template <typename T, class Params>
    void ReadSpmBuffer(const LocalTensor<T>& to, const Params& copyParams, int32_t readOffset = 0,
                       toprope::Site site = toprope::Site::here()) {
        DataCopy(to, spill<T>(readOffset, 0, site), copyParams, site);
    }

    template <HardEvent event>
    TEventID AllocEventID(toprope::Site site = toprope::Site::here()) {
        return AllocEventID(event, site);
    }
    TEventID AllocEventID(HardEvent event, toprope::Site site = toprope::Site::here()) {
        const int id = lowest_free(event);
        if (id >= kIds) {
            toprope::report("event-ids-exhausted", site, &toprope::kAllocEventID,
                            "all %d ids of event %s are taken: too many buffers in flight or a ReleaseEventID is missing", kIds,
                            toprope::kEvents[static_cast<int>(event)].name);
            toprope::stop();
        }
        taken_[static_cast<int>(event)] |= static_cast<uint8_t>(1u << id);
        return static_cast<TEventID>(id);
    }
    template <HardEvent event>
    void ReleaseEventID(TEventID id) {
        ReleaseEventID(event, id);
    }
    void ReleaseEventID(HardEvent event, TEventID id) { taken_[static_cast<int>(event)] &= static_cast<uint8_t>(~(1u << id)); }
    template <HardEvent event>
    TEventID FetchEventID() {
        return FetchEventID(event);
    }
    // The lowest free id, without reserving it.
    TEventID FetchEventID(HardEvent event) {
        const int id = lowest_free(event);
        return static_cast<TEventID>(id < kIds ? id : kIds - 1);
    }
    template <TPosition position>
    uint64_t GetQueueEndAddress() const {
        return carvers_[static_cast<int>(space_of(position))].next;
    }
    uint8_t* GetBaseAddr(int8_t logicPos) const {
        return toprope::self->memory[static_cast<int>(space_of(static_cast<TPosition>(logicPos)))];
    }

    // -- for TBufPool and the queues ----------------------------------------------------------------------------------------
    template <class Holder>
    bool init_from(Holder& holder, uint32_t num, uint32_t len, toprope::Carver& from, toprope::Site site) {
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
            slot.address = carve(from, len, Holder::bufPosition, site);
            slot.bytes = round_up(len);
            slot.position = Holder::bufPosition;
            slot.queue = queues_;
            slot.managed = Holder::isTQue;
            add_buffer({slot.address, slot.bytes, site_index(site), self->index, static_cast<uint8_t>(from.space),
                        static_cast<uint8_t>(Holder::bufPosition), queues_});
        }
        record(kInitBuffer, site, queues_, 0);
        holder.take_buffers(first, num);
        return true;
    }

private:
    static constexpr int kIds = __NPU_ARCH__ == 1001 ? 4 : toprope::kEventIds;
    static uint32_t round_up(uint32_t bytes) { return (bytes + 31u) / 32u * 32u; }

    int lowest_free(HardEvent event) const {
        int id = 0;
        while (id < kIds && (taken_[static_cast<int>(event)] >> id & 1u)) ++id;
        return id;
    }
    uint32_t carve(toprope::Carver& from, uint32_t len, TPosition position, toprope::Site site) {
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
    void reset_memory() {
        for (int s = 0; s < toprope::kSpaces; ++s) carvers_[s] = {static_cast<toprope::Space>(s), 0, toprope::self->bytes[s]};
        for (auto& slot : slots_) slot = toprope::BufferSlot{};
        for (auto& bits : taken_) bits = 0;
        used_slots_ = 0;
    }
    void settle(toprope::Site site) {
        for (uint32_t i = 0; i < used_slots_; ++i) {
            toprope::BufferSlot& slot = slots_[i];
            if (slot.free_event >= 0) {
                toprope::wait_flag(static_cast<HardEvent>(slot.free_event), slot.free_id, site);
                slot.free_event = -1;
            }
        }
    }
    void end_of_life(toprope::Site site) {
        settle(site);
        for (uint32_t i = 0; i < used_slots_; ++i)
            if (slots_[i].managed && slots_[i].state != toprope::BufferState::free)
                toprope::warn("tensor-never-freed", slots_[i].allocated, &toprope::kAllocTensor,
                              "the %s tensor allocated here is still %s at the end of the kernel: FreeTensor is missing",
                              toprope_position_name(slots_[i].position), toprope::kStateNames[static_cast<int>(slots_[i].state)]);
    }
    template <typename T>
    GlobalTensor<T> spill(int32_t offset, uint64_t bytes, toprope::Site site) const {
        if (spill_ == nullptr || static_cast<uint64_t>(offset) + bytes > spill_bytes_)
            toprope::report("buffer-over-capacity", site, &toprope::kInitBuffer,
                            "SPM buffer: bytes [%d:%llu] are used, InitSpmBuffer gave %u", offset,
                            static_cast<unsigned long long>(static_cast<uint64_t>(offset) + bytes), spill_bytes_);
        GlobalTensor<T> tensor;
        tensor.SetGlobalBuffer(reinterpret_cast<T*>(spill_ + offset));
        return tensor;
    }
    static const char* toprope_position_name(TPosition position) { return kPositionNames[static_cast<int>(position)]; }

    toprope::Carver carvers_[toprope::kSpaces];
    toprope::BufferSlot slots_[toprope::kMaxBuffers];
    uint8_t taken_[static_cast<int>(HardEvent::MAX)] = {};
    uint32_t used_slots_ = 0, queues_ = 0, spill_bytes_ = 0;
    uint8_t* spill_ = nullptr;
    bool destroyed_ = false;
};

inline TPipe* GetTPipePtr() {
    auto* pipe = static_cast<TPipe*>(toprope::self->pipe);
    if (pipe == nullptr) {
        toprope::report("no-pipe", toprope::self->last_site, nullptr, "GetTPipePtr before any TPipe was constructed on this core");
        toprope::stop();
    }
    return pipe;
}

template <TPosition source, TPosition target, int32_t depth, auto mask>
inline void TQueBind<source, target, depth, mask>::raise(HardEvent event, int16_t& slot_event, int16_t& slot_id, toprope::Site site) {
    slot_event = static_cast<int16_t>(event);
    slot_id = 0;
    if (event == HardEvent::V_V || !toprope::event_applies(event)) return;
    slot_id = GetTPipePtr()->AllocEventID(event, site);
    toprope::set_flag(event, slot_id, site);
}

template <TPosition source, TPosition target, int32_t depth, auto mask>
inline void TQueBind<source, target, depth, mask>::lower(int16_t& slot_event, int16_t& slot_id, toprope::Site site) {
    if (slot_event < 0) return;
    const auto event = static_cast<HardEvent>(slot_event);
    slot_event = -1;
    if (event == HardEvent::V_V) return toprope::pipe_barrier(toprope::Pipe::v, site);
    if (!toprope::event_applies(event)) return;
    toprope::wait_flag(event, slot_id, site);
    GetTPipePtr()->ReleaseEventID(event, static_cast<TEventID>(slot_id));
}

}  // namespace AscendC
