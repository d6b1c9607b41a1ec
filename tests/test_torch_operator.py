"""A project's operator as a PyTorch operator: values, shapes without data, gradients, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toprope import ops
from toprope.errors import BadArgument, BadInput

torch = pytest.importorskip("torch")
import toprope.torch  # noqa: E402

OPS = Path(ops.__file__).parent
EXAMPLE = Path(__file__).parents[1] / "examples" / "15_torch_operator" / "matmul.py"
_N = iter(range(1000))


def registered(name: str, **more: Any) -> Any:
    return toprope.torch.register(OPS / name, namespace=f"test{next(_N)}", **more)


@pytest.fixture(scope="module")
def add() -> Iterator[Any]:
    yield registered("add", backward=lambda g, x, y, alpha: (g, alpha * g))


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int32"])
def test_values_of_each_type(add: Any, kind: str) -> None:
    x, y = (torch.arange(600).reshape(20, 30).to(getattr(torch, kind)) % n for n in (7, 5))
    made = add(x, y, 2.0)
    assert made.dtype == x.dtype and torch.equal(made, x + 2 * y)


def test_strides_defaults_and_names(add: Any) -> None:
    x = torch.randn(40, 16).t()
    assert torch.allclose(add(x, x), 2 * x) and torch.allclose(add(x, x, alpha=-1.0), torch.zeros(16, 40))


def test_shapes_without_data_and_tracing(add: Any) -> None:
    x = torch.empty(3, 5, device="meta")
    assert add(x, x).shape == (3, 5) and add(x, x).device.type == "meta"
    traced = torch.compile(lambda a: add(a * 2, a).sum(), backend="eager", fullgraph=True)
    a = torch.randn(64)
    assert torch.allclose(traced(a), (3 * a).sum(), rtol=1e-4)
    torch.library.opcheck(add, (torch.randn(64), torch.randn(64)), test_utils=("test_schema", "test_faketensor"))


def test_gradients_by_the_hook(add: Any) -> None:
    x, y = (torch.randn(4, 8, requires_grad=True) for _ in range(2))
    add(x, y, 3.0).sum().backward()
    assert torch.equal(x.grad, torch.ones(4, 8)) and torch.equal(y.grad, torch.full((4, 8), 3.0))


def test_several_outputs() -> None:
    norm = registered("layer_norm")
    x, w, b = torch.randn(6, 64), torch.rand(64), torch.rand(64)
    made, mean, rstd = norm(x, w, b, 1e-5)
    assert torch.allclose(made, torch.nn.functional.layer_norm(x, (64,), w, b), atol=1e-5)
    assert torch.allclose(mean.flatten(), x.mean(1), atol=1e-6) and rstd.shape == mean.shape


def test_what_the_operator_refuses_arrives_as_its_error(add: Any) -> None:
    with pytest.raises(Exception, match=r"shape|type"):
        add(torch.randn(4), torch.randn(5))
    with pytest.raises(BadInput, match="no operator project"):
        toprope.torch.register(Path(__file__).parent)
    wrong = registered("add", backward=lambda g, x, y, alpha: g)
    with pytest.raises(BadArgument, match="1 gradients for 2 inputs"):
        wrong(torch.randn(4, requires_grad=True), torch.randn(4)).sum().backward()


def test_a_layer_trains_by_the_library_s_product() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    losses = [float(v) for v in done.stdout.splitlines()[0].split()[1:]]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] / 4
    assert float(done.stdout.splitlines()[1].split()[-1]) < 0.01
