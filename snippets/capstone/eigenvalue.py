# SPDX-License-Identifier: 0BSD
"""The outermost eigenvalues of a symmetric operator, by Lanczos.

From a start q₁ the products A qⱼ give an orthonormal basis Q of k columns
and a symmetric T = QᵀAQ. An eigenpair Ts = θs gives the Ritz value θ and
the Ritz vector x = Qs, and

    ‖Ax − θx‖ = β |s_k|,   β: the length of what the next column adds

so the error is known without another product: some eigenvalue of A lies
within the residual of θ.

A basis that is full is exchanged for the outermost half of its Ritz
vectors, with which AQ = QT + β q sᵀ still holds (thick restart), so the
memory is bounded and the run goes on.

Sources: Golub and Van Loan, Matrix Computations, chapter 10; Wu and
Simon, 2000, doi.org/10.1137/S0895479898334605
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
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
    weights: squares of the parts that their vectors have in the start.
        They sum to 1, less what restarts have let go. With the Ritz
        values they are a quadrature rule for the spectrum as seen from
        the start.
    restarts: how often the basis was full.
    """

    value: float
    residual: float
    relative: float
    converged: bool
    products: int
    along: float
    ritz: tuple[float, ...]
    weights: tuple[float, ...]
    restarts: int


def lanczos(
    operator: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    which: Which = "magnitude",
    tolerance: float = 1e-2,
    max_products: int = 100,
    columns: int = 100,
) -> Lanczos:
    """Return an outermost eigenvalue of a symmetric operator.

    operator: v to A v, both of shape (n,).
    start: (n,), not zero; a random one has a part along every eigenvector.
    which: "largest" and "smallest" go by sign, "magnitude" by size.
    tolerance: of `relative`. The residual is compared with the largest
        |Ritz value|, so the scale of A does not matter.
    max_products: stop there, with converged False.
    columns: of the basis, which takes columns · n numbers at most.

    Each new column is made orthogonal to the basis, twice, so that no
    eigenvalue appears twice by rounding.
    A product that is not finite ends the run: value is NaN.
    Raises ValueError for an unknown `which`, no product at all, or fewer
    than 4 columns.
    """
    if which not in ("largest", "smallest", "magnitude"):
        raise ValueError(f"which is {which!r}: largest, smallest, magnitude.")
    if max_products < 1:
        raise ValueError(f"max_products is {max_products}: pass 1 or more.")
    if columns < 4:
        raise ValueError(f"columns is {columns}: pass 4 or more.")
    basis = _Basis(start, min(columns, max_products))
    products, along = 0, math.nan
    while True:
        w, beta = basis.extended(operator(basis.newest))
        products += 1
        along = basis.corner if products == 1 else along
        if not (math.isfinite(basis.corner) and math.isfinite(beta)):
            return _not_finite(products, along, basis.restarts)
        if len(basis) == len(start) or beta <= basis.rounding():
            beta = 0.0  # nothing is left: these are eigenvalues
        values, vectors = basis.pairs(beta)
        found = _found(basis, values, vectors, beta, which, tolerance)
        found = replace(found, products=products, along=along)
        if found.converged or products >= max_products:
            return found
        if basis.full:
            basis.restart(vectors)
        basis.append(w / beta)


class _Basis:
    """Orthonormal rows, and the operator between them.

    most: rows that are kept. t: (most, most), float64.
    seen: the start in this basis, (most,).
    """

    def __init__(self, start: Tensor, most: int) -> None:
        self.most, self.restarts = most, 0
        self.rows = start.new_empty(min(8, most), len(start))
        self.rows[0] = start / start.norm()
        self.count = 1
        self.t = torch.zeros(most, most, dtype=torch.float64, device="cpu")
        self.seen = torch.zeros(most, dtype=torch.float64, device="cpu")
        self.seen[0] = 1.0

    def __len__(self) -> int:
        return self.count

    @property
    def newest(self) -> Tensor:
        """The last row, (n,)."""
        return self.rows[self.count - 1]

    @property
    def corner(self) -> float:
        """The operator along the last row."""
        return self.t[self.count - 1, self.count - 1].item()

    @property
    def full(self) -> bool:
        """Whether no row can be added."""
        return self.count == self.most

    def extended(self, w: Tensor) -> tuple[Tensor, float]:
        """Enter A q of the last row; return what it adds, and its length."""
        k = self.count
        w, parts = _orthogonal(w, self.rows[:k])
        self.t[k - 1, :k] = self.t[:k, k - 1] = parts.double().cpu()
        return w, w.norm().item()

    def append(self, row: Tensor) -> None:
        """Add a row. There has to be room."""
        if self.count == len(self.rows):
            more = min(len(self.rows), self.most - self.count)
            new = self.rows.new_empty(more, self.rows.shape[1])
            self.rows = torch.cat([self.rows, new])
        self.rows[self.count] = row
        self.count += 1

    def rounding(self) -> float:
        """What the length of a rest may be by rounding alone."""
        k = self.count
        eps = torch.finfo(self.rows.dtype).eps
        return 10 * eps * self.t[:k, :k].diagonal().abs().max().item()

    def pairs(self, beta: float) -> tuple[Tensor, Tensor]:
        """Return the Ritz values, ascending, and their vectors in columns."""
        t = self.t[: self.count, : self.count]
        scale = max(t.abs().max().item(), beta) or 1.0
        values, vectors = torch.linalg.eigh(t / scale)
        return values * scale, vectors

    def restart(self, vectors: Tensor) -> None:
        """Keep the Ritz vectors of both ends, half of the rows."""
        k, kept = self.count, self.count // 2
        low = kept // 2
        columns = [*range(low), *range(k - kept + low, k)]
        chosen = vectors[:, columns]
        values = (chosen * (self.t[:k, :k] @ chosen)).sum(0)
        turned = chosen.to(self.rows).mT
        for a in range(0, self.rows.shape[1], _PART):  # saves a second basis
            part = self.rows[:k, a : a + _PART]
            self.rows[:kept, a : a + _PART] = turned @ part
        self.t.zero_()
        self.t[:kept, :kept] = values.diag()
        seen = chosen.mT @ self.seen[:k]
        self.seen.zero_()
        self.seen[:kept] = seen
        self.count, self.restarts = kept, self.restarts + 1


_PART = 1 << 20


def _orthogonal(w: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """Return w without its part in the basis, and that part.

    w: (n,). basis: (k, n), orthonormal rows. The part is (k,).
    """
    first = basis @ w
    w = w - first @ basis
    second = basis @ w
    w = w - second @ basis
    return w, first + second


def _found(
    basis: _Basis,
    values: Tensor,
    vectors: Tensor,
    beta: float,
    which: Which,
    tolerance: float,
) -> Lanczos:
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
    seen = vectors.mT @ basis.seen[: len(basis)]
    return Lanczos(
        value,
        residual,
        relative,
        converged=relative <= tolerance and (settled or beta == 0),
        products=0,
        along=math.nan,
        ritz=tuple(values.tolist()),
        weights=tuple(seen.square().tolist()),
        restarts=basis.restarts,
    )


def _not_finite(products: int, along: float, restarts: int) -> Lanczos:
    nan = float("nan")
    return Lanczos(nan, nan, nan, False, products, along, (), (), restarts)
