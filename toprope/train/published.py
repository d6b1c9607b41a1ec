"""Published runs beside the model's answer; the constants that were solved from them, and from which rows."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from toprope.hccl.cluster import Cluster
from toprope.train.memory import stage_memory, stage_parameters
from toprope.train.shape import TrainModel
from toprope.train.step import StepTime, step_time
from toprope.train.strategy import Batch, Precision, Strategy

_UNITS = {"GiB": 2.0**30, "MiB": 2.0**20, "GB": 1e9}
PRECISIONS = {"fp16": Precision(2, 2, 12), "bf16": Precision(2, 4, 12)}


@dataclass(frozen=True)
class TimeRow:
    """One published time: a layout on a cluster, what was printed, and whether a constant was solved from it."""

    source: str
    cluster: str
    model: str
    batch: Batch
    plan: Strategy
    metric: str
    value: float
    fitted: bool
    assumed: str
    changes: Mapping[str, Any]

    def machine(self, constants: Mapping[str, float] | None = None) -> Cluster:
        """The cluster of the row with the constants of its software stack, or with those given."""
        machine = Cluster.load(self.cluster, self.plan.cards, "" if constants is not None else self.source)
        if "far_gbps" in self.changes:
            far = replace(machine.levels[-1], gbps=self.changes["far_gbps"])
            machine = replace(machine, levels=(*machine.levels[:-1], far))
        return machine.with_constants(constants) if constants is not None else machine

    def step(self, constants: Mapping[str, float] | None = None) -> StepTime:
        """The predicted step."""
        return step_time(self.machine(constants), TrainModel.load(self.model), self.batch, self.plan)

    def predicted(self, constants: Mapping[str, float] | None = None) -> float:
        """The model's answer in the row's metric: seconds, TFLOP/s a card (with what is recomputed counted), or MFU."""
        step = self.step(constants)
        if self.metric == "seconds":
            return step.total
        if self.metric == "mfu":
            return step.mfu * 100
        # 96 B s L h^2 (1 + s/6h + V/16Lh): a full recomputation counts as a fourth pass, for the layers but not the head.
        head = 6.0 * self.batch.tokens * TrainModel.load(self.model).head_parameters
        passes = 4 / 3 if self.plan.recompute == "full" else 1.0
        return ((step.model_flops - head) * passes + head) / step.total / self.plan.cards / 1e12

    def error(self, constants: Mapping[str, float] | None = None) -> float:
        """Signed relative error of the predicted time; of a rate it is turned round, so that too slow is positive."""
        predicted = self.predicted(constants)
        return predicted / self.value - 1 if self.metric == "seconds" else self.value / predicted - 1

    def __str__(self) -> str:
        return f"{self.model} on {self.plan.cards}: {self.plan}"


def time_rows() -> Iterator[TimeRow]:
    """All published times."""
    for table in _published()["time"]:
        for row in table["rows"]:
            given = {**table.get("common", {}), **row}
            value, fitted = float(given.pop("value")), given.pop("role", "test") == "fit"
            batch = Batch(int(given.pop("samples")), int(given.pop("sequence", table.get("sequence", 0))))
            model = str(given.pop("model"))
            changes = {k: given.pop(k) for k in ("far_gbps",) if k in given}
            given["precision"] = PRECISIONS[given.pop("precision", "bf16")]
            yield TimeRow(
                source=table["source"],
                cluster=table["cluster"],
                model=model,
                batch=batch,
                plan=Strategy(**given),
                metric=table["metric"],
                value=value,
                fitted=fitted,
                assumed=table.get("assumed", ""),
                changes=changes,
            )


@dataclass(frozen=True)
class MemoryRow:
    """One published memory of a card: "activations", "states", "mean states" (over the stages) or "peak", in bytes."""

    source: str
    what: str
    unit: str
    model: str
    batch: Batch
    plan: Strategy
    value: float  # in `unit`
    parameters: float  # 0: the model's own count
    assumed: str

    def predicted(self) -> float:
        """The model's answer in the row's unit."""
        model, unit = TrainModel.load(self.model), _UNITS[self.unit]
        stages = range(self.plan.pp) if self.what == "mean states" else (0,)
        found = [stage_memory(model, self.batch, self.plan, s, buffers=self.what == "peak") for s in stages]
        if self.what == "activations":
            return found[0].activations / unit
        if self.what == "peak":
            return found[0].total / unit
        states = sum(m.states for m in found) / len(found)
        if self.parameters:
            held = stage_parameters(model, self.plan, 0)
            states *= self.parameters / sum(held)
        return states / unit

    def error(self) -> float:
        """Signed relative error."""
        return self.predicted() / self.value - 1

    def __str__(self) -> str:
        return f"{self.model}, {self.what}: {self.plan}"


def memory_rows() -> Iterator[MemoryRow]:
    """All published memories."""
    for table in _published()["memory"]:
        for row in table["rows"]:
            given = {**table.get("common", {}), **row}
            value, parameters = float(given.pop("value")), float(given.pop("parameters", 0.0))
            batch = Batch(int(given.pop("samples")), int(table["sequence"]))
            model = str(given.pop("model"))
            given["precision"] = PRECISIONS[given.pop("precision")]
            plan = Strategy(**given)
            assumed = table.get("assumed", "")
            yield MemoryRow(
                table["source"], table["what"], table["unit"], model, batch, plan, value, parameters, assumed
            )


def sources() -> dict[str, str]:
    """Where each set of rows was published."""
    return dict(_published()["sources"])


def _published() -> dict[str, Any]:
    return tomllib.loads((files("toprope.train") / "published.toml").read_text("utf-8"))
