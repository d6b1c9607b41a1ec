// What the host decides for a launch of moe_gating_topk, and the operator's attributes. Lengths in elements.
#pragma once

#include <cstdint>

struct MoeGatingTopkTilingData {
    uint32_t rows;
    uint32_t experts;
    uint32_t coreRows;     // rows of a core; of all cores when several share a row
    uint32_t tileRows;     // rows it works on at a time
    uint32_t width;        // a row in UB: every group padded to groupWidth, the whole to a power of two
    uint32_t groupWidth;   // experts of a group, rounded up to 32; `experts` without groups
    uint32_t blocks;       // 32-byte blocks of a row that can hold the k best; 0: the row is so short that all of it is sorted
    uint32_t keep;         // entries kept of a row: k rounded up to what a store needs
    uint32_t parts;        // cores that share a row
    uint32_t partExperts;  // experts of a row that one of them does
    uint32_t k;
    uint32_t groups;
    uint32_t keptGroups;
    uint32_t topTwo;   // a group's score is the sum of its two best, not its best
    uint32_t renorm;   // the k scores are divided by their sum
    uint32_t sigmoid;  // scores are sigmoid(x), not softmax(x)
    uint32_t biased;   // the choice is by score + bias
    float scale;
    float epsilon;
};
