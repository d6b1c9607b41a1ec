"""visualize_data.bin, read back as MindStudio Insight reads it: every header byte, every offset, every JSON block."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toprope
from tests.ascendc.harness import kernels
from toprope.kernel import Run
from toprope.report import insight, msprof

ADD = Path(__file__).parent.parent.parent / "examples" / "01_add" / "add_custom.cpp"
PATH_BYTES = 4096


@pytest.fixture(scope="module")
def run() -> Run:
    x, y, z = (np.zeros(1 << 15, np.float16) for _ in range(3))
    return toprope.load(ADD).add_custom[4](x, y, z, 1 << 15)


def blocks(data: bytes) -> list[tuple[int, str, bytes]]:
    """(type, path, content without padding) of each block; asserts every byte that is not content."""
    out, at = [], 0
    while at < len(data):
        size, kind, padding, version, mark = struct.unpack_from("<QBBBB", data, at)
        at += 12
        assert mark == 0x5A and version == (0 if kind == 4 else 0x5A)
        assert size % 4 == 0 and 0 <= padding < 4
        path = ""
        if kind == 1:
            field = data[at : at + PATH_BYTES]
            path = field.rstrip(b"\0").decode()
            assert len(field) == PATH_BYTES and field[-1] == 0
            at += PATH_BYTES
        content = data[at : at + size]
        assert len(content) == size > padding
        assert content[size - padding :] == b"\0" * padding
        out.append((kind, path, content[: size - padding]))
        at += size
    assert at == len(data)
    return out


@pytest.fixture(scope="module")
def read(run: Run, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str, bytes]]:
    folder = tmp_path_factory.mktemp("opprof")
    assert folder / "visualize_data.bin" in msprof.write(run, folder)
    found = blocks((folder / "visualize_data.bin").read_bytes())
    trace = next(content for kind, _, content in found if kind == 2)
    assert trace.decode() == (folder / "simulator" / "trace.json").read_text()
    return found


def content(read: list[tuple[int, str, bytes]], kind: int) -> dict[str, Any]:
    (text,) = (c for k, _, c in read if k == kind)
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("length", range(1, 6))
def test_contents_of_any_length_are_padded_to_four(length: int) -> None:
    data = (
        insight.block(3, b"x" * length) + insight.block(4, b"y" * length) + insight.block(1, b"z" * length, "/a/b.cpp")
    )
    assert blocks(data) == [(3, "", b"x" * length), (4, "", b"y" * length), (1, "/a/b.cpp", b"z" * length)]


def test_there_is_one_block_of_each_kind_and_the_source(read: list[tuple[int, str, bytes]]) -> None:
    assert [k for k, _, _ in read if k != 1] == [2, 3, 4, 5, 0xC, 0xD]
    assert {path: text for k, path, text in read if k == 1} == {str(ADD): ADD.read_bytes()}


def test_the_timeline_says_what_it_is_before_its_first_list(read: list[tuple[int, str, bytes]]) -> None:
    text = next(c for k, _, c in read if k == 2).decode()
    assert '"profilingType": "op"' in text[: text.index("[")]
    assert json.loads(text)["traceEvents"]


def test_lines_and_instructions_agree_with_the_run(run: Run, read: list[tuple[int, str, bytes]]) -> None:
    files, instructions = content(read, 3), content(read, 4)
    cores = [f"core{i}.veccore0" for i in range(4)]
    assert files["Cores"] == instructions["Cores"] == cores
    columns = instructions["Instructions Dtype"]["Instructions"]
    rows = instructions["Instructions"]
    assert all(set(row) == set(columns) for row in rows)
    for row in rows:
        for name, code in columns.items():
            assert isinstance(row[name], str) if code == 3 else [type(v) for v in row[name]] == [int] * 4
    (file,) = files["Files"]
    assert file["Source"] == str(ADD) and set(file["Lines"][0]) == set(files["Files Dtype"]["Lines"])
    for line in file["Lines"]:
        ((first, last),) = line["Address Range"]
        mine = [r for r in rows if int(first, 16) <= int(r["Address"], 16) <= int(last, 16)]
        assert {r["AscendC Inner Code"] for r in mine} == {f"{ADD}:{line['Line']}"}
        for name in ("Cycles", "Instructions Executed", "Process Bytes"):
            assert line[name] == [sum(column) for column in zip(*(r[name] for r in mine), strict=True)]
    adds = [r for r in rows if r["Source"] == "Add"]
    assert [r["Pipe"] for r in adds] == ["VECTOR"]
    vector = np.array([r["Cycles"] for r in rows if r["Pipe"] == "VECTOR"]).sum()
    assert vector == pytest.approx(run.timeline.pipe_us("V") * run.soc.ghz * 1e3 * 4, rel=0.02)
    assert all(sum(r["RealStallCycles"]) == 0 for r in rows if r["Source"] in ("Add", "DataCopy"))
    assert any(sum(r["RealStallCycles"]) > 0 for r in rows if r["Source"] == "WaitFlag")
    processed = np.array([r["Process Bytes"] for r in rows if r["Source"] == "DataCopy" and r["Pipe"] == "MTE2"])
    assert processed.sum() == 2 * 2 * (1 << 15)


def test_details(run: Run, read: list[tuple[int, str, bytes]]) -> None:
    basic, load, roof = content(read, 5), content(read, 0xC), content(read, 0xD)
    assert (basic["name"], basic["op_type"], basic["block_dim"], basic["cur_freq"]) == (
        "add_custom",
        "vector",
        "4",
        "1850",
    )
    assert basic["duration"] == run.timeline.microseconds
    assert basic["block_detail"]["size"] == [5, 3]
    assert [row["value"][:2] for row in basic["block_detail"]["row"]] == [[str(i), "vector"] for i in range(4)]
    details = [core for op in load["op_detail"] for core in op["core_detail"]]
    assert [c["throughput"] for c in details] == [3 * 2 * (1 << 15) // 4] * 4
    assert all(0 < c["cycles"] <= run.timeline.cycles for c in details)
    (line,) = roof["multiple_rooflines"][0]["rooflines"]
    intensity, reached = line["point"]
    assert 0 < reached <= min(line["computility"], line["bw"] * intensity) * 1.05


def test_a_mixed_launch_lists_the_cores_of_a_block_side_by_side(tmp_path: Path) -> None:
    source = """
extern "C" __global__ __aicore__ void mixed(GM_ADDR x) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    PipeBarrier<PIPE_ALL>();
}
"""
    found = kernels(source, "insight")["mixed"][3](np.zeros(16, np.float16))
    insight.write(found, "{}", tmp_path / "visualize_data.bin")
    basic = content(blocks((tmp_path / "visualize_data.bin").read_bytes()), 5)
    table = basic["mix_block_detail"]
    assert basic["op_type"] == "mix" and "block_detail" not in basic and table["size"] == [4, 4]
    assert table["head_name"] == [
        "Block ID", "Cube0 Duration (μs)", "Vector0 Duration (μs)", "Vector1 Duration (μs)",
    ]  # fmt: skip
    times = np.array([[float(v) for v in row["value"][1:]] for row in table["row"]])
    assert times.sum() == pytest.approx(found.timeline.core_us.sum(), abs=1e-4) and np.all(times > 0)
