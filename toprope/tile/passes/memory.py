"""Loads, stores and atomics as copies of rows where neighbours lie side by side, else element by element."""

from __future__ import annotations

from math import prod
from typing import Any

from toprope.tile.form.nodes import Store, Value, boolean, i8
from toprope.tile.passes.instructions import Buffer, Memory
from toprope.tile.passes.lane_text import LaneText, flat, read_lane, scalar_type, write_lane
from toprope.tile.passes.places import Access
from toprope.tile.text.pieces import CLIP

_ATOMIC = {"add": "SetAtomicAdd", "max": "SetAtomicMax", "min": "SetAtomicMin"}
_ATOMIC_TYPES = ("float32", "float16", "bfloat16", "int32", "int16", "int8")


class MemoryAccess:
    """Global memory."""

    demand: Any
    add: Any
    use: Any
    buffer: Any
    data: Any
    fill: Any
    number: Any
    scalar: Any
    sum: Any
    lanes: Any
    loops: Any
    lane_loop: Any
    view: Any
    stores: Any
    name: Any
    gathered: Any
    copy: Any
    spread: Any
    nonzero: Any
    scratch: Any

    # ---- scalars -----------------------------------------------------------------------------------------------------

    def scalar_load(self, v: Value, args: list[str]) -> str:
        """One element by the scalar unit."""
        element = f"{self.view(v.attributes['array'], v.dtype)}.GetValue({args[0]})"
        text = (
            f"ToFloat({element})"
            if v.dtype.name == "bfloat16"
            else f"{element} != 0"
            if v.dtype == boolean
            else f"static_cast<{_scalar(v)}>({element})"
        )
        if v.attributes["masked"]:
            other = args[2] if v.attributes["other"] else f"{_scalar(v)}(0)"
            return f"{args[1]} ? {text} : {other}"
        return text

    # ---- loads -------------------------------------------------------------------------------------------------------

    def load(self, v: Value) -> Any:
        """A tile out of global memory."""
        access: Access = self.demand.accesses[v]
        made = self.buffer(v.dtype, v.type.size)
        other = v.args[-1] if v.attributes["other"] else None
        shape = v.shape
        plan = row_plan(access, shape, made.dtype.bits)
        if plan is None or (other is not None and other.op != "splat"):
            self.load_lanes(v, access, made, other)
            return made
        axes = plan
        fill = self.number(other.args[0], v.dtype) if other is not None else f"static_cast<{made.dtype.cpp}>(0)"
        turned = _moved(axes, shape)
        to = self.buffer(v.dtype, v.type.size) if turned else made
        if access.partial:
            self.fill(to, fill)
        self.rows(access, shape, axes, v.attributes["array"], v.dtype, to, fill, "")
        if turned:
            self.gathered(made, to, tuple(shape[a] for a in axes), tuple(axes.index(n) for n in range(len(shape))))
        return made

    def load_lanes(self, v: Value, access: Access, made: Buffer, other: Value | None) -> None:
        """Element by element on the scalar unit."""
        view = self.view(v.attributes["array"], v.dtype)

        def body(lane: LaneText, at: list[str]) -> list[str]:
            place, inside = self.place_of(access, lane, at), self.inside(access, lane, at)
            element = f"{view}.GetValue({place})"
            spot = flat(v.shape, at)
            write = f"{made}.SetValue({spot}, {element});"
            if v.dtype == boolean:
                write = write_lane(made, spot, f"{element} != 0", boolean)
            if not inside:
                return [write]
            rest = lane.lane(other, at) if other is not None else "0"
            return [f"if ({inside}) {write}", f"else {write_lane(made, spot, rest, v.dtype)}"]

        self.lane_loop(v.shape, body, [made], reads=[Memory(v.attributes["array"])])

    def place_of(self, access: Access, lane: LaneText, at: list[str]) -> str:
        """The offset of a lane."""
        terms = []
        base = lane.sum(access.affine.base)
        for stride, c in zip(access.affine.strides, at, strict=True):
            if stride != 0 and c != "0":
                s = lane.sum(stride)
                s = f"({s})" if (isinstance(stride, tuple) and stride[0] == "+") or s.startswith("-") else s
                terms.append(c if s == "1" else f"{c} * {s}")
        terms += [lane.lane(v, at) for v in access.others]
        return " + ".join(([base] if base != "0" or not terms else []) + terms)

    def inside(self, access: Access, lane: LaneText, at: list[str], skip: int | None = None) -> str:
        """The condition under which a lane counts."""
        found = []
        for bounds, sign in ((access.lows, ">="), (access.highs, "<")):
            for axis, limits in bounds.items():
                if axis != skip:
                    found += [f"{at[axis]} {sign} {lane.sum(s)}" for s in limits]
        found += [lane.lane(v, at) for v in access.conditions]
        return " && ".join(dict.fromkeys(found))

    def rows(
        self,
        access: Access,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        array: str,
        kind: Any,
        local: Buffer,
        fill: str,
        value: str,
    ) -> None:
        """Rows of neighbours between memory and a buffer whose axes lie in the order `axes`; `value` (a stage) for stores."""
        self.use(CLIP)
        view = self.view(array, kind)
        along, width = axes[-1], shape[axes[-1]]
        lane = self.lanes()
        low = "0"
        for s in access.lows.get(along, []):
            low = f"Most({low}, {lane.sum(s)})"
        high = str(width)
        for s in access.highs.get(along, []):
            high = f"Least({high}, {lane.sum(s)})"
        outer = [a for a in axes[:-1] if shape[a] > 1]
        # the innermost outer axis goes in one copy where only strides and a limit move along it
        busy = (
            frozenset[int]().union(*(self.demand.places.axes_of(v) for v in [*access.others, *access.conditions]))
            if access.others or access.conditions
            else frozenset[int]()
        )
        many = outer[-1] if outer and outer[-1] not in busy and outer[-1] not in access.lows else None
        heads, at = [], ["0"] * len(shape)
        for a in outer:
            if a == many:
                continue
            k = self.name("k")
            at[a] = k
            begin, end = "0", str(shape[a])
            for s in access.lows.get(a, []):
                begin = f"Most({begin}, {lane.sum(s)})"
            for s in access.highs.get(a, []):
                end = f"Least({end}, {lane.sum(s)})"
            heads.append(f"for (int64_t {k} = {begin}; {k} < {end}; {k}++) {{")
        count, stride = "1", "0"
        if many is not None:
            count = str(shape[many])
            for s in access.highs.get(many, []):
                count = f"Least({count}, {lane.sum(s)})"
            stride = lane.sum(access.affine.strides[many])
        conditions = [lane.lane(v, at) for v in access.conditions]
        for a in range(len(shape)):  # a scalar limit on an axis of one lane
            if shape[a] == 1:
                conditions += [f"0 >= {lane.sum(s)}" for s in access.lows.get(a, [])] + [
                    f"0 < {lane.sum(s)}" for s in access.highs.get(a, [])
                ]
        place = self.place_of(access, lane, at)
        spot = flat(tuple(shape[a] for a in axes), [at[a] for a in axes])
        here = f"{local}[{spot}]" if spot != "0" else f"{local}"
        there = f"{view}[{place}]" if place != "0" else view
        store = f"StoreRows({there}, {here}, {count}, {high}, {stride}, {width});"
        if access.lows.get(along):
            store = f"StoreParts({there}, {here}, {count}, {low}, {high}, {stride}, {width}, {value});"
        call = store if value else f"LoadRows({here}, {there}, {count}, {low}, {high}, {stride}, {width}, {fill});"
        lines = [*lane.lines, f"if ({' && '.join(conditions)}) {call}" if conditions else call]
        text, indent = [], ""
        for h in heads:
            text.append(indent + h)
            indent += "    "
        text += [indent + x for x in lines]
        for _ in heads:
            indent = indent[:-4]
            text.append(indent + "}")
        if not heads and len(lines) > 1:
            text = ["{", *("    " + x for x in lines), "}"]
        read = sorted(lane.read, key=str)
        if value:
            exact = not access.lows.get(along)
            self.add(
                "\n".join(text),
                "MTE3" + ("" if exact else " S") + (" S" if read else ""),
                [local, *read],
                [Memory(array)],
            )
        else:
            self.add("\n".join(text), "MTE2" + (" S" if read else ""), [Memory(array), *read], [local])

    # ---- stores ------------------------------------------------------------------------------------------------------

    def store(self, s: Store) -> None:
        """A tile or number to global memory."""
        access: Access = self.demand.accesses[s]
        kind = i8 if s.dtype == boolean else s.dtype
        if not s.offset.shape:
            self.store_scalar(s, kind)
            return
        if (
            s.old is not None
            or s.atomic in ("and", "or", "xor", "xchg", "cas")
            or (s.atomic and s.dtype.name not in _ATOMIC_TYPES)
        ):
            self.in_turn(s, access)
            return
        x = self.data(s.value)
        if s.dtype == boolean:
            narrow = self.buffer(i8, s.value.type.size)
            self.add(f"Cast({narrow}, {x}, RoundMode::CAST_RINT, {s.value.type.size});", "V", [x], [narrow])
            x = narrow
        if s.atomic:
            self.add(f"{_ATOMIC[s.atomic]}<{kind.cpp}>();", "S")
        axes = row_plan(access, s.offset.shape, kind.bits)
        stage = f"stage.Get<{kind.cpp}>()"
        if axes is None:
            self.store_lanes(s, access, x, stage)
        else:
            if _moved(axes, s.offset.shape):
                turned = self.buffer(kind, s.value.type.size)
                self.gathered(turned, x, s.value.shape, axes)
                x = turned
            self.rows(access, s.offset.shape, axes, s.array, s.dtype, x, "", stage)
        if s.atomic:
            self.add("SetAtomicNone();", "S")

    def store_scalar(self, s: Store, kind: Any) -> None:
        """One number."""
        if (
            s.old is not None
            or s.atomic in ("and", "or", "xor", "xchg", "cas")
            or (s.atomic and s.dtype.name not in _ATOMIC_TYPES)
        ):
            self.in_turn(s, self.demand.accesses[s])
            return
        text = f"Put({self.view(s.array, s.dtype)}[{self.scalar(s.offset)}], {_element(kind, self.scalar(s.value))}, stage.Get<{kind.cpp}>());"
        if s.atomic:
            text = f"{_ATOMIC[s.atomic]}<{kind.cpp}>();\n{text}\nSetAtomicNone();"
        if s.mask is not None:
            text = f"if ({self.scalar(s.mask)}) {{\n    " + text.replace("\n", "\n    ") + "\n}"
        self.add(text, "MTE3 S", (), [Memory(s.array)])

    def store_lanes(self, s: Store, access: Access, x: Buffer, stage: str) -> None:
        """Element by element."""
        view = self.view(s.array, s.dtype)

        def body(lane: LaneText, at: list[str]) -> list[str]:
            place, inside = self.place_of(access, lane, at), self.inside(access, lane, at)
            put = f"Put({view}[{place}], {x}.GetValue({flat(s.offset.shape, at)}), {stage});"
            return [f"if ({inside}) {put}" if inside else put]

        self.lane_loop(s.offset.shape, body, [Memory(s.array)], "MTE3 S", [x])

    def in_turn(self, s: Store, access: Access) -> None:
        """Atomics whose old value somebody reads, or that the copies do not have: read, join, written; the grid runs on one core."""
        view = self.view(s.array, s.dtype)
        value = self.data(s.value) if s.value.shape else None
        compare = self.data(s.compare) if s.compare is not None and s.compare.shape else None
        home = self.stores.get(s.old) if s.old is not None else None
        kind = s.dtype

        def body(lane: LaneText, at: list[str]) -> list[str]:
            place = self.scalar(s.offset) if not s.offset.shape else self.place_of(access, lane, at)
            inside = (
                self.inside(access, lane, at) if s.offset.shape else self.scalar(s.mask) if s.mask is not None else ""
            )
            spot = flat(s.offset.shape, at)
            held = "ToFloat(element)" if kind.name == "bfloat16" else "element"
            new = read_lane(value, spot, kind) if value is not None else self.scalar(s.value)
            wanted = (
                read_lane(compare, spot, kind)
                if compare is not None
                else self.scalar(s.compare)
                if s.compare is not None
                else ""
            )
            wide = (
                "const auto old = static_cast<"
                + ("float" if kind.name in ("float16", "float32", "bfloat16") else "int64_t")
                + f">({held});"
            )
            join = {
                "add": f"old + {new}", "max": f"old > {new} ? old : {new}", "min": f"old < {new} ? old : {new}", "and": f"old & {new}",
                "or": f"old | {new}", "xor": f"old ^ {new}", "xchg": new, "cas": f"old == {wanted} ? {new} : old",
            }[s.atomic]  # fmt: skip
            lines = [
                f"const {kind.cpp} element = {view}.GetValue({place});", wide,
                f"Put({view}[{place}], {_element(kind, join)}, stage.Get<{kind.cpp}>());", "Sync<HardEvent::MTE3_S>();",
                f"DataCacheCleanAndInvalid<{kind.cpp}, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>({view}[{place}]);",
            ]  # fmt: skip
            if isinstance(home, Buffer):
                lines.append(write_lane(home, spot, "old", kind))
            elif home is not None:
                lines.append(f"{home} = old;")
            return [f"if ({inside}) {{", *("    " + x for x in lines), "}"] if inside else lines

        touched = [Memory(s.array)] + ([home] if isinstance(home, Buffer) else [])
        self.lane_loop(
            s.offset.shape, body, touched, "MTE3 S", [b for b in (value, compare) if b is not None] + [Memory(s.array)]
        )


def row_plan(access: Access, shape: tuple[int, ...], bits: int) -> tuple[int, ...] | None:
    """The order of axes in which lanes can be copied as rows of whole blocks of 32 bytes, or None."""
    along = access.along
    if along is None:
        return None
    rank = len(shape)
    last = next((n for n in reversed(range(rank)) if shape[n] > 1), rank - 1)
    axes = tuple(range(rank)) if along == last else (*(n for n in range(rank) if n != along), along)
    if along == last and last != rank - 1:  # behind it only axes of one lane
        axes = (*(n for n in range(rank) if n != last), last)
        if axes != tuple(sorted(axes)) and prod(shape[last + 1 :]) == 1:
            axes = (*range(last), *range(last + 1, rank), last)
    rows = prod(shape) // shape[along]
    if rows > 1 and shape[along] * bits % 256:
        return None
    if along != last and (bits not in (16, 32) or prod(shape) > 8192):
        return None
    return axes


def _moved(axes: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether lanes change places."""
    kept = [a for a in axes if shape[a] > 1]
    return kept != sorted(kept)


def _scalar(v: Value) -> str:
    return scalar_type(v.dtype)


def _element(kind: Any, text: str) -> str:
    return f"ToBfloat16({text})" if kind.name == "bfloat16" else f"static_cast<{kind.cpp}>({text})"
