"""The unmodified torch_npu wheel on the software NPU, where it is installed: in a folder of its own on PYTHONPATH, because torch loads it by itself
wherever it finds it, and that fails without a toolkit."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_npu") is None or importlib.util.find_spec("torch") is None,
    reason="could not import 'torch_npu': pip install --no-deps torch-npu==2.13.0",
)


def ended(script: str, *words: str, executors: str = "reference") -> subprocess.CompletedProcess[str]:
    """Run a script of this folder under `toprope exec`."""
    toprope = [sys.executable, "-c", "import sys; from toprope.cli import main; sys.exit(main())"]
    command = [*toprope, "exec", "--", sys.executable, str(Path(__file__).with_name(script)), *words]
    env = {**os.environ, "TOPROPE_EXECUTORS": executors, "TOPROPE_COMPILE_LIMIT_S": "600"}
    return subprocess.run(command, capture_output=True, text=True, timeout=900, env=env)


def test_a_transformer_block_runs_and_trains_as_on_the_cpu() -> None:
    done = ended("torch_model.py")
    assert "forward True\ntrained True" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.returncode == 0 and "were answered by references of" in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("executors", ["reference", "all"])
def test_a_language_model_generates_and_trains_as_on_the_cpu(executors: str) -> None:
    done = ended("torch_networks.py", "language", executors=executors)
    assert "generated True" in done.stdout and "trained True" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert ("generated kernels" in done.stdout + done.stderr) == (executors == "all")


@pytest.mark.slow
@pytest.mark.parametrize("executors", ["reference", "all"])
def test_a_residual_network_runs_and_trains_as_on_the_cpu(executors: str) -> None:
    done = ended("torch_networks.py", "residual", executors=executors)
    assert "residual True" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_the_blocks_of_resnet_50() -> None:
    done = ended("torch_networks.py", "residual", "whole")
    assert "residual True" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
