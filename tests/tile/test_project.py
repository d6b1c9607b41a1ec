"""What a kernel becomes: an operator project, a PyTorch operator, a table of tile sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope
from tests.tile import arithmetic
from tests.tile.test_kernels import EXAMPLE, KERNELS
from toprope import tile
from toprope.new.files import DEFAULT_UNITS, write_project
from toprope.new.from_tile import tile_project_files


def test_project_kernel_gives_the_same_bits(tmp_path: Path) -> None:
    files = tile.project_files(KERNELS.rms_norm)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert sorted(files) == ["op_host/rms_norm.cpp", "op_kernel/rms_norm.cpp", "op_kernel/rms_norm_tiling.h"]
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((5, 77)).astype(np.float16), rng.standard_normal(77).astype(np.float16)
    level_a, out = np.zeros_like(x), np.zeros_like(x)
    KERNELS.rms_norm(x, g, level_a)
    kernel = toprope.load(tmp_path / "op_kernel/rms_norm.cpp").rms_norm
    tiling = KERNELS.rms_norm.tiling({"M": 5, "N": 77}, blocks=1)
    assert tiling == {"M": 5, "N": 77, "number0": float(np.float32(1) / np.float32(77)), "rTile": 5, "buffers": 2}
    run = kernel[1](x, g, out, None, tiling)
    assert out.tobytes() == level_a.tobytes()
    assert [f.code for f in run.findings if f.severity == "error"] == []


def test_host_file_cuts_the_launch_and_names_shapes_and_types() -> None:
    host = tile.project_files(KERNELS.rms_norm)["op_host/rms_norm.cpp"]
    assert "tiling->N = static_cast<uint32_t>(context->GetInputShape(0)->GetStorageShape().GetDim(1));" in host
    assert "tiling->number0 = 1.0f / static_cast<float>(static_cast<double>(tiling->N));" in host
    assert "const uint32_t tasks = ((tiling->M + tiling->rTile - 1) / tiling->rTile);" in host
    assert "SetBlockDim(std::max(1u, std::min(tasks, platform.GetCoreNumAiv())))" in host
    fixed = tile.project_files(KERNELS.rms_norm, R=8)["op_host/rms_norm.cpp"]
    assert "const uint32_t tasks = ((tiling->M + 7) / 8);" in fixed and "tiling->buffers = " in fixed
    assert "out0->SetDim(1, context->GetInputShape(0)->GetDim(1));" in host
    assert "class RmsNorm : public OpDef" in host and "OP_ADD(RmsNorm);" in host and "ge::DT_FLOAT16" in host
    product = tile.project_files(KERNELS.matmul)
    assert (
        "GetCoreNumAic()" in product["op_host/matmul.cpp"]
        and "GM_ADDR workspace, GM_ADDR tiling" in product["op_kernel/matmul.cpp"]
    )


def test_tiles_of_a_product_share_it_evenly_unless_the_caller_gives_them() -> None:
    dims = {"M": 512, "N": 512, "K": 4096}  # 8 tiles of 128 x 256, and 24 cores
    chosen = KERNELS.matmul.tiling(dims)
    assert (chosen["iTile"], chosen["jTile"]) == (96, 128)
    assert set(KERNELS.matmul.tiling(dims, BM=128, BN=256)) == {*dims, "bandRows"}
    whole = KERNELS.matmul.tiling({"M": 4096, "N": 4096, "K": 1024})
    assert (whole["iTile"], whole["jTile"]) == (128, 256)


@pytest.mark.slow
def test_the_host_code_chooses_tiles_of_a_product_as_the_python_side_does(tmp_path: Path) -> None:
    write_project(tile_project_files(EXAMPLE, KERNELS.matmul, DEFAULT_UNITS), tmp_path / "matmul")
    operator, rng = toprope.load_project(tmp_path / "matmul"), np.random.default_rng(0)
    for m, n, k in ((512, 512, 256), (1000, 1002, 101), (1, 700, 64), (300, 33, 40), (640, 1536, 64)):
        a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
        level_a = np.zeros((m, n), np.float32)
        KERNELS.matmul(a, b, level_a)
        out, told = operator(a, b), KERNELS.matmul.tiling({"M": m, "N": n, "K": k})
        fields = out.call.tiling.fields
        assert np.array_equal(out, level_a)
        assert (fields["iTile"], fields["jTile"]) == (told["iTile"], told["jTile"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear_gelu", "ln_gemm"])
def test_a_staged_kernel_runs_through_its_own_host_code(tmp_path: Path, name: str) -> None:
    kernel = getattr(KERNELS, name)
    write_project(tile_project_files(EXAMPLE, kernel, DEFAULT_UNITS), tmp_path / name)
    sizes, rng = {"M": 70, "K": 100, "N": 270}, np.random.default_rng(0)
    inputs, level_a = [], np.zeros((70, 270), np.float16)
    for p in kernel.params.values():
        if not p.written:
            inputs.append(rng.standard_normal([sizes[d.name] for d in p.dims]).astype(p.dtype.numpy))
    kernel(*inputs, level_a)
    out = toprope.load_project(tmp_path / name)(*inputs)
    assert np.array_equal(out, level_a) and not [f for f in out.findings if f.severity == "error"]
    assert out.call.tiling.workspace_bytes >= (70 * 270 * 4 if name == "linear_gelu" else 70 * 100 * 2)


def test_arrays_that_atomics_add_to_start_at_zero() -> None:
    host = tile.project_files(arithmetic.rows)["op_host/rows.cpp"]
    line = next(line for line in host.splitlines() if 'Output("s")' in line)
    assert line.endswith(".InitValue(0);")
    assert ".InitValue" not in next(line for line in host.splitlines() if 'Output("y")' in line)


def test_every_candidate_has_a_time_or_a_reason() -> None:
    found = tile.search(KERNELS.add, {"N": 100_000}, most=2)
    assert len(found) == 5
    timed = [c for c in found if c.microseconds is not None]
    assert found[:2] == timed and timed[0].microseconds <= timed[1].microseconds
    reasons = {c.sizes["T"]: c.reason for c in found[2:]}
    assert "ub needs 393216 of 196608" in reasons[16384]
    assert all(reasons.values())


@pytest.mark.torch
def test_torch_operator() -> None:
    torch = pytest.importorskip("torch")
    operator = tile.torch_op("toprope_tile_test::softmax", KERNELS.softmax)
    x = torch.randn(5, 40)
    assert torch.allclose(operator(x), torch.softmax(x, 1), atol=1e-6)
    assert operator(torch.empty(5, 40, device="meta")).shape == (5, 40)
    two = tile.torch_op("toprope_tile_test::convert", arithmetic.convert)
    a, b = two(torch.ones(9), torch.ones(9, dtype=torch.bfloat16))
    assert a.dtype == torch.int32 and a[0] == 3000 and b[0] == 2


@pytest.mark.slow
def test_the_host_code_chooses_sizes_as_the_python_side_does(tmp_path: Path) -> None:
    write_project(tile_project_files(EXAMPLE, KERNELS.softmax, DEFAULT_UNITS), tmp_path / "softmax")
    operator = toprope.load_project(tmp_path / "softmax")
    for m, n in ((1001, 1003), (3000, 40), (5, 9000), (3, 15000), (7, 30000)):
        x = np.random.default_rng(n).standard_normal((m, n), dtype=np.float32)
        level_a, emitted = np.zeros_like(x), np.zeros_like(x)
        KERNELS.softmax(x, level_a)
        KERNELS.softmax.run(x, emitted)
        out = operator(x)
        assert np.array_equal(out, level_a) and np.array_equal(emitted, level_a)
        assert out.call.tiling.fields == KERNELS.softmax.tiling({"M": m, "N": n})


@pytest.mark.slow
def test_several_stages_have_places_of_their_own_in_workspace(tmp_path: Path) -> None:
    write_project(tile_project_files(EXAMPLE, KERNELS.attention, DEFAULT_UNITS), tmp_path / "attention")
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, 48)).astype(np.float16) for n in (150, 300, 300))
    level_a = np.zeros_like(q)
    KERNELS.attention(q, k, v, level_a)
    out = toprope.load_project(tmp_path / "attention")(q, k, v)
    assert np.array_equal(out, level_a) and not [f for f in out.findings if f.severity == "error"]
    assert out.call.tiling.workspace_bytes >= 150 * 300 * (4 + 2)
