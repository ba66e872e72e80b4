# SPDX-License-Identifier: 0BSD
"""The figures of chapters/graph: one run of (x*w + b)**2."""

from functools import cache

from torch import Tensor

from snippets.figures import moments
from snippets.figures.picture import Graph, Player
from snippets.figures.record import Trace, record


def formula(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return (x * w + b) ** 2


@cache
def trace() -> Trace:
    """The run at x = 2, w = 3, b = 1, as on the page."""
    return record(formula, x=2.0, w=3.0, b=1.0)


def after_forward() -> Graph:
    """Three nodes, their saved tensors, and the three AccumulateGrads."""
    return Graph(trace(), moments.after_forward(trace()))


def after_backward() -> Graph:
    """The same graph with every gradient on its way, all pins hollow."""
    return Graph(trace(), moments.after_backward(trace()))


def backward() -> Player:
    """Forward op by op, then backward node by node as recorded."""
    return moments.player(trace())
