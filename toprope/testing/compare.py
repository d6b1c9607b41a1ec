"""compare(actual, golden) -> Verdict: does a result meet a precision standard, by how much, and where does it not."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from toprope.testing.elements import Array, as_array, dtype_of
from toprope.testing.errors import StandardError
from toprope.testing.metrics import ElementTest, Measures, bad_elements, measure, relative_errors
from toprope.testing.standards import Bound, Rules, readable, standard

SHOWN_ELEMENTS = 10


@dataclass(frozen=True)
class Check:
    """One requirement of a standard and how it came out; alternatives are tried in order, one that holds is enough."""

    alternatives: tuple[Bound, ...]
    values: tuple[float, ...]

    @property
    def passed(self) -> bool:
        """Whether any alternative holds."""
        return any(b.holds(v) for b, v in zip(self.alternatives, self.values, strict=True))

    def __str__(self) -> str:
        measured = ", ".join(f"{b.metric} = {readable(v)}" for b, v in zip(self.alternatives, self.values, strict=True))
        return f"{' or '.join(map(str, self.alternatives))}: {measured}"


@dataclass(frozen=True)
class BadElement:
    """One element outside its limits."""

    index: tuple[int, ...]
    expected: float
    actual: float
    relative: float


@dataclass(frozen=True)
class Verdict:
    """The outcome of one comparison.

    metrics  every figure by name (see Measures.metrics), ratios against a competitor included
    checks   the standard's requirements with the values measured
    bad      the first elements outside their limits; empty when passed
    histogram relative error -> number of elements: "exact", "2^-24", ...
    """

    standard: str
    dtype: str
    shape: tuple[int, ...]
    source: str
    metrics: Mapping[str, float]
    checks: tuple[Check, ...]
    bad: tuple[BadElement, ...] = ()
    histogram: Mapping[str, int] = field(default_factory=dict)
    complaint: str = ""
    unwritten: int = 0  # elements that still hold what the output was filled with before the run

    @property
    def passed(self) -> bool:
        """Whether shapes agree and every requirement holds."""
        return not self.complaint and all(check.passed for check in self.checks)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        target = io.StringIO()
        Console(file=target, width=110, color_system=None, highlight=False).print(self)
        return target.getvalue().rstrip()

    def summary(self) -> str:
        """One line: the verdict, the standard and the figures that decided."""
        if self.complaint:
            return f"failed: {self.complaint}"
        deciding = [check for check in self.checks if not check.passed] or list(self.checks)
        told = f"{'passed' if self.passed else 'failed'} {self.standard}: {'; '.join(map(str, deciding))}"
        return f"{self.never_written()}; {told}" if self.unwritten and not self.passed else told

    def never_written(self) -> str:
        """How many elements the kernel left as they were, as a clause."""
        return f"{self.unwritten:,} of {math.prod(self.shape):,} elements were never written"

    def __rich__(self) -> RenderableType:
        return Group(*self._parts())

    def _parts(self) -> Iterator[RenderableType]:
        colour = "green" if self.passed else "red"
        word = "passed" if self.passed else "FAILED"
        shape = "x".join(map(str, self.shape)) or "scalar"
        yield Text(f"{word}  standard {self.standard}, {self.dtype} [{shape}]", style=f"bold {colour}")
        if self.complaint:
            yield Text(f"  {self.complaint}")
            return
        for check in self.checks:
            yield Text(f"  {'ok ' if check.passed else 'BAD'} {check}", style="" if check.passed else "red")
        yield self._figures()
        if self.bad:
            yield self._elements()
        if not self.passed:
            yield self._bars()
        yield Text(f"  limits from: {self.source}", style="dim")

    def _figures(self) -> Table:
        table = Table(show_header=False, box=None, padding=(0, 2))
        names = ["max_abs", "mean_abs", "rmse", "mare", "mere", "max_ulp", "mean_ulp", "snr_db", "psnr_db", "cosine"]
        names += ["unequal", "special_mismatches"]
        cells = [f"{name} {readable(self.metrics[name])}" for name in names]
        for start in range(0, len(cells), 4):
            table.add_row(*cells[start : start + 4])
        return table

    def _elements(self) -> Table:
        table = Table(title=f"first {len(self.bad)} bad elements", title_justify="left", box=None, padding=(0, 2))
        for title in ("index", "expected", "actual", "relative error"):
            table.add_column(title, justify="right")
        for element in self.bad:
            index = ", ".join(map(str, element.index))
            table.add_row(f"[{index}]", f"{element.expected:.9g}", f"{element.actual:.9g}", f"{element.relative:.3g}")
        return table

    def _bars(self) -> Table:
        table = Table(title="relative error", title_justify="left", show_header=False, box=None, padding=(0, 1))
        top = max(self.histogram.values(), default=1)
        for label, count in self.histogram.items():
            table.add_row(label, "#" * max(1, round(40 * count / top)), str(count))
        return table


def compare(
    actual: Any,
    golden: Any,
    standard: str = "mixed",  # the name of the function is hidden here on purpose: callers write standard="mixed"
    *,
    competitor: Any = None,
    dtype: str | None = None,
    **limits: float,
) -> Verdict:
    """Judge `actual` against `golden` by a precision standard.

    actual      result of the operator: array, torch tensor or scalar; its dtype chooses the limits and the ULP grid
    golden      reference of the same shape, best in float64 or exact integers
    standard    name from `standards()`; names used by test assets ("mix_tolerance", "binary_equal") work too
    competitor  the same computation by another implementation at the same dtype; the ratio standards demand it
    dtype       element type of the operator's output where `actual` was widened on the way
    limits      replace a limit of the standard's element tests: rtol=..., atol=..., ulp=...

    Unequal shapes give a failed verdict; an unknown standard or an uncovered dtype raises StandardError.
    """
    a, g = as_array(actual), as_array(golden)
    if dtype is not None:
        a = a.astype(dtype_of(dtype))
    rules = _rules(standard, a.dtype, limits)
    if a.shape != g.shape:
        complaint = f"result has shape {list(a.shape)}, golden has {list(g.shape)}"
        return Verdict(rules.standard, a.dtype.name, a.shape, rules.source, {}, (), complaint=complaint)
    measures = measure(a, g, rules.tests, rules.domain)
    metrics = measures.metrics()
    if rules.needs_competitor:
        metrics |= _ratios(rules, a, g, metrics, competitor)
    checks = tuple(Check(line, tuple(metrics[bound.metric] for bound in line)) for line in rules.require)
    failed = [check for check in checks if not check.passed]
    bad = _first_bad(a, g, _culprit(rules, failed)) if failed else ()
    return Verdict(rules.standard, a.dtype.name, a.shape, rules.source, metrics, checks, bad, _ordered(measures))


def error_map(actual: Any, golden: Any, rows: int = 16, columns: int = 64) -> NDArray[np.float64]:
    """Where in the tensor the error sits: the largest relative error per cell of a grid over the flattened tensor.

    The last axis runs along the columns, all others along the rows; at most `rows` x `columns` cells, infinite where a
    NaN or infinity is misplaced.
    """
    a, g = as_array(actual), as_array(golden)
    if a.size == 0:
        return np.zeros((0, 0))
    width = a.shape[-1] if a.ndim else 1
    if a.ndim == 1 and width > columns:
        width = max(columns, math.isqrt(width))
    errors = np.nan_to_num(relative_errors(a, g), nan=0.0, posinf=np.inf)
    height = -(-errors.size // width)
    padded = np.zeros(height * width)
    padded[: errors.size] = errors[: height * width]
    grid = padded.reshape(height, width)
    by_row = np.maximum.reduceat(grid, _cuts(height, rows), axis=0)
    return np.asarray(np.maximum.reduceat(by_row, _cuts(width, columns), axis=1))


def _cuts(length: int, parts: int) -> list[int]:
    return sorted({length * i // parts for i in range(parts)})


def _rules(name: str, dtype: np.dtype[Any], limits: Mapping[str, float]) -> Rules:
    rules = standard(name).rules(dtype)
    unknown = set(limits) - {"rtol", "atol", "ulp"}
    if unknown:
        raise StandardError(f"no limit called {', '.join(sorted(unknown))}", cure="override rtol, atol or ulp")
    return rules.with_limits(**limits) if limits else rules


def _ratios(rules: Rules, a: Array, g: Array, own: Mapping[str, float], competitor: Any) -> dict[str, float]:
    if competitor is None:
        raise StandardError(
            f"standard {rules.standard!r} compares with a competitor's error, and none was given",
            cure="pass competitor=<the same computation by another implementation at the same dtype>",
        )
    rival = as_array(competitor)
    if rival.shape != a.shape:
        raise StandardError(f"competitor has shape {list(rival.shape)}, the result {list(a.shape)}")
    other = measure(rival.astype(a.dtype), g, rules.tests, rules.domain).metrics()
    result = {}
    for bound in (b for line in rules.require for b in line if b.metric.endswith("_ratio")):
        name = bound.metric.removesuffix("_ratio")
        if name in rules.tests:
            result[bound.metric] = own[name] / max(other[name], 1)
        elif other[name] > 0:
            result[bound.metric] = own[name] / other[name]
        else:
            # A flawless competitor would make any error infinite; a correctly rounded result still deserves a pass.
            result[bound.metric] = 1.0 if own["max_ulp"] <= 1 else math.inf
    return result


def _culprit(rules: Rules, failed: list[Check]) -> ElementTest:
    """The element test that shows best why `failed` failed."""
    for check in failed:
        for bound in check.alternatives:
            test = rules.tests.get(bound.metric.removesuffix("_ratio").removesuffix("_share"))
            if test is not None:
                return test
            if bound.metric == "unequal":
                return ElementTest("bits")
            if bound.metric == "max_abs":
                return ElementTest("band", atol=bound.limit)
            if bound.metric in ("mare", "mere"):
                return ElementTest("relative", rtol=bound.limit)
    return ElementTest("relative", rtol=1e-2)


def _first_bad(a: Array, g: Array, test: ElementTest) -> tuple[BadElement, ...]:
    found = []
    for flat in bad_elements(a, g, test, SHOWN_ELEMENTS):
        if a.dtype.kind == "c":
            flat = flat // 2
        index = tuple(int(i) for i in np.unravel_index(int(flat), a.shape or (1,)))
        x, y = a.reshape(-1)[flat], g.reshape(-1)[flat]
        relative = relative_errors(np.atleast_1d(x), np.atleast_1d(y))
        found.append(BadElement(index if a.shape else (), _scalar(y), _scalar(x), float(relative.max())))
    return tuple(found)


def _scalar(value: Any) -> float:
    return float(abs(value)) if isinstance(value, np.complexfloating) else float(value)


def _ordered(measures: Measures) -> dict[str, int]:
    histogram = measures.error_histogram()
    if measures.special_mismatches:
        histogram["special mismatch"] = measures.special_mismatches
    return histogram


def unwritten(output: Array, inputs: Iterable[Any] = ()) -> int:
    """Elements of a float output that still hold the bits that outputs start with: all ones, a NaN that no arithmetic makes.

    0 where an input holds such elements, too: arithmetic hands the bits of a NaN on, so the kernel may have written them.
    """
    if output.dtype.kind in "iub" or output.dtype.itemsize not in (1, 2, 4, 8):
        return 0
    count = _all_ones(output, output.dtype.itemsize)
    return (
        0 if count and any(_all_ones(a, output.dtype.itemsize) for a in inputs if isinstance(a, np.ndarray)) else count
    )


def _all_ones(array: Array, element_bytes: int) -> int:
    octets = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    bits = octets[: len(octets) // element_bytes * element_bytes].view(f"u{element_bytes}")
    return int(np.sum(bits == np.iinfo(bits.dtype).max))
