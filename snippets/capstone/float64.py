# SPDX-License-Identifier: 0BSD
"""A module in float64 for a while, without a copy of the module.

Parameters and buffers are exchanged for converted ones, and the module
keeps its identity: a criterion that calls the module or a part of it
sees float64 too, which a deep copy would not give.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def in_float64(model: nn.Module) -> Iterator[None]:
    """Exchange all tensors of the model for float64 copies, then go back.

    The copies are leaves that require grad where the originals do; tied
    ones stay tied; integers are copied as they are. Also covers tensors
    that are plain attributes of a module, and lists of them, as in an
    RNN. New tensors are float64 by default in this context.

    Raises what the conversion raises, such as TypeError on a device
    without float64.
    """
    before = torch.get_default_dtype()
    undo: list[tuple[Any, Any, Any]] = []
    made: dict[int, Tensor] = {}
    try:
        for module in model.modules():
            for store in (module._parameters, module._buffers, vars(module)):
                for key, value in list(store.items()):
                    new = _exchanged(value, made)
                    if new is not value:
                        undo.append((store, key, value))
                        store[key] = new
        torch.set_default_dtype(torch.float64)
        yield
    finally:
        torch.set_default_dtype(before)
        for store, key, value in reversed(undo):
            store[key] = value


def _exchanged(value: Any, made: dict[int, Tensor]) -> Any:
    if type(value) is list and value and isinstance(value[0], Tensor):
        return [_exchanged(part, made) for part in value]
    if not isinstance(value, Tensor) or nn.parameter.is_lazy(value):
        return value
    if id(value) not in made:
        new = widened(value.detach())
        new = new.clone() if new.data_ptr() == value.data_ptr() else new
        if isinstance(value, nn.Parameter):
            new = nn.Parameter(new, requires_grad=value.requires_grad)
        made[id(value)] = new
    return made[id(value)]


def widened(t: Tensor) -> Tensor:
    """Return a tensor in float64 or complex128; integers as they are."""
    if t.is_floating_point():
        return t.to(torch.float64)
    return t.to(torch.complex128) if t.is_complex() else t


def widen(value: Any) -> Any:
    """Return tuples, lists, dicts and dataclasses with widened tensors.

    The tensors are detached. What holds none is passed on.
    """
    if isinstance(value, Tensor):
        return widened(value.detach())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(widen, value))
    if isinstance(value, list | tuple):
        return type(value)(map(widen, value))
    if isinstance(value, Mapping):
        return {key: widen(part) for key, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value) if f.init]
        parts = {name: widen(getattr(value, name)) for name in names}
        return dataclasses.replace(value, **parts)
    return value
