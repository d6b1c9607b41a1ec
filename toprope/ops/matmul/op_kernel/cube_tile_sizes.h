// The tiles of a product on the cube, as kernels and their host sides know them. In elements of half.
#pragma once

#include <cstdint>

constexpr uint32_t TILE_M = 128, TILE_N = 256, STEP_K = 64;
// A copy with change of layout counts rows, columns and the distance of rows in 16 bits.
constexpr uint32_t MOST_ROW = (1 << 16) - 1;
