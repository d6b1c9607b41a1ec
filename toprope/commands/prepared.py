"""A launch with everything that judges it: what every verb that runs something works on, however the user named it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from toprope.errors import BadArgument, KernelEnded, TopropeError
from toprope.inputs import naming
from toprope.kernel import Call, Run
from toprope.launch import LaunchFile
from toprope.testing.compare import Verdict
from toprope.trace import Array

References: TypeAlias = Callable[[], dict[str, Array]]
Judge: TypeAlias = Callable[[str, Array, Array], Verdict]


@dataclass
class Prepared:
    """A launch that is ready, and what judges its outputs.

    golden   called before the run; what it returns gives the references by output, from the inputs as they were
    judge    the verdict on one output: its name, what the kernel wrote, the reference
    outputs  arrays by the names that references use
    source   the file where the arguments come from, so that complaints name it
    launch   the description of the arguments, where a kernel is launched by one
    """

    call: Call
    options: argparse.Namespace
    judge: Judge
    golden: Callable[[], References] | None = None
    outputs: Mapping[str, Array] | None = None
    source: Path | None = None
    launch: LaunchFile | None = None

    @property
    def arrays(self) -> dict[str, Array]:
        """The arguments that are arrays, by the kernel's names."""
        return {n: v for n, v in self.call.arguments.items() if isinstance(v, np.ndarray)}

    def output(self, name: str) -> Array:
        """The array that a reference of this name is for."""
        found: Array = np.asarray((self.outputs or self.call.arguments)[name])
        return found

    def parameter(self, name: str) -> str:
        """The kernel's name for an output."""
        return (self.call.parameter(self.outputs[name]) if self.outputs else None) or name

    def run(self) -> tuple[Run, References]:
        """Launch. The second value computes the references from the inputs as they were before the run."""
        references: References = self.golden() if self.golden else dict
        with naming(self.source, BadArgument):
            return self._run(), references

    def _run(self) -> Run:
        options = self.options
        return self.call(
            time_limit_s=options.time_limit,
            time_only=getattr(options, "time_only", False),
            sync=options.sync,
            explore=getattr(options, "explore", False),
            capture_limit_bytes=getattr(options, "capture_limit_bytes", 0),
            in_process=getattr(options, "in_process", False),
            quiet=bool(options.json) or getattr(options, "format", "text") != "text",
        )


def judged(prepared: Prepared, references: References) -> tuple[dict[str, Verdict], TopropeError | None]:
    """A verdict per output that has a reference, and why there is none.

    A reference that cannot be computed must not cost the user the report: the caller shows it first, then raises the complaint.
    """
    try:
        return {n: prepared.judge(n, prepared.output(n), gold) for n, gold in references().items()}, None
    except TopropeError as error:
        return {}, error


def ended_early(run: Run) -> KernelEnded:
    """What to raise where a run that crashed or never ended leaves nothing to show."""
    codes = ("kernel-crash", "kernel-exit", "kernel-time-limit", "kernel-trace-limit", "division-by-zero")
    said = next((f for f in run.findings if f.code in codes), None)
    if said is None:
        return KernelEnded("the kernel ended early", cure="`toprope check` with the same arguments says where")
    where = f" ({said.places[0].file}:{said.places[0].line})" if said.places else ""
    return KernelEnded(said.message + where, cure=said.cure, code=said.code)


def unchanged(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of arguments, which a kernel is about to write into."""
    return {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
