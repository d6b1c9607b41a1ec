// What the host decides for a launch of embedding_dense_grad. Lengths in elements.
#pragma once

#include <cstdint>

struct EmbeddingDenseGradTilingData {
    uint32_t count;    // indices, and rows of grad
    uint32_t weights;  // rows of the result
    uint32_t columns;
    uint32_t coreCount;    // indices of a core, or of the cores that share their rows
    uint32_t parts;        // cores that share rows
    uint32_t partColumns;  // columns of each
    uint32_t batchRows;    // rows that are in UB together
    uint32_t piece;        // columns of a row that are in UB together
    uint32_t runLength;    // indices that a core sorts together, a multiple of 32
    uint32_t sorted;       // indices ascend and `positions` says where their rows are
    uint32_t scaled;       // rows are divided by how often their index occurs
    int32_t paddingIndex;  // rows of this index count for nothing; negative: none
};
