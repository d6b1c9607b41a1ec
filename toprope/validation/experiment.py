"""Runs one published row: our kernel with its tiling, without the arithmetic, and what predict() makes of the trace."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toprope.kernel import Run, load
from toprope.timing import Timeline, predict

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Published:
    """A published measurement: time and busy time per pipe, in microseconds, and how to repeat it here.

    `closed`: the kernel is not public, the tiling is ours. `repeats`: the row of the same kernel that measures the same work again. `span` says what was timed: the "task", the "slowest core" or the "mean core".
    `l2` is "warm" where the source says that the launch before, or a prefetch, left the arrays in L2.
    """

    series: str
    id: str
    what: str
    chip: str
    kernel: str
    source: str
    us: float
    pipes: Mapping[str, float]
    setup: Mapping[str, Any]
    calibrates: str = ""
    span: str = "task"
    closed: bool = False
    slow: bool = False
    part: int = 1
    note: str = ""
    repeats: str = ""
    l2: str = "cold"


@dataclass(frozen=True)
class Outcome:
    """A published row beside our prediction of it, in microseconds; `error` is signed, 0.1 means ten per cent too long."""

    row: Published
    us: float
    pipes: Mapping[str, float]
    assumed_share: float
    instructions: int
    predict_s: float

    @property
    def error(self) -> float:
        """Predicted over published, minus one."""
        return self.us / self.row.us - 1.0

    @property
    def pipe_errors(self) -> dict[str, float]:
        """The same for each published pipe time."""
        return {pipe: self.pipes[pipe] / us - 1.0 for pipe, us in self.row.pipes.items()}


def published() -> list[Published]:
    """Every row of published.toml."""
    table = tomllib.loads((HERE / "published.toml").read_text())
    rows = []
    for series in table["series"]:
        shared = {
            "series": series["name"],
            "chip": series["chip"],
            "kernel": series["kernel"],
            "source": series["source"],
            "closed": series.get("closed", False),
            "l2": series.get("l2", "cold"),
        }
        rows += [Published(**shared, note=series.get("note", ""), **row) for row in series["row"]]
    return rows


def launch(row: Published) -> Run:
    """Run the row's kernel on all its cores, time only. Raises what loading and launching a kernel raise."""
    return _KERNELS[row.kernel](row)


def run(row: Published) -> Outcome:
    """Launch the row's kernel and predict its trace."""
    launched = launch(row)
    started = time.perf_counter()
    timeline: Timeline = predict(launched.trace, launched.soc, l2=row.l2)
    elapsed = time.perf_counter() - started
    return Outcome(
        row=row,
        us=_SPANS[row.span](timeline) * row.part,
        pipes={pipe: timeline.pipe_us(pipe) * row.part for pipe in row.pipes},
        assumed_share=timeline.assumed_share,
        instructions=len(timeline.start),
        predict_s=elapsed,
    )


_SPANS: dict[str, Callable[[Timeline], float]] = {
    "task": lambda timeline: timeline.microseconds,
    "slowest core": lambda timeline: float(timeline.core_us.max()),
    "mean core": lambda timeline: float(timeline.core_us.mean()),
}


def _defines(setup: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    return tuple(f"{name.upper()}={setup[name]}" for name in names)


def _add(row: Published) -> Run:
    kernel = load(HERE / "kernels" / "add.cpp", defines=_defines(row.setup, "mode", "tile", "bypass")).add
    rows, columns = 8192 // row.part, 8192
    x, y, z = (np.zeros((rows, columns), np.float16) for _ in range(3))
    return kernel[row.setup["blocks"]](x, y, z, rows, columns, soc=row.chip, time_only=True)


def _data_copy(row: Published) -> Run:
    kernel = load(
        HERE / "kernels" / "data_copy.cpp", defines=_defines(row.setup, "tile_m", "tile_n", "order", "repeats")
    ).data_copy
    rows, columns = row.setup["rows"], row.setup["columns"]
    return kernel[48](np.zeros((rows, columns), np.float16), rows, columns, soc=row.chip, time_only=True)


def _matmul(row: Published) -> Run:
    at = row.setup
    tiling = ("base_m", "base_n", "single_m", "single_n", "step_ka", "step_kb", "l1_buffers", "unit_flag", "cores_m")
    kernel = load(
        HERE / "kernels" / "matmul.cpp",
        defines=(
            *_defines(at, *tiling),
            "BASE_K=64",
            f"TRANS_B={at.get('trans_b', 0)}",
            f"ZIGZAG={at.get('zigzag', 0)}",
        ),
    ).matmul
    m, n, k = at["m"] // row.part, at["n"], at["k"]
    a, b, c = (
        np.zeros((m, k), np.float16),
        np.zeros((n, k) if at.get("trans_b") else (k, n), np.float16),
        np.zeros((m, n), np.float16),
    )
    return kernel[at["blocks"]](a, b, c, m, n, k, soc=row.chip, time_only=True)


# TCubeTiling, field by field; what a row does not state is zero.
_TILING = (
    "usedCoreNum", "M", "N", "Ka", "Kb", "singleCoreM", "singleCoreN", "singleCoreK", "baseM", "baseN", "baseK", "depthA1", "depthB1",
    "stepM", "stepN", "isBias", "transLength", "iterateOrder", "shareMode", "shareL1Size", "shareL0CSize", "shareUbSize", "batchM", "batchN",
    "singleBatchM", "singleBatchN", "stepKa", "stepKb", "depthAL1CacheUB", "depthBL1CacheUB", "dbL0A", "dbL0B", "dbL0C",
)  # fmt: skip
_TILING_WORDS = 50


def _matmul_object(row: Published) -> Run:
    at = row.setup
    m, n, k = at["m"], at["n"], at["k"]
    tiling = np.zeros(_TILING_WORDS, np.int32)
    stated = {
        "usedCoreNum": at["blocks"], "M": m, "N": n, "Ka": k, "Kb": k, "singleCoreM": at["single_m"], "singleCoreN": at["single_n"],
        "singleCoreK": k, "baseM": at["base_m"], "baseN": at["base_n"], "baseK": at["base_k"], "depthA1": at["depth_a"],
        "depthB1": at["depth_b"], "stepM": at.get("step_m", 1), "stepN": 1, "stepKa": at["step_ka"], "stepKb": at["step_kb"],
        "dbL0A": 2, "dbL0B": 2, "dbL0C": 1,
    }  # fmt: skip
    for field, value in stated.items():
        tiling[_TILING.index(field)] = value
    defines = (
        *_defines(at, "config", "single_m", "single_n", "base_m", "base_n", "base_k"),
        f"SHAPE_M={m}",
        f"SHAPE_N={n}",
        f"SINGLE_K={k}",
        f"CONSTANT={at.get('constant', 0)}",
    )
    kernel = load(HERE / "kernels" / "matmul_object.cpp", defines=defines).matmul_object
    a, b, c = np.zeros((m, k), np.float16), np.zeros((k, n), np.float16), np.zeros((m, n), np.float16)
    return kernel[at["blocks"]](a, b, c, tiling, soc=row.chip, time_only=True)


def _bias(row: Published) -> Run:
    kernel = load(HERE / "kernels" / "bias.cpp", defines=_defines(row.setup, "tile", "buffers")).bias
    count = 83886080
    x, y = np.zeros(count, np.float16), np.zeros(count, np.float16)
    return kernel[8](x, np.zeros(row.setup["tile"], np.float16), y, count, soc=row.chip, time_only=True)


def _sigmoid(row: Published) -> Run:
    kernel = load(HERE / "kernels" / "sigmoid.cpp", defines=_defines(row.setup, "element", "tile")).sigmoid
    x = np.zeros(row.setup["count"], {"half": np.float16, "float": np.float32}[row.setup["element"]])
    return kernel[48](x, np.zeros_like(x), x.size, soc=row.chip, time_only=True)


def _convolution(row: Published) -> Run:
    at = row.setup
    batch, channels, filters, height, width = (at[name] for name in ("batch", "channels", "filters", "height", "width"))
    kernel = load(HERE / "kernels" / "convolution.cpp", defines=_defines(at, "base_m", "base_n")).convolution
    x = np.zeros((batch, channels // 16, height, width, 16), np.float16)
    w = np.zeros((channels // 16 * 9, filters // 16, 16, 16), np.float16)
    y = np.zeros((batch, filters // 16, height, width, 16), np.float16)
    shape = height, width, channels, filters, at["single_n"]
    return kernel[batch * filters // at["single_n"]](x, w, y, *shape, soc=row.chip, time_only=True)


def _flash_attention(row: Published) -> Run:
    at = row.setup
    queries, keys, groups = at["queries"], at["keys"], min(at["queries"] // 128, 24)
    defines = _defines(at, "tile", "ahead", "queue", "period")
    kernel = load(HERE / "kernels" / "flash_attention.cpp", defines=defines).flash_attention
    q, k, v = (np.zeros((n, 128), np.float16) for n in (queries, keys, keys))
    queues = np.zeros(groups * at["queue"] * 128 * (at["tile"] * 6 + 128 * 4), np.uint8)
    return kernel[groups](
        q, k, v, np.zeros((queries, 128), np.float32), queues, queries, keys, soc=row.chip, time_only=True
    )


def _flash_attention_batches(row: Published) -> Run:
    at = row.setup
    keys, blocks = at["keys"], at["heads"] * at["keys"] // 128 // row.part
    defines = _defines(at, "stages", "interval")
    kernel = load(HERE / "kernels" / "flash_attention_batches.cpp", defines=defines).flash_attention_batches
    q, k, v = (np.zeros((n, 128), np.float16) for n in (blocks * 128, keys, keys))
    workspace = np.zeros(24 * 3 * at["stages"] * 128 * 128, np.float16)
    return kernel[24](q, k, v, np.zeros_like(q), workspace, blocks, keys, soc=row.chip, time_only=True)


_KERNELS: dict[str, Callable[[Published], Run]] = {
    "add": _add,
    "data_copy": _data_copy,
    "matmul": _matmul,
    "matmul_object": _matmul_object,
    "bias": _bias,
    "sigmoid": _sigmoid,
    "convolution": _convolution,
    "flash_attention": _flash_attention,
    "flash_attention_batches": _flash_attention_batches,
}
