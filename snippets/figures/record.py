# SPDX-License-Identifier: 0BSD
"""Record one real forward and one real backward.

    trace = record(lambda x, w: (x * w).tanh(), x=2.0, w=3.0)

The trace says what each node saved, what it received and returned, in
which order the nodes ran, and when the saved tensors were freed.
"""
# Nodes of the graph have no types in torch.
# mypy: disable-error-code="no-untyped-call"

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode

MOST_NODES = 2000  # a chain of 40,000 nodes seen from Python cannot be freed
MOST_NUMBERS = 64  # a larger tensor keeps its shape and its bytes only


@dataclass(frozen=True)
class Value:
    """A tensor as it was at one moment.

    shape: as in torch. dtype: "float32". nbytes: of the elements, in
    bytes. numbers: the elements in row-major order, or () where there
    are more than `MOST_NUMBERS`. storage: the same number for tensors
    that share memory, within one trace.
    """

    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    numbers: tuple[complex | float, ...] = ()
    storage: int = -1

    @property
    def text(self) -> str:
        """The number of a scalar to four digits, else the shape."""
        if self.shape == () and self.numbers:
            return brief(self.numbers[0])
        return str(self.shape)


def brief(number: complex | float) -> str:
    """At most four significant digits: 14, 0.8415, 1e-09."""
    return f"{number or 0:.4g}"  # no minus before a zero


@dataclass(frozen=True)
class Leaf:
    """An input of the formula. The graph ends there."""

    name: str
    value: Value
    needs_grad: bool


@dataclass(frozen=True)
class Saved:
    """A tensor that a node keeps for its backward."""

    name: str
    value: Value


@dataclass(frozen=True)
class Node:
    """A backward function. `outputs` are what its forward op made."""

    name: str
    outputs: tuple[Value, ...]
    saved: tuple[Saved, ...]

    @property
    def op(self) -> str:
        """Mul for MulBackward0."""
        return self.name.partition("Backward")[0] or self.name


@dataclass(frozen=True)
class Road:
    """From the thing that made a tensor to the node that took it.

    Things are numbered: first the leaves, then the nodes. `slot` is the
    place in the node's `next_functions`, and so in what it returns;
    None where no gradient flows.
    """

    source: int
    output: int
    target: int
    slot: int | None


@dataclass(frozen=True)
class Event:
    """One node ran in backward. `thing`: a node, or a leaf for the
    AccumulateGrad there. `freed`: the nodes whose saved tensors were
    gone when it began. `grads`: every `.grad` after it ended."""

    thing: int
    received: tuple[Value | None, ...]
    returned: tuple[Value | None, ...]
    freed: tuple[int, ...]
    grads: dict[str, Value]


@dataclass(frozen=True, eq=False)
class Trace:
    """One run. `last` is the node of the result, `freed` what was gone
    after backward."""

    leaves: tuple[Leaf, ...]
    nodes: tuple[Node, ...]
    roads: tuple[Road, ...]
    events: tuple[Event, ...]
    freed: tuple[int, ...]
    grads: dict[str, Value]
    last: tuple[int, int]

    def node(self, thing: int) -> Node:
        return self.nodes[thing - len(self.leaves)]

    @property
    def result(self) -> Value:
        return self.node(self.last[0]).outputs[self.last[1]]

    def held(self, freed: Iterable[int] = ()) -> int:
        """Bytes of the saved tensors that live, shared memory once."""
        first, gone = len(self.leaves), set(freed)
        kept = {
            saved.value.storage: saved.value.nbytes
            for thing, node in enumerate(self.nodes, first)
            for saved in node.saved
            if thing not in gone
        }
        return sum(kept.values())


class _Reader:
    """Makes values, and gives the same storage the same number."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}

    def value(self, tensor: Tensor) -> Value:
        shape, few = tuple(tensor.shape), tensor.numel() <= MOST_NUMBERS
        plain = tensor.detach()
        numbers = tuple(plain.flatten().tolist()) if few else ()
        key = plain.untyped_storage().data_ptr()
        storage = self.seen.setdefault(key, len(self.seen))
        dtype = str(tensor.dtype).removeprefix("torch.")
        return Value(shape, dtype, plain.nbytes, numbers, storage)

    def values(self, tensors: Iterable[Any]) -> tuple[Value | None, ...]:
        return tuple(
            self.value(t) if isinstance(t, Tensor) else None for t in tensors
        )


class _Tape(TorchFunctionMode):
    """Notes every result that has a node, and the tensors behind it."""

    def __init__(self, read: _Reader) -> None:
        super().__init__()
        self.read = read
        self.made: dict[tuple[Any, int], Value] = {}
        self.given: dict[Any, list[Tensor]] = {}
        self.kept: list[Any] = []  # a storage must not be used again

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for each in out if isinstance(out, tuple | list) else [out]:
            if isinstance(each, Tensor) and each.grad_fn is not None:
                self.kept.append(each)
                self.made[each.grad_fn, each.output_nr] = self.read.value(each)
                given = [a for a in args if isinstance(a, Tensor)]
                self.given.setdefault(each.grad_fn, given)
        return out


def _saved(node: Any) -> list[tuple[str, Tensor]]:
    """The saved tensors of a node, the operand before the others.

    Raises RuntimeError once they are freed.
    """
    found = []
    names = [name for name in dir(node) if name.startswith("_saved_")]
    first = ("_saved_self", "_saved_input")
    for name in sorted(names, key=lambda name: (name not in first, name)):
        value = getattr(node, name)
        if isinstance(value, Tensor):
            found.append((name.removeprefix("_saved_"), value))
    if hasattr(node, "saved_tensors"):  # a custom Function
        for k, value in enumerate(node.saved_tensors):
            if isinstance(value, Tensor):
                found.append((f"saved_tensors[{k}]", value))
    return found


def _hidden(metadata: Any) -> Value:
    """What a node says of an output that no Python code ever held."""
    dtype = str(metadata.dtype).removeprefix("torch.")
    size = math.prod(metadata.shape) * metadata.dtype.itemsize
    return Value(tuple(metadata.shape), dtype, size)


def _gone(node: Any) -> bool:
    try:
        _saved(node)
    except RuntimeError:
        return True
    return False


def _reached(output: Tensor) -> list[Any]:
    """All nodes behind a tensor, in the order of their creation."""
    found, todo = {output.grad_fn}, [output.grad_fn]
    while todo:
        node: Any = todo.pop()
        for other, _ in node.next_functions:
            if other is not None and other not in found:
                found.add(other)
                todo.append(other)
                if len(found) > MOST_NODES:
                    raise ValueError(f"more than {MOST_NODES} nodes")
    return sorted(found, key=lambda node: node._sequence_nr())


def record(
    formula: Callable[..., Tensor],
    v: Tensor | None = None,
    **inputs: float | Tensor,
) -> Trace:
    """Run `formula(**inputs)` forward and backward; say what happened.

    inputs: a number becomes a leaf of shape () that requires grad; a
        tensor is taken as it is, and with `requires_grad=False` it is
        drawn as an input without a gradient.
    v: the cotangent, needed where the result has more than one element.

    Raises ValueError if nothing in the result requires grad or if the
    graph has more than `MOST_NODES` nodes.
    """
    read = _Reader()
    tensors = {
        name: given
        if isinstance(given, Tensor)
        else torch.tensor(given, requires_grad=True)
        for name, given in inputs.items()
    }
    with _Tape(read) as tape:
        result = formula(**tensors)
    if result.grad_fn is None:
        raise ValueError("the result does not require grad")

    every = _reached(result)
    ends = {node.variable: node for node in every if hasattr(node, "variable")}
    names = {id(tensor): name for name, tensor in tensors.items()}
    for k, tensor in enumerate(ends):
        if id(tensor) not in names:  # a parameter that the formula brought
            names[id(tensor)] = f"p{k}"
            tensors[f"p{k}"] = tensor
    leaves = tuple(
        Leaf(name, read.value(tensor), tensor.requires_grad)
        for name, tensor in tensors.items()
    )
    # Kept: the hooks on an AccumulateGrad vanish together with it.
    things: list[Any] = [
        get_gradient_edge(t).node if t.requires_grad and t.is_leaf else None
        for t in tensors.values()
    ]
    things += [node for node in every if not hasattr(node, "variable")]
    index = {node: k for k, node in enumerate(things) if node is not None}
    fixed = {
        id(t): k for k, t in enumerate(tensors.values()) if not t.requires_grad
    }

    nodes, roads = [], []
    for k, node in enumerate(things[len(leaves) :], len(leaves)):
        metadata = node._input_metadata
        outputs = tuple(
            tape.made.get((node, nr)) or _hidden(m)
            for nr, m in enumerate(metadata)
        )
        saved = tuple(Saved(n, read.value(t)) for n, t in _saved(node))
        nodes.append(Node(node.name().split("::")[-1], outputs, saved))
        flows = [
            Road(index[other], nr, k, slot)
            for slot, (other, nr) in enumerate(node.next_functions)
            if other is not None
        ]
        for place, tensor in enumerate(tape.given.get(node, [])):
            if id(tensor) in fixed:
                flows.insert(place, Road(fixed[id(tensor)], 0, k, None))
        roads += flows

    events: list[Event] = []
    begun: dict[int, tuple[int, ...]] = {}

    def freed() -> tuple[int, ...]:
        first = len(leaves)
        return tuple(k for k, n in enumerate(things[first:], first) if _gone(n))

    def grads() -> dict[str, Value]:
        return {
            name: read.value(tensor.grad)
            for name, tensor in tensors.items()
            if tensor.is_leaf and tensor.grad is not None
        }

    def watch(k: int, node: Any) -> None:
        def before(received: tuple[Tensor, ...]) -> None:
            begun[k] = freed()

        def after(returned: Any, received: Any) -> None:
            # In this hook the node's own saved tensors still live.
            got, gave = read.values(received), read.values(returned)
            events.append(Event(k, got, gave, begun[k], grads()))

        node.register_prehook(before)
        node.register_hook(after)

    for k, node in enumerate(things):
        if node is not None:
            watch(k, node)
    last = (index[result.grad_fn], result.output_nr)
    result.backward(v)
    return Trace(
        leaves,
        tuple(nodes),
        tuple(roads),
        tuple(events),
        freed(),
        grads(),
        last,
    )
