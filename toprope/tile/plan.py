"""Where every tile value lives: queue rings for what is loaded and stored, one arena for the rest, and the ledger of their bytes.

Rules (numbers as in docs/tile.md): P1 loads, input ring; P2 stored values, output ring; P3 other values, arena, in place when an operand
dies there; P4 loop variables and values that cross a region, an arena slot of their own; P9 what does not fit is refused with the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from toprope.dtypes import Dtype
from toprope.tile.amounts import NOTHING, Amount, most_of
from toprope.tile.emit_text import BLOCK_BYTES, GROUP_ROWS, REPEAT_BYTES, row_reduce_bytes, rows_room_bytes
from toprope.tile.language import TileError, i32
from toprope.tile.program import ONE, ByIndex, Index, Loop, Program, Region, Value, clean

EVENTS = 8  # between two pipes of a core
UB_BYTES = 196608  # the unified buffer of every chip with cube and vector cores side by side
_IN_PLACE = {"binary", "scalar", "unary", "select", "copy"}


@dataclass
class Ring:
    """A queue: `depth` buffers of `bytes`, shared by regions that never hold it at the same time."""

    name: str
    bytes: Amount = NOTHING
    depth: int = 1


@dataclass(frozen=True)
class Place:
    """Where a value is: ring "in0", "out1", or "arena" at an offset. `rule` says which placement rule put it there."""

    home: str
    offset: Amount
    bytes: Amount
    rule: str
    alias: Value | None = None


@dataclass
class Plan:
    """The placement of one program."""

    program: Program
    inputs: list[Ring] = field(default_factory=list)
    outputs: list[Ring] = field(default_factory=list)
    places: dict[Value, Place] = field(default_factory=dict)
    arena_bytes: Amount = NOTHING
    rows_bytes: Amount = NOTHING
    partial_bytes: Amount = NOTHING
    blocks_bytes: Amount = NOTHING
    steps_bytes: Amount = NOTHING

    @property
    def scratch_bytes(self) -> Amount:
        """A block per row, and behind them partial results of reductions."""
        return self.blocks_bytes + self.partial_bytes

    def total(self, *, single: bool = False) -> Amount:
        """Bytes of unified buffer; `single` with one buffer where the plan has more."""
        found = self.arena_bytes + self.rows_bytes + self.scratch_bytes + self.steps_bytes
        for r in self.inputs + self.outputs:
            found += r.bytes * (1 if single else r.depth)
        return found

    @property
    def sample(self) -> dict[str, int]:
        """The names in its amounts at the sizes that the kernel's text gives."""
        found: dict[str, int] = {}
        for i in self.program.indices.values():
            width = -(-i.size // (p := pitch_elements(self.program))) * p
            found |= {names_of(i).width: width, names_of(i).mask: -(-width // 256) * 32}
            found |= {
                i.chosen: i.size,
                names_of(i).rows: -(-i.size // 16) * 16,
                names_of(i).group: min(i.size, GROUP_ROWS),
            }
        return found

    @property
    def total_bytes(self) -> int:
        """Bytes of unified buffer at the sizes that the kernel's text gives."""
        return self.total().at(self.sample)

    def ledger(self, capacity_bytes: int) -> str:
        """The bytes of every buffer, as a table with a bar."""
        sizes = self.sample
        rows = [
            (r.name, f"{r.depth} x {r.bytes.at(sizes)}", r.bytes.at(sizes) * r.depth)
            for r in self.inputs + self.outputs
        ]
        rows += [
            ("arena", "values between", self.arena_bytes.at(sizes)),
            ("rows", "one number per row", self.rows_bytes.at(sizes)),
            ("scratch", "of reductions and repeats", self.scratch_bytes.at(sizes)),
            ("steps", "places of gathered elements", self.steps_bytes.at(sizes)),
        ]
        lines = [
            f"{self.program.name}{' (resident)' if self.program.resident else ''}: unified buffer of {capacity_bytes} bytes"
        ]
        for name, what, size in rows:
            if size:
                lines.append(f"  {name:<10}{what:<26}{size:>8}  {'#' * max(1, round(size * 40 / capacity_bytes))}")
        lines.append(f"  {'total':<36}{self.total_bytes:>8}  {100 * self.total_bytes / capacity_bytes:.0f} %")
        for value, place in self.places.items():
            if value.label:
                at = place.offset.at(sizes)
                where = place.home if place.home.startswith(("in", "out")) else f"{place.home}+{at}"
                lines.append(f"    {value.label:<12}line {value.line:<5}{value.dtype.name:<10}{where:<14}{place.rule}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Names:
    """What an axis is called where its sizes are known at the launch only."""

    width: str  # its columns, padded
    mask: str  # bytes of a bit for each of them
    rows: str  # its rows, in whole sixteens
    group: str  # rows that go together


def names_of(i: Index) -> Names:
    """The names of an axis."""
    return Names(*(f"{clean(i.name)}{part}" for part in ("Width", "Mask", "Rows", "Group")))


def pitch_elements(program: Program) -> int:
    """Rows of tiles are padded to this many elements: a whole block in the narrowest element type of the kernel."""
    kinds = [v.dtype for r in program.regions() for v in r.loads + r.ops]
    return BLOCK_BYTES * 8 // min(k.bits for k in kinds)


def bytes_of(program: Program, v: Value) -> Amount:
    """The buffer of a value; elements that come or go one by one take a block each."""
    size = value_bytes(program, v.axes, v.dtype, bits=v.op == "compare")
    return size * (8 * BLOCK_BYTES // v.dtype.bits) if v.spread else size


def _symbol(program: Program, axis: str) -> Index | None:
    """The axis, when its extent in a tile is known at the launch only."""
    i = program.indices.get(axis)
    return i if i is not None and program.resident and (i.whole or i.chosen) else None


def value_bytes(program: Program, axes: tuple[str, str], kind: Dtype, *, bits: bool = False) -> Amount:
    """The buffer of a value at full tile size, in whole repeats so that comparisons may run over its end."""
    size, pitch = kind.bits // 8, pitch_elements(program)
    row, column = _symbol(program, axes[0]), _symbol(program, axes[1])

    def extent(axis: str, multiple: int) -> int:
        return -(-(1 if axis == ONE else program.indices[axis].size) // multiple) * multiple

    if row is None and column is None:
        lanes = extent(axes[0], 64) if axes[1] == ONE else extent(axes[0], 1) * extent(axes[1], pitch)
        repeats = -(-lanes * size // REPEAT_BYTES)
        return Amount.of((-(-repeats // kind.bits) if bits else repeats) * REPEAT_BYTES)
    if axes[1] == ONE:
        assert row is not None
        return Amount.of(size, names_of(row).width if row.whole else names_of(row).rows) + Amount.of(REPEAT_BYTES)
    names = [] if row is None else [names_of(row).width if row.whole else row.chosen]
    count = 1 if row is not None else extent(axes[0], 1)
    if column is None:
        across = -(-extent(axes[1], pitch) // 256) * 32 if bits else extent(axes[1], pitch) * size
        return Amount.of(count * across, *names) + Amount.of(REPEAT_BYTES)
    if bits:
        return Amount.of(count, *names, names_of(column).mask) + Amount.of(REPEAT_BYTES)
    return Amount.of(count * size, *names, names_of(column).width if column.whole else column.chosen) + Amount.of(
        REPEAT_BYTES
    )


def place(program: Program) -> Plan:
    """Place every value of a program; deterministic."""
    plan = Plan(program)
    for region in program.regions():
        _drop_unused_loads(region)
        _write_loop_variables_in_place(region)
        _give_stores_their_own_values(region)
    for region in program.regions():
        _rings(plan, region)
    _permanent(plan)
    _few_events(plan.inputs)
    _few_events(plan.outputs)
    for region in program.regions():
        _temporaries(plan, region)
    _scratch(plan)
    return plan


def _drop_unused_loads(region: Region) -> None:
    """What nothing reads is left out; a tile of indices that only says where another one lies is read entry by entry, not copied."""
    stored = {id(s.value) for s in region.stores}
    needed: set[int] = set()
    for o in reversed(region.ops):
        if id(o) in needed or id(o) in stored or o.persistent or o.target is not None or o.op == "assign":
            needed |= {id(o), *(id(a) for a in o.args)}
    region.ops = [o for o in region.ops if id(o) in needed]
    used = {id(a) for o in region.ops for a in o.args} | {id(s.value) for s in region.stores}
    region.loads = [v for v in region.loads if id(v) in used or v.persistent]


def _write_loop_variables_in_place(region: Region) -> None:
    """`assign(variable, value)` disappears when the value can be computed straight into the variable."""
    stored = {id(s.value) for s in region.stores}
    for assign in [o for o in region.ops if o.op == "assign"]:
        value, variable = assign.args[0], assign.target
        if value not in region.ops or value.persistent or value.target or id(value) in stored or value.op == "compare":
            continue
        after = region.ops[region.ops.index(value) + 1 : region.ops.index(assign)]
        late_reads = any(variable in o.args for o in after) or any(o.target is variable for o in after)
        if late_reads or (value.op not in _IN_PLACE and variable in value.args):
            continue
        if any(variable is a and a.axes != value.axes for a in value.args):
            continue
        value.target = variable
        region.ops.remove(assign)


def _give_stores_their_own_values(region: Region) -> None:
    """What leaves through an output ring is computed into it; values that stay elsewhere are copied."""
    taken: set[int] = set()
    for store in region.stores:
        v = store.value
        if any(isinstance(i, ByIndex) for i in store.where) and (
            isinstance(store.where[-1], ByIndex) or store.where[-1].unit
        ):
            store.value = Value("spread", "", [v], v.dtype, v.axes, store.line, region=region)
            region.ops.append(store.value)
        elif (
            v.op in ("load", "carried")
            or v.persistent
            or v.target
            or v.is_rows
            or id(v) in taken
            or v.region is not region
        ):
            copy = Value("copy", "", [v], v.dtype, v.axes, store.line, region=region)
            region.ops.append(copy)
            store.value = copy
        taken.add(id(store.value))


def _rings(plan: Plan, region: Region) -> None:
    for rings, values, stem, rule in (
        (plan.inputs, region.loads, "in", "P1"),
        (plan.outputs, [s.value for s in region.stores], "out", "P2"),
    ):
        for i, v in enumerate(values):
            if i == len(rings):
                rings.append(Ring(f"{stem}{i}"))
            size = bytes_of(plan.program, v)
            rings[i].bytes, rings[i].depth = rings[i].bytes.most(size), max(rings[i].depth, region.depth)
            plan.places[v] = Place(f"{stem}{i}", Amount(), size, rule)


def _few_events(rings: list[Ring]) -> None:
    """Each buffer of a queue takes an event between two pipes, and there are eight: the smallest rings go down to one buffer."""
    for ring in sorted(rings, key=lambda r: sum(c for _, c in r.bytes.terms)):
        if sum(r.depth for r in rings) > EVENTS:
            ring.depth = 1
    if len(rings) > EVENTS:
        raise TileError(
            f"{len(rings)} tiles are loaded or stored at the same time; there are {EVENTS} events between two pipes",
            cure="load or store some of them in a loop of their own, or write two kernels",
        )


def _permanent(plan: Plan) -> None:
    """Loop variables and values used in several regions never share their bytes."""
    for region in plan.program.regions():
        for v in region.ops:
            kept = v.target if v.target is not None else v
            if kept.persistent and kept not in plan.places:
                size = value_bytes(plan.program, kept.axes, kept.dtype)
                plan.places[kept] = _reserve(plan, kept, size, "P4")


def _reserve(plan: Plan, v: Value, size: Amount, rule: str) -> Place:
    if v.is_rows and v.op != "compare":
        begin, plan.rows_bytes = plan.rows_bytes, plan.rows_bytes + size
        return Place("rows", begin, size, rule)
    begin, plan.arena_bytes = plan.arena_bytes, plan.arena_bytes + size
    return Place("arena", begin, size, rule)


def _temporaries(plan: Plan, region: Region) -> None:
    """Arena slots by liveness, first fit; slots are shared between regions, which never run at the same time."""
    last_use = {id(a): i for i, o in enumerate(region.ops) for a in o.args}
    free: list[Place] = []
    owned: dict[int, Place] = {}
    for other in plan.places:  # slots of earlier regions are free again
        slot = plan.places[other]
        if slot.rule == "P3" and slot.alias is None and other.region is not region:
            free.append(slot)
    free = list({(s.home, s.offset): s for s in free}.values())
    for i, v in enumerate(region.ops):
        if v not in plan.places and v.target is None and v.op != "assign":
            size = value_bytes(plan.program, v.axes, v.dtype, bits=v.op == "compare")
            host = next((a for a in v.args if _can_host(plan, v, a, last_use[id(a)] == i)), None)
            if host is not None:
                at = plan.places[host]
                plan.places[v] = Place(at.home, at.offset, at.bytes, "P3 in place", host)
                if id(host) in owned:
                    owned[id(v)] = owned.pop(id(host))
            else:
                home = "rows" if v.is_rows and v.op != "compare" else "arena"
                fit = next((s for s in free if s.home == home and s.bytes.covers(size)), None)
                if fit is not None:
                    free.remove(fit)
                owned[id(v)] = fit or _reserve(plan, v, size, "P3")
                plan.places[v] = Place(owned[id(v)].home, owned[id(v)].offset, owned[id(v)].bytes, "P3")
        for used in {id(v), *(id(a) for a in v.args)}:
            if last_use.get(used, i) == i and used in owned:
                free.append(owned.pop(used))


def _can_host(plan: Plan, v: Value, operand: Value, dies: bool) -> bool:
    home = plan.places.get(operand)
    same = operand.axes == v.axes and operand.dtype == v.dtype and v.op in _IN_PLACE and operand.op != "compare"
    if home is None or not dies or operand.persistent or operand.target is not None or not same:
        return False
    return home.home in ("arena", "rows") or home.home.startswith("in")


def _scratch(plan: Plan) -> None:
    """Partial results of reductions, and one block per row for what is repeated along columns."""
    ops = [v for r in plan.program.regions() for v in r.ops]
    reduced = [v for v in ops if v.op == "reduce" and v.axes[1] == ONE]
    plan.partial_bytes = most_of([_partial_bytes(plan.program, v) for v in reduced])
    packed = [v for v in ops if v.op == "pack"]
    plan.steps_bytes = most_of([value_bytes(plan.program, (ONE, v.axes[1]), i32) for v in packed])
    plan.blocks_bytes = most_of([blocks_bytes(plan.program, v) for v in ops if needs_blocks(v)])


def _partial_bytes(program: Program, v: Value) -> Amount:
    """row_reduce_bytes, which it is where the sizes are known."""
    axes, size = v.args[0].axes, v.dtype.bits // 8
    row, column = _symbol(program, axes[0]), _symbol(program, axes[1])
    rows = 1 if axes[0] == ONE else program.indices[axes[0]].size
    if row is None and column is None:
        return Amount.of(row_reduce_bytes(rows, program.indices[axes[1]].size, v.dtype.bits))
    group, every = _group_of(row, rows)
    found = group * REPEAT_BYTES + every * BLOCK_BYTES + Amount.of(REPEAT_BYTES)
    if column is None:
        return found + group * (program.indices[axes[1]].size * size // 128 * 32 + 32)
    width = names_of(column).width if column.whole else column.chosen
    for term, c in group.terms:
        found += Amount.of(-(-c * size // 4), *term, width)
    return found + group * BLOCK_BYTES


def _group_of(row: Index | None, rows: int) -> tuple[Amount, Amount]:
    """Rows that go together, and all rows in whole eights."""
    if row is None:
        return Amount.of(min(rows, GROUP_ROWS)), Amount.of(-(-rows // 8) * 8)
    if row.whole:
        return Amount.of(GROUP_ROWS), Amount.of(1, names_of(row).width)
    return Amount.of(1, names_of(row).group), Amount.of(1, names_of(row).rows)


def needs_blocks(v: Value) -> bool:
    """One operand holds one number per row and the other one columns."""
    return v.op == "binary" and not v.is_rows and any(a.is_rows for a in v.args)


def blocks_bytes(program: Program, v: Value) -> Amount:
    """rows_room_bytes, which it is where the sizes are known."""
    rows = 1 if v.axes[0] == ONE else program.indices[v.axes[0]].size
    row = _symbol(program, v.axes[0])
    if row is None:
        return Amount.of(rows_room_bytes(rows))
    group, every = _group_of(row, rows)
    return group * REPEAT_BYTES + every * BLOCK_BYTES


def loops(program: Program) -> list[Loop]:
    """All loops, outermost first."""
    found, pending = [], [program.loop]
    while pending:
        loop = pending.pop(0)
        found.append(loop)
        pending += [n for n in loop.body if isinstance(n, Loop)]
    return found
