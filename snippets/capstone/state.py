# SPDX-License-Identifier: 0BSD
"""Leave a model as it was found."""

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .outputs import flatten_tensors


@contextlib.contextmanager
def untouched(model: nn.Module, *others: Any) -> Iterator[None]:
    """Put everything back at the end, also after an error or Ctrl-C.

        with untouched(model, criterion, inputs, targets):
            criterion(model(inputs), targets).backward()

    others: further modules, and batches: tensors, also in tuples, lists,
        dicts and dataclasses. What is neither is ignored.

    Restored: the bits of parameters, buffers and batches; which tensors
    they are; `.grad` (the same object as before); requires_grad; hooks
    of modules and tensors; training modes; lazy modules, which become
    uninitialised again; attributes of modules, such as a counter, and the
    lists, dicts and sets in them, though not what lies deeper; the random
    state of torch (CPU and each device in use), Python and NumPy; grad
    mode, anomaly mode, default dtype.

    Inside, every `.grad` is None, so that nothing adds to the old one,
    and hooks that run after a gradient was accumulated (an optimizer
    may step in one) are off. So is inference mode.

    The values are kept as a copy, because a write through `.data` or by
    a fused optimizer leaves no trace in a tensor's version: it costs the
    memory of the parameters, buffers and batches once. What still has
    the same bits is not written to. What has not is written to through
    `.data`, which does not disturb a graph that saved it.
    """
    modules = _modules(model, *others)
    with contextlib.ExitStack() as stack:
        for restore in (_keep_modes(), keep_random(modules)):
            stack.callback(restore)
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        for module in modules:
            stack.callback(_keep_module(module))
        for tensor in _tensors(modules, others):
            stack.callback(_keep_tensor(tensor))
        yield


def _modules(*given: Any) -> list[nn.Module]:
    """Each module once, with those below it."""
    found: dict[nn.Module, None] = {}
    for one in given:
        if isinstance(one, nn.Module):
            found.update(dict.fromkeys(one.modules()))
    return list(found)


def _tensors(modules: list[nn.Module], others: tuple[Any, ...]) -> list[Tensor]:
    """Each tensor once: of the modules, and in the batches."""
    found: dict[int, Tensor] = {}
    for module in modules:
        for group in (module._parameters, module._buffers, vars(module)):
            for value in list(group.values()):
                if isinstance(value, Tensor):
                    found[id(value)] = value
        own = [v for k, v in vars(module).items() if k not in _MACHINERY]
        parts = [v for v in own if isinstance(v, list | tuple | dict)]
        found |= {id(t): t for t in flatten_tensors(parts).values()}
    batches = [one for one in others if not isinstance(one, nn.Module)]
    found |= {id(t): t for t in flatten_tensors(batches).values()}
    return list(found.values())


def _keep_modes() -> Callable[[], None]:
    grad = torch.is_grad_enabled()
    anomaly = torch.is_anomaly_enabled()
    check_nan = torch.is_anomaly_check_nan_enabled()
    dtype = torch.get_default_dtype()

    def restore() -> None:
        torch.set_grad_enabled(grad)
        torch.autograd.set_detect_anomaly(anomaly, check_nan)
        torch.set_default_dtype(dtype)

    return restore


def _sources(
    modules: list[nn.Module],
) -> list[tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """How to read and how to set each random state there is."""
    found: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
        (random.getstate, random.setstate),
        (torch.get_rng_state, torch.set_rng_state),
    ]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found.append((numpy.random.get_state, numpy.random.set_state))
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, torch.Generator):
                found.append((value.get_state, value.set_state))
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        for k in range(torch.cuda.device_count()):
            read = partial(torch.cuda.get_rng_state, k)
            found.append((read, partial(torch.cuda.set_rng_state, device=k)))
    kinds = {p.device.type for m in modules for p in m.parameters()}
    if "mps" in kinds:
        found.append((torch.mps.get_rng_state, torch.mps.set_rng_state))
    return found


def random_state(modules: list[nn.Module]) -> list[Any]:
    """Return what changes when a random number is drawn, to compare."""
    return [_plain(read()) for read, _ in _sources(modules)]


def _plain(state: Any) -> Any:
    if isinstance(state, tuple):
        return tuple(map(_plain, state))
    return state.tolist() if hasattr(state, "tolist") else state


def keep_random(modules: list[nn.Module]) -> Callable[[], None]:
    """Remember all random states, and return what puts them back."""
    states = [(put, read()) for read, put in _sources(modules)]

    def restore() -> None:
        for put, state in states:
            put(state)

    return restore


_MACHINERY = frozenset(vars(nn.Module()))
_FIRST = object()


def _keep_module(module: nn.Module) -> Callable[[], None]:
    """The attributes of a module, and the dicts, lists and sets in them."""
    kind = type(module)
    before = dict(vars(module))
    inside = {
        name: value.copy()
        for name, value in before.items()
        if isinstance(value, dict | list | set)
    }

    def restore() -> None:
        if type(module) is not kind:  # it was lazy
            module.__class__ = kind
        now = vars(module)
        for name in [*before, *(n for n in now if n not in before)]:
            old, new = before.get(name, _FIRST), now.get(name, _FIRST)
            if old is new:
                continue
            if old is _FIRST:
                del now[name]
            else:
                now[name] = old
        for name, content in inside.items():
            _refill(before[name], content)

    return restore


def _refill(value: Any, content: Any) -> None:
    """Put the old content back into the same dict, list or set."""
    old = _flat(content)
    new = _flat(value)
    if len(old) == len(new) and all(map(_is, old, new)):
        return
    value.clear()
    if isinstance(value, list):
        value.extend(content)
    else:
        value.update(content)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    return list(value)


def _is(a: object, b: object) -> bool:
    return a is b


def _keep_tensor(tensor: Tensor) -> Callable[[], None]:
    kind = type(tensor)
    memory = tensor.data  # the same memory with a version of its own
    lazy = is_lazy(tensor)
    copy = None if lazy or tensor.is_meta else memory.clone()
    leaf = tensor.is_leaf
    needs_grad = tensor.requires_grad
    grad = tensor.grad if leaf else None
    hooks = [_keep_hooks(tensor, "_backward_hooks")]
    if leaf:
        hooks.append(_keep_hooks(tensor, "_post_accumulate_grad_hooks", True))
        tensor.grad = None

    def restore() -> None:
        if type(tensor) is not kind:
            tensor.__class__ = kind
        if lazy or _moved(tensor, memory):
            tensor.data = memory
        if copy is not None and not same_bits(memory, copy):
            memory.copy_(copy)
        if leaf and tensor.is_leaf:
            tensor.requires_grad = needs_grad
            tensor.grad = grad
        for hook in hooks:
            hook()

    return restore


def _keep_hooks(
    tensor: Tensor, name: str, off: bool = False
) -> Callable[[], None]:
    """Remember the hooks of a tensor. off: and switch them off."""
    hooks: dict[Any, Any] | None = getattr(tensor, name, None)
    before = None if hooks is None else dict(hooks)
    if off and hooks:
        hooks.clear()

    def restore() -> None:
        now = getattr(tensor, name, None)
        if now is not None and dict(now) != (before or {}):
            now.clear()
            now.update(before or {})

    return restore


def _moved(tensor: Tensor, memory: Tensor) -> bool:
    """Whether somebody gave the tensor other memory."""
    now = tensor.data
    if now.dtype != memory.dtype or now.device != memory.device:
        return True
    if now.layout != torch.strided or memory.layout != torch.strided:
        return now.layout != memory.layout
    return (
        now.shape != memory.shape
        or now.stride() != memory.stride()
        or now.data_ptr() != memory.data_ptr()
    )


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape are equal bit by bit.

    Unlike torch.equal it tells -0.0 from 0.0 and takes a NaN as equal to
    itself. Returns False where the bits cannot be seen (sparse tensors).
    """
    if a.layout != torch.strided or b.layout != torch.strided:
        return False
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return False
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    try:
        bits = _BITS[a.itemsize]
        x, y = (t.contiguous().reshape(-1).view(bits) for t in (a, b))
        return torch.equal(x, y)
    except (RuntimeError, NotImplementedError, KeyError):
        return False
