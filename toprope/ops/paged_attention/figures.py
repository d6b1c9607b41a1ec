"""Caches of paged_attention's benchmark, with pages scattered as they are in use, and how near it comes to the memory's rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toprope import ops, soc
from toprope.ops import Table

DIM, PAGE = 128, 128


def cache(
    lengths: Sequence[int], heads: int, kv_heads: int, page: int = PAGE, scattered: bool = True
) -> tuple[Any, ...]:
    """The inputs for sequences of these lengths; pages in random or in ascending order."""
    need = [-(-n // page) for n in lengths]
    pages = np.arange(sum(need), dtype=np.int32)
    if scattered:
        pages = np.random.default_rng(0).permutation(pages)
    table = np.zeros((len(lengths), max(need)), np.int32)
    for row, end, count in zip(table, np.cumsum(need), need, strict=True):
        row[:count] = pages[end - count : end]
    keys, values = (np.zeros((pages.size, page, kv_heads, DIM), np.float16) for _ in range(2))
    return np.zeros((len(lengths), heads, DIM), np.float16), keys, values, table, np.array(lengths, np.int32)


def inputs_batch() -> tuple[Any, ...]:
    """Many sequences of middling length."""
    return cache([1024] * 32, 64, 8)


def inputs_long() -> tuple[Any, ...]:
    """Few sequences, each for three cores."""
    return cache([8192] * 8, 64, 8)


def inputs_plain_heads() -> tuple[Any, ...]:
    """As many heads of the cache as of the query."""
    return cache([2048] * 16, 32, 32)


def inputs_alone() -> tuple[Any, ...]:
    """One long sequence for all cores."""
    return cache([32768], 64, 8)


def inputs_mixed() -> tuple[Any, ...]:
    """Lengths as they come."""
    return cache([int(n) for n in np.random.default_rng(1).integers(100, 4096, 64)], 32, 4)


def inputs_small_pages() -> tuple[Any, ...]:
    """Pages of 16 tokens that lie anywhere."""
    return cache([1024] * 32, 64, 8, page=16)


def inputs_small_pages_in_order() -> tuple[Any, ...]:
    """Pages of 16 tokens, those of a sequence one behind the other."""
    return cache([1024] * 32, 64, 8, page=16, scattered=False)


def tables() -> list[Table]:
    chip, operator = soc.load("ascend910b1"), ops.operator("paged_attention")
    rate = chip.number("hbm.read_tbps") * 1e6
    cases = {
        "batch": inputs_batch,
        "long": inputs_long,
        "plain heads": inputs_plain_heads,
        "alone": inputs_alone,
        "mixed": inputs_mixed,
        "batch, pages of 16 in order": inputs_small_pages_in_order,
        "batch, pages of 16 anywhere": inputs_small_pages,
    }
    rows = []
    for name, make in cases.items():
        inputs = make()
        read = 2 * int(inputs[4].sum()) * inputs[1].shape[2] * DIM * 2
        run = operator.run(*inputs, soc=chip, options={"time_only": True})
        us, bound, line = run.time_us, read / rate, run.timeline
        busy = f"{line.busy('MTE2', 'aic'):.0%} / {line.busy('S', 'aic'):.0%} / {line.busy('V'):.0%}"
        rows.append((name, f"{read / 1e6:,.0f}", round(bound, 1), round(us, 1), f"{us / bound:.2f}x", busy))
    worst, small = (max(float(str(r[4])[:-1]) for r in some) for some in (rows[:5], rows[5:]))
    return [
        Table(
            "Against the time the memory needs for the keys and values alone (1.49 TB/s), on ascend910b1",
            (
                "shape",
                "MB read",
                "bound µs",
                "predicted µs",
                "times the bound",
                "load unit / scalar of the cube core / vector busy",
            ),
            tuple(rows),
            f"Pages of 128 tokens: at most {worst}x. Of pages of 16, each is a copy of 4 KB with a start of its own: at most {small}x. The scalar "
            "unit reads two entries of the table at a time, and a second head of a sequence takes the numbers that the first one read.",
            {"worst": worst, "worst_of_small_pages": small},
        )
    ]
