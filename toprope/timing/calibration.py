"""A few constants of a chip solved from a user's own runs: what `toprope calibrate` does with the numbers it read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toprope.soc import Soc
from toprope.timing.least_squares import LeastSquares
from toprope.timing.prediction import predict
from toprope.trace import Array, Trace

TIME_SPREAD = 0.05  # of the logarithm of a measured time


@dataclass(frozen=True)
class Unknown:
    """A constant that a user's runs may correct: numbers of the chip file that change by one factor, and by how much (log)."""

    name: str
    paths: tuple[str, ...]
    spread: float


UNKNOWNS = (
    Unknown("launch", ("launch.fixed_us",), 1.0),
    Unknown("until the first instruction", ("prologue.cycles", "prologue.cold_cycles"), 0.7),
    Unknown("HBM read rate", ("hbm.read_tbps",), 0.3),
    Unknown("L2 read rate", ("l2.read_tbps",), 0.3),
    Unknown(
        "sending an instruction whose operands come at run time",
        ("costs.issue.runtime_cycles", "costs.issue.runtime_copy_cycles"),
        0.5,
    ),
    Unknown(
        "a scalar access to UB",
        ("costs.scalar.rows.scalar_load.fixed", "costs.scalar.rows.scalar_store.fixed"),
        0.3,
    ),
)


@dataclass(frozen=True)
class Measured:
    """A kernel's trace and what the device took for it, in microseconds; `l2` as in `predict`."""

    name: str
    trace: Trace
    us: float
    l2: str


@dataclass(frozen=True)
class Calibration:
    """The corrected chip, the factor of each constant, and the errors (predicted over measured, minus one) before and after."""

    soc: Soc
    factors: Mapping[str, float]
    before: Mapping[str, float]
    after: Mapping[str, float]


def calibrate(soc: Soc, measured: Sequence[Measured], rounds: int = 8) -> Calibration:
    """Correct the chip from measurements; constants that these say nothing about stay. Raises ValueError without any."""
    if not measured:
        raise ValueError("nothing was measured")

    def chip(logs: Array) -> Soc:
        return soc.replaced(
            {
                path: soc.number(path) * float(np.exp(log))
                for u, log in zip(UNKNOWNS, logs, strict=True)
                for path in u.paths
            }
        )

    def error(one: Measured, of: Soc) -> float:
        return predict(one.trace, of, l2=one.l2).microseconds / one.us - 1.0

    def residual(row: int, logs: Array) -> Array:
        return np.array([np.log1p(error(measured[row], chip(logs))) / TIME_SPREAD])

    spreads = np.array([u.spread for u in UNKNOWNS])
    squares = LeastSquares(residual, np.ones((len(measured), len(UNKNOWNS)), bool), np.zeros(len(UNKNOWNS)), spreads)
    logs, _, _ = squares.solve(np.zeros(len(UNKNOWNS)), rounds)
    fitted = chip(logs)
    return Calibration(
        soc=fitted,
        factors={u.name: float(np.exp(log)) for u, log in zip(UNKNOWNS, logs, strict=True)},
        before={m.name: error(m, soc) for m in measured},
        after={m.name: error(m, fitted) for m in measured},
    )


def chip_file(base: Soc, found: Calibration, title: str, source: str) -> str:
    """The corrected chip as a chip file (TOML) that inherits from the one it started from; each changed group says where it comes from."""
    lines = [
        f"# {title}: {base.name}, corrected by `toprope calibrate`. What is not stated here is taken over from {base.name}."
    ]
    lines += [f'title = "{title}"', f'arch = "{base.table["arch"]}"', f'inherits = "{base.name}"']
    for unknown in UNKNOWNS:
        if abs(found.factors[unknown.name] - 1) < 1e-3:
            continue
        groups: dict[str, list[str]] = {}
        for path in unknown.paths:
            group, _, name = path.partition(".rows.")
            groups.setdefault(group if name else path.rpartition(".")[0], []).append(path)
        for group, paths in groups.items():
            lines += ["", *_group(found.soc, group, paths, source)]
    return "\n".join(lines) + "\n"


def _group(soc: Soc, group: str, paths: Sequence[str], source: str) -> list[str]:
    """A group restated: a group stated anew replaces the inherited one, rows of costs only those of the same name."""
    node: Any = soc.table
    for part in group.split("."):
        node = node[part]
    said: Callable[[Any], str] = lambda value: f"{value:.6g}" if isinstance(value, float) else str(value)  # noqa: E731
    if "rows" in node:
        rows = [path.partition(".rows.")[2].split(".")[0] for path in paths]
        own = [
            f"rows.{row} = {{ " + ", ".join(f"{k} = {said(v)}" for k, v in node["rows"][row].items()) + " }"
            for row in rows
        ]
        head = f"[{group}_calibrated]"
    else:
        own = [f"{k} = {said(v)}" for k, v in node.items() if isinstance(v, int | float)]
        head = f"[{group}]"
    return [head, 'kind = "measured"', f'source = "{source}"', *own]
