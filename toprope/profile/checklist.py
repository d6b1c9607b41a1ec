"""The optimisation check list: what a fast kernel has, whether this run has it, and the number behind the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from toprope.finding import Finding
from toprope.kernel import Run
from toprope.profile import whatif
from toprope.profile.memory import memory_use
from toprope.trace import PIPES, Array

State = Literal["ok", "not", "n/a"]

# Where the vendor's guides draw the line.
LARGE_COPY_BYTES = 16 << 10  # data copies reach the full rate from here on
GM_ALIGNMENT_BYTES = 512
EVEN_SHARE, OVERHEAD_SHARE, USED_SHARE = 0.9, 0.25, 0.5


@dataclass(frozen=True)
class Check:
    """One item: what is asked, ok / not / n/a (does not apply to this kernel), and the figures."""

    name: str
    state: State
    figures: str


def checklist(run: Run, advice: Sequence[Finding]) -> list[Check]:
    """Every item for a run. Items that a piece of `advice` (of `diagnose`) answers carry its predicted gain."""
    if not len(run.trace.instrs):
        return []
    gains = {f.code: f.cycles_at_stake / run.timeline.cycles for f in advice}
    rows: list[Check] = []
    for name, item in _ITEMS:
        state, figures = item(run, gains)
        rows.append(Check(name, state, figures))
    return rows


Gains = dict[str, float]
Answer = tuple[State, str]


def _state(good: bool) -> State:
    return "ok" if good else "not"


def _cores(run: Run, gains: Gains) -> Answer:
    cores = run.soc.aiv if all(c.type == "aiv" for c in run.trace.cores) else run.soc.aic
    rounds = -(-run.blocks // cores)
    share = run.blocks / (rounds * cores)
    return (
        _state(share >= EVEN_SHARE),
        f"{run.blocks} block{'s' if run.blocks != 1 else ''} in {rounds} round{'s' if rounds > 1 else ''} on {cores} cores: {share:.0%}",
    )


def _even(run: Run, gains: Gains) -> Answer:
    spent = run.timeline.core_end - run.timeline.core_start
    if len(spent) < 2:
        return "n/a", "one core"
    types = np.array([c.type for c in run.trace.cores])
    share = min(float(spent[types == t].mean() / spent[types == t].max()) for t in set(types.tolist()))
    return _state(share >= EVEN_SHARE), f"the mean core works {share:.0%} of the slowest core's time"


def _overhead(run: Run, gains: Gains) -> Answer:
    share = run.timeline.launch_cycles / max(1.0, run.timeline.cycles)
    return _state(share <= OVERHEAD_SHARE), f"start-up is {share:.0%} of the time"


def _double_buffer(run: Run, gains: Gains) -> Answer:
    trace = run.trace
    allocs = whatif.kinds(trace, "alloc")
    turning = []
    types = [c.type for c in trace.cores]
    for core in sorted({types.index(t) for t in types}):
        mine = slice(int(trace.core_begin[core]), int(trace.core_begin[core + 1]))
        buffers = Counter(b.queue for b in trace.buffers if b.core == core)
        rounds = Counter(trace.instrs["work"][mine][allocs[mine]].tolist())
        turning += [buffers[q] for q in buffers if rounds[q] > 1]
    if not turning:
        return "n/a", "no queue goes round more than once"
    doubled = sum(n > 1 for n in turning)
    figures = f"{doubled} of {len(turning)} queues that go round have two buffers or more"
    if doubled == len(turning):
        return "ok", figures
    code = "advice-double-buffer"
    if code in gains:
        return "not", f"{figures}; the others cost {gains[code]:.0%} of the time"
    return "ok", f"{figures}; more would not fit, or gain less than 2 %"


def _gm_copies(run: Run) -> tuple[Array, Array]:
    """Bytes and GM address of every copy from or to GM."""
    ranges = run.trace.decoded()
    size = ranges.sizes()
    chosen = (ranges.space == 0) & (size > 0) & whatif.kinds(run.trace, "copy")[ranges.instr]
    return size[chosen], ranges.address[chosen]


def _copy_size(run: Run, gains: Gains) -> Answer:
    size, _ = _gm_copies(run)
    if not len(size):
        return "n/a", "no copies"
    share = float(size[size >= LARGE_COPY_BYTES].sum() / size.sum())
    return _state(
        share >= USED_SHARE
    ), f"{share:.0%} of the bytes move in copies of 16 KB or more; the mean copy has {size.mean() / 1024:.1f} KB"


def _alignment(run: Run, gains: Gains) -> Answer:
    size, address = _gm_copies(run)
    if not len(size):
        return "n/a", "no copies"
    share = float((address % GM_ALIGNMENT_BYTES == 0).mean())
    return _state(share >= EVEN_SHARE), f"{share:.0%} of {len(size):,} copies begin at a multiple of 512 bytes in GM"


def _read_once(run: Run, gains: Gains) -> Answer:
    trace = run.trace
    ranges = trace.decoded()
    size = ranges.sizes()
    reads = (ranges.space == 0) & (ranges.mode & 1 > 0) & (size > 0)
    moved = float(size[reads].sum())
    inputs = 0
    for argument in trace.gm:
        inside = reads & (ranges.address >= argument.address) & (ranges.address < argument.address + argument.bytes)
        inputs += min(argument.bytes, int(size[inside].sum()))
    if not inputs:
        return "n/a", "nothing is read from GM"
    times = moved / inputs
    hits = run.timeline.traffic.read_hit_share
    return _state(
        times <= 1.5 or hits >= USED_SHARE
    ), f"each byte of the inputs is read {times:.1f} times, {hits:.0%} of it from L2"


def _l2(run: Run, gains: Gains) -> Answer:
    if "advice-bypass-l2" in gains:
        return "not", f"inputs that are read once go through L2: {gains['advice-bypass-l2']:.0%} of the time"
    return (
        "ok",
        f"bypassing L2 for what is read once would gain less than 2 % (L2 holds {run.soc.number('memory.l2_bytes') / 2**20:.0f} MB)",
    )


def _memory_used(run: Run, gains: Gains) -> Answer:
    use = memory_use(run, 0)
    space = "ub" if run.trace.cores[0].type != "aic" else "l0c"
    capacity, peak = run.soc.bytes_of(space), use.peak_bytes(space)
    if not peak:
        return "n/a", f"no buffer of a TPipe in {space.upper()}"
    return _state(
        peak >= USED_SHARE * capacity
    ), f"at most {peak / 1024:.0f} of {capacity / 1024:.0f} KB of {space.upper()} are in use at a time"


def _vector_length(run: Run, gains: Gains) -> Answer:
    trace = run.trace
    chosen = whatif.kinds(trace, "compute") & (trace.instrs["pipe"] == PIPES.index("V"))
    if not chosen.any():
        return "n/a", "no vector instruction"
    mean = float(trace.instrs["work"][chosen].mean())
    return _state(mean >= 8), f"a vector instruction has {mean:.1f} repeats of 256 bytes on average"


def _advised(code: str, what: str, count: Callable[[Run], int]) -> Callable[[Run, Gains], Answer]:
    """An item that a piece of advice answers; `what` takes the count."""

    def answer(run: Run, gains: Gains) -> Answer:
        number = count(run)
        if not number:
            return "ok", "none"
        if code in gains:
            return "not", f"{what.format(n=number)}: {gains[code]:.0%} of the time"
        return "ok", f"{what.format(n=number)}: less than 2 % of the time"

    return answer


def _number_of(kind: str, pipe: str) -> Callable[[Run], int]:
    def count(run: Run) -> int:
        chosen = whatif.kinds(run.trace, kind) & (run.trace.instrs["pipe"] == PIPES.index(pipe))
        return int(chosen.sum())

    return count


_ITEMS: tuple[tuple[str, Callable[[Run, Gains], Answer]], ...] = (
    ("all cores have work", _cores),
    ("the cores work equally long", _even),
    ("the work outweighs the start-up", _overhead),
    ("copies overlap work (double buffers)", _double_buffer),
    ("copies are large", _copy_size),
    ("GM addresses are aligned", _alignment),
    ("inputs are read once, or found in L2", _read_once),
    ("L2 is left to what is used again", _l2),
    ("on-chip memory is used", _memory_used),
    ("vector instructions are long", _vector_length),
    (
        "operands lie in different UB banks",
        _advised("advice-bank-conflict", "{n:,} vector instructions; bank conflicts", _number_of("compute", "V")),
    ),
    (
        "no barrier stops every pipe",
        _advised("barrier-too-coarse", "{n:,} barriers of all pipes", _number_of("barrier", "ALL")),
    ),
    (
        "no element goes through the scalar unit",
        _advised("advice-scalar-access", "{n:,} elements", lambda run: int(whatif.elements(run.trace).sum())),
    ),
)
