"""Eigenvalues: the one of largest size of the Hessian, from a model and a batch to the number."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench.capstone import models, record, rivals
from bench.capstone.models import Case
from bench.capstone.rivals import Eigenpair
from bench.capstone.rounds import Spread, interleaved
from snippets.capstone.curvature import verify_curvature
from snippets.capstone.eigenvalue import lanczos
from snippets.capstone.hvp import GradientGraph

CASES = {
    "mlp": lambda: models.trained(models.mlp()),
    "gpt": lambda: models.trained(models.gpt()),
    "new-mlp": models.mlp,
    "negative": models.bowl_upside_down,
    "diagonal": models.diagonal,
}
BASE, POWER = "tool, verify_curvature()", "power iteration, graph kept"
TOLERANCE = 1e-2
MOST = 200  # products of the power iteration


@dataclass
class Method:
    """A way to the eigenvalue, and what it found in each run; run k starts from the vector of seed k."""

    find: Callable[[Case, int], Eigenpair]
    found: list[Eigenpair] = field(default_factory=list)

    def watch(self, case: Case) -> float:
        start = time.perf_counter()
        pair = self.find(case, len(self.found))
        took = time.perf_counter() - start
        self.found.append(pair)
        return took


def measure(case: Case, rounds: int) -> record.Table:
    methods = {BASE: Method(_tool), POWER: Method(_power)}
    missing = rivals.missing()
    if "PyHessian" not in missing:
        methods["PyHessian"] = Method(rivals.pyhessian_eigenvalue)
    if "curvlinops-for-pytorch" not in missing:
        methods["curvlinops, scipy eigsh"] = Method(rivals.eigsh_eigenvalue)
    with sdpa_kernel(SDPBackend.MATH):
        watches = {name: (lambda method=method: method.watch(case)) for name, method in methods.items()}
        seconds = interleaved(watches, rounds)
        graph = GradientGraph(case.loss(), case.parameters)
        like = rivals.flat(graph.gradients)
        right = lanczos(graph.flat_product, _start(like, 0), tolerance=1e-4).value
        about = {name: _about(method.found[1:], right, graph) for name, method in methods.items()}
    if about[BASE]["error"] > TOLERANCE:  # type: ignore[operator]
        raise RuntimeError(f"the tool's eigenvalue is off by {about[BASE]['error']:.1g}, relative")
    return record.table(BASE, seconds, about)


def _about(found: list[Eigenpair], right: float, graph: GradientGraph) -> dict[str, Spread | float]:
    counts = sorted(pair.products for pair in found)
    values = sorted((pair.value for pair in found), key=lambda value: abs(value - right))
    return {
        "products": Spread(counts[0], counts[len(counts) // 2], counts[-1]),
        "value": values[-1],  # the worst
        "error": abs(values[-1] - right) / abs(right),
        "residual": max(_residual(pair, graph) for pair in found),
    }


def _residual(pair: Eigenpair, graph: GradientGraph) -> float:
    """‖Hx − λx‖ / |λ| for the method's unit vector x; the tool, which gives no vector, says it itself."""
    if pair.vector is None:
        return pair.residual
    x = pair.vector / pair.vector.norm()
    return float((graph.flat_product(x) - pair.value * x).norm()) / abs(pair.value)


def _start(like: Tensor, seed: int) -> Tensor:
    return torch.randn(len(like), generator=torch.Generator().manual_seed(seed)).to(like)


def _tool(case: Case, seed: int) -> Eigenpair:
    given = case.model, case.inputs, case.targets, case.criterion
    report = verify_curvature(*given, seed=seed, tolerance=TOLERANCE, samples=0, verify=False)
    return Eigenpair(report.eigenvalue, None, report.products, report.residual)


def _power(case: Case, seed: int) -> Eigenpair:
    """v ← Hv / ‖Hv‖ until ‖Hv − λv‖ is at most 1e-2 |λ|, with λ = vᵀHv, on the tool's own graph."""
    graph = GradientGraph(case.loss(), case.parameters)
    v = _start(rivals.flat(graph.gradients), seed)
    v = v / v.norm()
    products = 0
    while True:
        w = graph.flat_product(v)
        products += 1
        value = torch.dot(v, w)
        if (w - value * v).norm() <= TOLERANCE * value.abs() or products == MOST:
            return Eigenpair(value.item(), v, products)
        v = w / w.norm()
