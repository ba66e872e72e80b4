"""Models: what is measured, small enough for a laptop, seeded, with random weights and data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WORDS = 256  # entries of the vocabulary


class Loss(nn.Module):
    """A mean over the batch, negated if asked; curvlinops reads `reduction`."""

    reduction = "mean"

    def __init__(self, kind: str, sign: float = 1.0) -> None:
        super().__init__()
        self.kind, self.sign = kind, sign

    def forward(self, output: Tensor, targets: Tensor) -> Tensor:
        if self.kind == "words":  # output (B, T, words), targets (B, T)
            return F.cross_entropy(output.flatten(0, 1), targets.flatten())
        if self.kind == "classes":  # output (B, classes), targets (B,)
            return F.cross_entropy(output, targets)
        if self.kind == "squares":  # output, targets (B, D)
            return self.sign * F.mse_loss(output, targets)
        return 0.5 * (targets * output**2).sum()  # "quadratic": output, targets (1, D)


@dataclass(frozen=True)
class Case:
    """A model in eval mode, which none of them tells from train mode, and one batch."""

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    criterion: Loss

    @property
    def parameters(self) -> list[Tensor]:
        return list(self.model.parameters())

    def loss(self) -> Tensor:
        found: Tensor = self.criterion(self.model(self.inputs), self.targets)
        return found

    def gradient(self) -> tuple[Tensor, ...]:
        return torch.autograd.grad(self.loss(), self.parameters)

    def random_like(self, seed: int) -> list[Tensor]:
        draws = torch.Generator().manual_seed(seed)
        return [torch.randn(p.shape, generator=draws) for p in self.parameters]


class Block(nn.Module):
    """Attention and a feed-forward part, norms first: 12 parameter tensors. x: (B, T, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        found: Tensor = x + self.down(F.gelu(self.up(self.norm_2(x))))
        return found


class GPT(nn.Module):
    """With the head tied to the embedding: 12 · layers + 4 parameter tensors."""

    def __init__(self, layers: int, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, WORDS, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        found: Tensor = self.head(self.norm(self.blocks(x)))
        return found


class Coordinates(nn.Module):
    """Returns its D parameters as a row (1, D), whatever the input."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.ones(count))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.theta.unsqueeze(0) + 0 * inputs


def gpt(layers: int = 4, width: int = 128, heads: int = 4, batch: int = 4, length: int = 64) -> Case:
    torch.manual_seed(0)
    tokens = torch.randint(0, WORDS, (batch, length))
    return Case(GPT(layers, width, heads, length).eval(), tokens, tokens.roll(-1, 1), Loss("words"))


def gpt_deep() -> Case:
    """24 layers of 12 tensors, and 4: so many small tensors that the bookkeeping counts."""
    return gpt(layers=24, width=64, batch=4, length=32)


def mlp() -> Case:
    torch.manual_seed(0)
    widths = 784, 256, 256, 10
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers[:-1]).eval()
    return Case(model, torch.randn(128, 784), torch.randint(0, 10, (128,)), Loss("classes"))


def cnn() -> Case:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, 10)).eval()
    return Case(model, torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,)), Loss("classes"))


def trained(case: Case, steps: int = 50) -> Case:
    """The same model after some steps of AdamW on its batch: its largest eigenvalue then stands apart from the rest."""
    optimizer = torch.optim.AdamW(case.parameters, lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        case.loss().backward()
        optimizer.step()
    optimizer.zero_grad()
    return case


def bowl_upside_down() -> Case:
    """A tanh MLP and minus its squared error: most of the large eigenvalues are negative, some are not."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)).eval()
    return Case(model, torch.randn(64, 16), torch.randn(64, 4), Loss("squares", -1.0))


def diagonal() -> Case:
    """A loss whose Hessian is diag(3, 1, −5, 0.5)."""
    return Case(Coordinates(4).eval(), torch.zeros(1, 4), torch.tensor([[3.0, 1.0, -5.0, 0.5]]), Loss("quadratic"))


def described() -> dict[str, str]:
    """Sizes of every model, from the models themselves."""
    makers = {
        "GPT-52": gpt,
        "GPT-292": gpt_deep,
        "MLP": mlp,
        "CNN": cnn,
        "Negative": bowl_upside_down,
        "Diagonal": diagonal,
    }
    found = {}
    for name, make in makers.items():
        case = make()
        entries = sum(p.numel() for p in case.parameters)
        count = len(case.parameters)
        tensors = f"{count} tensors" if count > 1 else "1 tensor"
        found[name] = f"{tensors}, {entries:,} entries; inputs {tuple(case.inputs.shape)}"
    return found
