"""What is known of an error, the names of its causes, and which of them it was."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from toprope.precision.semantics import SUMS
from toprope.precision.shadow import Step, relative_error, smallest_normal

AMPLIFIED = 16.0  # an error that grows by more than this in one step was made harmful by that step
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


def name_cause(d: Diagnosis, worst: Output) -> Diagnosis:
    """The diagnosis with the line where the error was born, each line's share of it, and the cause."""
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
