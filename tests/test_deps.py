"""toprope deps: dependences, what orders them, synchronisation that orders nothing, the graph of tensors, the forms of output."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope import cli
from toprope.commands import deps as verb
from toprope.deps import Graph, dependences, path_by_line

EXAMPLE = Path(__file__).parent.parent / "examples" / "01_add" / "add_custom.cpp"

KERNELS = """#include "kernel_operator.h"
using namespace AscendC;
template <bool flagged, bool twice> __aicore__ inline void double_it(GM_ADDR x, GM_ADDR y) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 1024);
    LocalTensor<float> t = buffer.Get<float>();
    GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float*)x, 256);
    out.SetGlobalBuffer((__gm__ float*)y, 256);
    DataCopy(t, in, 256);
    if (flagged) {
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
    }
    if (twice) {
        SetFlag<HardEvent::MTE2_V>(1);
        WaitFlag<HardEvent::MTE2_V>(1);
    }
    Add(t, t, t, 256);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(out, t, 256);
}
extern "C" __global__ __aicore__ void clean(GM_ADDR x, GM_ADDR y) { double_it<true, false>(x, y); }
extern "C" __global__ __aicore__ void racy(GM_ADDR x, GM_ADDR y) { double_it<false, false>(x, y); }
extern "C" __global__ __aicore__ void twice(GM_ADDR x, GM_ADDR y) { double_it<true, true>(x, y); }
extern "C" __global__ __aicore__ void through_scalar(GM_ADDR x, GM_ADDR y) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> one, two;
    pipe.InitBuffer(one, 1024);
    pipe.InitBuffer(two, 1024);
    LocalTensor<float> a = one.Get<float>(), c = two.Get<float>();
    GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float*)x, 256);
    out.SetGlobalBuffer((__gm__ float*)y, 256);
    DataCopy(a, in, 256);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Adds(c, a, 1.0f, 256);
    if (c.GetValue(0) < 1e30f) DataCopy(out, c, 256);
}
extern "C" __global__ __aicore__ void columns(GM_ADDR x, GM_ADDR y) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 1024);
    LocalTensor<float> t = buffer.Get<float>();
    GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float*)x, 256);
    out.SetGlobalBuffer((__gm__ float*)y, 256);
    DataCopy(t, in, 256);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Adds(t, t, 1.0f, 64, 2, {2, 2, 16, 16});
    Muls(t[8], t[8], 2.0f, 64, 2, {2, 2, 16, 16});
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(out, t, 256);
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("deps") / "double.cpp"
    file.write_text(KERNELS)
    return file


def graph_of(source: Path, entry: str) -> Graph:
    x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
    return dependences(toprope.load(source)[entry][1](x, y))


def test_flow_through_flags(source: Path) -> None:
    graph = graph_of(source, "clean")
    flow = [d for d in graph.dependences if d.kind == "flow"]
    assert [(graph.line(d.earlier).split()[0], graph.line(d.later).split()[0], d.by) for d in flow] == [
        ("DataCopy", "Add", "flag"),
        ("Add", "DataCopy", "flag"),
    ]
    assert not graph.idle_syncs


def test_a_missing_flag_leaves_a_dependence_without_order(source: Path) -> None:
    graph = graph_of(source, "racy")
    assert {d.by for d in graph.dependences if graph.line(d.later).startswith("Add")} == {""}
    assert all(d.by for d in graph.dependences if not graph.line(d.later).startswith("Add"))
    assert any(f.code == "race-unordered-pipes" for f in graph.run.findings)


def test_a_second_flag_orders_nothing(source: Path) -> None:
    graph = graph_of(source, "twice")
    assert len(graph.syncs) == 3
    assert len(graph.idle_syncs) == 1


def add_graph() -> Graph:
    x = np.ones(4 * 2048, np.float16)
    return dependences(toprope.load(EXAMPLE).add_custom[1](x, x.copy(), np.zeros_like(x), x.size))


def test_queues_order_the_tutorial_kernel() -> None:
    graph = add_graph()
    kinds = Counter(d.kind for d in graph.dependences)
    assert kinds["flow"] == 3 * 4  # two loads and a store per tile
    assert kinds["anti"] == 3 * 2  # each buffer is used again once
    assert {d.by for d in graph.dependences} == {"flag"}


def test_tensors_of_the_tutorial_kernel() -> None:
    tensors = add_graph().tensors()
    assert sum(n for (a, _, _), n in tensors.items() if a in ("x", "y")) == 8
    assert sum(n for (_, b, _), n in tensors.items() if b == "z") == 4


def test_the_critical_path_adds_up() -> None:
    graph = add_graph()
    total = sum(us for _, _, us in path_by_line(graph))
    assert total == pytest.approx(float(graph.run.timeline.end.max()) / (graph.run.soc.ghz * 1e3), rel=1e-6)


def test_forms(source: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["x=float[256]", "y=float[256] out"]
    assert cli.main(["deps", f"{source}:racy", *arguments]) == 1
    assert "NOTHING" in capfd.readouterr().out
    assert cli.main(["deps", f"{source}:clean", *arguments, "--format", "dot"]) == 0
    assert capfd.readouterr().out.startswith('digraph "clean"')
    assert (
        cli.main(
            ["deps", f"{source}:clean", *arguments, "--tensors", "--format", "html", "-o", str(tmp_path / "d.html")]
        )
        == 0
    )
    assert "<svg" in (tmp_path / "d.html").read_text()
    assert cli.main(["deps", f"{source}:clean", *arguments, "--core", "9"]) == 2
    assert set(verb.as_json(graph_of(source, "clean"))) == {
        "kernel",
        "ended_early",
        "core",
        "lines",
        "tensors",
        "idle_syncs",
        "critical_path",
    }


def test_what_waits_behind_the_scalar_unit_is_ordered_by_the_compiler(source: Path) -> None:
    graph = graph_of(source, "through_scalar")
    by = {(graph.line(d.earlier).split()[1], graph.line(d.later).split()[1]): d.by for d in graph.dependences}
    assert by["V", "S"] == "compiler"
    assert by["V", "MTE3"] == "compiler"  # MTE3 is issued by the scalar unit, after what that has waited for
    assert not graph.run.findings


def test_check_and_deps_agree_without_the_compiler(source: Path) -> None:
    x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
    run = toprope.load(source).through_scalar[1](x, y, sync="manual")
    graph = dependences(run)
    assert {d.by for d in graph.dependences if graph.line(d.later).startswith("LocalTensor")} == {""}
    assert any(f.code == "race-unordered-pipes" for f in run.findings)


def test_interleaved_columns_do_not_meet(source: Path) -> None:
    """Two instructions that take turns in every second block are independent, however their hulls overlap."""
    graph = graph_of(source, "columns")
    pairs = {(graph.line(d.earlier).split()[0], graph.line(d.later).split()[0]) for d in graph.dependences}
    assert ("Adds", "Muls") not in pairs
    assert ("DataCopy", "Muls") in pairs
