"""An operator project as a PyTorch operator, with its gradient: the library's matrix product trains one layer.

python examples/15_torch_operator/matmul.py                      on the CPU, the kernel on the software NPU
toprope exec -- python examples/15_torch_operator/matmul.py npu  on npu:0, with torch_npu installed
"""

import sys
from pathlib import Path

import torch

import toprope
import toprope.torch


def slopes(g, a, b):
    """Gradients of a @ b: two more products by the same operator."""
    return matmul(g, b.t().contiguous()), matmul(a.t().contiguous(), g)


project = Path(toprope.__file__).parent / "ops" / "matmul"
matmul = toprope.torch.register(project, "Matmul", backward=slopes)


def main(device: str) -> None:
    torch.manual_seed(0)
    x, target = torch.randn(32, 64).half().to(device), torch.randn(32, 48).half().to(device)
    weight = (torch.randn(64, 48) / 8).half().to(device).requires_grad_()
    losses = []
    for _ in range(4):
        loss = ((matmul(x, weight) - target).float() ** 2).mean()
        (slope,) = torch.autograd.grad(loss, weight)
        weight = (weight - 8 * slope).detach().requires_grad_()
        losses.append(loss.item())
    print("losses", *(f"{v:.4f}" for v in losses))
    plain = x.detach().cpu().float() @ weight.detach().cpu().float()
    print("largest difference to torch", f"{(matmul(x, weight).detach().cpu().float() - plain).abs().max():.4f}")


if __name__ == "__main__":
    if "npu" in sys.argv:
        import torch_npu  # noqa: F401  (brings the device "npu")
    main("npu:0" if "npu" in sys.argv else "cpu")
