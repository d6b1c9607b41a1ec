"""Names of the author that C++ or the emitted text uses itself, arrays in any order, offsets that are constants."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from toprope import tile
from toprope.cli import main

ROWS = """from toprope import tile
from toprope.tile import In, Out, f32

@tile.kernel
def {kernel}({array}: In["{dim}", "N", f32], y: Out["{dim}", "N", f32], *, R=tile.tune(8), C=tile.tune(64, mult=64)):
    M, N = {array}.shape
    for r in tile.tiles(M, R):
        {local} = tile.zeros((r, 1))
        for c in tile.tiles(N, C):
            {local} += tile.sum({array}[r, c], 1)
        for c in tile.tiles(N, C):
            y[r, c] = {array}[r, c] - {local}
"""
SHIFT = """
import triton.language as tl
def shift(x, y, n, W: tl.constexpr, C: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    rows, cols = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, B)
    m = (rows[:, None] < n) & (cols[None, :] < C)
    v = tl.load(x + rows[:, None] * W + C + cols[None, :], mask=m, other=0.0)
    tl.store(y + rows[:, None] * C + cols[None, :], v, mask=m)
"""
DOUBLE = """from toprope import tile
from toprope.tile import In, Out, f32

@tile.kernel
def dbl(y: Out["N", f32], x: In["N", f32], *, T=tile.tune(1024, mult=64)):
    for i in tile.tiles(x.shape[0], T, depth=2):
        y[i] = x[i] * 2.0
"""


def module(folder: Path, text: str) -> ModuleType:
    """A file's kernels."""
    file = folder / "kernels.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("named_kernels", file)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


NAMES = [
    {"array": "rows"}, {"array": "pipe", "dim": "int", "local": "register"}, {"kernel": "Exp", "array": "new", "dim": "rows"},
    {"kernel": "main", "array": "GM_ADDR", "dim": "scratch"},
]  # fmt: skip
MORE = [{"array": n} for n in ("in0", "float", "template", "this", "operator", "namespace", "half", "scratch", "T")]
MORE += [{"kernel": n} for n in ("Add", "int", "double")] + [{"dim": n} for n in ("new", "tiling", "block", "R")]


@pytest.mark.parametrize("names", [NAMES[2], *(pytest.param(n, marks=pytest.mark.slow) for n in [*NAMES, *MORE])])
def test_any_python_name_works(names: dict[str, str], tmp_path: Path) -> None:
    given = {"kernel": "centred", "array": "x", "dim": "M", "local": "s"} | names
    kernel = getattr(module(tmp_path, ROWS.format(**given)), given["kernel"])
    x = np.random.default_rng(0).standard_normal((10, 100), dtype=np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    kernel(x, z)
    assert kernel.run(x, y).findings == [] and np.array_equal(y, z)
    assert np.allclose(y, x - x.sum(1, keepdims=True), atol=1e-4)


def test_a_constant_column_offset_is_kept() -> None:
    x, y = np.random.default_rng(0).standard_normal((40, 192)).astype(np.float32), np.zeros((40, 96), np.float32)
    tile.triton(SHIFT).run(3, x, y, 40, W=192, C=96, R=16, B=128)
    assert np.array_equal(y, x[:, 96:])


@pytest.mark.slow
def test_an_output_before_an_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module(tmp_path, DOUBLE)
    assert main(["new", "--from", f"{tmp_path / 'kernels.py'}:dbl", str(tmp_path / "project")]) == 0
    assert main(["test", str(tmp_path / "project")]) == 0
    assert "2 passed" in capsys.readouterr().out
