"""Rivals: the other packages, each asked in the way that its own documentation shows.

They are in the dependency group `bench` and nowhere else.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bench.capstone.models import Case

MODULES = {"pyhessian": "PyHessian", "curvlinops": "curvlinops-for-pytorch", "torchviz": "torchviz"}


def missing() -> list[str]:
    """Packages of the group that are not here."""
    return [package for module, package in MODULES.items() if importlib.util.find_spec(module) is None]


class Eigenpair(NamedTuple):
    """value: of the eigenvector `vector` (n,), found with so many products.

    residual: where the method gives it in place of a vector.
    """

    value: float
    vector: Tensor | None
    products: int
    residual: float = 0.0


def flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.detach().reshape(-1) for t in tensors])


@contextmanager
def pyhessian(case: Case) -> Iterator[Any]:
    """PyHessian's object for one batch. It keeps the graph of gradients in `.grad`, which is emptied afterwards."""
    from pyhessian import hessian

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of the cycle that create_graph makes
        made = hessian(case.model, case.criterion, data=(case.inputs, case.targets), cuda=False)
    try:
        yield made
    finally:
        case.model.zero_grad(set_to_none=True)


def pyhessian_product(made: Any, v: Sequence[Tensor]) -> list[Tensor]:
    from pyhessian.utils import hessian_vector_product

    return list(hessian_vector_product(made.gradsH, made.params, v))


def pyhessian_eigenvalue(case: Case, seed: int) -> Eigenpair:
    """Power iteration as it comes: until two values in a row differ by less than 1e-3, at most 100 products."""
    module: Any = importlib.import_module("pyhessian.hessian")  # its package hides it behind a class of the same name
    count = 0
    plain = module.hessian_vector_product

    def counted(*given: Any) -> Any:
        nonlocal count
        count += 1
        return plain(*given)

    torch.manual_seed(seed)
    module.hessian_vector_product = counted
    try:
        with pyhessian(case) as made:
            values, vectors = made.eigenvalues()
    finally:
        module.hessian_vector_product = plain
    return Eigenpair(values[0], flat(vectors[0]), count)


def curvlinops(case: Case) -> Any:
    """Its linear operator for one batch; `@` takes a flat vector (n,)."""
    from curvlinops import HessianLinearOperator

    batches = [(case.inputs, case.targets)]
    return HessianLinearOperator(case.model, case.criterion, case.parameters, batches, check_deterministic=False)


def eigsh_eigenvalue(case: Case, seed: int) -> Eigenpair:
    """scipy's eigsh (ARPACK) on the operator of curvlinops, tolerance 1e-2."""
    import numpy as np
    from scipy.sparse.linalg import LinearOperator, eigsh

    operator = curvlinops(case).to_scipy()
    count = 0

    def counted(v: Any) -> Any:
        nonlocal count
        count += 1
        return operator @ v

    start = np.random.default_rng(seed).standard_normal(operator.shape[0]).astype(operator.dtype)
    wrapped = LinearOperator(operator.shape, matvec=counted, dtype=operator.dtype)
    values, vectors = eigsh(wrapped, k=1, which="LM", tol=1e-2, v0=start)
    return Eigenpair(float(values[0]), torch.from_numpy(vectors[:, 0].copy()), count)
