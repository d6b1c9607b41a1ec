"""Tiles on the vector unit; what it cannot do goes lane by lane."""

from __future__ import annotations

from math import prod
from typing import Any

from toprope.tile.emit_text import ROW_REDUCE, row_reduce_bytes
from toprope.tile.form import numbers
from toprope.tile.form.evaluate import by_rows
from toprope.tile.form.nodes import Type, Value, boolean, f16, f32, i32
from toprope.tile.form.operations import COMPARISONS, ELEMENTWISE, OPERATIONS, ROUNDINGS, cast_steps
from toprope.tile.passes.demand import by_vector, uses_bits
from toprope.tile.passes.instructions import Buffer
from toprope.tile.passes.lane_text import number_text

_FOLDS = {"sum": "'+'", "max": "'>'", "min": "'<'", "prod": "'*'", "or": "'|'", "and": "'&'"}


class VectorWork:
    """Values as buffers."""

    homes: dict[Value, Buffer]
    demand: Any
    kept: dict[Any, Buffer]
    program: Any
    block: Any
    add: Any
    use: Any
    buffer: Any
    scalar: Any
    scratch: Any
    room: Buffer
    lane_loop: Any
    lane_by_lane: Any
    name: Any
    storage: Any

    def data(self, v: Value) -> Any:
        """The buffer of a value; a repeated number is filled in where it is used."""
        if v in self.homes:
            return self.homes[v]
        assert v.op == "splat" or v in self.demand.lanes or v.op == "broadcast", f"{v.op} {v.type} was not asked for"
        made = self.buffer(v.dtype, v.type.size)
        if v.op == "splat":
            self.fill(made, self.number(v.args[0], v.dtype))
        else:
            self.lane_by_lane(v, made)
        return made

    def number(self, s: Value, kind: Any = None) -> str:
        """A scalar as an instruction takes it."""
        kind = kind or s.dtype
        text = self.scalar(s)
        if kind == boolean:
            return (
                "static_cast<half>(1.0f)"
                if text == "true"
                else "static_cast<half>(0.0f)"
                if text == "false"
                else f"static_cast<half>({text} ? 1.0f : 0.0f)"
            )
        if kind.name == "bfloat16":
            return f"ToBfloat16({text})"
        return text if kind.name == "float32" else f"static_cast<{kind.cpp}>({text})"

    def fill(self, made: Buffer, text: str) -> None:
        """One number in every lane."""
        self.add(f"Fill<{made.dtype.cpp}>({made}, {text}, {made.count});", "V", (), [made])

    def copy(self, to: Buffer, x: Buffer, count: int) -> None:
        """Lanes as they are, in whole blocks."""
        per = 256 // to.dtype.bits
        self.add(f"DataCopy({to}, {x}, {-(-count // per) * per});", "V", [x], [to])

    def compute(self, v: Value) -> Any:
        """A value that is neither loaded nor read from a variable."""
        if v.op == "reduce":
            return self.compute_reduce(v)
        if v.op == "reshape":
            return self.data(v.args[0])
        made = self.buffer(v.dtype, v.type.size)
        if v.op in ELEMENTWISE and by_vector(v):
            self.elementwise(v, made)
        elif v.op == "broadcast" and self.repeated(v, made):
            pass
        elif v.op in ("scan", "sort", "histogram", "dot"):
            getattr(self, f"compute_{v.op}")(v, made)
        elif (v.op in ("slice", "concat") and self.joined(v, made)) or (v.op == "transpose" and self.turned(v, made)):
            pass
        elif v.op == "iota" and v.dtype == i32:
            self.add(f"CreateVecIndex({made}, static_cast<int32_t>(0), {v.type.size});", "V", (), [made])
        else:
            self.lane_by_lane(v, made)
        return made

    # ---- element-wise ------------------------------------------------------------------------------------------------

    def elementwise(self, v: Value, made: Buffer) -> None:
        """One operation of the table, a cast or a choice."""
        n = v.type.size
        if v.op == "select":
            self.choose(v, made)
        elif v.op == "cast":
            self.cast(v, made)
        elif v.op == "bitcast":
            x = self.data(v.args[0])
            per = 256 // x.dtype.bits
            self.add(
                f"DataCopy({made}, {x}.ReinterpretCast<{made.dtype.cpp}>(), {-(-n // per) * per});", "V", [x], [made]
            )
        elif v.dtype == boolean and v.op in COMPARISONS and v.args[0].dtype != boolean:
            bits = self.compared(v)
            self.spread(bits, made, n)
        elif v.args[0].dtype == boolean:
            self.conditions(v, made)
        elif v.op in ROUNDINGS:
            x = self.data(v.args[0])
            self.add(f"Cast({made}, {x}, RoundMode::{OPERATIONS[v.op].vector}, {n});", "V", [x], [made])
        elif len(v.args) == 1:
            x = self.data(v.args[0])
            self.add(f"{OPERATIONS[v.op].vector}({made}, {x}, {n});", "V", [x], [made])
        else:
            self.binary(v, made)

    def binary(self, v: Value, made: Buffer) -> None:
        row, (a, b), n = OPERATIONS[v.op], v.args, v.type.size
        if a.op == "splat" and row.commutes:
            a, b = b, a
        if b.op == "splat" and row.with_number:
            x = self.data(a)
            self.add(f"{row.with_number}({made}, {x}, {self.number(b.args[0], v.dtype)}, {n});", "V", [x], [made])
        elif b.op == "splat" and v.op == "sub" and numbers.is_float(v.dtype):
            x = self.data(a)
            self.add(
                f"Adds({made}, {x}, static_cast<{v.dtype.cpp}>(-({self.number(b.args[0], v.dtype)})), {n});",
                "V",
                [x],
                [made],
            )
        else:
            x, y = self.data(a), self.data(b)
            self.add(f"{row.vector}({made}, {x}, {y}, {n});", "V", [x, y], [made])

    def conditions(self, v: Value, made: Buffer) -> None:
        """and, or, not of conditions, which are float16 0 or 1."""
        n, x = v.type.size, self.data(v.args[0])
        if v.op == "not":
            self.add(f"Muls({made}, {x}, static_cast<half>(-1.0f), {n});", "V", [x], [made])
            self.add(f"Adds({made}, {made}, static_cast<half>(1.0f), {n});", "V", [made], [made])
            return
        y = self.data(v.args[1])
        if v.op in ("and", "or"):
            self.add(f"{'Min' if v.op == 'and' else 'Max'}({made}, {x}, {y}, {n});", "V", [x, y], [made])
            return
        self.add(f"Sub({made}, {x}, {y}, {n});", "V", [x, y], [made])  # 0 where they are equal
        self.add(f"Abs({made}, {made}, {n});", "V", [made], [made])
        if v.op == "eq":
            self.add(f"Muls({made}, {made}, static_cast<half>(-1.0f), {n});", "V", [made], [made])
            self.add(f"Adds({made}, {made}, static_cast<half>(1.0f), {n});", "V", [made], [made])

    def compared(self, v: Value) -> Any:
        """A comparison as bits."""
        a, b = v.args
        mode, n = OPERATIONS[v.op].vector, v.type.size
        kind = a.dtype
        lanes = 2048 // kind.bits
        whole = -(-n // lanes) * lanes
        bits = self.buffer(_U8, -(-whole // 8))
        if kind == i32:
            x, y = self.data(a), self.data(b)
            if mode not in ("EQ", "NE"):
                low = self.buffer(i32, n)
                small, large = (x, y) if mode in ("LE", "GT") else (y, x)
                self.add(f"Min({low}, {small}, {large}, {n});", "V", [x, y], [low])
                x, y = low, small  # a <= b where min(a, b) is a; a >= b where it is b
            self.add(f"Compare({bits}, {x}, {y}, CMPMODE::EQ, {whole});", "V", [x, y], [bits])
            if mode in ("NE", "LT", "GT"):
                self.add(
                    f"Not({bits}.ReinterpretCast<uint16_t>(), {bits}.ReinterpretCast<uint16_t>(), {-(-whole // 16)});",
                    "V",
                    [bits],
                    [bits],
                )
            return bits
        if b.op == "splat":
            x = self.data(a)
            self.add(
                f"CompareScalar({bits}, {x}, {self.number(b.args[0], kind)}, CMPMODE::{mode}, {whole});",
                "V",
                [x],
                [bits],
            )
        else:
            x, y = self.data(a), self.data(b)
            self.add(f"Compare({bits}, {x}, {y}, CMPMODE::{mode}, {whole});", "V", [x, y], [bits])
        return bits

    def spread(self, bits: Buffer, made: Buffer, n: int) -> None:
        """Bits as float16 0 or 1."""
        ones = self.fixed(("ones",), f16, n, "Duplicate({0}, static_cast<half>(1.0f), {1});")
        self.add(
            f"Select({made}, {bits}, {ones}, static_cast<half>(0.0f), SELMODE::VSEL_TENSOR_SCALAR_MODE, {n});",
            "V",
            [bits, ones],
            [made],
        )

    def fixed(self, key: Any, kind: Any, count: int, text: str) -> Buffer:
        """Lanes that are made once, before the first step."""
        if key not in self.kept:
            self.kept[key] = Buffer(self.name("kept"), kind, count, fixed=True)
            self.program.fixed.append((self.kept[key], text))
        self.kept[key].count = max(self.kept[key].count, count)
        return self.kept[key]

    def bits_of(self, condition: Value) -> Any:
        """A condition as bits."""
        if uses_bits(condition) and condition not in self.homes:
            return self.compared(condition)
        x, n = self.data(condition), condition.type.size
        whole = -(-n // 128) * 128
        bits = self.buffer(_U8, whole // 8)
        self.add(f"CompareScalar({bits}, {x}, static_cast<half>(0.0f), CMPMODE::NE, {whole});", "V", [x], [bits])
        return bits

    def choose(self, v: Value, made: Buffer) -> None:
        """Lanes of a where the condition holds, else of b."""
        condition, a, b = v.args
        bits, n = self.bits_of(condition), v.type.size
        seen = "" if made.dtype in (f16, f32) else f".ReinterpretCast<{'float' if made.dtype.bits == 32 else 'half'}>()"
        x = self.data(a)
        if b.op == "splat" and not seen:
            self.add(
                f"Select({made}, {bits}, {x}, {self.number(b.args[0], v.dtype)}, SELMODE::VSEL_TENSOR_SCALAR_MODE, {n});",
                "V",
                [bits, x],
                [made],
            )
            return
        y = self.data(b)
        self.add(
            f"Select({made}{seen}, {bits}, {x}{seen}, {y}{seen}, SELMODE::VSEL_TENSOR_TENSOR_MODE, {n});",
            "V",
            [bits, x, y],
            [made],
        )

    def cast(self, v: Value, made: Buffer) -> None:
        """The conversions of the chip one after the other."""
        x, n = v.args[0], v.type.size
        if v.dtype == boolean:
            work = x
            if x.dtype.name in ("int8", "uint8"):
                wide = self.buffer(f16, n)
                source = self.data(x)
                self.add(f"Cast({wide}, {source}, RoundMode::CAST_NONE, {n});", "V", [source], [wide])
                self.nonzero(wide, made, n)
                return
            if x.dtype == i32:
                zero = Value("splat", Type(i32, x.shape), (Value("constant", Type(i32), (), {"value": 0}),))
                bits = self.compared(Value("ne", Type(boolean, x.shape), (x, zero)))
                self.spread(bits, made, n)
                return
            self.nonzero(self.data(work), made, n)
            return
        steps = cast_steps(x.dtype, v.dtype)
        assert steps is not None
        if v.attributes.get("mode") == "rint":
            steps = tuple((k, "RINT" if m == "TRUNC" else m) for k, m in steps)
        source = self.data(x)
        if not steps:
            self.copy(made, source, n)
        for k, (name, mode) in enumerate(steps):
            to = made if k == len(steps) - 1 else self.buffer(_dtype(name), n)
            self.add(f"Cast({to}, {source}, RoundMode::CAST_{mode}, {n});", "V", [source], [to])
            source = to

    def nonzero(self, x: Buffer, made: Buffer, n: int) -> None:
        """Lanes that are not 0."""
        lanes = 2048 // x.dtype.bits
        whole = -(-n // lanes) * lanes
        bits = self.buffer(_U8, whole // 8)
        self.add(f"CompareScalar({bits}, {x}, static_cast<{x.dtype.cpp}>(0), CMPMODE::NE, {whole});", "V", [x], [bits])
        self.spread(bits, made, n)

    # ---- extents -----------------------------------------------------------------------------------------------------

    def repeated(self, v: Value, made: Buffer) -> bool:
        """A broadcast along neighbouring axes: rows repeated, or numbers."""
        x = v.args[0]
        grown = [n for n, (p, q) in enumerate(zip(x.shape, v.shape, strict=True)) if p != q]
        if grown != list(range(grown[0], grown[-1] + 1)) and any(
            v.shape[n] > 1 and n not in grown for n in range(grown[0], grown[-1])
        ):
            return False
        outer, times, inner = prod(x.shape[: grown[0]]), prod(v.shape[n] for n in grown), prod(x.shape[grown[-1] + 1 :])
        bits = made.dtype.bits
        if inner * bits % 256 == 0:
            source = self.data(x)
            head = f"for (uint32_t o = 0; o < {outer}; o++) " if outer > 1 else ""
            at = (f"[o * {times * inner}]", f"[o * {inner}]") if outer > 1 else ("", "")
            self.add(f"{head}RepeatBlock({made}{at[0]}, {source}{at[1]}, {times}, {inner});", "V", [source], [made])
            return True
        if inner == 1 and times * bits % 256 == 0 and bits in (16, 32):
            source = self.data(x)
            seen = "" if made.dtype in (f16, f32, i32) else f".ReinterpretCast<{'half' if bits == 16 else 'int32_t'}>()"
            kind = made.dtype.cpp if not seen else "half" if bits == 16 else "int32_t"
            self.scratch(-(-outer // 8) * 256)
            self.add(
                f"RepeatNumbers({made}{seen}, {source}{seen}, room.Get<{kind}>(), {outer}, {times});",
                "V",
                [source, self.room],
                [made, self.room],
            )
            return True
        return False

    def joined(self, v: Value, made: Buffer) -> bool:
        """Slices and joins of whole blocks."""
        axis = v.attributes["axis"]
        outer, inner = prod(v.shape[:axis]), prod(v.shape[axis + 1 :])
        per = 256 // made.dtype.bits
        extents = (
            [p.shape[axis] for p in v.args]
            if v.op == "concat"
            else [v.shape[axis], v.args[0].shape[axis], v.attributes["begin"]]
        )
        if (
            any(e * inner % per for e in extents)
            and not (v.op == "slice" and outer == 1 and extents[2] * inner % per == 0)
        ) or v.attributes.get("step", 1) != 1:
            return False
        begin = 0
        for p in v.args:
            source = self.data(p)
            count = (v.shape[axis] if v.op == "slice" else p.shape[axis]) * inner
            at = v.attributes["begin"] * inner if v.op == "slice" else 0
            head = f"for (uint32_t o = 0; o < {outer}; o++) " if outer > 1 else ""
            to = f"{begin} + o * {v.shape[axis] * inner}" if outer > 1 else f"{begin}"
            start = f"{at} + o * {p.shape[axis] * inner}" if outer > 1 else f"{at}"
            self.add(
                f"{head}DataCopy({made}[{to}], {source}[{start}], {-(-count // per) * per});", "V", [source], [made]
            )
            begin += count
        return True

    def turned(self, v: Value, made: Buffer) -> bool:
        """A transposition by Gather with places that are made once."""
        bits, n = made.dtype.bits, v.type.size
        if bits not in (16, 32) or n > 8192:
            return False
        source = self.data(v.args[0])
        self.gathered(made, source, v.args[0].shape, v.attributes["axes"])
        return True

    def gathered(self, made: Buffer, source: Buffer, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
        """made = source with its axes in another order."""
        bits, n = made.dtype.bits, prod(shape)
        to = tuple(shape[a] for a in axes)
        strides = [prod(shape[a + 1 :]) for a in axes]
        lines, indent, coordinates = [], "", []
        for k, extent in enumerate(to):
            lines.append(f"{indent}for (uint32_t k{k} = 0; k{k} < {extent}; k{k}++)")
            coordinates.append(f"k{k} * {strides[k] * bits // 8}")
            indent += "    "
        place = "0"
        for k, extent in enumerate(to):
            place = f"({place}) * {extent} + k{k}" if k else "k0"
        text = "\n".join([*lines, f"{indent}{{0}}.SetValue({place}, {' + '.join(coordinates)});"])
        places = self.fixed(("places", shape, axes, bits), _dtype("uint32"), n, text)
        seen = "" if made.dtype in (f16, f32, i32) else f".ReinterpretCast<{'half' if bits == 16 else 'int32_t'}>()"
        self.add(f"Gather({made}{seen}, {source}{seen}, {places}, 0, {n});", "V", [source, places], [made])

    # ---- along axes --------------------------------------------------------------------------------------------------

    def compute_reduce(self, v: Value) -> Any:
        """sum, max or min along an axis."""
        x, name, axis = v.args[0], v.attributes["name"], v.attributes["axis"]
        outer, extent, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
        source, fold = self.data(x), _FOLDS[name]
        made = self.buffer(v.dtype, -(-outer * inner // 8) * 8 if inner == 1 else outer * inner)
        kind = numbers.numpy_type(x.dtype)
        if inner == 1 and by_rows(kind, extent) and not (name == "sum" and x.dtype == f16):
            self.use(ROW_REDUCE)
            self.scratch(row_reduce_bytes(outer, extent, x.dtype.bits))
            self.add(
                f"RowReduce<{fold}>({made}, {source}, room.Get<{x.dtype.cpp}>(), {outer}, {extent}, {extent});",
                "V",
                [source, self.room],
                [made, self.room],
            )
            return made
        call = {"sum": "Add", "max": "Max", "min": "Min"}[name]
        per = 256 // x.dtype.bits
        while extent % 2 == 0 and extent // 2 * inner % per == 0 and x.dtype in (f32, f16, i32):
            half = extent // 2 * inner
            to = self.buffer(x.dtype, outer * half)
            head = f"for (uint32_t o = 0; o < {outer}; o++) " if outer > 1 else ""
            at = (
                [f"[o * {half}]", f"[o * {2 * half}]", f"[o * {2 * half} + {half}]"]
                if outer > 1
                else ["", "", f"[{half}]"]
            )
            self.add(f"{head}{call}({to}{at[0]}, {source}{at[1]}, {source}{at[2]}, {half});", "V", [source], [to])
            source, extent = to, extent // 2
        if extent == 1:
            return source
        self.scratch(-(-extent * x.dtype.bits // 256) * 32)
        self.add(
            f"ReduceLanes<{fold}>({made}, {source}, room.Get<{x.dtype.cpp}>(), {outer}, {extent}, {inner});",
            "S",
            [source, self.room],
            [made, self.room],
        )
        return made

    def compute_scan(self, v: Value, made: Buffer) -> None:
        """Running sums, products, maxima."""
        x, axis = v.args[0], v.attributes["axis"]
        outer, extent, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
        source = self.data(x)
        reverse = "true" if v.attributes["reverse"] else "false"
        self.add(
            f"ScanLanes<{_FOLDS[v.attributes['name']]}, {reverse}>({made}, {source}, {outer}, {extent}, {inner});",
            "S",
            [source],
            [made],
        )

    def compute_sort(self, v: Value, made: Buffer) -> None:
        """Lines in order."""
        x, axis = v.args[0], v.attributes["axis"]
        outer, extent, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
        source = self.data(x)
        self.add(
            f"SortLanes<{'true' if v.attributes['descending'] else 'false'}>({made}, {source}, {outer}, {extent}, {inner});",
            "S",
            [source],
            [made],
        )

    def compute_histogram(self, v: Value, made: Buffer) -> None:
        """Counts of whole numbers."""
        source = self.data(v.args[0])
        self.add(f"Histogram({made}, {source}, {v.type.size}, {v.args[0].type.size});", "S", [source], [made])

    def compute_dot(self, v: Value, made: Buffer) -> None:
        """Products on the cube: operands and sums pass through workspace, which the Matmul object sees to."""
        a, b = v.args
        x, y = self.data(a), self.data(b)
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        batches = prod(a.shape[:-2])
        key = (m, k, n, a.dtype, v.dtype)
        mm = self.program.products.setdefault(key, f"product{len(self.program.products) or ''}")
        for at in range(batches):
            left, right, to = (
                f"{t}[{at * size}]" if at else f"{t}" for t, size in ((x, m * k), (y, k * n), (made, m * n))
            )
            self.add(f"Multiply({mm}, {to}, {left}, {right});", "MTE3 MTE2", [x, y], [made])


def _dtype(name: str) -> Any:
    from toprope.dtypes import dtype

    return dtype(name)


_U8 = _dtype("uint8")
__all__ = ["VectorWork", "number_text"]
