"""Step times from the library's kernels: each linear layer costs what its matrix product is predicted to take."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

import numpy as np

from toprope.errors import BadChip, BadInput
from toprope.ops import operator
from toprope.serve.planning.model_shape import ModelShape
from toprope.serve.planning.step_cost import ChipRates, RooflineCost
from toprope.soc import Soc

_MOST_COLUMNS = 65_408  # of one launch of the matmul operator, in whole tiles of 128; a wider head is several launches
_ARCH = 2201  # the architecture that the operator is written for
_KNOTS = (1, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)  # tokens: one tile of rows, then doubled


class KernelCost(RooflineCost):
    """As `RooflineCost`, but linear layers and head take the predicted time of `toprope.ops.matmul` on the chip.

    Predicted at a few token counts and interpolated between them (all counts within one tile of rows cost the same work),
    when first asked for. Attention and block moves stay a roofline. Raises `BadChip` for a chip without the operator.
    """

    basis = "matrix products as predicted for the library's kernel, the rest a roofline"

    def __init__(self, model: ModelShape, chip: ChipRates, soc: Soc) -> None:
        super().__init__(model, chip)
        if model.experts or model.latent:
            raise BadInput(f"{model.name} has layers that are not plain products", cure="use --cost roofline")
        if not self.runs_on(soc):
            raise BadChip(f"the matmul operator does not run on {soc.name}", cure="use the roofline: --cost roofline")
        self._soc = soc
        self._times_s: dict[tuple[int, int, int], float] = {}  # rows, inner, columns → one launch

    @staticmethod
    def runs_on(soc: Soc) -> bool:
        """Whether the chip is one that the operator is written for."""
        return soc.npu_arch == _ARCH

    @cached_property
    def _layer(self) -> tuple[tuple[int, int], ...]:
        model = self.model
        heads, widths = model.heads * model.head_size, (model.heads + 2 * model.kv_heads) * model.head_size
        return (
            (model.hidden, widths),
            (heads, model.hidden),
            (model.hidden, 2 * model.feed_forward),
            (model.feed_forward, model.hidden),
        )

    def layers_s(self, tokens: int) -> float:
        """See `RooflineCost`."""
        return self.model.layers * sum(self._interpolated(tokens, *product) for product in self._layer)

    def head_s(self, sampled: int) -> float:
        """See `RooflineCost`."""
        return self._interpolated(sampled, self.model.hidden, self.model.vocabulary)

    def _interpolated(self, rows: int, inner: int, columns: int) -> float:
        at = min(max(bisect_left(_KNOTS, rows), 1), len(_KNOTS) - 1)
        low, high = _KNOTS[at - 1], _KNOTS[at]
        low_s, high_s = self._predicted(low, inner, columns), self._predicted(high, inner, columns)
        return low_s + (high_s - low_s) * (rows - low) / (high - low)

    def _predicted(self, rows: int, inner: int, columns: int) -> float:
        key = (rows, inner, columns)
        if key not in self._times_s:
            launches, rest = divmod(columns, _MOST_COLUMNS)
            total_s = launches * self._launch_s(rows, inner, _MOST_COLUMNS) if launches else 0.0
            self._times_s[key] = total_s + (self._launch_s(rows, inner, rest) if rest else 0.0)
        return self._times_s[key]

    def _launch_s(self, rows: int, inner: int, columns: int) -> float:
        # The arrays say shapes and addresses to a run that skips the arithmetic; their memory is never touched.
        a, b = np.empty((rows, inner), np.float16), np.empty((inner, columns), np.float16)
        return operator("matmul").run(a, b, soc=self._soc, options={"time_only": True}).time_us * 1e-6
