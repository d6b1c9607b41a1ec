"""Words that make tiles, change their extents, reduce, scan, sort and multiply them."""

from __future__ import annotations

from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.form import numbers
from toprope.tile.form.nodes import WHOLE, Type, Value, bf16, boolean, f16, f32, i8, i32, u8
from toprope.tile.front_triton.carry import joined_shape
from toprope.tile.front_triton.module import Helper, Words
from toprope.tile.front_triton.values import Pointer, common, is_number, promoted
from toprope.tile.language import TileError


class ShapeWords:
    """Words about extents."""

    b: Any
    arith: Any
    lanes: Any
    ordered: Any
    both: Any
    expanded: Any
    word_where: Any
    wide: Any
    back: Any

    # ---- making ------------------------------------------------------------------------------------------------------

    def word_arange(self, start: int = 0, end: int | None = None, **_: Any) -> Any:
        begin, stop = (0, start) if end is None else (start, end)
        if not (is_number(begin) and is_number(stop)):
            raise TileError(
                "arange of numbers that a launch gives", cure="arange takes constants; add the number afterwards"
            )
        return self.arith("add", self.b.value("iota", Type(i32, (int(stop) - int(begin),))), int(begin))

    def word_zeros(self, shape: Any, dtype: Any = f32, **_: Any) -> Any:
        return self.word_full(shape, 0, dtype)

    def word_full(self, shape: Any, value: Any, dtype: Any = None, **_: Any) -> Any:
        kind = dtype[1] if isinstance(dtype, tuple) else dtype
        shape = _extents(shape)
        if kind is None:
            kind = value.dtype if isinstance(value, Value) else f32
        if isinstance(value, Value) and value.shape:
            value = self.b.value("item", Type(value.dtype), value)
        if is_number(value):
            value = self.b.constant(
                bool(value) if kind == boolean else float(value) if numbers.is_float(kind) else int(value), kind
            )
        return self.b.splat(self.b.cast(value, kind), shape)

    def word_zeros_like(self, x: Any, **_: Any) -> Any:
        return self.word_full(x.shape, 0, x.dtype)

    # ---- extents -----------------------------------------------------------------------------------------------------

    def word_reshape(self, x: Any, *shape: Any, can_reorder: Any = None, **_: Any) -> Any:
        extents = _extents(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)
        return self._reshaped(x, extents)

    def _reshaped(self, x: Any, extents: tuple[int, ...]) -> Any:
        if isinstance(x, Pointer):
            return Pointer(x.array, x.dtype, self.b.reshape(x.offset, extents))
        if -1 in extents:
            known = 1
            for n in extents:
                known *= n if n != -1 else 1
            extents = tuple(x.type.size // known if n == -1 else n for n in extents)
        return self.b.reshape(x, extents)

    def word_ravel(self, x: Value, **_: Any) -> Any:
        return self.b.reshape(x, (x.type.size,))

    def word_expand_dims(self, x: Any, axis: Any) -> Any:
        shape = list(x.shape)
        for a in sorted([axis] if is_number(axis) else list(axis)):
            shape.insert(a if a >= 0 else len(shape) + 1 + a, 1)
        return self._reshaped(x, tuple(shape))

    def word_broadcast_to(self, x: Any, *shape: Any, **_: Any) -> Any:
        extents = _extents(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)
        if isinstance(x, Pointer):
            return Pointer(
                x.array, x.dtype, self.b.broadcast(x.offset if x.offset is not None else self.b.constant(0), extents)
            )
        return self.b.broadcast(x if isinstance(x, Value) else self.b.constant(x), extents)

    def word_broadcast(self, a: Any, b: Any) -> Any:
        shape = joined_shape(a.shape, b.shape)
        return self.b.broadcast(a, shape), self.b.broadcast(b, shape)

    def word_trans(self, x: Any, *axes: Any, **named: Any) -> Any:
        if "dims" in named:
            axes = (named["dims"],)
        order = tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], tuple | list) else tuple(axes)
        rank = len(x.shape)
        order = order or (*range(rank - 2), rank - 1, rank - 2)
        order = tuple(int(a) % rank for a in order)
        if isinstance(x, Pointer):
            return Pointer(x.array, x.dtype, self.b.transpose(x.offset, order))
        return self.b.transpose(x, order)

    def word_flip(self, x: Value, dim: Any = -1) -> Any:
        axis = (dim if dim is not None else -1) % len(x.shape)
        return self.b.slice(x, axis, x.shape[axis] - 1, x.shape[axis], -1)

    def word_join(self, a: Value, b: Value) -> Any:
        kind, shape = common(a, b), joined_shape(a.shape, b.shape)
        parts = [self.b.reshape(self.lanes(v, kind, shape), (*shape, 1)) for v in (a, b)]
        return self.b.join(parts, len(shape))

    def word_split(self, x: Value) -> tuple[Value, Value]:
        axis = len(x.shape) - 1
        if x.shape[axis:] != (2,):
            raise TileError(f"split of a tile {list(x.shape)}", cure="split takes a last axis of two lanes")
        first, second = (self.b.reshape(self.b.slice(x, axis, n, 1), x.shape[:-1]) for n in (0, 1))
        return first, second

    def word_interleave(self, a: Value, b: Value) -> Any:
        joined = self.word_join(a, b)
        return self.b.reshape(joined, (*joined.shape[:-2], joined.shape[-2] * 2))

    def word_cat(self, a: Any, b: Any = None, dim: int = 0, *, can_reorder: Any = None, **_: Any) -> Any:
        parts = list(a) if isinstance(a, tuple | list) else [a, b]
        return self.b.join(parts, int(dim) % len(parts[0].shape))

    def word_gather(self, x: Value, index: Value, axis: int = 0, **_: Any) -> Any:
        return self.b.value("gather", Type(x.dtype, index.shape), x, index, axis=int(axis) % len(x.shape))

    def word_get_element(self, x: Value, index: Any) -> Any:
        flat = self.b.reshape(x, (x.type.size,))
        place: Any = index[0] if isinstance(index, tuple | list) else index
        if isinstance(index, tuple | list) and len(index) > 1:
            place = 0
            for n, i in zip(x.shape, index, strict=True):
                place = self.arith("add", self.arith("mul", place, n), i)
        return self.b.value(
            "item",
            Type(x.dtype),
            self.b.value("gather", Type(x.dtype, (1,)), flat, self.lanes(place, i32, (1,)), axis=0),
        )

    def word_extract_slice(self, x: Value, offsets: Any, sizes: Any, strides: Any = None, **_: Any) -> Value:
        for axis, (begin, extent) in enumerate(zip(offsets, sizes, strict=True)):
            step = int(strides[axis]) if strides is not None else 1
            if is_number(begin):
                x = self.b.slice(x, axis, int(begin), int(extent), step)
            else:
                places = self.arith(
                    "add", self.arith("mul", self.b.value("iota", Type(i32, (int(extent),))), step), begin
                )
                shape = (*x.shape[:axis], int(extent), *x.shape[axis + 1 :])
                index = self.b.broadcast(
                    self.b.reshape(places, tuple(int(extent) if n == axis else 1 for n in range(len(x.shape)))), shape
                )
                x = self.b.value("gather", Type(x.dtype, shape), x, index, axis=axis)
        return x

    def word_insert_slice(self, x: Value, part: Value, offsets: Any, sizes: Any, strides: Any = None, **_: Any) -> Any:
        """Lanes of `part` where a lane's place lies in the window, else x."""
        inside: Any = None
        found: Any = part
        for axis, begin in enumerate(offsets):
            step = int(strides[axis]) if strides is not None else 1
            along = tuple(x.shape[axis] if n == axis else 1 for n in range(len(x.shape)))
            place = self.arith("sub", self.b.reshape(self.b.value("iota", Type(i32, (x.shape[axis],))), along), begin)
            one = self.both("and", self.ordered("ge", place, 0), self.ordered("lt", place, int(sizes[axis]) * step))
            if step != 1:
                one = self.both("and", one, self.ordered("eq", self.arith("mod", place, step), 0))
                place = self.arith("floordiv", place, step)
            inside = one if inside is None else self.both("and", inside, one)
            kept = self.arith("min", self.arith("max", place, 0), int(sizes[axis]) - 1)
            shape = (*found.shape[:axis], x.shape[axis], *found.shape[axis + 1 :])
            found = self.b.value("gather", Type(found.dtype, shape), found, self.b.broadcast(kept, shape), axis=axis)
        return self.word_where(inside, found, x)

    # ---- reductions --------------------------------------------------------------------------------------------------

    def _axes(self, x: Value, axis: Any) -> tuple[int, ...]:
        return (
            tuple(range(len(x.shape)))
            if axis is None
            else tuple(int(a) % len(x.shape) for a in (axis if isinstance(axis, tuple | list) else (axis,)))
        )

    def _reduce(self, name: str, x: Any, axis: Any, keep_dims: bool) -> Any:
        if not isinstance(x, Value) or not x.shape:
            return x
        axes = self._axes(x, axis)
        shape = x.shape
        kind = x.dtype
        work = f32 if kind == bf16 or (kind == f16 and name == "sum") else i32 if kind == boolean else kind
        x = self.b.cast(x, work)
        if len(axes) == len(shape):
            x = self.b.reduce(name, self.b.reshape(x, (x.type.size,)), 0)
        else:
            for a in sorted(axes, reverse=True):
                x = self.b.reduce(name, x, a)
        x = self.b.cast(x, kind) if kind in (bf16, f16) else x
        return self.b.reshape(x, tuple(1 if n in axes else e for n, e in enumerate(shape))) if keep_dims else x

    def word_sum(self, x: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None, **_: Any) -> Any:
        if dtype is not None and isinstance(dtype, Dtype):
            x = self.b.cast(x, dtype)
        if isinstance(x, Value) and x.dtype in WHOLE and x.dtype.bits < 32:
            x = self.b.cast(x, i32)
        return self._reduce("sum", x, axis, keep_dims)

    def word_max(
        self,
        x: Any,
        axis: Any = None,
        return_indices: bool = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
        **_: Any,
    ) -> Any:
        found = self._reduce("max", x, axis, keep_dims)
        return (found, self._place("max", x, axis, keep_dims)) if return_indices else found

    def word_min(
        self,
        x: Any,
        axis: Any = None,
        return_indices: bool = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
        **_: Any,
    ) -> Any:
        found = self._reduce("min", x, axis, keep_dims)
        return (found, self._place("min", x, axis, keep_dims)) if return_indices else found

    def word_argmax(
        self, x: Value, axis: Any = None, tie_break_left: bool = True, keep_dims: bool = False, **_: Any
    ) -> Any:
        return self._place("max", x, axis, keep_dims)

    def word_argmin(
        self, x: Value, axis: Any = None, tie_break_left: bool = True, keep_dims: bool = False, **_: Any
    ) -> Any:
        return self._place("min", x, axis, keep_dims)

    def _place(self, name: str, x: Value, axis: Any, keep_dims: bool) -> Any:
        """The first place of the extreme."""
        if axis is None:
            x, axis = self.b.reshape(x, (x.type.size,)), 0
        axis = int(axis) % len(x.shape)
        best = self._reduce(name, x, axis, True)
        iota = self.b.reshape(
            self.b.cast(self.b.value("iota", Type(i32, (x.shape[axis],))), f32),
            tuple(x.shape[axis] if n == axis else 1 for n in range(len(x.shape))),
        )
        place = self.word_where(self.ordered("eq", x, best), iota, float(x.shape[axis] - 1))
        return self.b.cast(self._reduce("min", place, axis, keep_dims), i32)

    def word_xor_sum(self, x: Value, axis: Any = None, keep_dims: bool = False, **_: Any) -> Value:
        return self._folded(lambda a, b: self.arith("xor", a, b), (x,), axis, keep_dims)[0]

    def word_reduce_or(self, x: Value, axis: Any, keep_dims: bool = False, **_: Any) -> Value:
        return self._folded(lambda a, b: self.arith("or", a, b), (x,), axis, keep_dims)[0]

    def word_all(self, x: Value, axis: Any = None, **_: Any) -> Any:
        return self.b.cast(self._reduce("min", self.b.cast(self.b.cast(x, boolean), i32), axis, False), boolean)

    def word_any(self, x: Value, axis: Any = None, **_: Any) -> Any:
        return self.b.cast(self._reduce("max", self.b.cast(self.b.cast(x, boolean), i32), axis, False), boolean)

    def word_reduce(self, x: Any, axis: Any, combine_fn: Any, keep_dims: bool = False, **_: Any) -> Any:
        known = self._known(combine_fn)
        if known and isinstance(x, Value):
            return self._reduce(known, x, axis, keep_dims)
        parts = tuple(x) if isinstance(x, tuple | list) else (x,)
        found = self._folded(self._combiner(combine_fn), parts, axis, keep_dims)
        return found if isinstance(x, tuple | list) else found[0]

    def _known(self, combine: Any) -> str:
        name = combine.node.name if isinstance(combine, Helper) else combine.name if isinstance(combine, Words) else ""
        return (
            {
                "_sum_combine": "sum",
                "_elementwise_max": "max",
                "_elementwise_min": "min",
                "maximum": "max",
                "minimum": "min",
            }.get(name, "")
            if isinstance(combine, Words)
            else ""
        )

    def _combiner(self, combine: Any) -> Any:
        def joined(*args: Any) -> Any:
            return (
                self.expanded(combine, list(args), {})
                if isinstance(combine, Helper)
                else self.word(combine, list(args), {})
            )

        return joined

    def word(self, which: Words, args: list[Any], named: dict[str, Any]) -> Any:
        """Given by Language."""
        raise NotImplementedError

    def _folded(self, combine: Any, parts: tuple[Value, ...], axis: Any, keep_dims: bool) -> tuple[Value, ...]:
        """Halves against halves with any function."""
        first = parts[0].shape
        if axis is None:
            parts, axis = tuple(self.b.reshape(p, (p.type.size,)) for p in parts), 0
        axis = int(axis) % len(parts[0].shape)
        while (extent := parts[0].shape[axis]) > 1:
            half = extent // 2
            low = [self.b.slice(p, axis, 0, half) for p in parts]
            high = [self.b.slice(p, axis, half, half) for p in parts]
            made = combine(*low, *high)
            made = made if isinstance(made, tuple) else (made,)
            made = tuple(
                self.b.broadcast(self.b.cast(m, p.dtype), low[0].shape) for m, p in zip(made, parts, strict=True)
            )
            if extent % 2:
                made = tuple(
                    self.b.join([m, self.b.slice(p, axis, extent - 1, 1)], axis)
                    for m, p in zip(made, parts, strict=True)
                )
            parts = made
        shape = parts[0].shape
        end = shape if keep_dims and len(shape) == len(first) else shape[:axis] + shape[axis + 1 :]
        return tuple(self.b.reshape(p, end) if end else self.b.value("item", Type(p.dtype), p) for p in parts)

    # ---- scans, sorts ------------------------------------------------------------------------------------------------

    def _scan(self, name: str, x: Value, axis: Any, reverse: Any) -> Any:
        kind = x.dtype
        x = self.b.cast(
            x, f32 if kind in (bf16, f16) else i32 if kind == boolean or (kind in WHOLE and kind.bits < 32) else kind
        )
        found = self.b.value("scan", x.type, x, name=name, axis=int(axis) % len(x.shape), reverse=bool(reverse))
        return self.b.cast(found, kind) if kind in (bf16, f16) else found

    def word_cumsum(self, x: Value, axis: Any = 0, reverse: Any = False, dtype: Any = None, **_: Any) -> Any:
        return self._scan("sum", x, axis, reverse)

    def word_cumprod(self, x: Value, axis: Any = 0, reverse: Any = False, **_: Any) -> Any:
        return self._scan("prod", x, axis, reverse)

    def word_associative_scan(self, x: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
        parts = tuple(x) if isinstance(x, tuple | list) else (x,)
        axis = int(axis) % len(parts[0].shape)
        combine = self._combiner(combine_fn)
        extent = parts[0].shape[axis]
        if reverse:
            parts = tuple(self.word_flip(p, axis) for p in parts)
        step = 1
        while step < extent:  # lanes at `step` and beyond take what lies `step` in front
            late = [self.b.slice(p, axis, step, extent - step) for p in parts]
            early = [self.b.slice(p, axis, 0, extent - step) for p in parts]
            made = combine(*early, *late)
            made = made if isinstance(made, tuple) else (made,)
            parts = tuple(
                self.b.join([self.b.slice(p, axis, 0, step), self.b.cast(m, p.dtype)], axis)
                for m, p in zip(made, parts, strict=True)
            )
            step *= 2
        if reverse:
            parts = tuple(self.word_flip(p, axis) for p in parts)
        return parts if isinstance(x, tuple | list) else parts[0]

    def word_sort(self, x: Value, dim: Any = None, descending: Any = False, **_: Any) -> Any:
        axis = (dim if dim is not None else -1) % len(x.shape)
        return self.b.value("sort", x.type, x, axis=axis, descending=bool(descending))

    def word_topk(self, x: Value, k: int, dim: Any = None, **_: Any) -> Any:
        axis = (dim if dim is not None else -1) % len(x.shape)
        return self.b.slice(self.word_sort(x, axis, True), axis, 0, int(k))

    def word_histogram(self, x: Value, num_bins: int, mask: Any = None, **_: Any) -> Any:
        if mask is not None:
            x = self.word_where(mask, x, int(num_bins))
        return self.b.value("histogram", Type(i32, (int(num_bins),)), self.b.cast(x, i32))

    def word_softmax(
        self, x: Value, dim: Any = None, keep_dims: bool = False, ieee_rounding: bool = False, **_: Any
    ) -> Any:
        axis = (dim if dim is not None else 0) % len(x.shape)
        w = self.wide(x)
        e = self.b.apply("exp", self.arith("sub", w, self._reduce("max", w, axis, True)))
        return self.back(self.arith("div", e, self._reduce("sum", e, axis, True)), x)

    # ---- products ----------------------------------------------------------------------------------------------------

    def word_dot(self, a: Value, b: Value, acc: Any = None, *_: Any, out_dtype: Any = None, **__: Any) -> Any:
        if not (
            isinstance(a, Value)
            and isinstance(b, Value)
            and len(a.shape) in (2, 3)
            and len(a.shape) == len(b.shape)
            and a.shape[-1] == b.shape[-2]
        ):
            raise TileError("dot of two tiles that do not fit", cure="give [M, K] and [K, N]")
        if {a.dtype, b.dtype} <= {i8, u8} and a.dtype == b.dtype == i8:
            kind, result = i8, i32
        else:
            kind, result = a.dtype if a.dtype == b.dtype else promoted(a.dtype, b.dtype), f32
            kind = kind if kind in (f16, bf16, f32) else f32
        made = self.b.value(
            "dot", Type(result, (*a.shape[:-1], b.shape[-1])), self.b.cast(a, kind), self.b.cast(b, kind)
        )
        if acc is not None:
            made = self.arith("add", acc, made)
        return self.b.cast(made, out_dtype) if isinstance(out_dtype, Dtype) and acc is None else made

    def word_swizzle2d(self, i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
        ij = self.arith("add", self.arith("mul", i, size_j), j)
        group = self.arith("mul", size_g, size_j)
        first = self.arith("mul", self.arith("floordiv", ij, group), size_g)
        height = self.arith("min", self.arith("sub", size_i, first), size_g)
        rest = self.arith("mod", ij, group)
        return self.arith("add", first, self.arith("mod", rest, height)), self.arith("floordiv", rest, height)


def _extents(shape: Any) -> tuple[int, ...]:
    found = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if not all(isinstance(n, int) for n in found):
        raise TileError("extents that a launch gives", cure="extents of tiles are constants")
    return tuple(int(n) for n in found)
