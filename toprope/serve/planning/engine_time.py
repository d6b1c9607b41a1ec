"""What an engine adds to a chip's own time, solved from published serving rows, and how far a plan was from each of them.

`published.tsv` has the rows: one an engine, a model, cards and a load, with the mean time per further token. How far a plan is off is
measured on sources, not rows: each in turn is judged by constants that are solved from all others; and, apart, in two halves by a
hash of their address.
"""

from __future__ import annotations

import csv
import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from toprope.serve.batching.policies.step_times import OnlineRegression
from toprope.serve.planning.card_links import CardLinks, cluster_of
from toprope.serve.planning.model_shape import PRESETS, ModelShape
from toprope.serve.planning.step_cost import ChipRates
from toprope.soc import load

MODES = ("graph", "eager")  # MindIE replays captured graphs, so it counts among the first
CONSTANTS = (*(f"{mode}_layer_ms" for mode in MODES), "joined_layer_ms", "sequence_ms")
CONTEXT_UNSAID = 512  # tokens of a request where a row does not say its lengths
_SMALLEST, _ROUNDS = 0.1, 12  # errors below count as such in the weights; rounds of weighting


@dataclass(frozen=True)
class Row:
    """One published measurement; `sequences` run at a time on one copy of the model, which `tensor_parallel` cards share."""

    model: ModelShape
    chip: str
    tensor_parallel: int
    data_parallel: int
    expert_parallel: bool
    mode: str
    engine: str
    version: str
    sequences: float
    input_tokens: int
    output_tokens: int
    tpot_ms: float
    source: str

    @property
    def cards(self) -> int:
        """All cards."""
        return self.tensor_parallel * self.data_parallel

    @property
    def judges(self) -> bool:
        """Which half its source is in."""
        return hashlib.sha256(self.source.encode()).digest()[0] % 2 == 1

    def chip_s(self) -> float:
        """Seconds of a step by the chip's rates and links, with the prompts of the others that are computed between two tokens."""
        chip, copies = _rates(self.chip), self.data_parallel if self.expert_parallel else 1
        model, links = (
            replace(self.model, copies=copies),
            CardLinks(cluster_of(self.chip, self.cards), self.tensor_parallel, copies),
        )
        kv = self.sequences * (self.input_tokens + self.output_tokens / 2) * model.kv_bytes_per_token
        weights = (model.parameters_read(self.sequences) + model.head_parameters) * model.weight_bytes_each
        seconds = (weights + kv) / (chip.bytes_per_s * self.tensor_parallel)
        prompts = max(0.0, (self.sequences - 1) / self.output_tokens) if self.output_tokens else 0.0
        attention = 2.0 * model.layers * model.heads * model.head_size * self.input_tokens
        flops = (2.0 * model.active_parameters + attention) * self.input_tokens
        seconds += prompts * flops / (chip.flops_per_s * self.tensor_parallel)
        return seconds + links.step_s(model, self.sequences + prompts * self.input_tokens)

    def parts(self, constants: Sequence[float]) -> tuple[tuple[float, ...], float]:
        """What each of `CONSTANTS` is multiplied with, and the milliseconds that come on top.

        Eager launches run beside the chip's work, and the longer of the two counts: with `constants` this row is one or the other.
        """
        layers, chip_ms = float(self.model.layers), 1e3 * self.chip_s()
        joined = layers if self.cards > 1 else 0.0
        if self.mode == "graph":
            return (layers, 0.0, joined, self.sequences), chip_ms
        if layers * constants[1] > chip_ms:
            return (0.0, layers, 0.0, self.sequences), 0.0
        return (0.0, 0.0, 0.0, self.sequences), chip_ms

    def planned_ms(self, constants: Sequence[float]) -> float:
        """The time per token that the model of costs gives."""
        factors, more = self.parts(constants)
        return more + sum(a * b for a, b in zip(constants, factors, strict=True))


@dataclass(frozen=True)
class Band:
    """How far plans of one mode were off, each source judged by the others: mean size, and published over planned at 10 and 90 %."""

    mean: float
    low: float
    high: float


@lru_cache
def _rates(chip: str) -> ChipRates:
    return ChipRates.of(load(chip))


@lru_cache
def published() -> tuple[Row, ...]:
    """All rows."""
    text = (files("toprope.serve.planning") / "published.tsv").read_text("utf-8")
    return tuple(_row(line) for line in csv.DictReader(text.splitlines(), delimiter="\t"))


def _row(line: dict[str, str]) -> Row:
    return Row(
        model=replace(PRESETS[line["model"]], weight_bytes_each=float(line["weight_bytes_each"])),
        chip=line["chip"],
        tensor_parallel=int(line["tensor_parallel"]),
        data_parallel=int(line["data_parallel"]),
        expert_parallel=line["expert_parallel"] == "yes",
        mode=line["mode"],
        engine=line["engine"],
        version=line["version"],
        sequences=float(line["sequences"]),
        input_tokens=int(line["input_tokens"] or CONTEXT_UNSAID),
        output_tokens=int(line["output_tokens"] or 0),
        tpot_ms=float(line["tpot_ms"]),
        source=line["source"],
    )


def solve(rows: Sequence[Row]) -> tuple[float, ...]:
    """Constants that make the sum of relative errors small, each source weighing the same; none is negative.

    Least squares, again and again with weights by the errors before: a row that nothing explains then counts no more than others.
    """
    shares = [sum(other.source == row.source for other in rows) ** -0.5 for row in rows]
    found: tuple[float, ...] = (0.5, 1.5, 0.3, 0.1)
    sizes = [1.0] * len(rows)
    for _ in range(_ROUNDS):
        fit = OnlineRegression(len(CONSTANTS), decay=1.0)
        for row, share, size in zip(rows, shares, sizes, strict=True):
            factors, more = row.parts(found)
            weight = share / row.tpot_ms / max(size, _SMALLEST) ** 0.5
            fit.add([weight * factor for factor in factors], weight * (row.tpot_ms - more))
        found = fit.weights
        sizes = [abs(error) for error in errors(rows, found)]
    return found


def errors(rows: Sequence[Row], constants: Sequence[float]) -> list[float]:
    """Planned over published, less one, row by row."""
    return [row.planned_ms(constants) / row.tpot_ms - 1 for row in rows]


def left_out(rows: Sequence[Row]) -> list[float]:
    """The errors when the constants are solved without the row's own source."""
    found: list[float] = []
    for row in rows:
        found += errors([row], solve([other for other in rows if other.source != row.source]))
    return found


def mean_size(found: Sequence[float]) -> float:
    """Mean size of errors; each row weighs the same."""
    return sum(abs(one) for one in found) / len(found)


def bands(rows: Sequence[Row]) -> dict[str, Band]:
    """By mode, how far each row was from what all other sources say of it."""
    found = left_out(rows)
    out = {}
    for mode in MODES:
        ratios = sorted(1 / (1 + e) for row, e in zip(rows, found, strict=True) if row.mode == mode)
        size = mean_size([e for row, e in zip(rows, found, strict=True) if row.mode == mode])
        out[mode] = Band(size, ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10])
    return out


def constants() -> tuple[tuple[float, ...], dict[str, Band]]:
    """The solved constants that are shipped, and the error of each mode."""
    table = tomllib.loads((files("toprope.serve.planning") / "engine_costs.toml").read_text("utf-8"))
    return tuple(float(table["constants"][name]) for name in CONSTANTS), {m: Band(**table["error"][m]) for m in MODES}


def engine_s(model: ModelShape, mode: str, cards: int) -> tuple[float, float]:
    """Seconds that an engine adds to each step (launches of every layer, waiting for other cards) and to each sequence."""
    values = dict(zip(CONSTANTS, constants()[0], strict=True))
    joined = values["joined_layer_ms"] if cards > 1 and mode == "graph" else 0.0
    return (values[f"{mode}_layer_ms"] + joined) * model.layers / 1e3, values["sequence_ms"] / 1e3


def write() -> Path:
    """Solve and write `engine_costs.toml`."""
    rows = published()
    path = Path(str(files("toprope.serve.planning") / "engine_costs.toml"))
    lines = ["# Written by `python -m toprope.serve.planning fit` from published.tsv, in ms.", "[constants]"]
    lines += [f"{name} = {value:.4g}" for name, value in zip(CONSTANTS, solve(rows), strict=True)]
    for mode, band in bands(rows).items():
        lines += ["", f"[error.{mode}]", *(f"{name} = {value:.3f}" for name, value in vars(band).items())]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path
