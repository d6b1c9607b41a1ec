"""Loads, stores, atomics; block pointers and descriptors as offsets and masks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.form.nodes import Type, Value, Variable, boolean, i32, i64
from toprope.tile.front_triton.carry import joined_shape
from toprope.tile.front_triton.values import BlockPointer, Pointer, is_number
from toprope.tile.language import TileError


class MemoryWords:
    """Words that touch memory."""

    b: Any
    arith: Any
    lanes: Any
    both: Any
    ordered: Any
    whole: Any
    expression: Any

    def word_load(
        self,
        pointer: Any,
        mask: Any = None,
        other: Any = None,
        boundary_check: Any = (),
        padding_option: str = "",
        *_: Any,
        **__: Any,
    ) -> Any:
        if isinstance(pointer, BlockPointer):
            pointer, mask = self.window(pointer, boundary_check)
            other = float("nan") if padding_option == "nan" else None
        pointer, offset, shape = self.placed(pointer, mask)
        args, kind = [offset], pointer.dtype
        if mask is not None and mask is not True:
            args.append(self.condition(mask, shape))
        masked = len(args) == 2
        if other is not None and masked:
            args.append(self.lanes(other, kind, shape))
        return self.b.value("load", Type(kind, shape), *args, array=pointer.array, masked=masked, other=len(args) == 3)

    def word_store(
        self, pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), *_: Any, **__: Any
    ) -> None:
        if isinstance(pointer, BlockPointer):
            pointer, mask = self.window(pointer, boundary_check)
        shape = joined_shape(pointer.shape, getattr(value, "shape", ())) if not pointer.shape else pointer.shape
        if not pointer.shape and shape and all(n == 1 for n in shape):
            value, shape = self.b.value("item", Type(value.dtype), value), ()
        pointer, offset, shape = self.placed(pointer, mask, shape)
        condition = self.condition(mask, shape) if mask is not None and mask is not True else None
        self.b.store(pointer.array, pointer.dtype, offset, self.lanes(value, pointer.dtype, shape), condition)

    def placed(self, pointer: Any, mask: Any, shape: tuple[int, ...] = ()) -> tuple[Pointer, Value, tuple[int, ...]]:
        """A pointer with its offsets in the shape that they meet the mask in."""
        if isinstance(pointer, Value):
            raise TileError(
                "an address that was loaded or computed as a number",
                cure="pass the array itself; addresses inside arrays are not followed",
            )
        if not isinstance(pointer, Pointer):
            raise TileError("the address is not a pointer plus offsets", cure="add offsets to a pointer argument")
        if pointer.dtype.name == "float64":
            raise TileError("float64: the chip's vector unit has no such lanes", cure="pass float32")
        offset = pointer.offset if pointer.offset is not None else self.b.constant(0)
        shape = joined_shape(joined_shape(offset.shape, shape), getattr(mask, "shape", ()))
        if offset.dtype not in (i32, i64):
            offset = self.b.cast(offset, i64 if offset.dtype.bits == 64 or offset.dtype.name == "uint32" else i32)
        return pointer, self.b.broadcast(offset, shape), shape

    def condition(self, mask: Any, shape: tuple[int, ...]) -> Any:
        """A mask as conditions of lanes."""
        return self.lanes(self.b.cast(mask, boolean) if isinstance(mask, Value) else bool(mask), boolean, shape)

    # ---- atomics -----------------------------------------------------------------------------------------------------

    def _atomic(self, name: str, pointer: Any, value: Any, mask: Any = None, compare: Any = None) -> Any:
        pointer, offset, shape = self.placed(pointer, mask, getattr(value, "shape", ()))
        old = Variable("old", Type(pointer.dtype, shape))
        self.b.set(old, self.lanes(0, pointer.dtype, shape))
        condition = self.condition(mask, shape) if mask is not None and mask is not True else None
        more = {} if compare is None else {"compare": self.lanes(compare, pointer.dtype, shape)}
        self.b.store(
            pointer.array,
            pointer.dtype,
            offset,
            self.lanes(value, pointer.dtype, shape),
            condition,
            atomic=name,
            old=old,
            **more,
        )
        return self.b.value("read", old.type, variable=old)

    def word_atomic_add(self, pointer: Any, value: Any, mask: Any = None, *_: Any, **__: Any) -> Any:
        return self._atomic("add", pointer, value, mask)

    def word_atomic_max(self, pointer: Any, value: Any, mask: Any = None, *_: Any, **__: Any) -> Any:
        return self._atomic("max", pointer, value, mask)

    def word_atomic_min(self, pointer: Any, value: Any, mask: Any = None, *_: Any, **__: Any) -> Any:
        return self._atomic("min", pointer, value, mask)

    def word_atomic_and(self, pointer: Any, value: Any, mask: Any = None, *_: Any, **__: Any) -> Any:
        return self._atomic("and", pointer, value, mask)

    def word_atomic_or(self, pointer: Any, value: Any, mask: Any = None, *_: Any, **__: Any) -> Any:
        return self._atomic("or", pointer, value, mask)

    def word_atomic_xor(self, pointer: Any, value: Any, mask: Any = None, *_: Any, **__: Any) -> Any:
        return self._atomic("xor", pointer, value, mask)

    def word_atomic_xchg(self, pointer: Any, value: Any, mask: Any = None, *_: Any, **__: Any) -> Any:
        return self._atomic("xchg", pointer, value, mask)

    def word_atomic_cas(self, pointer: Any, compare: Any, value: Any, *_: Any, **__: Any) -> Any:
        return self._atomic("cas", pointer, value, None, compare)

    # ---- block pointers ----------------------------------------------------------------------------------------------

    def word_make_block_ptr(
        self, base: Pointer, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any = None, **_: Any
    ) -> BlockPointer:
        return BlockPointer(base, tuple(shape), tuple(strides), tuple(offsets), tuple(int(n) for n in block_shape))

    def word_advance(self, pointer: BlockPointer, offsets: Any) -> BlockPointer:
        return replace(
            pointer, offsets=tuple(self.arith("add", a, b) for a, b in zip(pointer.offsets, offsets, strict=True))
        )

    def word_make_tensor_descriptor(
        self, base: Pointer, shape: Any, strides: Any, block_shape: Any, **_: Any
    ) -> BlockPointer:
        return BlockPointer(
            base, tuple(shape), tuple(strides), (0,) * len(shape), tuple(int(n) for n in block_shape), True
        )

    def word__experimental_make_tensor_descriptor(
        self, base: Pointer, shape: Any, strides: Any, block_shape: Any, **_: Any
    ) -> BlockPointer:
        return self.word_make_tensor_descriptor(base, shape, strides, block_shape)

    def word_load_tensor_descriptor(self, window: BlockPointer, offsets: Any) -> Any:
        return self.by_descriptor(window, "load", [offsets])

    def word_store_tensor_descriptor(self, window: BlockPointer, offsets: Any, value: Any) -> Any:
        return self.by_descriptor(window, "store", [offsets, value])

    def by_descriptor(self, window: BlockPointer, name: str, args: list[Any]) -> Any:
        """descriptor.load([i, j]); what lies outside reads as 0 and is not written."""
        window = replace(window, offsets=tuple(args[0]))
        pointer, mask = self.window(window, tuple(range(len(window.block))))
        if name == "load":
            return self.word_load(pointer, mask)
        if name == "store":
            return self.word_store(
                pointer,
                args[1]
                if isinstance(args[1], Value) and args[1].shape == window.block
                else self.b.reshape(args[1], window.block),
                mask,
            )
        if name == "atomic_add":
            return self._atomic("add", pointer, args[1], mask)
        raise TileError(f"{name} of a descriptor", cure="load and store rows by pointers")

    def window(self, w: BlockPointer, check: Any) -> tuple[Pointer, Any]:
        """Offsets of every element of a window, and the mask of those inside along the checked axes."""
        rank = len(w.block)
        if w.descriptor or check is True:
            check = tuple(range(rank))
        total: Any = w.pointer.offset if w.pointer.offset is not None else self.b.constant(0)
        mask: Any = None
        for axis, (extent, stride, begin, block) in enumerate(
            zip(w.extents, w.strides, w.offsets, w.block, strict=True)
        ):
            iota = self.b.value("iota", Type(i32, (block,)))
            lanes = self.arith("add", iota, begin)
            shape = tuple(block if n == axis else 1 for n in range(rank))
            lanes = self.b.reshape(lanes, shape)
            total = self.arith("add", total, self.arith("mul", lanes, stride))
            if check and axis in check:
                inside = self.both("and", self.ordered("ge", lanes, 0), self.ordered("lt", lanes, extent))
                mask = inside if mask is None else self.both("and", mask, inside)
        return Pointer(w.pointer.array, w.pointer.dtype, self.b.broadcast(total, w.block)), mask


__all__ = ["Dtype", "MemoryWords", "is_number"]
