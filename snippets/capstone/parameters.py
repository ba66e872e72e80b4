# SPDX-License-Identifier: 0BSD
"""Parameters as people hand them over, and whether `.grad` can be changed."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .naming import dtype_name, named_parameters
from .outputs import DebuggerError

Parameters = nn.Module | Tensor | Iterable[Any]


def used_up(parameters: Parameters) -> bool:
    """Say whether it is a generator that has nothing left to give."""
    if not inspect.isgenerator(parameters):
        return False
    return inspect.getgeneratorstate(parameters) == inspect.GEN_CLOSED


def named_once(
    parameters: Parameters,
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return each parameter once by name, and the names of those repeated.

    parameters: a module; a tensor or an iterable of tensors, which are
        called parameters[0], parameters[1], …; or pairs or a mapping of
        names and tensors. A tied weight of a module is not repeated.
    Raises DebuggerError for what is no tensor.
    """
    if isinstance(parameters, nn.Module):
        return {r.name: r.tensor for r in named_parameters(parameters)}, ()
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    if isinstance(parameters, Mapping):
        parameters = parameters.items()
    found: dict[str, Tensor] = {}
    names: dict[int, str] = {}
    repeated: dict[str, None] = {}
    for k, given in enumerate(parameters):
        place = f"parameters[{k}]"
        pair = isinstance(given, tuple) and len(given) == 2
        name, tensor = given if pair else (place, given)
        if not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            raise DebuggerError(f"{name} is no tensor but {kind}.")
        if id(tensor) in names:
            repeated[names[id(tensor)]] = None
            continue
        # Two models may use one name.
        name = f"{name} ({place})" if name in found else str(name)
        names[id(tensor)], found[name] = name, tensor
    return found, tuple(repeated)


def gradient_of(parameter: Tensor) -> Tensor | None:
    """Return `.grad`; None also of a lazy parameter."""
    return None if is_lazy(parameter) else parameter.grad


def check_changeable(name: str, gradient: Tensor) -> None:
    """Raise DebuggerError if a gradient cannot be scaled in place.

    torch would find it halfway, with other gradients already scaled.
    """
    number = gradient.is_floating_point() or gradient.is_complex()
    why = ""
    if gradient.is_meta:
        why = "is on the meta device, so it has no value"
    elif not number or gradient.itemsize == 1:
        why = f"is {dtype_name(gradient.dtype)}, which cannot be scaled"
    elif gradient.is_inference() and not torch.is_inference_mode_enabled():
        why = "was made in inference mode, so it cannot be changed: clone it"
    elif gradient.layout != torch.strided or gradient.is_contiguous():
        return
    elif gradient.numel():
        steps = zip(gradient.stride(), gradient.shape, strict=True)
        if any(step == 0 and size > 1 for step, size in steps):
            why = "is expanded, its elements share memory: clone it"
    if why:
        raise DebuggerError(f"The gradient of {name} {why}.")


def by_memory(parameters: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the name of an earlier parameter with the very same gradient.

    By the name of the later one. Same: the same memory, shape and steps.
    """
    shared: dict[str, str] = {}
    owners: dict[Any, str] = {}
    for name, parameter in parameters.items():
        gradient = gradient_of(parameter)
        if gradient is None or not gradient.numel():
            continue
        key: Any = id(gradient)
        plain = type(gradient) in (Tensor, nn.Parameter)
        if plain and gradient.layout == torch.strided:
            key = gradient.data_ptr(), gradient.shape, gradient.stride()
        if key in owners:
            shared[name] = owners[key]
        owners.setdefault(key, name)
    return shared
