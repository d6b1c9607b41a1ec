"""Every bundled example: equal to its reference, no finding, and a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
KERNELS = sorted(p for p in EXAMPLES.glob("*/*.cpp") if p.with_suffix(".toml").exists())


def test_the_promised_examples_are_there() -> None:
    assert {p.parent.name for p in KERNELS} >= {
        "01_add",
        "02_add_tiling",
        "03_softmax",
        "04_layernorm",
        "05_cast_compare_select",
        "06_reduce_syncall",
        "07_matmul",
    }


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda p: p.stem)
def test_example(kernel: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "toprope.cli", "run", str(kernel), "--json"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    report = json.loads(done.stdout)
    assert report["verdicts"] and report["passed"]
    assert [f for f in report["findings"] if f["severity"] != "advice"] == []
    assert report["microseconds"] > 1
