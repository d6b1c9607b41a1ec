"""Kernels that another machine runs: compiled by a cross compiler ($TOPROPE_CXX), executed by an emulator in launcher.cpp."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from toprope import kernel as kernels
from toprope import runtime
from toprope.build import INCLUDE, compiler
from toprope.kernel import Kernel
from toprope.launch import LaunchFile
from toprope.soc import load as load_soc
from toprope.trace import CORE_TYPES, SPACES

_HERE = Path(__file__).parent


def launcher(folder: Path) -> Path:
    """The program that runs one launch, built for the other machine; statically linked but for the loading of kernels."""
    program = folder / "launcher"
    flags = ["-std=c++17", "-O2", "-w", "-ffp-contract=off", "-rdynamic", f"-I{INCLUDE}"]
    subprocess.run(
        [*compiler().command, *flags, str(_HERE / "launcher.cpp"), "-o", str(program), "-ldl"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return program


def run(command: list[str], kernel: Kernel, described: LaunchFile, values: list[Any]) -> str:
    """One launch as `kernel[blocks](*values)` would do it here: arrays get their new contents. Returns the printed reports."""
    soc = load_soc(described.soc)
    cores, ratio, mixed = kernels._cores(kernel, described.blocks, soc, described.tiling_key)
    bound = kernels._Bound(kernel, values)
    lines = [f"launch {described.blocks} {ratio} {int(mixed)} {described.tiling_key}"]
    lines += [f"core {c.block} {c.sub} {CORE_TYPES.index(c.type)}" for c in cores]
    for number, core_type in enumerate(CORE_TYPES):
        sizes = [soc.bytes_of(s) if s in runtime._SPACES_OF[core_type] else 0 for s in SPACES]
        lines.append(f"space {number} " + " ".join(map(str, sizes)))
        if core_type in {c.type for c in cores}:
            lines.append(f"entry {number} {kernel.build(soc, core_type)} toprope_call_{kernel.name}")
    with tempfile.TemporaryDirectory() as folder:
        buffers = [("gm", g.name, g.array) for g in bound.gm]
        workspace = kernels._system_workspace(mixed)
        if workspace is not None:
            buffers.append(("workspace", "system", workspace))
        for i, (word, name, array) in enumerate(buffers):
            array.tofile(f"{folder}/{i}")
            lines.append(f"{word} {name} {array.nbytes} {folder}/{i}")
        addresses = [g.array.ctypes.data for g in bound.gm]
        for parameter, value in zip(kernel.entry.parameters, bound.values, strict=True):
            pointer = parameter.is_pointer and int(value[0]) != 0
            lines.append(f"pointer {addresses.index(int(value[0]))}" if pointer else f"value {value.tobytes().hex()}")
        done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{kernel.name}: exit code {done.returncode}\n{done.stderr}")
        for i, g in enumerate(bound.gm):
            g.array.reshape(-1)[:] = np.fromfile(f"{folder}/{i}", g.array.dtype)
    return done.stdout
