"""A small model of InternVL's shape: a vision encoder, a projector that joins patches, a causal decoder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class SmallShape:
    """Sizes of the model and of one sample; elements."""

    hidden: int = 64
    heads: int = 4
    feed_forward: int = 128
    layers: int = 4
    encoder_layers: int = 2
    vocabulary: int = 256
    sequence: int = 32
    patches: int = 16
    joined: int = 4  # patches that become one token


class Layer(nn.Module):
    """A pre-norm transformer layer with its products named as tensor parallelism wants them."""

    def __init__(self, shape: SmallShape, *, causal: bool) -> None:
        super().__init__()
        h, self.causal, self.head_size = shape.hidden, causal, shape.hidden // shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.q, self.k, self.v = (nn.Linear(h, h, bias=False) for _ in range(3))
        self.o = nn.Linear(h, h, bias=False)
        self.gate, self.up = (nn.Linear(h, shape.feed_forward, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.feed_forward, h, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, hidden] to the same."""
        return self.feed(self.attend(x))

    def attend(self, x: Tensor) -> Tensor:
        """Attention and its residual; heads are counted from what is here, so that a share of them works too."""
        y = self.norm1(x)
        q, k, v = (f(y).unflatten(-1, (-1, self.head_size)).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return x + self.o(mixed.transpose(1, 2).flatten(2))

    def feed(self, x: Tensor) -> Tensor:
        """The feed-forward part and its residual."""
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class SmallVisionLanguage(nn.Module):
    """Images become tokens before the text; the loss is on the text."""

    def __init__(self, shape: SmallShape) -> None:
        super().__init__()
        self.shape = shape
        self.patch = nn.Linear(12, shape.hidden)
        self.encoder = nn.ModuleList(Layer(shape, causal=False) for _ in range(shape.encoder_layers))
        self.projector = nn.Linear(shape.hidden * shape.joined, shape.hidden)
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, causal=True) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def front(self, images: Tensor, text: Tensor) -> Tensor:
        """Tokens of images [batch, patches, 12] and text [batch, sequence], as the decoder's input."""
        x = self.patch(images)
        for layer in self.encoder:
            x = layer(x)
        seen = self.projector(x.unflatten(1, (-1, self.shape.joined)).flatten(2))
        return torch.cat([seen, self.embedding(text)], dim=1)

    def back(self, x: Tensor) -> Tensor:
        """Logits of the text's places."""
        logits: Tensor = self.head(self.norm(x[:, -self.shape.sequence :]))
        return logits

    def forward(self, images: Tensor, text: Tensor) -> Tensor:
        """Logits [batch, sequence, vocabulary]."""
        x = self.front(images, text)
        for layer in self.layers:
            x = layer(x)
        return self.back(x)


def make_model(shape: SmallShape) -> SmallVisionLanguage:
    """The same weights in every process."""
    torch.manual_seed(7)
    return SmallVisionLanguage(shape)


def samples(shape: SmallShape, batch: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Images, text and targets of a step: a learnable pattern, the same in every process."""
    made = torch.Generator().manual_seed(1000 + step)
    text = torch.randint(0, shape.vocabulary, (batch, 1), generator=made)
    text = (text + 3 * torch.arange(shape.sequence + 1)) % shape.vocabulary
    images = text[:, : shape.patches, None].float() / shape.vocabulary + 0.1 * torch.rand(
        (batch, shape.patches, 12), generator=made
    )
    return images, text[:, :-1], text[:, 1:]


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
