# SPDX-License-Identifier: 0BSD
"""The memory behind tensors, and whose it is."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .naming import named_buffers, named_parameters
from .outputs import flatten_tensors


def size(count: int) -> str:
    """Return bytes for people.

    >>> size(6 * 2**20), size(100)
    ('6.0 MiB', '100 B')
    """
    if count < 1024:
        return f"{count} B"
    value, units = count / 1024, ["KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f} {units[0]}"


def parts(tensor: Tensor) -> Iterable[Tensor]:
    """The dense tensors that a sparse or wrapping one consists of."""
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        crow, col = tensor.crow_indices(), tensor.col_indices()
        return [crow, col, tensor.values()]
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        inner = [getattr(tensor, name) for name in names]
        return [part for one in inner for part in parts(one)]
    return [tensor]


def blocks(tensor: Tensor) -> list[tuple[int, int]]:
    """The memory behind a tensor: (identity, bytes) of each storage."""
    found = []
    for part in parts(tensor):
        try:
            storage = part.untyped_storage()
            found.append((storage._cdata, storage.nbytes()))
        except (RuntimeError, NotImplementedError):  # none of its own
            found.append((id(part), part.numel() * part.itemsize))
    return found


def bytes_of(tensor: Tensor) -> int:
    return sum(part.numel() * part.itemsize for part in parts(tensor))


def owners_of(model: nn.Module, batch: Any) -> dict[int, str]:
    """Whose memory it is, by the identity of the storage."""
    owners = {
        "batch": list(flatten_tensors(batch).values()),
        "buffer": [named.tensor for named in named_buffers(model)],
        "parameter": [named.tensor for named in named_parameters(model)],
    }
    return {
        key: kind
        for kind, tensors in owners.items()
        for tensor in tensors
        for key, _ in ([] if is_lazy(tensor) else blocks(tensor))
    }
