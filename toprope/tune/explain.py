"""Why the winner: what bounds it, which limit is active, why the second lost."""

from __future__ import annotations

from toprope.tune.measure import Measure
from toprope.tune.tuning import Tuned

PIPE_NAMES = {
    "S": "the scalar unit", "V": "the vector unit", "M": "the cube unit", "MTE1": "copies from L1", "MTE2": "copies from GM",
    "MTE3": "copies to GM", "FIX": "copies out of L0C",
}  # fmt: skip
FULL = 0.85
"""Share of a buffer or pipe from which it counts as full."""


def sentences(tuned: Tuned) -> list[str]:
    """The explanation, a sentence each."""
    best = tuned.measure
    out = [_bound(best)]
    full = [f"{space.upper()} {share:.0%}" for space, share in best.buffers.items() if share >= FULL]
    out.append(
        f"on-chip memory: {', '.join(f'{s.upper()} {b:.0%}' for s, b in best.buffers.items()) or 'none'}"
        + (f"; full: {', '.join(full)}" if full else "")
    )
    for parameter in tuned.space.parameters:
        value = tuned.winner[parameter.name]
        if value == parameter.values[-1] and len(parameter.values) > 1:
            out.append(
                f"{parameter.name} = {value} is the largest that was allowed; --parameter {parameter.name}={parameter.values[0]}:{2 * value} would look further"
            )
        elif value == parameter.values[0] and len(parameter.values) > 1:
            out.append(f"{parameter.name} = {value} is the smallest that was allowed")
        elif above := _next_refused(tuned, parameter.name):
            out.append(f"{parameter.name} could not be larger: {above}")
    out.extend(_second(tuned))
    if tuned.found.pruned:
        out.append(f"{tuned.found.pruned} points were never asked for: a smaller one does not fit already")
    if tuned.found.left_out:
        out.append(
            f"{tuned.found.left_out:,} points were left out to keep the search short: narrow it with --parameter NAME=VALUES"
        )
    for point, said in tuned.rejected[:3]:
        out.append(f"{shown(point)} is predicted faster and is not right: {said}")
    return out


def shown(point: dict[str, int]) -> str:
    """A point in words."""
    return ", ".join(f"{n} = {v}" for n, v in point.items())


def _bound(measure: Measure) -> str:
    pipe = measure.bound
    share = measure.busy.get(pipe, 0.0)
    verdict = "bounds it" if share >= FULL else "is the busiest, and no pipe is full: start-up and waiting decide"
    return f"{PIPE_NAMES.get(pipe, pipe)} ({pipe}) works {share:.0%} of the time and {verdict}"


def _next_refused(tuned: Tuned, name: str) -> str:
    for point, measure in tuned.found.tried:
        others = all(point[n] == v for n, v in tuned.winner.items() if n != name)
        if others and point[name] > tuned.winner[name] and measure.too_large:
            return f"with {name} = {point[name]}, {measure.reason}"
    return ""


def _second(tuned: Tuned) -> list[str]:
    times = {tuple(p.items()): us for p, us in tuned.found.ranked()}
    others = [
        (dict(p), us)
        for p, us in times.items()
        if dict(p) != tuned.winner and dict(p) not in [r for r, _ in tuned.rejected]
    ]
    if not others or tuned.measure.us is None:
        return []
    point, us = others[0]
    measure = next(m for p, m in tuned.found.tried if p == point)
    if us <= tuned.measure.us * 1.0005:
        return [f"second: {shown(point)} takes as long"]
    rise = max(
        measure.busy,
        key=lambda p: measure.busy[p] * us - tuned.measure.busy.get(p, 0) * (tuned.measure.us or 0),
        default="",
    )
    more = measure.busy.get(rise, 0) * us - tuned.measure.busy.get(rise, 0) * tuned.measure.us
    why = (
        f": {PIPE_NAMES.get(rise, rise)} works {more:.2f} µs more"
        if more > 0.1 * (us - tuned.measure.us)
        else ": its pipes overlap less"
    )
    return [f"second: {shown(point)} loses {us - tuned.measure.us:.2f} µs ({us / tuned.measure.us - 1:.1%}){why}"]
