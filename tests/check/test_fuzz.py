"""toprope check --fuzz: other indices and sizes, the same ones every time, each of them named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope.commands.check import main
from toprope.launch import LaunchFile
from toprope.variants import index_inputs, variants

ROWS = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void rows(GM_ADDR table, GM_ADDR index, GM_ADDR z, uint32_t count) {
    GlobalTensor<float> from, to;
    GlobalTensor<int32_t> at;
    from.SetGlobalBuffer((__gm__ float*)table);
    to.SetGlobalBuffer((__gm__ float*)z);
    at.SetGlobalBuffer((__gm__ int32_t*)index);
    LocalTensor<float> a(TPosition::VECCALC, 0, 32);
    for (uint32_t i = GetBlockIdx(); i < (count + 7) / 8 * 8; i += GetBlockNum()) {
        DataCopy(a, from[i * 32], 32);
        SetFlag<HardEvent::MTE2_MTE3>(0);
        WaitFlag<HardEvent::MTE2_MTE3>(0);
        DataCopy(to[at.GetValue(i) * 32], a, 32);
        SetFlag<HardEvent::MTE3_MTE2>(0);
        WaitFlag<HardEvent::MTE3_MTE2>(0);
    }
}
"""
ARGUMENTS = {
    "table": "float[16, 32]",
    "index": "int32[16] arange",
    "z": "float[16, 32] out",
    "count": 16,
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "rows.cpp"
    path.write_text(ROWS)
    return path


def test_the_telling_launches_come_first_and_are_the_same_every_time(file: Path) -> None:
    kernel, launch = toprope.load(file).rows, LaunchFile(blocks=2, arguments=ARGUMENTS)
    made = variants(kernel, launch, 12)
    assert [v.changed for v in made] == [
        "index all 15", "index all 0", "index 0 and 15 in turn", "index rising from 0 to 15", "index falling from 15 to 0",
        "16 is 15", "16 is 17", "16 is 1",
        "index drawn at random (1)", "index drawn at random (2)", "index drawn at random (3)", "index drawn at random (4)",
    ]  # fmt: skip
    again = variants(kernel, launch, 12)
    assert all(np.array_equal(v.arguments["index"], w.arguments["index"]) for v, w in zip(made, again, strict=True))
    assert set(made[0].arguments["index"]) == {15} and made[4].arguments["index"].tolist() == list(range(15, -1, -1))
    less = made[5].arguments
    assert less["count"] == 15 and less["table"].shape == (15, 32) and less["index"].shape == (15,)
    assert [v.changed for v in variants(kernel, launch, 2)] == ["index all 15", "index all 0"]


def test_ranges_and_products(file: Path) -> None:
    kernel = toprope.load(file).rows
    told = LaunchFile(arguments={**ARGUMENTS, "index": "int32[16] integers(3, 9)", "count": 512})
    assert index_inputs(kernel, told) == {"index": (3, 8)}
    products = [
        (v.changed, v.arguments["count"], v.arguments["z"].shape)
        for v in variants(kernel, told, 99)
        if " is " in v.changed
    ]
    assert ("32 is 31", 496, (16, 31)) in products and ("16 is 17", 544, (17, 32)) in products
    untold = LaunchFile(arguments={**ARGUMENTS, "index": "int32[16] zeros", "count": 7})
    assert variants(kernel, untold, 99) == []


def test_findings_say_what_showed_them(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = [str(file), *(f"{k}={v}" for k, v in ARGUMENTS.items()), "--blocks", "2"]
    assert main(launch) == 0
    capsys.readouterr()
    assert main([*launch, "--fuzz", "9"]) == 1
    out, err = capsys.readouterr()
    assert "both write z[1920:2048]" in out and "; with index all 15" in out
    assert "gm-out-of-bounds: DataCopy reads x" not in out and "; with 16 is 15" in out
    assert err.count("fuzz: ") == 9 and "fuzz: index all 15: race-cores-write-same\n" in err
    assert "fuzz: index all 0: nothing more\n" in err
    assert main([*launch, "--fuzz", "9", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [t["changed"] for t in document["fuzz"]][:2] == ["index all 15", "index all 0"]
    assert document["fuzz"][0]["codes"] == ["race-cores-write-same"]


def test_nothing_to_change_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.cpp").write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\nextern "C" __global__ __aicore__ void one(GM_ADDR x) {}\n'
    )
    assert main([str(tmp_path / "one.cpp"), "x=float[8]", "--fuzz", "4"]) == 0
    assert "fuzz: nothing to change" in capsys.readouterr().err
