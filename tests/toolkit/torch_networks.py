"""A residual network of convolutions and a small language model with rotary attention, on the CPU and on npu:0: run by test_torch.py."""

from __future__ import annotations

import sys

import torch
import torch_npu  # noqa: F401  (brings the device "npu")
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """Three convolutions beside a way around them."""

    def __init__(self, wide: int, narrow: int, stride: int = 1) -> None:
        super().__init__()
        out = 4 * narrow
        self.body = nn.Sequential(
            nn.Conv2d(wide, narrow, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(),
            nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(),
            nn.Conv2d(narrow, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        around = nn.Sequential(nn.Conv2d(wide, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.around = around if stride != 1 or wide != out else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.around(x))


class Residual(nn.Module):
    """The stack of ResNet-50 with `depths` blocks and `width` channels; (3, 4, 6, 3) and 64 are the original's."""

    def __init__(self, depths: tuple[int, ...] = (1, 1, 1, 1), width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, wide = [], width
        for n, depth in enumerate(depths):
            narrow = width << n
            for k in range(depth):
                blocks.append(Bottleneck(wide, narrow, 2 if n and not k else 1))
                wide = 4 * narrow
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(wide, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))


class Root(nn.Module):
    """Root mean square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Layer(nn.Module):
    """Attention with rotary positions and grouped keys, then a gated product."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.first, self.second = Root(width), Root(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor, kept: list[torch.Tensor], cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.first(x)
        q = self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = (m(y).view(batch, length, self.groups, self.size).transpose(1, 2) for m in (self.k, self.v))
        q, k = (t * cos + torch.cat((-t[..., self.size // 2 :], t[..., : self.size // 2]), -1) * sin for t in (q, k))
        if kept:
            k, v = torch.cat((kept[0], k), 2), torch.cat((kept[1], v), 2)
        kept[:] = k, v
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        scores = q @ k.transpose(-1, -2) / self.size**0.5
        if length > 1:
            scores = scores + torch.full((length, length), float("-inf"), device=x.device).triu(1)
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Language(nn.Module):
    """Tokens in, logits out; generates one token after the other with what it keeps of the keys and values."""

    def __init__(self, words: int = 64, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(words, width), nn.ModuleList(Layer(width, 4, 2) for _ in range(layers))
        self.last, self.head = Root(width), nn.Linear(width, words, bias=False)
        rates = 1e4 ** (-torch.arange(0, 8, 2) / 8)
        angles = torch.outer(torch.arange(64.0), rates).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids: torch.Tensor, kept: list[list[torch.Tensor]], at: int = 0) -> torch.Tensor:
        x = self.words(ids)
        part = slice(at, at + ids.shape[1])
        for layer, own in zip(self.layers, kept, strict=True):
            x = layer(x, own, self.cos[part], self.sin[part])
        return self.head(self.last(x))

    def generate(self, ids: torch.Tensor, count: int) -> list[int]:
        kept: list[list[torch.Tensor]] = [[] for _ in self.layers]
        made: list[int] = []
        step, at = ids, 0
        for _ in range(count):
            logits = self(step, kept, at)
            at += step.shape[1]
            step = logits[:, -1:].argmax(-1)
            made.append(int(step))
        return made


def residual(device: str, whole: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    network = Residual((3, 4, 6, 3), 64) if whole else Residual()
    network, x = network.to(device), torch.randn(1 if whole else 2, 3, 64, 64).to(device)
    with torch.no_grad():
        first = network.eval()(x).cpu()
    network.train()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    loss = F.cross_entropy(network(torch.cat((x, x.flip(3)))), torch.arange(2 * x.shape[0]).to(device))
    loss.backward()
    optimiser.step()
    return [
        first,
        loss.detach().cpu(),
        *(p.detach().cpu() for p in network.parameters()),
        *(b.cpu() for b in network.buffers()),
    ]


def language(device: str) -> tuple[list[int], list[torch.Tensor]]:
    torch.manual_seed(1)
    model = Language().to(device)
    ids = torch.randint(0, 64, (1, 8)).to(device)
    with torch.no_grad():
        made = model.generate(ids, 6)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    logits = model(ids[:, :-1], [[] for _ in model.layers])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return made, [loss.detach().cpu(), *(p.detach().cpu() for p in model.parameters())]


def farthest(here: list[torch.Tensor], there: list[torch.Tensor]) -> float:
    return max(
        ((a.double() - b.double()).abs().max() / (1 + a.double().abs().max())).item()
        for a, b in zip(here, there, strict=True)
    )


if __name__ == "__main__":
    if "language" in sys.argv:
        (made, here), (same, there) = language("cpu"), language("npu:0")
        print("generated", made == same, made)
        print("trained", farthest(here, there) < 1e-4)
    else:
        whole = "whole" in sys.argv
        print("residual", farthest(residual("cpu", whole), residual("npu:0", whole)) < (1e-2 if whole else 1e-3))
