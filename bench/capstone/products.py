"""Products: one Hessian-vector product, in units of one gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor
from torch.func import functional_call, grad, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench.capstone import models, record, rivals
from bench.capstone.models import Case
from bench.capstone.rounds import Stopwatch, interleaved, timed
from snippets.capstone.curvature import compute_hvp
from snippets.capstone.hvp import GradientGraph

CASES = {"mlp": models.mlp, "gpt": models.gpt, "cnn": models.cnn}
BASE, TOOL, TOOL_ONCE = "one gradient", "tool, graph kept", "tool, compute_hvp() once"
FRESH = "double backward, written out"
SAME = 1e-4  # relative difference that counts as the same answer in float32
Product = Callable[[], list[Tensor]]


def measure(case: Case, rounds: int) -> record.Table:
    """Each method's product with the same vector, under the attention that can be differentiated twice."""
    with sdpa_kernel(SDPBackend.MATH), _methods(case) as methods:
        right = rivals.flat(methods[TOOL]())
        about = {name: {"error": _distance(method, right)} for name, method in methods.items()}
        for name, line in about.items():
            if line["error"] > SAME and name not in rivals.MODULES.values():
                raise RuntimeError(f"'{name}' differs from the tool by {line['error']:.1g}, relative")
        watches: dict[str, Stopwatch] = {BASE: timed(case.gradient)}
        watches |= {name: timed(method) for name, method in methods.items()}
        seconds = interleaved(watches, rounds)
    absent = {name: {"note": "not installed"} for name in rivals.missing() if name != "torchviz"}
    return record.table(BASE, seconds, {**about, **absent})


@contextmanager
def _methods(case: Case) -> Iterator[dict[str, Product]]:
    v = case.random_like(seed=0)
    p = case.parameters
    names = [name for name, _ in case.model.named_parameters()]

    def loss_of(*values: Tensor) -> Tensor:
        output = functional_call(case.model, dict(zip(names, values, strict=True)), (case.inputs,))
        found: Tensor = case.criterion(output, case.targets)
        return found

    def fresh() -> list[Tensor]:
        g = torch.autograd.grad(case.loss(), p, create_graph=True)
        return list(torch.autograd.grad(g, p, v))

    gradient_of = grad(loss_of, argnums=tuple(range(len(p))))
    both = tuple(p), tuple(v)
    graph = GradientGraph(case.loss(), p)
    methods: dict[str, Product] = {
        TOOL: lambda: graph.product(v),
        TOOL_ONCE: lambda: compute_hvp(case.model, case.loss(), v),
        FRESH: fresh,
        "torch.func: jvp of grad": lambda: list(jvp(gradient_of, *both)[1]),
        "torch.autograd.functional.hvp": lambda: list(torch.autograd.functional.hvp(loss_of, *both)[1]),
        "torch.autograd.functional.vhp": lambda: list(torch.autograd.functional.vhp(loss_of, *both)[1]),
    }
    with ExitStack() as stack:
        missing = rivals.missing()
        if "PyHessian" not in missing:
            made = stack.enter_context(rivals.pyhessian(case))
            methods["PyHessian"] = lambda: rivals.pyhessian_product(made, v)
        if "curvlinops-for-pytorch" not in missing:
            operator, row = rivals.curvlinops(case), rivals.flat(v)
            methods["curvlinops-for-pytorch"] = lambda: [operator @ row]
        yield methods


def _distance(method: Product, right: Tensor) -> float:
    return float((rivals.flat(method()) - right).norm() / right.norm())
