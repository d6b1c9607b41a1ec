"""The flame graph: its frames add up to the pipes' time, and the file is an SVG by itself."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope.kernel import Run
from toprope.profile.functions import functions
from toprope.report import flame

ADD = Path(__file__).parent.parent.parent / "examples" / "01_add" / "add_custom.cpp"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run() -> Run:
    x, y, z = (np.zeros(1 << 15, np.float16) for _ in range(3))
    return toprope.load(ADD).add_custom[4](x, y, z, 1 << 15)


def test_frames_follow_the_source_and_add_up(run: Run) -> None:
    root = flame.frames(run)
    assert root.label == "add_custom"
    assert set(root.children) == {"KernelAdd::CopyIn", "KernelAdd::Compute", "KernelAdd::CopyOut"}
    for frame in (root, *root.children.values()):
        assert sum(c.cycles for c in frame.children.values()) == pytest.approx(frame.cycles)
    copy_in = root.children["KernelAdd::CopyIn"]
    assert [label.split()[0] for label in copy_in.children] == ["35", "36"]
    busy = sum(run.timeline.pipe_us(p) for p in ("V", "MTE2", "MTE3")) * run.soc.ghz * 1e3 * 4
    assert root.cycles == pytest.approx(busy, rel=0.02)


def test_the_file_is_one_svg_whose_boxes_lie_inside_their_parents(run: Run, tmp_path: Path) -> None:
    flame.write(run, tmp_path / "flame.svg")
    text = (tmp_path / "flame.svg").read_text()
    assert "href" not in text and "src=" not in text
    root = ElementTree.fromstring(text)
    boxes = [(g, g.find(f"{SVG}rect")) for g in root.iter(f"{SVG}g")]
    spans: dict[float, list[tuple[float, float]]] = {}
    for group, rect in boxes:
        assert rect is not None and group.find(f"{SVG}title") is not None
        x, width = float(group.get("data-x", "")), float(group.get("data-w", ""))
        spans.setdefault(float(rect.get("y", "")), []).append((x, x + width))
    assert len(spans) == 4 and spans[min(spans)] == [(0.0, 1200.0)]
    levels = [spans[y] for y in sorted(spans)]
    for above, below in itertools.pairwise(levels):
        for a, b in below:
            assert any(left - 0.01 <= a and b <= right + 0.01 for left, right in above)


def test_functions_are_found_by_their_braces() -> None:
    text = """#define OPEN {
namespace n {
// void commented() {
template <typename T, class U> __aicore__ inline void Free(T x, U y)
{
    if (x) { auto f = [&](int i) { return '{'; }; }
}
class Kernel : public Base<int> {
public:
    Kernel(int a) : a_(a) {}
    __aicore__ inline void Process() {
        const char* s = "}";
    }
    TQue<TPosition::VECIN, 2> queue{};
};
}
extern "C" __global__ __aicore__ void entry(GM_ADDR x) {
    n::Kernel(1).Process();
}
"""
    found = {(f.full_name, f.first, f.last) for f in functions(text)}
    assert found == {("Free", 4, 7), ("Kernel::Kernel", 10, 10), ("Kernel::Process", 11, 13), ("entry", 17, 19)}
