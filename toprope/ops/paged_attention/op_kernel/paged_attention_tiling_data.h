// What the host decides for a launch of paged_attention. Lengths in elements.
#pragma once

#include <cstdint>

constexpr uint32_t TASK = 1024;  // tokens of a task at most: their scores fit into L0C, their values into L1
constexpr uint32_t BEGINS = 33;  // of up to 32 cores, and the end

struct PagedAttentionTilingData {
    uint32_t batch;
    uint32_t heads;
    uint32_t kvHeads;
    uint32_t group;  // query heads that share a head of the cache
    uint32_t headDim;
    uint32_t pageTokens;  // tokens of a page of the cache
    uint32_t pages;       // of the cache
    uint32_t tableWidth;  // pages a sequence may have
    float scale;          // of the products of queries and keys
    // Where the part of each AI core begins, in the tokens of all sequences and heads one behind the other; the end as one core more. A
    // part is cut into tasks at the ends of heads and after 1,024 tokens.
    uint32_t firstHead[BEGINS];   // sequence x kvHeads + head
    uint32_t firstToken[BEGINS];  // of that head
    uint32_t firstTask[BEGINS];   // its number
};
