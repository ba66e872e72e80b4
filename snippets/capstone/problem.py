# SPDX-License-Identifier: 0BSD
"""A module or function as tensors in, tensors out, to be differentiated."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .float64 import exchanged, map_tensors
from .hvp import refuse_once_differentiable, refuse_reentrant
from .naming import named_parameters, padding_rows
from .outputs import call_model, flatten_tensors

Outputs = dict[str, Tensor]  # differentiable ones, by path


class Problem(Protocol):
    """What `differences` needs to know of a function.

    names, values: of the variables; the values are the point in question.
    padding: for some of them the row that is not to be varied.
    """

    names: list[str]
    values: list[Tensor]
    padding: dict[int, int]

    def run(
        self, values: list[Tensor], *, record: bool
    ) -> tuple[list[Tensor], Outputs]:
        """Return the leaves and the outputs at some values.

        record: with a graph from the leaves to the outputs.
        """

    def rows(
        self,
        outputs: Outputs,
        leaves: list[Tensor],
        v: Outputs,
        paths: list[str],
    ) -> list[Tensor]:
        """Return vᵀJ by the leaves, from some outputs of one run."""


def can_vary(t: Tensor) -> bool:
    """Whether derivatives by this tensor make sense."""
    return t.is_floating_point() or t.is_complex()


class FirstOrder:
    """f by its inputs and, if it is a module, by its parameters.

    inputs: as in `call_model`. If some of its tensors require grad, only
        these are variables; otherwise all that are not integers.
    by_inputs: whether the inputs are variables at all.
    """

    def __init__(
        self, f: Callable[..., Any], inputs: Any, by_inputs: bool = True
    ) -> None:
        self.f, self.inputs = f, inputs
        found = flatten_tensors(inputs, "input")
        wanted = {n: t for n, t in found.items() if t.requires_grad}
        chosen = wanted or {n: t for n, t in found.items() if can_vary(t)}
        chosen = chosen if by_inputs else {}
        fixed = {n: t for n, t in found.items() if not can_vary(t)}
        self.skipped = [n for n in found if n in fixed or not by_inputs]
        self.module = f if isinstance(f, nn.Module) else nn.Module()
        named = named_parameters(self.module)
        own = {n: p for n, _, p in named if p.requires_grad and not is_lazy(p)}
        self.parameters = list(own.values())
        self.replaced = [id(t) for t in chosen.values()]
        self.names = [*chosen, *own]
        tensors = [*chosen.values(), *self.parameters]
        self.values = [t.detach().clone() for t in tensors]
        rows = padding_rows(self.module)
        self.padding = {
            k: rows[id(p)]
            for k, p in enumerate(self.parameters, len(chosen))
            if id(p) in rows
        }
        self.ignored: list[str] = []  # outputs that are integers
        # Called before each run: f then draws the same random numbers.
        self.redraw: Callable[[], None] | None = None

    def run(
        self, values: list[Tensor], *, record: bool
    ) -> tuple[list[Tensor], Outputs]:
        """Run f. Its inputs are copies, so that it may change them.

        Raises DebuggerError for a reentrant checkpoint.
        """
        leaves = [v.detach().clone().requires_grad_(record) for v in values]
        n = len(self.replaced)
        if self.redraw is not None:
            self.redraw()
        # Grad mode is on without a graph too: f may call autograd.grad.
        with self.holding(leaves), torch.enable_grad():
            found = flatten_tensors(self.call(self.copies(leaves[:n])))
        if not record:
            found = {name: t.detach() for name, t in found.items()}
        refuse_reentrant(list(found.values()))
        self.ignored = [n for n, t in found.items() if not can_vary(t)]
        outputs = {n: t.to_dense() for n, t in found.items() if can_vary(t)}
        return leaves, outputs

    def holding(self, leaves: list[Tensor]) -> AbstractContextManager[None]:
        """Put the leaves into the module, in place of its parameters.

        In backward too: a checkpoint then runs again.
        """
        mine = leaves[len(self.replaced) :]
        own = dict(zip(map(id, self.parameters), mine, strict=True))
        return exchanged(self.module, lambda t: own.get(id(t), t))

    def rows(
        self,
        outputs: Outputs,
        leaves: list[Tensor],
        v: Outputs,
        paths: list[str],
        create_graph: bool = False,
    ) -> list[Tensor]:
        """Return vᵀJ by the leaves, from some outputs of one run."""
        with self.holding(leaves):
            return gradients(outputs, leaves, v, paths, create_graph)

    def copies(self, leaves: list[Tensor]) -> Any:
        """Return the inputs with the leaves in them, all of them copied."""
        given = dict(zip(self.replaced, leaves, strict=True))
        return map_tensors(
            lambda t: given.get(id(t), t.detach()).clone(), self.inputs
        )

    def call(self, inputs: Any) -> Any:
        """Return what f makes of the inputs as they are."""
        return call_model(self.f, inputs)  # type: ignore[arg-type]


class SecondOrder:
    """The row vᵀJ of a first-order problem, by its variables and by v."""

    def __init__(self, first: FirstOrder, v: Outputs) -> None:
        self.first, self.paths = first, list(v)
        self.names = [*first.names, *(f"grad of {n}" for n in v)]
        self.values = [*first.values, *(t.clone() for t in v.values())]
        self.padding = first.padding

    def run(
        self, values: list[Tensor], *, record: bool
    ) -> tuple[list[Tensor], Outputs]:
        """Run f and its backward: the outputs are the gradients."""
        n = len(self.first.names)
        leaves, outputs = self.first.run(values[:n], record=True)
        v = [t.detach().clone().requires_grad_(record) for t in values[n:]]
        cotangents = dict(zip(self.paths, v, strict=True))
        paths = [p for p in self.paths if outputs[p].requires_grad]
        rows = self.first.rows(outputs, leaves, cotangents, paths, record)
        refuse_once_differentiable(rows if record else [])
        names = [f"gradient by {name}" for name in self.first.names]
        return [*leaves, *v], dict(zip(names, rows, strict=True))

    def rows(
        self,
        outputs: Outputs,
        leaves: list[Tensor],
        v: Outputs,
        paths: list[str],
    ) -> list[Tensor]:
        """Return vᵀJ by the leaves, from some outputs of one run."""
        with self.first.holding(leaves[: len(self.first.names)]):
            return gradients(outputs, leaves, v, paths)


def gradients(
    outputs: Outputs,
    leaves: list[Tensor],
    v: Outputs,
    paths: list[str],
    create_graph: bool = False,
) -> list[Tensor]:
    """Return vᵀJ by the leaves, from some of the outputs."""
    paths = [path for path in paths if outputs[path].requires_grad]
    if not paths:
        return [torch.zeros_like(leaf) for leaf in leaves]
    rows = torch.autograd.grad(
        [outputs[path] for path in paths],
        leaves,
        [v[path].to(outputs[path].dtype) for path in paths],
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return [row.to_dense() for row in rows]
