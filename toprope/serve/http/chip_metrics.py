"""The chip's time beside the server's own: what steps and answers would have taken by the prediction of their operators."""

from __future__ import annotations

from collections.abc import Mapping

import prometheus_client
from prometheus_client import CollectorRegistry, Histogram

from toprope.serve.engine.worker import Ready, StepNews

_SECONDS = tuple(scale * 10.0**power for power in range(-6, 2) for scale in (1, 2.5, 5))


class ChipMetrics:
    """All zero where no chip is asked for. Seconds; without launches, scheduling and sampling, which are not the operators'."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._operators = prometheus_client.Counter(
            "toprope_chip_operator_seconds", "Predicted time on the chip, by operator", ["operator"], registry=registry
        )
        self._step, self._first, self._gap = (
            Histogram(f"toprope_chip_{name}_seconds", text, registry=registry, buckets=_SECONDS)
            for name, text in (
                ("step", "One step, predicted for the chip"),
                ("time_to_first_token", "From arrival to the first token, by the chip's clock"),
                ("time_per_output_token", "Mean of an answer's further tokens, by the chip's clock"),
            )
        )
        self.seconds: dict[str, float] = {}
        self.steps = 0
        self.error_findings: Mapping[str, int] = {}

    def step(self, news: StepNews) -> None:
        """A step of the engine."""
        if not news.chip_s:
            return
        self.steps += 1
        self._step.observe(news.chip_s)
        self.error_findings = news.error_findings
        for operator, seconds in news.operators_s.items():
            self._operators.labels(operator).inc(seconds)
            self.seconds[operator] = self.seconds.get(operator, 0.0) + seconds

    def answered(self, first_s: float | None, gap_s: float | None) -> None:
        """An answer is complete."""
        if first_s is not None:
            self._first.observe(first_s)
        if gap_s is not None:
            self._gap.observe(gap_s)

    def report(self, ready: Ready) -> str:
        """What all steps took, operator by operator, as text."""
        total = sum(self.seconds.values())
        how = "executed on the software NPU" if ready.executes_operators else "timed only; the CPU computed"
        lines = [f"{ready.chip}: {self.steps} steps, {1e3 * total:.3f} ms predicted; operators {how}"]
        lines += [
            f"  {operator:<18}{1e3 * seconds:12.3f} ms {seconds / total:7.1%}"
            for operator, seconds in sorted(self.seconds.items(), key=lambda item: -item[1])
        ]
        lines.append(f"  not in it: {', '.join(ready.left_out)}")
        if ready.executes_operators:
            found = ", ".join(f"{count} x {code}" for code, count in sorted(self.error_findings.items()))
            lines.append(f"  error findings: {found or 'none'}")
        return "\n".join(lines)
