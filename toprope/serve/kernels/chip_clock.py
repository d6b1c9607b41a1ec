"""The predicted time that a model's steps would take on a chip, by operator."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class ChipClock:
    """Runs with each launch. `left_out` names what a step does besides and no operator is timed for; `codes` are error findings."""

    chip: str
    executes: bool  # the operators' own results are used; False: only their times are
    left_out: tuple[str, ...] = ()
    now_s: float = 0.0
    launches: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)  # by operator
    codes: Counter[str] = field(default_factory=Counter)
    checked: int = 0  # launches that went through every check

    def restart(self) -> None:
        """Forget all launches so far; findings stay."""
        self.now_s = 0.0
        self.launches.clear()
        self.seconds.clear()

    def since(self, before: dict[str, float]) -> dict[str, float]:
        """By operator, what has been added to `before`, a copy of `seconds`."""
        return {name: more for name, now in self.seconds.items() if (more := now - before.get(name, 0.0)) > 0}

    def add(self, operator: str, microseconds: float, launches: int = 1) -> None:
        """An operator was launched, and took `microseconds` in all."""
        self.now_s += microseconds * 1e-6
        self.seconds[operator] = self.seconds.get(operator, 0.0) + microseconds * 1e-6
        self.launches[operator] += launches
