// The tiles of a product on the cube, as kernels and their host sides know them. In elements of half.
#pragma once

#include <cstdint>

constexpr uint32_t TILE_M = 128, TILE_N = 256, STEP_K = 64;
// Steps of K in one copy of A: rows of 512 bytes. Steps of B that stay in L1: what buffers for two packets of A and four steps of B leave.
constexpr uint32_t PACKET_STEPS = 4, KEPT_STEPS = 8;
// What tiles of a block are cut by: a fractal's rows; columns so that rows begin at whole sectors of L2, 128 bytes.
constexpr uint32_t UNIT_M = 16, UNIT_N = 64;
// A copy with change of layout counts rows, columns and the distance of rows in 16 bits.
constexpr uint32_t MOST_ROW = (1 << 16) - 1;
