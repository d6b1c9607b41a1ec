"""Index lanes and masks of a Triton program while it is written down: they stay sums and limits until data is needed."""

from __future__ import annotations

from typing import Any

from toprope.dtypes import dtype
from toprope.tile import rules
from toprope.tile.from_triton.forms import Affine, BitsForm, Entries, Home, MaskForm, minus, plus
from toprope.tile.from_triton.printer import Printer, condition, count_of, text_of
from toprope.tile.from_triton.slots import Slot
from toprope.tile.from_triton.text import KEEP_LANES, VALID
from toprope.tile.from_triton.types import Bits, Block, Mask, Pointer, Range, Scalar, is_float, joined
from toprope.tile.language import TileError, f32, i32

i64 = dtype("int64")


class IndexPrinter(Printer):
    """A printer that also knows index lanes and masks."""

    def arange(self, start: int, end: int) -> Range:
        return Range(self.words, (end - start,), Affine(start, (1,)))

    def is_index(self, x: Any) -> bool:
        """Whole numbers as they were loaded: sums of them stay symbolic, because most are places."""
        return isinstance(x, Block) and x.it.slot.loaded and not is_float(x.dtype) and x.shape != ()

    def affine(self, x: Any) -> Affine | None:
        """An index expression, or None when x is none."""
        if isinstance(x, Range):
            return x.it  # type: ignore[no-any-return]
        if isinstance(x, Block) and not is_float(x.dtype):
            if x.shape == ():
                return Affine(text_of(self.scalar_of(x)))
            axes = [n for n, size in enumerate(x.shape) if size > 1] or [0]
            if len(axes) > 1:
                return None
            return Affine(0, (0,) * len(x.shape), (_entries(x, axes[0]),))
        if isinstance(x, int) or (isinstance(x, Scalar) and not is_float(x.dtype)):
            return Affine(text_of(x))
        return None

    def range_arith(self, name: str, a: Any, b: Any) -> Range | None:
        if name not in ("add", "sub", "mul") or (isinstance(a, Block) and isinstance(b, Block)):
            return None
        x, y = self.affine(a), self.affine(b)
        if x is None or y is None:
            return None
        shape = joined(getattr(a, "shape", ()), getattr(b, "shape", ()))
        if name == "mul":
            if not x.strides and not x.entries:
                x, y = y, x
            if y.strides and (any(s != 0 for s in y.strides) or y.entries):
                return None
            return Range(self.words, shape, x.times(y.base))
        return Range(self.words, shape, x.plus(y.times(-1) if name == "sub" else y))

    def range_compare(self, name: str, a: Any, b: Any) -> Mask | None:
        if not isinstance(a, Range):
            name, a, b = rules.MIRRORED[name], b, a
        form: Affine = a.it
        axes = [n for n, s in enumerate(form.strides) if s != 0]
        if (
            name not in ("lt", "le")
            or form.entries
            or len(axes) != 1
            or form.strides[axes[0]] != 1
            or isinstance(b, Range | Block | float)
        ):
            return None
        if isinstance(b, Scalar) and is_float(b.dtype):
            return None
        limit = minus(text_of(b), form.base)
        return Mask(self.words, a.shape, MaskForm(((axes[0], str(plus(limit, 1) if name == "le" else limit)),)))

    def materialise(self, x: Range) -> Block:
        """Index lanes as int32 data."""
        form: Affine = x.it
        axes = [n for n, s in enumerate(form.strides) if s != 0]
        total: Block | None = None
        for n, axis in enumerate(axes or ([] if form.entries else [0])):
            shape = tuple(size if k == axis else 1 for k, size in enumerate(x.shape))
            stride = form.strides[axis] if axes else 0
            part = self.new(shape, i32)
            begin = form.base if n == 0 and stride == 1 else 0
            self.out.add(
                f"CreateVecIndex({part.it.slot}, static_cast<int32_t>({begin}), {self.lanes(part)});",
                defines=part.it.slot,
            )
            if stride != 1:
                part = self.with_scalar("mul", part, self.whole(stride))
                part = self.with_scalar("add", part, self.whole(form.base)) if n == 0 and form.base != 0 else part
            total = part if total is None else self.binary("add", total, part)
        for e in form.entries:
            shape = tuple(size if k == e.axis else 1 for k, size in enumerate(x.shape))
            part = self.words.to(Block(self.words, shape, e.slot.dtype, Home(e.slot)), i32)
            part = part if e.scale in (1, "1") else self.with_scalar("mul", part, self.whole(e.scale))
            part = (
                self.with_scalar("add", part, self.whole(form.base))
                if not axes and e is form.entries[0] and form.base != 0
                else part
            )
            total = part if total is None else self.binary("add", total, part)
        assert total is not None
        return self.broadcast(total, x.shape)

    def mask_logic(self, name: str, a: Any, b: Any) -> Any:
        if isinstance(a, Scalar) or isinstance(b, Scalar):
            one, other = (a, b) if isinstance(a, Scalar) else (b, a)
            if name != "and" or not isinstance(other, Mask):
                raise TileError(
                    f"{name} of a condition and a comparison of data", cure="choose with tl.where, one after the other"
                )
            return Mask(self.words, other.shape, other.it.plus(MaskForm((), (condition(one),))))
        shape = joined(a.shape, b.shape)
        if name == "and" and isinstance(a, Mask) and isinstance(b, Mask):
            forms = [x.it.of_rank(len(shape) - len(x.shape)) for x in (a, b)]
            return Mask(self.words, shape, forms[0].plus(forms[1]))
        left, right = (
            self.plain_bits(self.bits_of(x, shape) if isinstance(x, Mask) else self.bits_to(x, shape)) for x in (a, b)
        )
        if name == "xor":
            raise TileError("^ of masks", cure="write (a & ~b) | (~a & b)")
        made = self.bits_slot(shape)
        call = {"and": "And", "or": "Or"}[name]
        words = [f"{s}.ReinterpretCast<uint16_t>()" for s in (made, left, right)]
        self.out.add(f"{call}({', '.join(words)}, {self.count(shape) // 16});", (left, right), made)
        return Bits(self.words, shape, BitsForm(made, False, "", None, None))

    def never(self, x: Any) -> Mask:
        return Mask(self.words, x.shape, MaskForm((), ("false",)))

    def plain_bits(self, x: Bits) -> Slot:
        """Bits that mean what they say."""
        form: BitsForm = x.it
        if not form.negated:
            return form.slot
        made = self.bits_slot(x.shape)
        words = [f"{s}.ReinterpretCast<uint16_t>()" for s in (made, form.slot)]
        self.out.add(f"Not({', '.join(words)}, {self.count(x.shape) // 16});", (form.slot,), made)
        return made

    def bits_of(self, x: Mask, shape: tuple[int, ...] | None = None) -> Bits:
        """A mask of index lanes as bits."""
        shape = shape or x.shape
        form: MaskForm = x.it.of_rank(len(shape) - len(x.shape))
        found: Any = None
        for axis in sorted({a for a, _ in form.limits}) or [len(shape) - 1]:
            along = tuple(size if k == axis else 1 for k, size in enumerate(shape))
            lane = self.new(along, f32)
            self.out.add(f"CreateVecIndex({lane.it.slot}, 0.0f, {self.lanes(lane)});", defines=lane.it.slot)
            limit = Scalar(self.words, f32, f"static_cast<float>({self.valid(form, axis, shape[axis])})")
            bits = self.compare("lt", self.broadcast(lane, shape), limit)
            found = bits if found is None else self.mask_logic("and", found, bits)
        return found  # type: ignore[no-any-return]

    def valid(self, form: MaskForm, axis: int, size: int) -> str:
        """How many lanes of an axis count: a constant, or the name of a number that is computed once."""
        limits = [t for a, t in form.limits if a == axis]
        if not limits and not form.conditions:
            return str(size)
        key = (axis, tuple(limits), form.conditions, size)
        for known in self.counts:
            if key in known:
                return known[key]
        self.use(VALID)
        text = str(size)
        for limit in limits:
            text = f"Valid({limit}, {text})"
        if form.conditions:
            text = f"{' && '.join(form.conditions)} ? {text} : 0"
        self.counts[-1][key] = self.named("uint32_t", "valid", text)
        return self.counts[-1][key]

    def expanded(self, x: Any, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        whole = [k for k in keys if isinstance(k, slice) and k == slice(None)]
        if (
            len(whole) + sum(k is None for k in keys) != len(keys)
            or len(whole) != len(self.shape_of(x))
            or len(keys) > 2
        ):
            raise TileError(
                "a block is taken apart by an index",
                cure="write x[:, None] or x[None, :]; load the part that is needed",
            )
        for at, k in enumerate(keys):
            x = self.with_axis(x, at) if k is None else x
        return x

    def shape_of(self, x: Any) -> tuple[int, ...]:
        return tuple(x.it[1]) if isinstance(x, Pointer) else x.shape

    def with_axis(self, x: Any, at: int) -> Any:
        if isinstance(x, Pointer):
            form, shape = x.it
            return Pointer(self.words, x.name, x.dtype, (form.expanded(at), (*shape[:at], 1, *shape[at:])))
        shape = (*x.shape[:at], 1, *x.shape[at:])
        if isinstance(x, Block):
            return Block(self.words, shape, x.dtype, x.it)
        if isinstance(x, Bits):
            return Bits(self.words, shape, x.it)
        return type(x)(self.words, shape, x.it.expanded(at))

    def move(self, pointer: Pointer, offset: Any) -> Pointer:
        form, shape = pointer.it
        more = self.affine(offset)
        if more is None:
            more = Affine(0, (0, 0), (_entries(offset, -1),))
        return Pointer(
            self.words, pointer.name, pointer.dtype, (form.plus(more), joined(shape, getattr(offset, "shape", ())))
        )

    def mask_select(self, mask: Mask, x: Block, y: Any) -> Block:
        """Lanes below the mask's limits stay, the others become y."""
        if isinstance(y, Block) or x.dtype.bits == 8:
            return self.select(self.bits_of(mask, x.shape), x, y)
        form = mask.it.of_rank(len(x.shape) - len(mask.shape))
        rows, columns = self.extents(form, x.shape)
        made = self.new(x.shape, x.dtype)
        self.step(f"DataCopy({made.it.slot}, {x.it.slot}, {self.lanes(x)});", made, x)
        self.use(KEEP_LANES)
        height, width = self.grid_of(x.shape)
        value = self.number(y, x.dtype)
        self.out.add(f"KeepLanes({made.it.slot}, {rows}, {columns}, {height}, {width}, {value});", (made.it.slot,))
        return made

    def extents(self, form: MaskForm, shape: tuple[int, ...]) -> tuple[str, str]:
        """Valid rows and columns; a block with one axis of lanes is one row."""
        if len(shape) == 2 and shape[0] > 1 and shape[1] > 1:
            return self.valid(form, 0, shape[0]), self.valid(form, 1, shape[1])
        axis = next((n for n, size in enumerate(shape) if size > 1), max(0, len(shape) - 1))
        others = tuple(f"({t}) > 0" for a, t in form.limits if a != axis)
        return "1", self.valid(MaskForm(form.limits, form.conditions + others), axis, count_of(shape))


def _entries(x: Block, axis: int) -> Entries:
    return Entries(x.it.slot, 1, axis)
