"""What the language refuses, at the user's line and with what to write instead; and the complaints that users of other tools had."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tile import arithmetic
from tests.tile.test_kernels import KERNELS
from toprope.tile import TileError, TileTooLarge

HEAD = "from toprope import tile\nfrom toprope.tile import In, Out, f16, f32\n\n@tile.kernel\n"
SIGNATURE = 'def k(x: In["N", f32], h: In["N", f16], z: Out["N", f32], *, T=tile.tune(64), fast=True):\n'
LOOP = "    for i in tile.tiles(x.shape[0], T):\n"


def define(tmp_path: Path, body: str) -> Any:
    """The kernel k with this body, its first line on line 6 of the file."""
    path = tmp_path / "user.py"
    path.write_text(HEAD + SIGNATURE + body)
    spec = importlib.util.spec_from_file_location("user", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


@pytest.mark.parametrize(
    ("body", "line", "says", "instead"),
    [
        (
            LOOP + "        if x.shape[0] > 4:\n            z[i] = x[i]\n",
            7,
            "comparison of dimensions",
            "compare tiles",
        ),
        (LOOP + "        while True:\n            z[i] = x[i]\n", 7, "while", "tile.tiles"),
        ("    for i in range(4):\n        z[i] = x[i]\n", 6, "for over range(4)", "tile.tiles(extent, size)"),
        (LOOP + "        z[i] = x[i] + h[i]\n", 7, "add of float32 and float16", ".to(tile.f32)"),
        (LOOP + "        z[i] = h[i]\n", 7, "float16 tile is stored into the float32 array", ".to("),
        (LOOP + "        z[i] = x[i] if fast else -x[i]\n", 7, "a if c else b", "tile.where"),
        (LOOP + "        z[i] = x[3]\n", 7, "not a step of a tiles loop", "loop names"),
        (LOOP + "        z[i] = z[i] + x[i]\n", 7, "Out array and is read", "another In"),
        (LOOP + "        x[i] = x[i]\n", 7, "only an Out array", "Out["),
        (LOOP + "        z[i] = tile.sum(h[i], 0) * x[i]\n", 7, "sum has no float16 form", "float32"),
        (LOOP + "        z[i] = tile.where(x[i], x[i], 0)\n", 7, "not a comparison", "x > 0"),
        (LOOP + "        t = x[i]\n    z[i] = t\n", 8, "t has no value here", "before the loop"),
        (LOOP + "        z[i] = x[i] / 0\n", 7, "divided by the number 0", "something else"),
        (LOOP + "        z[i] = x[i] @ x[i]\n", 6, "another form than the cube's", "tile.acc"),
        (LOOP + "        z[i] = [x[i]][0]\n", 7, "a list", "no lists"),
        (LOOP + "        z[i] = x[i]\n" + LOOP + "        z[i] = x[i]\n", 8, "one outermost tiles loop", "two kernels"),
        (LOOP + "        z[i] = (x[i] > 0) * x[i]\n", 7, "a condition is used as a number", "tile.where(condition"),
        (LOOP + "        z[i] = x[i] > 0\n", 7, "a condition is stored", "tile.where(condition"),
        (
            LOOP + "        z[i] = tile.where((x[i] > 0) & (x[i] < 1), x[i], 0)\n",
            7,
            "& is not part",
            "nest the choices",
        ),
        (LOOP + "        z[i] = x[i] % 2\n", 7, "% is not part", "no remainder"),
        (LOOP + "        z[i] = max(x[i], 0)\n", 7, "a call of max", "tile.maximum"),
        (LOOP + "        z[i] = x[i].exp()\n", 7, ".exp means nothing", "write tile.exp(...)"),
        (
            LOOP + "        z[i] = tile.dropout(x[i])\n",
            7,
            "tile.dropout is not there",
            "the functions of tiles are abs",
        ),
        (LOOP + "        z[:] = x[i]\n", 7, "a slice is not part", "loop over that axis"),
        (LOOP + "        z[i] = tile.cumsum(x[i])\n", 7, "tile.cumsum is not part", "triangle of ones"),
        (LOOP + "        z[i] = tile.argmax(x[i])\n", 7, "tile.argmax is not part", "tile.arange(c)"),
        (LOOP + "        z[i] = x[i] ** 1.5\n", 7, "a power of 1.5", "tile.exp(tile.log(x) * p)"),
        (LOOP + "        z[i] = x[i].to(tile.i8).to(f16).to(f32)\n", 7, "float32 to int8", ".to(tile.f16).to(tile.i8)"),
        (LOOP + "        z[i] = x[None, i]\n", 7, "None stands elsewhere", "x[r, None]"),
        (LOOP + "        z[i] = x[h[i]]\n", 7, "not a step of a tiles loop", "int32 or int64"),
        (LOOP + "        z[i] = tile.arange(3)\n", 7, "something else than a step", "tile.arange(c)"),
        ("    for i in tile.tiles(x.shape[0], T, dept=2):\n        z[i] = x[i]\n", 6, "no option dept", "depth"),
        (
            "    for i in tile.tiles(x.shape[0], T, swizzle=4):\n        z[i] = x[i]\n",
            6,
            "swizzle on a loop",
            "two axes",
        ),
    ],
)
def test_refused_at_the_users_line(tmp_path: Path, body: str, line: int, says: str, instead: str) -> None:
    with pytest.raises(TileError) as refusal:
        define(tmp_path, body)
    assert f"user.py:{line}: " in refusal.value.message
    assert says in refusal.value.message and instead in refusal.value.cure


def test_a_constant_of_the_signature_may_steer_an_if(tmp_path: Path) -> None:
    kernel = define(
        tmp_path, LOOP + "        if fast:\n            z[i] = x[i]\n        else:\n            z[i] = -x[i]\n"
    )
    assert "Muls" not in kernel.source() and "Muls" in kernel.source(fast=False)


def test_too_large_comes_with_the_ledger_and_what_fits() -> None:
    with pytest.raises(TileTooLarge) as refusal:
        KERNELS.add.source(T=16384)
    assert "in0" in refusal.value.message and "2 x 65536" in refusal.value.message
    assert "T = 8192" in refusal.value.cure
    assert "100 %" in KERNELS.add.plan(T=8192)


def test_a_product_that_is_too_large_names_the_memory() -> None:
    with pytest.raises(TileTooLarge, match="l0c needs 262144 of 131072"):
        KERNELS.matmul.source(BM=256)


def test_no_parameter_does_nothing() -> None:
    with pytest.raises(TileError, match="no parameter Q"):
        KERNELS.add.source(Q=1)
    with pytest.raises(TileError, match="not a multiple of 64"):
        KERNELS.add.source(T=100)


def test_shapes_and_types_are_checked_at_the_launch() -> None:
    x = np.zeros(5, np.float32)
    with pytest.raises(TileError, match="dimension N is 5 and, in y, 6"):
        KERNELS.add(x, np.zeros(6, np.float32), x)
    with pytest.raises(TileError, match="array x is float64"):
        KERNELS.add(x.astype(np.float64), x, x)


def test_the_text_is_deterministic_and_names_the_python_line() -> None:
    assert KERNELS.softmax.source() == type(KERNELS.softmax)(KERNELS.softmax.function).source()
    assert "// kernels.py:" in KERNELS.softmax.source()
    assert "#line" in KERNELS.softmax.source(line_directives=True)


def test_one_read_of_each_row_when_it_fits() -> None:
    resident = KERNELS.softmax.source().split("class KernelSoftmaxResident")[1].split("class KernelSoftmax ")[0]
    assert resident.count("xGm[") == 1
    assert resident.count("Exp(") == 2  # of the row maxima's change, and of the tile, shared by sum and result


def test_findings_name_the_python_line() -> None:
    x = np.zeros(64, np.float32)
    run = arithmetic.unary.run(x, np.zeros_like(x))
    files = {site.file for site in run.trace.sites if "arithmetic" in site.file}
    assert files
