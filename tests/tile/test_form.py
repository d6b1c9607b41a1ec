"""Triton functions through the form: right against NumPy, the emitted bits those of level A, nothing found."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toprope import tile
from toprope.cli import main
from toprope.tile.front_triton.kernel import FormProgram

PROGRAMS = Path(__file__).with_name("form_programs.py")
Arrays = list[Any]


def both(name: str, grid: Any, arguments: Arrays, *, emit: bool = True, **constants: Any) -> Arrays:
    """The arguments after level A; the emitted kernel gives the same bits without a finding."""
    kernel = tile.triton(PROGRAMS, name)
    level_a, emitted = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2))
    kernel[grid](*level_a, **constants)
    if emit:
        run = kernel.run(grid, *emitted, **constants)
        for a, b in zip(level_a, emitted, strict=True):
            assert not isinstance(a, np.ndarray) or a.tobytes() == b.tobytes()
        assert [f.code for f in run.findings if f.severity != "advice" and f.code != "argument-never-used"] == []
    return level_a


def normal(*shape: int, kind: Any = np.float32) -> Any:
    """Numbers of a normal distribution."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


def attention(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """In float64."""
    s = np.einsum("hsd,htd->hst", q.astype(float), k.astype(float)) * 0.125
    s = np.where(np.arange(s.shape[1])[:, None] >= np.arange(s.shape[2]), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hst,htd->hsd", p / p.sum(-1, keepdims=True), v.astype(float))


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_flash_attention(causal: bool) -> None:
    q, k, v = (normal(2, 70 + n, 64, kind=np.float16)[:, :70] for n in range(3))
    given = [*(np.ascontiguousarray(a) for a in (q, k, v)), np.zeros_like(q), 70, 70, 0.125]
    out = both("flash", (3, 2), given, D=64, BM=32, BN=32, CAUSAL=causal)[3]
    assert np.abs(out - attention(q, k, v, causal=causal)).max() < 3e-3


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
def test_grouped_product_with_work_behind_it(turned: bool) -> None:
    a, b = normal(70, 50, kind=np.float16), normal(50, 90, kind=np.float16)
    strides = (1, 50) if turned else (90, 1)
    given = [
        a,
        np.ascontiguousarray(b.T) if turned else b,
        np.zeros((70, 90), np.float16),
        70,
        90,
        50,
        50,
        1,
        *strides,
        90,
        1,
    ]
    out = both("grouped", 9, given, BM=32, BN=32, BK=16, G=2, ACT="leaky")[2]
    wanted = a.astype(float) @ b
    assert np.abs(out - np.where(wanted >= 0, wanted, 0.01 * wanted)).max() < 0.03


LANES: dict[int, tuple[Callable[[Any], Any], float]] = {
    0: (np.sin, 2e-7), 1: (np.cos, 2e-7), 2: (np.tanh, 3e-7), 3: (np.vectorize(math.erf), 5e-7), 4: (lambda x: (np.abs(x) + 0.5) ** 1.5, 1e-5),
    5: (np.arctan, 3e-7), 6: (lambda x: np.log1p(np.abs(x)), 3e-7), 7: (np.expm1, 1e-3), 12: (lambda x: np.arange(300) // 3 * 2 + np.arange(300) % 5, 0),
    13: (lambda x: x[np.arange(300) * 7 % 300], 0), 15: (np.tan, 1e-2), 16: (lambda x: np.arcsin(np.clip(x, -1, 1)), 3e-7), 17: (lambda x: np.arccos(np.clip(x, -1, 1)), 5e-7),
}  # fmt: skip


@pytest.mark.parametrize("which", range(18))
def test_functions_of_lanes(which: int) -> None:
    x = normal(300) * 3
    _, y, _ = both("trig", 3, [x, np.zeros_like(x), 300], emit=False, W=which, B=128)
    if which in LANES:
        oracle, error = LANES[which]
        assert np.abs(y - oracle(x.astype(float))).max() <= error
    elif which == 9:
        assert np.array_equal(y[:128], np.sort(x[:128]))
    elif which == 8:
        assert np.allclose(y[:128], np.cumsum(x[:128]), atol=1e-4)
    elif which == 11:
        assert 0 <= y.min() < 0.05 and 0.95 < y.max() < 1


@pytest.mark.slow
@pytest.mark.parametrize("which", range(18))
def test_functions_of_lanes_emitted(which: int) -> None:
    x = normal(300) * 3
    both("trig", 3, [x, np.zeros_like(x), 300], W=which, B=128)


def test_any_index_and_any_mask() -> None:
    ids, table = np.random.default_rng(0).integers(0, 50, 20).astype(np.int32), normal(50, 100)
    assert np.array_equal(
        both("embed", 3, [ids, table, np.zeros((20, 100), np.float32), 100], BD=128, R=8, n=20)[2], table[ids]
    )


@pytest.mark.slow
def test_more_programs() -> None:
    x, places = normal(300), np.random.default_rng(0).permutation(300).astype(np.int64)
    scattered = both("scatter", 3, [x, places, np.zeros_like(x), 300], B=128)[2]
    assert np.array_equal(scattered[places], x)
    rows = normal(5, 100)
    assert np.allclose(both("welford", 5, [rows, np.zeros(5, np.float32), 100], B=128)[1], rows.var(1), atol=1e-5)
    _, place, most, _ = both("argm", 5, [rows, np.zeros(5, np.int32), np.zeros(5, np.float32), 100], B=128)
    assert np.array_equal(place, rows.argmax(1)) and np.array_equal(most, rows.max(1))
    numbers = np.random.default_rng(0).integers(0, 10, 300).astype(np.int32)
    assert np.array_equal(
        both("hist", 3, [numbers, np.zeros(10, np.int32), 300], B=128)[1], np.bincount(numbers, minlength=10)
    )
    assert list(both("collatz", 8, [np.arange(1, 9).astype(np.int32), np.zeros(8, np.int32)], B=1)[1]) == [
        0,
        1,
        7,
        2,
        5,
        8,
        16,
        3,
    ]
    _, total, found, _ = both("slots", 3, [x, np.zeros(1, np.int32), np.zeros(3, np.int32), 300], B=128)
    assert total[0] == (x > 0).sum() and found[1] == (x[:128] > 0).sum()
    both("flags", 3, [numbers - 5, np.zeros(300, np.int64), 300], B=128)
    both("col", 2, [normal(50, 100, kind=np.float16), np.zeros(100, np.float32), 50, 100], BM=16, BN=64)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_block_pointers_and_a_transposition(kind: Any) -> None:
    x = normal(40, 70, kind=kind)
    assert np.array_equal(both("blockptr", 3, [x, np.zeros((70, 40), kind), 40, 70], BM=16, BN=32)[1], x.T * 2)


def test_which_functions_the_form_takes() -> None:
    kernel = tile.triton(PROGRAMS, "welford")
    found = kernel.lowered(x=tile.f32, y=tile.f32, B=128)
    assert isinstance(found, FormProgram) and "arena" in kernel.plan(x=tile.f32, y=tile.f32, B=128)


def test_the_form_is_printed_with_its_lines() -> None:
    text = tile.triton(PROGRAMS, "collatz").explain(x=tile.i32, y=tile.i32, B=1)
    assert text.startswith("form collatz(x: *int32, y: *int32)")
    assert "load" in text and "do while" in text and "store y[" in text and "  # " in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "launch"),
    [
        ("out, x, n, B: tl.constexpr):\n    o = tl.program_id(0) * B + tl.arange(0, B)\n    tl.store(out + o, tl.load(x + o, mask=o < n) * 2.0, mask=o < n)",
         "out=float32[n], x=float32[n], n=n, B=64, grid=cdiv(n, B)"),
        ("x, n, B: tl.constexpr):\n    o = tl.program_id(0) * B + tl.arange(0, B)\n    tl.store(x + o, tl.load(x + o, mask=o < n) * 2.0, mask=o < n)",
         "x=float32[n], n=n, B=64, grid=cdiv(n, B)"),
    ],
    ids=["an output before an input", "in place"],
)  # fmt: skip
def test_projects_in_any_order(body: str, launch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(f"import triton\nimport triton.language as tl\n\n@triton.jit\ndef scaled({body}\n")
    assert main(["new", "--from", f"{file}:scaled", str(tmp_path / "project"), "--launch", launch]) == 0
    assert main(["test", str(tmp_path / "project")]) == 0
    assert "2 passed" in capsys.readouterr().out
