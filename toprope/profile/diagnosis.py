"""Advice, ordered by gain: what to change, at which line, and how many microseconds the model expects it to save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from toprope.finding import Finding, Place, codes
from toprope.kernel import Run
from toprope.profile import tiles, whatif
from toprope.profile.memory import reached_bytes
from toprope.profile.reuse import read_back, shareable_buffers
from toprope.timing import predict
from toprope.timing.prediction import UNIT_FLAG_BIT
from toprope.trace import PIPES, Array, BufferRow, Trace

_SHIFTS = (0, 4, 8, 12)  # 32-byte blocks by which a buffer could be padded; bank groups repeat after 16
LEAST_GAIN = 0.02  # share of the time; smaller gains are noise beside the model's error


@dataclass(frozen=True)
class Idea:
    """A possible change: its code, what it says, the lines it concerns, and the predicted cycles if it were made."""

    code: str
    message: str
    places: tuple[Place, ...]
    cycles: Callable[[], float]
    data: dict[str, int] = field(default_factory=dict)


def diagnose(run: Run) -> list[Finding]:
    """Advice for a run: findings of severity advice with `cycles_at_stake`, largest gain first, but before them what the time truly
    hangs on where elements pass through a scalar unit that works more than any pipe; last, with `bytes_at_stake`, what would free on-chip memory."""
    now = run.timeline.cycles
    if not now:
        return []
    found = []
    for idea in (idea for source in _SOURCES for idea in source(run)):
        saved = now - idea.cycles()
        if saved < LEAST_GAIN * now:
            continue
        microseconds = run.timeline.microseconds
        after = microseconds * (1 - saved / now)
        text = f"{idea.message}: saves up to {saved / now:.0%}, from {microseconds:.1f} to {after:.1f} µs"
        found.append(
            Finding(
                idea.code,
                "advice",
                text,
                idea.places,
                codes()[idea.code].cure,
                cycles_at_stake=saved,
                data=dict(idea.data),
            )
        )
    bound = "advice-scalar-access" if max(PIPES, key=run.timeline.busy) == "S" else ""
    return sorted(found, key=lambda f: (f.code != bound, -f.cycles_at_stake)) + shareable_buffers(run.trace)


def _place(trace: Trace, site: int, op: str = "", pipe: str = "") -> Place:
    row = trace.sites[site]
    return Place(row.file, row.line, op, pipe)


def _buffers(run: Run) -> Iterator[Idea]:
    """Queues with a single buffer that go round more than once: all of them, in less room, or those that fit."""
    trace = run.trace
    first_core = [b for b in trace.buffers if b.core == 0]
    count = Counter(b.queue for b in first_core)
    rounds = Counter(trace.instrs["work"][whatif.kinds(trace, "alloc")].tolist())
    single = [b for b in first_core if count[b.queue] == 1 and rounds[b.queue] > len(trace.cores)]
    if not single:
        return
    reached = reached_bytes(trace, 0)
    room = Counter({space: run.soc.bytes_of(space) for space in {b.space for b in first_core}})
    room.subtract({space: sum(b.bytes for b in first_core if b.space == space) for space in room})

    def fits(buffers: Sequence[BufferRow], trimmed: bool) -> bool:
        left = Counter(room)
        for b in buffers:
            left[b.space] -= 2 * reached[b.queue] - b.bytes if trimmed else b.bytes
        return all(bytes_left >= 0 for bytes_left in left.values())

    def cycles(buffers: Sequence[BufferRow]) -> float:
        return predict(whatif.one_more_buffer(trace, [b.queue for b in buffers]), run.soc, sync=run.sync).cycles

    chosen: list[BufferRow] = single
    trimmed = not fits(single, False)
    if trimmed and not fits(single, True):
        chosen = []
        for buffer in sorted(single, key=lambda b: cycles([b])):
            if fits([*chosen, buffer], True):
                chosen.append(buffer)
        trimmed = not fits(chosen, False)
    if not chosen:
        return
    these = "these queues" if len(chosen) > 1 else "this queue"
    if trimmed:
        needed, given = sum(reached[b.queue] for b in chosen), sum(b.bytes for b in chosen)
        how = f"{these} two buffers of what a round needs ({needed:,} of the {given:,} bytes given now)"
    else:
        how = f"{these} two buffers ({sum(b.bytes for b in chosen):,} bytes more)"
    yield Idea(
        "advice-double-buffer",
        f"give {how}, so that copies overlap with work",
        tuple(_place(trace, b.site, "InitBuffer") for b in chosen),
        lambda: cycles(chosen),
    )


def _bank_conflicts(run: Run) -> Iterator[Idea]:
    """Vector instructions whose sources meet in a UB bank group, where moving one of them helps: not for an operand with itself, nor
    where one walks through all groups while the other stays."""
    trace = run.trace
    rows, at = whatif.second_sources(trace)
    if not len(rows):
        return
    sites = trace.instrs["site"][rows]
    durations = [(run.timeline.end - run.timeline.start)[rows]]
    for blocks in _SHIFTS[1:]:
        moved = predict(whatif.moved_by(trace, at, np.full(len(at), blocks)), run.soc, sync=run.sync)
        durations.append((moved.end - moved.start)[rows])
    of_site = np.stack([np.bincount(sites, weights=spent, minlength=len(trace.sites)) for spent in durations])
    best = of_site.argmin(axis=0)
    saved = np.zeros(len(trace.instrs))
    saved[rows] = durations[0] - np.choose(best[sites], durations)
    lines = _dearest(trace, saved)
    if lines:
        shifted = whatif.moved_by(trace, at, np.array(_SHIFTS)[best[sites]])
        yield Idea(
            "advice-bank-conflict",
            "move the operands of these instructions apart, so that they do not share a UB bank group",
            lines,
            lambda: predict(shifted, run.soc, sync=run.sync).cycles,
        )


def _barriers(run: Run) -> Iterator[Idea]:
    """PipeBarrier<PIPE_ALL> inside the work; beside each line what the check says about it: which pair of pipes needs it, or none."""
    trace = run.trace
    drop = whatif.kinds(trace, "barrier") & (trace.instrs["pipe"] == PIPES.index("ALL"))
    if drop.sum() > len(trace.cores):
        needs = {f.places[0]: f.message for f in run.findings if f.code == "barrier-too-coarse"}
        told = {(p.file, p.line): message.removeprefix("this PipeBarrier<PIPE_ALL> ") for p, message in needs.items()}
        lines = _dearest(trace, drop.astype(float))
        yield Idea(
            "barrier-too-coarse",
            f"{int(drop.sum())} barriers stop every pipe; events of the pipes concerned would let the others go on",
            tuple(replace(p, action=told.get((p.file, p.line), "orders several pairs of pipes")) for p in lines),
            lambda: predict(whatif.without(trace, drop), run.soc, sync=run.sync).cycles,
        )


def _bypass(run: Run) -> Iterator[Idea]:
    """Inputs that are read once from GM and push others out of L2."""
    trace = run.trace
    ranges = trace.decoded()
    size = ranges.sizes()
    reads = (ranges.space == 0) & (ranges.mode == 1)
    rows = []
    for argument in trace.gm:
        mine = reads & (ranges.address >= argument.address) & (ranges.address < argument.address + argument.bytes)
        moved = int(size[mine].sum())
        if 0 < moved <= argument.bytes * 1.05:
            rows.append((argument.name, np.unique(ranges.instr[mine])))
    names = [name for name, _ in rows]
    touched = np.concatenate([instrs for _, instrs in rows]) if rows else np.empty(0, np.int64)
    copies = whatif.kinds(trace, "copy")
    touched = touched[copies[touched] & (trace.instrs["arg"][touched] & whatif.BYPASS_BIT == 0)]
    if len(touched):
        yield Idea(
            "advice-bypass-l2",
            f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} read once: bypass L2 with SetL2CacheHint",
            _dearest(trace, np.isin(np.arange(len(trace.instrs)), touched).astype(float)),
            lambda: predict(whatif.with_arg(trace, touched, whatif.BYPASS_BIT), run.soc, sync=run.sync).cycles,
        )


def _blocks(run: Run) -> Iterator[Idea]:
    """At most half as many blocks as cores: the work could be cut finer."""
    trace = run.trace
    cores = run.soc.aiv if all(c.type == "aiv" for c in trace.cores) else run.soc.aic
    parts = cores // max(1, run.blocks)
    if parts < 2 or trace.mixed or whatif.kinds(trace, "cross_set", "cross_wait").any():
        return
    yield Idea(
        "advice-more-blocks",
        f"{run.blocks} {'blocks leave' if run.blocks > 1 else 'block leaves'} {cores - run.blocks} of {cores} cores idle; split the work over all of them",
        (),
        lambda: predict(whatif.spread(trace, parts), run.soc, sync=run.sync).cycles,
    )


def _uneven(run: Run) -> Iterator[Idea]:
    """Blocks with more work than others, or more blocks than cores with some left over for a last wave."""
    trace, timeline = run.trace, run.timeline
    slots = run.soc.aiv if all(c.type == "aiv" for c in trace.cores) else run.soc.aic
    spent = timeline.core_end - timeline.core_start
    left_over = len(trace.cores) > slots and len(trace.cores) % slots > 0
    if trace.mixed or whatif.kinds(trace, "cross_set", "cross_wait").any() or not spent.max(initial=0.0):
        return
    if spent.mean() > 0.9 * spent.max() and not left_over:
        return
    dealt = tiles.shared_out(trace, min(slots, len(trace.cores)))
    if dealt is not None:
        what = (
            f"{len(trace.cores)} blocks run in waves on {slots} cores, the last one not full"
            if left_over
            else f"the mean block needs {spent.mean() / spent.max():.0%} of the slowest block's time"
        )
        yield Idea(
            "advice-even-blocks",
            f"{what}; deal the tiles out evenly over {len(dealt.cores)} blocks",
            (),
            lambda: predict(dealt, run.soc, sync=run.sync).cycles,
            {"blocks": len(dealt.cores)},
        )


def _scalars(run: Run) -> Iterator[Idea]:
    """Single elements read and written by the scalar unit, and the flags around them, for which it stops sending instructions."""
    trace = run.trace
    elements, trips = whatif.elements(trace), whatif.scalar_trips(trace)
    waits = int((trips & whatif.kinds(trace, "wait_flag") & (trace.instrs["pipe"] == PIPES.index("S"))).sum())
    if elements.sum() <= 64:
        return
    text = f"{int(elements.sum()):,} elements go through GetValue/SetValue one by one; use a vector instruction"
    if waits > len(trace.cores):
        text = (
            f"{int(elements.sum()):,} elements go through GetValue/SetValue, and the scalar unit waits {waits:,} times for the vector "
            "unit and sends no copy meanwhile; keep the values in UB (WholeReduceSum, Brcb, vector instructions)"
        )
    yield Idea(
        "advice-scalar-access",
        text,
        _dearest(trace, elements.astype(float)),
        lambda: predict(whatif.without(trace, elements | trips), run.soc, sync=run.sync).cycles,
    )


def _tiles(run: Run) -> Iterator[Idea]:
    """Rounds that copy little: with larger tiles the same work needs fewer copies, instructions and flags."""
    trace = run.trace
    used = Counter[str]()
    for buffer in trace.buffers:
        if buffer.core == 0:
            used[buffer.space] += buffer.bytes
    apart = not trace.mixed and not whatif.kinds(trace, "cross_set", "cross_wait").any()
    if not apart or not used or any(op.pipe == "M" for op in trace.ops):
        return
    room = min(run.soc.bytes_of(space) // size for space, size in used.items())
    factor, cycles = 1, run.timeline.cycles
    for larger in (2, 4, 8, 16, 32):
        changed = tiles.larger_tiles(trace, larger) if larger <= room else None
        if changed is not None:
            after = predict(changed, run.soc, sync=run.sync).cycles
            if after > 0.99 * cycles:  # larger tiles cost room: no further than they gain
                break
            factor, cycles = larger, after
    if factor > 1:
        space, size = used.most_common(1)[0]
        yield Idea(
            "advice-larger-tiles",
            f"make the tile {factor} times as large ({factor * size / 1024:.0f} instead of {size / 1024:.0f} KB of {space.upper()}): fewer copies, instructions and flags",
            tuple(
                _place(trace, b.site, "InitBuffer") for b in {b.queue: b for b in trace.buffers if b.core == 0}.values()
            )[:3],
            lambda: cycles,
            {"factor": factor},
        )


def _unit_flag(run: Run) -> Iterator[Idea]:
    """Products that the store waits for as a whole, where it could follow them block by block."""
    trace = run.trace
    stores = np.array([op.cost == "l0c_to_gm" for op in trace.ops] or [False])[trace.instrs["op"]]
    if (stores & (trace.instrs["arg"] >> UNIT_FLAG_BIT["l0c_to_gm"] & 1 == 0)).any():
        products = np.array([op.cost == "mmad" for op in trace.ops])[trace.instrs["op"]]
        yield Idea(
            "advice-unit-flag",
            "set unitFlag in Mmad and Fixpipe, so that the store follows the product block by block",
            tuple(
                {
                    (p.file, p.line): p for which in (stores, products) for p in _dearest(trace, which.astype(float), 2)
                }.values()
            ),
            lambda: predict(whatif.with_unit_flag(trace), run.soc, sync=run.sync).cycles,
        )


def _constant_tiling(run: Run) -> Iterator[Idea]:
    """A Matmul object that reads its tiling at every step."""
    trace = run.trace
    reading = whatif.reads_tiling(trace)
    if reading.any():
        steps = int(reading.sum())
        yield Idea(
            "advice-constant-tiling",
            f"{steps:,} steps of the Matmul object read its tiling from memory; make it constant (GetMatmulApiTiling)",
            _dearest(trace, reading.astype(float)),
            lambda: predict(whatif.with_constant_tiling(trace), run.soc, sync=run.sync).cycles,
            {"steps": steps},
        )


def _tiling_data(run: Run) -> Iterator[Idea]:
    """Tiling data that every core reads through the scalar unit before it begins."""
    trace = run.trace
    reading = whatif.tiling_data(trace)
    if reading.any():
        most = 8 * int(trace.instrs["work"][reading].max())
        yield Idea(
            "advice-tiling-data",
            f"every core reads its tiling data ({most:,} bytes, {-(-most // 64)} lines of the data cache) before it begins; make what is "
            "fixed a constant, and the struct smaller",
            _dearest(trace, reading.astype(float)),
            lambda: predict(whatif.without(trace, reading), run.soc, sync=run.sync).cycles,
            {"bytes": most},
        )


def _joins(run: Run) -> Iterator[Idea]:
    """Rows that are copied one by one."""
    joined, gone = tiles.joined_copies(run.trace)
    if gone.any():
        yield Idea(
            "advice-join-copies",
            f"{int(gone.sum()):,} copies move the next row of the one before; one copy with blockCount moves all rows",
            _dearest(run.trace, gone.astype(float)),
            lambda: predict(joined, run.soc, sync=run.sync).cycles,
        )


def _fusion(run: Run) -> Iterator[Idea]:
    """Tiles that come back from GM although the core had them in UB."""
    back, size = read_back(run.trace)
    if back.any():
        yield Idea(
            "advice-keep-on-chip",
            f"{int(back.sum()):,} copies bring back {size:,} bytes that the same core has copied to GM before",
            _dearest(run.trace, back.astype(float)),
            lambda: predict(whatif.without(run.trace, back), run.soc, sync=run.sync).cycles,
            {"bytes": size},
        )


_SOURCES: tuple[Callable[[Run], Iterator[Idea]], ...] = (
    _buffers, _bank_conflicts, _barriers, _bypass, _blocks, _uneven, _scalars, _tiles, _joins, _unit_flag, _constant_tiling,
    _tiling_data, _fusion,
)  # fmt: skip


def _dearest(trace: Trace, weight: Array, limit: int = 3) -> tuple[Place, ...]:
    """The source lines with the largest total weight."""
    totals = np.bincount(trace.instrs["site"], weights=weight, minlength=len(trace.sites))
    order = np.argsort(-totals, kind="stable")[:limit]
    return tuple(_place(trace, int(site)) for site in order if totals[site] > 0)
