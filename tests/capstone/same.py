"""Is a model as it was? Everything that the tool promises to leave alone, as plain data that can be compared."""

import random
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from snippets.capstone.outputs import flatten_tensors

HOOKS = [name for name in vars(nn.Module()) if "hooks" in name]


def bits(tensor: Tensor | None) -> Any:
    if tensor is None or is_lazy(tensor):
        return None
    if tensor.layout != torch.strided:
        return tensor.to_dense().numpy().tobytes()
    return tensor.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def photo(model: nn.Module, *others: Any) -> dict[str, Any]:
    """The state of a model and of batches, by name."""
    taken: dict[str, Any] = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "python": random.getstate(),
        "modes": (torch.is_grad_enabled(), torch.is_anomaly_enabled(), torch.get_default_dtype()),
    }
    if "numpy" in sys.modules:
        taken["numpy"] = repr(sys.modules["numpy"].random.get_state())
    modules = [m for one in (model, *others) if isinstance(one, nn.Module) for m in one.modules()]
    for k, module in enumerate(modules):
        taken[f"module {k}"] = type(module), module.training
        taken[f"hooks {k}"] = {name: list(getattr(module, name)) for name in HOOKS if getattr(module, name) is not None}
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            taken[f"{k} {name}"] = tensor_photo(tensor)
    batches = [one for one in others if not isinstance(one, nn.Module)]
    for name, tensor in flatten_tensors(batches).items():
        taken[name] = tensor_photo(tensor)
    return taken


def tensor_photo(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    grad = tensor.grad if tensor.is_leaf else None
    hooks = [dict(getattr(tensor, name, None) or {}) for name in ("_backward_hooks", "_post_accumulate_grad_hooks")]
    kind = id(tensor), type(tensor), tensor.requires_grad, None if is_lazy(tensor) else tensor.data_ptr()
    return kind, bits(tensor), None if grad is None else id(grad), bits(grad), hooks


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of what is not as it was."""
    return [name for name in before | after if before.get(name) != after.get(name)]
