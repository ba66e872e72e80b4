# SPDX-License-Identifier: 0BSD
"""Names of the parameters, buffers and modules of a model."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy


class Named(NamedTuple):
    """A parameter or a buffer with all its names."""

    name: str  # the first name, as in `named_parameters()`
    aliases: tuple[str, ...]  # the other names of the same tensor
    tensor: Tensor


def named_parameters(model: nn.Module) -> list[Named]:
    """Return each parameter once, in the order of the model.

    A tied weight is one row with aliases. Names are those of the module
    before `torch.compile`, without "_orig_mod".
    """
    pairs = model.named_parameters(remove_duplicate=False)
    return _once(pairs)


def named_buffers(model: nn.Module) -> list[Named]:
    """Return each buffer once, in the order of the model."""
    pairs = model.named_buffers(remove_duplicate=False)
    return _once(pairs)


def _once(pairs: Iterable[tuple[str, Tensor]]) -> list[Named]:
    names: dict[int, list[str]] = {}
    tensors: dict[int, Tensor] = {}
    for name, tensor in pairs:
        tensors[id(tensor)] = tensor
        known = names.setdefault(id(tensor), [])
        if plain(name) not in known:
            known.append(plain(name))
    return [
        Named(known[0], tuple(known[1:]), tensors[key])
        for key, known in names.items()
    ]


def module_paths(model: nn.Module) -> dict[nn.Module, str]:
    """Return the first path of each module; the model's own is ""."""
    return {module: plain(path) for path, module in model.named_modules()}


def plain(name: str) -> str:
    """Return a name without the "_orig_mod" that torch.compile adds.

    >>> plain("_orig_mod.blocks.0.weight")
    'blocks.0.weight'
    """
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def has_lazy(model: nn.Module) -> bool:
    """Say whether a parameter or buffer waits for its shape."""
    return any(map(is_lazy, [*model.parameters(), *model.buffers()]))


def padding_rows(model: nn.Module) -> dict[int, int]:
    """Return by id() of a weight the row that gets no gradient, by design.

    Of embeddings with a padding_idx.
    """
    kinds = (nn.Embedding, nn.EmbeddingBag)
    return {
        id(module.weight): module.padding_idx
        for module in model.modules()
        if isinstance(module, kinds) and module.padding_idx is not None
    }


def layer_of(name: str) -> str:
    """Return the path of the module that a parameter belongs to.

    >>> layer_of("blocks.0.weight")
    'blocks.0'
    """
    return name.rpartition(".")[0]


def shown(path: str) -> str:
    """Return a module path for people: the model itself is "(model)"."""
    return path or "(model)"


def dtype_name(dtype: torch.dtype) -> str:
    """Return "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def is_compiled(model: nn.Module) -> bool:
    """Say whether the model or a part of it went through torch.compile.

    Does not import the compiler, which takes a second.
    """
    for module in model.modules():
        kind = type(module)
        if kind.__name__ == "OptimizedModule" and "_orig_mod" in (
            module._modules
        ):
            return True
        if getattr(module, "_compiled_call_impl", None) is not None:
            return True
    return False
