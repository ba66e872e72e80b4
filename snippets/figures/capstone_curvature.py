# SPDX-License-Identifier: 0BSD
"""The figure of capstone/curvature: Lanczos on the Hessian of a small
network, product by product.
"""

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator
from torch import Tensor, nn

from snippets.capstone.eigenvalue import Lanczos, lanczos
from snippets.capstone.hvp import GradientGraph, flatten
from snippets.figures.plot import INK, QUIET, SECOND, SMALL, axes

PRODUCTS = 12


def operator() -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Products with the Hessian (n, n) of the squared error of a network
    of n = 41 parameters in float64, and a start (n,)."""
    draws = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(
            *shape, generator=draws, dtype=torch.float64, device="cpu"
        )

    net = nn.Sequential(
        nn.Linear(3, 8, device="cpu"), nn.Tanh(), nn.Linear(8, 1, device="cpu")
    ).double()
    for p in net.parameters():
        p.data = drawn(*p.shape)
    loss = nn.functional.mse_loss(net(drawn(32, 3)), drawn(32, 1))
    graph = GradientGraph(loss, list(net.parameters()))
    return graph.flat_product, drawn(len(flatten(graph.gradients)))


def runs() -> tuple[list[Lanczos], Tensor]:
    """What 1, 2, … products tell, and the eigenvalues, ascending."""
    product, start = operator()
    found = [
        lanczos(product, start, which="largest", tolerance=0.0, max_products=k)
        for k in range(1, PRODUCTS + 1)
    ]
    unit = torch.eye(len(start), dtype=start.dtype, device="cpu")
    table = torch.stack([product(column) for column in unit])
    return found, torch.linalg.eigvalsh((table + table.T) / 2)


def settled(tolerance: float = 1e-2) -> int:
    """Products until the residual of the largest is within 1 % of it."""
    return next(r.products for r in runs()[0] if r.relative <= tolerance)


def ritz() -> Figure:
    """Ritz values against products; the eigenvalues at the right."""
    found, values = runs()
    figure, plot = axes(288, 300, left=48, bottom=44, right=10, top=12)
    edge = PRODUCTS + 1.2
    for run in found:
        k = run.products
        plot.plot(
            [k] * k, run.ritz, "o", color=QUIET, markersize=3.5, linewidth=0
        )
    tops = [run.value for run in found]
    plot.errorbar(
        range(1, PRODUCTS + 1),
        tops,
        yerr=[run.residual for run in found],
        color=SECOND,
        marker="o",
        markersize=5,
        linewidth=2,
    )
    plot.hlines(values, edge, edge + 1, color=INK, linewidth=1.25)
    plot.axhline(
        float(values[-1]), color=INK, linestyle="--", linewidth=1.25, zorder=0
    )
    k = settled()
    plot.annotate(
        f"residual below 1 %\nafter {k} products",
        (k, tops[k - 1]),
        (k + 1.0, tops[k - 1] * 0.7),
        fontsize=SMALL,
        va="bottom",
        color=SECOND,
        ha="center",
    )
    plot.text(
        edge + 1, float(values[-1]) * 1.04, "all eigenvalues", fontsize=SMALL,
        ha="right",
    )  # fmt: skip
    plot.set_xlim(0.3, edge + 1.3)
    plot.xaxis.set_major_locator(FixedLocator([1, 4, 8, 12]))
    plot.yaxis.set_major_locator(MaxNLocator(5))
    plot.set_xlabel("Hessian products")
    plot.set_ylabel("Ritz values")
    return figure
