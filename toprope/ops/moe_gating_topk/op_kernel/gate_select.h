// How the k best of a row are found.
// The vector unit sorts 32 scores in 16 cycles, 1,024 in 512 - and nearly all of them for nothing. A maximum of eight neighbours costs an
// eighth of a cycle, and the k best experts lie in the k blocks of eight with the largest maxima: so maxima are sorted instead, their
// blocks fetched with Gatherb, and those few experts sorted. Blocks are put in ascending order first, and every step is stable: of equal
// scores the lower expert wins.
#pragma once

#include "gate_rows.h"

// Finds the best entries of every row. All steps work on all rows of a tile at once.
template <typename T>
class GateSelect : protected GateRows<T> {
protected:
    using Base = GateRows<T>;
    using Base::t, Base::R, Base::Room, Base::IntRoom, Base::choice, Base::partial, Base::values, Base::blocks;

    __aicore__ inline void OpenSelect(uint32_t firstExpert = 0) {
        const uint32_t even = RoundUp(R, 2);
        sorted = t.blocks ? t.width / BLOCK : t.width;  // of a row: scores or maxima that are sorted first
        candidates = t.blocks ? t.blocks * BLOCK : t.width;
        uint32_t most = sorted > candidates ? sorted : candidates;
        if (t.groups > 1 && most < t.width) most = t.width;
        entries = Room(even * most * 2);
        merged = Room(even * most * 2);
        best = Room(RoundUp(R, BLOCK) * t.keep);
        places = IntRoom(RoundUp(R, BLOCK) * t.keep);
        weights = Room(RoundUp(R, BLOCK) * t.keep);
        ones = Room(R * t.keep);
        Duplicate(entries, 0.0f, Int(even * most * 2));  // a Gather over rows passes over what lies between them
        Duplicate(merged, 0.0f, Int(even * most * 2));
        Duplicate(best, 0.0f, Int(RoundUp(R, BLOCK) * t.keep));
        Duplicate(weights, 0.0f, Int(RoundUp(R, BLOCK) * t.keep));
        ids = Table(R, sorted, 1, 0);
        if (t.blocks == 0 && firstExpert) Adds(ids, ids, Int(firstExpert), Int(sorted));
        bestAt = Table(R, t.keep, ENTRY, candidates * ENTRY);
        if (t.blocks) OpenBlocks(even, firstExpert);
        if (t.groups > 1) OpenGroups(even);
    }

    // `best` and `places`: the `keep` largest of each row of `from`, in order, and where they are in the row.
    __aicore__ inline void Select(const Floats& from, uint32_t count) { Part(Find(from, count), count); }
    __aicore__ inline void Part(const Floats& found, uint32_t count) {
        Gather(best, found, AsBits(bestAt), 0, count * t.keep);
        Gather(AsBits(places), AsBits(found), AsBits(bestAt), INDEX, count * t.keep);
    }
    // Sorted entries, the first `keep` of which are those of each row.
    __aicore__ inline Floats Find(const Floats& from, uint32_t count) {
        if (t.blocks == 0)
            Sort32(entries, from, AsBits(ids), Int(count * t.width / SORTED));
        else {
            BestBlocks(from, count);
            const uint8_t repeats = static_cast<uint8_t>(count * t.blocks / BLOCK);
            Gatherb(AsBits(near), AsBits(from), AsBits(rowOffsets), repeats, {1, 8});
            Gatherb(AsBits(nearIds), AsBits(columns), AsBits(offsets), repeats, {1, 8});
            Sort32(entries, near, AsBits(nearIds), Int(count * candidates / SORTED));
        }
        return Merge(count, candidates, t.keep);
    }

    // Takes all but the best groups out of `choice`.
    __aicore__ inline void Exclude(uint32_t count) {
        const uint32_t even = RoundUp(count, 2), lanesUsed = count * SORTED;
        Sort32(entries, choice, AsBits(choice), Int(count * t.width / SORTED));
        for (uint32_t run = 0; run < t.groupWidth / SORTED; run++) {  // the two best of a group out of those of its runs of 32
            const uint32_t at = run * SORTED * ENTRY;
            Gather(run ? runFirst : first, entries, AsBits(groupOffsets), at, lanesUsed);
            Gather(run ? runSecond : second, entries, AsBits(groupOffsets), at + ENTRY, lanesUsed);
            if (run == 0) continue;
            Min(spare, first, runFirst, Int(lanesUsed));
            Max(first, first, runFirst, Int(lanesUsed));
            Max(second, second, runSecond, Int(lanesUsed));
            Max(second, second, spare, Int(lanesUsed));
        }
        if (t.topTwo) Add(first, first, second, Int(lanesUsed));
        const uint64_t absent = (0xffffffffull << t.groups) & 0xffffffffull, mask[2] = {absent | absent << SORTED, 0};
        if (absent) Duplicate(first, NONE, mask, even / 2, 1, 8);
        Sort32(entries, first, AsBits(groupIds), Int(count));
        Order<HardEvent::V_S>();
        const uint32_t all = t.groups < SORTED ? (1u << t.groups) - 1 : ~0u;
        for (uint32_t r = 0; r < count; r++) {
            uint32_t out = all;
            for (uint32_t i = 0; i < t.keptGroups; i++) out &= ~(1u << AsBits(entries).GetValue((r * SORTED + i) * 2 + 1));
            for (uint32_t g = 0; g < t.groups; g++)
                if (out >> g & 1) Duplicate(choice[r * t.width + g * t.groupWidth], NONE, Int(t.groupWidth));
        }
        Order<HardEvent::S_V>();  // what was read may now be overwritten
    }

    // The first `most` entries of each row, out of its sorted runs of 32: more of a run cannot be among them.
    __aicore__ inline Floats Merge(uint32_t count, uint32_t entriesOfRow, uint32_t most) {
        Floats from = entries, to = merged;
        const uint16_t l = static_cast<uint16_t>(most), lengths[4] = {l, l, l, l};
        for (uint32_t runs = entriesOfRow / SORTED, apart = 2 * SORTED; runs > 1;) {
            const uint32_t queues = runs < 4 ? runs : 4, merges = runs / queues;
            const MrgSort4Info info(lengths, false, static_cast<uint16_t>((1 << queues) - 1), 1);
            for (uint32_t r = 0; r < count; r++)
                for (uint32_t m = 0; m < merges; m++) {
                    const Floats first = from[r * entriesOfRow * 2 + m * queues * apart];
                    MrgSort(to[r * entriesOfRow * 2 + m * queues * most * 2],
                            {first, first[apart], first[(queues > 2 ? 2 : 0) * apart], first[(queues > 2 ? 3 : 0) * apart]}, info);
                }
            const Floats other = from;
            from = to, to = other, runs = merges, apart = 2 * queues * most;
        }
        return from;
    }
    // row r, place i: i * step + r * rowStep
    __aicore__ inline Ints Table(uint32_t rows, uint32_t perRow, uint32_t step, uint32_t rowStep) {
        const Ints table = IntRoom(rows * perRow);
        CreateVecIndex(table, 0, perRow);
        if (step != 1) Muls(table, table, Int(step), Int(perRow));
        Repeat(table, rows, perRow, rowStep);
        return table;
    }
    // Rows 1, 2, ... of a table out of row 0, twice as many each time.
    __aicore__ inline void Repeat(const Ints& table, uint32_t rows, uint32_t perRow, uint32_t rowStep) {
        for (uint32_t have = 1; have < rows; have *= 2)
            Adds(table[have * perRow], table, Int(have * rowStep), Int((have < rows - have ? have : rows - have) * perRow));
    }

    // The weights, out: divided by their sum where asked for, and scaled.
    __aicore__ inline void Finish(uint32_t count) {
        const int32_t size = Int(count * t.keep);
        if (t.renorm) {
            WholeReduceSum(values, weights, t.k, Int(count), 1, 1, Int(t.keep / BLOCK));
            Adds(values, values, t.epsilon, Int(count));
            Base::Invert(count);
            Base::Spread(count);
            ScaleRows(count);
        }
        LocalTensor<T> y = Base::yQueue.template AllocTensor<T>();
        if constexpr (sizeof(T) == 4)
            Muls(y, weights, t.scale, size);
        else {
            Muls(weights, weights, t.scale, size);
            Cast(y, weights, RoundMode::CAST_RINT, static_cast<uint32_t>(size));
        }
        Base::yQueue.EnQue(y);
    }
    // Each row of the weights times its block: a repeat takes one block of eight rows.
    __aicore__ inline void ScaleRows(uint32_t count) {
        const uint8_t stride = static_cast<uint8_t>(t.keep / BLOCK), step = static_cast<uint8_t>(t.keep);
        for (uint32_t at = 0; at < t.keep; at += BLOCK)
            Mul(weights[at], weights[at], blocks, static_cast<uint64_t>(LANES), static_cast<uint8_t>(RoundUp(count, BLOCK) / BLOCK),
                {stride, stride, 1, step, step, 8});
    }

    Floats entries, merged, best, weights, ones;
    Ints places;

private:
    __aicore__ inline void OpenBlocks(uint32_t even, uint32_t firstExpert) {
        columns = Table(1, t.width, 1, 0);
        if (firstExpert) Adds(columns, columns, Int(firstExpert), Int(t.width));
        blockAt = Table(even, SORTED, ENTRY, sorted * ENTRY);
        keyAt = Table(R, t.blocks, ENTRY, SORTED * ENTRY);
        blockIds = IntRoom(even * SORTED);
        blockKeys = Room(even * SORTED);
        offsets = IntRoom(R * t.blocks);
        rowOffsets = IntRoom(R * t.blocks);
        rowStarts = IntRoom(R * t.blocks);
        Duplicate(rowStarts, 0, Int(t.blocks));
        Repeat(rowStarts, R, t.blocks, t.width * sizeof(float));
        near = Room(R * candidates);
        nearIds = IntRoom(R * candidates);
        Duplicate(blockIds, 0, Int(even * SORTED));
    }
    __aicore__ inline void OpenGroups(uint32_t even) {
        Floats* const tables[] = {&first, &second, &runFirst, &runSecond, &spare};
        for (Floats* table : tables) *table = Room(even * SORTED);
        groupIds = Table(R, SORTED, 1, 0);
        groupOffsets = IntRoom(R * SORTED);
        Duplicate(groupOffsets, 0, Int(SORTED));
        Muls(groupOffsets, groupIds, Int(t.groupWidth * ENTRY), Int(t.groups));
        Repeat(groupOffsets, R, SORTED, t.width * ENTRY);
    }
    // offsets: where the blocks with the largest maxima of each row begin, ascending; rowOffsets: the same from the tile's start.
    __aicore__ inline void BestBlocks(const Floats& from, uint32_t count) {
        const uint32_t keys = count * t.blocks, pairs = RoundUp(count, 2) / 2;
        BlockReduceMax(partial, from, Int(count * t.width / LANES), LANES, 1, 1, 8);
        Sort32(entries, partial, AsBits(ids), Int(count * sorted / SORTED));
        const Floats found = Merge(count, sorted, t.blocks);
        Gather(AsBits(blockIds), AsBits(found), AsBits(blockAt), INDEX, count * SORTED);
        Cast(blockKeys, blockIds, RoundMode::CAST_NONE, pairs * LANES);
        Muls(blockKeys, blockKeys, -1.0f, Int(pairs * LANES));  // the largest of these is the lowest block
        const uint64_t rest = (~0ull << t.blocks) & 0xffffffffull, mask[2] = {rest | rest << SORTED, 0};
        if (t.blocks < SORTED) Duplicate(blockKeys, NONE, mask, static_cast<uint8_t>(pairs), 1, 8);
        Sort32(entries, blockKeys, AsBits(blockIds), Int(count));
        Gather(near, entries, AsBits(keyAt), 0, keys);
        Muls(near, near, -32.0f, Int(keys));
        Cast(offsets, near, RoundMode::CAST_RINT, keys);
        Add(rowOffsets, offsets, rowStarts, Int(keys));
    }

    Floats near, blockKeys, first, second, runFirst, runSecond, spare;
    Ints ids, bestAt, blockAt, keyAt, columns, blockIds, offsets, rowOffsets, rowStarts, nearIds, groupOffsets, groupIds;
    uint32_t sorted = 0, candidates = 0;
};
