// TBufPool: a part of on-chip memory with an allocator of its own; TPipe::InitBufPool or another pool gives it its range.
// Page: TBufPool.
#pragma once

#include "queue.h"

namespace AscendC {

// A part of on-chip memory with an allocator of its own.
template <TPosition position, uint32_t bufIDSize = 4>
class TBufPool {
public:
    static constexpr TPosition bufPosition = position;
    template <class Queue>
    bool InitBuffer(Queue& queue, uint8_t num, uint32_t len, toprope::Site site = toprope::Site::here()) {
        return GetTPipePtr()->init_from(queue, num, len, carver_, site);
    }
    template <TPosition pos>
    bool InitBuffer(TBuf<pos>& buffer, uint32_t len, toprope::Site site = toprope::Site::here()) {
        return GetTPipePtr()->init_from(buffer, 1, len, carver_, site);
    }
    template <class Pool>
    bool InitBufPool(Pool& pool, uint32_t len, toprope::Site site = toprope::Site::here()) {
        const uint32_t begin = carver_.next;
        carver_.next += (len + 31) / 32 * 32;
        require_room(begin, carver_.next, carver_.end, site);
        pool.take_range({carver_.space, begin, carver_.next});
        return true;
    }
    // Both pools use the same memory, one after the other.
    template <class Pool, class Other>
    bool InitBufPool(Pool& pool, uint32_t len, Other& shared, toprope::Site site = toprope::Site::here()) {
        toprope::Carver range = shared.range();
        require_room(range.next, range.next + len, range.end, site);
        range.end = range.next + (len + 31) / 32 * 32;
        pool.take_range(range);
        return true;
    }
    // Its buffers go: what still reads or writes them is waited for. Page: TBufPool/Reset.
    void Reset(toprope::Site site = toprope::Site::here()) {
        GetTPipePtr()->settle(site, carver_.space, begin_, carver_.end);
        carver_.next = begin_;
    }
    void take_range(toprope::Carver range) {
        carver_ = range;
        begin_ = range.next;
    }
    toprope::Carver range() const { return {carver_.space, begin_, carver_.end}; }

private:
    static void require_room(uint32_t begin, uint32_t end, uint32_t most, toprope::Site site) {
        if (end > most)
            toprope::report("buffer-over-capacity", site, &toprope::kInitBuffer,
                            "InitBufPool: bytes [%u:%u] do not fit into the pool around it, which ends at %u", begin, end, most);
    }
    toprope::Carver carver_{toprope::Space::ub, 0, 0};
    uint32_t begin_ = 0;
};

}  // namespace AscendC
