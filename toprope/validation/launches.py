"""How each kernel of the validation is launched: its defines, its arrays and its tiling, from a row's `setup`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from toprope.kernel import Run, load

HERE = Path(__file__).parent
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

Setup = Mapping[str, Any]


def _defines(setup: Setup, *names: str) -> tuple[str, ...]:
    return tuple(f"{name.upper()}={setup[name]}" for name in names)


def _add(at: Setup, chip: str, part: int) -> Run:
    kernel = load(HERE / "kernels" / "add.cpp", defines=_defines(at, "mode", "tile", "bypass")).add
    rows, columns = 8192 // part, 8192
    x, y, z = (np.zeros((rows, columns), np.float16) for _ in range(3))
    return kernel[at["blocks"]](x, y, z, rows, columns, soc=chip, time_only=True)


def _data_copy(at: Setup, chip: str, part: int) -> Run:
    defines = _defines(at, "to_l1", "tile_m", "tile_n", "order", "repeats")
    module = load(HERE / "kernels" / "data_copy.cpp", defines=defines)
    kernel, blocks = (module.data_copy_l1, 24) if at["to_l1"] else (module.data_copy, 48)
    rows, columns = at["rows"] // part, at["columns"]
    return kernel[blocks](np.zeros((rows, columns), np.float16), rows, columns, soc=chip, time_only=True)


def _matmul(at: Setup, chip: str, part: int) -> Run:
    tiling = ("base_m", "base_n", "single_m", "single_n", "step_ka", "step_kb", "l1_buffers", "unit_flag", "cores_m")
    kernel = load(
        HERE / "kernels" / "matmul.cpp",
        defines=(
            *_defines(at, *tiling),
            "BASE_K=64",
            f"TRANS_B={at.get('trans_b', 0)}",
            f"ZIGZAG={at.get('zigzag', 0)}",
            f"RESULT={at.get('result', 'half')}",
        ),
    ).matmul
    m, n, k = at["m"] // part, at["n"], at["k"]
    a, b, c = (
        np.zeros((m, k), np.float16),
        np.zeros((n, k) if at.get("trans_b") else (k, n), np.float16),
        np.zeros((m, n), np.float32 if at.get("result") == "float" else np.float16),
    )
    return kernel[at["blocks"]](a, b, c, m, n, k, soc=chip, time_only=True)


# TCubeTiling, field by field; what a row does not state is zero.
_TILING = (
    "usedCoreNum", "M", "N", "Ka", "Kb", "singleCoreM", "singleCoreN", "singleCoreK", "baseM", "baseN", "baseK", "depthA1", "depthB1",
    "stepM", "stepN", "isBias", "transLength", "iterateOrder", "shareMode", "shareL1Size", "shareL0CSize", "shareUbSize", "batchM", "batchN",
    "singleBatchM", "singleBatchN", "stepKa", "stepKb", "depthAL1CacheUB", "depthBL1CacheUB", "dbL0A", "dbL0B", "dbL0C",
)  # fmt: skip
_TILING_WORDS = 50


def _matmul_object(at: Setup, chip: str, part: int) -> Run:
    m, n, k = at["m"], at["n"], at["k"]
    tiling = _cube_tiling({
        "usedCoreNum": at["blocks"], "M": m, "N": n, "Ka": k, "Kb": k, "singleCoreM": at["single_m"], "singleCoreN": at["single_n"],
        "singleCoreK": k, "baseM": at["base_m"], "baseN": at["base_n"], "baseK": at["base_k"], "depthA1": at["depth_a"],
        "depthB1": at["depth_b"], "stepM": at.get("step_m", 1), "stepN": 1, "stepKa": at["step_ka"], "stepKb": at["step_kb"],
        "dbL0A": 2, "dbL0B": 2, "dbL0C": 1,
    })  # fmt: skip
    defines = (
        *_defines(at, "config", "single_m", "single_n", "base_m", "base_n", "base_k"),
        f"SHAPE_M={m}",
        f"SHAPE_N={n}",
        f"SINGLE_K={k}",
        f"CONSTANT={at.get('constant', 0)}",
    )
    kernel = load(HERE / "kernels" / "matmul_object.cpp", defines=defines).matmul_object
    a, b, c = np.zeros((m, k), np.float16), np.zeros((k, n), np.float16), np.zeros((m, n), np.float16)
    return kernel[at["blocks"]](a, b, c, tiling, soc=chip, time_only=True)


def _bias(at: Setup, chip: str, part: int) -> Run:
    kernel = load(HERE / "kernels" / "bias.cpp", defines=_defines(at, "tile", "buffers")).bias
    count = 83886080
    x, y = np.zeros(count, np.float16), np.zeros(count, np.float16)
    return kernel[8](x, np.zeros(at["tile"], np.float16), y, count, soc=chip, time_only=True)


def _sigmoid(at: Setup, chip: str, part: int) -> Run:
    kernel = load(HERE / "kernels" / "sigmoid.cpp", defines=_defines(at, "element", "tile")).sigmoid
    x = np.zeros(at["count"], {"half": np.float16, "float": np.float32}[at["element"]])
    return kernel[48](x, np.zeros_like(x), x.size, soc=chip, time_only=True)


def _convolution(at: Setup, chip: str, part: int) -> Run:
    batch, channels, filters, height, width = (at[name] for name in ("batch", "channels", "filters", "height", "width"))
    kernel = load(HERE / "kernels" / "convolution.cpp", defines=_defines(at, "base_m", "base_n")).convolution
    x = np.zeros((batch, channels // 16, height, width, 16), np.float16)
    w = np.zeros((channels // 16 * 9, filters // 16, 16, 16), np.float16)
    y = np.zeros((batch, filters // 16, height, width, 16), np.float16)
    shape = height, width, channels, filters, at["single_n"]
    return kernel[batch * filters // at["single_n"]](x, w, y, *shape, soc=chip, time_only=True)


def _flash_attention(at: Setup, chip: str, part: int) -> Run:
    queries, keys, groups = at["queries"], at["keys"], min(at["queries"] // 128, 24)
    defines = _defines(at, "tile", "ahead", "queue", "period")
    kernel = load(HERE / "kernels" / "flash_attention.cpp", defines=defines).flash_attention
    q, k, v = (np.zeros((n, 128), np.float16) for n in (queries, keys, keys))
    queues = np.zeros(groups * at["queue"] * 128 * (at["tile"] * 6 + 128 * 4), np.uint8)
    return kernel[groups](
        q, k, v, np.zeros((queries, 128), np.float32), queues, queries, keys, soc=chip, time_only=True
    )


def _flash_attention_batches(at: Setup, chip: str, part: int) -> Run:
    keys, blocks = at["keys"], at["heads"] * at["keys"] // 128 // part
    defines = _defines(at, "stages", "interval")
    kernel = load(HERE / "kernels" / "flash_attention_batches.cpp", defines=defines).flash_attention_batches
    q, k, v = (np.zeros((n, 128), np.float16) for n in (blocks * 128, keys, keys))
    workspace = np.zeros(24 * 3 * at["stages"] * 128 * 128, np.float16)
    return kernel[24](q, k, v, np.zeros_like(q), workspace, blocks, keys, soc=chip, time_only=True)


def _shares(total: int, step: int, cores: int) -> tuple[int, int, int]:
    """Cores, elements of each, elements of the last: whole steps a core, as the published host code shares them out."""
    steps = -(-total // step)
    blocks = min(cores, steps)
    while True:
        share = -(-steps // blocks) * step
        last = total - share * (blocks - 1)
        if last > 0 or blocks == 1:
            return blocks, share, last
        blocks -= 1


def _tiles(at: Setup, chip: str, part: int) -> Run:
    tile, total = 8192, at["batch"] * at["elements"] // part
    blocks, share, last = _shares(total, tile, 20)
    kernel = load(HERE / "kernels" / "tiles.cpp", defines=(*_defines(at, "operation"), f"TILE={tile}")).tiles
    bytes_x, bytes_y = at["operation"] >= 2, at["operation"] == 2
    x, y = (np.zeros(total, np.uint8 if narrow else np.float16) for narrow in (bytes_x, bytes_y))
    tiling = np.array([blocks, share, last, 0, 0, 0, 0, 0], np.uint32)
    return kernel[blocks](x, y, np.zeros(total, np.float16), np.zeros_like(y), tiling, soc=chip, time_only=True)


def _broadcast_rows(at: Setup, chip: str, part: int) -> Run:
    rows, width = at["batch"] * at["elements"] // part, at["width"]
    if at["operation"] == 0:
        blocks, share, last = _shares(rows, 8192 // width, 20)
        more = 0
    else:
        blocks, share, more = 20, rows // 20, rows % 20
        last = share
    defines = (*_defines(at, "operation", "width", "queue_depth"), "TILE=8192")
    kernel = load(HERE / "kernels" / "broadcast_rows.cpp", defines=defines).broadcast_rows
    x = np.zeros(rows * width if at["operation"] == 0 else 16, np.float16)
    tiling = np.array([blocks, share, last, more, 0, 0, 0, 0], np.uint32)
    y = np.zeros(rows * width, np.float16)
    return kernel[blocks](x, np.zeros(rows, np.float16), y, tiling, soc=chip, time_only=True)


def _norm_rows(at: Setup, chip: str, part: int) -> Run:
    rows = at["batch"] * 256 // part
    if at["by_row"]:
        blocks = max(20, -(-rows // 255))
        share = -(-rows // blocks)
        last = rows - share * (blocks - 1)
    else:
        blocks, share, last = _shares(rows, 256, 20)
    kernel = load(HERE / "kernels" / "norm_rows.cpp", defines=(*_defines(at, "by_row"), "TILE=8192")).norm_rows
    tiling = np.array([blocks, share, last, 0, 0, 0, 0, 0], np.uint32)
    x, weight = np.zeros(rows * 32, np.float16), np.zeros(32, np.float16)
    return kernel[blocks](x, weight, weight.copy(), np.zeros_like(x), tiling, soc=chip, time_only=True)


def _cube_tiling(stated: Mapping[str, int]) -> np.ndarray[Any, np.dtype[np.int32]]:
    tiling = np.zeros(_TILING_WORDS, np.int32)
    for field, value in stated.items():
        tiling[_TILING.index(field)] = value
    return tiling


def _batched_matmul(at: Setup, chip: str, part: int) -> Run:
    count, m, n, k = at["batch"] * 12 // part, 256, 32, 256
    tiling = _cube_tiling({
        "usedCoreNum": 1, "M": m, "N": n, "Ka": k, "Kb": k, "singleCoreM": m, "singleCoreN": n, "singleCoreK": k, "baseM": m, "baseN": n,
        "baseK": 64, "depthA1": 4, "depthB1": 4, "stepM": 1, "stepN": 1, "stepKa": 4, "stepKb": 4, "dbL0A": 2, "dbL0B": 2, "dbL0C": 1,
    })  # fmt: skip
    kernel = load(HERE / "kernels" / "batched_matmul.cpp").batched_matmul
    a, b = np.zeros((count, m, k), np.float16), np.zeros((count, k, n), np.float16)
    return kernel[20](a, b, np.zeros((count, m, n), np.float32), tiling, count, soc=chip, time_only=True)


def _polar(at: Setup, chip: str, part: int) -> Run:
    count, period, buffers = at["count"] // part, at.get("period", 0), at["buffers"]
    cores = max(1, min(40, count // (period or 2048)))
    cores -= cores % 2 if cores > 2 else 0
    unit = period or 1
    share, more = count // unit // cores, count // unit % cores
    tiling = np.array([(share + 1) * unit, share * unit, more, 0, 0, 0, 0, 0], np.uint32)
    defines = (f"TILE={at['tile']}", f"PERIOD={period}", f"BUFFERS={buffers}")
    kernel = load(HERE / "kernels" / "polar.cpp", defines=defines).polar
    x, angle = np.zeros(count, np.float32), np.zeros(period or count, np.float32)
    return kernel[cores](x, angle, np.zeros(2 * count, np.float32), tiling, soc=chip, time_only=True)


def _adam(at: Setup, chip: str, part: int) -> Run:
    rows, columns, narrow = at["rows"], at["columns"], at["element"] != "float"
    defines = (*_defines(at, "element", "block_m", "block_n", "sub_m"), f"NARROW={int(narrow)}")
    kernel = load(HERE / "kernels" / "adam.cpp", defines=defines).adam
    arrays = [np.zeros((rows, columns), np.uint16 if narrow else np.float32) for _ in range(5)]
    if at["element"] == "half":
        arrays = [array.view(np.float16) for array in arrays]
    elif narrow:
        arrays = [array.view(BFLOAT16) for array in arrays]
    blocks = 2 * (rows // at["block_m"]) * (columns // at["block_n"])
    return kernel[blocks](*arrays, rows, columns, soc=chip, time_only=True)


def _gelu(at: Setup, chip: str, part: int) -> Run:
    kernel = load(HERE / "kernels" / "gelu.cpp", defines=_defines(at, "tile")).gelu
    x = np.zeros(at["count"] // part, np.float32)
    return kernel[at["blocks"]](x, np.zeros_like(x), x.size, soc=chip, time_only=True)


def _gated_decode(at: Setup, chip: str, part: int) -> Run:
    batch, heads, values, cores = at["batch"], 16, 32, 48
    most = -(-batch * values // cores)
    kernel = load(HERE / "kernels" / "gated_decode.cpp").gated_decode
    narrow = [np.zeros(n, BFLOAT16) for n in (batch * (2 * heads + values) * 128, batch * values, batch * values)]
    logs, state = np.zeros(values, np.float32), np.zeros((batch, values, 128, 128), np.float32)
    places, out = np.arange(batch, dtype=np.int64), np.zeros((batch, values, 128), BFLOAT16)
    return kernel[-(-batch * values // most)](
        *narrow, logs, logs.copy(), state, places, out, batch, heads, values, soc=chip, time_only=True
    )


KERNELS: dict[str, Callable[[Setup, str, int], Run]] = {
    "add": _add,
    "data_copy": _data_copy,
    "matmul": _matmul,
    "matmul_object": _matmul_object,
    "bias": _bias,
    "sigmoid": _sigmoid,
    "convolution": _convolution,
    "flash_attention": _flash_attention,
    "flash_attention_batches": _flash_attention_batches,
    "tiles": _tiles,
    "broadcast_rows": _broadcast_rows,
    "norm_rows": _norm_rows,
    "batched_matmul": _batched_matmul,
    "polar": _polar,
    "adam": _adam,
    "gelu": _gelu,
    "gated_decode": _gated_decode,
}
