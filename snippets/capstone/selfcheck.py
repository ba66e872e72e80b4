# SPDX-License-Identifier: 0BSD
"""Is a Hessian-vector product right? Ask the gradients.

    Hv ≈ (g(θ + hv) − g(θ − hv)) / 2h

in float64, for several h. The left side is double backward, the right
side needs the gradient only. They differ where an operation has a wrong
second derivative: on torch 2.13 the fused `weight_norm` on the CPU, and
`layer_norm`, `batch_norm` and `instance_norm` in a loss that is itself
made of gradients.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from .float64 import in_float64
from .hvp import GradientGraph, trainable, twice_differentiable
from .naming import padding_rows
from .outputs import DebuggerError
from .state import untouched

Verdict = Literal["agrees", "disagrees", "inconclusive", "not done"]
_STEPS = (1e-5, 1e-6, 1e-7, 1e-4, 1e-3)  # of the size of a parameter


@dataclass(frozen=True)
class SelfCheck:
    """One product against a central difference of gradients.

    verdict: "agrees" within the tolerance; "disagrees": differences of
        different steps agree with each other and not with the product;
        "inconclusive": they do not agree with each other either, as near
        kinks; "not done", for the reason given.
    error: ‖Hv − difference‖ / ‖larger of them‖ of the worst parameter,
        at the best step; NaN if not done.
    parameter: the name of that parameter.
    step: the step h, relative to the size of the parameters.
    reason: why not done or inconclusive, else "".
    """

    verdict: Verdict
    error: float
    parameter: str
    step: float
    reason: str = ""


def not_done(reason: str) -> SelfCheck:
    """Return a check that could not be made."""
    return SelfCheck("not done", float("nan"), "", float("nan"), reason)


def self_check(
    model: nn.Module,
    loss_of: Callable[[], Tensor],
    *,
    seed: int = 0,
    tolerance: float = 1e-3,
) -> SelfCheck:
    """Compare one Hessian-vector product with gradients alone.

    model: is in float64 while this runs, and as it was afterwards.
    loss_of: runs the model, with a batch in float64, and returns the
        loss. Dropout draws the same mask in every call.
    seed: of the direction.
    tolerance: the largest error that counts as agreement.
    """
    try:
        with in_float64(model), twice_differentiable(model):
            return _Check(model, loss_of, seed, tolerance).run()
    except (DebuggerError, RuntimeError, TypeError) as error:
        first = (str(error).splitlines() or [""])[0]
        return not_done(f"the loss does not run in float64: {first}")


class _Check:
    def __init__(
        self,
        model: nn.Module,
        loss_of: Callable[[], Tensor],
        seed: int,
        tolerance: float,
    ) -> None:
        self.model, self.loss_of = model, loss_of
        self.tolerance = tolerance
        named = trainable(model)
        self.names, self.parameters = list(named), list(named.values())
        self.start = [p.detach().clone() for p in self.parameters]
        draws = torch.Generator("cpu").manual_seed(seed)
        self.v = [_direction(p, draws) for p in self.start]
        rows = padding_rows(model)
        for p, v in zip(self.parameters, self.v, strict=True):
            if id(p) in rows:
                v[rows[id(p)]] = 0  # it has no gradient, by design

    def run(self) -> SelfCheck:
        with untouched(self.model):
            graph = GradientGraph(self.loss_of(), self.parameters)
            product = graph.product(self.v)
        gradients = graph.gradients
        del graph
        if not _finite(product) or not _finite(gradients):
            return not_done("gradients or products are not finite")
        if not _repeats(gradients, self.gradient(0.0)):
            return not_done(
                "the gradient is not deterministic: a second run with the "
                "same random state gave another one"
            )
        tried: list[tuple[float, str, float]] = []
        found: list[list[Tensor]] = []
        for h in _STEPS:
            found.append(self.difference(h))
            error, name = self.distance(product, found[-1], gradients, h)
            tried.append((error, name, h))
            if error <= self.tolerance:
                return SelfCheck("agrees", *tried[-1])
        return self.judge(tried, found, gradients)

    def judge(
        self,
        tried: list[tuple[float, str, float]],
        found: list[list[Tensor]],
        gradients: list[Tensor],
    ) -> SelfCheck:
        best = min(tried)
        spread = min(
            self.distance(a, b, gradients, _STEPS[k])[0]
            for k, a in enumerate(found)
            for b in found[:k]
        )
        if spread <= best[0] / 5:
            return SelfCheck("disagrees", *best)
        reason = f"differences of two steps lie {spread:.1g} apart"
        return SelfCheck("inconclusive", *best, reason)

    def gradient(self, h: float) -> list[Tensor]:
        with untouched(self.model):
            with torch.no_grad():
                for p, at, v in zip(
                    self.parameters, self.start, self.v, strict=True
                ):
                    p.copy_(at + h * v)
            found = torch.autograd.grad(
                self.loss_of(),
                self.parameters,
                allow_unused=True,
                materialize_grads=True,
            )
        return [g.to_dense() for g in found]

    def difference(self, h: float) -> list[Tensor]:
        ahead, behind = self.gradient(h), self.gradient(-h)
        pairs = zip(ahead, behind, strict=True)
        return [(a - b) / (2 * h) for a, b in pairs]

    def distance(
        self,
        a: list[Tensor],
        b: list[Tensor],
        gradients: list[Tensor],
        h: float,
    ) -> tuple[float, str]:
        """Return the largest relative distance, and whose it is."""
        sizes = [max(_norm(x), _norm(y)) for x, y in zip(a, b, strict=True)]
        eps = torch.finfo(torch.float64).eps
        noise = 100 * eps * _norm_of_all(gradients) / h
        floor = 1e-4 * max(sizes) + noise / self.tolerance
        errors = [
            (_norm(x - y) / max(size, floor) if floor else 0.0, name)
            for x, y, size, name in zip(a, b, sizes, self.names, strict=True)
        ]
        return max(errors)


def _direction(p: Tensor, draws: torch.Generator) -> Tensor:
    """A random direction in which one step is relative to p's size."""
    size = _norm(p) / max(p.numel(), 1) ** 0.5 or 1.0
    v = torch.randn(p.shape, dtype=p.dtype, generator=draws, device="cpu")
    return v.to(p.device) * size


def _norm(t: Tensor) -> float:
    return float(torch.linalg.vector_norm(t))


def _norm_of_all(tensors: list[Tensor]) -> float:
    return math.hypot(*map(_norm, tensors))


def _finite(tensors: list[Tensor]) -> bool:
    return all(bool(t.isfinite().all()) for t in tensors)


def _repeats(a: list[Tensor], b: list[Tensor]) -> bool:
    gap = _norm_of_all([x - y for x, y in zip(a, b, strict=True)])
    return gap <= 1e-9 * _norm_of_all(a)
