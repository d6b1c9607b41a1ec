"""Solves the step model's constants from the published rows marked `fit`, one set for each cluster and software stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from toprope.train.published import TimeRow, time_rows


@dataclass(frozen=True)
class Unknown:
    """A constant: where the search starts and its physical bounds; `shared` by all stacks of a cluster."""

    name: str
    start: float
    low: float
    high: float
    shared: bool = False


# A start weighs as much as an error of 0.4 % for each 100 % away from it: it decides only what the rows leave open.
_START_WEIGHT = 0.004
_PRODUCTS = Unknown("product_efficiency", 0.70, 0.2, 0.95)
UNKNOWNS: Mapping[str, Sequence[Unknown]] = {
    "dgx-a100": (
        _PRODUCTS,
        Unknown("product_intensity", 50.0, 1.0, 2000.0, shared=True),
        Unknown("memory_efficiency", 0.8, 0.5, 0.95, shared=True),
    ),
    "dgx2-v100": (
        _PRODUCTS,
        Unknown("product_intensity", 150.0, 1.0, 2000.0, shared=True),
        Unknown("overlap", 0.3, 0.0, 1.0, shared=True),
        Unknown("near_efficiency", 0.6, 0.05, 1.0, shared=True),
        Unknown("far_efficiency", 0.8, 0.3, 1.0, shared=True),
    ),
    "atlas-a2": (_PRODUCTS, Unknown("waiting", 0.005, 0.0, 0.05)),
}


def solve() -> dict[str, dict[str, dict[str, float]]]:
    """Constants by cluster and stack, rounded to four places."""
    from scipy.optimize import least_squares  # only this program needs it

    found: dict[str, dict[str, dict[str, float]]] = {}
    for cluster, unknowns in UNKNOWNS.items():
        rows = [r for r in time_rows() if r.cluster == cluster and r.fitted]
        stacks = sorted({r.source for r in rows})
        slots = [(u, s) for u in unknowns for s in (("",) if u.shared else stacks)]

        def constants(
            values: Sequence[float], stack: str, slots: list[tuple[Unknown, str]] = slots
        ) -> dict[str, float]:
            return {u.name: float(v) for (u, s), v in zip(slots, values, strict=True) if s in ("", stack)}

        def errors(
            values: Sequence[float], rows: list[TimeRow] = rows, slots: list[tuple[Unknown, str]] = slots
        ) -> list[float]:
            off = [_START_WEIGHT * (v / u.start - 1) for (u, _), v in zip(slots, values, strict=True)]
            return [r.error(constants(values, r.source, slots)) for r in rows] + off

        start = [u.start for u, _ in slots]
        bounds = ([u.low for u, _ in slots], [u.high for u, _ in slots])
        answer = least_squares(errors, start, x_scale=start, bounds=bounds).x
        found[cluster] = {
            stack: {k: round(v, 4) for k, v in constants(answer, stack, slots).items()} for stack in stacks
        }
    return found


def write() -> Path:
    """Solve and store `fitted.toml`."""
    path = Path(str(files("toprope.hccl") / "fitted.toml"))
    lines = ['# Written by: python -m toprope.train fit. Solved from the rows of published.toml with role = "fit".', ""]
    for cluster, stacks in solve().items():
        for stack, constants in stacks.items():
            lines += [f"[{cluster}.{stack}]", *(f"{k} = {v:g}" for k, v in constants.items()), ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
