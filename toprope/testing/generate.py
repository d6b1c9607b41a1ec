"""From an operator's signature to cases of the four classes, for every element type and rank, seeded and reproducible.

The rules for shapes and ranges follow the ecosystem's case standard (CANN opbase, experimental_standard.md): ranks 1 to
8, sizes from powers of two and 2^n - 1, half uniform in [-5, 5] and half normal with mean in [-5, 5] and deviation in
[0.1, 2], plus empty tensors, scalars, boundary and special values.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from toprope.testing.cases import KINDS, Absent, AnyArgument, Argument, Case
from toprope.testing.data import DISTRIBUTIONS, UNIFORM, Fill, special_values
from toprope.testing.elements import dtype_of
from toprope.testing.errors import CaseError
from toprope.testing.signature import Shape, Signature, Tensor

BOUNDARY_BYTES = (32, 256, 512, 65_280, 196_608)
"""Lengths around which kernels change path: block, repeat, cache line, 255 repeats, unified buffer of Atlas A2.

Sources: Ascend C API reference (32-byte blocks, 256-byte repeats, at most 255 repeats); A2 data sheet (192 KB).
"""

_SHARE = {"general": 0.4, "boundary": 0.3, "special": 0.1, "random": 0.2}
_GENERAL_ELEMENTS = 1 << 12


def generate(
    signature: Signature,
    count: int = 100,
    *,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    max_elements: int = 1 << 17,
    boundary_bytes: Sequence[int] = BOUNDARY_BYTES,
) -> list[Case]:
    """`count` cases of `signature`, shared out over `kinds`, each kind rotating through all element types and ranks.

    max_elements    upper bound on the elements of one input; "maximal shape" cases reach it
    boundary_bytes  lengths of the data in bytes around which boundary cases are placed
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not signature.inputs:
        raise CaseError(
            f"no class of case called {unknown[0]!r}" if unknown else f"{signature.name} has no inputs",
            cure=f"classes: {', '.join(KINDS)}",
        )
    total = sum(_SHARE[kind] for kind in kinds)
    ends = np.rint(np.cumsum([_SHARE[kind] / total for kind in kinds]) * count).astype(int)
    cases: list[Case] = []
    for kind, number in zip(kinds, np.diff(ends, prepend=0), strict=True):
        maker = _Maker(signature, kind, seed, max_elements, tuple(boundary_bytes))
        cases.extend(maker.case(index) for index in range(number))
    return cases


class _Maker:
    """Makes the cases of one class; case number i is the same whatever was made before it."""

    def __init__(
        self, signature: Signature, kind: str, seed: int, max_elements: int, boundary_bytes: Sequence[int]
    ) -> None:
        self.signature, self.kind, self.seed = signature, kind, seed
        self.max_elements, self.boundary_bytes = max_elements, boundary_bytes
        self.turns = list(itertools.product(signature.ranks, signature.dtypes))

    def case(self, index: int) -> Case:
        random = np.random.Generator(np.random.SFC64([self.seed, KINDS.index(self.kind), index]))
        rank, leading = self.turns[index % len(self.turns)]
        # Whatever else rotates walks by this number: for one element type and rank it counts up, so each meets every
        # length, attribute and filling in time, and it is shifted between them, so the first few cases differ already.
        turn = sum(divmod(index, len(self.turns)))
        dtypes = self.signature.dtype_of_inputs(leading, turn)
        itemsize = dtype_of(leading).itemsize
        free, symbols = self._sizes(rank, itemsize, turn, random)
        shapes = self.signature.shapes(free, symbols, random)
        used: list[AnyArgument] = []
        for tensor in self.signature.inputs:
            if tensor.optional and random.random() < 0.5:
                used.append(Absent(tensor.name))
                continue
            fill = self._fill(tensor, dtypes[tensor.name], turn, random)
            used.append(Argument(tensor.name, dtypes[tensor.name], shapes[tensor.name], fill))
        attrs = {a.name: a.values[turn % len(a.values)] for a in self.signature.attributes}
        shape = "x".join(map(str, next(iter(shapes.values())))) or "scalar"
        name = f"{self.signature.name}_{self.kind}_{index:04d}_{leading}_{shape}"
        return Case(name, self.signature.name, tuple(used), attrs, kind=self.kind, seed=self.seed)

    def _sizes(self, rank: int, itemsize: int, turn: int, random: np.random.Generator) -> tuple[Shape, dict[str, int]]:
        symbols = self.signature.symbols
        given = self.signature.sizes or {}
        if self.kind == "boundary":
            lengths = self._lengths(itemsize)
            length = lengths[turn % len(lengths)]
            free = _placed(length, rank, int(random.integers(3)), self.max_elements)
            chosen = {s: int(random.choice(given.get(s, (1, 2, 16, 17)))) for s in symbols}
            free_symbols = [s for s in symbols if s not in given]
            if free_symbols:
                spot = free_symbols[turn % len(free_symbols)]
                others = int(np.prod([v for s, v in chosen.items() if s != spot], initial=1))
                chosen[spot] = max(0, min(length, self.max_elements // max(others, 1)))
            return free, chosen
        budget = min(_GENERAL_ELEMENTS, self.max_elements) if self.kind != "random" else self.max_elements
        if self.kind == "special":
            budget = max(budget // 4, len(special_values(self.signature.dtypes[0])) ** 2)
        free = _random_shape(rank, budget, random)
        chosen = {}
        for symbol in symbols:
            sizes = given.get(symbol) or _side_lengths(int(budget ** (1 / max(len(symbols), 2))))
            chosen[symbol] = int(random.choice(np.asarray(sizes)))
        return free, chosen

    def _lengths(self, itemsize: int) -> list[int]:
        """Element counts at the edges: empty, one, around every boundary in bytes, and the maximum."""
        counts = {0, 1, self.max_elements}
        for size in self.boundary_bytes:
            exact = size // itemsize
            counts |= {exact - 1, exact, exact + 1}
        return sorted(c for c in counts if 0 <= c <= self.max_elements)

    def _fill(self, tensor: Tensor, dtype: str, turn: int, random: np.random.Generator) -> Fill:
        standard = tensor.fill == UNIFORM
        if self.kind == "special" and tensor.special:
            return Fill("ties" if turn % 4 == 3 else "specials")
        if not standard:
            return tensor.fill
        if self.kind == "random":
            if turn % 4 == 0 and tensor.special:
                return Fill("bits")
            reach = float(2.0 ** random.integers(-10, 12))
            return Fill(str(random.choice(DISTRIBUTIONS)), -reach, reach)
        if random.random() < 0.5 or not dtype_of(dtype).name.startswith(("float", "bfloat")):
            return Fill("uniform", -5.0, 5.0)
        return Fill("normal", mean=round(random.uniform(-5, 5), 3), std=round(random.uniform(0.1, 2), 3))


def _placed(length: int, rank: int, where: int, max_elements: int) -> Shape:
    """A shape of `rank` with `length` elements: along the last axis, the first, or behind a leading axis of three."""
    if rank == 0:
        return ()
    if rank == 1:
        return (length,)
    ones = (1,) * (rank - 1)
    if where == 0:
        return (*ones, length)
    if where == 1:
        return (length, *ones)
    return (3 if 3 * length <= max_elements else 1, *ones[1:], length)


def _side_lengths(most: int) -> list[int]:
    """Powers of two and their predecessors up to `most`, as the ecosystem's case standard wants."""
    powers = [1 << n for n in range(max(most, 1).bit_length())]
    return sorted({1, *powers, *(p - 1 for p in powers if p > 1)})


def _random_shape(rank: int, budget: int, random: np.random.Generator) -> Shape:
    """A shape of `rank` whose sizes come from `_side_lengths` and whose product stays within `budget`."""
    left, sizes = budget, []
    for axis in range(rank):
        most = max(1, int(left ** (1 / (rank - axis)) * 2)) if axis < rank - 1 else left
        candidates = _side_lengths(min(most, left))
        sizes.append(int(candidates[int(random.integers(0, len(candidates)))]))
        left = max(1, left // sizes[-1])
    random.shuffle(sizes)
    return tuple(sizes)


def coverage(cases: Sequence[Case]) -> Mapping[str, int]:
    """How many cases there are per "kind dtype rank", to show gaps."""
    counts: dict[str, int] = {}
    for case in cases:
        for tensor in case.tensors[:1]:
            key = f"{case.kind} {tensor.dtype} rank {len(tensor.shape)}"
            counts[key] = counts.get(key, 0) + 1
    return counts
