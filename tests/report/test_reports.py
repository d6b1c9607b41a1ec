"""Reports agree with the run they show."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope.kernel import Run
from toprope.report import html, msprof, perfetto, summary
from toprope.report.msprof_columns import COLUMNS

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
ADD, MATMUL = EXAMPLES / "01_add" / "add_custom.cpp", EXAMPLES / "07_matmul" / "matmul_custom.cpp"


@pytest.fixture(scope="module")
def run() -> Run:
    x, y, z = (np.zeros(1 << 16, np.float16) for _ in range(3))
    return toprope.load(ADD).add_custom[8](x, y, z, 1 << 16)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_msprof_files_hold_the_runs_figures(run: Run, tmp_path: Path) -> None:
    files = msprof.write(run, tmp_path)
    assert {
        "OpBasicInfo.csv",
        "PipeUtilization.csv",
        "Memory.csv",
        "MemoryUB.csv",
        "L2Cache.csv",
        "ResourceConflictRatio.csv",
        "trace.json",
    } <= {f.name for f in files}
    basic = rows(tmp_path / "OpBasicInfo.csv")[0]
    assert float(basic["Task Duration(us)"]) == pytest.approx(run.timeline.microseconds, rel=1e-5)
    pipes = rows(tmp_path / "PipeUtilization.csv")
    assert len(pipes) == 8 and all(r["aic_time(us)"] == "NA" for r in pipes)
    mean = np.mean([float(r["aiv_mte2_time(us)"]) for r in pipes])
    assert mean == pytest.approx(run.timeline.pipe_us("MTE2"), rel=1e-4)
    memory = rows(tmp_path / "Memory.csv")
    assert sum(float(r["GM_to_UB_datas(KB)"]) for r in memory) == pytest.approx(2 * 2 * (1 << 16) / 1024)
    assert sum(float(r["UB_to_GM_datas(KB)"]) for r in memory) == pytest.approx(2 * (1 << 16) / 1024)
    code = rows(tmp_path / "simulator" / "code_exe.csv")
    assert any(r["code"].endswith("add_custom.cpp:45") for r in code)


def test_every_file_has_the_vendors_columns_in_its_order(run: Run, tmp_path: Path) -> None:
    msprof.write(run, tmp_path)
    for name, columns in COLUMNS.items():
        with (tmp_path / f"{name}.csv").open() as file:
            assert next(csv.reader(file)) == list(columns), name
    assert len({len(columns) == len(set(columns)) for columns in COLUMNS.values()}) == 1
    for pipes, memory in zip(rows(tmp_path / "PipeUtilization.csv"), rows(tmp_path / "Memory.csv"), strict=True):
        moved = float(pipes["aiv_mte2_active_bw(GB/s)"]) * float(pipes["aiv_mte2_time(us)"]) * 1e3 / 1024
        assert moved == pytest.approx(float(memory["GM_to_UB_datas(KB)"]), rel=1e-4)
        assert pipes["aic_cube_time(us)"] == pipes["aiv_icache_miss_rate"] == "NA"


def test_line_costs_do_not_exceed_the_time(run: Run) -> None:
    costs = summary.line_costs(run)
    for pipe in {r.pipe for r in costs}:
        assert sum(r.microseconds for r in costs if r.pipe == pipe) <= run.timeline.microseconds * 1.001


def test_perfetto_events_lie_inside_the_run(run: Run, tmp_path: Path) -> None:
    perfetto.write(run, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    boxes = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in boxes} == {f"core{i}.veccore0" for i in range(8)}
    assert max(e["ts"] + e["dur"] for e in boxes) <= run.timeline.microseconds * 1.001
    starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    assert all(starts[e["id"]] <= e["ts"] + 1e-3 for e in events if e["ph"] == "t")


def test_the_page_is_one_file_with_the_data_inside(run: Run) -> None:
    page = html.page(summary.of(run, {}))
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert len(data["cores"]) == 8 and data["summary"]["kernel"] == "add_custom"
    assert sum(len(c["events"]) for c in data["cores"]) > 100
    # Nothing is loaded, and no placeholder is left.
    assert not re.search(r"src=|<link|@import|\{\{|<!--", page)
    assert [row[0] for row in data["balance"]] == [f"core{i}.veccore0" for i in range(8)]
    assert max(row[3] for row in data["balance"]) == pytest.approx(run.timeline.microseconds, abs=2e-3)
    (memory,) = data["memory"]
    assert memory["space"] == "ub" and max(b for _, b in memory["steps"]) == memory["peak"] <= memory["reserved"]
    assert data["traffic"]["l2_read_bytes"] == 2 * 2 * (1 << 16)
    assert {state for _, state, _ in data["checks"]} <= {"ok", "not", "n/a"} and len(data["checks"]) > 10


def test_long_memory_curves_keep_their_maximum() -> None:
    values = np.arange(10_000) % 977
    steps = html._thinned(np.arange(10_000.0), values)
    assert len(steps) <= html.MAX_STEPS and max(v for _, v in steps) == 976


def test_l0_rates_of_a_product(tmp_path: Path) -> None:
    a, b, c = np.zeros((128, 128), np.float16), np.zeros((128, 256), np.float16), np.zeros((128, 256), np.float32)
    msprof.write(toprope.load(MATMUL).matmul_custom[1](a, b, c, 128, 128, 256), tmp_path)
    (row,) = rows(tmp_path / "MemoryL0.csv")
    us = float(row["aic_time(us)"])
    # Two steps of K: each operand is written to L0 and read by the cube once; the accumulator is written twice and read once.
    for name, size in (
        ("l0a_read", 128 * 128 * 2),
        ("l0a_write", 128 * 128 * 2),
        ("l0b_read", 128 * 256 * 2),
        ("l0b_write", 128 * 256 * 2),
    ):
        assert float(row[f"aic_{name}_bw(GB/s)"]) * us * 1e3 == pytest.approx(size, rel=1e-4)
    assert float(row["aic_l0c_write_bw_cube(GB/s)"]) * us * 1e3 == pytest.approx(2 * 128 * 256 * 4, rel=1e-4)
    assert float(row["aic_l0c_read_bw_cube(GB/s)"]) * us * 1e3 == pytest.approx(128 * 256 * 4, rel=1e-4)
    assert row["aiv_time(us)"] == "NA"
