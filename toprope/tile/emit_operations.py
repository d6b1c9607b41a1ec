"""The instruction of one value: what the vector unit is told, with the fixed pieces that it needs."""

from __future__ import annotations

import numpy as np

from toprope.dtypes import Dtype
from toprope.tile import rules
from toprope.tile.amounts import Amount
from toprope.tile.emit_copies import Copies
from toprope.tile.emit_text import (
    COLUMN_FOLD,
    FILL_REPEAT,
    PACK,
    PACK_BY_OFFSET,
    ROW_REDUCE,
    SPREAD,
    columns_operation,
    rows_operation,
)
from toprope.tile.program import ONE, Number, Value, clean

_FOLDS = {"sum": "+", "max": ">", "min": "<"}


def literal(number: Number, kind: Dtype) -> str:
    """A constant in an element type, exactly the float32 (or integer) that level A uses."""
    assert number.value is not None
    if numpy_is_integer(kind):
        return f"static_cast<{kind.cpp}>({int(number.value)})"
    value = float(np.float32(number.value))
    if value in (float("inf"), float("-inf")):
        text = f"{'-' if value < 0 else ''}__builtin_inff()"
    else:
        text = str(np.float32(value))
        text += ("" if "." in text or "e" in text else ".0") + "f"
    return text if kind.cpp == "float" else f"static_cast<{kind.cpp}>({text})"


def numpy_is_integer(kind: Dtype) -> bool:
    """Whether numbers of this type are exact."""
    return kind.numpy is not None and kind.numpy.kind == "i"


def elements(size: Amount, kind: Dtype) -> str:
    """How many elements a buffer holds, as text."""
    return f"({size.text}) / {kind.bits // 8}" if size.names else str(size.at({}) * 8 // kind.bits)


class Operations(Copies):
    """Prints the vector work of one variant."""

    numbers: list[tuple[Number, bool]]
    used_text: dict[str, str]

    def naming(self, v: Value) -> str:
        """A C++ name for a value."""
        raise NotImplementedError

    # ---- one operation -----------------------------------------------------------------------------------------------

    def operation(self, v: Value) -> list[str]:
        """The instruction of one value."""
        d = self.naming(v.target) if v.op == "assign" and v.target else self.naming(v)
        a = [self.naming(x) for x in v.args]
        n = self.lanes(v)
        match v.op:
            case "binary":
                return [self.binary(v, d, a)]
            case "scalar":
                return [f"{rules.BINARY[v.name].with_scalar}({d}, {a[0]}, {self.number(v)}, {n});"]
            case "unary":
                return [f"{rules.UNARY[v.name].call}({d}, {a[0]}, {n});"]
            case "cast":
                mode = rules.CASTS[(v.args[0].dtype, v.dtype)]
                return [f"Cast({d}, {a[0]}, RoundMode::{mode}, {self.lanes(v)});"]
            case "arange":
                return [f"CreateVecIndex({d}, static_cast<{v.dtype.cpp}>({clean(v.axes[1])}Begin), {n});"]
            case "full":
                return [f"Duplicate({d}, {self.number(v)}, {n});"]
            case "copy" | "assign":
                return [f"DataCopy({d}, {a[0]}, {self.lanes(v)});"]
            case "spread":
                self.used_text["Spread"] = SPREAD
                return [f"Spread({d}, {a[0]}, {self.lanes(v)});"]
            case "pack" | "gather":
                return [self.gathered(v, d, a)]
            case "reduce" if v.args[0].axes[1] == v.axes[1]:
                self.used_text["ColumnFold"] = COLUMN_FOLD
                x = v.args[0]
                return [f"ColumnFold<'{_FOLDS[v.name]}'>({d}, {a[0]}, {self.extent(x.axes[0])}, {self.width(x)});"]
            case "reduce":
                self.used_text["RowReduce"] = ROW_REDUCE
                x = v.args[0]
                flag = f"'{_FOLDS[v.name]}'"
                room = self.scratch(v, self.plan.blocks_bytes, self.plan.partial_bytes)
                return [
                    f"RowReduce<{flag}>({d}, {a[0]}, {room}, {self.extent(x.axes[0])}, {self.extent(x.axes[1])}, {self.width(x)});"
                ]
            case "compare":
                return self.compare(v, d, a)
        other = a[2] if len(a) == 3 else self.number(v)
        mode = "VSEL_TENSOR_TENSOR_MODE" if len(a) == 3 else "VSEL_TENSOR_SCALAR_MODE"
        return [f"Select({d}, {a[0]}, {a[1]}, {other}, SELMODE::{mode}, {self.lanes(v)});"]

    def gathered(self, v: Value, d: str, a: list[str]) -> str:
        """Elements side by side: out of the blocks they were copied to, or out of a tile by a tile of offsets."""
        rows, columns = self.extent(v.axes[0]), self.extent(v.axes[1])
        width = "16" if v.is_rows else self.width(v)
        if v.op == "pack":
            self.used_text["Pack"] = PACK
            return f"Pack({d}, {a[0]}, steps.Get<uint32_t>(), {rows}, {columns}, {width});"
        self.used_text["PackByOffset"] = PACK_BY_OFFSET
        return f"PackByOffset({d}, {a[0]}, {a[1]}, {columns}, {width});"

    def binary(self, v: Value, d: str, a: list[str]) -> str:
        call = rules.BINARY[v.name].call
        x, y = v.args
        if x.axes == y.axes:
            return f"{call}({d}, {a[0]}, {a[1]}, {self.lanes(v)});"
        swapped = x.axes != v.axes
        small = x if swapped else y
        by_rows = small.is_rows
        suffix = ("Before" if swapped else "") + ("Rows" if by_rows else "Columns")
        self.used_text[call + suffix] = (rows_operation if by_rows else columns_operation)(call, swapped)
        full, one = (a[1], a[0]) if swapped else (a[0], a[1])
        room = f"{self.scratch(v, Amount(), self.plan.blocks_bytes)}, " if by_rows else ""
        return f"{call}{suffix}({d}, {full}, {one}, {room}{self.extent(v.axes[0])}, {self.width(v)});"

    def scratch(self, v: Value, offset: Amount, size: Amount) -> str:
        return f"scratch.GetWithOffset<{v.dtype.cpp}>({elements(size, v.dtype)}, {offset.text})"

    def compare(self, v: Value, d: str, a: list[str]) -> list[str]:
        self.used_text["FillRepeat"] = FILL_REPEAT
        count = f"{d}Lanes"
        lines = [f"const uint32_t {count} = FillRepeat({a[0]}, {self.lanes(v)});"]
        if len(a) == 2 and a[1] != a[0]:
            lines.append(f"FillRepeat({a[1]}, {self.lanes(v)});")
        mode = f"CMPMODE::{rules.COMPARE[v.name].call}"
        if len(a) == 2:
            return [*lines, f"Compare({d}, {a[0]}, {a[1]}, {mode}, {count});"]
        return [*lines, f"CompareScalar({d}, {a[0]}, {self.number(v)}, {mode}, {count});"]

    def number(self, v: Value) -> str:
        assert v.number is not None
        if v.number.value is not None:
            return literal(v.number, v.dtype)
        return f"static_cast<{v.dtype.cpp}>(number{self.numbers.index((v.number, numpy_is_integer(v.dtype)))})"

    def lanes(self, v: Value) -> str:
        """Elements that an instruction over the whole value runs through, padding included."""
        if v.is_rows:
            return "16" if v.axes[0] == ONE else f"{clean(v.axes[0])}Lanes"
        return self.width(v) if v.axes[0] == ONE else f"{clean(v.axes[0])}Count * {self.width(v)}"
