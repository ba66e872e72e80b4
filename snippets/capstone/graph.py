# SPDX-License-Identifier: 0BSD
"""The graph behind a loss: its size, depth, operations and leaves.

Each node is visited once, whatever the number of paths to it, so the
time is linear in the nodes and edges.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from .memory import SavedReport, SavedTensors
from .naming import (
    Named,
    dtype_name,
    is_compiled,
    named_buffers,
    named_parameters,
)
from .outputs import (
    Criterion,
    DebuggerError,
    Report,
    flatten_tensors,
    scalar_loss,
)
from .state import untouched
from .walk import Walk, depth_limit, longest_way, no_collector, walk_from


@dataclass(frozen=True)
class GraphLeaf(Report):
    """A leaf of the graph: backward adds to its `.grad`."""

    name: str  # "" for a tensor that is neither in the model nor the batch
    aliases: tuple[str, ...]  # other names of the same tensor
    shape: tuple[int, ...]  # () for a scalar
    dtype: str  # such as "float32"
    uses: int  # edges that lead to it


@dataclass(frozen=True)
class GraphReport(Report):
    """The graph behind a loss, as plain data.

    nodes: each counted once, leaves among them.
    edges: from a node to the node of an input that needs a gradient.
    depth: edges on the longest way from the loss to a leaf.
    shared: nodes that more than one edge leads to.
    ops: how many nodes of each kind, the most frequent first.
    leaves: what backward adds gradients to, in the order of the model.
    saved: what the nodes keep; None if the forward was not watched.
    notes: what the numbers do not show.
    """

    nodes: int
    edges: int
    depth: int
    shared: int
    ops: dict[str, int]
    leaves: tuple[GraphLeaf, ...]
    saved: SavedReport | None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = [f"{name} ×{n:,}" for name, n in self.ops.items()]
        more = f", and {len(counts) - 10:,} more" if len(counts) > 10 else ""
        names = [leaf.name or f"(a {leaf.shape})" for leaf in self.leaves]
        rest = f", … {len(names) - 6:,} more" if len(names) > 6 else ""
        lines = [
            f"Graph: {self.nodes:,} nodes, {self.edges:,} edges, "
            f"depth {self.depth:,}, {self.shared:,} shared",
            f"Operations: {', '.join(counts[:10])}{more}",
            f"Leaves ({len(names):,}): {', '.join(names[:6])}{rest}",
        ]
        lines += [] if self.saved is None else [str(self.saved)]
        return "\n".join([*lines, *self.notes])


def profile_graph(
    model: nn.Module,
    inputs: Any,
    targets: Any = None,
    criterion: Criterion = None,
    *,
    max_depth: int | None = None,
) -> GraphReport:
    """Run the model once, without backward, and report on its graph.

    inputs, targets, criterion: see `outputs.scalar_loss`.
    max_depth: see `walk.depth_limit`, which is the default.

    The model is left untouched. Nothing is computed twice.
    Raises DebuggerError as `scalar_loss` and `read_graph` do, and for a
    compiled model, whose operations are not in a graph.
    """
    if is_compiled(model):
        raise DebuggerError(
            "The model is compiled, so its operations are inside one "
            "CompiledFunctionBackward and cannot be counted: profile the "
            "module that was given to torch.compile."
        )
    batch = [inputs, targets]
    with untouched(model, criterion, inputs, targets):
        saved = SavedTensors(model, batch)
        try:
            with saved:
                loss = scalar_loss(model, inputs, targets, criterion)
        except DebuggerError as error:
            if "support saved tensor hooks" not in str(error):
                raise
            raise DebuggerError(
                "The model uses a transform of torch.func (grad, vjp, "
                "jacrev, hessian), in which saved tensors cannot be seen: "
                "read_graph(loss, model) gives the structure alone."
            ) from error
        return _report([loss], model, batch, saved, max_depth)


def read_graph(
    output: Any,
    model: nn.Module | None = None,
    *,
    max_depth: int | None = None,
    saved: SavedTensors | None = None,
) -> GraphReport:
    """Report on the graph behind an output that exists already.

    output: a tensor, or tensors in lists, tuples, dicts, dataclasses.
    model: names the leaves.
    max_depth: see `walk.depth_limit`, which is the default.
    saved: what watched the forward; its report is part of this one.

    Works before and after backward, and changes nothing.
    Raises DebuggerError if nothing in the output requires grad, if the
    graph is too deep, or within a transform of torch.func.
    """
    tensors = list(flatten_tensors(output).values())
    return _report(tensors, model, None, saved, max_depth)


def _report(
    tensors: list[Tensor],
    model: nn.Module | None,
    batch: Any,
    saved: SavedTensors | None,
    max_depth: int | None,
) -> GraphReport:
    if any(torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors):
        raise DebuggerError(
            "The tensor belongs to a transform of torch.func, whose graph "
            "ends with the transform and cannot be read from within."
        )
    roots = [get_gradient_edge(t).node for t in tensors if t.requires_grad]
    if not roots:
        raise DebuggerError("No graph was recorded: nothing requires grad.")
    with no_collector():
        walk = walk_from(roots, max_depth or depth_limit())
        # A custom Function may have an attribute "name": ask the type.
        names = [
            type(node).name(node).rpartition("::")[2] for node in walk.nodes
        ]
        numbers = [node._sequence_nr() for node in walk.nodes]
        ops = dict(zip(numbers, names, strict=True))
        return GraphReport(
            nodes=len(names),
            edges=sum(map(len, walk.children)),
            depth=longest_way(walk),
            shared=sum(uses > 1 for uses in walk.uses),
            ops=dict(Counter(names).most_common()),
            leaves=_leaves(walk, names, model, batch),
            saved=None if saved is None else saved.report(ops),
            notes=_notes(names),
        )


def _leaves(
    walk: Walk, names: list[str], model: nn.Module | None, batch: Any
) -> tuple[GraphLeaf, ...]:
    """The leaves, those of the model first and in its order."""
    rows: list[Named] = []
    if model is not None:
        rows += [*named_parameters(model), *named_buffers(model)]
    for path, tensor in flatten_tensors(batch, "batch").items():
        rows.append(Named(path, (), tensor))
    place = {id(row.tensor): k for k, row in reversed([*enumerate(rows)])}
    found = []
    for node, name, uses in zip(walk.nodes, names, walk.uses, strict=True):
        if name == "AccumulateGrad":
            leaf = node.variable
            k = place.get(id(leaf), len(rows))
            row = rows[k] if k < len(rows) else Named("", (), leaf)
            shape, dtype = tuple(leaf.shape), dtype_name(leaf.dtype)
            new = GraphLeaf(row.name, row.aliases, shape, dtype, uses)
            found.append((k, new))
    found.sort(key=lambda pair: pair[0])
    return tuple(leaf for _, leaf in found)


_HIDDEN = {
    "CompiledFunctionBackward": "A part was compiled: it is one "
    "CompiledFunctionBackward, and its operations are not counted.",
    "CheckpointFunctionBackward": "What a reentrant checkpoint runs and "
    "its parameters are not in the graph before backward.",
}


def _notes(names: list[str]) -> tuple[str, ...]:
    return tuple(text for name, text in _HIDDEN.items() if name in names)
