# SPDX-License-Identifier: 0BSD
"""One healthy model, and six with a fault that people plant by accident.

    autograd-debugger report --model snippets.capstone.examples:vanishing \\
        --batch snippets.capstone.examples:batch --loss torch.nn:MSELoss

Each fault is one line, under a comment that begins with "here". The
models take `batch`, the recurrent one `sequences`; they return (N, 1).
"""

from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 16  # features of a sample, and units of each layer


def batch() -> tuple[Tensor, Tensor]:
    """32 samples: inputs (32, 16), targets (32, 1)."""
    return torch.randn(32, WIDTH), torch.randn(32, 1)


def sequences() -> tuple[Tensor, Tensor]:
    """32 sequences of 24 steps: inputs (32, 24, 16), targets (32, 1)."""
    return torch.randn(32, 24, WIDTH), torch.randn(32, 1)


class Regressor(nn.Module):
    """Two hidden layers with ReLU: nothing is wrong with it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.hidden = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.hidden(self.encoder(x)))
        return out


# --8<-- [start:deep-tanh]
class DeepTanh(nn.Module):
    """Forty tanh layers, with the weights that nn.Linear begins with."""

    def __init__(self, depth: int = 40) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(WIDTH, WIDTH) for _ in range(depth)
        )
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            # here: no skip and no norm, so each layer shrinks gradients
            x = layer(x).tanh()
        out: Tensor = self.head(x)
        return out


# --8<-- [end:deep-tanh]


class Recurrent(nn.Module):
    """A recurrence that was given a skip connection, like a deep net."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, WIDTH)
        self.recur = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(len(x), WIDTH)
        for step in x.unbind(1):
            # here: the same skip at every step multiplies the state
            state = state + self.recur(state) + self.enter(step)
        out: Tensor = self.head(state)
        return out


class RareEvents(Regressor):
    """A bias for a rare class, −log((1 − π)/π) with π = 0.01."""

    def __init__(self) -> None:
        super().__init__()
        for module in self.modules():
            if isinstance(module, nn.Linear):
                # here: meant for the head alone
                nn.init.constant_(module.bias, -4.6)


class RootFeatures(nn.Module):
    """The square root of what is positive, and 0 for the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(x)
        # here: the mask comes after the root
        x = torch.where(x > 0, x.sqrt(), 0.0)
        out: Tensor = self.head(x)
        return out


class SquaredRelu(torch.autograd.Function):
    """relu(x)², saving x alone for backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.relu().square()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        # here: the derivative is 2 · relu(x)
        out: Tensor = grad * x.relu()
        return out


class Activation(nn.Module):
    """`SquaredRelu` as a module."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = SquaredRelu.apply(x)
        return out


class FastRegressor(Regressor):
    """The healthy one, with an activation that has its own backward."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden[1] = Activation()


class FineTuned(nn.Module):
    """Twelve residual blocks, of which the first two are to be frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(12))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 1)
        for name, parameter in self.named_parameters():
            # here: blocks.10 and blocks.11 begin with blocks.1
            if name.startswith(("blocks.0", "blocks.1")):
                parameter.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x).relu()
        out: Tensor = self.head(self.norm(x))
        return out


# Factories, named by what is wrong.
healthy = Regressor
vanishing = DeepTanh
exploding = Recurrent
dead = RareEvents
masked = RootFeatures
wrong = FastRegressor
frozen = FineTuned
