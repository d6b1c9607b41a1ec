"""Triton functions as programs: the emitted kernel equals level A bit for bit and NumPy within rounding; what is ignored is noted."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from toprope import tile
from toprope.cli import main
from toprope.errors import BadInput
from toprope.new.from_triton import triton_project_files
from toprope.tile import TileError
from toprope.tile.from_triton.module import remove_stand_in

PROGRAMS = Path(__file__).with_name("triton_programs.py")
EXAMPLE = Path(__file__).parents[2] / "examples" / "09_tile" / "triton_kernels.py"
GATHER = (
    "ids_ptr=int32[count] < rows, table_ptr=float16[rows, width], out_ptr=float16[count, width], count=count, width=width, "
    "stride=width, ROWS=16, COLUMNS=128, grid=(cdiv(count, ROWS), cdiv(width, COLUMNS))"
)
Arrays = list[np.ndarray[Any, Any]]


def both(kernel: Any, grid: Any, arrays: Arrays, *scalars: Any, **constants: Any) -> Arrays:
    """The arrays after level A; after the emitted kernel they hold the same bits, and it has no finding."""
    level_a, emitted = ([a.copy() for a in arrays] for _ in range(2))
    kernel[grid](*level_a, *scalars, **constants)
    run = kernel.run(grid, *emitted, *scalars, **constants)
    assert [a.tobytes() for a in level_a] == [a.tobytes() for a in emitted]
    assert [f.code for f in run.findings if f.severity != "advice"] == []
    assert 0 < run.timeline.microseconds < 100
    return level_a


def program(name: str) -> Any:
    """One of the functions beside this file."""
    return tile.triton(PROGRAMS, name)


def normal(*shape: int, kind: Any = np.float32) -> np.ndarray[Any, Any]:
    """Reproducible numbers."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32).astype(kind)


def test_loops_branches_and_helpers() -> None:
    rows, n = 11, 300
    x, w = normal(rows, n, kind=np.float16), normal(n)
    skip = np.where(np.arange(rows) == 4, -100, 1).astype(np.int32)
    kernel = program("norm_rows")
    arrays = [x, w, skip, np.full((rows, n), 7, np.float16), np.ones(rows, np.float32)]
    *_, y, rstd = both(kernel, 3, arrays, rows, n, 1e-5, BLOCK=128)
    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w
    wanted = scaled / (1 + np.exp(-scaled))
    wanted[4] = 0
    assert np.abs(y - wanted).max() < 5e-3 and rstd[4] == 0 and np.allclose(rstd[0], 1 / wide[0].std(), rtol=1e-4)
    assert [n.split(": ")[1] for n in kernel.notes] == ["eviction_policy='evict_last' of tl.load is ignored"]


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float64 row softmax."""
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


@pytest.mark.slow
def test_cross_entropy_in_place() -> None:
    x, labels = normal(6, 500), np.array([3, 499, -100, 0, 77, 128], np.int64)
    gradient, _, loss = both(program("cross_entropy"), 6, [x, labels, np.zeros(6, np.float32)], 500, 0.5, BLOCK=128)
    kept, p = labels >= 0, softmax(x)
    wanted = np.where(kept[:, None], (p - np.eye(500)[labels]) * 0.5, 0)
    assert np.abs(gradient - wanted).max() < 1e-6
    assert np.allclose(loss[kept], -np.log(p[kept, labels[kept]]), atol=1e-5) and loss[2] == 0


@pytest.mark.slow
def test_rotary_embeddings() -> None:
    q, angle = normal(10, 4, 64), normal(5, 32)
    got, *_ = both(program("rotate"), 10, [q, np.cos(angle), np.sin(angle)], 5, HEADS=4, WIDTH=64)
    cos, sin = (f(angle)[np.arange(10) % 5][:, None] for f in (np.cos, np.sin))
    a, b = q[..., :32], q[..., 32:]
    assert np.allclose(got, np.concatenate([a * cos - b * sin, b * cos + a * sin], -1), atol=1e-6)
    x, angle = normal(5, 60), normal(5, 30)
    arrays = [x, np.cos(angle), np.sin(angle), np.zeros_like(x)]
    *_, y = both(program("rotate_pairs"), 5, arrays, 30, BLOCK=32)
    assert np.allclose(y[:, 0::2], x[:, 0::2] * np.cos(angle) - x[:, 1::2] * np.sin(angle), atol=1e-6)
    assert np.allclose(y[:, 1::2], x[:, 0::2] * np.sin(angle) + x[:, 1::2] * np.cos(angle), atol=1e-6)


@pytest.mark.slow
def test_int8_and_argmax() -> None:
    x = normal(5, 300)
    x[2, [7, 90]] = 9
    arrays = [x, np.zeros((5, 300), np.int8), np.zeros(5, np.float32), np.zeros(5, np.int32)]
    _, q, scale, top = both(program("quantise"), 5, arrays, 300, BLOCK=512)
    assert np.allclose(scale, np.abs(x).max(1) / 127) and np.array_equal(top, x.argmax(1))
    assert np.abs(q - x / scale[:, None]).max() < 0.51


def mixed_arrays(n: int) -> Arrays:
    """float16, bfloat16, float32, int32, and room for the result."""
    whole = np.random.default_rng(n).integers(-5, 9, n).astype(np.int32)
    return [normal(n, kind=np.float16), normal(n, kind=ml_dtypes.bfloat16), normal(n), whole, np.zeros(n, np.float32)]


@pytest.mark.slow
def test_element_types_that_meet() -> None:
    arrays = mixed_arrays(300)
    *_, y = both(program("mixed"), 3, arrays, 300, 0.3, BLOCK=128)
    h, b, f, i = (a.astype(np.float64) for a in arrays[:4])
    wanted = (
        h * f
        + i * h
        + b * 2
        + h * b
        + i * 0.8
        + h / 3
        + i / 300
        + np.tanh(f)
        + np.where(i == 2, h, f)
        + (i > 3)
        + np.minimum(i, 4)
    )
    wanted = np.where((np.arange(300) >= 7) & (i != 1), wanted, -wanted)
    assert np.abs(y - wanted).max() < 0.05  # products of float16 with bfloat16 and int32 are float16


@pytest.mark.slow
def test_blocks_of_rows_and_columns() -> None:
    x = normal(21, 60)
    _, y = both(program("causal_softmax"), 6, [x, np.zeros_like(x)], 21, 60, 0.125, R=4, BLOCK=64)
    lower = np.where(np.arange(21)[:, None] >= np.arange(60), x * 0.125, -np.inf)
    assert np.abs(y - softmax(lower)).max() < 1e-6
    x = normal(50, 300)
    _, sums = both(program("column_sums"), 3, [x, np.zeros(300, np.float32)], 50, 300, R=16, C=128)
    assert np.allclose(sums, x.sum(0), atol=1e-4)


@pytest.mark.slow
def test_grouped_order_and_autotune() -> None:
    m, n, k = 200, 130, 70
    a, b = normal(m, k, kind=np.float16), normal(k, n, kind=np.float16)
    kernel, scalars = program("grouped_matmul"), (m, n, k, k, 1, n, 1, n, 1)

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (-(-m // meta["BM"]) * -(-n // meta["BN"]),)

    *_, c = both(kernel, grid, [a, b, np.zeros((m, n), np.float16)], *scalars)
    assert np.abs(c - a.astype(np.float64) @ b).max() < 0.05
    found = kernel.search(grid, a, b, np.zeros((m, n), np.float16), *scalars)
    timed = [f.microseconds for f in found if f.microseconds is not None]
    assert len(timed) == 2 and timed == sorted(timed) and kernel.best(grid, a, b, c, *scalars) == found[0].sizes
    assert found[-1].sizes["BM"] == 8192 and "does not fit" in found[-1].reason
    more, sizes = np.zeros((m, n), np.float16), {"BM": 32, "BN": 64, "BK": 32, "GROUP": 2}
    kernel.run(28, a, b, more, *scalars, **sizes)  # 21 tiles: other grids run as they are written
    assert np.abs(more - a.astype(np.float64) @ b).max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "scalars", "grid"),
    [
        pytest.param("""
    p, o = tl.program_id(0), tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n, other=0.0)
    if tl.load(i + p) > 0:
        tl.store(y + o, -1.0, mask=o < n)
        return
    tl.store(y + o, v * 2, mask=o < n)""", (300,), 5, id="a return while a loaded block is held"),
        pytest.param("""
    o = tl.arange(0, B)
    a, b, j, k = tl.load(x + o), tl.load(x + B + o), 1, 2
    for t in range(n):
        a, b = b, a + b
        j, k = k, j + k
    tl.store(y + o, a * j + b * k)""", (5,), 1, id="variables that trade values"),
        pytest.param("""
    o, total, p = tl.arange(0, B), tl.zeros((B,), tl.float32), x + tl.arange(0, B)
    for t in range(3):
        q, part = p, tl.zeros((B,), tl.float32)
        for j in range(0, n, B):
            part += tl.load(q, mask=j + o < n, other=0.0)
            q += B
        total = total * 0.5 + part
        p += n
    tl.store(y + o, total)""", (100,), 1, id="loops in loops, pointers that move"),
        pytest.param("""
    p, o = tl.program_id(0), tl.arange(0, B)
    if p % 2 == 0:
        v, s = tl.load(x + o) * 2, p + 1
    else:
        v, s = tl.load(x + o) - 1.0, 7
    tl.store(y + p * B + o, v * s)""", (4,), 4, id="names that begin in both branches"),
        pytest.param("""
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + o) * 2)
    for t in range(n):
        tl.store(y + o, tl.load(y + o) + 1)
    tl.store(y + B + o, tl.load(y + o) * 3)""", (3,), 1, id="what was stored is loaded again"),
        pytest.param("""
    o, g, h = tl.arange(0, B), 0.1 * n + 1e-3 / 3 - 1.5, (n * 7 - 3) // 2 % 5
    v, t = tl.load(x + o), tl.load(x + h)
    if g > 2.0 and h != 100:
        v = v * g
    if t > 0:
        v += t
    tl.store(y + o, tl.where(g > 1e9, v, v + h) * tl.exp(g * 0.01))
    tl.store(y + B, g)""", (64,), 1, id="numbers on the scalar unit"),
        pytest.param("""
    o = tl.arange(0, B)
    v = tl.load(i + o, mask=o < n, other=0)
    w = tl.maximum(tl.where(v > 3, v * 2, v - 1), o) + tl.where((o < 5) | (o >= 20), v, 7)
    tl.store(y + o, w, mask=o < n)
    tl.atomic_add(y + B, tl.sum(w))
    tl.store(y + B + 1, tl.min(v))""", (50,), 1, id="whole numbers"),
        pytest.param("""
    r, c = tl.program_id(0) * 4 + tl.arange(0, 4), tl.arange(0, B)
    j = tl.load(i + r)
    e = tl.load(x + j[:, None] * 4 + c[None, :], mask=c[None, :] < n, other=0.0)
    q = tl.load(x + j)
    for t in range(2):
        e = e * q[:, None]
    tl.store(y + j[:, None] * B + c[None, :], e, mask=c[None, :] < n)""", (50,), 2, id="rows and elements by index"),
    ],
)  # fmt: skip
def test_shapes_of_programs(body: str, scalars: tuple[int, ...], grid: int) -> None:
    kernel = tile.triton(f"import triton.language as tl\ndef k(x, i, y, n, B: tl.constexpr):{body}\n")
    x, y = normal(1000), np.zeros(1000, np.float32)
    index = np.arange(0, 64).astype(np.int32)[::-1] % 12 - 2
    index[:8] = (3, 0, 11, 5, 7, 1, 2, 9)
    *_, y = both(kernel, grid, [x, np.ascontiguousarray(index, np.int32), y], *scalars, B=64)
    assert np.isfinite(y).all() and np.count_nonzero(y) > 16


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "columns"), [(np.float32, 8), (np.float16, 4), (np.int8, 16)])
def test_narrow_blocks(kind: Any, columns: int) -> None:
    kernel = tile.triton("""
import triton.language as tl
def k(x, y, m, n, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, C)
    mask = (r[:, None] < m) & (c[None, :] < n)
    v = tl.load(x + r[:, None] * n + c[None, :], mask=mask, other=0).to(tl.float32) * 2
    tl.store(y + r[:, None] * n + c[None, :], v.to(y.dtype.element_ty), mask=mask)
""")
    x = (normal(21, columns - 1) * 5).astype(kind)
    _, y = both(kernel, 6, [x, np.zeros_like(x)], 21, columns - 1, R=4, C=columns)
    assert np.array_equal(y, x * 2)


@pytest.mark.parametrize(
    ("expression", "oracle"),
    [
        ("tl.exp2(x)", np.exp2), ("tl.log2(tl.abs(x) + 1)", lambda x: np.log2(np.abs(x) + 1)), ("tl.sigmoid(x)", lambda x: 1 / (1 + np.exp(-x))),
        ("tl.math.tanh(x)", np.tanh), ("tl.erf(x)", lambda x: np.vectorize(__import__("math").erf)(x)), ("tl.floor(x)", np.floor),
        ("tl.ceil(x)", np.ceil), ("tl.sqrt(tl.abs(x))", lambda x: np.sqrt(np.abs(x))), ("tl.fma(x, x, 2.0)", lambda x: x * x + 2),
        ("tl.clamp(x, -0.5, 0.5)", lambda x: np.clip(x, -0.5, 0.5)), ("tl.softmax(x)", lambda x: np.exp(x) / np.exp(x).sum()),
        ("x.to(tl.int32).to(tl.float32)", np.trunc), ("tl.where(~(x > 0), -x, x)", np.abs), ("tl.maximum(x, -x) * 2", lambda x: np.abs(x) * 2),
        ("(1 - x) / 2 - 1 / (x + 9)", lambda x: (1 - x) / 2 - 1 / (x + 9)), ("x * (n // 3 % 5)", lambda x: x * (64 // 3 % 5)),
        ("tl.full([BLOCK], 2.5, tl.float32) + x", lambda x: x + 2.5), ("tl.cast(offs, tl.float32) * 2 + x", lambda x: np.arange(64) * 2 + x),
        ("tl.float32(n) + x", lambda x: x + 64), ("x + min(n, 8) + max(n, 8)", lambda x: x + 72), ("tl.sum(x, keep_dims=True) + x", lambda x: x + x.sum()),
    ],
)  # fmt: skip
def test_words_on_numpy(expression: str, oracle: Callable[[Any], Any]) -> None:
    text = f"""
def k(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, {expression})
"""
    x, y = normal(64), np.zeros(64, np.float32)
    kernel = tile.triton(text)
    kernel[1](x, y, 64, BLOCK=64)
    assert np.allclose(y, oracle(x.astype(np.float64)), atol=2e-6, rtol=2e-6)
    assert "StoreRows" in kernel.as_program(x_ptr=tile.f32, y_ptr=tile.f32, BLOCK=64).text(line_directives=False)


def test_promotion_follows_triton() -> None:
    text = "def k(a, b, y, B: tl.constexpr):\n    o = tl.arange(0, B)\n    tl.store(y + o, tl.load(a + o) {} tl.load(b + o))\n"

    def computed_in(a: Any, b: Any, sign: str) -> str:
        source = tile.triton(text.format(sign)).as_program(a=a, b=b, y=tile.f32, B=64).text(line_directives=False)
        call = {"+": "Add(", "/": "Div("}[sign]
        name = source.partition(call)[2].partition(",")[0]
        return source.partition(f"> {name} = ")[0].rpartition("<")[2]

    half, brain, single, whole = tile.f16, tile.bf16, tile.f32, tile.i32
    assert [computed_in(half, other, "+") for other in (half, brain, single, whole)] == [
        "half",
        "half",
        "float",
        "half",
    ]
    assert [computed_in(whole, other, "+") for other in (whole, single)] == ["int32_t", "float"]
    assert [computed_in(a, b, "/") for a, b in ((half, half), (whole, whole), (half, whole))] == ["float"] * 3


def test_values_share_their_bytes() -> None:
    given = dict.fromkeys(("x_ptr", "y_ptr"), tile.f16) | {
        "w_ptr": tile.f32,
        "rstd_ptr": tile.f32,
        "skip_ptr": tile.i32,
    }
    plan = program("norm_rows").plan(**given, eps=float, BLOCK=1024)
    arena = next(int(line.split()[-2]) for line in plan.splitlines() if line.strip().startswith("arena"))
    assert (
        arena <= 4 * 4096
        and "squares" in plan
        and program("norm_rows").form(**given, eps=float, BLOCK=1024) == "program"
    )


@pytest.fixture
def stand_in() -> Iterator[None]:
    """Modules called triton, for one test."""
    if importlib.util.find_spec("triton") is not None:
        pytest.skip("triton is installed")
    tile.stand_in_triton()
    yield
    sys.modules.pop("loaded_programs", None)
    remove_stand_in()


def test_files_that_import_triton_load_unchanged(stand_in: None) -> None:
    spec = importlib.util.spec_from_file_location("loaded_programs", PROGRAMS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = normal(50, 300)
    sums = np.zeros(300, np.float32)
    module.column_sums[lambda meta: (-(-300 // meta["C"]),)](x, sums, 50, 300, R=16, C=128, num_warps=4)
    assert np.allclose(sums, x.sum(0), atol=1e-4)
    assert module.column_sums.kernel.notes == ["column_sums: num_warps=4 is ignored: it steers a GPU's compiler"]
    with pytest.raises(TileError, match="outside a kernel"):
        module.tl.sum(x)


@pytest.mark.torch
def test_torch_tensors_of_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.randn(50, 300, dtype=torch.bfloat16), torch.zeros(300)
    program("column_sums")[3](x, y, 50, 300, R=16, C=128)
    assert torch.allclose(y, x.float().sum(0), atol=1e-3)


def test_a_project_of_a_triton_function_needs_its_launch(capsys: pytest.CaptureFixture[str]) -> None:
    name, files = triton_project_files(f"{EXAMPLE}:gather_kernel", GATHER, ("ascend910b",))
    assert (
        name == "gather_kernel"
        and "tiling->grid1 = ((width + COLUMNS - 1) / COLUMNS);" in files["op_host/gather_kernel.cpp"]
    )
    assert (
        "low = 0, high = 76" in files["cases.toml"]
        and "_kernel[(cdiv(count, 16), cdiv(width, 128),)]" in files["golden.py"]
    )
    with pytest.raises(BadInput, match="its launch is not known"):
        triton_project_files(f"{EXAMPLE}:gather_kernel", "", ("ascend910b",))
    with pytest.raises(BadInput, match="dimension rows is in no input"):
        triton_project_files(f"{EXAMPLE}:softmax_kernel", "out_ptr=float32[rows, n], in_ptr=float32[n], in_stride=n, out_stride=n, columns=n, BLOCK=64, grid=rows", ("ascend910b",))  # fmt: skip


@pytest.mark.slow
def test_the_project_passes_its_own_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "gather"
    assert main(["new", "--from", f"{EXAMPLE}:gather_kernel", str(folder), "--launch", GATHER]) == 0
    assert main(["test", str(folder)]) == 0
    assert "2 passed" in capsys.readouterr().out
