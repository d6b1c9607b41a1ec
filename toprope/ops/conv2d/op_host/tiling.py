"""Host side of conv2d: checks the tensors and searches the tile, the step of K and the channels of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, ceil_div, outputs
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
C0 = 16
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
    stride: int
    pad: int
    dilation: int

    @property
    def out_height(self) -> int:
        return (self.height + 2 * self.pad - (self.kernel_h - 1) * self.dilation - 1) // self.stride + 1

    @property
    def out_width(self) -> int:
        return (self.width + 2 * self.pad - (self.kernel_w - 1) * self.dilation - 1) // self.stride + 1

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
        high = min(layer.height, (rows - 1) * layer.stride + (layer.kernel_h - 1) * layer.dilation + 1)
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
    *,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    tile: Tile | None = None,
) -> Plan:
    """The launch of a version ("optimised", "naive") of y = conv2d(x, w), float16.

    x [N, C1, H, W, 16], w [C1, KH, KW, N1, 16 filters, 16 channels], y [N, N1, HO, WO, 16]: NC1HWC0 and FRACTAL_Z, the formats in which
    the cube takes images and filters. `tile` overrides the search. Raises BadArgument where a rule of the prototype is broken.
    """
    layer = _layer(x, w, stride, pad, dilation)
    y = np.empty((layer.batch, layer.filter_blocks, layer.out_height, layer.out_width, C0), np.float16)
    if tile is None:
        tile = simple(layer, soc, 1) if version == "naive" else choose(layer, soc)
    if not tile.fits(layer, soc):
        raise BadArgument(
            f"rows of {layer.width} pixels do not fit L1 with {layer.kernel_h} rows of a filter",
            cure="cut the image into strips",
        )
    tiling = {
        "batch": layer.batch,
        "channelBlocks": layer.channel_blocks,
        "height": layer.height,
        "width": layer.width,
        "filterBlocks": layer.filter_blocks,
        "outHeight": layer.out_height,
        "outWidth": layer.out_width,
        "kernelH": layer.kernel_h,
        "kernelW": layer.kernel_w,
        "stride": stride,
        "pad": pad,
        "dilation": dilation,
        "tileM": tile.pixels,
        "tileN": tile.filters,
        "stepK": tile.step,
        "packetBlocks": tile.packet,
        "imageBytes": tile.image_bytes(layer),
    }
    entry = "conv2d" if version == "optimised" else "conv2d_naive"
    return Plan(entry, max(1, min(soc.aic, tile.tiles(layer))), (x, w, y, tiling), (y,))


def choose(layer: Layer, soc: Soc) -> Tile:
    """The tile that the search expects to be fastest."""
    return min(
        candidates(layer, soc), key=lambda t: (t.cycles(layer, soc), -t.step, t.packet), default=simple(layer, soc, 2)
    )


def _layer(x: Array, w: Array, stride: int, pad: int, dilation: int) -> Layer:
    if x.dtype != np.float16 or w.dtype != np.float16:
        raise BadArgument(f"conv2d of {x.dtype.name} and {w.dtype.name}", cure="convert both to float16")
    if x.ndim != 5 or x.shape[4] != C0:
        raise BadArgument(f"x has shape {x.shape}", cure="give it as NC1HWC0: [N, C1, H, W, 16]")
    if w.ndim != 6 or w.shape[4:] != (C0, C0):
        raise BadArgument(f"w has shape {w.shape}", cure="give it as FRACTAL_Z: [C1, KH, KW, N1, 16, 16]")
    if x.shape[1] != w.shape[0]:
        raise BadArgument(f"x has {x.shape[1]} channel blocks and w {w.shape[0]}", cure="both have C1 of them")
    if not (1 <= stride <= 63 and 1 <= dilation <= 255 and 0 <= pad <= 255):
        raise BadArgument(
            f"stride {stride}, dilation {dilation}, pad {pad}", cure="stride 1 to 63, dilation 1 to 255, pad 0 to 255"
        )
    layer = Layer(
        x.shape[0], x.shape[1], x.shape[2], x.shape[3], w.shape[3], w.shape[1], w.shape[2], stride, pad, dilation
    )
    high, wide = (layer.kernel_h - 1) * dilation + 1, (layer.kernel_w - 1) * dilation + 1
    if pad >= min(high, wide):
        raise BadArgument(f"pad {pad} and a filter of {high} x {wide}", cure="pad less than the filter is long")
    if layer.height + 2 * pad < high or layer.width + 2 * pad < wide or 0 in x.shape or 0 in w.shape:
        raise BadArgument(
            f"an image of {layer.height} x {layer.width}, a filter of {high} x {wide}",
            cure="the padded image holds the filter",
        )
    if max(layer.height * layer.width, layer.filter_blocks * C0) > 65535:
        raise BadArgument(
            f"an image of {layer.height} x {layer.width}", cure="at most 65,535 pixels: copies count 16 bits"
        )
    return layer


def optimised(x: Array, w: Array, stride: int = 1, pad: int = 0, dilation: int = 1) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "conv2d", "optimised", x, w, stride=stride, pad=pad, dilation=dilation)


def naive(x: Array, w: Array, stride: int = 1, pad: int = 0, dilation: int = 1) -> Any:
    """The same, naive version."""
    return outputs(plan, "conv2d", "naive", x, w, stride=stride, pad=pad, dilation=dilation)
