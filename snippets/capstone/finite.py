# SPDX-License-Identifier: 0BSD
"""Counting what is not finite, in tensors of every kind."""

from typing import Any

import torch
from torch import Tensor

from .outputs import flatten_tensors


def not_finite(t: Tensor) -> tuple[int, int]:
    """Return how many entries are NaN and how many are inf."""
    if not (t.is_floating_point() or t.is_complex()) or t.is_meta:
        return 0, 0
    try:
        values = t.detach()
        if values.layout == torch.sparse_coo:
            values = values._values()
        if values.dtype.itemsize == 1:  # float8 has few operations
            values = values.float()
        # A NaN or inf stays in the sum. It is 30 times as fast as a look
        # at each entry, which is needed where the sum itself overflows.
        wide = torch.promote_types(values.dtype, torch.float32)
        if bool(values.sum(dtype=wide).isfinite()):
            return 0, 0
        return int(values.isnan().sum()), int(values.isinf().sum())
    except (RuntimeError, NotImplementedError):
        return 0, 0  # a layout without these operations


def memory(t: Tensor) -> tuple[int, int] | None:
    """Return address and size in bytes of the memory of a tensor."""
    try:
        if t.layout == torch.sparse_coo:
            t = t._values()
        storage = t.untyped_storage()
        return (storage.data_ptr(), storage.nbytes())
    except (RuntimeError, NotImplementedError):
        return None


def zero_where_nan(t: Tensor, args: Any) -> bool:
    """Say whether an input of t's shape is 0 wherever t is NaN."""
    where = t.isnan()
    return any(
        one.shape == t.shape and not bool(one[where].any())
        for one in flatten_tensors(args).values()
        if one is not t and one.layout == torch.strided
    )
