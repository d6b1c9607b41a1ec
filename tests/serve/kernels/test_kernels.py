"""Matrix product, norm and gate: right, and independent of the number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from toprope.serve.kernels import choose_kernels  # noqa: E402
from toprope.serve.kernels.choose_kernels import load_kernels  # noqa: E402
from toprope.serve.kernels.compiled_kernels import CompiledKernels  # noqa: E402
from toprope.serve.kernels.torch_kernels import TorchKernels  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.compiler]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-6}


def random(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "inner", "outer"), [(1, 16, 1), (7, 64, 33), (12, 48, 32), (31, 96, 100)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_linear(dtype: Any, rows: int, inner: int, outer: int, has_bias: bool) -> None:
    x, weight = random(rows, inner, dtype=dtype), random(outer, inner, dtype=dtype, seed=1)
    bias = random(outer, dtype=dtype, seed=2) if has_bias else None
    kernels = CompiledKernels(dtype)
    out = torch.full((rows, outer), float("nan"), dtype=dtype)
    kernels.linear(x, kernels.pack(weight, bias), out)
    expected = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    torch.testing.assert_close(out.double(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * inner**0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_float32_and_embeddings_exact(dtype: Any) -> None:
    kernels, table = CompiledKernels(dtype), random(50, 32, dtype=dtype)
    packed, out, logits = kernels.pack(table), torch.empty((3, 32), dtype=dtype), torch.empty((3, 50))
    kernels.embed(packed, torch.tensor([49, 0, 33]), out)
    assert torch.equal(out, table[[49, 0, 33]])
    kernels.logits(out, packed, logits)
    torch.testing.assert_close(logits.double(), out.double() @ table.double().T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_the_same_bits_among_any_rows(dtype: Any) -> None:
    kernels = CompiledKernels(dtype)
    weight, norm = kernels.pack(random(70, 64, dtype=dtype, seed=1)), random(64, dtype=dtype, seed=3)
    x = random(40, 64, dtype=dtype)

    def all_three(rows: Any) -> list[Any]:
        outs = [torch.empty((len(rows), width), dtype=dtype) for width in (70, 64, 32)]
        kernels.linear(rows, weight, outs[0])
        kernels.rms_norm(rows, None, norm, outs[1], 1e-5)
        kernels.gated(rows, outs[2])
        return outs

    together = all_three(x)
    for first, last in ((0, 1), (3, 4), (5, 18), (39, 40), (1, 40)):
        for alone, among in zip(all_three(x[first:last].contiguous()), together, strict=True):
            assert torch.equal(alone, among[first:last])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm_and_gate_equal_torch(dtype: Any) -> None:
    results = []
    for kernels in (CompiledKernels(dtype), TorchKernels(dtype)):
        residual, normed, gated = (
            random(20, 64, dtype=dtype),
            torch.empty((20, 64), dtype=dtype),
            torch.empty((20, 16), dtype=dtype),
        )
        kernels.rms_norm(random(20, 64, dtype=dtype, seed=1), residual, random(64, dtype=dtype, seed=2), normed, 1e-5)
        kernels.gated(20 * random(20, 32, dtype=dtype, seed=4), gated)
        results.append((residual, normed, gated))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_gate_of_extreme_values() -> None:
    x = torch.tensor([[-200.0, 200.0, 0.0, -88.0] * 4 + [1.0] * 16])
    out = torch.empty((1, 16))
    CompiledKernels(torch.float32).gated(x, out)
    torch.testing.assert_close(out[0, :4], torch.tensor([0.0, 200.0, 0.0, 0.0]), rtol=1e-6, atol=1e-35)


def test_choice_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    from toprope.errors import NoCompiler
    from toprope.serve.kernels import compiled_kernels

    assert load_kernels(torch.float32).name == "compiled"
    assert load_kernels(torch.float32, "torch").name == "torch"
    with pytest.raises(ValueError, match="auto, compiled or torch"):
        load_kernels(torch.float32, "cuda")
    with pytest.raises(ValueError, match="float16"):
        load_kernels(torch.float16)

    def missing() -> None:
        raise NoCompiler("this machine has no C++ compiler")

    monkeypatch.setattr(compiled_kernels, "load_library", missing)
    assert load_kernels(torch.float32).name == "torch"
    with pytest.raises(NoCompiler):
        load_kernels(torch.float32, "compiled")


def test_auto_measures_once_and_takes_torch_only_where_it_is_much_faster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    seconds = {"compiled": 1.4, "torch": 1.0}

    def pretend(kernels: Any, shape: tuple[int, int]) -> float:
        asked.append(kernels.name)
        return seconds[kernels.name]

    library = choose_kernels.library_path()
    monkeypatch.setattr(choose_kernels, "library_path", lambda: library)
    monkeypatch.setattr(choose_kernels, "request_s", pretend)
    monkeypatch.setenv("TOPROPE_CACHE", str(tmp_path))
    assert load_kernels(torch.float32, "auto", (64, 96)).name == "compiled"
    assert asked == ["compiled", "torch"] and capsys.readouterr().err == ""
    seconds["compiled"] = 1.6
    assert load_kernels(torch.float32, "auto", (64, 96)).name == "compiled"  # as measured before
    assert len(asked) == 2
    assert load_kernels(torch.float32, "auto", (64, 128)).name == "torch"
    assert "not batch-invariant" in capsys.readouterr().err
    assert load_kernels(torch.float32, "compiled", (64, 128)).name == "compiled" and len(asked) == 4


def test_the_measurement_is_of_products() -> None:
    assert 0 < choose_kernels.request_s(CompiledKernels(torch.float32), (64, 96)) < 5
