"""What must exist as data, what only the scalar unit asks for lane by lane, and which scalars: everything else is never computed."""

from __future__ import annotations

from toprope.tile.form.nodes import (
    Block,
    For,
    Form,
    If,
    Say,
    Set,
    Store,
    Value,
    While,
    blocks_of,
    used_by,
    walk,
)
from toprope.tile.form.operations import COMPARISONS, ELEMENTWISE, OPERATIONS, on_vector
from toprope.tile.passes.places import Access, Places, access_of, scalars_of

# Made lane by lane from what they are made of, wherever a lane is asked for.
_THROUGH = {"splat", "iota", "broadcast", "reshape", "transpose", "slice"}


def uses_bits(condition: Value) -> bool:
    """Whether a select compares at once, instead of keeping conditions as data."""
    return (
        condition.op in COMPARISONS
        and on_vector(condition.op, condition.args[0].dtype)
        and condition.args[0].dtype.name != "bool"
    )


def by_vector(v: Value) -> bool:
    """Whether the vector unit computes an element-wise tile."""
    kind = v.args[1].dtype if v.op == "select" else v.args[0].dtype
    return on_vector(v.op, kind, v.dtype)


class Demand:
    """The demands of one form."""

    def __init__(self, form: Form) -> None:
        self.places = Places()
        self.data: set[Value] = set()
        self.lanes: set[Value] = set()
        self.scalars: set[Value] = set()
        self.accesses: dict[Value | Store, Access] = {}
        self._drop_unread(form)

        for s in walk(form.body):
            match s:
                case Store():
                    self._access(s, s.offset, s.mask)
                    self.need(s.value)
                    if s.compare is not None:
                        self.need(s.compare)
                case Set():
                    self.need(s.value)
                case For():
                    for v in (s.begin, s.end, s.step):
                        self.need(v)
                case If() | While():
                    self.need(s.condition)
                case Say(kind="assert"):
                    for v in s.values:
                        self.need(v)

    def _drop_unread(self, form: Form) -> None:
        """Nobody reads what most atomics found, and variables that nothing reads are not set."""
        while True:
            used = {a for s in walk(form.body) for a in used_by(s)}
            read = {v.attributes["variable"] for v in used if v.op == "read"}
            gone = False
            for block in _blocks(form.body):
                kept = [s for s in block if not (isinstance(s, Set) and s.variable not in read)]
                kept = [s for s in kept if not (isinstance(s, Value) and s.op != "load" and s not in used)]
                gone |= len(kept) != len(block)
                block[:] = kept
                for s in block:
                    if isinstance(s, Store) and s.old is not None and s.old not in read:
                        s.old = None
            if not gone:
                return

    def need(self, v: Value) -> None:
        """A value as data, or as a scalar."""
        if not v.shape:
            if v not in self.scalars:
                self.scalars.add(v)
                if v.op == "load":
                    self._access(v, v.args[0], v.args[1] if v.attributes["masked"] else None)
                    for a in v.args:
                        self.need(a)
                else:
                    for a in v.args:
                        self.need(a)
            return
        if v.op == "splat":  # repeated where it is used
            self.need(v.args[0])
            return
        if v in self.data:
            return
        self.data.add(v)
        if v.op == "load":
            self._access(v, v.args[0], v.args[1] if v.attributes["masked"] else None)
            if v.attributes["other"]:
                self.need(v.args[-1])
        elif v.op in ELEMENTWISE and by_vector(v):
            args = v.args
            if v.op == "select" and uses_bits(args[0]):
                args = (*args[0].args, *args[1:])
            for a in args:
                self.need(a)
        elif v.op in ELEMENTWISE or (v.op in _THROUGH and self.places.affine(v) is not None):
            for a in v.args:
                self.lane(a)
            affine = self.places.affine(v)
            if affine is not None:
                for s in (affine.base, *affine.strides):
                    for x in scalars_of(s):
                        self.need(x)
        else:
            for a in v.args:
                self.need(a)

    def lane(self, v: Value) -> None:
        """A value that is asked for lane by lane: lanes of simple things are computed on the spot."""
        if not v.shape:
            self.need(v)
            return
        if v in self.lanes:
            return
        self.lanes.add(v)
        whole = v.dtype.name not in ("float32", "float16", "bfloat16")
        if v.op in _THROUGH or (v.op in ELEMENTWISE and whole and (v.op not in OPERATIONS or OPERATIONS[v.op].scalar)):
            for a in v.args:
                self.lane(a)
        else:
            self.need(v)

    def on_the_spot(self, v: Value) -> bool:
        """Whether a lane of it is computed where it is asked for."""
        return v in self.lanes and v not in self.data

    def _access(self, s: Value | Store, offset: Value, mask: Value | None) -> None:
        found = access_of(self.places, offset, mask)
        self.accesses[s] = found
        scalars, asked = found.needs()
        for v in scalars:
            self.need(v)
        for v in asked:
            self.lane(v)


def _blocks(block: Block) -> list[Block]:
    found = [block]
    for s in block:
        for b in blocks_of(s):
            found += _blocks(b)
    return found
