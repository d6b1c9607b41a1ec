"""A chip in a state: what of it is left when it throttles, or when others use the memory or some of the cores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from toprope.errors import BadInput
from toprope.soc import Soc, load

# Core clock over the nominal one by junction temperature in degrees Celsius. Assumed: the vendor publishes that the clock falls, not by how much.
CLOCK_BY_TEMPERATURE = ((85.0, 1.0), (95.0, 0.9), (105.0, 0.75))
_SHARES = {
    "clock": ("clock.core_ghz",),
    "hbm": ("hbm.read_tbps",),
    "l2": ("l2.read_tbps", "l2_write.write_tbps", "memory.l2_bytes"),
    "cores": ("cores.aic", "cores.aiv"),
}
"""What a state may say, each as the share that is left, above 0 and at most 1; `temperature` besides, in degrees Celsius."""


def state_of(text: str) -> dict[str, float]:
    """A state as a user writes it: "clock=0.8,hbm=0.5,cores=0.75" or "temperature=95"; "" is the nominal one. Raises BadInput."""
    state: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        name = name.strip()
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if name not in (*_SHARES, "temperature"):
            raise BadInput(
                f"--state {text!r}: {name!r} is no part of a state",
                cure=f"it may have {', '.join((*_SHARES, 'temperature'))}",
            )
        if name == "temperature" and not 0 <= number <= CLOCK_BY_TEMPERATURE[-1][0]:
            raise BadInput(
                f"--state {text!r}: a temperature of {value}",
                cure=f"0 to {CLOCK_BY_TEMPERATURE[-1][0]:g} degrees Celsius",
            )
        if name != "temperature" and not 0 < number <= 1:
            raise BadInput(
                f"--state {text!r}: {name} = {value} is no share",
                cure="write what is left of it, for example clock=0.8",
            )
        state[name] = number
    return state


def clock_at(temperature: float) -> float:
    """Share of the nominal clock at a junction temperature, between the rows of `CLOCK_BY_TEMPERATURE` on straight lines."""
    if temperature <= CLOCK_BY_TEMPERATURE[0][0]:
        return CLOCK_BY_TEMPERATURE[0][1]
    for (t0, c0), (t1, c1) in pairwise(CLOCK_BY_TEMPERATURE):
        if temperature <= t1:
            return c0 + (c1 - c0) * (temperature - t0) / (t1 - t0)
    return CLOCK_BY_TEMPERATURE[-1][1]


def chip_in(name: str, state: Mapping[str, float]) -> Soc:
    """The chip called `name` in a state. Raises BadChip."""
    return _chip_in(name.lower(), tuple(sorted(state.items())))


@cache
def _chip_in(name: str, state: tuple[tuple[str, float], ...]) -> Soc:
    chip = load(name)
    values: dict[str, float] = {}
    for what, share in state:
        clock = what == "temperature"
        for path in _SHARES["clock" if clock else what]:
            left = chip.number(path) * (clock_at(share) if clock else share)
            values[path] = (
                max(1, int(left))
                if path.startswith("cores.")
                else values.get(path, chip.number(path)) / chip.number(path) * left
            )
    return chip.replaced(values) if values else chip
