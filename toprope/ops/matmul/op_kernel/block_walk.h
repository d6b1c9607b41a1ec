// Which tiles of c a core computes, and in which order: matmul and layer_norm_gemm.
#pragma once

#include "cube_tiles.h"

// Where part `index` of `parts` nearly equal ones of `count` begins.
__aicore__ inline uint32_t PartBegin(uint32_t count, uint32_t parts, uint32_t index) {
    return static_cast<uint32_t>(static_cast<uint64_t>(count) * index / parts);
}

// partsN blocks of columns, each for partsM cores that take the rows of tiles in turn. The rows are cut evenly into as many tiles as make
// all cores' shares alike. A core takes `band` of its rows of tiles column by column, then the next ones; cores beyond the parts get none.
class BlockWalk {
public:
    __aicore__ inline BlockWalk(uint32_t rowsOfC, uint32_t columnsOfC, uint32_t partsM, uint32_t partsN, uint32_t band)
        : m(rowsOfC), partsM(partsM), partsN(partsN), band(band) {
        unitsM = (m + UNIT_M - 1) / UNIT_M;
        tilesM = ((unitsM + partsM - 1) / partsM * UNIT_M + TILE_M - 1) / TILE_M;
        const uint32_t unitsN = (columnsOfC + UNIT_N - 1) / UNIT_N;
        left = PartBegin(unitsN, partsN, Across());
        wide = PartBegin(unitsN, partsN, Across() + 1) - left;
        tilesN = (wide * UNIT_N + TILE_N - 1) / TILE_N;
    }
    __aicore__ inline uint32_t Down() const { return AscendC::GetBlockIdx() / partsN; }
    __aicore__ inline uint32_t Across() const { return AscendC::GetBlockIdx() % partsN; }

    // Goes to the next tile. False: there is none.
    __aicore__ inline bool Next() {
        if (Down() >= partsM || bandBegin >= tilesM || m == 0 || tilesN == 0) return false;
        const uint32_t tile = (bandBegin + inBand) * partsM + Down(), tiles = tilesM * partsM;
        const uint32_t begin = column;
        row = PartBegin(unitsM, tiles, tile) * UNIT_M;
        height = Least(PartBegin(unitsM, tiles, tile + 1) * UNIT_M, m) - row;
        column = (left + PartBegin(wide, tilesN, tileN)) * UNIT_N;
        width = (left + PartBegin(wide, tilesN, tileN + 1)) * UNIT_N - column;
        sameColumns = started && begin == column;
        started = true;
        if (++inBand < Least(band, tilesM - bandBegin)) return true;
        inBand = 0;
        if (++tileN < tilesN) return true;
        tileN = 0;
        bandBegin += band;
        return true;
    }

    uint32_t row = 0, column = 0, height = 0, width = 0;
    bool sameColumns = false;  // as the tile before

private:
    uint32_t m, partsM, partsN, band, unitsM = 0, tilesM = 0, left = 0, wide = 0, tilesN = 0;
    uint32_t bandBegin = 0, inBand = 0, tileN = 0;
    bool started = false;
};
