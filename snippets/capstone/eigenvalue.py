# SPDX-License-Identifier: 0BSD
"""The outermost eigenvalues of a symmetric operator, by Lanczos.

From a start q₁ the products A qⱼ give an orthonormal basis Q of k columns
and a tridiagonal T = QᵀAQ. An eigenpair Ts = θs gives the Ritz value θ
and the Ritz vector x = Qs, and

    ‖Ax − θx‖ = β |s_k|,   β: the length of what the next column adds

so the error is known without another product: some eigenvalue of A lies
within the residual of θ.

Source: Golub and Van Loan, Matrix Computations, chapter 10.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Which = Literal["largest", "smallest", "magnitude"]


@dataclass(frozen=True)
class Lanczos:
    """What k products with the operator tell about its spectrum.

    value: the Ritz value asked for.
    residual: ‖Ax − value·x‖ of its unit vector x, in units of `value`.
    relative: the residual divided by the largest |Ritz value|; 0 for a
        zero operator.
    converged: relative is at most the tolerance, and the other end of
        the spectrum cannot win.
    products: products with the operator that were needed.
    along: q₁ᵀ A q₁, the operator along the start.
    ritz: all Ritz values, ascending.
    weights: squares of the first entries of their vectors, sum 1. With
        the Ritz values they are a quadrature rule for the spectrum as
        seen from the start.
    """

    value: float
    residual: float
    relative: float
    converged: bool
    products: int
    along: float
    ritz: tuple[float, ...]
    weights: tuple[float, ...]


def lanczos(
    operator: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    which: Which = "magnitude",
    tolerance: float = 1e-2,
    max_products: int = 100,
) -> Lanczos:
    """Return an outermost eigenvalue of a symmetric operator.

    operator: v to A v, both of shape (n,).
    start: (n,), not zero; a random one has a part along every eigenvector.
    which: "largest" and "smallest" go by sign, "magnitude" by size.
    tolerance: of `relative`. The residual is compared with the largest
        |Ritz value|, so the scale of A does not matter.
    max_products: stop there, with converged False.

    The basis is kept and each new column is made orthogonal to all of
    it, twice: k·n numbers, and no eigenvalue appears twice by rounding.
    A product that is not finite ends the run: value is NaN.
    Raises ValueError for an unknown `which` or no product at all.
    """
    if which not in ("largest", "smallest", "magnitude"):
        raise ValueError(f"which is {which!r}: largest, smallest, magnitude.")
    if max_products < 1:
        raise ValueError(f"max_products is {max_products}: pass 1 or more.")
    basis = start.new_empty(min(8, max_products), len(start))  # rows
    basis[0] = start / start.norm()
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        k = len(diagonal)
        w, along = _orthogonal(operator(basis[k]), basis[: k + 1])
        beta = w.norm().item()
        if not (math.isfinite(along) and math.isfinite(beta)):
            return _not_finite(k + 1, diagonal or [along])
        diagonal.append(along)
        if k + 1 == len(start) or beta <= _rounding(start, diagonal):
            beta = 0.0  # nothing is left: these are eigenvalues
        found = _ritz(diagonal, beside, beta, which, tolerance)
        if found.converged or len(diagonal) >= max_products:
            return found
        beside.append(beta)
        if k + 1 == len(basis):
            basis = torch.cat([basis, torch.empty_like(basis)])
        basis[k + 1] = w / beta


def _orthogonal(w: Tensor, basis: Tensor) -> tuple[Tensor, float]:
    """Return w without its part in the basis, and its last coefficient.

    w: (n,). basis: (k, n), orthonormal rows.
    """
    first = basis @ w
    w = w - first @ basis
    second = basis @ w
    w = w - second @ basis
    return w, (first[-1] + second[-1]).item()


def _rounding(start: Tensor, diagonal: list[float]) -> float:
    return 10 * torch.finfo(start.dtype).eps * max(map(abs, diagonal))


def _ritz(
    diagonal: list[float],
    beside: list[float],
    beta: float,
    which: Which,
    tolerance: float,
) -> Lanczos:
    scale = max(map(abs, [*diagonal, *beside, beta])) or 1.0
    t = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if beside:
        off = torch.tensor(beside, dtype=torch.float64)
        t = t + off.diag(1) + off.diag(-1)
    values, vectors = torch.linalg.eigh(t / scale)
    values = values * scale
    residuals = beta * vectors[-1].abs()
    low, high = values[0].item(), values[-1].item()
    pick = {"largest": -1, "smallest": 0}.get(which)
    settled = True
    if pick is None:
        pick = -1 if high >= -low else 0
        other = -1 - pick
        reach = abs(values[other].item()) + residuals[other].item()
        chosen = abs(values[pick].item())
        settled = reach <= chosen * (1 + tolerance)
    top = max(abs(low), abs(high))
    value, residual = values[pick].item(), residuals[pick].item()
    relative = residual / top if top else 0.0
    return Lanczos(
        value,
        residual,
        relative,
        converged=relative <= tolerance and (settled or beta == 0),
        products=len(diagonal),
        along=diagonal[0],
        ritz=tuple(values.tolist()),
        weights=tuple(vectors[0].square().tolist()),
    )


def _not_finite(products: int, diagonal: list[float]) -> Lanczos:
    nan = float("nan")
    return Lanczos(nan, nan, nan, False, products, diagonal[0], (), ())
