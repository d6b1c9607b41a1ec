"""The rules of the form, checked after every pass: types of operands, extents, what is defined before it is used."""

from __future__ import annotations

from math import prod

from toprope.tile.form.nodes import Block, For, Form, Set, Store, Value, blocks_of, boolean, used_by
from toprope.tile.form.operations import OPERATIONS


class FormError(AssertionError):
    """A node breaks a rule of the form: a mistake of a front end or pass, never of a kernel's author."""


def verify(form: Form) -> None:
    """Raise FormError at the first node that breaks a rule."""
    names = {a.name for a in form.arguments if a.is_array}
    _block(form.body, set(), names)


def _block(block: Block, known: set[Value], arrays: set[str]) -> None:
    here = set(known)
    for s in block:
        for v in used_by(s) if type(s).__name__ != "While" else ():
            if v not in here and v.op != "constant":
                raise FormError(f"line {s.line}: {type(s).__name__} uses {v} ({v.op}), which is not defined there")
        if isinstance(s, Value):
            _value(s)
            if s.op == "load" and s.attributes["array"] not in arrays:
                raise FormError(f"line {s.line}: a load from {s.attributes['array']}, which is no array")
            here.add(s)
        elif isinstance(s, Store):
            if s.array not in arrays or s.value.shape != s.offset.shape or s.value.dtype != s.dtype:
                raise FormError(
                    f"line {s.line}: a store of {s.value.type} to {s.dtype.name} {s.array} at {s.offset.type}"
                )
            if s.mask is not None and (s.mask.dtype != boolean or s.mask.shape != s.offset.shape):
                raise FormError(f"line {s.line}: a mask {s.mask.type} for {s.offset.type}")
        elif isinstance(s, Set) and s.variable.type != s.value.type:
            raise FormError(f"line {s.line}: {s.variable} is {s.variable.type}, set to {s.value.type}")
        elif isinstance(s, For) and any(v.shape for v in (s.begin, s.end, s.step)):
            raise FormError(f"line {s.line}: a loop's bounds are scalars")
        if type(s).__name__ == "While":
            inner = set(here)
            for b in blocks_of(s):
                _block(b, inner, arrays)
                inner |= {v for v in b if isinstance(v, Value)}
        else:
            for b in blocks_of(s):
                _block(b, here, arrays)


def _value(v: Value) -> None:
    shapes = [a.shape for a in v.args]
    wrong = len(v.shape) > 5 or any(e < 1 for e in v.shape)
    if v.op in OPERATIONS:
        row = OPERATIONS[v.op]
        wrong |= (
            len(v.args) != row.arity
            or any(a.type != v.args[0].type for a in v.args)
            or v.shape != shapes[0]
            or v.dtype != (row.result or v.args[0].dtype)
        )
    elif v.op in ("cast", "bitcast"):
        wrong |= v.shape != shapes[0]
    elif v.op == "select":
        wrong |= (
            v.args[0].dtype != boolean
            or any(s != v.shape for s in shapes)
            or v.args[1].type != v.type
            or v.args[2].type != v.type
        )
    elif v.op == "reshape":
        wrong |= prod(v.shape) != prod(shapes[0])
    elif v.op == "broadcast":
        wrong |= len(shapes[0]) != len(v.shape) or any(
            p not in (1, q) for p, q in zip(shapes[0], v.shape, strict=False)
        )
    elif v.op == "reduce":
        axis = v.attributes["axis"]
        wrong |= v.shape != shapes[0][:axis] + shapes[0][axis + 1 :]
    elif v.op == "dot":
        wrong |= (
            v.args[0].dtype != v.args[1].dtype
            or shapes[0][-1] != shapes[1][-2]
            or v.shape != (*shapes[0][:-1], shapes[1][-1])
        )
    if wrong:
        raise FormError(f"line {v.line}: {v.op} of {', '.join(str(a.type) for a in v.args)} is no {v.type}")
