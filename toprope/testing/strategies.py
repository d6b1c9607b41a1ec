"""hypothesis strategies for operators: draw cases from a signature and let failures shrink to the smallest shape.

    @given(cases(ADD))
    def test_add(case):
        x, y = case.arrays()
        assert compare(add(x, y), np.add(np.float64(x), np.float64(y)))

Shapes shrink towards few, short axes, element types towards the first listed, contents towards uniform, seeds to 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from toprope.testing.cases import Absent, AnyArgument, Argument, Case
from toprope.testing.data import UNIFORM, Fill
from toprope.testing.signature import Shape, Signature, Tensor

CONTENTS = ("uniform", "normal", "specials", "ties", "bits", "laplace")


def shapes(ranks: Sequence[int], max_side: int = 300, max_elements: int = 1 << 14) -> st.SearchStrategy[Shape]:
    """Shapes of the given ranks with at most `max_elements` elements; zero-sized axes included."""

    @st.composite
    def draw_shape(draw: st.DrawFn) -> Shape:
        sizes: list[int] = []
        left = max_elements
        for _ in range(draw(st.sampled_from(sorted(ranks)))):
            sizes.append(draw(st.integers(0, min(max_side, left))))
            left = left // max(sizes[-1], 1)
        return tuple(sizes)

    return draw_shape()


@st.composite
def cases(
    draw: st.DrawFn,
    signature: Signature,
    *,
    contents: Sequence[str] = CONTENTS,
    max_side: int = 300,
    max_elements: int = 1 << 14,
) -> Case:
    """Cases of `signature`; `contents` limits how tensors without a fill of their own are filled."""
    dtypes = signature.dtype_of_inputs(draw(st.sampled_from(signature.dtypes)), draw(st.integers(0, 3)))
    free = draw(shapes(signature.ranks, max_side, max_elements)) if _has_free(signature) else ()
    symbols = {}
    for symbol in signature.symbols:
        sizes = (signature.sizes or {}).get(symbol)
        symbols[symbol] = draw(st.sampled_from(list(sizes)) if sizes else st.integers(1, max_side))
    seed = draw(st.integers(0, 2**31 - 1))
    chosen = signature.shapes(free, symbols, np.random.default_rng(seed))
    arguments: list[AnyArgument] = []
    for tensor in signature.inputs:
        if tensor.optional and draw(st.booleans()):
            arguments.append(Absent(tensor.name))
        else:
            fill = draw(_fills(tensor, contents))
            arguments.append(Argument(tensor.name, dtypes[tensor.name], chosen[tensor.name], fill))
    attrs = {a.name: draw(st.sampled_from(a.values)) for a in signature.attributes}
    return Case("drawn", signature.name, tuple(arguments), attrs, kind="random", seed=seed)


def _has_free(signature: Signature) -> bool:
    return any(tensor.shape == "*" for tensor in signature.inputs)


def _fills(tensor: Tensor, contents: Sequence[str]) -> st.SearchStrategy[Fill]:
    if tensor.fill != UNIFORM or not tensor.special:
        return st.just(tensor.fill)
    return st.sampled_from([Fill(kind) for kind in contents])
