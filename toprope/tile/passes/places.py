"""From offsets to places: sums of lane numbers with strides, the axis of neighbours, masks as intervals along axes; the rest stays lane by lane."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toprope.tile.form import numbers
from toprope.tile.form.nodes import WHOLE, Type, Value, boolean
from toprope.tile.form.operations import ELEMENTWISE

# A whole number of the scalar unit: a number, a scalar value, or ("+"|"*", left, right).
Sum = Any


def plus(a: Sum, b: Sum) -> Sum:
    """a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0:
        return b
    if b == 0:
        return a
    if isinstance(b, int) and isinstance(a, tuple) and a[0] == "+" and isinstance(a[2], int):
        return plus(a[1], a[2] + b)
    return ("+", a, b) if not isinstance(a, int) else ("+", b, a)


def times(a: Sum, b: Sum) -> Sum:
    """a * b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    if a == 1:
        return b
    if b == 1:
        return a
    return ("*", b, a) if isinstance(a, int) else ("*", a, b)


def scalars_of(s: Sum) -> list[Value]:
    """The scalar values inside."""
    if isinstance(s, Value):
        return [s]
    return [v for part in s[1:] for v in scalars_of(part)] if isinstance(s, tuple) else []


@dataclass(frozen=True)
class Affine:
    """base + sum of strides times lane numbers."""

    base: Sum
    strides: tuple[Sum, ...]

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """The sum of two."""
        return Affine(
            plus(self.base, times(other.base, factor)),
            tuple(plus(a, times(b, factor)) for a, b in zip(self.strides, other.strides, strict=True)),
        )

    def times(self, number: Sum) -> Affine:
        """Everything times one number."""
        return Affine(times(self.base, number), tuple(times(s, number) for s in self.strides))


def _number(v: Value) -> Sum:
    """A scalar as a sum: what is added up and multiplied stays visible."""
    if v.op == "constant":
        return int(v.attributes["value"])
    return v


class Places:
    """Affine forms of whole-number tiles, kept."""

    def __init__(self) -> None:
        self._known: dict[Value, Affine | None] = {}

    def affine(self, v: Value) -> Affine | None:
        """v as base + strides, or None."""
        if v not in self._known:
            self._known[v] = self._affine(v)
        return self._known[v]

    def _affine(self, v: Value) -> Affine | None:
        if v.dtype not in WHOLE:
            return None
        rank = len(v.shape)
        if not v.shape:
            return Affine(_number(v), ())
        if v.op == "splat":
            return Affine(_number(v.args[0]), (0,) * rank)
        if v.op == "iota":
            return Affine(0, (1,))
        if v.op in ("add", "sub", "mul", "shl"):
            a, b = (self.affine(x) for x in v.args)
            if a is None or b is None:
                return None
            if v.op in ("add", "sub"):
                return a.plus(b, 1 if v.op == "add" else -1)
            if v.op == "shl":
                return (
                    a.times(1 << b.base)
                    if isinstance(b.base, int) and not any(b.strides) and 0 <= b.base < 40
                    else None
                )
            if any(s != 0 for s in a.strides) and any(s != 0 for s in b.strides):
                return None
            return a.times(b.base) if any(s != 0 for s in a.strides) else b.times(a.base)
        inner = self.affine(v.args[0]) if v.op in ("broadcast", "reshape", "transpose", "cast", "slice") else None
        if inner is None:
            return None
        x = v.args[0]
        if v.op == "cast":
            return inner if x.dtype.bits <= v.dtype.bits else None
        if v.op == "broadcast":
            return Affine(
                inner.base, tuple(s if e == f else 0 for s, e, f in zip(inner.strides, x.shape, v.shape, strict=True))
            )
        if v.op == "transpose":
            return Affine(inner.base, tuple(inner.strides[a] for a in v.attributes["axes"]))
        if v.op == "slice":
            axis, begin, step = (v.attributes[k] for k in ("axis", "begin", "step"))
            strides = tuple(times(s, step) if n == axis else s for n, s in enumerate(inner.strides))
            return Affine(plus(inner.base, times(inner.strides[axis], begin)), strides)
        axes = reshaped_axes(x.shape, v.shape)
        return (
            None if axes is None else Affine(inner.base, tuple(inner.strides[a] if a is not None else 0 for a in axes))
        )

    def terms(self, v: Value) -> tuple[Affine, list[Value]]:
        """An offset as an affine part and what is none."""
        found = self.affine(v)
        if found is not None:
            return found, []
        if v.op == "add":
            a, p = self.terms(v.args[0])
            b, q = self.terms(v.args[1])
            return a.plus(b), p + q
        if v.op == "sub" and (b0 := self.affine(v.args[1])) is not None:
            a, p = self.terms(v.args[0])
            return a.plus(b0, -1), p
        if v.op in ("broadcast", "reshape", "cast") and v.args[0].op in ("add", "sub") and v.args[0].shape:
            inner = v.args[0]
            if v.op != "reshape" or reshaped_axes(inner.shape, v.shape) is not None:
                parts = tuple(
                    Value(v.op, Type(v.dtype if v.op == "cast" else x.dtype, v.shape), (x,), v.attributes, v.line)
                    for x in inner.args
                )
                return self.terms(Value(inner.op, v.type, parts, {}, v.line))
        return Affine(0, (0,) * len(v.shape)), [v]

    def axes_of(self, v: Value) -> frozenset[int]:
        """The axes along which a value's lanes may differ."""
        every = frozenset(n for n, e in enumerate(v.shape) if e > 1)
        if v.op == "splat" or not v.shape:
            return frozenset()
        if v.op in ELEMENTWISE:
            return frozenset().union(*(self.axes_of(a) for a in v.args))
        if v.op == "broadcast":
            inner = self.axes_of(v.args[0])
            return frozenset(n for n in inner if v.args[0].shape[n] > 1)
        if v.op == "transpose":
            inner = self.axes_of(v.args[0])
            return frozenset(n for n, a in enumerate(v.attributes["axes"]) if a in inner)
        if v.op == "reshape":
            axes = reshaped_axes(v.args[0].shape, v.shape)
            if axes is not None:
                inner = self.axes_of(v.args[0])
                return frozenset(n for n, a in enumerate(axes) if a in inner)
        return every


def reshaped_axes(old: tuple[int, ...], new: tuple[int, ...]) -> list[int | None] | None:
    """Which old axis each new one is, where only extents of 1 come and go."""
    kept = [n for n, e in enumerate(old) if e > 1]
    if [old[n] for n in kept] != [e for e in new if e > 1]:
        return None
    found: list[int | None] = []
    for e in new:
        found.append(kept.pop(0) if e > 1 else None)
    return found


@dataclass
class Access:
    """One load or store: offset = affine + others; `along` is the axis of neighbours (None: lane by lane).

    Lanes count where, for every axis, lows <= lane < highs, and every condition holds.
    """

    affine: Affine
    others: list[Value]
    along: int | None
    lows: dict[int, list[Sum]] = field(default_factory=dict)
    highs: dict[int, list[Sum]] = field(default_factory=dict)
    conditions: list[Value] = field(default_factory=list)

    @property
    def partial(self) -> bool:
        """Whether some lane may not count."""
        return bool(self.lows or self.highs or self.conditions)

    def needs(self) -> tuple[list[Value], list[Value]]:
        """(scalars, values that are asked lane by lane)."""
        sums = [
            self.affine.base,
            *self.affine.strides,
            *(s for d in (self.lows, self.highs) for each in d.values() for s in each),
        ]
        return [v for s in sums for v in scalars_of(s)], [*self.others, *self.conditions]


def access_of(places: Places, offset: Value, mask: Value | None) -> Access:
    """How lanes of a load or store lie in memory."""
    affine, others = places.terms(offset)
    busy = frozenset[int]().union(*(places.axes_of(v) for v in others)) if others else frozenset[int]()
    found = Access(affine, others, None)
    for term in _terms_of_mask(mask) if mask is not None else []:
        if not _as_interval(places, term, found):
            found.conditions.append(term)
    for v in found.conditions:
        busy |= places.axes_of(v)
    free = [n for n, e in enumerate(offset.shape) if e > 1 and n not in busy and affine.strides[n] == 1]
    found.along = free[-1] if free else None
    return found


def _terms_of_mask(v: Value) -> list[Value]:
    """Conditions that all must hold."""
    if v.constant is not None and bool(v.constant):
        return []
    if v.op == "and":
        return _terms_of_mask(v.args[0]) + _terms_of_mask(v.args[1])
    if v.op in ("broadcast", "reshape") and v.args[0].shape:
        inner = v.args[0]
        if (inner.op == "and" or inner.op in ("lt", "le", "gt", "ge", "broadcast", "reshape")) and (
            v.op == "broadcast" or reshaped_axes(inner.shape, v.shape) is not None
        ):
            if inner.op in ("broadcast", "reshape"):
                pushed = _terms_of_mask(inner)
                if pushed == [inner]:
                    return [v]
                return [
                    p
                    for t in pushed
                    for p in _terms_of_mask(Value(v.op, Type(boolean, v.shape), (t,), v.attributes, v.line))
                ]
            parts = tuple(Value(v.op, Type(x.dtype, v.shape), (x,), v.attributes, v.line) for x in inner.args)
            made = Value(inner.op, v.type, parts, {}, v.line)
            return _terms_of_mask(made) if inner.op == "and" else [made]
    return [v]


def _as_interval(places: Places, v: Value, found: Access) -> bool:
    """Adds a comparison of one axis's lane numbers with a scalar as an interval."""
    if v.op not in ("lt", "le", "gt", "ge") or numbers.is_float(v.args[0].dtype) or not v.shape:
        return False
    a, b = (places.affine(x) for x in v.args)
    if a is None or b is None:
        return False
    d = a.plus(b, -1)  # compared with 0
    axes = [n for n, s in enumerate(d.strides) if s != 0]
    if len(axes) != 1 or d.strides[axes[0]] not in (1, -1):
        return False
    axis, rising, op = axes[0], d.strides[axes[0]] == 1, v.op
    if not rising:  # -lane + base < 0 is lane > base
        op = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[op]
    limit = times(d.base, -1) if rising else d.base
    if op in ("lt", "le"):
        found.highs.setdefault(axis, []).append(plus(limit, 1 if op == "le" else 0))
    else:
        found.lows.setdefault(axis, []).append(plus(limit, 1 if op == "gt" else 0))
    return True
