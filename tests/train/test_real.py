"""The planner's methods on real processes: losses equal a single process's, and a killed worker costs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

RUN = "toprope.train.real.run"


def launch(processes: int, tmp_path: Path, *arguments: str) -> dict[str, list[float]]:
    out = tmp_path / "out.json"
    torchrun = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--max-restarts",
        "1",
        "--nproc-per-node",
        str(processes),
    ]
    how = ["-m", RUN] if processes == 1 else [*torchrun, "-m", RUN]
    done = subprocess.run(
        [sys.executable, *how, *arguments, "--out", str(out)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[float]] = json.loads(out.read_text())
    return found


@pytest.mark.parametrize(
    "strategy",
    ["hierarchical", *(pytest.param(s, marks=pytest.mark.slow) for s in ("zero3", "hsdp", "tensor", "pipeline"))],
)
def test_losses_equal_a_single_process(strategy: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    long = request.config.getoption("markexpr") != "not slow"
    steps, processes = ("50", 4) if long else ("6", 2)
    alone = launch(1, tmp_path, "--strategy", "single", "--steps", steps)
    shared = launch(processes, tmp_path, "--strategy", strategy, "--steps", steps)
    assert len(shared["losses"]) == int(steps) and shared["losses"] == pytest.approx(alone["losses"], rel=1e-5)
    assert alone["losses"][-1] < alone["losses"][0]
    if strategy in ("zero3", "hsdp"):  # sharded over all four, or over the two of a node
        share = processes if strategy == "zero3" else processes // 2
        assert shared["parameter_bytes"] * share == alone["parameter_bytes"]


@pytest.mark.slow
def test_a_killed_worker_loses_no_step(tmp_path: Path) -> None:
    alone = launch(1, tmp_path, "--strategy", "single", "--steps", "8")
    kept = str(tmp_path / "kept.pt")
    broken = launch(2, tmp_path, "--strategy", "hierarchical", "--steps", "8", "--checkpoint", kept, "--die-at", "5")
    assert broken["losses"] == pytest.approx(alone["losses"], rel=1e-5)


@pytest.mark.parametrize("length", [1, 7, 64])
def test_two_level_sum_of_one_process(length: int) -> None:
    """The padded forms in one process: two groups of one, so the sum is the array itself."""
    import torch
    import torch.distributed as dist

    from toprope.train.real.reduce import Levels, hierarchical_all_reduce

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        array = torch.arange(length, dtype=torch.float32)
        hierarchical_all_reduce(array, Levels.of(1, 1))
        assert torch.equal(array, torch.arange(length, dtype=torch.float32))
    finally:
        dist.destroy_process_group()
