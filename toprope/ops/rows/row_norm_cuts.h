// The host side of layer_norm and rms_norm: the last axes of x, those that gamma has, are a row.
#pragma once

#include "row_cuts.h"
#include "row_norm_tiling_data.h"

namespace library {

constexpr uint64_t NORM_TILE_FLOATS = 8192;
constexpr uint64_t NORM_PIECE_COLUMNS = 4096;
constexpr uint64_t NORM_FIXED_BYTES = 20 << 10;  // numbers of the rows in work, their blocks, and short rows folded
constexpr uint64_t NORM_COPY_ROWS = 4088;        // of one copy, in whole groups of eight

// What a norm is asked: rows of x, and whether a mean is taken off them (layer norm) or not (RMS norm).
struct NormRows {
    uint64_t rows, columns, itemBytes;
    bool centred;
    bool batchInvariant;  // a row gives the same bits in every batch: only columns may decide
};

// The rules for shapes; without beta (null) the norm is not centred.
inline ge::graphStatus CheckNorm(const gert::Shape& x, const gert::Shape& gamma, const gert::Shape* beta) {
    for (const gert::Shape* each : {&gamma, beta}) {
        if (each == nullptr) continue;
        const char* name = each == beta ? "beta" : "gamma";
        const size_t axes = each->GetDimNum();
        OPS_RULE(axes > 0 && axes <= x.GetDimNum(), "%s has %lu axes and x %lu; it has the last axes of x", name, axes, x.GetDimNum());
        for (size_t i = 0; i < axes; ++i) {
            const int64_t wanted = x.GetDim(x.GetDimNum() - axes + i), found = each->GetDim(i);
            OPS_RULE(found == wanted, "axis %lu of %s is %ld, not %ld; it has the last axes of x", i, name, found, wanted);
        }
    }
    OPS_RULE(beta == nullptr || *beta == gamma, "gamma has %lu axes and beta %lu; give both the same shape", gamma.GetDimNum(),
             beta->GetDimNum());
    return ge::GRAPH_SUCCESS;
}

// Shape of mean and rstd: one number for each row, the axes of gamma kept as 1.
inline gert::Shape RowNumbers(const gert::Shape& x, const gert::Shape& gamma) {
    gert::Shape out = x;
    for (size_t i = x.GetDimNum() - gamma.GetDimNum(); i < x.GetDimNum(); ++i) out.SetDim(i, 1);
    return out;
}

// Rows of a tile: in UB come and go `buffers` of them, half types twice more as floats, beside the weights; 0: not one.
inline uint64_t NormTileRows(const NormRows& of, uint64_t width, uint64_t buffers, uint64_t ubBytes) {
    const uint64_t weights = of.centred ? 2 : 1;
    uint64_t each = 2 * buffers * width * of.itemBytes + (of.itemBytes == 2 ? 8 * width : 0);
    each += 64 <= width && width <= MANY_COLUMNS ? 288 : width / 2;
    each += 8 * weights;  // mean and rstd, two buffers
    const uint64_t kept = NORM_FIXED_BYTES + weights * 4 * width * (width < 64 ? 8 : 1);
    if (kept + each > ubBytes) return 0;
    return std::min((ubBytes - kept) / each, std::max<uint64_t>(1, NORM_TILE_FLOATS / width));
}

struct NormChoice {
    uint64_t key, blocks, workspaceBytes;  // key: 1 many rows at a time, 2 row by row, 3 rows in pieces
};

// How the optimised kernels cut `of`. Fills all of `data` but epsilon.
inline NormChoice ChooseNorm(const NormRows& of, const Chip& chip, RowNormTilingData& data) {
    const uint64_t rows = of.rows, columns = of.columns;
    data = {};
    data.rows = static_cast<uint32_t>(rows);
    data.columns = data.partColumns = static_cast<uint32_t>(columns);
    data.pieceColumns = NORM_PIECE_COLUMNS;
    data.tileRows = data.parts = 1;
    data.buffers = 2;
    if (rows * columns == 0) return {1, 1, 0};
    const uint64_t width = PaddedColumns(columns, of.itemBytes), cores = CoresFor(rows, width, chip.aiv), share = CeilDiv(rows, cores);
    const uint64_t most = std::max<uint64_t>(1, NormTileRows(of, width, 2, chip.ubBytes)), height = std::min(share, most);
    if (width <= MANY_COLUMNS && (of.batchInvariant ? most : height) * MANY_ROWS_FACTOR >= width) {
        data.tileRows = static_cast<uint32_t>(EvenRows(share, std::min(height, NORM_COPY_ROWS)));
        return {1, cores, 0};
    }
    const uint64_t buffers = NormTileRows(of, width, 2, chip.ubBytes) > 0 ? 2 : NormTileRows(of, width, 1, chip.ubBytes) > 0 ? 1 : 0;
    const uint64_t parts = of.batchInvariant ? 1 : PartsOf(rows, columns, chip.aiv);
    if (buffers > 0 && (columns < SHARED_COLUMNS || parts == 1)) {
        data.tileRows = static_cast<uint32_t>(std::min(share, NormTileRows(of, width, buffers, chip.ubBytes)));
        data.buffers = static_cast<uint32_t>(buffers);
        return {2, cores, 0};
    }
    data.parts = static_cast<uint32_t>(parts);
    data.partColumns = static_cast<uint32_t>(PartColumns(columns, parts));
    return {3, std::min(cores, chip.aiv / parts) * parts, rows * parts * SLOT_BYTES};
}

// The tiling functions of both operators. Attributes: epsilon, batch_invariant.
inline ge::graphStatus TileNorm(gert::TilingContext* context, bool centred, bool naive) {
    const gert::Shape &x = ShapeOf(context, 0), &gamma = ShapeOf(context, 1);
    if (CheckNorm(x, gamma, centred ? &ShapeOf(context, 2) : nullptr) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const float epsilon = *context->GetAttrs()->GetFloat(0);
    OPS_RULE(epsilon > 0, "epsilon is %g; give a positive number, so that a constant row has a scale", static_cast<double>(epsilon));
    const uint64_t columns = Size(gamma), rows = columns == 0 ? 0 : Size(x) / columns;
    OPS_RULE(rows <= UINT32_MAX && columns <= UINT32_MAX, "x has %lu rows of %lu columns, too many to count in 32 bits; split it", rows,
             columns);
    const Chip chip(context);
    auto* data = context->GetTilingData<RowNormTilingData>();
    const NormRows of{rows, columns, ItemBytes(context, 0), centred, *context->GetAttrs()->GetBool(1)};
    const NormChoice choice = ChooseNorm(of, chip, *data);
    data->epsilon = epsilon;
    if (naive) return Launch(context, std::clamp<uint64_t>(rows, 1, chip.aiv));
    return Launch(context, choice.blocks, choice.key, choice.workspaceBytes);
}

}  // namespace library
