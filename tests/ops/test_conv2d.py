"""conv2d beyond its cases: rules named at tiling time, the search's tiles fit, formats against NCHW, agreement with torch's definition."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from toprope import ops, soc
from toprope.errors import TopropeError

CHIP = soc.load("ascend910b1")


def half(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float16)


@pytest.mark.parametrize(
    ("inputs", "attributes", "rule"),
    [
        ((half(1, 1, 8, 8, 16).astype(np.float32), half(1, 3, 3, 1, 16, 16)), {}, "x DT_FLOAT,"),
        ((half(16, 8, 8), half(1, 3, 3, 1, 16, 16)), {}, "NC1HWC0"),
        ((half(1, 1, 8, 8, 16), half(9, 1, 16, 16)), {}, "FRACTAL_Z"),
        ((half(1, 16, 8, 8), half(1, 3, 3, 1, 16, 16)), {}, "x is NCHW"),
        ((half(1, 3, 8, 8), half(5, 4, 3, 3)), {}, "3 channels and w 4"),
        ((half(1, 3, 8, 8), half(5, 3, 3, 3), half(16)), {}, "5 filters"),
        ((half(1, 3, 20, 20), half(5, 3, 12, 12)), {}, "125 taps"),
        ((half(1, 2, 8, 8, 16), half(1, 3, 3, 1, 16, 16)), {}, "channel blocks"),
        ((half(1, 1, 8, 8, 16), half(1, 3, 3, 1, 16, 16)), {"pads": [0, 0, 3, 0]}, "pads less"),
        ((half(1, 1, 8, 8, 16), half(1, 3, 3, 1, 16, 16)), {"strides": [1, 0]}, "strides"),
        ((half(1, 1, 4, 4, 16), half(1, 3, 3, 1, 16, 16)), {"dilations": [2, 1]}, "holds the filter"),
        ((half(1, 1, 8, 8, 16), half(1, 3, 3, 1, 16, 16)), {"pads": [1, 1]}, "top, bottom, left, right"),
        ((half(1, 1, 2, 20000, 16), half(1, 2, 2, 1, 16, 16)), {}, "do not fit L1"),
        ((half(1, 3, 300, 300), half(5, 3, 3, 3)), {}, "65535 pixels"),
        ((half(1, 3, 8, 8), half(5, 3, 3, 3)), {"tile": [64, 60, 64, 1]}, "multiples of 16"),
    ],
)
def test_a_broken_rule_is_named(inputs: tuple[Any, ...], attributes: dict[str, Any], rule: str) -> None:
    with pytest.raises(TopropeError) as refused:
        ops.operator("conv2d").tiling(
            shapes=[x.shape for x in inputs], dtypes=[x.dtype.name for x in inputs], **attributes
        )
    assert rule in str(refused.value)


def test_both_formats_are_the_convolution_of_nchw_images() -> None:
    spec = importlib.util.spec_from_file_location("conv2d_golden", ops.FOLDER / "conv2d" / "golden.py")
    assert spec is not None and spec.loader is not None
    formats = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(formats)
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, (2, 19, 9, 11)).astype(np.float16)
    w = random.integers(-2, 3, (21, 19, 3, 3)).astype(np.float16)
    attributes = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    operator = ops.operator("conv2d")
    blocked = operator(formats.image_blocks(x), formats.filter_blocks(w), **attributes)
    y = operator(x, w, **attributes)
    assert (y == formats.image(blocked, 21)).all()
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    for n, f, i, j in ((0, 0, 0, 0), (1, 20, 4, 5), (0, 7, 2, 3)):  # whole numbers: sums are exact
        window = padded[n, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        assert y[n, f, i, j] == np.float16((window * w[f].astype(np.float64)).sum())


@pytest.mark.parametrize(
    ("c1", "size", "kernel", "n1"), [(1, 224, 7, 4), (4, 56, 3, 4), (128, 7, 1, 32), (16, 14, 3, 16)]
)
def test_the_search_fits_and_beats_the_simple_tiling(c1: int, size: int, kernel: int, n1: int) -> None:
    operator, pad = ops.operator("conv2d"), kernel // 2
    shapes = [(8, c1, size, size, 16), (c1, kernel, kernel, n1, 16, 16), None]
    found = operator.tiling(shapes=shapes, pads=[pad] * 4, soc=CHIP)
    t = found.fields
    weight_bytes = t["packetBlocks"] * kernel * kernel * t["tileN"] * 32
    assert 2 * (t["imageBytes"] + weight_bytes) <= CHIP.bytes_of("l1")
    assert 2 * t["tileM"] * t["stepK"] * 2 <= CHIP.bytes_of("l0a")
    assert 2 * t["tileN"] * t["stepK"] * 2 <= CHIP.bytes_of("l0b")
    assert t["tileM"] * t["tileN"] * 4 <= CHIP.bytes_of("l0c")
    x, w = half(*shapes[0]), half(*shapes[1])  # type: ignore[misc]
    chosen, simple = (
        operator.run(x, w, soc=CHIP, options={"time_only": True}, pads=[pad] * 4, tile=tile).time_us
        for tile in ((), (64, 64, 64, 1))
    )
    assert chosen < simple
