"""From the worst element of the outputs back to the line where its error was born, and the cause by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope import dtypes
from toprope.precision.cube import Product
from toprope.precision.footprint import Place
from toprope.precision.semantics import SUMS
from toprope.precision.shadow import Replay, Step, relative_error, smallest_normal

# A worst element below this many ulps of the output's type is no finding: the bar is higher where arithmetic and output are both float.
CLEAN_ULPS = {"float16": 1.5, "bfloat16": 1.5}
CLEAN_ULPS_WIDE, CLEAN_ULPS_NEAR_ZERO = 16.0, 64.0  # the latter if the tensor as a whole is within an ulp
AMPLIFIED = 16.0  # an error that grows by more than this in one step was made harmful by that step
LONGEST_CHAIN = 20_000
ACCUMULATING = {
    "DataCopy",
    "DataCopyPad",
    "Fixpipe",
    "Mmad",
    "Add",
    "Adds",
    "Axpy",
    "MulAddDst",
    "FusedMulAdd",
    "Sub",
    "AddRelu",
} | set(SUMS)

# cause -> (what it means, the change to try)
CAUSES: dict[str, tuple[str, str]] = {
    "clean": ("every output is as good as its number format", "nothing to change"),
    "final-rounding": (
        "the error is that of storing the result in this format",
        "nothing to gain inside the kernel; a wider output type is the only change that helps",
    ),
    "float-sum": (
        "the error is that of the cube's own float sums, large only beside results whose terms cancel",
        "nothing to gain inside the kernel: judge a product against the size of its terms (--standard catlass in `toprope test`)",
    ),
    "hf32": (
        "the cube rounds the float operands of this product to 11 bits of mantissa (HF32)",
        "SetHF32Mode(false) before this Mmad, or split each operand into a high and a low part and add three products",
    ),
    "accumulation": (
        "many additions, each rounded to {element}: the errors add up",
        "accumulate in float (Cast to float first, or MulAddDst/Axpy with a float destination) and Cast once at the end",
    ),
    "cancellation": (
        "two nearly equal numbers are subtracted: the digits that were right cancel, the rounding errors stay",
        "rearrange so that the difference is formed before rounding (e.g. centre the data first), or keep both operands in float "
        "up to this line",
    ),
    "early-cast": (
        "a value is narrowed to {element} and then used for more arithmetic",
        "move this Cast behind the arithmetic that follows; narrow once, just before the copy to GM",
    ),
    "exp-overflow": (
        "the argument of exp is too large for {element}: the result is infinite",
        "subtract the maximum of the row before Exp (softmax(x) = softmax(x - max))",
    ),
    "exp-amplifies": (
        "exp turns the absolute error of its argument into a relative error of the result: the larger |x|, the worse",
        "compute the argument in float or as a sum of a high and a low part: exp(hi + lo) = exp(hi) * (1 + lo)",
    ),
    "log-near-one": (
        "near 1 the logarithm turns a tiny error of its argument into a large relative one",
        "compute x - 1 first and use a series for log(1 + d)",
    ),
    "overflow": (
        "the result is beyond the range of {element}",
        "scale the operands, or compute this line in float",
    ),
    "division-by-small": (
        "the divisor is so small that the quotient leaves the range of {element}, or the divisor itself has lost its digits",
        "add an epsilon to the divisor, or compute it in float",
    ),
    "underflow": (
        "the result is below the smallest normal number of {element} and loses its digits",
        "scale the operands up, or compute this line in float",
    ),
    "rounding-mode": (
        "this Cast rounds in one direction ({mode}), which costs up to twice the error of rounding to nearest and shifts the mean",
        "use RoundMode::CAST_RINT (or CAST_NONE where that is its default)",
    ),
    "rounding": (
        "an intermediate result is rounded to {element}",
        "compute this line and those behind it in float, and Cast once at the end",
    ),
    "no-float-output": (
        "the outputs are integers: there is no rounded number to follow back",
        "look at the table of lines",
    ),
    "unknown": ("no single line stands out", "look at the table of lines"),
}


@dataclass(frozen=True)
class Link:
    """One step of the chain from the worst element back: what was stored, what exact arithmetic gives, and the step's own part."""

    step: Step
    lane: int
    stored: float
    exact: float
    own: float  # stored minus the float64 result of the same inputs
    computed: float  # that result
    incoming: float  # absolute error of the input that was followed
    carried: float  # what all the inputs' errors do to the result

    @property
    def relative(self) -> float:
        """Relative error of the output."""
        return float(relative_error(np.array([self.stored]), np.array([self.exact]), self.step.element)[0])


@dataclass(frozen=True)
class Output:
    """An output of the kernel against its shadow."""

    name: str
    element: str
    index: tuple[int, ...]
    stored: float
    exact: float
    worst_relative: float
    norm_relative: float
    worst_ulps: float
    specials: int


@dataclass
class Diagnosis:
    """`born` and `grown` are links of `chain` (newest first); `shares` says how much of the worst element's error each line made."""

    cause: str
    outputs: list[Output]
    chain: list[Link] = field(default_factory=list)
    born: Link | None = None
    grown: Link | None = None
    growth: float = 1.0
    times: int = 1  # how often the line of `born` added to the error
    shares: dict[int, float] = field(default_factory=dict)  # site -> share

    @property
    def clean(self) -> bool:
        """Whether the outputs are as good as their format."""
        return self.cause in ("clean", "final-rounding", "float-sum", "no-float-output")


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
        return _name_cause(Diagnosis("unknown", outputs, chain), worst)


def ulp(x: float, element: str) -> float:
    """The distance between neighbours of |x| in a float type."""
    digits = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}.get(element)
    if digits is None:
        return 1.0
    size = max(abs(x), smallest_normal(element))
    return float(2.0 ** (np.floor(np.log2(size)) - digits)) if np.isfinite(size) else np.inf


def largest(element: str) -> float:
    """The largest finite number of a type."""
    return {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}.get(
        element, np.inf
    )


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


# ---- naming the cause ----------------------------------------------------------------------------------------------------


def _name_cause(d: Diagnosis, worst: Output) -> Diagnosis:
    if not d.chain:
        return d
    special = next((link for link in reversed(d.chain) if not np.isfinite(link.own)), None)
    if special is not None:
        d.born, d.shares = special, {special.step.site: 1.0}
        d.cause = _special_cause(special)
        return d
    # What each link's own rounding error has become at the output: own * product of (effect on the result / error of the input).
    factors = np.cumprod([1.0] + [link.carried / link.incoming if link.incoming else 1.0 for link in d.chain[:-1]])
    parts = np.abs([link.own for link in d.chain]) * factors
    total = float(parts.sum())
    if total == 0 or not np.isfinite(total):
        return d
    by_line: dict[int, float] = defaultdict(float)
    for link, part in zip(d.chain, parts, strict=True):
        by_line[link.step.site] += float(part) / total
    d.shares = dict(sorted(by_line.items(), key=lambda item: -item[1]))
    site = next(iter(d.shares))
    mine = [k for k, link in enumerate(d.chain) if link.step.site == site]
    k = max(mine, key=lambda k: float(parts[k]))
    d.born, d.times = d.chain[k], sum(1 for k in mine if parts[k] > 1e-3 * total)
    _find_growth(d, k)
    d.cause = _rounding_cause(d, k, worst)
    return d


def _find_growth(d: Diagnosis, born: int) -> None:
    """The later link that makes the relative error grow most, if any does."""
    for k in range(born - 1, -1, -1):
        before = d.chain[k].incoming
        source = d.chain[k + 1]
        relative_in = before / max(abs(source.stored), smallest_normal(source.step.element))
        relative_out = d.chain[k].carried / max(abs(d.chain[k].computed), smallest_normal(d.chain[k].step.element))
        growth = relative_out / relative_in if relative_in else 1.0
        if growth > max(d.growth, 4.0):
            d.grown, d.growth = d.chain[k], growth


def _special_cause(link: Link) -> str:
    op = link.step.op
    if abs(link.computed) > largest(link.step.element) or not np.isfinite(link.stored):
        if op == "Exp":
            return "exp-overflow"
        return "division-by-small" if op in ("Div", "Reciprocal", "Rsqrt") else "overflow"
    return "overflow"


def _rounding_cause(d: Diagnosis, k: int, worst: Output) -> str:
    born = d.chain[k]
    step = born.step
    own_ulps = abs(born.own) / ulp(born.computed, step.element)
    later = [link for link in d.chain[:k] if link.step.site != step.site]
    narrow = step.element in ("float16", "bfloat16")
    if abs(born.computed) > largest(step.element):
        return _special_cause(born)
    if 0 < abs(born.computed) < smallest_normal(step.element):
        return "underflow"
    if step.op == "Mmad" and step.mode == "HF32":
        return "hf32"
    if step.op == "Mmad" and not narrow and (d.grown is None or d.grown.step.op == "Mmad"):
        return "float-sum"
    if step.op == "Cast" and own_ulps > 0.51:
        return "rounding-mode"
    if step.op in ACCUMULATING and (
        d.times >= 4 or (step.op in SUMS and (narrow or own_ulps > 1)) or (step.op == "Mmad" and narrow)
    ):
        return "accumulation"
    if step.op in ("Cast", "Fixpipe", "DataCopy") and narrow and later:
        return "early-cast"
    if (d.grown is not None and d.growth > AMPLIFIED) or (d.grown is not None and d.grown.step.op == "Exp"):
        name = d.grown.step.op
        return {"Exp": "exp-amplifies", "Ln": "log-near-one"}.get(
            name, "division-by-small" if name in ("Div", "Reciprocal") else "cancellation"
        )
    if not later:
        return "final-rounding" if worst.worst_ulps <= 1.01 else "rounding"
    return "rounding"
