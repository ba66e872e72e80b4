# SPDX-License-Identifier: 0BSD
"""A module in float64 for a while, without a copy of the module.

Parameters and buffers are exchanged for converted ones, and the module
keeps its identity: a criterion that calls the module or a part of it
sees float64 too, which a deep copy would not give. What the module casts
to float32 or below stays wide: many models do so for a norm, a softmax
or their loss.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


@contextmanager
def in_float64(model: nn.Module) -> Iterator[None]:
    """Exchange all tensors of the model for float64 copies, then go back.

    The copies are leaves that require grad where the originals do;
    integers are copied as they are. New tensors are float64 by default
    in this context, and casts to a narrower dtype are to float64.

    Raises what the conversion raises, such as TypeError on a device
    without float64.
    """
    before = torch.get_default_dtype()
    try:
        with exchanged(model, _wide_copy), _Wide():
            torch.set_default_dtype(torch.float64)
            yield
    finally:
        torch.set_default_dtype(before)


_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
_CASTS = (Tensor.float, Tensor.half, Tensor.bfloat16)


class _Wide(TorchFunctionMode):
    """Casts to float32 or below become casts to float64."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in _CASTS:
            func = Tensor.double
        if torch.dtype in map(type, args):
            args = [_wider(value) for value in args]
        if not kwargs:
            return func(*args)
        named = {key: _wider(value) for key, value in kwargs.items()}
        return func(*args, **named)


def _wider(value: Any) -> Any:
    if type(value) is torch.dtype:
        return _WIDER.get(value, value)
    return value


@contextmanager
def exchanged(
    model: nn.Module, change: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Exchange tensors of a model, then put the old ones back.

    change: called once for each tensor; what it returns takes its place,
        also where the tensor is tied, is a plain attribute of a module,
        or stands in a list, as in an RNN. Lazy ones stay.
    """
    undo: list[tuple[Any, Any, Any]] = []
    made: dict[int, Tensor] = {}
    try:
        for module in model.modules():
            for store in (module._parameters, module._buffers, vars(module)):
                for key, value in list(store.items()):
                    new = _exchanged(value, change, made)
                    if new is not value:
                        undo.append((store, key, value))
                        store[key] = new
        yield
    finally:
        for store, key, value in reversed(undo):
            store[key] = value


def _exchanged(
    value: Any, change: Callable[[Tensor], Tensor], made: dict[int, Tensor]
) -> Any:
    if type(value) is list and value and isinstance(value[0], Tensor):
        return [_exchanged(part, change, made) for part in value]
    if not isinstance(value, Tensor) or nn.parameter.is_lazy(value):
        return value
    if id(value) not in made:
        made[id(value)] = change(value)
    return made[id(value)]


def _wide_copy(t: Tensor) -> Tensor:
    new = widened(t.detach())
    new = new.clone() if new.data_ptr() == t.data_ptr() else new
    if isinstance(t, nn.Parameter):
        return nn.Parameter(new, requires_grad=t.requires_grad)
    return new


def widened(t: Tensor) -> Tensor:
    """Return a tensor in float64 or complex128; integers as they are."""
    if t.is_floating_point():
        return t.to(torch.float64)
    return t.to(torch.complex128) if t.is_complex() else t


def widen(value: Any) -> Any:
    """Return a batch with its tensors detached and widened."""
    return map_tensors(lambda t: widened(t.detach()), value)


def wide_leaves(value: Any) -> Any:
    """Return a batch as `widen` does, requiring grad where it did."""
    return map_tensors(
        lambda t: widened(t.detach()).requires_grad_(t.requires_grad), value
    )


def map_tensors(change: Callable[[Tensor], Any], value: Any) -> Any:
    """Return the value with each tensor in it exchanged.

    value: a tensor, or tensors in tuples, lists, mappings (which become
        dicts) and dataclasses. Anything else is passed on.
    """
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(change, part) for part in value))
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(change, part) for part in value)
    if isinstance(value, Mapping):
        return {key: map_tensors(change, value[key]) for key in value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value) if f.init]
        old = {name: getattr(value, name) for name in names}
        return dataclasses.replace(value, **map_tensors(change, old))
    return value
