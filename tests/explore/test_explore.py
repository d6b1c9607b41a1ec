"""The terminal explorer, driven by keys, and the figures it shows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

pytest.importorskip("textual")

from textual.pilot import Pilot
from textual.widgets import DataTable, OptionList, Static, TabbedContent, Tree
from textual.widgets.tree import TreeNode

from tests.profile.test_diagnosis import run as variant
from toprope.commands import explore as command
from toprope.errors import BadInput
from toprope.explore import Explorer, TimelineView, excerpt, lanes, lines_of
from toprope.kernel import Run
from toprope.profile import diagnose, memory_use
from toprope.report import summary


@pytest.fixture(scope="module")
def run() -> Run:
    return variant("barrier", blocks=3, tiles_a_core=2)


def drive(run: Run, steps: Callable[[Explorer, Pilot[None]], Awaitable[None]]) -> None:
    async def session() -> None:
        app = Explorer(summary.of(run, {}, diagnose(run)))
        async with app.run_test(size=(110, 32)) as pilot:
            await steps(app, pilot)

    asyncio.run(session())


def test_lanes_hold_the_work_of_one_core(run: Run) -> None:
    found = {lane.pipe: lane for lane in lanes(run, 1)}
    assert {"V", "MTE2", "MTE3"} <= set(found)
    cells = np.linspace(0.0, run.timeline.cycles, 400)
    for pipe in ("V", "MTE2", "MTE3"):
        lane = found[pipe]
        assert np.all((lane.share(cells) >= 0) & (lane.share(cells) <= 1 + 1e-9))
        # Whatever the cells, they add up to the union of the instructions: recomputed on a fine grid.
        step = np.arange(0.0, run.timeline.cycles, 0.5)
        union = sum(bool(np.any((lane.start <= t) & (t < lane.end))) for t in step[::16]) * 8.0
        assert lane.share(cells) @ np.diff(cells) == pytest.approx(union, rel=0.02)


def test_the_instruction_under_a_time(run: Run) -> None:
    lane = next(lane for lane in lanes(run, 0) if lane.pipe == "V")
    middle = (lane.start[3] + lane.end[3]) / 2
    assert lane.at(float(middle))[0] == 3
    assert lane.at(0.0) == (-1, 0)
    assert lane.at(run.timeline.cycles + 1) == (-1, -1)


def test_keys_zoom_pan_and_change_the_core(run: Run) -> None:
    async def steps(app: Explorer, pilot: Pilot[None]) -> None:
        view = app.query_one(TimelineView)
        whole = view.end - view.begin
        assert whole == pytest.approx(run.timeline.cycles)
        start = view.cursor
        await pilot.press("right", "right", "right")
        assert view.cursor == pytest.approx(start + 3 * whole / view.cells)
        await pilot.press("plus", "plus")
        assert view.end - view.begin == pytest.approx(whole / 4) and view.begin <= view.cursor <= view.end
        before = view.begin
        await pilot.press("l")
        assert view.begin == pytest.approx(before + whole / 8) and view.begin <= view.cursor < view.end
        await pilot.press("down")
        text = str(view.render())
        assert app.query_one("#head", Static).region.y == 0 and app.query_one(TimelineView).size.height > 20
        assert "core1.veccore0  2 of 3" in text and "DataCopy" in text
        await pilot.press("0", "up", "up")
        assert view.core == 2 and view.end - view.begin == pytest.approx(whole)
        await pilot.press(*["plus"] * 30)
        assert view.end - view.begin >= view.cells  # never closer than what one cell can show
        assert len(str(view.render()).splitlines()) >= 2 + 2 * len(view.lanes)

    drive(run, steps)


def test_idle_pipes_say_what_they_wait_for(run: Run) -> None:
    async def steps(app: Explorer, pilot: Pilot[None]) -> None:
        view = app.query_one(TimelineView)
        vector = next(lane for lane in view.lanes if lane.pipe == "V")
        view.cursor = float(vector.start[0]) - 1.0
        row = next(line for line in str(view.render()).splitlines()[-len(view.lanes) :] if line.startswith("V "))
        assert "idle for 0.001 µs, then Add" in row and "decided by: " in row

    drive(run, steps)


def labels(node: TreeNode[None]) -> list[str]:
    return [str(node.label), *(text for child in node.children for text in labels(child))]


def test_every_tab_shows_its_part(run: Run) -> None:
    async def steps(app: Explorer, pilot: Pilot[None]) -> None:
        tabs = app.query_one(TabbedContent)
        await pilot.press("2")
        assert tabs.active == "memory" and isinstance(app.focused, Tree)
        texts = labels(app.query_one(Tree).root)
        assert any(t.startswith("inX  2 × 8.1 KB from 0x0, in use ") for t in texts)
        assert any("by source line" in t for t in texts) and any("Add ×" in t and "reads" in t for t in texts)
        await pilot.press("3")
        costs = app.query_one("#costs", DataTable)
        assert tabs.active == "lines" and costs.row_count == len(app.summary.lines)
        await pilot.press("4")
        assert tabs.active == "findings" and isinstance(app.focused, OptionList)
        index = next(i for i, f in enumerate(app.findings) if f.code == "barrier-too-coarse")
        await pilot.press(*["down"] * index)
        await pilot.pause()
        text = str(app.query_one("#text", Static).content)
        assert "barrier-too-coarse" in text and "▸" in text and "PipeBarrier<PIPE_ALL>" in text and "cure:" in text
        await pilot.press("5")
        assert tabs.active == "checks" and app.query_one("#items", DataTable).row_count > 10
        await pilot.press("q")

    drive(run, steps)


def test_lines_name_the_buffers_they_touch(run: Run) -> None:
    rows = lines_of(memory_use(run, 0))
    add = next(texts for title, texts in rows.items() if "Add(c, a, b" in title)
    assert sorted(t.split()[0] for t in add) == ["inX", "inY", "outZ"]


def test_an_excerpt_points_at_the_line(run: Run) -> None:
    (advice,) = (f for f in diagnose(run) if f.code == "barrier-too-coarse")
    text = str(excerpt(advice))
    assert f"▸{advice.places[0].line:>5}  if (barrier) PipeBarrier<PIPE_ALL>();" in text


def test_without_a_terminal_the_verb_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115 (monkeypatch puts stdin back)
    with pytest.raises(BadInput, match="needs a terminal"):
        command._explore(object())  # type: ignore[arg-type]  # refused before the argument is looked at


def test_figures_of_the_checks_can_be_read_at_80_columns(run: Run) -> None:
    async def session() -> None:
        app = Explorer(summary.of(run, {}, diagnose(run)))
        async with app.run_test(size=(80, 30)) as pilot:
            await pilot.press("5")
            items: DataTable[object] = app.query_one("#items", DataTable)
            assert items.virtual_size.width <= 80 and items.row_count > 10
            told = [str(items.get_row_at(i)[2]) for i in range(items.row_count)]
            assert any("\n" in figures for figures in told)

    asyncio.run(session())
