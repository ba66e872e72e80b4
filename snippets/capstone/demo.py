# SPDX-License-Identifier: 0BSD
"""The model that is examined if none is named: an MLP on random data."""

import torch
from torch import nn

from .loading import Subject, assemble, built_on_cpu


def demo(
    depth: int = 5,
    dim: int = 64,
    *,
    device: str = "",
    dtype: str = "",
    seed: int = 0,
) -> Subject:
    """Return an MLP with `depth` hidden layers, a batch and a loss.

    inputs (32, dim); targets (32,), 10 classes; cross-entropy.
    """
    torch.manual_seed(seed)
    with built_on_cpu(device):
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Linear(dim, dim), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear(dim, 10))
        batch = torch.randn(32, dim), torch.randint(0, 10, (32,))
    names = f"demo MLP (depth {depth}, dim {dim})", "random", "cross-entropy"
    criterion = nn.CrossEntropyLoss()
    return assemble(model, batch, criterion, names, device, dtype, seed)
