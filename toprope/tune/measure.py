"""What is kept of one prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from toprope.kernel import Run
from toprope.soc import Soc
from toprope.timing import predict
from toprope.timing.confidence import band
from toprope.trace import PIPES


@dataclass(frozen=True)
class Measure:
    """A point's predicted microseconds with their 80 % band, or the reason why it has none.

    `busy` share of each pipe, 0 to 1; `buffers` share of each on-chip memory that buffers take on a core, 0 to 1.
    """

    us: float | None = None
    reason: str = ""
    too_large: bool = False  # the reason: buffers do not fit; then no larger point fits either
    low_us: float = 0.0
    high_us: float = 0.0
    busy: Mapping[str, float] = field(default_factory=dict)
    buffers: Mapping[str, float] = field(default_factory=dict)

    @property
    def bound(self) -> str:
        """The busiest pipe."""
        return max(self.busy, key=lambda pipe: self.busy[pipe], default="")

    def as_row(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def measured(run: Run, chip: Soc) -> Measure:
    """What a run without arithmetic says, on its chip or on the same chip in another state."""
    errors = [f for f in run.findings if f.severity == "error"]
    if run.trace.signal or errors:
        return Measure(reason=f"{errors[0].code}: {errors[0].message}" if errors else "the kernel did not end")
    timeline = run.timeline if chip is run.soc else predict(run.trace, chip, sync=run.sync)
    around = band(run.trace, timeline.microseconds, str(chip.table["arch"]))
    taken: dict[str, int] = {}
    for buffer in run.trace.buffers:
        if buffer.core == 0 or run.trace.cores[buffer.core].block == 0:
            taken[buffer.space] = max(taken.get(buffer.space, 0), buffer.address + buffer.bytes)
    return Measure(
        us=round(timeline.microseconds, 4),
        low_us=round(around.low_us, 4),
        high_us=round(around.high_us, 4),
        busy={p: round(b, 4) for p in PIPES if (b := timeline.busy(p)) > 0},
        buffers={s: round(n / chip.bytes_of(s), 4) for s, n in sorted(taken.items()) if chip.bytes_of(s)},
    )
