"""The script of docs/ci.md does what the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void copy(GM_ADDR x, GM_ADDR z) {
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x);
    to.SetGlobalBuffer((__gm__ float*)z);
    LocalTensor<float> a(TPosition::VECCALC, 0, 64);
    DataCopy(a, from, 64);
    ORDER
    DataCopy(to, a, 64);
}
"""
ORDERED = "SetFlag<HardEvent::MTE2_MTE3>(0); WaitFlag<HardEvent::MTE2_MTE3>(0);"


@pytest.mark.parametrize(("order", "status"), [pytest.param(ORDERED, 0, marks=pytest.mark.slow), ("", 1)])
def test_the_script_fails_on_a_race_and_leaves_sarif(tmp_path: Path, order: str, status: int) -> None:
    script = re.search(r"```sh\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.S)
    assert script
    (tmp_path / "copy.cpp").write_text(KERNEL.replace("ORDER", order))
    (tmp_path / "copy.toml").write_text('[copy.arguments]\nx = "float[64]"\nz = "float[64] out"\n')
    (tmp_path / "toprope").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m toprope.cli "$@"\n')
    (tmp_path / "toprope").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", script[1]], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    (run,) = json.loads((tmp_path / "reports" / "copy.cpp.copy.sarif").read_text())["runs"]
    assert [r["ruleId"] for r in run["results"]] == ["race-unordered-pipes"] * status
    assert ("race-unordered-pipes" in done.stdout) == bool(status)
