"""From the worst element of the outputs back to the line where its error was born."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope import dtypes
from toprope.precision.causes import Diagnosis, Link, Output, name_cause, ulp
from toprope.precision.cube import Product
from toprope.precision.footprint import Place
from toprope.precision.shadow import Replay, Step, relative_error

# A worst element below this many ulps of the output's type is no finding: the bar is higher where arithmetic and output are both float.
CLEAN_ULPS = {"float16": 1.5, "bfloat16": 1.5}
CLEAN_ULPS_WIDE, CLEAN_ULPS_NEAR_ZERO = 16.0, 64.0  # the latter if the tensor as a whole is within an ulp
LONGEST_CHAIN = 20_000


def diagnose(replayed: Replay, arrays: Mapping[str, NDArray[Any]]) -> Diagnosis:
    """Judge the outputs (`arrays`: the arguments by name, for their shapes) and follow the worst element back."""
    with np.errstate(all="ignore"):
        found = _outputs(replayed, arrays)
        if not found:
            return Diagnosis("no-float-output", [])
        outputs = [o for o, _ in found]
        worst, address = max(found, key=lambda pair: (pair[0].worst_relative == np.inf, pair[0].worst_ulps))
        wide = CLEAN_ULPS_NEAR_ZERO if worst.norm_relative <= ulp(1.0, worst.element) else CLEAN_ULPS_WIDE
        if worst.worst_ulps <= CLEAN_ULPS.get(worst.element, wide) and not worst.specials:
            return Diagnosis("clean", outputs)
        chain = _Tracer(replayed).chain(address)
        return name_cause(Diagnosis("unknown", outputs, chain), worst)


def _outputs(replayed: Replay, arrays: Mapping[str, NDArray[Any]]) -> list[tuple[Output, int]]:
    """Float outputs with the GM address of their worst element. Small elements count relative to a tenth of the median."""
    found = []
    written = {s.output.space == "gm" and s.output.base for s in replayed.steps}
    for i, row in enumerate(replayed.trace.gm):
        array, cells = arrays.get(row.name), replayed.memories.gm_cells[i]
        inside = any(w is not False and row.address <= w < row.address + row.bytes for w in written)
        if array is None or cells is None or not inside:
            continue
        kind = dtypes.of_array(array)
        if "float" not in kind.name or kind.numpy is None:
            continue
        stored = cells.bytes[: array.nbytes].view(kind.numpy).astype(np.float64)
        exact = replayed.exact(row.name, array).reshape(-1)
        finite = np.isfinite(exact)
        middle = float(np.median(np.abs(exact[finite]))) if finite.any() else 0.0
        error = relative_error(stored, exact, kind.name, 0.1 * middle)
        at = int(np.argmax(error)) if len(error) else 0
        both = finite & np.isfinite(stored)
        size = float(np.linalg.norm(exact[both]))
        found.append(
            (
                Output(
                    row.name,
                    kind.name,
                    tuple(int(k) for k in np.unravel_index(at, array.shape)) if array.size else (),
                    float(stored[at]),
                    float(exact[at]),
                    float(error[at]),
                    float(np.linalg.norm(stored[both] - exact[both])) / size if size else 0.0,
                    float(error[at]) / ulp(1.0, kind.name),
                    int(np.sum(error == np.inf)),
                ),
                row.address + at * kind.numpy.itemsize,
            )
        )
    return found


class _Tracer:
    """Finds who wrote an element before a given step."""

    def __init__(self, replayed: Replay) -> None:
        self.steps = replayed.steps
        self.memories = replayed.memories
        spaces = {"gm": 0}
        for s in self.steps:
            spaces.setdefault(s.output.space, len(spaces))
        self.spaces = spaces
        writes = [s.op not in ("LocalTensor.GetValue", "GlobalTensor.GetValue") for s in self.steps]
        spans = [s.output.span() for s in self.steps]
        self.low = np.array([a for a, _ in spans])
        self.high = np.array([b if w else a for (a, b), w in zip(spans, writes, strict=True)])
        self.home = np.array(
            [spaces[s.output.space] + 64 * (0 if s.output.space == "gm" else s.core + 1) for s in self.steps]
        )

    def writer(self, before: int, core: int, space: str, address: int) -> tuple[int, int] | None:
        """The last step below `before` that wrote the element at `address`, and its lane."""
        home = self.spaces.get(space, -1) + 64 * (0 if space == "gm" else core + 1)
        hits = (self.home[:before] == home) & (self.low[:before] <= address) & (address < self.high[:before])
        for k in np.flatnonzero(hits)[::-1]:
            lane = self.steps[k].output.lane_of(address)
            if lane is not None:
                return int(k), lane
        return None

    def source(self, before: int, core: int, space: str, address: int) -> tuple[int, int] | None:
        """Like writer, but passing through everything that only moves elements."""
        for _ in range(64):
            found = self.writer(before, core, space, address)
            if found is None or self.steps[found[0]].function is not None:
                return found
            step, lane = self.steps[found[0]], found[1]
            nearest = self.origin(step, lane)
            if nearest is None:
                return None
            before, core, space, address = found[0], step.core, nearest[0], nearest[1]
        return None

    def origin(self, step: Step, lane: int) -> tuple[str, int] | None:
        """Where the element came from that a moving step put into `lane`."""
        if not step.inputs:
            return None
        if step.groups is None:
            place = step.inputs[0][0]
            return (place.space, place.address(lane)) if lane < len(place.offsets) else None
        at = int(step.groups[lane])
        if step.op == "Select":
            return (step.inputs[at][0].space, step.inputs[at][0].address(lane)) if at >= 0 else None
        for place, _ in step.inputs:
            if 0 <= at < len(place.offsets):
                return place.space, place.address(at)
            at -= len(place.offsets)
        return None

    def values(
        self, before: int, core: int, place: Any, lane: int
    ) -> tuple[float, float, tuple[int, int] | None] | None:
        """Stored and exact value of an input element when step `before` read it, and the step that made it."""
        found = self.source(before, core, place.space, place.address(lane))
        if found is None:
            return None
        step = self.steps[found[0]]
        assert step.exact is not None and step.stored is not None
        return float(step.stored[found[1]]), float(step.exact[found[1]]), found

    def chain(self, address: int) -> list[Link]:
        """The links from the element at a GM address back to where its error begins, newest first."""
        links: list[Link] = []
        at = self.source(len(self.steps), 0, "gm", address)
        while at is not None and len(links) < LONGEST_CHAIN:
            link, at = self.link(*at)
            links.append(link)
        return links

    def link(self, number: int, lane: int) -> tuple[Link, tuple[int, int] | None]:
        """One step back along the input whose error does most to the result."""
        step = self.steps[number]
        assert step.exact is not None and step.stored is not None and step.function is not None
        stored, exact = float(step.stored[lane]), float(step.exact[lane])
        if isinstance(step.function, Product):
            return self.product_link(number, step, step.function, lane)
        reads = [(place, k) for place, k in self.input_lanes(step, lane)]
        inputs = [self.values(number, step.core, place, k) for place, k in reads]
        if step.groups is not None:
            return self.sum_link(step, lane, inputs, stored, exact)
        columns = [] if step.columns is None else [float(c[lane]) for c in step.columns]
        unknown = [v is None for v in inputs]
        if any(
            unknown
        ):  # data of the user: exact. Its value is not kept; solve for the common cases by taking the output apart
            wide = self.input_values(number, step, lane)
            inputs = [v if v is not None else (w, w, None) for v, w in zip(inputs, wide, strict=True)]
        known = [v for v in inputs if v is not None]
        scalars = list(zip(step.scalars, step.exact_scalars, strict=True))
        at = [v[0] for v in known] + [s for s, _ in scalars]
        true = [v[1] for v in known] + [e for _, e in scalars]
        computed = self.value(step, [*at, *columns])
        effects = []
        for i in range(len(at)):
            changed = self.value(step, [true[k] if k == i else at[k] for k in range(len(at))] + columns)
            same = at[i] == true[i] or (np.isnan(at[i]) and np.isnan(true[i])) or changed == computed
            effect = 0.0 if same else abs(changed - computed)
            effects.append(effect if np.isfinite(effect) else np.inf)
        own = _difference(stored, computed)
        best = int(np.argmax(effects)) if effects else 0
        total = float(sum(effects))
        if not effects or effects[best] == 0.0:
            return Link(step, lane, stored, exact, own, computed, 0.0, 0.0), None
        origin = known[best][2] if best < len(known) else self.scalar_origin(step)
        return Link(step, lane, stored, exact, own, computed, abs(_difference(at[best], true[best])), total), origin

    def sum_link(
        self, step: Step, lane: int, inputs: list[Any], stored: float, exact: float
    ) -> tuple[Link, tuple[int, int] | None]:
        errors = [_difference(v[0], v[1]) if v is not None else 0.0 for v in inputs]
        carried = float(sum(errors))
        computed = exact + carried if np.isfinite(carried) else stored
        own = _difference(stored, computed)
        best = int(np.argmax(np.abs(errors))) if errors else 0
        if not errors or errors[best] == 0.0:
            return Link(step, lane, stored, exact, own, computed, 0.0, 0.0), None
        return Link(step, lane, stored, exact, own, computed, abs(errors[best]), abs(carried)), inputs[best][2]

    def product_link(self, number: int, step: Step, product: Product, lane: int) -> tuple[Link, tuple[int, int] | None]:
        """One step back from an element of C: to the element of A or B whose error does most, or to the sum so far."""
        assert step.exact is not None and step.stored is not None
        stored, exact = float(step.stored[lane]), float(step.exact[lane])
        row, column = divmod(lane, product.n)
        # (error of the input, what it does to the result, where the input lies)
        effects: list[tuple[float, float, Place, int]] = []
        if step.matrices is not None:
            (a, a_true), (b, b_true) = step.matrices
            of_a, of_b = (
                slice(row * product.k, (row + 1) * product.k),
                slice(column * product.k, (column + 1) * product.k),
            )
            wrong_a, wrong_b = a[of_a] - a_true[of_a], b[of_b] - b_true[of_b]
            for k in range(product.k):
                effects.append((wrong_a[k], wrong_a[k] * b_true[of_b][k], step.inputs[0][0], row * product.k + k))
                effects.append((wrong_b[k], a[of_a][k] * wrong_b[k], step.inputs[1][0], column * product.k + k))
        for place, _ in step.inputs[2:]:
            at = column if product.with_bias else lane
            value = self.values(number, step.core, place, at)
            wrong = 0.0 if value is None else _difference(value[0], value[1])
            effects.append((wrong, wrong, place, at))
        carried = float(sum(effect for _, effect, _, _ in effects))
        computed = exact + carried if np.isfinite(carried) else stored
        own = _difference(stored, computed)
        most = max(effects, key=lambda e: abs(e[1]), default=None)
        if most is None or most[1] == 0.0:
            return Link(step, lane, stored, exact, own, computed, 0.0, 0.0), None
        origin = self.source(number, step.core, most[2].space, most[2].address(most[3]))
        return Link(step, lane, stored, exact, own, computed, abs(float(most[0])), abs(carried)), origin

    def input_lanes(self, step: Step, lane: int) -> list[tuple[Any, int]]:
        if step.groups is not None:
            place = step.inputs[0][0]
            return [(place, int(k)) for k in np.flatnonzero(step.groups == lane)]
        return [(place, lane) for place, _ in step.inputs]

    def input_values(self, number: int, step: Step, lane: int) -> list[float]:
        """Values of inputs that no step made: what the kernel was given, found through the copies that brought it."""
        result = []
        for place, kind in step.inputs:
            before, core, space, address = number, step.core, place.space, place.address(lane)
            constant: float | None = None
            while (found := self.writer(before, core, space, address)) is not None:
                writer = self.steps[found[0]]
                origin = self.origin(writer, found[1]) if writer.function is None else None
                if origin is None:
                    if writer.stored is not None:
                        constant = float(writer.stored[found[1]])
                    break
                before, core, (space, address) = found[0], writer.core, origin
            result.append(constant if constant is not None else self.memories.initial(space, address, kind))
        return result

    def scalar_origin(self, step: Step) -> tuple[int, int] | None:
        if step.scalar_step < 0:
            return None
        read = self.steps[step.scalar_step]
        return self.source(step.scalar_step, read.core, read.output.space, read.output.base)

    def value(self, step: Step, arguments: list[float]) -> float:
        assert step.function is not None
        return float(np.asarray(step.function(*(np.float64(a) for a in arguments))))


def _difference(a: float, b: float) -> float:
    if a == b or (np.isnan(a) and np.isnan(b)):
        return 0.0
    d = a - b
    return float(d) if np.isfinite(d) else float(np.inf)
