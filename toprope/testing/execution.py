"""Run one case: inputs, golden, the operator, the verdict; and the Result that reports, stores and other machines share."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from toprope.testing.cases import Case, Input, Output
from toprope.testing.compare import Verdict, compare, error_map, unwritten
from toprope.testing.determinism import examine
from toprope.testing.elements import Array
from toprope.testing.errors import TestingError
from toprope.testing.golden import wrapped
from toprope.testing.suite import Suite

PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"


@dataclass(frozen=True)
class Outcome:
    """What an operator gave for one case: its outputs, and where a software NPU ran it, its time and its mistakes.

    predicted_us     modelled time on the chip in microseconds
    predicted_cycles the same in cycles of the chip's core clock
    findings         complaints as text, each starting with its code; any of severity error fails the case
    """

    outputs: Sequence[Array]
    predicted_us: float | None = None
    predicted_cycles: float | None = None
    findings: Sequence[str] = ()
    errors: int = 0


class Runner(Protocol):
    """Anything that can run a case: a Python function, a kernel on the software NPU, a program, another machine.

    `case.outputs` holds element type and shape of every output, filled in from golden where the case left them open.
    """

    def __call__(self, case: Case, inputs: Sequence[Input]) -> Outcome: ...


@dataclass
class Result:
    """The result of one case as plain data (JSON-ready but for infinities)."""

    suite: str
    case: str
    kind: str
    status: str
    standard: str = ""
    message: str = ""
    explanation: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    histogram: dict[str, int] = field(default_factory=dict)
    heat: list[list[float]] = field(default_factory=list)
    predicted_us: float | None = None
    predicted_cycles: float | None = None
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    inputs: str = ""
    determinism: dict[str, str] = field(
        default_factory=dict
    )  # repeat, block order, batch -> identical, differs, or why not tried

    @property
    def key(self) -> str:
        """What identifies the case across runs."""
        return f"{self.suite}::{self.case}"

    def as_dict(self) -> dict[str, Any]:
        """All fields; infinite and NaN figures become text, which JSON can hold."""
        data = asdict(self)
        data["metrics"] = {k: _plain(v) for k, v in self.metrics.items()}
        data["heat"] = [[_plain(v) for v in row] for row in self.heat]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """The inverse of `as_dict`."""
        result = cls(**{k: v for k, v in data.items() if k in cls.__dataclass_fields__})
        result.metrics = {k: float(v) for k, v in result.metrics.items()}
        result.heat = [[float(v) for v in row] for row in result.heat]
        return result


def execute(suite: Suite, case: Case, runner: Runner, *, standard: str = "", determinism: bool = False) -> Result:
    """Run `case` and judge it. Never raises for a failing or crashing operator: that is what the Result says.

    standard     precedence: this argument, the case's own, then "mixed" (which is bit-exact for whole numbers)
    determinism  run it again, in other orders of blocks, and in parts of its batch: a case whose bits change fails
    """
    start = time.perf_counter()
    result = Result(suite.name, case.name, case.kind, ERROR, inputs=describe(case))
    try:
        _run(suite, case, runner, standard or case.standard or "mixed", result)
        if determinism and result.status in (PASSED, SKIPPED):
            _examine(suite, case, runner, result)
    except TestingError as error:
        result.message = str(error)
    except Exception as error:
        result.message = f"{type(error).__name__}: {error}"
        result.explanation = "".join(traceback.format_exception(error)[-3:])
    result.seconds = time.perf_counter() - start
    return result


def _run(suite: Suite, case: Case, runner: Runner, standard: str, result: Result) -> None:
    inputs = suite.inputs(case)
    golden = suite.reference(case, copied(inputs)) if suite.reference else None
    if golden is not None:
        case = completed(case, golden)
    outcome = runner(case, inputs)
    result.predicted_us, result.predicted_cycles = outcome.predicted_us, outcome.predicted_cycles
    result.findings = list(outcome.findings)
    result.standard = standard
    if golden is None:
        result.status = FAILED if outcome.errors else SKIPPED
        result.message = "no golden: the operator ran, nothing was compared"
        return
    if len(outcome.outputs) != len(golden):
        result.status = FAILED
        result.message = f"the operator gives {len(outcome.outputs)} outputs, golden {len(golden)}"
        return
    rivals = suite.competitor(case, copied(inputs)) if suite.competitor else [None] * len(golden)
    verdicts = [
        judged(actual, expected, standard, rival, case.limits, inputs)
        for actual, expected, rival in zip(outcome.outputs, golden, rivals, strict=True)
    ]
    _report(result, verdicts, outcome, golden)


def _examine(suite: Suite, case: Case, runner: Runner, result: Result) -> None:
    inputs = suite.inputs(case)

    def resized(arrays: Sequence[Any]) -> Case:
        if suite.reference is None:
            return case
        return completed(case, suite.reference(case, copied(arrays)))

    def run(*arrays: Any) -> Sequence[Array]:
        return runner(resized(arrays), copied(arrays)).outputs

    def golden(*arrays: Any) -> Sequence[Array]:
        assert suite.reference is not None
        return suite.reference(case, copied(arrays))

    found, untried = examine(run, inputs, None if suite.reference is None else golden)
    result.determinism = {d.kind: "identical" if d.passed else "differs" for d in found} | untried
    wrong = [d for d in found if not d.passed]
    if wrong:
        result.status = FAILED
        result.message = f"not deterministic: {wrong[0].difference}"
        result.explanation = "\n".join(map(str, wrong))


def judged(
    actual: Array,
    expected: Array,
    standard: str,
    rival: Array | None,
    limits: Mapping[str, float],
    inputs: Sequence[Any],
) -> Verdict:
    """The verdict on one output of a case, `rival` being a competitor's, `inputs` what the operator was given."""
    chosen: dict[str, Any] = {"competitor": rival, **limits}
    verdict = compare(actual, wrapped(expected, actual.dtype.name), standard, **chosen)
    return replace(verdict, unwritten=unwritten(actual, inputs))


def _report(result: Result, verdicts: Sequence[Verdict], outcome: Outcome, golden: Sequence[Array]) -> None:
    """Fill in the verdict of the worst output."""
    order = sorted(range(len(verdicts)), key=lambda i: (verdicts[i].passed, -verdicts[i].metrics.get("mare", math.inf)))
    if not order:
        result.status, result.message = PASSED, "no outputs"
        return
    worst = order[0]
    verdict = verdicts[worst]
    result.metrics, result.histogram = dict(verdict.metrics), dict(verdict.histogram)
    result.message = (f"output {worst}: " if len(verdicts) > 1 else "") + verdict.summary()
    result.status = PASSED if verdict.passed and not outcome.errors else FAILED
    if outcome.errors:
        result.message = f"{outcome.errors} findings of severity error; {result.message}"
    if not verdict.passed:
        result.explanation = str(verdict)
        if not verdict.complaint:
            result.heat = error_map(outcome.outputs[worst], golden[worst]).tolist()


def describe(case: Case) -> str:
    """The inputs of a case in one line, such as "x float16[8, 128] uniform, axis=1"."""
    parts = [f"{t.name} {t.dtype}{list(t.shape)} {t.fill.kind}" for t in case.tensors[:6]]
    if len(case.tensors) > 6:
        parts.append(f"and {len(case.tensors) - 6} more")
    return ", ".join(parts + [f"{k}={v!r}" for k, v in case.attrs.items()])


def completed(case: Case, golden: Sequence[Array]) -> Case:
    """The case with element type and shape of every output, taken from golden and the first input where the case leaves them open."""
    first = case.tensors[0].dtype if case.tensors else ""
    result = []
    for number, array in enumerate(golden):
        known = case.outputs[number] if number < len(case.outputs) else Output()
        same_kind = array.dtype.kind in "fc" or (array.dtype.kind in "iu" and "int" in first)
        dtype = known.dtype or (first if first and same_kind else array.dtype.name)
        result.append(Output(dtype, tuple(array.shape), known.name or (f"out{number}" if len(golden) > 1 else "out")))
    return replace(case, outputs=tuple(result))


def copied(inputs: Sequence[Input]) -> list[Input]:
    """Inputs that an operator may write into."""
    return [[np.array(v) for v in i] if isinstance(i, list) else None if i is None else np.array(i) for i in inputs]


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
