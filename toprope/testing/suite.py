"""A Suite: cases of one operator and the reference that judges them, whatever file format they came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from toprope.testing.cases import Case, Input
from toprope.testing.elements import Array

Reference: TypeAlias = Callable[[Case, Sequence[Input]], list[Array]]
Preparation: TypeAlias = Callable[[Case, Sequence[Input]], Sequence[Input]]


@dataclass(frozen=True)
class Suite:
    """Cases of one operator.

    format     where they came from: toml, ttk, testspec, cann-bench, msopst, scripts, operator
    reference  computes the golden outputs of a case from its inputs; None where the files bring none
    competitor the same at the operator's own precision, for ratio standards
    prepare    replaces generated inputs by ones the operator accepts (valid boxes, unique indices ...)
    problems   rows or files that could not be read, as printable complaints
    settings   how to run the operator under test, from a case file: run, blocks, soc, arguments
    """

    name: str
    path: Path
    format: str
    cases: Sequence[Case]
    reference: Reference | None = None
    competitor: Reference | None = None
    prepare: Preparation | None = None
    problems: Sequence[str] = field(default_factory=tuple)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def inputs(self, case: Case) -> Sequence[Input]:
        """The arrays of `case`, prepared where the suite asks for it."""
        arrays = case.arrays()
        return self.prepare(case, arrays) if self.prepare else arrays
