"""Small models of the kinds that people have, with random weights.

Each factory returns (model, inputs, targets, criterion), seeded.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Case = tuple[nn.Module, Any, Any, Any]


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(batch, length, width)
        x = x + self.dropout(self.out(mixed))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm_2(x)))))


class GPT(nn.Module):
    """With the head tied to the embedding."""

    def __init__(
        self, layers: int = 2, width: int = 32, heads: int = 4, words: int = 50, length: int = 16, dropout: float = 0.1
    ):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return {"logits": self.head(self.norm(x))}


def next_word(output: dict[str, Tensor], targets: Tensor) -> Tensor:
    return F.cross_entropy(output["logits"].flatten(0, 1), targets.flatten())


def gpt(**sizes: Any) -> Case:
    torch.manual_seed(0)
    model = GPT(**sizes)
    length = model.places.weight.shape[0]
    tokens = torch.randint(0, 50, (2, length))
    return model, tokens, tokens.roll(-1, 1), next_word


def encoder() -> Case:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(16, 1))
    return model, torch.randn(3, 5, 16), torch.randn(3, 5, 1), nn.MSELoss()


class Residual(nn.Module):
    def __init__(self, wide: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(wide // stride, wide, 3, stride, 1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(wide), nn.BatchNorm2d(wide)
        self.second = nn.Conv2d(wide, wide, 3, 1, 1, bias=False)
        self.relu = nn.ReLU(inplace=True)  # one module, called twice
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(wide // stride, wide, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm_1(self.first(x)))
        y = self.norm_2(self.second(y))
        y += self.short(x)
        return self.relu(y)


def resnet() -> Case:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        Residual(8),
        Residual(16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )
    return model, torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,)), F.cross_entropy


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 12)
        self.lstm = nn.LSTM(12, 10, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(20, 4)

    def forward(self, tokens: Tensor) -> list[Tensor]:
        states, _ = self.lstm(self.words(tokens))
        return [self.tags(states), states]


def tagger() -> Case:
    torch.manual_seed(0)

    def loss(output: list[Tensor], tags: Tensor) -> Tensor:
        return F.cross_entropy(output[0].flatten(0, 1), tags.flatten())

    return Tagger(), torch.randint(0, 30, (3, 7)), torch.randint(0, 4, (3, 7)), loss


def bag() -> Case:
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(100, 8, mode="sum", sparse=True), nn.Linear(8, 1))
    return model, torch.tensor([[1, 2, 2], [2, 3, 1]]), torch.randn(2, 1), nn.MSELoss()


@dataclass
class VAEOutput:
    image: Tensor
    mean: Tensor
    log_variance: Tensor
    parts: tuple[Tensor, ...]


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(10, 6), nn.Linear(3, 10)

    def forward(self, x: Tensor) -> VAEOutput:
        mean, log_variance = self.encode(x).chunk(2, -1)
        hidden = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        return VAEOutput(self.decode(hidden), mean, log_variance, (hidden,))


def vae() -> Case:
    torch.manual_seed(0)

    def loss(output: VAEOutput, x: Tensor) -> Tensor:
        spread = 1 + output.log_variance - output.mean**2 - output.log_variance.exp()
        return F.mse_loss(output.image, x) - 0.5 * spread.mean()

    x = torch.randn(4, 10)
    return VAE(), x, x, loss


class Odd(nn.Module):
    """Frozen, unused, lazy, one-element, tied and complex parameters, a layer called twice, a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.unused = nn.Linear(4, 4)
        self.lazy = nn.LazyLinear(4)
        self.never = nn.LazyLinear(4)
        self.twice = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(()))
        self.alias = self.twice.weight
        self.wave = nn.Parameter(torch.randn(4, dtype=torch.complex64))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        self.seen += 1
        x = self.twice(self.twice(self.lazy(self.frozen(x))).tanh())
        x = (x * self.wave).abs() * self.scale
        return {"loss": F.mse_loss(x, y), "nested": [{"x": x}], "text": "odd"}


def odd() -> Case:
    torch.manual_seed(0)
    return Odd(), {"x": torch.randn(3, 4), "y": torch.randn(3, 4)}, None, None


class Checkpointed(nn.Module):
    """Counts how often each block runs."""

    def __init__(self, blocks: int = 3, on: bool = True) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(blocks))
        # In an object of its own: attributes of the module itself are put back.
        self.on, self.count = on, SimpleNamespace(runs=0)

    @property
    def runs(self) -> int:
        return self.count.runs

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:

            def run(x: Tensor, block: nn.Module = block) -> Tensor:
                self.count.runs += 1
                return block(x)

            x = checkpoint(run, x, use_reentrant=False) if self.on else run(x)
        return x


def checkpointed(on: bool = True) -> Case:
    torch.manual_seed(0)
    return Checkpointed(on=on), torch.randn(16, 8), torch.randn(16, 8), nn.MSELoss()


CASES = {f.__name__: f for f in (gpt, encoder, resnet, tagger, bag, vae, odd, checkpointed)}
