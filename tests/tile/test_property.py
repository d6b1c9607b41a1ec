"""Random small kernels at ragged shapes: level A and the emitted Ascend C agree bit for bit, and no check complains."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HEAD = """from toprope import tile
from toprope.tile import In, Out, f16, f32

@tile.kernel
def random_kernel(
    x: In["M", "N", {kind}], y: In["M", "N", {kind}], g: In["N", {kind}], z: Out["M", "N", {kind}],
    *, R=tile.tune({rows}), C=tile.tune({columns}),
):
    M, N = x.shape
    for r in tile.tiles(M, {r}, depth={depth}):
        m, s = tile.full((r, 1), -2.0), tile.zeros((r, 1))
        for c in tile.tiles(N, {c}, depth={depth}):
            t = ({first}).to(f32)
            m = tile.maximum(m, tile.max(t, 1))
            s = s * 0.5 + tile.sum(t, 1)
        for c in tile.tiles(N, {c}):
            z[r, c] = ({second}){exit}
"""
SAFE_UNARY = [
    "tile.abs({0})",
    "tile.relu({0})",
    "(-{0})",
    "tile.exp(tile.minimum({0}, 2.0))",
    "tile.sqrt(tile.abs({0}))",
]
BINARY = [
    "({0} + {1})",
    "({0} - {1})",
    "({0} * {1})",
    "tile.maximum({0}, {1})",
    "tile.minimum({0}, {1})",
    "({0} / (tile.abs({1}) + 1))",
]
NUMBER = [
    "({0} + 0.3)",
    "(1.7 - {0})",
    "({0} * -0.7)",
    "({0} / N)",
    "(2.5 / (tile.abs({0}) + 1))",
    "tile.maximum({0}, 0.1)",
]
WHERE = ["tile.where({0} < {1}, {0}, {1})", "tile.where({0} >= 0.2, {1}, -1.5)"]


def expressions(leaves: list[str]) -> st.SearchStrategy[str]:
    """Expressions over full tiles, up to a few operations deep."""
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            st.builds(lambda form, a: form.format(a), st.sampled_from(SAFE_UNARY + NUMBER), inner),
            st.builds(lambda form, a, b: form.format(a, b), st.sampled_from(BINARY + WHERE), inner, inner),
        ),
        max_leaves=5,
    )


@st.composite
def texts(draw: st.DrawFn) -> str:
    """The source of one kernel."""
    kind = draw(st.sampled_from(["f32", "f16"]))
    tiles = ["x[r, c]", "y[r, c]", "(x[r, c] * g[c])", "(g[c] - y[r, c])"]
    wide = tiles if kind == "f32" else [f"{t}.to(f32)" for t in tiles]
    rows, columns = draw(st.sampled_from([2, 3, 8])), draw(st.sampled_from([16, 50, 200]))
    is_open = draw(st.booleans())  # sizes that the host may choose anew, or numbers that stay
    return HEAD.format(
        kind=kind,
        rows=rows,
        columns=columns,
        r="R" if is_open else rows,
        c="C" if is_open else columns,
        depth=draw(st.sampled_from([1, 2])),
        first=draw(expressions(tiles)),
        second=draw(expressions([*wide, f"({wide[0]} - m)", f"(s * {wide[1]})"])),
        exit="" if kind == "f32" else ".to(f16)",
    )


def load(text: str, folder: Path) -> Any:
    """The kernel of a source text."""
    path = folder / "random_kernel.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"random_kernel_{abs(hash(text))}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.random_kernel


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bits; every NaN is like every other."""
    words = np.uint16 if a.dtype == np.float16 else np.uint32
    return bool(np.all((a.view(words) == b.view(words)) | (np.isnan(a) & np.isnan(b))))


def agree(text: str) -> None:
    """Level A equals the emitted kernel on shapes around its tile sizes, in one piece and in several."""
    kind = np.float16 if '"N", f16]' in text else np.float32
    with tempfile.TemporaryDirectory() as folder:
        kernel = load(text, Path(folder))
        for m, n in [(1, 1), (7, 49), (10, 201), (150, 57)]:
            rng = np.random.default_rng(m)
            x, y = rng.normal(0, 1, (2, m, n)).astype(kind)
            g = rng.normal(0, 1, n).astype(kind)
            level_a, emitted = np.zeros((m, n), kind), np.zeros((m, n), kind)
            kernel(x, y, g, level_a)
            run = kernel.run(x, y, g, emitted)
            assert same(level_a, emitted), text
            assert [f for f in run.findings if f.severity == "error"] == [], text


@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(texts())
def test_random_kernels(text: str) -> None:
    agree(text)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(texts())
def test_many_random_kernels(text: str) -> None:
    agree(text)
