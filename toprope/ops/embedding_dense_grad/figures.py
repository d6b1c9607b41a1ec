"""Inputs of embedding_dense_grad's benchmark: even and skewed indices, and the same sorted; and what sums with an order cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope import ops, soc


def draw(count: int, rows: int, columns: int, zipf: float = 0.0, in_order: bool = False) -> tuple[Any, ...]:
    """grad, indices and, when they are sorted, where each comes from."""
    random = np.random.default_rng(0)
    indices = ((random.zipf(zipf, count) - 1) % rows if zipf else random.integers(0, rows, count)).astype(np.int32)
    grad = np.zeros((count, columns), np.float32)
    if not in_order:
        return grad, indices
    positions = np.argsort(indices, kind="stable").astype(np.int32)
    return grad, indices[positions], positions


def inputs_even() -> tuple[Any, ...]:
    """Hardly an index twice."""
    return draw(16384, 50000, 128)


def inputs_even_sorted() -> tuple[Any, ...]:
    """Hardly an index twice, in order."""
    return draw(16384, 50000, 128, in_order=True)


def inputs_zipf() -> tuple[Any, ...]:
    """A few indices are frequent, as words are."""
    return draw(16384, 50000, 128, 1.2)


def inputs_zipf_sorted() -> tuple[Any, ...]:
    """A few indices are frequent, in order."""
    return draw(16384, 50000, 128, 1.2, in_order=True)


def inputs_small_table() -> tuple[Any, ...]:
    """Every row is hit often."""
    return draw(65536, 2000, 64, 1.2)


def inputs_small_table_sorted() -> tuple[Any, ...]:
    """Every row is hit often, in order."""
    return draw(65536, 2000, 64, 1.2, in_order=True)


def tables() -> list[ops.Table]:
    """Sums in any order, in an order that the caller has sorted out, and with the sort on the chip."""
    chip, operator = soc.load("ascend910b1"), ops.operator("embedding_dense_grad")
    large: dict[str, Any] = {"num_weights": 50000}
    small: dict[str, Any] = {"num_weights": 2000, "scale_grad_by_freq": 1}
    rows, costs = [], []
    for label, free, ordered, attributes in (
        ("16,384 indices into 50,000 rows of 128", inputs_even(), inputs_even_sorted(), large),
        ("the same, Zipf 1.2", inputs_zipf(), inputs_zipf_sorted(), large),
        (
            "65,536 indices into 2,000 rows of 64, Zipf 1.2, scaled by frequency",
            inputs_small_table(),
            inputs_small_table_sorted(),
            small,
        ),
    ):
        us = [
            operator.run(*inputs, soc=chip, deterministic=deterministic, **attributes).time_us
            for inputs, deterministic in ((free, 0), (ordered, 0), (free, 1))
        ]
        costs.append(us[2] - us[1])
        rows.append((label, *(round(u, 1) for u in us), round(costs[-1], 1)))
    return [
        ops.Table(
            "What sums with an order cost (ascend910b1):",
            ("shape", "atomic µs", "sorted before µs", "sorted on the chip µs", "of it the sort µs"),
            tuple(rows),
            "The sort is bound by the vector unit and the copies of the one core that makes the last run of four.",
            {"most_us_of_the_sort": round(max(costs), 1)},
        )
    ]
