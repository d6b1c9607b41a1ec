// Sorts the indices of an embedding over all cores, stably: entries of (key, position), the smallest index first. Cores sort runs of the
// indices in UB; then, round by round, a core makes one run of four, a few entries of each at a time. After a round all cores meet.
#pragma once

#include "kernel_operator.h"

// The sort is by float, largest first: an index becomes the bits of a normal float that is the more negative the larger the index.
constexpr int32_t INDEX_KEY = static_cast<int32_t>(0x80800000u);

class IndexSort {
    template <typename T>
    using Local = AscendC::LocalTensor<T>;

public:
    // The address of the entries: 8 bytes for each of `count` indices. `workspace` has room for twice as much.
    __aicore__ inline GM_ADDR Run(GM_ADDR indices, GM_ADDR workspace, uint32_t count, uint32_t runLength) {
        all = count;
        const uint64_t bytes = static_cast<uint64_t>(count) * ENTRY * sizeof(float);
        GM_ADDR from = workspace;
        GM_ADDR to = workspace + bytes;
        indexGm.SetGlobalBuffer((__gm__ int32_t*)indices, count);
        Take(to, from);
        SortRuns(runLength);
        for (uint64_t length = runLength; length < count; length *= QUEUES) {
            AscendC::SyncAll();
            Take(from, to);
            for (uint64_t at = AscendC::GetBlockIdx() * length * QUEUES; at < count; at += AscendC::GetBlockNum() * length * QUEUES)
                Merge(at, length);
            GM_ADDR other = from;
            from = to;
            to = other;
        }
        AscendC::SyncAll();
        return from;
    }

private:
    static constexpr uint32_t QUEUES = 4, ENTRY = 2, SORTED = 32, CHUNK = 2048, BLOCK = 8;  // queues of a merge, floats of an entry,
                                                                                            // entries of a queue in UB, floats of a block
    __aicore__ inline void Take(GM_ADDR from, GM_ADDR to) {
        fromGm.SetGlobalBuffer((__gm__ float*)from, static_cast<uint64_t>(all) * ENTRY);
        toGm.SetGlobalBuffer((__gm__ float*)to, static_cast<uint64_t>(all) * ENTRY);
    }
    template <AscendC::HardEvent event>
    __aicore__ inline void Order() {
        const auto id = GetTPipePtr()->FetchEventID(event);
        AscendC::SetFlag<event>(id);
        AscendC::WaitFlag<event>(id);
    }
    __aicore__ static inline uint32_t Least(uint64_t a, uint64_t b) { return static_cast<uint32_t>(a < b ? a : b); }

    __aicore__ inline void SortRuns(uint32_t runLength) {
        AscendC::TPipe pipe;
        AscendC::TBuf<AscendC::TPosition::VECCALC> room;
        pipe.InitBuffer(room, (2 + 2 * ENTRY) * runLength * sizeof(float));
        const Local<float> keys = room.Get<float>(), ids = keys[runLength];
        Local<float> entries = ids[runLength], other = entries[ENTRY * runLength];
        for (uint64_t at = static_cast<uint64_t>(AscendC::GetBlockIdx()) * runLength; at < all;
             at += static_cast<uint64_t>(AscendC::GetBlockNum()) * runLength) {
            const uint32_t n = Least(runLength, all - at), whole = (n + SORTED - 1) / SORTED * SORTED;
            Order<AscendC::HardEvent::MTE3_V>();
            Load(keys, at, n, whole);
            AscendC::CreateVecIndex(ids.ReinterpretCast<int32_t>(), static_cast<int32_t>(at), whole);
            AscendC::Sort32(entries, keys, ids.ReinterpretCast<uint32_t>(), static_cast<int32_t>(whole / SORTED));
            for (uint32_t length = SORTED; length < whole; length *= QUEUES) {
                MergeRuns(other, entries, length, whole);
                const Local<float> swapped = entries;
                entries = other;
                other = swapped;
            }
            Order<AscendC::HardEvent::V_MTE3>();
            AscendC::DataCopyPad(toGm[at * ENTRY], entries, {1, static_cast<uint32_t>(n * ENTRY * sizeof(float)), 0, 0, 0});
        }
        AscendC::PipeBarrier<PIPE_ALL>();
    }
    // Keys of indices; places without one come last.
    __aicore__ inline void Load(const Local<float>& keys, uint64_t at, uint32_t n, uint32_t whole) {
        constexpr int32_t NONE = 0x7F000000;  // with INDEX_KEY: minus infinity
        const Local<int32_t> numbers = keys.ReinterpretCast<int32_t>();
        AscendC::Duplicate(numbers, NONE, static_cast<int32_t>(whole));
        Order<AscendC::HardEvent::V_MTE2>();
        AscendC::DataCopyPad(numbers, indexGm[at], {1, static_cast<uint32_t>(n * sizeof(int32_t)), 0, 0, 0},
                             {true, 0, static_cast<uint8_t>((BLOCK - n % BLOCK) % BLOCK), NONE});
        Order<AscendC::HardEvent::MTE2_V>();
        AscendC::Adds(numbers, numbers, INDEX_KEY, static_cast<int32_t>(whole));
    }
    // Runs of `length` entries in UB become runs of four times as many.
    __aicore__ inline void MergeRuns(const Local<float>& to, const Local<float>& from, uint32_t length, uint32_t whole) {
        for (uint32_t at = 0; at < whole; at += QUEUES * length) {
            uint32_t lengths[QUEUES] = {}, queues = 0;
            for (uint32_t begin = at; queues < QUEUES && begin < whole; begin += length) lengths[queues++] = Least(length, whole - begin);
            Local<float> heads[QUEUES];
            for (uint32_t q = 0; q < QUEUES; q++) heads[q] = from[(at + (q < queues ? q : 0) * length) * ENTRY];
            Together(to[at * ENTRY], heads, lengths, queues, false);
        }
    }
    // Queues that begin at `heads`, merged; until one of them has no more, if `suspended`.
    __aicore__ inline void Together(const Local<float>& to, const Local<float>* heads, const uint32_t* lengths, uint32_t queues,
                                    bool suspended) {
        if (queues == 1) {
            AscendC::Adds(to.ReinterpretCast<int32_t>(), heads[0].ReinterpretCast<int32_t>(), 0, static_cast<int32_t>(lengths[0] * ENTRY));
            return;
        }
        uint16_t counts[QUEUES];
        for (uint32_t q = 0; q < QUEUES; q++) counts[q] = static_cast<uint16_t>(lengths[q]);
        AscendC::MrgSort(to, {heads[0], heads[1], heads[2], heads[3]},
                         AscendC::MrgSort4Info(counts, suspended, static_cast<uint16_t>((1 << queues) - 1), 1));
    }

    // What a merge has of one run: `next` to `end` in GM, of which `length` entries lie in UB from `head` on.
    struct Queue {
        uint64_t next, end;
        uint32_t slot, head, length;
    };
    __aicore__ inline void Merge(uint64_t at, uint64_t runLength) {
        AscendC::TPipe pipe;
        AscendC::TBuf<AscendC::TPosition::VECCALC> room;
        pipe.InitBuffer(room, 2 * QUEUES * CHUNK * ENTRY * sizeof(float));
        const Local<float> chunks = room.Get<float>(), merged = chunks[QUEUES * CHUNK * ENTRY];
        Queue queue[QUEUES];
        uint32_t queues = 0;
        for (uint64_t begin = at; queues < QUEUES && begin < all; begin += runLength, queues++)
            queue[queues] = {begin, begin + runLength < all ? begin + runLength : all, queues, 0, 0};
        for (uint64_t done = at; queues > 0;) {
            done += Step(chunks, merged, queue, queues, done);
            uint32_t left = 0;  // queues with entries stay in their order: equal keys come out as they were
            for (uint32_t q = 0; q < queues; q++)
                if (queue[q].next < queue[q].end) queue[left++] = queue[q];
            queues = left;
        }
        AscendC::PipeBarrier<PIPE_ALL>();
    }
    __aicore__ inline uint32_t Step(const Local<float>& chunks, const Local<float>& merged, Queue* queue, uint32_t queues, uint64_t done) {
        uint32_t lengths[QUEUES] = {}, total = 0;
        bool more = false;
        Local<float> heads[QUEUES];
        for (uint32_t q = 0; q < QUEUES; q++) {
            Queue& now = queue[q < queues ? q : 0];
            if (q < queues) {
                if (now.length < CHUNK / 2 && now.next + now.length < now.end) Refill(chunks, now);
                lengths[q] = now.length;
                more |= now.next + now.length < now.end;
            }
            heads[q] = chunks[(now.slot * CHUNK + now.head) * ENTRY];
        }
        Order<AscendC::HardEvent::MTE2_V>();
        Order<AscendC::HardEvent::MTE3_V>();
        Together(merged, heads, lengths, queues, more);
        Order<AscendC::HardEvent::V_MTE3>();
        Order<AscendC::HardEvent::V_MTE2>();
        uint16_t taken[QUEUES] = {};
        if (queues > 1 && more) {
            Order<AscendC::HardEvent::V_S>();
            AscendC::GetMrgSortResult(taken[0], taken[1], taken[2], taken[3]);
        }
        for (uint32_t q = 0; q < queues; q++) {
            const uint32_t n = queues > 1 && more ? taken[q] : lengths[q];
            queue[q].next += n;
            queue[q].head += n;
            queue[q].length -= n;
            total += n;
        }
        AscendC::DataCopyPad(toGm[done * ENTRY], merged, {1, static_cast<uint32_t>(total * ENTRY * sizeof(float)), 0, 0, 0});
        return total;
    }
    __aicore__ inline void Refill(const Local<float>& chunks, Queue& queue) {
        queue.head = 0;
        queue.length = Least(CHUNK, queue.end - queue.next);
        AscendC::DataCopyPad(chunks[queue.slot * CHUNK * ENTRY], fromGm[queue.next * ENTRY],
                             {1, static_cast<uint32_t>(queue.length * ENTRY * sizeof(float)), 0, 0, 0}, {false, 0, 0, 0});
    }

    AscendC::GlobalTensor<int32_t> indexGm;
    AscendC::GlobalTensor<float> fromGm, toGm;
    uint32_t all = 0;
};
