# SPDX-License-Identifier: 0BSD
"""Norms of many gradients at once: any device, dtype and layout.

norm = sqrt(sum of |g|²), accumulated in float32 or, if the gradient
has it, float64. One transfer to the CPU for each device.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_TINY = 1e-15  # squares below it begin to get lost in float32


@torch.no_grad()
def norms(gradients: Sequence[Tensor]) -> list[float]:
    """Return the Euclidean norm of each gradient.

    gradients: of any shape, float or complex dtype, strided or sparse
        (also uncoalesced), also empty, on any devices.

    A sum of squares overflows in float32 from 1e19 on and is lost below
    1e-22. So what comes out as infinite, NaN, 0 or tiny is looked at
    again with its largest element taken out. What then is inf or NaN
    has such an element.
    """
    values = [dense(g) for g in gradients]
    found = _grouped(values, 2)
    again = [
        k
        for k, norm in enumerate(found)
        if not _TINY < norm < math.inf and values[k].numel()
    ]
    if again:
        largest = _grouped([values[k] for k in again], math.inf)
        for k, most in zip(again, largest, strict=True):
            found[k] = _scaled(values[k], most)
    return found


def total_norm(found: Sequence[float]) -> float:
    """Return the norm of all gradients as one vector; 0 of none."""
    return math.nan if any(map(math.isnan, found)) else math.hypot(*found)


def dense(gradient: Tensor) -> Tensor:
    """Return the values as a strided real tensor that can be summed.

    A sparse gradient is coalesced first: rows that occur twice add up.
    What it leaves out is zero. A complex one becomes pairs of reals.
    """
    values = gradient.detach()
    if values.layout == torch.sparse_coo:
        values = values.coalesce().values()
    elif values.layout != torch.strided:
        values = values.to_dense()
    if hasattr(values, "full_tensor"):  # distributed
        values = values.full_tensor()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    if values.itemsize == 1:  # float8 cannot add
        values = values.float()
    return values


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return what to add up in: float32, or more if it has more."""
    return torch.promote_types(dtype, torch.float32)


def _grouped(values: Sequence[Tensor], order: float) -> list[float]:
    """Norms by group, and one transfer for each device."""
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for k, tensor in enumerate(values):
        groups.setdefault((tensor.device, tensor.dtype), []).append(k)
    made: dict[torch.device, tuple[list[int], list[Tensor]]] = {}
    for (device, dtype), places in groups.items():
        tensors = [values[k] for k in places]
        out = torch._foreach_norm(tensors, order, dtype=sum_dtype(dtype))
        known, parts = made.setdefault(device, ([], []))
        known += places
        parts.append(torch.stack(out))
    found = [0.0] * len(values)
    for known, parts in made.values():
        # Types promote to the widest, so nothing is lost on the way.
        row = torch.cat(parts) if len(parts) > 1 else parts[0]
        for k, norm in zip(known, row.tolist(), strict=True):
            found[k] = norm
    return found


def _scaled(values: Tensor, most: float) -> float:
    if most == 0 or not math.isfinite(most):
        return most
    small = values.to(sum_dtype(values.dtype)) / most
    return most * float(torch.linalg.vector_norm(small))


Moments = tuple[float, float, float, int, int]


@torch.no_grad()
def moments(
    gradients: Sequence[Tensor], found: Sequence[float]
) -> list[Moments]:
    """Return mean, std, max abs, and the counts of NaN and Inf, of each.

    found: the norms; only where one is not finite is it counted.
    """
    made: dict[torch.device, list[tuple[int, Tensor]]] = {}
    for k, (gradient, norm) in enumerate(zip(gradients, found, strict=True)):
        row = _moments(gradient, not math.isfinite(norm))
        made.setdefault(row.device, []).append((k, row))
    result: dict[int, Moments] = {}
    for rows in made.values():
        table = torch.stack([row for _, row in rows]).tolist()
        for (k, _), line in zip(rows, table, strict=True):
            mean, std, most, nan, inf = line
            result[k] = mean, std, most, int(nan), int(inf)
    return [result[k] for k in range(len(gradients))]


def _moments(gradient: Tensor, bad: bool) -> Tensor:
    values = dense(gradient)
    # A sparse gradient is zero wherever it has no values.
    count = gradient.numel() * (2 if gradient.is_complex() else 1)
    left_out = count - values.numel()
    wide = torch.float32 if values.device.type == "mps" else torch.float64
    zero = torch.zeros((), dtype=wide, device=values.device)
    if values.numel() == 0:
        return zero.expand(5)
    values = values.to(wide)
    mean = values.sum() / count
    spread = (values - mean).square().sum() + left_out * mean.square()
    std = (spread / (count - 1)).sqrt() if count > 1 else zero
    nan = values.isnan().sum().to(wide) if bad else zero
    inf = values.isinf().sum().to(wide) if bad else zero
    return torch.stack([mean, std, values.abs().max(), nan, inf])
