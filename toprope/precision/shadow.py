"""Replaying a captured run beside float64: for every instruction the error of its inputs, the error that it adds, that of its output."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope import dtypes
from toprope.precision.cube import Product, WayOut, order
from toprope.precision.footprint import LaneOrder, Place, joined, operand, ranges
from toprope.precision.memory import Bytes, Memories
from toprope.precision.semantics import EXACT, LANES, MOVES, ROUND_MODES, SUMS, Function, Wide, cast, scalars_of
from toprope.soc import Soc
from toprope.trace import Accesses, Trace, Values

REORDERS = {"Mmad", "Fixpipe", "LoadData", "LoadDataWithTranspose", "DataCopy(ND2NZ)", "DataCopy(NZ2ND)"}


@dataclass
class Step:
    """One instruction of the replay. `function` gives the float64 result from its inputs; None where elements only move.

    `groups` says for each source lane of a sum which result it belongs to. `exact` and `stored` are the outputs by lane.
    `columns` are further operands by lane that are exact. A product keeps its matrices, stored and exact, if they carry an error.
    """

    core: int
    op: str
    site: int
    element: str
    output: Place
    inputs: list[tuple[Place, str]]
    function: Function | None = None
    scalars: tuple[float, ...] = ()
    exact_scalars: tuple[float, ...] = ()
    scalar_step: int = -1  # the step that read the scalar from memory
    groups: NDArray[np.int64] | None = None
    columns: Wide | None = None
    matrices: list[tuple[Wide, Wide]] | None = None
    mode: str = ""
    exact: Wide | None = None
    stored: NDArray[Any] | None = None


@dataclass
class LineErrors:
    """What one operation of one source line did over the whole run. Errors are relative: ||stored - exact|| / ||exact||."""

    site: int
    op: str
    element: str
    instructions: int = 0
    elements: int = 0
    squares: NDArray[np.float64] = field(default_factory=lambda: np.zeros(6))  # in, own, out: error and size, squared
    worst: float = 0.0  # largest relative error of one output element
    born_special: int = 0  # results that are infinite or NaN though neither the inputs nor the exact result are

    def relative(self, which: int) -> float:
        """0: of the inputs, 1: added here, 2: of the output."""
        error, size = self.squares[2 * which], self.squares[2 * which + 1]
        return float(np.sqrt(error / size)) if size > 0 else (float("inf") if error > 0 else 0.0)


@dataclass
class Replay:
    """Everything that the replay knows: steps in order of execution, sums by line, and the memories as the run left them."""

    trace: Trace
    memories: Memories
    steps: list[Step] = field(default_factory=list)
    lines: dict[tuple[int, str, str], LineErrors] = field(default_factory=dict)
    unknown: dict[str, int] = field(
        default_factory=lambda: defaultdict(int)
    )  # operation without semantics -> how often

    def exact(self, name: str, array: NDArray[Any]) -> Wide:
        """What exact arithmetic leaves in a GM argument of the shape and type of `array`."""
        i = next((k for k, row in enumerate(self.trace.gm) if row.name == name), -1)
        cells, kind = (self.memories.gm_cells[i] if i >= 0 else None), dtypes.of_array(array)
        if cells is None:
            return array.astype(np.float64)
        stored = cells.bytes[: array.nbytes].view(array.dtype).astype(np.float64)
        if array.itemsize >= 2:
            index = np.arange(array.size) * (array.itemsize // 2)
            stored = np.where(cells.tag[index] == kind.code + 1, cells.exact[index], stored)
        return stored.reshape(array.shape)


def replay(trace: Trace, soc: Soc, before: Mapping[str, NDArray[Any]]) -> Replay:
    """Walk through the captured values of `trace` (a run with capture_limit_bytes). `before`: the GM arrays before the launch."""
    if trace.values is None:
        raise ValueError("the run kept no values: launch it with capture_limit_bytes")
    result = Replay(trace, Memories(trace.gm, before, soc))
    with np.errstate(all="ignore"):
        _Walk(result, trace.values).run()
    return result


class _Walk:
    def __init__(self, result: Replay, values: Values) -> None:
        self.result, self.values = result, values
        self.trace, self.memory = result.trace, result.memories
        self.access: Accesses = result.trace.decoded()
        self.first = np.concatenate(([0], np.cumsum(result.trace.instrs["accesses"].astype(np.int64))))
        # What the scalar unit read last, per core: (stored, exact, step). A scalar operand that is one of them, or its negative or
        # reciprocal, is taken to come from there.
        self.seen: dict[int, deque[tuple[float, float, int]]] = defaultdict(lambda: deque(maxlen=16))
        self.pending_sum: dict[int, Step] = {}  # a ReduceSum whose result the scalar unit will store

    def run(self) -> None:
        lanes: dict[tuple[int, int], list[Any]] = defaultdict(list)
        for row in self.values.rows:
            key = int(row["core"]), int(row["instr"])
            if row["kind"] == 0:
                self.instruction(*key, lanes.pop(key, []), row)
            else:
                lanes[key].append(row)

    def instruction(self, core: int, number: int, operands: list[Any], written: Any) -> None:
        i = int(self.trace.core_begin[core]) + number
        instr = self.trace.instrs[i]
        op = self.trace.ops[int(instr["op"])]
        element = _element(int(instr["arg"]) & 0xFF)
        to = _element(int(instr["arg"]) >> 8 & 0xFF) if op.kind == "compute" else element
        begin, end = int(self.first[i]), int(self.first[i + 1])
        data = self.values.bytes[int(written["at"]) : int(written["at"]) + int(written["bytes"])]
        even = not np.any((self.access.row_bytes[begin:end] | self.access.address[begin:end]) & 1)
        reads, writes = ranges(self.access, begin, end, 2 if even else 1)
        step = Step(core, op.name, int(instr["site"]), to, Place("ub", 0, np.zeros(0, np.int64), 1), [])
        kept = [self.numbers(r) for r in operands if r["kind"] == 3] if op.name in REORDERS else []
        if op.name == "Mmad" and kept:
            return self.product(step, Product(kept[0], int(instr["arg"])), reads, writes, data)
        if op.name == "Fixpipe" and kept:
            return self.way_out(step, WayOut(kept, element), reads, writes, data)
        if op.kind == "copy" and even:
            ordered = order(kept, reads[0].space, writes[0].space) if kept and reads and writes else None
            atomic = int(self.access.mode[begin:end].max(initial=0)) == 3
            return self.copy(step, reads, writes, data, atomic, ordered)
        if op.name in ("LocalTensor.GetValue", "GlobalTensor.GetValue") or (op.kind == "scalar" and not writes):
            return self.scalar_read(step, begin, end)
        if op.kind == "scalar":
            return self.scalar_write(step, writes, data)
        self.compute(step, operands, element, (begin, end), writes, data)

    def numbers(self, row: Any) -> NDArray[np.int64]:
        return self.values.bytes[int(row["at"]) : int(row["at"]) + int(row["bytes"])].view(np.int64)

    # ---- data that moves ----

    def copy(
        self, step: Step, reads: list[Place], writes: list[Place], data: Bytes, atomic: bool,
        ordered: tuple[Place, Place] | None = None,
    ) -> None:  # fmt: skip
        source, target = joined([r for r in reads if r.space != "gm" or not atomic]), joined(writes)
        if ordered is not None and not atomic and target is not None:
            self.put(step.core, writes, data)
            if self.same_bits(step.core, *ordered):
                return self.carry(step, *ordered)
            return self.move(step, [ordered[0]], target)
        if atomic and source is not None and target is not None:
            return self.atomic(step, *(ordered or (source, target)), writes, data)
        if source is not None and target is not None and source.space == "l0c" and "float" in step.element:
            return self.coupled_way_out(step, source, target, writes, data)
        plain = source is not None and target is not None and len(source.offsets) == len(target.offsets)
        if source is None or target is None or not plain:
            self.put(step.core, writes, data)
            if source is not None and target is not None:  # padding: the payload is found by its bits
                self.move(step, [source], target)
            return
        shadow = self.memory.shadow_of(step.core, source)
        same = np.array_equal(self.memory.units(step.core, source).view(np.uint8), data)
        self.put(step.core, writes, data)
        if not same:  # a conversion, or bytes that nobody saw being written
            return self.move(step, [source], target)
        self.carry(step, source, target, shadow)

    def same_bits(self, core: int, source: Place, target: Place) -> bool:
        return np.array_equal(self.memory.units(core, source), self.memory.units(core, target))

    def carry(
        self, step: Step, source: Place, target: Place, shadow: tuple[Wide, NDArray[np.uint8]] | None = None
    ) -> None:
        """Element by element: `target` has the shadow of `source` (or `shadow`, where the copy has overwritten its source)."""
        self.memory.copy_shadow(step.core, target, shadow or self.memory.shadow_of(step.core, source))
        step.output, step.inputs = target, [(source, step.element)]
        self.result.steps.append(step)

    def coupled_way_out(self, step: Step, source: Place, target: Place, writes: list[Place], data: Bytes) -> None:
        """L0C to UB: as it is or as half; with relu or without, which the values tell."""
        source = _widened(source, step.element)
        stored, _ = before = self.memory.read(step.core, source, step.element)
        self.put(step.core, writes, data)
        if len(source.offsets) * source.size != len(target.offsets) * target.size:
            step.inputs, step.element = [(source, step.element)], "float16"
        else:
            step.inputs = [(source, step.element)]
        step.output = _widened(target, step.element)
        if len(step.output.offsets) != len(stored):
            self.result.unknown[step.op] += 1
            return self.opaque(step, target)
        written = self.memory.read(step.core, step.output, step.element)[0]
        step.function = min((_same, LANES["Relu"]), key=lambda f: _distance(f(stored), written))
        self.finish(step, [before])

    def atomic(self, step: Step, source: Place, target: Place, writes: list[Place], data: Bytes) -> None:
        source, target = _widened(source, step.element), _widened(target, step.element)
        step.output, step.inputs = target, [(target, step.element), (source, step.element)]
        old, new = (self.memory.read(step.core, p, step.element) for p in (target, source))
        if len(old[0]) != len(new[0]):
            self.result.unknown[f"{step.op} (atomic)"] += 1
            return self.put(step.core, writes, data)
        self.put(step.core, writes, data)
        stored = self.memory.read(step.core, target, step.element)[0]
        # The trace does not say which operation the atomic unit was set to; the values do.
        step.function = min((np.add, np.maximum, np.minimum), key=lambda f: _distance(f(old[0], new[0]), stored))
        self.finish(step, [old, new])

    def move(self, step: Step, sources: list[Place], target: Place) -> None:
        """Each 16- or 32-bit element of `target` gets the shadow of a source element with the same bits."""
        if not any(self.memory.shadow_of(step.core, place)[1].any() for place in sources):
            return self.opaque(step, target)  # everything is exact as stored
        kind = dtypes.dtype(step.element).numpy
        if kind is None or kind.kind in "iub" or target.size > kind.itemsize:
            return
        target = _widened(target, step.element)
        stored = self.memory.read(step.core, target, step.element)[0]
        both = [self.memory.read(step.core, _widened(s, step.element), step.element) for s in sources]
        values, exact = np.concatenate([b[0] for b in both]), np.concatenate([b[1] for b in both])
        if not len(values) or not len(stored):
            return self.opaque(step, target)
        order = np.argsort(values, kind="stable")
        found = order[np.minimum(np.searchsorted(values[order], stored), len(values) - 1)]
        hit = values[found] == stored
        step.output, step.inputs = target, [(_widened(s, step.element), step.element) for s in sources]
        step.groups = np.where(hit, found, -1)
        step.exact, step.stored = np.where(hit, exact[found], stored), stored
        self.memory.write_exact(step.core, target, step.element, step.exact)
        self.result.steps.append(step)

    def scalar_read(self, step: Step, begin: int, end: int) -> None:
        reads, _ = ranges(self.access, begin, end, 1)
        if not reads or len(reads[0].offsets) not in (2, 4) or "float" not in step.element:
            return
        place = _widened(reads[0], step.element)
        stored, exact = self.memory.read(step.core, place, step.element)
        step.output, step.inputs = place, [(place, step.element)]
        self.result.steps.append(step)
        self.seen[step.core].append((float(stored[0]), float(exact[0]), len(self.result.steps) - 1))

    def scalar_write(self, step: Step, writes: list[Place], data: Bytes) -> None:
        self.put(step.core, writes, data)
        target = joined(writes)
        if target is None or "float" not in step.element:
            return
        step.output = _widened(target, step.element)
        stored = self.memory.read(step.core, step.output, step.element)[0]
        pending = self.pending_sum.pop(step.core, None)
        if pending is not None and pending.site == step.site and len(stored) == 1:
            pending.output = step.output
            return self.finish(pending, [self.memory.read(step.core, p, e) for p, e in pending.inputs])
        for value, exact, where in reversed(self.seen[step.core]):
            if len(stored) == 1 and value == stored[0]:
                self.memory.write_exact(step.core, step.output, step.element, np.array([exact]))
                step.inputs, step.scalar_step = [self.result.steps[where].inputs[0]], where
                self.result.steps.append(step)
                return

    def put(self, core: int, places: list[Place], data: Bytes) -> None:
        at = 0
        for place in places:
            size = len(place.offsets) * place.size
            self.memory.write_bytes(core, place, data[at : at + size])
            at += size

    # ---- the cube ----

    def product(self, step: Step, product: Product, reads: list[Place], writes: list[Place], data: Bytes) -> None:
        step.element = product.result
        if "float" not in product.result:  # whole numbers are exact
            self.put(step.core, writes, data)
            return self.opaque(step, joined(writes))
        step.function, step.mode = product, "HF32" if product.hf32 else ""
        step.output = product.output(writes[0])
        step.inputs = product.inputs(reads, step.output)
        before = [self.memory.read(step.core, place, kind) for place, kind in step.inputs]
        if any(stored is not exact for stored, exact in before[:2]):
            step.matrices = before[:2]
        self.put(step.core, writes, data)
        self.finish(step, before)
        product.last = None  # the step outlives this instruction

    def way_out(self, step: Step, out: WayOut, reads: list[Place], writes: list[Place], data: Bytes) -> None:
        source, target = out.places(reads[0], writes[0])
        if out.moves:
            self.put(step.core, writes, data)
            return self.carry(step, source.in_units(), target.in_units())
        step.function, step.output, step.inputs = out, target, [(source, out.source)]
        if out.atomic is not None:
            step.inputs.append((target, step.element))
        if out.quantises:
            step.columns = out.scales()
        before = [self.memory.read(step.core, place, kind) for place, kind in step.inputs]
        self.put(step.core, writes, data)
        self.finish(step, before)

    # ---- arithmetic ----

    def compute(
        self, step: Step, operands: list[Any], element: str, rows: tuple[int, int], writes: list[Place], data: Bytes
    ) -> None:
        target = joined(writes)
        sources = [operand(r) for r in operands if r["kind"] == 1]
        results = [operand(r) for r in operands if r["kind"] == 2]
        raw = b"".join(self.values.bytes[r["at"] : r["at"] + r["bytes"]].tobytes() for r in operands if r["kind"] == 3)
        step.inputs = [(place, _operand_element(place, element, step.element)) for place, _ in sources]
        if step.op in MOVES or step.op in EXACT or (target is None and step.op != "ReduceSum"):
            read = [r for r in ranges(self.access, *rows, 2)[0] if len(r.offsets)] if step.op in MOVES else []
            self.put(step.core, writes, data)
            return self.move(step, read, target) if read and target is not None else self.opaque(step, target)
        step.output = (
            results[0][0] if results else (_widened(target, step.element) if target is not None else step.output)
        )
        if not self.understand(step, sources, element, raw):
            self.result.unknown[step.op] += 1
            self.put(step.core, writes, data)
            return self.opaque(step, target)
        before = [self.memory.read(step.core, place, kind) for place, kind in step.inputs]
        self.put(step.core, writes, data)
        if step.op == "Select":
            return self.select(step, before)
        if target is None:  # the count form of ReduceSum: one sum of everything, which the scalar unit will store
            step.groups = np.zeros(len(step.inputs[0][0].offsets), np.int64)
            self.pending_sum[step.core] = step
            return None
        self.finish(step, before)

    def opaque(self, step: Step, target: Place | None) -> None:
        """Results that count as exact: constants, and those of operations without semantics."""
        kind = dtypes.dtype(step.element).numpy
        if target is None or kind is None or target.size > kind.itemsize:
            return
        step.output, step.inputs, step.function = _widened(target, step.element), [], None
        step.stored = step.exact = self.memory.read(step.core, step.output, step.element)[0]
        self.result.steps.append(step)

    def understand(self, step: Step, sources: list[tuple[Place, LaneOrder]], element: str, raw: bytes) -> bool:
        """Fill in what the operation means. False: there is no entry for it."""
        step.scalars = step.exact_scalars = tuple(scalars_of(step.op, raw, element))
        for stored, exact, where in reversed(self.seen[step.core] if step.scalars else ()):
            match = _derived(stored, exact, step.scalars[0], element)
            if match is not None:
                step.exact_scalars, step.scalar_step = (match, *step.scalars[1:]), where
                break
        if step.op == "Cast" and len(raw) > 2:
            step.mode = ROUND_MODES[raw[2]] if raw[2] < len(ROUND_MODES) else ""
            step.function = cast(step.mode, element, step.element)
        elif step.op in LANES:
            step.function = LANES[step.op]
        elif step.op in SUMS and sources:
            step.function, step.groups = _group_sum, _groups(SUMS[step.op], sources[0][1], sources[0][0].size)
        return step.function is not None or step.op == "Select"

    def select(self, step: Step, before: list[tuple[Wide, Wide]]) -> None:
        stored = self.memory.read(step.core, step.output, step.element)[0]
        exact = stored.copy()
        picked = np.full(len(stored), -1, np.int64)
        for k, (value, true) in reversed(list(enumerate(before))):
            if len(value) == len(stored):
                hit = (value == stored) | (np.isnan(value) & np.isnan(stored))
                exact, picked = np.where(hit, true, exact), np.where(hit, k, picked)
        step.groups, step.exact, step.stored = picked, exact, stored
        self.memory.write_exact(step.core, step.output, step.element, exact)
        self.result.steps.append(step)

    def finish(self, step: Step, before: list[tuple[Wide, Wide]]) -> None:
        """Both results of a step whose output bytes are in place; its errors go into the sums of its line."""
        stored = self.memory.read(step.core, step.output, step.element)[0]
        own = exact = self.result_of(step, [b[0] for b in before], step.scalars)
        if step.scalars != step.exact_scalars or any(a is not b for a, b in before):
            exact = self.result_of(step, [b[1] for b in before], step.exact_scalars)
        if len(own) != len(stored):
            self.result.unknown[step.op] += 1
            return
        step.exact = exact
        step.stored = stored.astype(np.float32) if step.element != "float64" else stored
        self.memory.write_exact(step.core, step.output, step.element, exact)
        self.result.steps.append(step)
        key = step.site, step.op, step.element
        line = self.result.lines.get(key)
        if line is None:
            line = self.result.lines[key] = LineErrors(*key)
        line.instructions += 1
        line.elements += len(stored)
        inputs = [_squares(a, e) for a, e in before]
        pairs = [np.sum(inputs, axis=0) if inputs else np.zeros(2), _squares(stored, own), _squares(stored, exact)]
        line.squares += np.concatenate(pairs)
        line.worst = max(line.worst, float(relative_error(stored, exact, step.element).max(initial=0)))
        line.born_special += int(np.sum(~np.isfinite(stored) & np.isfinite(own)))

    def result_of(self, step: Step, inputs: list[Wide], scalars: tuple[float, ...]) -> Wide:
        assert step.function is not None
        further = step.columns if step.columns is not None else ()
        arguments = (inputs[0], step.groups) if step.groups is not None else (*inputs, *scalars, *further)
        return np.asarray(step.function(*arguments), np.float64)


def relative_error(stored: Wide, exact: Wide, element: str, floor: float = 0.0) -> Wide:
    """|stored - exact| / |exact|, infinite where only one of them is infinite or NaN; values below `floor` count as `floor`."""
    same = (stored == exact) | (np.isnan(stored) & np.isnan(exact))
    smallest = smallest_normal(element)
    with np.errstate(all="ignore"):
        error = np.abs(stored - exact) / np.maximum(np.abs(exact), max(floor, smallest))
    return np.where(same, 0.0, np.nan_to_num(error, nan=np.inf, posinf=np.inf))


def smallest_normal(element: str) -> float:
    """The smallest normal number of a float type; 1 for integers."""
    return {"float16": 2.0**-14, "float64": 2.0**-1022}.get(element, 2.0**-126) if "float" in element else 1.0


def _element(code: int) -> str:
    return dtypes.DTYPES[code].name if code < len(dtypes.DTYPES) else "none"


def _operand_element(place: Place, widest: str, to: str) -> str:
    for name in (widest, to):
        if dtypes.dtype(name).bits == place.size * 8:
            return name
    return {2: "float16", 4: "float32"}.get(place.size, "uint8")


def _widened(place: Place, element: str) -> Place:
    """Ranges that were cut into units of 1 or 2 bytes, as elements."""
    size = dtypes.dtype(element).bits // 8
    return (
        Place(place.space, place.base, place.offsets[:: max(1, size // place.size)], size)
        if place.size < size
        else place
    )


def _same(x: Wide) -> Wide:
    return x


def _distance(a: Wide, b: Wide) -> float:
    return float(np.nan_to_num(np.abs(a - b), nan=0, posinf=0).sum())


def _squares(stored: Wide, exact: Wide) -> NDArray[np.float64]:
    finite = np.isfinite(stored) & np.isfinite(exact)
    difference, size = np.where(finite, stored - exact, 0.0), np.where(finite, exact, 0.0)
    return np.array([np.square(difference).sum(), np.square(size).sum()])


def _group_sum(values: Wide, groups: NDArray[np.int64]) -> Wide:
    return np.asarray(np.add.reduceat(values, np.flatnonzero(np.diff(groups, prepend=-1))), np.float64)


def _groups(kind: str, order: LaneOrder, element_bytes: int) -> NDArray[np.int64]:
    if kind == "repeat":
        return order.repeat
    per = 2 if kind == "pair" else 32 // element_bytes
    _, numbers = np.unique(order.repeat * 1024 + order.lane // per, return_inverse=True)
    return np.asarray(numbers, np.int64)


def _derived(stored: float, exact: float, scalar: float, element: str) -> float | None:
    """The exact value of a scalar that was computed from one that was read: itself, its negative or its reciprocal."""
    kind = dtypes.dtype(element).numpy
    common = scalar in (0.0, 1.0, -1.0) and np.isfinite(stored)  # too common a number to say where it comes from
    if kind is None or "float" not in element or common:
        return None
    for power, sign in ((1, 1.0), (1, -1.0), (-1, 1.0), (-1, -1.0)):
        with np.errstate(all="ignore"):
            made, true = (sign * np.float64(x) ** power for x in (stored, exact))
        if float(made.astype(kind)) == scalar:
            return float(true)
    return None
