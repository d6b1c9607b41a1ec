"""Runs the bundled kernels and prints a digest of every array afterwards, as JSON: `python -m tests.machines.run_examples [EMULATOR ...]`.

With the command of an emulator (qemu-aarch64 -L /usr/aarch64-linux-gnu), $TOPROPE_CXX is a cross compiler and the kernels run there.
$TOPROPE_EXAMPLES names the folders that are wanted; all if it is empty.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.machines import emulated
from toprope import launch
from toprope.kernel import load

WANTED = os.environ.get("TOPROPE_EXAMPLES", "").split()
EXAMPLES = sorted(
    p
    for p in Path("examples").glob("*/*.cpp")
    if p.with_suffix(".toml").exists() and p.parent.name in (WANTED or [p.parent.name])
)


def digests(path: Path, elsewhere: list[str]) -> dict[str, str]:
    """Argument name -> digest of its bytes after the run, for every kernel of a file that has a launch description."""
    out = {}
    for name, kernel in load(path).kernels.items():
        described = launch.read(path.with_suffix(".toml"), name)
        if not described.arguments:
            continue
        values = launch.arguments(kernel, described)
        if elsewhere:
            emulated.run(elsewhere, kernel, described, list(values.values()))
        else:
            kernel[described.blocks](*values.values(), soc=described.soc, tiling_key=described.tiling_key)
        for argument, value in values.items():
            if isinstance(value, np.ndarray):
                out[f"{name}.{argument}"] = hashlib.sha256(value.tobytes()).hexdigest()[:16]
    return out


def main() -> None:
    """Prints {file: {kernel.argument: digest}}."""
    with tempfile.TemporaryDirectory() as folder:
        elsewhere = [*sys.argv[1:], str(emulated.launcher(Path(folder)))] if sys.argv[1:] else []
        print(json.dumps({str(path): digests(path, elsewhere) for path in EXAMPLES}, indent=1))


if __name__ == "__main__":
    main()
