// What the host decides for a launch of paged_attention. Lengths in elements.
#pragma once

#include <cstdint>

struct PagedAttentionTilingData {
    uint32_t batch;
    uint32_t heads;
    uint32_t kvHeads;
    uint32_t group;  // query heads that share a head of the cache
    uint32_t headDim;
    uint32_t pageTokens;  // tokens of a page of the cache
    uint32_t pages;       // of the cache
    uint32_t tableWidth;  // pages a sequence may have
    uint32_t tasks;       // runs of up to 1,024 tokens of one sequence and head
    float scale;          // of the products of queries and keys
};
