"""The convolution and the attention of the examples at other sizes than their launch files, against float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toprope

ORACLES: dict[str, Callable[..., object]] = {}
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CONV, ATTENTION = EXAMPLES / "13_conv2d", EXAMPLES / "14_flash_attention"


def golden(folder: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(f"golden_of_{folder.name}", folder / "golden.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, name)
    return function


def clean(run: Any) -> None:
    assert not run.trace.reports, run.trace.reports
    found = [(f.code, f.message) for f in run.findings if f.severity != "advice"]
    assert not found, found[:4]


@pytest.mark.parametrize(
    "channels,size,filters,kernel,stride,pad,band,base_k,blocks",
    [
        (16, (15, 13), 32, (3, 5), 2, 1, 3, 48, 2),
        (48, (9, 20), 16, (1, 1), 1, 0, 4, 32, 3),
        (32, (12, 12), 48, (5, 3), 1, 2, 5, 160, 1),
    ],
)
def test_convolution(
    channels: int,
    size: tuple[int, int],
    filters: int,
    kernel: tuple[int, int],
    stride: int,
    pad: int,
    band: int,
    base_k: int,
    blocks: int,
) -> None:
    rng = np.random.default_rng(channels)
    (h, w), (kh, kw) = size, kernel
    oh, ow = (h + 2 * pad - kh) // stride + 1, (w + 2 * pad - kw) // stride + 1
    x = rng.standard_normal((channels // 16, h, w, 16)).astype(np.float16)
    weights = (rng.standard_normal((channels // 16 * kh * kw, filters // 16, 16, 16)) * 0.1).astype(np.float16)
    bias, y = rng.standard_normal(filters).astype(np.float32), np.zeros((filters // 16, oh, ow, 16), np.float16)
    names = [
        "channelBlocks",
        "height",
        "width",
        "filters",
        "kernelH",
        "kernelW",
        "stride",
        "pad",
        "outHeight",
        "outWidth",
        "bandRows",
        "baseK",
    ]
    values = (channels // 16, h, w, filters, kh, kw, stride, pad, oh, ow, band, base_k)
    tiling = dict(zip(names, values, strict=True))
    clean(toprope.load(CONV / "conv2d.cpp").conv2d[blocks](x, weights, bias, y, tiling))
    gold = golden(CONV, "conv2d")(x, weights, bias, tiling)
    assert np.allclose(y, gold, rtol=1e-3, atol=1e-3)


def attention(kernel: Any, keys: int, rising: bool, blocks: int = 1) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(keys)
    q, k, v = (rng.standard_normal((n, 64)).astype(np.float16) for n in (128 * blocks, keys, keys))
    if rising:  # every tile of keys has scores far above those before it: all that was summed must shrink to nothing
        k = (k * 0.01 + np.repeat(np.arange(keys // 128), 128)[:, None] * np.sign(q[0])).astype(np.float16)
    out, workspace = np.zeros((128 * blocks, 64), np.float16), np.zeros(262144 * blocks, np.uint8)
    run = kernel[blocks](q, k, v, out, workspace, keys, 0.125)
    return run, out, golden(ATTENTION, "attention")(q, k, v, 0.125)


@pytest.mark.parametrize("keys,rising,blocks", [(128, False, 1), (640, True, 1), (256, True, 3)])
def test_attention(keys: int, rising: bool, blocks: int) -> None:
    run, out, gold = attention(toprope.load(ATTENTION / "flash_attention.cpp").flash_attention, keys, rising, blocks)
    clean(run)
    assert np.allclose(out, gold, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
def test_attention_without_one_wait_is_a_race(tmp_path: Path) -> None:
    text = (ATTENTION / "flash_attention.cpp").read_text()
    wait = "CrossCoreWaitFlag(PARTIAL_READY + tile % 2);"
    assert text.count(wait) == 1
    file = tmp_path / "flash_attention.cpp"
    file.write_text(text.replace(wait, ""))
    run, _, _ = attention(toprope.load(file).flash_attention, 256, False)
    assert any(f.severity == "error" for f in run.findings), run.findings
