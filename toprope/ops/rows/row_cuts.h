// How softmax and the norms cut rows into cores, tiles and parts, on the host.
#pragma once

#include "../host/launch.h"

namespace library {

constexpr uint64_t MANY_COLUMNS = 2040;  // one instruction on a column of many rows counts their distance, in blocks, in one byte
constexpr uint64_t GROUP_ROWS = 248;     // rows that it takes at most
// By columns, a tile costs an instruction for each 64 of them; by rows, about four for each row.
constexpr uint64_t MANY_ROWS_FACTOR = 180;
constexpr uint64_t SHARED_COLUMNS = 32768;  // a row must be this long before the wait for the other cores pays
constexpr uint64_t SYNC_COLUMNS = 12000;    // that wait takes about as long as this many columns
constexpr uint64_t SLOT_BYTES = 64;         // what a core writes for the others of a row: two numbers, eight times each
// Launching one more core of A2 or A3 takes 0.05 us, one core about 2.1e-4 us for an element: as long as this many elements.
constexpr double LAUNCH_ELEMENTS = 0.05 / 2.1e-4;

// Columns in UB: rounded up to whole blocks of 32 bytes.
inline uint64_t PaddedColumns(uint64_t columns, uint64_t itemBytes) { return CeilDiv(columns, 32 / itemBytes) * (32 / itemBytes); }

// Cores for whole rows: as many as still save more time than launching one more costs.
inline uint64_t CoresFor(uint64_t rows, uint64_t width, uint64_t aiv) {
    const double worth = std::nearbyint(std::sqrt(static_cast<double>(rows * width) / LAUNCH_ELEMENTS));
    return std::max<uint64_t>(1, std::min({rows, aiv, static_cast<uint64_t>(worth)}));
}

// Rows of a tile, at most `height`: whole groups where it holds several, and tiles of one height.
inline uint64_t EvenRows(uint64_t rows, uint64_t height) {
    return height > GROUP_ROWS ? height / GROUP_ROWS * GROUP_ROWS : CeilDiv(rows, CeilDiv(rows, height));
}

// How many cores share a row: what makes the core with the most to do finish first.
inline uint64_t PartsOf(uint64_t rows, uint64_t columns, uint64_t aiv) {
    uint64_t best = 1, least = ~uint64_t{0};
    for (uint64_t parts = 1; parts <= aiv; ++parts) {
        if (aiv % parts != 0 || (parts > 1 && columns / parts < 2048)) continue;
        const uint64_t cost = CeilDiv(rows, aiv / parts) * CeilDiv(columns, parts) + (parts > 1 ? SYNC_COLUMNS : 0);
        if (cost < least) least = cost, best = parts;
    }
    return best;
}

// Columns of one of `parts`: whole pieces of GM of 512 bytes (half types: 256).
inline uint64_t PartColumns(uint64_t columns, uint64_t parts) { return CeilDiv(CeilDiv(columns, parts), 128) * 128; }

}  // namespace library
