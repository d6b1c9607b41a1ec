"""Order between pipes: a flag wherever one pipe touches what another has not finished with. Bytes decide, so shared ones are safe too."""

from __future__ import annotations

from dataclasses import dataclass

from toprope.tile.passes.instructions import Buffer, Instruction, Node, Program, Scope, Touched, nodes
from toprope.tile.text.pieces import SYNC

PIPES = ("S", "V", "MTE2", "MTE3")
_EVENTS = {(a, b) for a in PIPES for b in PIPES if a != b}


@dataclass(frozen=True)
class _Touch:
    """One access that is not known to be complete for every pipe."""

    pipe: str
    begin: int
    end: int
    array: str
    write: bool


State = dict[_Touch, frozenset[str]]  # -> the pipes for which it is complete


def ordered(program: Program) -> Program:
    """The program with flags; its steps follow each other without a barrier between them."""
    start: State = {_Touch("V", 0, 1 << 30, "", True): frozenset()}  # the arena is filled before the first step
    for b, text in program.fixed:
        start[_Touch("S" if "SetValue" in text else "V", *_range(b), True)] = frozenset()
    steps: list[Node] = [Scope("for each step {", program.body, True)]
    _block(steps, start)
    if any(isinstance(n, Instruction) and n.text.startswith("Sync<") for n in nodes(program.body)):
        program.pieces = {SYNC: SYNC, **program.pieces}
    return program


def _block(block: list[Node], state: State) -> State:
    """Puts flags in front of instructions; the state behind the block."""
    out: list[Node] = []
    for n in block:
        if isinstance(n, Instruction):
            state = _instruction(n, state, out)
        elif isinstance(n, Scope):
            if n.loop:
                again = _block(_copy(n.body), dict(state))
                start = _merged(state, again)
                behind = _block(_copy(n.body), dict(start))  # what one more pass leaves
                start = _merged(start, behind)
                state = _merged(start, _block(n.body, dict(start)))
            else:
                other = _block(n.orelse, dict(state)) if n.orelse else state
                state = _merged(_block(n.body, dict(state)), other)
        out.append(n)
    block[:] = out
    return state


def _copy(block: list[Node]) -> list[Node]:
    return [
        Scope(n.head, _copy(n.body), n.loop, _copy(n.orelse) if n.orelse else None) if isinstance(n, Scope) else n
        for n in block
    ]


def _merged(a: State, b: State) -> State:
    found = dict(a)
    for t, done in b.items():
        found[t] = found[t] & done if t in found else done
    return found


def _range(b: Touched) -> tuple[int, int, str]:
    if isinstance(b, Buffer):
        return (b.offset, b.offset + b.bytes, "kept" + b.name if b.fixed or b.offset < 0 else "")
    return (0, 1, b.name)


def _instruction(n: Instruction, state: State, out: list[Node]) -> State:
    touches = [(*_range(b), False) for b in n.reads] + [(*_range(b), True) for b in n.writes]
    needed: set[tuple[str, str]] = set()
    for t, done in state.items():
        for begin, end, array, write in touches:
            if t.array == array and t.begin < end and begin < t.end and (write or t.write):
                needed |= {(t.pipe, p) for p in n.pipes if p != t.pipe and p not in done}
    for source, to in sorted(needed):
        out.append(Instruction(f"Sync<HardEvent::{source}_{to}>();"))
        # what `source` has waited for is complete for `to` as well
        state = {t: done | {to} if t.pipe == source or source in done else done for t, done in state.items()}
        state = {t: done for t, done in state.items() if len(done | {t.pipe}) < len(PIPES)}
    for begin, end, array, write in touches:
        for p in n.pipes:
            touch = _Touch(p, begin, end, array, write)
            state[touch] = frozenset()
    return state
