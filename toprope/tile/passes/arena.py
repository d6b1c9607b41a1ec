"""Places of buffers in the unified buffer: bytes are shared by what never lives at the same time. The ledger."""

from __future__ import annotations

from toprope.tile.passes.instructions import Buffer, Declare, Instruction, Node, Program, Scope


def place(program: Program) -> int:
    """Gives every buffer its offset; the bytes of the arena. What is declared outside a loop and touched inside lives through the loop."""
    buffers: list[Buffer] = []
    depth: dict[Buffer, int] = {}
    clock = 0

    def touch(b: Buffer, loops: list[tuple[int, list[Buffer]]]) -> None:
        if b.first < 0:
            return
        b.last = max(b.last, clock)
        if depth[b] < len(loops):
            loops[depth[b]][1].append(b)

    def go(block: list[Node], loops: list[tuple[int, list[Buffer]]]) -> None:
        nonlocal clock
        for n in block:
            clock += 1
            if isinstance(n, Declare):
                n.buffer.first = n.buffer.last = clock
                depth[n.buffer] = len(loops)
                buffers.append(n.buffer)
            elif isinstance(n, Instruction):
                for b in (*n.reads, *n.writes):
                    if isinstance(b, Buffer) and not b.fixed and b in depth:
                        touch(b, loops)
            elif isinstance(n, Scope):
                inner = [*loops, (clock, [])] if n.loop else loops
                go(n.body, inner)
                go(n.orelse or [], inner)
                clock += 1
                if n.loop:
                    for b in inner[-1][1]:
                        b.last = max(b.last, clock)

    go(program.body, [])
    top = 0
    live: list[Buffer] = []
    for b in sorted(buffers, key=lambda b: b.first):
        live = [o for o in live if o.last >= b.first]
        at = 0
        for o in sorted(live, key=lambda o: o.offset):
            if at + b.bytes <= o.offset:
                break
            at = max(at, o.offset + o.bytes)
        b.offset = at
        live.append(b)
        top = max(top, at + b.bytes)
    return top


def used(program: Program) -> list[Buffer]:
    """Every buffer of the arena, by offset."""
    found: list[Buffer] = []

    def go(block: list[Node]) -> None:
        for n in block:
            if isinstance(n, Declare):
                found.append(n.buffer)
            elif isinstance(n, Scope):
                go(n.body)
                go(n.orelse or [])

    go(program.body)
    return sorted(found, key=lambda b: (b.offset, b.first))
