"""Looking around in a run from a terminal: timeline, memories, costs, findings. Works over ssh; needs the extra `tui`."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from rich.markup import escape
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import DataTable, Footer, OptionList, Static, TabbedContent, TabPane, Tree
from textual.widgets.tree import TreeNode

from toprope.finding import Finding, Place
from toprope.kernel import Run
from toprope.profile import checklist, memory_use
from toprope.profile.memory import MemoryUse
from toprope.report.perfetto import core_name
from toprope.report.summary import Summary
from toprope.report.text import bar
from toprope.timing import STALLS
from toprope.trace import PIPES, Array

_HEIGHTS = " ▁▂▃▄▅▆▇█"
_STYLES = {"S": "white", "V": "red", "M": "magenta", "MTE1": "cyan", "MTE2": "blue", "MTE3": "yellow", "FIX": "green"}
_MARKS = {"error": "red", "warning": "yellow", "advice": "cyan"}
_LABEL = 10  # columns before the lanes
_CLOSEST_CYCLES = 4.0  # a cell is never narrower than this


@dataclass(frozen=True)
class Lane:
    """What one pipe of one core works on, in order of start: instruction numbers, times in cycles, and the time worked up to each edge."""

    pipe: str
    instr: Array
    start: Array
    end: Array
    edges: Array
    worked: Array

    def share(self, cells: Array) -> Array:
        """Share of each cell (between neighbours in `cells`, cycles) in which the pipe works."""
        if not len(self.edges):
            return np.zeros(len(cells) - 1)
        worked = np.diff(np.interp(cells, self.edges, self.worked))  # interpolation may fall by a rounding
        return np.asarray(np.maximum(worked, 0.0) / np.diff(cells))

    def at(self, time: float) -> tuple[int, int]:
        """Index of the instruction that runs at a time, and of the next one to start; -1 for none."""
        after = int(np.searchsorted(self.start, time, "right"))
        running = next((i for i in range(after - 1, max(-1, after - 9), -1) if self.end[i] > time), -1)
        return running, after if after < len(self.start) else -1


def lanes(run: Run, core: int) -> list[Lane]:
    """The pipes that a core uses."""
    trace = run.trace
    rows = np.arange(int(trace.core_begin[core]), int(trace.core_begin[core + 1]))
    working = np.array([op.kind in ("compute", "copy", "scalar", "cache") for op in trace.ops] or [False])
    rows = rows[np.take(working, trace.instrs["op"][rows])]
    found = []
    for code, pipe in enumerate(PIPES[:-1]):
        mine = rows[trace.instrs["pipe"][rows] == code]
        mine = mine[np.argsort(run.timeline.start[mine], kind="stable")]
        if len(mine):
            start, end = np.asarray(run.timeline.start)[mine], np.asarray(run.timeline.end)[mine]
            found.append(Lane(pipe, mine, start, end, *_worked(start, end)))
    return found


def _worked(start: Array, end: Array) -> tuple[Array, Array]:
    """Edges of the merged intervals, and the time worked up to each."""
    latest = np.maximum.accumulate(end)
    first = np.flatnonzero(np.concatenate(([True], start[1:] > latest[:-1])))
    begins, ends = start[first], latest[np.append(first[1:] - 1, len(start) - 1)]
    total = np.cumsum(ends - begins)
    return np.stack([begins, ends], axis=1).ravel(), np.stack([total - (ends - begins), total], axis=1).ravel()


class TimelineView(Widget, can_focus=True):
    """The pipes of one core over time, with a cursor. Below them: what each pipe does under the cursor, or what it waits for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "cursor", key_display="◂ ▸"),
        Binding("right", "move(1)", "right", show=False),
        Binding("shift+left,h", "pan(-1)", "left half a screen", show=False),
        Binding("shift+right,l", "pan(1)", "pan", key_display="h l"),
        Binding("plus,equals_sign,i", "zoom(0.5)", "zoom", key_display="+ -"),
        Binding("minus,o", "zoom(2.0)", "zoom out", show=False),
        Binding("0", "whole", "all"),
        Binding("up", "core(-1)", "core", key_display="▴ ▾"),
        Binding("down", "core(1)", "next core", show=False),
    ]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.core = 0
        self.lanes = lanes(run, 0)
        self.begin, self.end = 0.0, max(1.0, run.timeline.cycles)
        self.cursor = self.lanes[0].start[0] if self.lanes else 0.0

    @property
    def cells(self) -> int:
        """Columns of the lanes."""
        return max(10, self.size.width - _LABEL)

    def edges(self) -> Array:
        """Times between the columns."""
        return np.linspace(self.begin, self.end, self.cells + 1)

    def _show(self, begin: float, end: float) -> None:
        total = max(1.0, self.run.timeline.cycles)
        span = min(total, max(end - begin, _CLOSEST_CYCLES * self.cells))
        self.begin = min(max(0.0, begin), total - span)
        self.end = self.begin + span
        self.refresh()

    def action_move(self, columns: int) -> None:
        """Move the cursor; the view follows."""
        step = (self.end - self.begin) / self.cells
        self.cursor = float(np.clip(self.cursor + columns * step, 0.0, self.run.timeline.cycles))
        if not self.begin <= self.cursor < self.end:
            self.action_pan(1 if columns > 0 else -1)
        self.refresh()

    def action_pan(self, direction: int) -> None:
        """Half a screen to the left or right; the cursor stays in sight."""
        half = (self.end - self.begin) / 2 * direction
        self._show(self.begin + half, self.end + half)
        self.cursor = float(np.clip(self.cursor, self.begin, np.nextafter(self.end, self.begin)))

    def action_zoom(self, factor: float) -> None:
        """In or out, around the cursor."""
        left, right = self.cursor - self.begin, self.end - self.cursor
        self._show(self.cursor - left * factor, self.cursor + right * factor)

    def action_whole(self) -> None:
        """The whole run."""
        self._show(0.0, self.run.timeline.cycles)

    def action_core(self, step: int) -> None:
        """Another core."""
        self.core = (self.core + step) % len(self.run.trace.cores)
        self.lanes = lanes(self.run, self.core)
        self.refresh()

    def render(self) -> Text:
        """Head, lanes, ruler, and the instructions under the cursor."""
        edges, per_us = self.edges(), self.run.soc.ghz * 1e3
        at = int(np.clip(np.searchsorted(edges, self.cursor, "right") - 1, 0, self.cells - 1))
        out = Text(no_wrap=True, overflow="ellipsis")
        out.append(f"{core_name(self.run, self.core)}", "bold")
        out.append(
            f"  {self.core + 1} of {len(self.run.trace.cores)}   {self.begin / per_us:.3f} to {self.end / per_us:.3f} µs\n\n"
        )
        for lane in self.lanes:
            shares = lane.share(edges)
            # Anything at all shows: a cell is only empty when the pipe is idle throughout.
            levels = np.where(shares > 0, np.clip(np.ceil(shares * 8 - 0.01), 1, 8), 0).astype(int)
            out.append(f"{lane.pipe:<5}{shares.mean():>4.0%} ", _STYLES[lane.pipe])
            line = "".join(_HEIGHTS[n] for n in levels)
            out.append(line[:at], _STYLES[lane.pipe])
            out.append(line[at] if line[at] != " " else "│", f"reverse {_STYLES[lane.pipe]}")
            out.append(line[at + 1 :] + "\n", _STYLES[lane.pipe])
        out.append(" " * _LABEL + self._ruler(edges / per_us) + "\n\n", "dim")
        out.append(f"at {self.cursor / per_us:.3f} µs\n", "bold")
        for lane in self.lanes:
            out.append(f"{lane.pipe:<5}", _STYLES[lane.pipe])
            out.append(self._under_cursor(lane) + "\n")
        return out

    def _ruler(self, edges_us: Array) -> str:
        marks = [" "] * self.cells
        for column in range(0, self.cells - 8, 16):
            marks[column : column + 8] = f"╵{edges_us[column]:<7.3f}"[:8]
        return "".join(marks)[: self.cells]

    def _under_cursor(self, lane: Lane) -> str:
        running, following = lane.at(self.cursor)
        per_us = self.run.soc.ghz * 1e3
        if running >= 0:
            took = (lane.end[running] - lane.start[running]) / per_us
            return f" {self._about(int(lane.instr[running]))}   {took:.3f} µs"
        if following < 0:
            return " idle to the end"
        row = int(lane.instr[following])
        left = (lane.start[following] - self.cursor) / per_us
        reason, blocker = self._decided_by(row)
        behind = f" ({self._about(blocker)})" if blocker >= 0 else ""
        return f" idle for {left:.3f} µs, then {self._about(row)}; decided by: {reason}{behind}"

    def _decided_by(self, row: int) -> tuple[str, int]:
        """Why an instruction did not start earlier, and the instruction behind it; a wait before it in its pipe is looked through."""
        timeline, trace = self.run.timeline, self.run.trace
        blocker = int(timeline.blocker[row])
        while blocker not in (-1, row) and trace.ops[trace.instrs["op"][blocker]].kind in ("wait_flag", "cross_wait"):
            row, blocker = blocker, int(timeline.blocker[blocker])
        return STALLS[int(timeline.stall[row])], blocker

    def _about(self, row: int) -> str:
        trace = self.run.trace
        site = trace.sites[trace.instrs["site"][row]]
        return f"{trace.ops[trace.instrs['op'][row]].name} {Path(site.file).name}:{site.line}"


class Explorer(App[None]):
    """The screens of one run. Keys 1 to 5 choose a screen, q leaves."""

    CSS = """
    #head { height: 2; padding: 0 1; }
    TabbedContent { height: 1fr; }
    TabPane { padding: 0 1; }
    TimelineView { height: 1fr; }
    #places { width: 46%; border: none; }
    #detail { width: 1fr; padding: 0 1; }
    DataTable { height: 1fr; }
    """
    TITLE = "toprope"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(i), f"screen_of('{name}')", name, show=False)
            for i, name in enumerate(("time", "memory", "lines", "findings", "checks"), 1)
        ),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, summary: Summary) -> None:
        super().__init__()
        self.summary = summary
        self.findings = sorted(summary.findings, key=lambda f: (list(_MARKS).index(f.severity), -f.cycles_at_stake))

    def compose(self) -> ComposeResult:
        """One tab each."""
        run = self.summary.run
        yield Static(self._head(), id="head", markup=False)
        with TabbedContent():
            with TabPane("1 timeline", id="time"):
                yield TimelineView(run)
            with TabPane("2 memory", id="memory"):
                yield self._memory()
            with TabPane("3 lines", id="lines"):
                yield DataTable(cursor_type="row", id="costs")
            with TabPane(f"4 findings {len(self.findings)}", id="findings"), Horizontal():
                yield OptionList(*(self._title(f) for f in self.findings), id="places")
                with VerticalScroll(id="detail"):
                    yield Static(id="text", markup=False)
            with TabPane("5 checks", id="checks"):
                yield DataTable(cursor_type="row", id="items")
        yield Footer()

    def on_mount(self) -> None:
        """Fill the tables; the timeline takes the keys first."""
        costs: DataTable[object] = self.query_one("#costs", DataTable)
        costs.add_columns("µs a core", "times", "pipe", "line", "source")
        for row in self.summary.lines:
            place = f"{Path(row.file).name}:{row.line}"
            costs.add_row(
                f"{row.microseconds:.3f}", f"{row.count:,}", row.pipe, place, Text(Place(row.file, row.line).text())
            )
        items: DataTable[object] = self.query_one("#items", DataTable)
        items.add_columns("", "what", "figures")
        marks = {"ok": Text("✓", "green"), "not": Text("✗", "yellow"), "n/a": Text("–", "dim")}
        rows = checklist(self.summary.run, self.summary.advice)
        room = (
            self.size.width - max((len(check.name) for check in rows), default=0) - 12
        )  # cursor, mark, gaps, scroll bar
        for check in rows:
            items.add_row(marks[check.state], check.name, textwrap.fill(check.figures, max(24, room)), height=None)
        self._detail(0)
        self.query_one(TimelineView).focus()

    def action_screen_of(self, name: str) -> None:
        """Show a tab and give its widget the keys."""
        self.query_one(TabbedContent).active = name
        first = self.query_one(f"#{name}").query("TimelineView, Tree, DataTable, OptionList").first(Widget)
        first.focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the finding under the cursor."""
        self._detail(event.option_index)

    def _head(self) -> str:
        run = self.summary.run
        first = f"{run.kernel} on {run.soc.name}, {run.blocks} block{'s' if run.blocks != 1 else ''}: {self.summary.microseconds:.2f} µs predicted, {run.timeline.band} µs on the device, {run.timeline.cycles:,.0f} cycles"
        return f"{first}\n{self.summary.bottleneck}"

    @staticmethod
    def _title(finding: Finding) -> Text:
        return Text.assemble((f"{finding.severity:<8}", _MARKS[finding.severity]), finding.message)

    def _detail(self, index: int) -> None:
        where = self.query_one("#text", Static)
        where.update(excerpt(self.findings[index]) if self.findings else Text("nothing found, nothing to advise"))

    def _memory(self) -> Tree[None]:
        run = self.summary.run
        tree: Tree[None] = Tree("on-chip memory")
        tree.root.expand()
        types = [c.type for c in run.trace.cores]
        for core in sorted({types.index(t) for t in types}):
            use = memory_use(run, core)
            by_buffer = tree.root.add(f"{core_name(run, core)} by buffer", expand=True)
            for space in use.curves:
                _buffers_into(by_buffer.add(_fill(run, use, space), expand=True), use, space)
            by_line = tree.root.add(f"{core_name(run, core)} by source line", expand=False)
            for title, leaves in lines_of(use).items():
                node = by_line.add(escape(title))
                for leaf in leaves:
                    node.add_leaf(escape(leaf))
        return tree


def _fill(run: Run, use: MemoryUse, space: str) -> str:
    capacity, peak = run.soc.bytes_of(space), use.peak_bytes(space)
    return f"{space.upper():<4} {bar(peak / capacity, 20)} {peak / 1024:.0f} of {capacity / 1024:.0f} KB at most in use, {use.reserved_bytes(space) / 1024:.0f} KB given out"


def _buffers_into(parent: TreeNode[None], use: MemoryUse, space: str) -> None:
    """A node per queue with a leaf per source line."""
    for queue in use.queues:
        if queue.space != space:
            continue
        address, size = queue.buffers[0]
        title = f"{queue.name}  {len(queue.buffers)} × {size / 1024:.1f} KB from {address:#x}, in use {queue.busy:.0%} of the time ({Path(queue.site.file).name}:{queue.site.line})"
        node = parent.add(escape(title))
        for line in queue.lines:
            text = Place(line.site.file, line.site.line).text()
            leaf = f"{line.op} ×{line.count}: {_moved(line.read_bytes, line.written_bytes)}   {line.site.line}  {text}"
            node.add_leaf(escape(leaf))


def lines_of(use: MemoryUse) -> dict[str, list[str]]:
    """For each source line, the buffers that it touches; lines that move most first."""
    rows: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for queue in use.queues:
        for line in queue.lines:
            text = f"{queue.name} ({queue.space.upper()}): {line.op} {_moved(line.read_bytes, line.written_bytes)}"
            rows.setdefault((line.site.file, line.site.line), []).append((line.read_bytes + line.written_bytes, text))
    order = sorted(rows, key=lambda place: -sum(size for size, _ in rows[place]))
    return {f"{Path(f).name}:{n}  {Place(f, n).text()}": [text for _, text in rows[f, n]] for f, n in order}


def _moved(read: int, written: int) -> str:
    parts = [f"{word} {size / 1024:.1f} KB" for word, size in (("reads", read), ("writes", written)) if size]
    return ", ".join(parts) or "touches nothing"


def excerpt(finding: Finding, around: int = 2) -> Text:
    """A finding with its source: each place with the lines around it."""
    out = Text.assemble((finding.code, "bold " + _MARKS[finding.severity]), "\n", finding.message, "\n")
    for place in finding.places:
        out.append(f"\n{Path(place.file).name}:{place.line}  {place.op} {place.action}".rstrip() + "\n", "bold")
        for number in range(max(1, place.line - around), place.line + around + 1):
            text = Place(place.file, number).text()
            out.append(
                f"{'▸' if number == place.line else ' '}{number:>5}  {text}\n", "" if number == place.line else "dim"
            )
    if finding.cure:
        out.append(f"\ncure: {finding.cure}\n")
    return out
