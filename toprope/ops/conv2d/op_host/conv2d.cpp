// conv2d on the host: checks the tensors and searches the tile, the step of K and the channels of a copy.
#include "../../host/launch.h"
#include "../op_kernel/conv2d_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t C0 = 16;
constexpr uint64_t MOST_TAPS = 125;     // of a filter that turns in UB
constexpr uint64_t MOST_COUNT = 65535;  // of what copies count in 16 bits
// What a tile costs, in cycles, where the search compares tiles: bytes that a core's copies bring in a cycle while all cores copy; a
// fractal of the image and of the weights on its way to L0; what it takes to start a copy, a step of K and a tile.
constexpr uint64_t COPY_BYTES = 70, LEFT_FRACTAL = 2, RIGHT_FRACTAL = 4, COPY_START = 600, LOAD_START = 110, PRODUCT_START = 30,
                   TILE_START = 200;
enum Attribute : size_t { STRIDES, PADS, DILATIONS, TILE };

// The chip's memories for operands, and the sizes of a convolution that tiles are judged by.
struct Layer {
    Layer(gert::TilingContext* context, const Conv2dTilingData& data) : t(data), aic(Chip(context).aic) {
        const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
        platform.GetCoreMemSize(platform_ascendc::CoreMemType::L1, l1Bytes);
        platform.GetCoreMemSize(platform_ascendc::CoreMemType::L0_A, l0aBytes);
        platform.GetCoreMemSize(platform_ascendc::CoreMemType::L0_B, l0bBytes);
        platform.GetCoreMemSize(platform_ascendc::CoreMemType::L0_C, l0cBytes);
        taps = static_cast<uint64_t>(t.kernelH) * t.kernelW;
        pixels = static_cast<uint64_t>(t.outHeight) * t.outWidth;
        filters = t.filterBlocks * C0;
    }
    const Conv2dTilingData& t;
    uint64_t aic, l1Bytes = 0, l0aBytes = 0, l0bBytes = 0, l0cBytes = 0, taps, pixels, filters;
};

// How the work is cut: pixels x filters of a tile, step of K in L0, channel blocks of a copy into L1, buffers of L1 and L0.
struct Tile {
    uint64_t pixels, filters, step, packet, buffers;

    // L1 that the rows of the image for a tile take: a tile may begin and end in the middle of a row of y.
    uint64_t ImageBytes(const Layer& layer) const {
        const Conv2dTilingData& t = layer.t;
        const uint64_t rows = std::min<uint64_t>(t.outHeight, CeilDiv(pixels - 1, t.outWidth) + 1);
        const uint64_t high = std::min<uint64_t>(t.height, (rows - 1) * t.strideH + (t.kernelH - 1) * t.dilationH + 1);
        return packet * high * t.width * C0 * 2;
    }
    uint64_t WeightBytes(const Layer& layer) const { return packet * layer.taps * filters * C0 * 2; }
    bool Fits(const Layer& layer) const {
        return buffers * (ImageBytes(layer) + WeightBytes(layer) + (layer.t.biased ? filters * 2 : 0)) <= layer.l1Bytes &&
               buffers * pixels * step * 2 <= layer.l0aBytes && buffers * filters * step * 2 <= layer.l0bBytes &&
               pixels * filters * 4 <= layer.l0cBytes && step * filters / 256 <= 255;
    }
    uint64_t Tiles(const Layer& layer) const { return layer.t.batch * CeilDiv(layer.pixels, pixels) * CeilDiv(layer.filters, filters); }
    // What the search compares: the busiest core's tiles times the slowest pipe of a tile.
    double Cycles(const Layer& layer) const {
        const uint64_t m = pixels / 16, n = filters / 16, k = layer.t.channelBlocks * layer.taps;
        const uint64_t packets = CeilDiv(layer.t.channelBlocks, packet), steps = packets * CeilDiv(packet * layer.taps * C0, step);
        const double cube = static_cast<double>(m * n * k + steps * PRODUCT_START);
        const double spread = static_cast<double>(m * k * LEFT_FRACTAL + n * k * RIGHT_FRACTAL + steps * LOAD_START);
        // Nothing is multiplied while the first packet comes.
        const double first = static_cast<double>(ImageBytes(layer) + WeightBytes(layer)) / static_cast<double>(COPY_BYTES);
        const double copied = static_cast<double>(packets) * (first + static_cast<double>(COPY_START) / static_cast<double>(buffers));
        const double each = buffers == 2 ? std::max({cube, spread, copied}) : cube + spread + copied;
        return static_cast<double>(CeilDiv(Tiles(layer), layer.aic)) * (each + static_cast<double>(TILE_START)) +
               static_cast<double>(COPY_START) + first;
    }
};

// A tile that was not searched, as far as the layer has so much and it fits.
static Tile Given(const Layer& layer, Tile tile) {
    tile.pixels = std::min(tile.pixels, CeilDiv(layer.pixels, 16) * 16);
    tile.filters = std::min(tile.filters, layer.filters);
    tile.packet = std::min<uint64_t>(tile.packet, layer.t.channelBlocks);
    tile.step = std::min(tile.step, tile.packet * layer.taps * C0);
    while (!tile.Fits(layer) && tile.packet > 1) tile.packet--;
    while (!tile.Fits(layer) && tile.pixels > 16) tile.pixels -= 16;
    return tile;
}

// The tiling that looks at nothing: 64 pixels, 64 filters, one channel block at a time.
static Tile Simple(const Layer& layer, uint64_t buffers) { return Given(layer, {64, 64, 64, 1, buffers}); }

// The tile that the search expects to be fastest; of equals the one with the longest step, then the one with the smallest packet.
static Tile Choose(const Layer& layer) {
    Tile best = Simple(layer, 2);
    double least = INFINITY;
    const auto consider = [&](const Tile& tile) {
        if (!tile.Fits(layer)) return;
        const double cycles = tile.Cycles(layer);
        const bool better = tile.step != best.step ? tile.step > best.step : tile.packet < best.packet;
        if (cycles > least || (cycles == least && !better)) return;
        best = tile;
        least = cycles;
    };
    for (uint64_t pixels : {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512})
        for (uint64_t filters : {16, 32, 48, 64, 96, 128, 192, 256})
            for (uint64_t step : {16, 32, 48, 64, 96, 128, 144})
                for (uint64_t packet : {1, 2, 3, 4, 8, 12, 16, 32}) {
                    packet = std::min<uint64_t>(packet, layer.t.channelBlocks);
                    if (pixels < layer.pixels + 16 && filters <= layer.filters)
                        consider({pixels, filters, std::min(step, packet * layer.taps * C0), packet, 2});
                }
    return best;
}

// Formats of the tensors; says which rule they break, if any. Then the sizes.
static ge::graphStatus ReadTensors(gert::TilingContext* context, Conv2dTilingData& d) {
    const gert::Shape &x = ShapeOf(context, 0), &w = ShapeOf(context, 1);
    const bool nchw = x.GetDimNum() == 4;
    OPS_RULE(nchw || w.GetDim(4) == 16, "w is no FRACTAL_Z; x is NC1HWC0: give it as [C1, KH, KW, N1, 16, 16]");
    d = {};
    d.channels = static_cast<uint32_t>(Dim(x, 1) * (nchw ? 1 : C0));
    d.filters = static_cast<uint32_t>(nchw ? Dim(w, 0) : Dim(w, 3) * C0);
    d.kernelH = static_cast<uint32_t>(Dim(w, nchw ? 2 : 1));
    d.kernelW = static_cast<uint32_t>(Dim(w, nchw ? 3 : 2));
    if (nchw) {
        OPS_RULE(x.GetDim(1) == w.GetDim(1), "x has %ld channels and w %ld; both have as many", x.GetDim(1), w.GetDim(1));
        OPS_RULE(static_cast<uint64_t>(d.kernelH) * d.kernelW <= MOST_TAPS, "a filter of %u x %u; at most %lu taps with NCHW", d.kernelH,
                 d.kernelW, MOST_TAPS);
    } else
        OPS_RULE(x.GetDim(1) == w.GetDim(0), "x has %ld channel blocks and w %ld; both have C1 of them", x.GetDim(1), w.GetDim(0));
    const gert::StorageShape* bias = context->GetOptionalInputShape(2);
    OPS_RULE(bias == nullptr || (bias->GetStorageShape().GetDimNum() == 1 && Dim(bias->GetStorageShape(), 0) == d.filters),
             "bias has another length; one number for each of %u filters", d.filters);
    const gert::Shape& y = context->GetOutputShape(0)->GetStorageShape();
    d.biased = bias != nullptr ? 1 : 0;
    d.batch = static_cast<uint32_t>(Dim(x, 0));
    d.channelBlocks = static_cast<uint32_t>(CeilDiv(d.channels, C0));
    d.height = static_cast<uint32_t>(Dim(x, 2));
    d.width = static_cast<uint32_t>(Dim(x, 3));
    d.filterBlocks = static_cast<uint32_t>(CeilDiv(d.filters, C0));
    d.outHeight = static_cast<uint32_t>(Dim(y, 2));
    d.outWidth = static_cast<uint32_t>(Dim(y, 3));
    OPS_RULE(std::max<uint64_t>(static_cast<uint64_t>(d.height) * d.width, d.filterBlocks * C0) <= MOST_COUNT,
             "an image of %u x %u, %u filters; at most %lu pixels, and filters: copies count 16 bits", d.height, d.width, d.filters,
             MOST_COUNT);
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus ReadAttributes(gert::TilingContext* context, Conv2dTilingData& d) {
    const int64_t *strides = context->GetAttrs()->GetListInt(STRIDES)->GetData(), *pads = context->GetAttrs()->GetListInt(PADS)->GetData();
    const int64_t* dilations = context->GetAttrs()->GetListInt(DILATIONS)->GetData();
    d.strideH = static_cast<uint32_t>(strides[0]);
    d.strideW = static_cast<uint32_t>(strides[1]);
    d.padTop = static_cast<uint32_t>(pads[0]);
    d.padLeft = static_cast<uint32_t>(pads[2]);
    d.padRight = static_cast<uint32_t>(pads[3]);
    d.dilationH = static_cast<uint32_t>(dilations[0]);
    d.dilationW = static_cast<uint32_t>(dilations[1]);
    const int64_t high = (d.kernelH - 1ll) * d.dilationH + 1, wide = (d.kernelW - 1ll) * d.dilationW + 1;
    OPS_RULE(std::max(pads[0], pads[1]) < high && std::max(pads[2], pads[3]) < wide, "a filter of %ld x %ld; pads less than it is long",
             high, wide);
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus Cut(gert::TilingContext* context, bool naive) {
    auto* data = context->GetTilingData<Conv2dTilingData>();
    if (ReadTensors(context, *data) != ge::GRAPH_SUCCESS || ReadAttributes(context, *data) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const Layer layer(context, *data);
    const gert::ContinuousVector* given = context->GetAttrs()->GetListInt(TILE);
    const auto* sizes = static_cast<const int64_t*>(given->GetData());
    OPS_RULE(given->GetSize() == 0 ||
                 (given->GetSize() == 4 && *std::min_element(sizes, sizes + 4) > 0 && (sizes[0] | sizes[1] | sizes[2]) % 16 == 0),
             "tile is none; pixels, filters and step of K, multiples of 16, and channel blocks of a copy, or nothing for the search");
    Tile tile = naive ? Simple(layer, 1) : Tile{};
    if (!naive && given->GetSize() == 0) tile = Choose(layer);
    if (!naive && given->GetSize() == 4)
        tile = Given(layer, {static_cast<uint64_t>(sizes[0]), static_cast<uint64_t>(sizes[1]), static_cast<uint64_t>(sizes[2]),
                             static_cast<uint64_t>(sizes[3]), 2});
    OPS_RULE(tile.Fits(layer), "rows of %u pixels do not fit L1 with %u rows of a filter; cut the image into strips", data->width,
             data->kernelH);
    data->tileM = static_cast<uint32_t>(tile.pixels);
    data->tileN = static_cast<uint32_t>(tile.filters);
    data->stepK = static_cast<uint32_t>(tile.step);
    data->packetBlocks = static_cast<uint32_t>(tile.packet);
    data->imageBytes = static_cast<uint32_t>(tile.ImageBytes(layer));
    if (ShapeOf(context, 0).GetDimNum() == 5) return Launch(context, std::clamp<uint64_t>(tile.Tiles(layer), 1, layer.aic), 1);
    uint64_t blocks = static_cast<uint64_t>(data->batch) * data->channelBlocks * data->height * data->width;
    blocks += data->channelBlocks * layer.taps * data->filterBlocks * C0 + data->filterBlocks;
    blocks += data->batch * data->filterBlocks * layer.pixels;
    return Launch(context, layer.aic, 2, blocks * C0 * 2);
}

static ge::graphStatus TileOptimised(gert::TilingContext* context) { return Cut(context, false); }
static ge::graphStatus TileNaive(gert::TilingContext* context) { return Cut(context, true); }

}  // namespace optiling

namespace ge {

// Says which rule the attributes break, if any.
static graphStatus CheckAttributes(const gert::RuntimeAttrs* given) {
    const gert::ContinuousVector* list[] = {given->GetListInt(0), given->GetListInt(1), given->GetListInt(2)};
    static constexpr int64_t LEAST[] = {1, 0, 1}, MOST[] = {63, 255, 255};
    for (size_t i : {0, 1, 2}) {
        OPS_RULE(list[i]->GetSize() == (i == 1 ? 4 : 2),
                 "strides, pads or dilations have another length; strides (h, w), pads (top, bottom, left, "
                 "right), dilations (h, w)");
        for (size_t k = 0; k < list[i]->GetSize(); k++) {
            const int64_t value = static_cast<const int64_t*>(list[i]->GetData())[k];
            OPS_RULE(value >= LEAST[i] && value <= MOST[i],
                     "%ld among strides, pads and dilations; strides 1 to 63, dilations 1 to 255, pads 0 to 255", value);
        }
    }
    return GRAPH_SUCCESS;
}

static graphStatus InferShape(gert::InferShapeContext* context) {
    const gert::Shape &x = *context->GetInputShape(0), &w = *context->GetInputShape(1);
    const bool nchw = x.GetDimNum() == 4;
    OPS_RULE(nchw || (x.GetDimNum() == 5 && x.GetDim(4) == 16), "x is no image; give it as NCHW, or as NC1HWC0: [N, C1, H, W, 16]");
    OPS_RULE(!nchw || w.GetDimNum() == 4, "w is no filter; x is NCHW: give it as [O, C, KH, KW]");
    OPS_RULE(nchw || (w.GetDimNum() == 6 && w.GetDim(4) == 16 && w.GetDim(5) == 16),
             "w is no FRACTAL_Z; x is NC1HWC0: give it as [C1, KH, KW, N1, 16, 16]");
    if (CheckAttributes(context->GetAttrs()) != GRAPH_SUCCESS) return GRAPH_FAILED;
    gert::Shape& y = *context->GetOutputShape(0);
    y = gert::Shape({x.GetDim(0), w.GetDim(nchw ? 0 : 3)});
    for (size_t axis : {0, 1}) {
        const int64_t* pads = context->GetAttrs()->GetListInt(1)->GetData() + 2 * axis;
        const int64_t stride = context->GetAttrs()->GetListInt(0)->GetData()[axis], image = x.GetDim(2 + axis);
        const int64_t reach = (w.GetDim((nchw ? 2 : 1) + axis) - 1) * context->GetAttrs()->GetListInt(2)->GetData()[axis] + 1;
        OPS_RULE(image + pads[0] + pads[1] >= reach && x.GetShapeSize() > 0 && w.GetShapeSize() > 0,
                 "an image of %ld and a filter of %ld along axis %zu; the padded image holds the filter", image, reach, axis);
        y.AppendDim((image + pads[0] + pads[1] - reach) / stride + 1);
    }
    if (!nchw) y.AppendDim(16);
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) {
    return context->SetOutputDataType(0, context->GetInputDataType(0));
}

}  // namespace ge

namespace ops {

static void Declare(OpDef& op) {
    const std::vector<ge::DataType> types(2, ge::DT_FLOAT16);
    op.Input("x").ParamType(REQUIRED).DataType(types).Format({ge::FORMAT_NCHW, ge::FORMAT_NC1HWC0});
    op.Input("w").ParamType(REQUIRED).DataType(types).Format({ge::FORMAT_NCHW, ge::FORMAT_FRACTAL_Z});
    op.Input("bias").ParamType(OPTIONAL).DataType(types).Format({ge::FORMAT_ND, ge::FORMAT_ND});
    op.Output("y").ParamType(REQUIRED).DataType(types).Format({ge::FORMAT_NCHW, ge::FORMAT_NC1HWC0});
    op.Attr("strides").AttrType(OPTIONAL).ListInt({1, 1});     // of rows, of columns
    op.Attr("pads").AttrType(OPTIONAL).ListInt({0, 0, 0, 0});  // top, bottom, left, right
    op.Attr("dilations").AttrType(OPTIONAL).ListInt({1, 1});   // of rows, of columns
    op.Attr("tile").AttrType(OPTIONAL).ListInt({});  // in place of the search: pixels, filters, step of K, channel blocks of a copy
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class Conv2d : public OpDef {
public:
    explicit Conv2d(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileOptimised);
        library::BuildFrom(*this, "conv2d", "conv2d");
    }
};
OP_ADD(Conv2d);

class Conv2dNaive : public OpDef {
public:
    explicit Conv2dNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "conv2d", "conv2d_naive");
    }
};
OP_ADD(Conv2dNaive);

}  // namespace ops
