"""How blocks of a Triton program come from global memory and go back: rows of neighbours, spaced elements, or places that an index names."""

from __future__ import annotations

from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.emit_text import SPREAD
from toprope.tile.from_triton.forms import Affine, MaskForm, Text
from toprope.tile.from_triton.indices import IndexPrinter
from toprope.tile.from_triton.printer import condition, count_of
from toprope.tile.from_triton.slots import Slot, ring_of
from toprope.tile.from_triton.text import (
    FILL_LANES,
    FILL_ROWS,
    GATHER_ELEMENTS,
    GATHER_ROWS,
    LOAD_ROWS,
    PACK_SPACED,
    SCATTER_ROWS,
    SPACED,
    STORE_ROWS,
    STORE_SPACED,
    SYNC,
)  # fmt: skip
from toprope.tile.from_triton.types import Bits, Block, Mask, Pointer, Scalar, is_float, joined
from toprope.tile.language import TileError, f32

MOST_ROWS = 4095  # DataCopyPad's blockCount


class MemoryPrinter(IndexPrinter):
    """A printer that also knows global memory."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: set[str] = set()  # arrays that were stored to, so that a later load must wait

    def pointer(self, name: str, kind: Dtype) -> Pointer:
        """An argument that is an array."""
        return Pointer(self.words, name, kind, (Affine(0), ()))

    def form_of(self, mask: Any, shape: tuple[int, ...], what: str) -> MaskForm:
        """A mask over lanes of a shape. Raises TileError for masks that hang on data."""
        if mask is None:
            return MaskForm()
        if isinstance(mask, bool | int | Scalar):
            return MaskForm((), () if mask is True else (condition(mask),))
        if isinstance(mask, Bits):
            cure = (
                "load what lies inside the array and choose lanes with tl.where"
                if what == "load"
                else "load the old values, choose lanes with tl.where, and store all of them"
            )
            raise TileError(f"the mask of a tl.{what} hangs on data, or is not offsets < limit", cure=cure)
        if not isinstance(mask, Mask):
            raise TileError(f"the mask of a tl.{what} is no comparison", cure="write mask=offsets < limit")
        if joined(mask.shape, shape) != shape:
            raise TileError(
                f"a mask of shape {list(mask.shape)} for offsets of {list(shape)}", cure="give both one shape"
            )
        return mask.it.of_rank(len(shape) - len(mask.shape))  # type: ignore[no-any-return]

    # ---- in ----------------------------------------------------------------------------------------------------------

    def load(self, pointer: Pointer, mask: Any, other: Any) -> Any:
        form, shape = pointer.it
        if isinstance(mask, Mask | Bits) and count_of(mask.shape) > count_of(shape):
            shape = joined(mask.shape, shape)
            form = form.of_rank(len(shape))
        if isinstance(other, Block) and other.shape == ():
            other = Scalar(self.words, f32, self.fetched(other))
        if isinstance(other, Block):
            raise TileError("other of a tl.load is a block", cure="load with other=0.0 and choose lanes with tl.where")
        self.wait_for_store(pointer.name)
        if count_of(shape) == 1:
            return self.load_single(pointer, form, shape, self.form_of(mask, shape, "load"), other)
        valid = self.form_of(mask, shape, "load")
        loose = other is None and bool(valid.limits or valid.conditions)
        fill = self.number(0 if other is None else other, pointer.dtype)
        if form.entries:
            return self.load_by_entries(pointer, form, shape, valid, fill, loose)
        rows, columns, row_stride, stride = self.laid_out(form, shape, valid)
        if stride != 1:
            return self.load_spaced(pointer, form, shape, columns, stride, fill, loose)
        made = self.new(shape, pointer.dtype, home="in")
        made.it.slot.loaded, made.it.loose = True, loose
        height, width = self.grid_of(shape)
        for text in (LOAD_ROWS, FILL_LANES, FILL_ROWS):
            self.use(text)
        self.out.add(
            f"LoadRows({made.it.slot}, {self.place(pointer, form)}, {rows}, {columns}, {row_stride}, {width}, {fill});",
            defines=made.it.slot,
        )
        self.arrive(made.it.slot)
        if (str(rows), str(columns)) != (str(height), str(width)):
            self.out.add(f"FillRows({made.it.slot}, {rows}, {columns}, {height}, {width}, {fill});", (made.it.slot,))
        return made

    def arrive(self, slot: Slot) -> None:
        """Hand a loaded buffer to the vector unit."""
        self.out.add(f"{ring_of(slot)}.EnQue({slot});", (slot,))
        self.out.add(f"{slot} = {ring_of(slot)}.DeQue<{slot.dtype.cpp}>();", (slot,))

    def wait_for_store(self, array: str) -> None:
        """What this program stored to an array has arrived before the array is read again."""
        if array in self.stored:
            self.use(SYNC)
            self.out.add("Sync<HardEvent::MTE3_MTE2>();")

    def place(self, pointer: Pointer, form: Affine) -> str:
        return f"{pointer.name}Gm[{form.base}]" if form.base != 0 else f"{pointer.name}Gm"

    def laid_out(self, form: Affine, shape: tuple[int, ...], valid: MaskForm) -> tuple[str, str, Text, Text]:
        """Valid rows and columns, and the strides of both."""
        rows, columns = self.extents(valid, shape)
        if len(shape) == 2 and shape[0] > 1 and shape[1] > 1:
            if shape[0] > MOST_ROWS:
                raise TileError(
                    f"a block of {shape[0]} rows; one copy moves at most {MOST_ROWS}", cure="use fewer rows"
                )
            if form.strides[1] not in (1, "1"):
                raise TileError(
                    "the columns of a block are not neighbours in memory", cure="let the last axis have stride 1"
                )
            return rows, columns, form.strides[0], 1
        axis = next((n for n, size in enumerate(shape) if size > 1), 0)
        stride = form.strides[axis]
        return rows, columns, 0, 1 if stride == "1" else stride

    def load_single(self, pointer: Pointer, form: Affine, shape: tuple[int, ...], valid: MaskForm, other: Any) -> Any:
        """One element through the scalar unit."""
        if form.entries:
            raise TileError("one lane of an index block", cure="load the index as a single number")
        conditions = (*valid.conditions, *(f"({t}) > 0" for _, t in valid.limits))
        text = f"{pointer.name}Gm.GetValue({form.base})"
        kind = pointer.dtype
        if conditions:
            text = f"{' && '.join(conditions)} ? {text} : {self.number(0 if other is None else other, kind)}"
        if is_float(kind):
            value = self.named(f"{kind.cpp}", f"{pointer.name}Value", text)
            made = self.new(shape, kind)
            return self.step(f"Duplicate({made.it.slot}, {value}, {self.lanes(made)});", made)
        return self.whole(self.named("int64_t", f"{pointer.name}Value", text), kind)

    def load_spaced(
        self, pointer: Pointer, form: Affine, shape: tuple[int, ...], columns: str, stride: Text, fill: str, loose: bool
    ) -> Block:
        """Elements that lie apart, or one element for all lanes."""
        kind = pointer.dtype
        if stride == 0:
            valid = MaskForm((), (f"{columns} > 0",))
            return self.broadcast(self.load_single(pointer, form, (), valid, None), shape)
        if kind.bits == 8 or kind.bits == 64:
            raise TileError(f"{kind.name} elements that lie apart", cure="let the last axis have stride 1")
        for text in (SPACED, PACK_SPACED):
            self.use(text)
        n = count_of(shape)
        self.steps_lanes = max(self.steps_lanes, n)
        blocks = self.out.slot(kind, n * 256 // kind.bits, "in", self.line)
        self.out.add(f"LoadSpaced({blocks}, {self.place(pointer, form)}, {columns}, {stride});", defines=blocks)
        self.arrive(blocks)
        made = self.new(shape, kind)
        made.it.loose = loose
        text = f"PackSpaced({made.it.slot}, {blocks}, steps.Get<uint32_t>(), {columns}, {self.lanes(made)}, {fill});"
        return self.step(text, made, in_place=False, more=(blocks,))

    def load_by_entries(
        self, pointer: Pointer, form: Affine, shape: tuple[int, ...], valid: MaskForm, fill: str, loose: bool
    ) -> Block:
        """Rows, or single elements, that the entries of an index block name."""
        entry = form.entries[0]
        others = [n for n, s in enumerate(form.strides) if s != 0 and shape[n] > 1]
        by_rows = len(shape) == 2 and entry.axis % len(shape) == 0 and others == [1] and form.strides[1] in (1, "1")
        if (
            len(form.entries) > 1
            or (others and not by_rows)
            or (len(shape) == 2 and not by_rows and count_of(shape) != max(shape))
        ):
            raise TileError(
                "a pointer by more than one index", cure="write pointer + index[:, None] * stride + columns[None, :]"
            )
        self.use(SYNC)
        for text in (LOAD_ROWS, FILL_LANES, FILL_ROWS):
            self.use(text)
        rows, columns = self.extents(valid, shape)
        height, width = self.grid_of(shape)
        self.out.add("Sync<HardEvent::V_S>();", form.slots)
        if by_rows:
            self.use(GATHER_ROWS)
            made = self.new(shape, pointer.dtype, home="in")
            text = f"GatherRows({made.it.slot}, {self.place(pointer, form)}, {entry.slot}, {entry.scale}, {rows}, {columns}, {width}, {fill});"
            self.out.add(text, form.slots, made.it.slot)
            self.arrive(made.it.slot)
            self.out.add(f"FillRows({made.it.slot}, {rows}, {columns}, {height}, {width}, {fill});", (made.it.slot,))
        else:
            self.use(GATHER_ELEMENTS)
            made = self.new(shape, pointer.dtype)
            self.step(f"FillLanes({made.it.slot}, {fill}, {self.lanes(made)});", made, in_place=False)
            self.out.add("Sync<HardEvent::V_S>();")
            text = (
                f"GatherElements({made.it.slot}, {self.place(pointer, form)}, {entry.slot}, {entry.scale}, {columns});"
            )
            self.out.add(text, (made.it.slot, *form.slots))
            self.out.add("Sync<HardEvent::S_V>();")
        made.it.loose = loose
        return made

    # ---- out ---------------------------------------------------------------------------------------------------------

    def store(self, pointer: Pointer, value: Any, mask: Any, *, atomic: bool) -> None:
        form, shape = pointer.it
        lanes: tuple[int, ...] = getattr(value, "shape", ())
        if count_of(lanes) > count_of(shape):
            raise TileError(
                f"a block of shape {list(lanes)} is stored at one of {list(shape)}", cure="store one lane for each"
            )
        valid = self.form_of(mask, shape, "store")
        given = self.full(shape, value, pointer.dtype) if not isinstance(value, Block) else self.broadcast(value, shape)
        if pointer.dtype.bits == 64 and not given.it.slot.loaded:
            raise TileError("int64 lanes are stored", cure="store int32: the vector unit computes with 32 bits")
        rows, columns = self.extents(valid, shape)
        out = self.out.slot(pointer.dtype, given.it.slot.lanes, "out", self.line)
        _, width = self.grid_of(shape)
        row_stride: Text = 0
        stride: Text = 1
        if not form.entries:
            rows, columns, row_stride, stride = self.laid_out(form, shape, valid) if shape else (rows, columns, 0, 1)
        self.stored.add(pointer.name)
        spaced = stride != 1 or (bool(form.entries) and (len(shape) == 1 or max(shape) == count_of(shape)))
        if spaced and count_of(shape) > 1:
            self.store_spaced(pointer, form, given, columns, stride, atomic=atomic)
            return
        self.out.add(
            f"DataCopy({out}, {given.it.slot}, {self.count(shape)});",
            (given.it.slot,),
            out,
            copies=(out, given.it.slot),
        )
        self.out.add(f"{ring_of(out)}.EnQue({out});", (out,))
        self.out.add(f"{out} = {ring_of(out)}.DeQue<{out.dtype.cpp}>();", (out,))
        self.use(STORE_ROWS)
        if form.entries:
            for text in (SYNC, SCATTER_ROWS):
                self.use(text)
            e = form.entries[0]
            self.out.add("Sync<HardEvent::V_S>();", form.slots)
            call = f"ScatterRows({self.place(pointer, form)}, {out}, {e.slot}, {e.scale}, {rows}, {columns}, {width});"
        else:
            call = f"StoreRows({self.place(pointer, form)}, {out}, {rows}, {columns}, {row_stride}, {width});"
        self.leave(out, call, form.slots, atomic=atomic)

    def leave(self, out: Slot, call: str, entries: tuple[Slot, ...], *, atomic: bool) -> None:
        """The copy to global memory, adding where it is atomic, and the buffer given back."""
        if atomic:
            self.out.add(f"SetAtomicAdd<{out.dtype.cpp}>();")
        self.out.add(call, (out, *entries))
        if atomic:
            self.out.add("SetAtomicNone();")
        self.out.add(f"{ring_of(out)}.FreeTensor({out});", (out,))

    def store_spaced(
        self, pointer: Pointer, form: Affine, given: Block, columns: str, stride: Text, *, atomic: bool
    ) -> None:
        """Elements to places that lie apart."""
        if form.entries or stride == 0 or pointer.dtype.bits == 8:
            raise TileError(
                "single elements are scattered", cure="store rows of neighbours, or let each program own one element"
            )
        for text in (SPREAD, STORE_SPACED):
            self.use(text)
        n = self.lanes(given)
        blocks = self.out.slot(pointer.dtype, n * 256 // pointer.dtype.bits, "out", self.line)
        self.out.add(f"Spread({blocks}, {given.it.slot}, {n});", (given.it.slot,), blocks)
        self.out.add(f"{ring_of(blocks)}.EnQue({blocks});", (blocks,))
        self.out.add(f"{blocks} = {ring_of(blocks)}.DeQue<{blocks.dtype.cpp}>();", (blocks,))
        self.leave(
            blocks, f"StoreSpaced({self.place(pointer, form)}, {blocks}, {columns}, {stride});", (), atomic=atomic
        )
