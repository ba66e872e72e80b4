# SPDX-License-Identifier: 0BSD
"""The dynamic graph: the functions that the chapter shows.

Each section stands alone: it imports what it uses.
"""
# Sections repeat their imports.

# --8<-- [start:inspect]
# SPDX-License-Identifier: 0BSD
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd.graph import get_gradient_edge


def nodes_of(output: Tensor, *, limit: int = 20_000) -> list[Any]:
    """Return every node behind the output once, the output's node first.

    It does not call itself, and a node with many paths to it is visited
    once, so the time is linear in the number of nodes.

    limit: how many nodes may be visited. On torch 2.13 a graph that is
        deeper than about 40,000 and was walked from Python overflows the
        C stack (8 MiB) when it is freed.

    Returns an empty list if the output does not require grad.
    Raises RecursionError above the limit.
    Source: torch.autograd.graph.Node
    """
    if not output.requires_grad:
        return []
    root = get_gradient_edge(output).node
    found = {id(root): root}
    waiting: list[Any] = [root]
    while waiting:
        for child, _ in waiting.pop().next_functions:
            if child is not None and id(child) not in found:
                found[id(child)] = child
                waiting.append(child)
        if len(found) > limit:
            raise RecursionError(f"The graph has more than {limit:,} nodes.")
    return list(found.values())


class Saved(NamedTuple):
    """One tensor that a node keeps for its backward."""

    node: str  # such as "MulBackward0"
    name: str  # what the formula calls it, such as "self", "result"
    state: str  # "live", "freed", or "modified" (backward will raise)
    tensor: Tensor | None  # None unless live


def saved_tensors(output: Tensor, *, limit: int = 20_000) -> list[Saved]:
    """Return what the nodes behind the output have saved.

    A saved tensor is read as backward reads it: hooks of
    saved_tensors_hooks run, and a checkpoint recomputes its block.
    The attributes of nodes are private to torch and may change.

    Raises RecursionError as `nodes_of` does.
    Source: https://docs.pytorch.org/docs/stable/notes/autograd.html
    """
    return [
        saved
        for node in nodes_of(output, limit=limit)
        for saved in _saved_by(node)
    ]


def _saved_by(node: Any) -> list[Saved]:
    kind = type(node).name(node)
    names = [n for n in dir(type(node)) if n.startswith("_saved_")]
    if hasattr(type(node), "saved_tensors"):  # a custom Function
        names = ["saved_tensors"]
    rows = []
    for name in names:
        short = name.removeprefix("_saved_")
        try:
            value = getattr(node, name)
        except RuntimeError as error:
            state = "freed" if "second time" in str(error) else "modified"
            rows.append(Saved(kind, short, state, None))
            continue
        many = isinstance(value, list | tuple)
        for k, tensor in enumerate(value if many else [value]):
            if isinstance(tensor, Tensor):
                label = f"{short}[{k}]" if many else short
                rows.append(Saved(kind, label, "live", tensor))
    return rows


def why_no_grad(tensor: Tensor, loss: Tensor | None = None) -> str:
    """Say in a sentence why `tensor.grad` is None, or that it is not.

    loss: what backward was, or will be, called on. With it, the graph is
        searched for the tensor. Runs nothing and changes nothing.

    Raises RecursionError if the graph of the loss has more than 20,000
    nodes.
    """
    if tensor.is_inference():
        return "It was made in inference_mode, so nothing was recorded."
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return f"{tensor.dtype} cannot require grad, only floats can."
    if not tensor.requires_grad:
        return "It does not require grad, or no_grad or detach() cut it off."
    node = get_gradient_edge(tensor).node
    if not tensor.is_leaf and not tensor.retains_grad:
        made_by = type(node).name(node)
        return f"It is no leaf, {made_by} made it: call retain_grad() first."
    if tensor.grad is not None:
        return "It has a .grad."
    if loss is not None and not loss.requires_grad:
        return "The loss does not require grad: its history was cut."
    if loss is not None:
        if all(other is not node for other in nodes_of(loss)):
            return "The loss was not computed from it, or was cut off."
        return "The loss depends on it: call backward()."
    return "It will have one after the backward of what depends on it."


# --8<-- [end:inspect]


# --8<-- [start:detached]
# SPDX-License-Identifier: 0BSD
import copy
import dataclasses
from typing import TypeVar

from torch import Tensor

State = TypeVar("State")


def detached(state: State) -> State:
    """Return the same structure with every tensor cut from its graph.

    For a state that goes from one window of a sequence to the next.
    The values are not copied: old and new tensors share their memory.

    state: tensors in tuples, lists, dicts and dataclasses. Anything else
        is passed through as it is.
    """
    return _detached(state)  # type: ignore[no-any-return]


def _detached(part):  # type: ignore[no-untyped-def]
    if isinstance(part, Tensor):
        return part.detach()
    if isinstance(part, dict):
        mapping = copy.copy(part)
        for key in part:
            mapping[key] = _detached(part[key])
        return mapping
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(_detached, part))
    if isinstance(part, list | tuple):
        return type(part)(map(_detached, part))
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        twin = copy.copy(part)  # also where __init__ takes other things
        for field in dataclasses.fields(part):
            # A frozen dataclass refuses setattr.
            value = _detached(getattr(part, field.name))
            object.__setattr__(twin, field.name, value)
        return twin
    return part


# --8<-- [end:detached]
