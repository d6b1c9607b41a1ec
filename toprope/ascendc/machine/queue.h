// TPipe, TQue, TQueBind: who owns on-chip memory and how buffers travel between pipes.
// Rules: reference pages TPipe, TQue, TQueBind, TBufPool; the summary is in docs/design/queues.md.
#pragma once

#include "tbuf.h"

namespace AscendC {

class TPipe;
template <TPosition position, uint32_t bufIDSize>
class TBufPool;
inline TPipe* GetTPipePtr();

}  // namespace AscendC

namespace toprope {

// A queue's buffers and their order: all that does not depend on its positions and elements. Bodies in queue.cpp, compiled with the
// runtime: inlined into every kernel they were half of its compile time.
class SlotQueue {
public:
    // Called by InitBuffer.
    void take_buffers(BufferSlot* slots, uint32_t count) {
        slots_ = slots;
        count_ = count;
        cursor_ = first_ = waiting_ = 0;
    }

protected:
    BufferSlot& allocate(AscendC::TPosition position, Site site);
    void release(BufferSlot* slot, bool live, AscendC::HardEvent backward, Site site);
    bool enqueue(BufferSlot* slot, AscendC::HardEvent forward, int32_t depth, Site site);
    BufferSlot& dequeue(AscendC::TPosition position, Site site);
    void settle_free_events(Site site);
    bool any_free() const;

    BufferSlot* slots_ = nullptr;
    uint32_t count_ = 0, cursor_ = 0, first_ = 0, waiting_ = 0;
    uint8_t order_[kMaxBuffers] = {};

private:
    BufferSlot* own_slot(BufferSlot* slot, const Op& op, Site site);
};

}  // namespace toprope

namespace AscendC {

// Common part of TQue and TQueBind.
template <TPosition source, TPosition target, int32_t depth = 1, auto mask = 0>
class TQueBind : public toprope::SlotQueue {
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
        toprope::BufferSlot& slot = allocate(bufPosition, site);
        tensor.bind(&slot, slot.address, slot.bytes, bufPosition);
    }
    template <typename T>
    void FreeTensor(const LocalTensor<T>& tensor, toprope::Site site = toprope::Site::here()) {
        release(tensor.slot(), tensor.live(), kBackward, site);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor, toprope::Site site = toprope::Site::here()) {
        return enqueue(tensor.slot(), kForward, depth, site);
    }
    template <TPosition from, TPosition to, typename T>
    bool EnQue(const LocalTensor<T>& tensor, toprope::Site site = toprope::Site::here()) {
        return enqueue(tensor.slot(), toprope::forward_event(from, to), depth, site);
    }
    // Without a type: takes the buffer out of the queue, nothing more.
    void DeQue(toprope::Site site = toprope::Site::here()) { dequeue(bufPosition, site); }
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
        toprope::BufferSlot& slot = dequeue(bufPosition, site);
        tensor.bind(&slot, slot.address, slot.bytes, bufPosition);
    }

    bool VacantInQue() const { return waiting_ < static_cast<uint32_t>(depth < 1 ? 1 : depth); }
    bool HasTensorInQue() const { return waiting_ != 0; }
    int32_t GetTensorCountInQue() const { return static_cast<int32_t>(waiting_); }
    bool HasIdleBuffer() const { return any_free(); }
    void FreeAllEvent(toprope::Site site = toprope::Site::here()) { settle_free_events(site); }
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

private:
    static constexpr HardEvent kForward = toprope::forward_event(source, target);
    static constexpr HardEvent kBackward = toprope::backward_event(source, target);
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
    TPipe() : TPipe(toprope::kEventIdsHere) {}
    // A copy gives out buffers behind those of its original and ends without the original's checks.
    TPipe(const TPipe& other) { *this = other; }
    TPipe& operator=(const TPipe& other);
    ~TPipe();
    void Init();
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
    TEventID AllocEventID(HardEvent event, toprope::Site site = toprope::Site::here());
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
        return static_cast<TEventID>(id < ids_ ? id : ids_ - 1);
    }
    template <TPosition position>
    uint64_t GetQueueEndAddress() const {
        return carvers_[static_cast<int>(space_of(position))].next;
    }
    uint8_t* GetBaseAddr(int8_t logicPos) const {
        return toprope::self->memory[static_cast<int>(space_of(static_cast<TPosition>(logicPos)))];
    }

    // -- for TBufPool and the queues ----------------------------------------------------------------------------------------
    // Waits for the events of the free buffers inside a range of a memory.
    void settle(toprope::Site site, toprope::Space space, uint32_t begin, uint32_t end);
    template <class Holder>
    bool init_from(Holder& holder, uint32_t num, uint32_t len, toprope::Carver& from, toprope::Site site) {
        holder.take_buffers(give(num, len, from, Holder::bufPosition, Holder::isTQue, site), num);
        return true;
    }

private:
    // Bodies in queue.cpp. `ids` is how many event ids the kernel's chip has.
    explicit TPipe(int ids);
    static uint32_t round_up(uint32_t bytes) { return (bytes + 31u) / 32u * 32u; }
    int lowest_free(HardEvent event) const;
    toprope::BufferSlot* give(uint32_t num, uint32_t len, toprope::Carver& from, TPosition position, bool managed, toprope::Site site);
    uint32_t carve(toprope::Carver& from, uint32_t len, TPosition position, toprope::Site site);
    void reset_memory();
    void settle(toprope::Site site);
    void end_of_life(toprope::Site site);
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

    toprope::Carver carvers_[toprope::kSpaces];
    toprope::BufferSlot slots_[toprope::kMaxBuffers];
    uint8_t taken_[static_cast<int>(HardEvent::MAX)] = {};
    uint32_t used_slots_ = 0, queues_ = 0, spill_bytes_ = 0;
    uint8_t* spill_ = nullptr;
    int ids_ = toprope::kEventIds;
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

}  // namespace AscendC
