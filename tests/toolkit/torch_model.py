"""A transformer block on the CPU and on npu:0, forward and three steps of training: run by test_torch.py under `toprope exec`."""

import torch
import torch_npu  # noqa: F401  (brings the device "npu")


class Block(torch.nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).split(width, 2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        weights = (q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x)), approximate="tanh"))


def trained(device: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
    torch.manual_seed(0)
    model, x = Block().to(device), torch.randn(2, 8, 32).to(device)
    first = model(x).detach().cpu()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimiser.zero_grad()
        (model(x) ** 2).mean().backward()
        optimiser.step()
    return first, [p.detach().cpu() for p in model.parameters()]


if __name__ == "__main__":
    torch.manual_seed(0)
    (one, here), (other, there) = trained("cpu"), trained("npu:0")
    print("forward", (one - other).abs().max().item() < 1e-5)
    print("trained", max((a - b).abs().max().item() for a, b in zip(here, there, strict=True)) < 1e-4)
