"""docs/serving_figures.md: published rows beside what the planner says of them."""

from __future__ import annotations

from collections.abc import Sequence

from toprope.serve.planning.engine_time import (
    CONSTANTS,
    CONTEXT_UNSAID,
    MODES,
    Row,
    constants,
    errors,
    left_out,
    mean_size,
    published,
    solve,
)

_HEAD = f"""# Published serving rows beside the planner

Written by `python -m toprope.serve.planning page`. Time per further token, mean. The constants that are shipped are solved from all rows,
each source weighing the same. How far a plan is off is measured where nothing was solved from: each source judged by the constants of all
others, and, apart, sources in two halves by a hash of their address. Bar: 20 % on rows that nothing was solved from. Eager rows meet it as
a half; replayed graphs do not: what a layer costs there differs by a factor of four between sources that say nothing that would explain
it (whether whole steps or pieces are captured, environment variables, the host's processor). The form (eager launches run beside the
chip's work, graphs come on top) was chosen by a look at all rows, so these errors are not wholly blind.

Assumed where a source does not say: an Atlas A2 is an Ascend 910B2, an A3 die a 910_9391; sequences are output tokens a
second times the published time per token; {CONTEXT_UNSAID} tokens of context where no length is named, and no prompts
between tokens where no output length is; graphs unless the source or its version says eager; Kimi K2's weights 4 bits
(its page says bfloat16, which 16 dies cannot hold). Figures that users wrote in prose are rows like the rest. Cards: tensor x data parallel,
`E` where data-parallel copies hold the experts together.
"""


def page() -> str:
    """The page as Markdown."""
    rows, (values, _) = published(), constants()
    halves = ([r for r in rows if not r.judges], [r for r in rows if r.judges])
    alone = left_out(rows)
    lines = [
        _HEAD,
        "| constants solved from | judged | rows | sources | mean error | eager | graph |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        _line("all", "the same", rows, errors(rows, values)),
        _line("all other sources", "each source in turn", rows, alone),
        _line("first half", "second half", halves[1], errors(halves[1], solve(halves[0]))),
        _line("second half", "first half", halves[0], errors(halves[0], solve(halves[1]))),
        "",
        "| constant | value |",
        "| --- | --- |",
        *(f"| `{name}` | {value:.3g} |" for name, value in zip(CONSTANTS, values, strict=True)),
        "",
        "Error: planned with all constants; left out: planned with those of all other sources.",
        "",
        "| model | cards | engine | sequences | in / out | published ms | planned ms | error | left out | half | source |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row, error, apart in zip(rows, errors(rows, values), alone, strict=True):
        copies = f" x {row.data_parallel}{' E' if row.expert_parallel else ''}" if row.data_parallel > 1 else ""
        engine = f"{row.engine} {row.version}".strip()
        lines.append(
            f"| {row.model.name} | {row.tensor_parallel}{copies} x {row.chip} | {engine}, {row.mode} | {row.sequences:g} | "
            f"{row.input_tokens} / {row.output_tokens or '?'} | {row.tpot_ms:g} | {row.planned_ms(values):.1f} | {error:+.0%} | {apart:+.0%} | "
            f"{'second' if row.judges else 'first'} | <{row.source}> |"
        )
    return "\n".join([*lines, ""])


def _line(solved: str, judged: str, rows: Sequence[Row], found: Sequence[float]) -> str:
    by_mode = [
        mean_size([e for row, e in zip(rows, found, strict=True) if row.mode == mode]) for mode in reversed(MODES)
    ]
    sources = len({row.source for row in rows})
    return (
        f"| {solved} | {judged} | {len(rows)} | {sources} | {mean_size(found):.0%} | "
        + " | ".join(f"{e:.0%}" for e in by_mode)
        + " |"
    )
