"""predict(): price every instruction in columns, then let the native scheduler give each a start and an end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toprope.dtypes import DTYPES
from toprope.soc import Cost, Soc
from toprope.timing import library_plans, native
from toprope.timing.compiled import back, compiled
from toprope.timing.timeline import Timeline, Traffic
from toprope.trace import CORE_TYPES, KINDS, LIBRARY, PIPES, Array, Trace

_FREE_KINDS = {"mark"}  # exist in the trace only; the device does nothing
UNIT_FLAG_BIT = {"mmad": 10, "l0c_to_gm": 9}  # of the arg column, by cost name: ascendc/api/mmad.h and fixpipe.h
_RUNTIME_COPIES = (
    "gm_to_ub",
    "ub_to_gm",
    "ub_to_ub",
)  # like vector instructions, they learn their operands at run time where a TPipe allocates
STATES = ("cold", "warm", "called")  # of a launch: what it finds
_NO_CODE = {"barrier", "set_flag", "wait_flag", "init_buffer", "none"}  # one instruction or none
_CODES = 16  # element type codes in a trace are below this


def predict(trace: Trace, soc: Soc, *, l2: str = "cold", sync: str = "auto") -> Timeline:
    """Give every instruction of the trace a start and an end on this chip; a pure function of its arguments.

    `l2` is what the launch finds: "cold" nothing of its own in L2, "warm" what an identical launch just before it left there and in the
    cores' instruction caches, "called" the same without the instructions, as when a framework calls the kernel again. `sync` is what the
    vendor's compiler inserts, "auto" or "manual" (nothing), as for `check`.
    Raises BadChip naming the row when the chip file does not price an instruction.
    """
    if l2 not in STATES:
        raise ValueError(f"l2 is {l2!r}, it must be one of {', '.join(STATES)}")
    made = compiled(trace, sync)
    prices = _prices(made.trace, soc)
    chip = _chip(trace, soc, l2)
    cores = np.array([(core.block, core.sub, CORE_TYPES.index(core.type), 0) for core in trace.cores], native.CORE)
    start, end, stall, blocker, results, traffic = native.schedule(
        made.trace, chip, prices.ops, prices.cycles, made.vector_needs, cores
    )
    start, end = start[made.rows], end[made.rows]
    stall, blocker = back(made, stall, blocker)
    for column in (start, end, stall, blocker):
        column.flags.writeable = False
    return Timeline(
        trace=trace,
        soc=soc,
        start=start,
        end=end,
        stall=stall,
        blocker=blocker,
        core_start=results["start"],
        core_end=results["end"],
        core_busy=results["busy"],
        traffic=Traffic(traffic.hbm_read, traffic.hbm_write, traffic.l2_read, traffic.l2_write, traffic.l2_hit),
        released_waits=int(traffic.stuck),
        assumed_cycles=prices.assumed[made.rows],
        launch_cycles=chip.launch_cycles + chip.prologue_cycles,
    )


@dataclass(frozen=True)
class _Prices:
    ops: Array  # native.OP_COST, one row for each operation of the trace
    cycles: Array  # what an instruction costs its own core; GM transfers add their data
    assumed: Array  # the part that rests on assumed numbers; infinite where that is all of it


def _prices(trace: Trace, soc: Soc) -> _Prices:
    costs = [soc.cost(op.cost) for op in trace.ops]
    issue = soc.number("costs.issue.issue_cycles")
    queues = any(op.cost == "queue_alloc" for op in trace.ops)
    vector_issue = soc.number("costs.issue.runtime_cycles") if queues else issue
    copy_issue = soc.number("costs.issue.runtime_copy_cycles") if queues else issue
    ops = np.zeros(max(1, len(costs)), native.OP_COST)
    following = soc.number("costs.vector_interval.vector_interval_cycles")
    for i, (op, cost) in enumerate(zip(trace.ops, costs, strict=True)):
        vector = op.pipe == "V" and op.kind == "compute"
        overlaps = vector or (op.pipe == "MTE1" and not _through_gm(cost))
        interval, latency = (following, cost.fixed) if overlaps else (cost.interval, cost.latency)
        free = op.kind in _FREE_KINDS
        rates = (
            interval,
            latency,
            cost.bytes_per_cycle,
            cost.row,
            cost.odd_bytes_per_cycle,
            cost.l2_unit_bytes,
            cost.cold,
            cost.cold_bytes_per_cycle,
        )
        ops[i] = (
            0.0 if free else copy_issue if op.cost.startswith(_RUNTIME_COPIES) else vector_issue if vector else issue,
            *rates,
            KINDS.index(op.kind),
            UNIT_FLAG_BIT.get(op.cost, 0),
            1 if op.name.startswith(LIBRARY) else 2 if op.cost in _NO_CODE else 0,
            op.cost == "scalar_load",
        )
    size, bank = native.measure(trace, int(soc.number("ub_banks.groups")), int(soc.number("ub_banks.reads_per_group")))
    instrs = trace.instrs
    rows = instrs["op"].astype(np.intp)
    per_work = _per_work_table(costs)[rows, instrs["arg"] & (_CODES - 1), (instrs["arg"] >> 8) & (_CODES - 1)]
    is_vector = np.array(
        [
            o.pipe == "V" and o.kind == "compute" and bool(cost.per_work)
            for o, cost in zip(trace.ops, costs, strict=True)
        ]
        or [False]
    )
    passes = np.array([cost.bank_passes for cost in costs] or [1.0], np.float32)
    np.maximum(per_work, bank * passes[rows], out=per_work, where=is_vector[rows])
    fixed = np.array([cost.fixed for cost in costs] or [0.0], np.float32)
    rate = np.array(
        [cost.bytes_per_cycle if cost.bytes_per_cycle and not _through_gm(cost) else np.inf for cost in costs]
        or [np.inf],
        np.float32,
    )
    cycles = fixed[rows] + per_work * instrs["work"] + size / rate[rows]
    gm = np.array([_through_gm(cost) for cost in costs] or [False])
    assumed = np.where(_rests_on_assumption(soc, costs)[rows], np.where(gm[rows], np.inf, cycles), 0)
    unverified = library_plans.unverified(trace)
    if unverified is not None:
        assumed = np.where(unverified & (assumed == 0), cycles, assumed)
    return _Prices(ops, np.ascontiguousarray(cycles, np.float32), assumed)


def _rests_on_assumption(soc: Soc, costs: list[Cost]) -> Array:
    """Operations whose price is assumed; a GM copy's also when the rate of HBM is."""
    hbm = soc.kind_of("hbm.read_tbps") == "assumed"
    return np.array([cost.kind == "assumed" or (hbm and _through_gm(cost)) for cost in costs] or [False])


def _through_gm(cost: Cost) -> bool:
    """Copies from and to GM share HBM and L2; the scheduler times their data."""
    return cost.latency > 0


def _per_work_table(costs: list[Cost]) -> Array:
    """Cycles per unit of work by operation, source type code and target type code."""
    names = [d.name for d in DTYPES] + ["none"] * (_CODES - len(DTYPES))
    table = np.zeros((max(1, len(costs)), _CODES, _CODES), np.float32)
    for i, cost in enumerate(costs):
        if cost.per_work and set(cost.per_work) == {"any"}:
            table[i] = cost.per_work["any"]
        elif cost.per_work:
            table[i] = [[cost.per_work_of(source, target) for target in names] for source in names]
    return table


def _chip(trace: Trace, soc: Soc, l2: str) -> native.ChipNumbers:
    hz = soc.ghz * 1e9
    chip = native.ChipNumbers()
    chip.hbm_rate = soc.number("hbm.read_tbps") * 1e12 / hz
    chip.hbm_write_weight = soc.number("hbm_write.weight")
    chip.l2_read_rate = soc.number("l2.read_tbps") * 1e12 / hz
    chip.l2_write_rate = soc.number("l2_write.write_tbps") * 1e12 / hz
    chip.l2_bytes = soc.number("memory.l2_bytes")
    chip.miss_latency = soc.number("gm_latency.miss_cycles")
    chip.unaligned_weight = soc.number("gm_alignment.unaligned_weight")
    chip.part_line_weight = soc.number("gm_part_line.weight")
    chip.miss_interval = soc.number("gm_miss.interval_cycles")
    chip.cold_store_latency = soc.number("gm_store.cold_cycles")
    chip.same_address_weight = soc.number("gm_sharing.same_address_weight")
    chip.same_address_delay = soc.number("gm_sharing.same_address_delay")
    chip.page_rate = soc.number("gm_page.lines_per_cycle")
    chip.part_block_cycles = soc.number("gm_part_block.interval_cycles")
    chip.l1_delay = soc.number("l1_sharing.delay")
    chip.atomic_weight = soc.number("gm_atomic.weight")
    chip.queue_depth = soc.number("queues.depth")
    mixed_us = soc.number("launch_mixed.fixed_us") if len({core.type for core in trace.cores}) > 1 else 0.0
    chip.launch_cycles = (soc.number("launch.fixed_us") + mixed_us) * soc.ghz * 1e3
    chip.block_cycles = soc.number("launch_blocks.block_us") * soc.ghz * 1e3
    chip.prologue_cycles = soc.number("prologue.cycles") + (soc.number("prologue.cold_cycles") if l2 == "cold" else 0.0)
    from_hbm = chip.miss_latency if l2 == "cold" else 0.0
    chip.code_cycles = 0.0 if l2 == "warm" else soc.number("code.line_cycles") + from_hbm
    chip.code_lines = soc.number("code.preloaded_lines")
    chip.scalar_use = soc.number("scalar_use.cycles")
    chip.flag_latency = soc.number("flags.latency_cycles")
    chip.dependence = soc.number("vector_dependence.cycles")
    chip.cross_latency = soc.number("flags.cross_core_cycles")
    chip.soft_cross_latency = soc.number("flags.software_cycles")
    vector_only = all(core.type == "aiv" for core in trace.cores)
    chip.slots = soc.aiv if vector_only else soc.aic
    chip.warm = l2 != "cold"
    chip.ratio, chip.mixed = trace.ratio, trace.mixed
    chip.gm_begin = min((row.address for row in trace.gm), default=0)
    chip.gm_end = max((row.address + row.bytes for row in trace.gm), default=0)
    return chip


assert len(PIPES) == native.RESULT["busy"].shape[0]
