"""One lane of a tile as C++ of the scalar unit: lane numbers, scalars, and data read where it lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.form import numbers
from toprope.tile.form.nodes import Value
from toprope.tile.form.operations import OPERATIONS
from toprope.tile.passes.instructions import Buffer
from toprope.tile.passes.places import Sum, reshaped_axes


def number_text(value: Any, kind: Dtype) -> str:
    """A constant in C++."""
    if kind.name == "bool":
        return "true" if value else "false"
    if numbers.is_float(kind):
        if value != value:
            return '__builtin_nanf("")'
        if value in (float("inf"), float("-inf")):
            return "__builtin_inff()" if value > 0 else "-__builtin_inff()"
        text = repr(float(value))
        return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
    if kind.name == "uint64":
        return f"{int(value)}ull"
    return (
        f"{int(value)}"
        if -(1 << 31) < value < 1 << 31
        else f"(-{-int(value) - 1}ll - 1)"
        if value == -(1 << 63)
        else f"{int(value)}ll"
    )


def scalar_type(kind: Dtype) -> str:
    """How the scalar unit holds an element type: whole numbers in 64 bits, floats as float."""
    return (
        "bool"
        if kind.name == "bool"
        else "float"
        if numbers.is_float(kind)
        else "uint64_t"
        if kind.name == "uint64"
        else "int64_t"
    )


def wrapped(text: str, kind: Dtype, *, lane: bool) -> str:
    """A result in the width of its type; whole scalars keep 64 bits."""
    if kind.name in ("bool", "float32", "int64", "uint64") or (kind.name == "int32" and not lane):
        return text
    if kind.name == "float16":
        return f"static_cast<float>(static_cast<half>({text}))"
    if kind.name == "bfloat16":
        return f"ToFloat(ToBfloat16({text}))"
    return f"static_cast<{kind.cpp}>({text})"


def converted(text: str, start: Dtype, to: Dtype, *, lane: bool) -> str:
    """A cast on the scalar unit."""
    if to.name == "bool":
        return f"({text}) != 0"
    if numbers.is_float(to):
        return wrapped(f"static_cast<float>({text})", to, lane=lane)
    if numbers.is_float(start):
        return wrapped(f"static_cast<int64_t>({text})", to, lane=lane)
    return wrapped(f"static_cast<{scalar_type(to)}>({text})", to, lane=lane)


def applied(op: str, args: list[str], operand: Dtype, result: Dtype, *, lane: bool) -> str:
    """An operation of the table."""
    if operand.name == "bool" and op == "not":
        return f"!{args[0]}"
    text = OPERATIONS[op].scalar.format(*args)
    return wrapped(f"({text})", result, lane=lane)


def read_lane(b: Buffer, place: str, kind: Dtype) -> str:
    """One element of a buffer."""
    if kind.name == "bool":
        return f"({b}.ReinterpretCast<int16_t>().GetValue({place}) != 0)"
    if kind.name == "bfloat16":
        return f"ToFloat({b}.GetValue({place}))"
    text = f"{b}.GetValue({place})"
    return f"static_cast<{scalar_type(kind)}>({text})"


def write_lane(b: Buffer, place: str, text: str, kind: Dtype) -> str:
    """A statement that writes one element."""
    if kind.name == "bool":
        return f"{b}.ReinterpretCast<int16_t>().SetValue({place}, static_cast<int16_t>({text} ? 0x3C00 : 0));"
    if kind.name == "bfloat16":
        return f"{b}.SetValue({place}, ToBfloat16({text}));"
    return f"{b}.SetValue({place}, static_cast<{kind.cpp}>({text}));"


def flat(shape: tuple[int, ...], coordinates: list[str]) -> str:
    """The place of a lane in order of rows."""
    text = "0"
    for extent, c in zip(shape, coordinates, strict=True):
        if extent == 1:
            continue
        text = c if text == "0" else f"({text}) * {extent} + {c}"
    return text


def unflat(shape: tuple[int, ...], place: str) -> list[str]:
    """Coordinates of a place."""
    found: list[str] = []
    inner = 1
    for extent in reversed(shape):
        found.append(
            "0" if extent == 1 else f"({place}) / {inner} % {extent}" if inner > 1 else f"({place}) % {extent}"
        )
        inner *= extent
    return found[::-1]


class LaneText:
    """Lanes of one innermost loop: what several places ask for is computed once, in `lines`."""

    def __init__(
        self,
        homes: Mapping[Value, Buffer],
        on_the_spot: Callable[[Value], bool],
        scalar: Callable[[Value], str],
        names: Callable[[str], str],
    ) -> None:
        self.homes, self.on_the_spot, self.scalar, self.names = homes, on_the_spot, scalar, names
        self.lines: list[str] = []
        self.read: set[Buffer] = set()
        self._known: dict[Any, str] = {}

    def sum(self, s: Sum) -> str:
        """A whole number over scalars."""
        if isinstance(s, int):
            return str(s)
        if isinstance(s, Value):
            return self.scalar(s)
        left, right = self.sum(s[1]), self.sum(s[2])
        if s[0] == "*":
            left = f"({left})" if isinstance(s[1], tuple) and s[1][0] == "+" else left
            right = f"({right})" if (isinstance(s[2], tuple) and s[2][0] == "+") or right.startswith("-") else right
        return f"{left} {s[0]} {right}"

    def lane(self, v: Value, at: list[str]) -> str:
        """The lane of a value at coordinates."""
        if not v.shape:
            return self.scalar(v)
        if v in self.homes and not (v.op in ("iota",) or (v.op == "broadcast" and v.args[0] in self.homes)):
            return self._named(v, at, read_lane(self._home(v), flat(v.shape, at), v.dtype))
        return self.made(v, at)

    def _home(self, v: Value) -> Buffer:
        self.read.add(self.homes[v])
        return self.homes[v]

    def _named(self, v: Value, at: list[str], text: str) -> str:
        key = (v, tuple(at))
        if key not in self._known:
            name = self.names("l")
            self.lines.append(f"const {scalar_type(v.dtype)} {name} = {text};")
            self._known[key] = name
        return self._known[key]

    def made(self, v: Value, at: list[str]) -> str:
        """The lane out of what the value is made of."""
        a = v.attributes
        match v.op:
            case "splat":
                return (
                    wrapped(self.scalar(v.args[0]), v.dtype, lane=True)
                    if v.dtype.name == "int32" and v.args[0].constant is None
                    else self.scalar(v.args[0])
                )
            case "iota":
                return at[0]
            case "broadcast":
                return self.lane(v.args[0], ["0" if e == 1 else c for e, c in zip(v.args[0].shape, at, strict=True)])
            case "reshape":
                return self.lane(v.args[0], self._reshaped(v, at))
            case "transpose":
                inner = ["0"] * len(at)
                for n, axis in enumerate(a["axes"]):
                    inner[axis] = at[n]
                return self.lane(v.args[0], inner)
            case "slice":
                step = "" if a["step"] == 1 else f" * {a['step']}" if a["step"] > 0 else f" * ({a['step']})"
                begin = f"{a['begin']} + " if a["begin"] else ""
                inner = [f"({begin}{c}{step})" if n == a["axis"] else c for n, c in enumerate(at)]
                return self.lane(v.args[0], inner)
            case "concat":
                return self._concat(v, at)
            case "gather":
                index = self.lane(v.args[1], at)
                return self._named(
                    v, at, self.lane(v.args[0], [index if n == a["axis"] else c for n, c in enumerate(at)])
                )
            case "cast":
                x = self.lane(v.args[0], at)
                return self._named(v, at, converted(x, v.args[0].dtype, v.dtype, lane=True))
            case "select":
                c, x, y = (self.lane(p, at) for p in v.args)
                return self._named(v, at, f"{c} ? {x} : {y}")
            case "bitcast":
                return self._named(v, at, converted(self.lane(v.args[0], at), v.args[0].dtype, v.dtype, lane=True))
        args = [self.lane(x, at) for x in v.args]
        return self._named(v, at, applied(v.op, args, v.args[0].dtype, v.dtype, lane=True))

    def _reshaped(self, v: Value, at: list[str]) -> list[str]:

        axes = reshaped_axes(v.args[0].shape, v.shape)
        if axes is None:
            return unflat(v.args[0].shape, flat(v.shape, at))
        inner = ["0"] * len(v.args[0].shape)
        for n, axis in enumerate(axes):
            if axis is not None:
                inner[axis] = at[n]
        return inner

    def _concat(self, v: Value, at: list[str]) -> str:
        axis, begin = v.attributes["axis"], 0
        c, text = at[axis], ""
        for part in v.args:
            here = c if begin == 0 else f"({c} - {begin})"
            extent = part.shape[axis]
            before, self.lines = self.lines, []
            known, self._known = self._known, dict(self._known)
            lane = self.lane(part, [here if n == axis else x for n, x in enumerate(at)])
            inner, self.lines = self.lines, before
            self._known = known
            for line in inner:  # a part's lanes exist only where its places do
                kind, _, rest = line.removeprefix("const ").partition(" ")
                name, _, value = rest.partition(" = ")
                low = "" if begin == 0 else f"{c} >= {begin} && "
                self.lines.append(
                    f"const {kind} {name} = {low}{c} < {begin + extent} ? {value.rstrip(';')} : {kind}(0);"
                )
            begin += extent
            text += f"{c} < {begin} ? {lane} : " if part is not v.args[-1] else lane
        return f"({text})"
