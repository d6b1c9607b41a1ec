"""Matrix products as the software NPU predicts them: two constants for the search, and each shape by itself when asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from toprope import soc as chips
from toprope.hccl.cluster import Cluster, Rates
from toprope.ops import operator

# rows x inner x columns of training's products: queries, projections, feed-forward parts at tensor degrees 1 to 8, an
# image encoder's, and short ones.
SHAPES: Sequence[tuple[int, int, int]] = (
    (4096, 8192, 1280),
    (4096, 1024, 8192),
    (4096, 8192, 7168),
    (8192, 8192, 1280),
    (4096, 4096, 4096),
    (1024, 8192, 1280),
    (512, 8192, 8192),
    (8192, 6144, 8192),
    (2048, 3200, 1200),
    (4100, 3200, 12800),
)


@lru_cache(maxsize=4096)
def predicted_s(soc: str, rows: int, inner: int, columns: int) -> float:
    """Predicted seconds of one product of the operator library on a chip, float16, arithmetic skipped."""
    a, b = np.empty((rows, inner), np.float16), np.empty((inner, columns), np.float16)
    return operator("matmul").run(a, b, soc=chips.load(soc), options={"time_only": True}).time_us * 1e-6


@dataclass(frozen=True)
class KernelRates(Rates):
    """Rates whose matrix products are predicted one by one, on the chip `soc`."""

    soc: str = ""

    def product_s(self, rows: float, inner: float, columns: float) -> float:
        """See `Rates.product_s`; sizes are rounded up to whole elements."""
        if min(rows, inner, columns) <= 0:
            return 0.0
        return predicted_s(self.soc, *(int(-(-size // 1)) for size in (rows, inner, columns)))

    @classmethod
    def of(cls, cluster: Cluster) -> KernelRates:
        """The rates of a cluster with its chip's own products."""
        return cls(**{f.name: getattr(cluster.rates, f.name) for f in fields(Rates)}, soc=cluster.soc)


def fit_products(cluster: Cluster) -> tuple[dict[str, float], float]:
    """`product_efficiency` and `product_intensity` nearest to the predicted shapes, and the mean relative error left."""
    from scipy.optimize import least_squares

    times = {shape: predicted_s(cluster.soc, *shape) for shape in SHAPES}

    def errors(x: Sequence[float]) -> list[float]:
        rates = cluster.with_constants({"product_efficiency": x[0], "product_intensity": x[1]}).rates
        return [rates.product_s(*shape) / time - 1 for shape, time in times.items()]

    answer = least_squares(errors, [0.8, 50.0], x_scale=[0.8, 50.0], bounds=([0.2, 1.0], [1.0, 2000.0])).x
    constants = {"product_efficiency": round(float(answer[0]), 4), "product_intensity": round(float(answer[1]), 1)}
    return constants, sum(map(abs, errors(list(constants.values())))) / len(times)
