"""A form as instructions: tiles in buffers of the unified buffer, scalars on the scalar unit, control flow as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.form import numbers
from toprope.tile.form.nodes import (
    Block,
    For,
    Form,
    If,
    Leave,
    Say,
    Set,
    Store,
    Type,
    Value,
    Variable,
    While,
    boolean,
    f16,
    i8,
)
from toprope.tile.form.operations import OPERATIONS
from toprope.tile.passes.demand import Demand
from toprope.tile.passes.instructions import Buffer, Declare, Instruction, Memory, Node, Program, Scope, Touched
from toprope.tile.passes.lane_text import (
    LaneText,
    applied,
    converted,
    flat,
    number_text,
    scalar_type,
    wrapped,
    write_lane,
)
from toprope.tile.passes.memory import MemoryAccess
from toprope.tile.passes.places import Sum
from toprope.tile.passes.vector import VectorWork
from toprope.tile.text.pieces import NEEDS


class Lowering(VectorWork, MemoryAccess):
    """One form on its way to instructions."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.demand = Demand(form)
        self.program = Program([])
        self.block: list[Node] = self.program.body
        self.homes: dict[Value, Buffer] = {}
        self.stores: dict[Variable, Buffer | str] = {}
        self.scalars: dict[Value, str] = {}
        self.kept: dict[Any, Buffer] = {}
        self.line = 0
        self._count = 0
        self.room_bytes = 0
        self.room = Buffer("room", numbers_dtype("float32"), 0)
        self.declare_variables()

    # ---- names and buffers -------------------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        """A name that nobody has."""
        self._count += 1
        return f"{stem}{self._count}"

    def storage(self, kind: Dtype) -> Dtype:
        """How lanes lie in a buffer: conditions as float16 0 or 1."""
        return f16 if kind == boolean else kind

    def buffer(self, kind: Dtype, count: int) -> Buffer:
        """New bytes for lanes."""
        made = Buffer(self.name("t"), self.storage(kind), count, self.line)
        self.block.append(Declare(made))
        return made

    def scratch(self, size: int) -> None:
        """Bytes that one instruction needs for itself."""
        self.room_bytes = max(self.room_bytes, size)

    def add(self, text: str, pipes: str = "V", reads: Sequence[Touched] = (), writes: Sequence[Touched] = ()) -> None:
        """The next instruction; functions that its text calls come along."""
        for call, pieces in NEEDS.items():
            if f"{call}(" in text or f"{call}<" in text:
                for p in pieces:
                    self.program.pieces[p] = p
        self.block.append(Instruction(text, tuple(pipes.split()), tuple(reads), tuple(writes), self.line))

    def use(self, piece: str) -> None:
        """A fixed function."""
        self.program.pieces[piece] = piece

    def view(self, array: str, kind: Dtype) -> Any:
        """An array as global memory of an element type."""
        kind = i8 if kind == boolean else kind
        return self.program.views.setdefault(
            (array, kind),
            f"{array}Gm"
            if not any(a == array for a, _ in self.program.views)
            else f"{array}As{kind.name.capitalize()}",
        )

    # ---- statements --------------------------------------------------------------------------------------------------

    def declare_variables(self) -> None:
        """Variables live in the whole program."""
        from toprope.tile.form.nodes import walk

        for s in walk(self.form.body):
            found = [s.variable] if isinstance(s, Set) else [s.old] if isinstance(s, Store) and s.old else []
            for v in found:
                if v in self.stores:
                    continue
                self.line = s.line
                if v.type.shape:
                    self.stores[v] = self.buffer(v.type.dtype, v.type.size)
                else:
                    name = self.name("v")
                    self.stores[v] = name
                    self.add(f"{scalar_type(v.type.dtype)} {name} = 0;", "S")

    def run(self, block: Block) -> None:
        """The statements in order."""
        for s in block:
            self.line = s.line or self.line
            match s:
                case Value():
                    self.define(s)
                case Store():
                    self.store(s)
                case Set():
                    self.set(s.variable, s.value)
                case For():
                    name = self.name("i")
                    begin, end, step = (self.scalar(v) for v in (s.begin, s.end, s.step))
                    test = f"{name} < {end}"
                    if s.step.constant is None:
                        test = f"{step} > 0 ? {test} : {name} > {end}"
                    elif s.step.constant < 0:
                        test = f"{name} > {end}"
                    self.stores[s.index] = name
                    self.scope(f"for (int64_t {name} = {begin}; {test}; {name} += {step}) {{", s.body, loop=True)
                case While():
                    body: list[Node] = []
                    outer, self.block = self.block, body
                    self.run(s.head)
                    self.add(f"if (!({self.scalar(s.condition)})) break;", "S")
                    self.run(s.body)
                    self.block = outer
                    self.block.append(Scope("while (true) {", body, True, line=s.line))
                case If():
                    self.scope(f"if ({self.scalar(s.condition)}) {{", s.body, loop=False, orelse=s.orelse)
                case Leave():
                    self.add(f"{s.kind};", "S")
                case Say(kind="assert"):
                    for v in s.values:
                        if not v.shape:
                            self.add(f"ASSERT({self.scalar(v)});", "S")

    def scope(self, head: str, block: Block, *, loop: bool, orelse: Block | None = None) -> None:
        """A loop or branch."""
        made = Scope(head, [], loop, line=self.line)
        outer, self.block = self.block, made.body
        self.run(block)
        if orelse:
            made.orelse = self.block = []
            self.run(orelse)
        self.block = outer
        self.block.append(made)

    def set(self, variable: Variable, value: Value) -> None:
        """variable = value."""
        home = self.stores[variable]
        if isinstance(home, str):
            self.add(f"{home} = {self.scalar(value)};", "S")
            return
        x = self.data(value)
        self.copy(home, x, value.type.size)

    def define(self, v: Value) -> None:
        """A value where it stands, if somebody needs it."""
        if not v.shape:
            if v in self.demand.scalars and v.op != "constant":
                self.define_scalar(v)
            return
        if v not in self.demand.data:
            return
        if v.op == "load":
            self.homes[v] = self.load(v)
        elif v.op == "read":
            home = self.stores[v.attributes["variable"]]
            assert isinstance(home, Buffer)
            made = self.buffer(v.dtype, v.type.size)
            self.copy(made, home, v.type.size)
            self.homes[v] = made
        else:
            self.homes[v] = self.compute(v)

    # ---- scalars -----------------------------------------------------------------------------------------------------

    def scalar(self, v: Value) -> str:
        """A scalar's text."""
        if v.op == "constant":
            return number_text(v.attributes["value"], v.dtype)
        return self.scalars[v]

    def sum(self, s: Sum) -> str:
        """A whole number over scalars."""
        return self.lanes().sum(s)

    def lanes(self) -> LaneText:
        """For the lanes of one loop."""
        return LaneText(self.homes, self.demand.on_the_spot, self.scalar, self.name)

    def define_scalar(self, v: Value) -> None:
        """A number of the scalar unit, under a name."""
        kind, reads, pipes = scalar_type(v.dtype), list[Touched](), "S"
        if v.op == "argument":
            self.scalars[v] = f"{v.attributes['name']}Arg"
            return
        if v.op in ("program", "programs"):
            self.scalars[v] = f"{'pid' if v.op == 'program' else 'grid'}{v.attributes['axis']}"
            return
        args = [self.scalar(a) for a in v.args if not a.shape]
        if v.op == "read":
            text = str(self.stores[v.attributes["variable"]])
        elif v.op == "item":
            x = self.data(v.args[0])
            lane = self.lanes()
            lane.homes = {v.args[0]: x}
            text = lane.lane(v.args[0], ["0"] * len(v.args[0].shape))
            self.flush(lane)
            reads.append(x)
        elif v.op == "reduce":
            x = self.compute_reduce(v)
            probe = Value("item", Type(v.dtype, (1,)))
            lane = self.lanes()
            lane.homes = {probe: x}
            text = lane.lane(probe, ["0"])
            for line in lane.lines:
                self.add(line, "S", [x])
        elif v.op == "load":
            text = self.scalar_load(v, args)
            reads.append(Memory(v.attributes["array"]))
        elif v.op == "cast":
            text = converted(args[0], v.args[0].dtype, v.dtype, lane=False)
            if v.attributes.get("mode") == "rint":
                text = converted(self.on_lane("CAST_RINT", args[0]), v.args[0].dtype, v.dtype, lane=False)
        elif v.op == "select":
            text = f"{args[0]} ? {args[1]} : {args[2]}"
        elif v.op == "bitcast":
            text = self.scalar_bits(v, args[0])
        elif OPERATIONS[v.op].scalar:
            text = applied(v.op, args, v.args[0].dtype, v.dtype, lane=False)
        else:
            text = wrapped(self.on_lane(OPERATIONS[v.op].vector, args[0]), v.dtype, lane=False)
            pipes = "V S"
        name = self.name("s")
        self.add(f"const {kind} {name} = {text};", pipes, reads)
        self.scalars[v] = name

    def scalar_bits(self, v: Value, text: str) -> str:
        """The bits of a number as another type, through a lane."""
        lane = self.buffer(v.args[0].dtype, 8)
        self.add(write_lane(lane, "0", text, v.args[0].dtype), "S", (), [lane])
        return f"static_cast<{scalar_type(v.dtype)}>({lane}.ReinterpretCast<{v.dtype.cpp}>().GetValue(0))"

    def on_lane(self, call: str, text: str) -> str:
        """A function that only the vector unit has, on one number."""
        work = f"Cast(x, x, RoundMode::{call}, 1)" if call.startswith("CAST") else f"{call}(x, x, 1)"
        lane = self.buffer(numbers_dtype("float32"), 8)
        return f"OnLane({lane}, {text}, [](const LocalTensor<float>& x) {{ {work}; }})"

    # ---- lane loops --------------------------------------------------------------------------------------------------

    def flush(self, lane: LaneText) -> None:
        """Lines of lanes that stand outside loops."""
        for line in lane.lines:
            self.add(line, "S", sorted(lane.read, key=str))
        lane.lines = []

    def loops(self, shape: tuple[int, ...], stem: str = "k") -> tuple[list[str], list[str]]:
        """(heads of loops over lanes, coordinates)."""
        heads, coordinates = [], []
        for extent in shape:
            if extent == 1:
                coordinates.append("0")
                continue
            k = self.name(stem)
            heads.append(f"for (int64_t {k} = 0; {k} < {extent}; {k}++) {{")
            coordinates.append(k)
        return heads, coordinates

    def lane_loop(
        self,
        shape: tuple[int, ...],
        body: Any,
        writes: Sequence[Touched],
        pipes: str = "S",
        reads: Sequence[Touched] = (),
    ) -> None:
        """A loop of the scalar unit over lanes; `body(lane text, coordinates)` gives its last lines."""
        heads, at = self.loops(shape)
        lane = self.lanes()
        last = body(lane, at)
        lines = [*lane.lines, *last]
        text, indent = [], ""
        for h in heads:
            text.append(indent + h)
            indent += "    "
        text += [indent + line for line in lines]
        for _ in heads:
            indent = indent[:-4]
            text.append(indent + "}")
        if not heads:
            text = ["{", *("    " + line for line in lines), "}"]
        self.add("\n".join(text), pipes, [*sorted(lane.read, key=str), *reads], writes)

    def lane_by_lane(self, v: Value, made: Buffer) -> None:
        """A tile on the scalar unit."""
        self.lane_loop(
            v.shape, lambda lane, at: [write_lane(made, flat(v.shape, at), lane.made(v, at), v.dtype)], [made]
        )


def numbers_dtype(name: str) -> Dtype:
    """An element type by name."""
    from toprope.dtypes import dtype

    return dtype(name)


def lowered(form: Form) -> Lowering:
    """The instructions of a form. Raises TileError for what has no meaning on the chip."""
    found = Lowering(form)
    found.run(form.body)
    return found


__all__ = ["Lowering", "lowered", "numbers", "prod"]
