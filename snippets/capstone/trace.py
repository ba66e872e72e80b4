# SPDX-License-Identifier: 0BSD
"""The trace of an operator from random signs (Hutchinson).

For z of independent ±1, E[zᵀAz] = Σᵢ Aᵢᵢ, with variance
2 Σ_{i≠j} Aᵢⱼ² for a symmetric A. So m draws give a mean and its
standard error, s/√m with s the sample's standard deviation.

Source: Hutchinson, 1990, doi.org/10.1080/03610919008812866
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Trace:
    """An estimate: about two thirds of such estimates lie within `error`.

    value: mean of zᵀAz over the draws, in units of A.
    error: its standard error.
    samples: draws, and products with A.
    """

    value: float
    error: float
    samples: int


def hutchinson(
    operator: Callable[[Tensor], Tensor],
    like: Tensor,
    *,
    samples: int = 10,
    generator: torch.Generator | None = None,
) -> Trace:
    """Estimate the trace of a symmetric operator.

    operator: v to A v, both of shape (n,).
    like: (n,), gives dtype and device.
    samples: 2 or more; the error falls with its square root.
    generator: of the CPU, so that a seed means the same everywhere.

    Raises ValueError for fewer than two samples.
    """
    if samples < 2:
        raise ValueError(f"samples is {samples}: an error needs 2 or more.")
    found = []
    for _ in range(samples):
        signs = torch.randint(
            0, 2, like.shape, generator=generator, device="cpu"
        )
        z = (2 * signs - 1).to(like)
        found.append(torch.dot(z, operator(z)).item())
    draws = torch.tensor(found, dtype=torch.float64, device="cpu")
    error = (draws.std() / samples**0.5).item()
    return Trace(draws.mean().item(), error, samples)
