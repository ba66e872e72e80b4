# SPDX-License-Identifier: 0BSD
"""The norm of any order of many tensors, which cannot overflow."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .norms import norms, sum_dtype, total_norm


def wide_norm(values: Sequence[Tensor], norm_type: float = 2.0) -> float:
    """Return the p-norm, p > 0, of finite tensors: it cannot overflow.

    values: strided, of any float or complex dtypes, on any devices. The
        largest element is taken out; the rest adds up in `sum_dtype`.
    """
    if norm_type == 2:
        return total_norm(norms(values))
    found = [_scaled_norm(v, norm_type) for v in values if v.numel()]
    together = torch.tensor([0.0, *found], dtype=torch.float64, device="cpu")
    return _scaled_norm(together, norm_type)


def _scaled_norm(values: Tensor, norm_type: float) -> float:
    sizes = whole(values.detach()).abs()
    sizes = sizes.to(sum_dtype(sizes.dtype))
    most: float = sizes.max().item()
    if most == 0 or not math.isfinite(most):
        return most
    rest = torch.linalg.vector_norm(sizes / most, norm_type)
    return float(most * rest.item())


def whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor that is spread over processes (DTensor)."""
    full: Tensor = getattr(tensor, "full_tensor", lambda: tensor)()
    return full
