# SPDX-License-Identifier: 0BSD
"""Watch every operation for NaN and inf, forwards and backwards.

A dispatch mode sees what each operation returns, inside composite
functions, custom Functions and the engine too. What is not finite is
followed through memory: a result that is not finite belongs to the first
sighting among its inputs, so that a mask of −inf, or a NaN that `where`
throws away, is not taken for the cause of another one.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from .finite import memory, not_finite, zero_where_nan
from .naming import dtype_name
from .outputs import flatten_tensors
from .places import Place, here, of_node, origin, title


@dataclass(frozen=True)
class Sighting:
    """The first result of an operation that holds NaN or inf.

    kind: "nan" if there is any, else "inf".
    phase: "inputs", "parameters", "forward", "loss" or "backward".
    op: name of the operation, such as "aten.div"; the name of the tensor
        in the phases "inputs" and "parameters".
    node: of the graph, in whose backward it happened, or "".
    order: 1, in the backward of what the forward did; 2, in the backward
        of a backward.
    module: path of the innermost module that was running (for a
        backward: when the forward made the node).
    shape, dtype: of the result; numel, nan, inf: counts in it.
    cause: index of the sighting of inf that this NaN was made from.
    filled: a constant was written, as for a mask.
    zeros: what is NaN here was 0 in an input of the same shape.
    """

    kind: str
    phase: str
    op: str
    node: str
    order: int
    module: str
    place: Place
    shape: tuple[int, ...]
    dtype: str
    numel: int
    nan: int
    inf: int
    cause: int | None
    filled: bool
    zeros: bool

    @property
    def operation(self) -> str:
        """The name that people write: "sqrt" for SqrtBackward0."""
        if not self.node or self.order == 0:
            return self.op.rstrip("_")
        name = self.node.rpartition(" of ")[2]
        name = name.rstrip("0123456789").removesuffix("Backward")
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
        return snake.lstrip("_")


# They return memory as it is, or write a constant.
_UNSET = ("empty", "new_empty", "empty_like", "empty_strided", "resize_")
_FILLS = (
    *("fill", "fill_", "full", "full_like", "new_full", "masked_fill"),
    *("masked_fill_", "scalar_tensor", "lift_fresh", "lift_fresh_copy"),
)


class Watch(TorchDispatchMode):
    """Collects sightings while it is entered. Keeps no tensor.

    modules: paths of the modules, for `entered`.
    """

    def __init__(self, modules: dict[nn.Module, str]) -> None:
        super().__init__()
        self.modules = modules
        self.phase = "forward"
        self.sightings: list[Sighting] = []
        self._at: dict[int, int] = {}  # address of memory: its sighting
        self._stack: list[str] = []
        self._spans: list[list[Any]] = []  # [first, last node, path]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not, because torch would import the compiler for it: seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the operation and look at its results."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.rpartition("::")[2]
        if name not in _UNSET:
            for t in flatten_tensors(result).values():
                self._look(func, name, args, kwargs, t)
        return result

    def _look(
        self, func: Any, name: str, args: Any, kwargs: Any, t: Tensor
    ) -> None:
        counts = not_finite(t)
        at = memory(t)
        if not any(counts):
            if at and t.numel() * t.itemsize == at[1]:
                self._at.pop(at[0], None)
            return
        parents = self._parents(func, args, kwargs)
        known = [k for k in parents if self.sightings[k].kind == "nan"]
        if not known and not counts[0]:
            known = parents
        if not known:
            known = [len(self.sightings)]
            cause = min(parents, default=None)
            zeros = zero_where_nan(t, args) if counts[0] else False
            self.sightings.append(self._sighting(name, t, counts, cause, zeros))
        if at:
            self._at[at[0]] = min(known)

    def _parents(self, func: Any, args: Any, kwargs: Any) -> list[int]:
        """The sightings of the inputs. What was written to counts if it
        was not finite before."""
        found = []
        for k, argument in enumerate(func._schema.arguments):
            value = kwargs.get(argument.name)
            value = args[k] if k < len(args) else value
            info = argument.alias_info
            written = info is not None and info.is_write
            for t in flatten_tensors(value).values():
                at = self.of(t)
                if at is not None and (written or any(not_finite(t))):
                    found.append(at)
                elif not written and any(not_finite(t)):
                    name = "a tensor made before"
                    found.append(self.given(name, t, "forward"))
        return found

    def of(self, t: Tensor) -> int | None:
        """Return the sighting behind a tensor that is not finite."""
        at = memory(t)
        return self._at.get(at[0]) if at else None

    def given(self, name: str, t: Tensor, phase: str) -> int:
        """Note a tensor that was not finite from the start."""
        mask = not isinstance(t, nn.Parameter)  # or may be one
        self.sightings.append(
            _sighting_of(t, not_finite(t), phase, name, self._path(), mask)
        )
        at = memory(t)
        if at:
            self._at[at[0]] = len(self.sightings) - 1
        return len(self.sightings) - 1

    def _path(self) -> str:
        return self._stack[-1] if self._stack else ""

    def _sighting(
        self,
        name: str,
        t: Tensor,
        counts: tuple[int, int],
        cause: int | None,
        zeros: bool,
    ) -> Sighting:
        node = torch._C._current_autograd_node()
        path, place, order, name_of = self._path(), here(), 0, ""
        phase = self.phase
        if node is not None:
            phase, name_of = "backward", title(node)
            order, root = origin(node)
            if order > 1:
                name_of = f"{name_of} of {title(root)}"
            place = of_node(root)
            path = self._path_of(root)
        filled = name in _FILLS
        return Sighting(
            "nan" if counts[0] else "inf",
            phase,
            name,
            name_of,
            order,
            path,
            place,
            tuple(t.shape),
            dtype_name(t.dtype),
            t.numel(),
            *counts,
            cause,
            filled,
            zeros,
        )

    def _path_of(self, node: Any) -> str:
        """The innermost module that was running when a node was made."""
        number = node._sequence_nr()
        for first, last, path in reversed(self._spans):
            if first < number <= last:
                return str(path)
        return ""

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Know which module runs, through forward hooks."""
        with ExitStack() as stack:
            for module, path in self.modules.items():
                if isinstance(module, torch.jit.ScriptModule):
                    continue  # takes no hooks; it counts to its caller
                before = module.register_forward_pre_hook(self._enter(path))
                after = module.register_forward_hook(
                    self._leave, always_call=True
                )
                stack.callback(before.remove)
                stack.callback(after.remove)
            yield

    def _enter(self, path: str) -> Any:
        def hook(module: nn.Module, args: Any) -> None:
            self._stack.append(path)
            self._spans.append([_next_node(), float("inf"), path])

        return hook

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._stack:
            path = self._stack.pop()
            for span in reversed(self._spans):
                if span[2] == path and span[1] == float("inf"):
                    span[1] = _next_node()
                    break


def _sighting_of(
    t: Tensor,
    counts: tuple[int, int],
    phase: str,
    name: str,
    path: str,
    filled: bool,
) -> Sighting:
    kind = "nan" if counts[0] else "inf"
    shape, dtype = tuple(t.shape), dtype_name(t.dtype)
    size = (shape, dtype, t.numel(), *counts)
    place = Place()
    return Sighting(
        kind, phase, name, "", 0, path, place, *size, None, filled, False
    )


def _next_node() -> int:
    """The number that the next nodes of the graph will be above.

    Asked for, because in anomaly mode a node to look at is slow to make.
    """
    number = getattr(torch._C._autograd, "_get_sequence_nr", None)
    if number is not None:
        return int(number()) - 1
    with torch.enable_grad(), torch.inference_mode(False):
        probe = torch.zeros((), device="cpu", requires_grad=True) * 1
    return int(probe.grad_fn._sequence_nr())  # type: ignore[union-attr]
