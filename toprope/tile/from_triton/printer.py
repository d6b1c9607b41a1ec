"""Writes a Triton program down as Ascend C: scalars as C++ expressions, blocks as tensors, index lanes and masks as arithmetic."""

from __future__ import annotations

from typing import Any

from toprope.dtypes import Dtype, dtype
from toprope.tile import rules
from toprope.tile.emit import literal
from toprope.tile.emit_text import COLUMN_FOLD, ROW_REDUCE, columns_operation, row_reduce_bytes, rows_operation
from toprope.tile.from_triton.forms import BitsForm, Home, Text, factor, minus, plus, times
from toprope.tile.from_triton.slots import Listing, Slot
from toprope.tile.from_triton.text import REPEAT_NUMBER, SYNC
from toprope.tile.from_triton.types import Bits, Block, Scalar, is_float, joined, promoted, refused
from toprope.tile.language import TileError, f32, i32
from toprope.tile.program import Number

boolean, i64 = dtype("bool"), dtype("int64")
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "/", "mod": "%"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_FOLDS = {"sum": "+", "max": ">", "min": "<"}
BLOCK_LANES = 16  # lanes are counted in this many: 32 bytes of the 16-bit types
NUMBERS_LANES = 64  # blocks up to here stay defined beyond their lanes, because eight numbers are repeated at once


def count_of(shape: tuple[int, ...]) -> int:
    """Lanes of a shape, without padding."""
    n = 1
    for size in shape:
        n *= size
    return n


def up(n: int, multiple: int) -> int:
    """n, rounded up."""
    return -(-n // multiple) * multiple


class Printer:
    """The machine that writes. `it` of a Scalar is C++ text, of a Range an Affine, of a Mask a MaskForm, of a Block a Home."""

    words: Any

    def __init__(self) -> None:
        self.out = Listing()
        self.functions: dict[str, str] = {}
        self.notes: dict[str, int] = {}
        self.line = 0
        self.counts: list[dict[Any, str]] = [{}]
        self.taken: set[str] = set()
        self.partial_bytes = self.blocks_bytes = self.steps_lanes = 0
        self.row_lanes = BLOCK_LANES  # 32 where 8-bit types take part

    def program_id(self, axis: int) -> Scalar:
        return self.whole(f"pid{self.grid_axis(axis)}")

    def num_programs(self, axis: int) -> Scalar:
        return self.whole(f"grid{self.grid_axis(axis)}")

    def grid_axis(self, axis: int) -> int:
        if not 0 <= axis <= 2:
            raise TileError(f"axis {axis} of the grid", cure="a grid has the axes 0, 1 and 2")
        return axis

    def note(self, text: str) -> None:
        self.notes.setdefault(text, self.line)

    def barrier(self) -> None:
        self.out.add("PipeBarrier<PIPE_ALL>();")

    def counted(self, bounds: tuple[Any, ...]) -> Any:
        raise TileError("a range outside a for", cure="write for i in tl.range(...)")

    def unique(self, name: str) -> str:
        """A C++ name that is not in use."""
        base, k = name, 2
        while name in self.taken:
            name, k = f"{base}{k}", k + 1
        self.taken.add(name)
        return name

    def named(self, kind: str, name: str, text: str) -> str:
        """A constant of the program with a value that is not computed again."""
        found = self.unique(name)
        self.out.add(f"const {kind} {found} = {text};")
        return found

    # ---- the scalar unit ---------------------------------------------------------------------------------------------

    def whole(self, text: Text, kind: Dtype = i32) -> Scalar:
        return Scalar(self.words, kind, str(text))

    def scalar_arith(self, name: str, a: Any, b: Any) -> Scalar:
        kind = promoted(name, a, b)
        if is_float(kind):
            x, y = self.single(a), self.single(b)
            text = _choose(name, x, y) if name in ("maximum", "minimum") else f"({x} {_SIGNS[name]} {y})"
            return Scalar(
                self.words, kind, text if kind is f32 else f"static_cast<float>(static_cast<{kind.cpp}>({text}))"
            )
        p, q = text_of(a), text_of(b)
        if name in ("add", "sub", "mul"):
            return self.whole({"add": plus, "sub": minus, "mul": times}[name](p, q), kind)
        if name in ("maximum", "minimum"):
            return self.whole(_choose(name, str(p), str(q)), kind)
        return self.whole(f"({factor(p)} {_SIGNS[name]} {factor(q)})", kind)

    def single(self, x: Any) -> str:
        """Text of type float."""
        if isinstance(x, Scalar):
            return str(x.it) if is_float(x.dtype) else f"static_cast<float>({x.it})"
        return literal(Number(repr(x), float(x)), f32)

    def scalar_compare(self, name: str, a: Any, b: Any) -> Scalar:
        in_float = is_float(promoted("add", a, b))
        x, y = (self.single(v) if in_float else str(text_of(v)) for v in (a, b))
        return Scalar(self.words, boolean, f"({factor(x)} {_COMPARE[name]} {factor(y)})")

    def scalar_logic(self, name: str, a: Any, b: Any) -> Scalar:
        sign = {"and": "&&", "or": "||", "xor": "!="}[name]
        return Scalar(self.words, boolean, f"({condition(a)} {sign} {condition(b)})")

    def scalar_choice(self, chosen: Scalar, a: Any, b: Any) -> Scalar:
        kind = promoted("add", a, b)
        x, y = (self.single(v) if is_float(kind) else str(text_of(v)) for v in (a, b))
        return Scalar(self.words, kind, f"({condition(chosen)} ? {x} : {y})")

    def scalar_cast(self, x: Scalar, kind: Dtype) -> Scalar:
        if is_float(kind):
            text = self.single(x)
            return Scalar(
                self.words, kind, text if kind is f32 else f"static_cast<float>(static_cast<{kind.cpp}>({text}))"
            )
        return Scalar(self.words, kind, f"static_cast<int64_t>({x.it})" if is_float(x.dtype) else x.it)

    def reciprocal(self, x: Any) -> Any:
        if isinstance(x, Scalar):
            return Scalar(self.words, f32, f"(1.0f / {self.single(x)})")
        if float(x) == 0:
            raise TileError("a block is divided by the number 0", cure="divide by something else")
        return rules.scalar_operand("div", float(x), scalar_first=False)[1]

    def truth(self, x: Any) -> Scalar:
        """A comparison of single numbers, on the scalar unit."""
        form: BitsForm = x.it
        left = self.fetched(form.left)
        right = self.fetched(form.right) if isinstance(form.right, Block) else self.number(form.right, form.left.dtype)
        text = f"({left} {_COMPARE[form.name]} {right})"
        return Scalar(self.words, boolean, f"(!{text})" if form.negated else text)

    def fetched(self, x: Block) -> str:
        """A single number out of the unified buffer, once the vector unit has written it."""
        self.use(SYNC)
        slot = x.it.slot
        self.out.add("Sync<HardEvent::V_S>();", (slot,))
        found = self.unique(f"n{slot.number}")
        kind = "float" if is_float(x.dtype) else "int64_t"
        self.out.add(f"const {kind} {found} = static_cast<{kind}>({slot}.GetValue(0));", (slot,))
        return found

    def scalar_of(self, x: Any) -> Any:
        """A single whole number in the unified buffer as a scalar."""
        return self.whole(self.fetched(x)) if isinstance(x, Block) and x.shape == () else x

    # ---- the vector unit ---------------------------------------------------------------------------------------------

    def use(self, text: str) -> None:
        """A function that the file needs once."""
        self.functions.setdefault(text, text)

    def pitch(self, shape: tuple[int, ...]) -> int:
        """Lanes from one row to the next."""
        return up(shape[-1], self.row_lanes) if len(shape) == 2 and shape[0] > 1 and shape[1] > 1 else count_of(shape)

    def count(self, shape: tuple[int, ...]) -> int:
        """Lanes that an instruction over a whole block runs through."""
        rows = shape[0] if len(shape) == 2 and shape[0] > 1 and shape[1] > 1 else 1
        return up(rows * self.pitch(shape), self.row_lanes)

    def lanes(self, x: Any) -> int:
        return self.count(x.shape)

    def new(self, shape: tuple[int, ...], kind: Dtype, *operands: Block, home: str = "") -> Block:
        """A block without value yet."""
        if len(shape) > 2 and count_of(shape) > 1:
            raise TileError(f"a block of {len(shape)} axes", cure="let another axis of the grid take the first one")
        lanes = self.count(shape)
        small = count_of(shape) <= NUMBERS_LANES or count_of(shape) % self.row_lanes != 0
        slot = self.out.slot(kind, lanes, home or ("numbers" if small and kind.bits > 8 else "arena"), self.line)
        return Block(self.words, shape, kind, Home(slot, any(o.it.loose for o in operands)))

    def step(
        self, text: str, made: Block, *operands: Block, in_place: bool = True, more: tuple[Slot, ...] = ()
    ) -> Block:
        """One instruction that makes a block."""
        self.out.add(text, (*(o.it.slot for o in operands), *more), made.it.slot, in_place=in_place)
        return made

    def number(self, value: Any, kind: Dtype) -> str:
        """A number as the operand of an instruction."""
        if isinstance(value, Scalar):
            text = self.single(value) if is_float(kind) else str(value.it)
            return text if kind is f32 else f"static_cast<{kind.cpp}>({text})"
        return literal(Number(repr(value), float(value) if is_float(kind) else int(value)), kind)

    def full(self, shape: tuple[int, ...], value: Any, kind: Dtype) -> Block:
        if kind.bits in (8, 64):
            return self.words.to(self.full(shape, value, i32 if kind.bits == 64 else f32), kind)  # type: ignore[no-any-return]
        made = self.new(shape, kind)
        return self.step(f"Duplicate({made.it.slot}, {self.number(value, kind)}, {self.lanes(made)});", made)

    def unary(self, name: str, x: Block) -> Block:
        rules.require(name, rules.UNARY[name].dtypes, x.dtype)
        made = self.new(x.shape, x.dtype, x)
        return self.step(f"{rules.UNARY[name].call}({made.it.slot}, {x.it.slot}, {self.lanes(x)});", made, x)

    def with_scalar(self, name: str, x: Block, number: Any) -> Block:
        made = self.new(x.shape, x.dtype, x)
        call, operand = rules.BINARY[name].with_scalar, self.number(number, x.dtype)
        return self.step(f"{call}({made.it.slot}, {x.it.slot}, {operand}, {self.lanes(x)});", made, x)

    def cast(self, x: Block, kind: Dtype, mode: str) -> Block:
        made = self.new(x.shape, kind, x)
        text = f"Cast({made.it.slot}, {x.it.slot}, RoundMode::CAST_{mode.upper()}, {self.lanes(x)});"
        return self.step(text, made, x, in_place=kind.bits == x.dtype.bits)

    def binary(self, name: str, x: Block, y: Block) -> Block:
        call, shape = rules.BINARY[name].call, joined(x.shape, y.shape)
        if count_of(x.shape) == count_of(y.shape) == count_of(shape):
            made = self.new(shape, x.dtype, x, y)
            return self.step(f"{call}({made.it.slot}, {x.it.slot}, {y.it.slot}, {self.lanes(made)});", made, x, y)
        if count_of(shape) > max(count_of(x.shape), count_of(y.shape)):  # both would be repeated
            x = self.broadcast(x, shape)
        swapped = count_of(x.shape) < count_of(shape)
        small, full = (x, y) if swapped else (y, x)
        by_rows = count_of(small.shape) == 1 or small.shape[-1] == 1
        suffix = ("Before" if swapped else "") + ("Rows" if by_rows else "Columns")
        self.use((rows_operation if by_rows else columns_operation)(call, swapped))
        rows, width = (1, self.count(shape)) if count_of(small.shape) == 1 else (shape[0], self.pitch(shape))
        made = self.new(shape, x.dtype, x, y)
        room = f"blocks.Get<{x.dtype.cpp}>(), " if by_rows else ""
        if by_rows:
            self.blocks_bytes = max(self.blocks_bytes, up(rows, 8) * 32 + rows * 256)
        text = f"{call}{suffix}({made.it.slot}, {full.it.slot}, {small.it.slot}, {room}{rows}, {width});"
        return self.step(text, made, x, y, in_place=False)

    def broadcast(self, x: Block, shape: tuple[int, ...]) -> Block:
        if x.shape == shape:
            return x
        joined(x.shape, shape)
        if count_of(x.shape) == count_of(shape):
            return Block(self.words, shape, x.dtype, x.it)
        made = self.new(shape, x.dtype, x)
        if count_of(x.shape) == 1 or x.shape[-1] == 1:
            self.use(REPEAT_NUMBER)
            rows = 1 if count_of(x.shape) == 1 else shape[0]
            self.blocks_bytes = max(self.blocks_bytes, up(rows, 8) * 32)
            width = self.lanes(made) if rows == 1 else self.pitch(shape)
            text = f"RepeatNumbers({made.it.slot}, {x.it.slot}, blocks.Get<{x.dtype.cpp}>(), {rows}, {width});"
        else:
            pitch = self.pitch(shape)
            text = f"for (uint32_t r = 0; r < {shape[0]}; r++) DataCopy({made.it.slot}[r * {pitch}], {x.it.slot}, {pitch});"
        return self.step(text, made, x, in_place=False)

    def bits_slot(self, shape: tuple[int, ...]) -> Slot:
        return self.out.slot(dtype("uint8"), self.count(shape), "arena", self.line, bits=True)

    def compare(self, name: str, x: Block, y: Any) -> Bits:
        """Comparisons take whole repeats: zeros go behind the last lane."""
        lanes, repeat = self.lanes(x), 2048 // x.dtype.bits
        whole = up(lanes, repeat)
        sides = [x, y] if isinstance(y, Block) else [x]
        for side in {id(s.it.slot): s for s in sides}.values():
            if whole > lanes:
                self.out.add(
                    f"Duplicate({side.it.slot}[{lanes}], static_cast<{x.dtype.cpp}>(0), {whole - lanes});",
                    (side.it.slot,),
                )
        made = self.bits_slot(x.shape)
        other = str(y.it.slot) if isinstance(y, Block) else self.number(y, x.dtype)
        call = "Compare" if isinstance(y, Block) else "CompareScalar"
        mode = f"CMPMODE::{rules.COMPARE[name].call}"
        self.out.add(f"{call}({made}, {x.it.slot}, {other}, {mode}, {whole});", tuple(s.it.slot for s in sides), made)
        return Bits(self.words, x.shape, BitsForm(made, False, name, x, y))

    def inverted(self, x: Bits) -> Bits:
        form: BitsForm = x.it
        return Bits(self.words, x.shape, BitsForm(form.slot, not form.negated, form.name, form.left, form.right))

    def bits_to(self, x: Bits, shape: tuple[int, ...]) -> Bits:
        form: BitsForm = x.it
        if count_of(x.shape) == count_of(shape):
            return Bits(self.words, shape, form)
        if form.left is None:
            raise TileError("a combined comparison is repeated along an axis", cure="compare blocks of the full shape")
        right = self.broadcast(form.right, shape) if isinstance(form.right, Block) else form.right
        found = self.compare(form.name, self.broadcast(form.left, shape), right)
        return self.inverted(found) if form.negated else found

    def select(self, bits: Bits, x: Block, y: Any) -> Block:
        form: BitsForm = bits.it
        if form.negated:
            x, y = (y if isinstance(y, Block) else self.full(x.shape, y, x.dtype)), x
        if not isinstance(y, Block) and x.dtype is not f32 and not is_float(x.dtype):
            y = self.full(x.shape, y, x.dtype)
        made = self.new(x.shape, x.dtype, x, *([y] if isinstance(y, Block) else []))
        plain = "float" if x.dtype.bits == 32 else "half"
        view = "" if x.dtype.cpp == plain else f".ReinterpretCast<{plain}>()"
        other = f"{y.it.slot}{view}" if isinstance(y, Block) else self.number(y, x.dtype)
        mode = "VSEL_TENSOR_TENSOR_MODE" if isinstance(y, Block) else "VSEL_TENSOR_SCALAR_MODE"
        if view and not isinstance(y, Block):
            raise TileError("a choice of bfloat16 and a number", cure="convert with .to(tl.float32) first")
        text = (
            f"Select({made.it.slot}{view}, {form.slot}, {x.it.slot}{view}, {other}, SELMODE::{mode}, {self.lanes(x)});"
        )
        return self.step(text, made, x, *([y] if isinstance(y, Block) else []), more=(form.slot,))

    def grid_of(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows and lanes of a row."""
        return (
            (shape[0], self.pitch(shape))
            if len(shape) == 2 and shape[0] > 1 and shape[1] > 1
            else (1, self.count(shape))
        )

    def choice(self, chosen: Scalar, x: Block, y: Block) -> Block:
        made = self.new(x.shape, x.dtype, x, y)
        n = self.lanes(x)
        text = f"DataCopy({made.it.slot}, {condition(chosen)} ? {x.it.slot} : {y.it.slot}, {n});"
        return self.step(text, made, x, y)

    def reduce(self, name: str, x: Block, axis: int) -> Block:
        """A reduction; lanes that hold nothing defined must not matter to it."""
        self.require_defined(name, x)
        fold = f"'{_FOLDS[name]}'"
        if len(x.shape) == 2 and axis == 0 and x.shape[0] > 1:
            if x.shape[1] == 1:  # one number per row lies like a row
                return self.reduce(name, Block(self.words, (x.shape[0],), x.dtype, x.it), 0)
            self.use(COLUMN_FOLD)
            made = self.new((x.shape[1],), x.dtype)
            text = f"ColumnFold<{fold}>({made.it.slot}, {x.it.slot}, {x.shape[0]}, {self.pitch(x.shape)});"
            return self.step(text, made, x, in_place=False)
        if x.shape[axis] == 1:
            return Block(self.words, tuple(n for k, n in enumerate(x.shape) if k != axis), x.dtype, x.it)
        self.use(ROW_REDUCE)
        rows = x.shape[0] if len(x.shape) == 2 else 1
        made = self.new((rows,) if len(x.shape) == 2 else (), x.dtype, home="numbers")
        columns = x.shape[-1]
        self.partial_bytes = max(self.partial_bytes, row_reduce_bytes(rows, columns, x.dtype.bits))
        width = up(columns, self.row_lanes)
        text = (
            f"RowReduce<{fold}>({made.it.slot}, {x.it.slot}, partial.Get<{x.dtype.cpp}>(), {rows}, {columns}, {width});"
        )
        return self.step(text, made, x, in_place=False)

    def dot(self, a: Block, b: Block) -> Block:
        raise refused("dot")

    accumulate = dot

    def require_defined(self, name: str, x: Block) -> None:
        if x.it.loose:
            rest = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}[name]
            raise TileError(
                f"masked-off lanes hold something in a {name}; {rest} would leave it alone",
                cure=f"load with other={rest}, or tl.where(mask, x, {rest}) first",
            )

    def fold_whole(self, name: str, x: Block) -> Scalar:
        """int32 lanes, halved until a block is left, which the scalar unit folds."""
        self.require_defined(name, x)
        lanes = count_of(x.shape)
        if lanes & (lanes - 1):
            raise TileError(f"tl.{name} of {lanes} whole numbers", cure="use a block whose size is a power of two")
        call = {"sum": "Add", "max": "Max", "min": "Min"}[name]
        made = self.new(x.shape, i32)
        self.step(f"DataCopy({made.it.slot}, {x.it.slot}, {self.lanes(x)});", made, x)
        while lanes > 8:
            lanes //= 2
            self.out.add(f"{call}({made.it.slot}, {made.it.slot}, {made.it.slot}[{lanes}], {lanes});", (made.it.slot,))
        self.use(SYNC)
        self.out.add("Sync<HardEvent::V_S>();", (made.it.slot,))
        total = self.unique(name)
        self.out.add(f"int32_t {total} = {made.it.slot}.GetValue(0);", (made.it.slot,))
        fold = f"{total} + v" if name == "sum" else _choose({"max": "maximum", "min": "minimum"}[name], total, "v")
        self.out.add(
            f"for (uint32_t k = 1; k < {lanes}; k++) {{ const int32_t v = {made.it.slot}.GetValue(k); {total} = {fold}; }}",
            (made.it.slot,),
        )
        return self.whole(f"static_cast<int64_t>({total})")


def text_of(x: Any) -> Text:
    """A whole number as text; numbers that are known stay numbers."""
    return x.it if isinstance(x, Scalar) else int(x)


def condition(x: Any) -> str:
    """A condition as text."""
    if isinstance(x, Scalar):
        return str(x.it) if x.dtype is boolean else f"({x.it} != 0)"
    return "true" if x else "false"


def _choose(name: str, a: str, b: str) -> str:
    a, b = factor(a), factor(b)
    return f"({a} {'>' if name == 'maximum' else '<'} {b} ? {a} : {b})"
