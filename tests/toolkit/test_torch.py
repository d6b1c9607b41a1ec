"""The unmodified torch_npu wheel on the software NPU, where it is installed: in a folder of its own on PYTHONPATH, because torch loads it by itself
wherever it finds it, and that fails without a toolkit."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_npu") is None or importlib.util.find_spec("torch") is None,
    reason="could not import 'torch_npu': pip install --no-deps torch-npu==2.13.0",
)


def test_a_transformer_block_runs_and_trains_as_on_the_cpu() -> None:
    model = Path(__file__).with_name("torch_model.py")
    command = [
        sys.executable,
        "-c",
        "import sys; from toprope.cli import main; sys.exit(main())",
        "exec",
        "--",
        sys.executable,
        str(model),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "forward True\ntrained True" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.returncode == 0 and "were answered by references of" in done.stdout + done.stderr
