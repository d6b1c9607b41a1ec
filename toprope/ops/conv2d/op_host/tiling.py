"""Host side of conv2d: checks the tensors and searches the tile, the step of K and the channels of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, ceil_div, outputs
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
C0 = 16
MOST_TAPS = 125  # of a filter that turns in UB
SIMPLE = (64, 64, 64)  # pixels, filters and step of K of the simple tiling
# What a tile costs, in cycles, where the search compares tiles: bytes that a core's copies bring in a cycle while all cores copy; a fractal
# of the image and of the weights on its way to L0; what it takes to start a copy, a step of K and a tile.
COPY_BYTES, LEFT_FRACTAL, RIGHT_FRACTAL = 70, 2, 4
COPY_START, LOAD_START, PRODUCT_START, TILE_START = 600, 110, 30, 200


class Layer(NamedTuple):
    """A convolution: sizes of x, y and the filters, channels in blocks of 16."""

    batch: int
    channel_blocks: int
    height: int
    width: int
    filter_blocks: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    top: int
    bottom: int
    left: int
    right: int
    dilation_h: int
    dilation_w: int

    @property
    def out_height(self) -> int:
        return (self.height + self.top + self.bottom - (self.kernel_h - 1) * self.dilation_h - 1) // self.stride_h + 1

    @property
    def out_width(self) -> int:
        return (self.width + self.left + self.right - (self.kernel_w - 1) * self.dilation_w - 1) // self.stride_w + 1

    @property
    def pixels(self) -> int:
        return self.out_height * self.out_width

    @property
    def taps(self) -> int:
        return self.kernel_h * self.kernel_w


class Tile(NamedTuple):
    """How the work is cut: pixels x filters of a tile, step of K in L0, channel blocks of a copy into L1, buffers of L1 and L0."""

    pixels: int
    filters: int
    step: int
    packet: int
    buffers: int

    def image_bytes(self, layer: Layer) -> int:
        """L1 that the rows of the image for a tile take: a tile may begin and end in the middle of a row of y."""
        rows = min(layer.out_height, ceil_div(self.pixels - 1, layer.out_width) + 1)
        high = min(layer.height, (rows - 1) * layer.stride_h + (layer.kernel_h - 1) * layer.dilation_h + 1)
        return self.packet * high * layer.width * C0 * 2

    def weight_bytes(self, layer: Layer) -> int:
        """L1 that the weights of a tile take."""
        return self.packet * layer.taps * self.filters * C0 * 2

    def fits(self, layer: Layer, soc: Soc) -> bool:
        """Whether L1, L0A, L0B and L0C hold it."""
        return (
            self.buffers * (self.image_bytes(layer) + self.weight_bytes(layer)) <= soc.bytes_of("l1")
            and self.buffers * self.pixels * self.step * 2 <= soc.bytes_of("l0a")
            and self.buffers * self.filters * self.step * 2 <= soc.bytes_of("l0b")
            and self.pixels * self.filters * 4 <= soc.bytes_of("l0c")
            and self.step * self.filters // 256 <= 255
        )

    def tiles(self, layer: Layer) -> int:
        """Tiles of y."""
        return layer.batch * ceil_div(layer.pixels, self.pixels) * ceil_div(layer.filter_blocks * C0, self.filters)

    def cycles(self, layer: Layer, soc: Soc) -> float:
        """What the search compares: the busiest core's tiles times the slowest pipe of a tile."""
        m, n = self.pixels // 16, self.filters // 16
        k = layer.channel_blocks * layer.taps
        packets = ceil_div(layer.channel_blocks, self.packet)
        steps = packets * ceil_div(self.packet * layer.taps * C0, self.step)
        cube = m * n * k + steps * PRODUCT_START
        spread = m * k * LEFT_FRACTAL + n * k * RIGHT_FRACTAL + steps * LOAD_START
        packet = (
            self.image_bytes(layer) + self.weight_bytes(layer)
        ) / COPY_BYTES  # nothing is multiplied while the first comes
        copied = packets * (packet + COPY_START / self.buffers)
        each = max(cube, spread, copied) if self.buffers == 2 else cube + spread + copied
        return ceil_div(self.tiles(layer), soc.aic) * (each + TILE_START) + COPY_START + packet


def candidates(layer: Layer, soc: Soc) -> Iterator[Tile]:
    """Every tile that fits, with two buffers, and the most channels that a copy can bring."""
    for pixels in (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512):
        if pixels >= layer.pixels + 16:
            break
        for filters in (16, 32, 48, 64, 96, 128, 192, 256):
            if filters > layer.filter_blocks * C0:
                break
            for step in (16, 32, 48, 64, 96, 128, 144):
                for packet in {min(p, layer.channel_blocks) for p in (1, 2, 3, 4, 8, 12, 16, 32)}:
                    tile = Tile(pixels, filters, min(step, packet * layer.taps * C0), packet, 2)
                    if tile.fits(layer, soc):
                        yield tile


def simple(layer: Layer, soc: Soc, buffers: int) -> Tile:
    """The tiling that looks at nothing: 64 pixels, 64 filters, one channel block at a time."""
    pixels, filters, step = SIMPLE
    pixels, filters = min(pixels, ceil_div(layer.pixels, 16) * 16), min(filters, layer.filter_blocks * C0)
    tile = Tile(pixels, filters, min(step, layer.taps * C0), 1, buffers)
    while not tile.fits(layer, soc) and tile.pixels > 16:
        tile = tile._replace(pixels=tile.pixels - 16)
    return tile


def plan(
    version: str,
    soc: Soc,
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    tile: Tile | None = None,
) -> Plan:
    """The launch."""
    layer, nchw, channels, filters = _layer(x, w, bias, strides, pads, dilations)
    shape = (layer.batch, filters, layer.out_height, layer.out_width)
    if not nchw:
        shape = (layer.batch, layer.filter_blocks, layer.out_height, layer.out_width, C0)
    y = np.empty(shape, np.float16)
    if tile is None:
        tile = simple(layer, soc, 1) if version == "naive" else choose(layer, soc)
    if not tile.fits(layer, soc):
        raise BadArgument(
            f"rows of {layer.width} pixels do not fit L1 with {layer.kernel_h} rows of a filter",
            cure="cut the image into strips",
        )
    tiling = {
        "batch": layer.batch,
        "channels": channels,
        "channelBlocks": layer.channel_blocks,
        "height": layer.height,
        "width": layer.width,
        "filters": filters,
        "filterBlocks": layer.filter_blocks,
        "outHeight": layer.out_height,
        "outWidth": layer.out_width,
        "kernelH": layer.kernel_h,
        "kernelW": layer.kernel_w,
        "strideH": layer.stride_h,
        "strideW": layer.stride_w,
        "padTop": layer.top,
        "padLeft": layer.left,
        "padRight": layer.right,
        "dilationH": layer.dilation_h,
        "dilationW": layer.dilation_w,
        "biased": int(bias is not None),
        "tileM": tile.pixels,
        "tileN": tile.filters,
        "stepK": tile.step,
        "packetBlocks": tile.packet,
        "imageBytes": tile.image_bytes(layer),
    }
    entry = "conv2d" if version == "optimised" else "conv2d_naive"
    if not nchw:
        return Plan(entry, max(1, min(soc.aic, tile.tiles(layer))), (x, w, bias, y, None, tiling), (y,), 1)
    blocks = layer.batch * layer.channel_blocks * layer.height * layer.width
    blocks += layer.channel_blocks * layer.taps * layer.filter_blocks * C0 + layer.filter_blocks
    blocks += layer.batch * layer.filter_blocks * layer.pixels
    workspace = np.zeros(blocks * C0, np.float16)
    return Plan(entry, soc.aic, (x, w, bias, y, workspace, tiling), (y,), 2)


def choose(layer: Layer, soc: Soc) -> Tile:
    """The tile that the search expects to be fastest."""
    return min(
        candidates(layer, soc), key=lambda t: (t.cycles(layer, soc), -t.step, t.packet), default=simple(layer, soc, 2)
    )


def _layer(
    x: Array, w: Array, bias: Array | None, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> tuple[Layer, bool, int, int]:
    for name, array in (("x", x), ("w", w), ("bias", bias)):
        if array is not None and array.dtype != np.float16:
            raise BadArgument(f"conv2d of {x.dtype.name} and {w.dtype.name}: {name} is {array.dtype.name}", cure="convert all to float16")
    nchw = x.ndim == 4
    if not nchw and (x.ndim != 5 or x.shape[4] != C0):
        raise BadArgument(f"x has shape {x.shape}", cure="give it as NCHW, or as NC1HWC0: [N, C1, H, W, 16]")
    if nchw and w.ndim != 4:
        raise BadArgument(f"w has shape {w.shape}", cure="x is NCHW: give it as [O, C, KH, KW]")
    if not nchw and (w.ndim != 6 or w.shape[4:] != (C0, C0)):
        raise BadArgument(f"w has shape {w.shape}", cure="x is NC1HWC0: give it as FRACTAL_Z: [C1, KH, KW, N1, 16, 16]")
    if nchw:
        channels, filters, kernel = x.shape[1], w.shape[0], w.shape[2:]
        if kernel[0] * kernel[1] > MOST_TAPS:
            raise BadArgument(f"a filter of {kernel[0]} x {kernel[1]}", cure=f"at most {MOST_TAPS} taps with NCHW")
        if w.shape[1] != channels:
            raise BadArgument(f"x has {channels} channels and w {w.shape[1]}", cure="both have as many")
    else:
        if x.shape[1] != w.shape[0]:
            raise BadArgument(f"x has {x.shape[1]} channel blocks and w {w.shape[0]}", cure="both have C1 of them")
        channels, filters, kernel = x.shape[1] * C0, w.shape[3] * C0, w.shape[1:3]
    if bias is not None and bias.shape != (filters,):
        raise BadArgument(f"bias has shape {bias.shape}", cure=f"one number for each of {filters} filters")
    if len(strides) != 2 or len(pads) != 4 or len(dilations) != 2:
        raise BadArgument("lengths", cure="strides (h, w), pads (top, bottom, left, right), dilations (h, w)")
    if not (all(1 <= s <= 63 for s in strides) and all(1 <= d <= 255 for d in dilations) and all(0 <= p <= 255 for p in pads)):
        raise BadArgument(
            f"strides {strides}, dilations {dilations}, pads {pads}",
            cure="strides 1 to 63, dilations 1 to 255, pads 0 to 255",
        )
    layer = Layer(
        x.shape[0], ceil_div(channels, C0), x.shape[2], x.shape[3], ceil_div(filters, C0), *kernel, *strides, *pads, *dilations
    )
    high, wide = (layer.kernel_h - 1) * layer.dilation_h + 1, (layer.kernel_w - 1) * layer.dilation_w + 1
    if max(layer.top, layer.bottom) >= high or max(layer.left, layer.right) >= wide:
        raise BadArgument(f"pads {pads} and a filter of {high} x {wide}", cure="pads less than the filter is long")
    if (
        layer.height + layer.top + layer.bottom < high
        or layer.width + layer.left + layer.right < wide
        or 0 in x.shape
        or 0 in w.shape
    ):
        raise BadArgument(
            f"an image of {layer.height} x {layer.width}, a filter of {high} x {wide}",
            cure="the padded image holds the filter",
        )
    if max(layer.height * layer.width, layer.filter_blocks * C0) > 65535:
        raise BadArgument(
            f"an image of {layer.height} x {layer.width}", cure="at most 65,535 pixels: copies count 16 bits"
        )
    return layer, nchw, channels, filters


def optimised(x: Array, w: Array, bias: Array | None = None, **attributes: Any) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "conv2d", "optimised", x, w, bias, **attributes)


def naive(x: Array, w: Array, bias: Array | None = None, **attributes: Any) -> Any:
    """The same, naive version."""
    return outputs(plan, "conv2d", "naive", x, w, bias, **attributes)
