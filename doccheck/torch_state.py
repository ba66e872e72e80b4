"""Torch state: what a page can change in torch for the whole process, each saved by a call that returns its undoing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as nn_module
from torch.utils._device import DeviceContext

# Hooks that apply to every module of the process live in these dictionaries.
GLOBAL_HOOKS = [name for name in vars(nn_module) if name.startswith("_global_") and name.endswith(("hooks", "kwargs"))]


def determinism() -> Callable[[], None]:
    level = torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]

    def restore() -> None:
        torch.set_deterministic_debug_mode(level)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]

    return restore


def printing() -> Callable[[], None]:
    options = torch._tensor_str.PRINT_OPTS
    saved = copy.copy(options)
    return lambda: vars(options).update(vars(saved))


def module_hooks() -> Callable[[], None]:
    saved = {name: copy.copy(getattr(nn_module, name)) for name in GLOBAL_HOOKS}
    flag = nn_module._global_is_full_backward_hook

    def restore() -> None:
        for name, value in saved.items():
            current = getattr(nn_module, name)
            current.clear()
            current.update(value)
        nn_module._global_is_full_backward_hook = flag

    return restore


def attention() -> Callable[[], None]:
    cuda = torch.backends.cuda
    names = [name for name in ("flash", "mem_efficient", "math", "cudnn") if hasattr(cuda, f"{name}_sdp_enabled")]
    saved = {name: getattr(cuda, f"{name}_sdp_enabled")() for name in names}

    def restore() -> None:
        for name, value in saved.items():
            getattr(cuda, f"enable_{name}_sdp")(value)

    return restore


def precision() -> Callable[[], None]:
    """TF32 and its like have an old and a new interface; where a page mixes them, even asking the old one raises."""
    backends: Any = torch.backends
    inner = [getattr(owner, name, None) for owner in (backends.cudnn, backends.mkldnn) for name in ("conv", "rnn")]
    owners = [backends, backends.cudnn, backends.mkldnn, backends.cuda.matmul, *inner]
    owners += [getattr(backends.mkldnn, "matmul", None)]
    new = [(owner, owner.fp32_precision) for owner in owners if hasattr(owner, "fp32_precision")]
    old, convolutions = torch.get_float32_matmul_precision(), backends.cudnn.allow_tf32

    def restore() -> None:
        torch.set_float32_matmul_precision(old)
        backends.cudnn.allow_tf32 = convolutions
        for owner, value in new:
            if owner.fp32_precision != value:
                owner.fp32_precision = value

    return restore


def saved_tensor_hooks() -> Callable[[], None]:
    """Default hooks of saved tensors form a stack without a way to ask for its depth: they are popped by identity."""
    autograd: Any = torch._C._autograd
    top = getattr(autograd, "_top_saved_tensors_default_hooks", lambda ignore_is_tracing: None)
    before = top(True)

    def restore() -> None:
        while (now := top(True)) is not None and now != before:
            autograd._pop_saved_tensors_default_hooks()

    return restore


def modes() -> Callable[[], None]:
    """Modes of torch that were entered and not left. The default device is one of them, and has its own setting."""
    dispatch: Any = torch.utils._python_dispatch
    overrides: Any = torch.overrides
    calls, operations = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()

    def restore() -> None:
        while torch._C._len_torch_dispatch_stack() > operations:
            dispatch._pop_mode()
        popped = [overrides._pop_mode() for _ in range(torch._C._len_torch_function_stack() - calls)]
        for mode in reversed(popped):
            if isinstance(mode, DeviceContext):
                overrides._push_mode(mode)

    return restore


def dual_levels() -> Callable[[], None]:
    forward_ad: Any = torch.autograd.forward_ad
    level = forward_ad._current_level

    def restore() -> None:
        while forward_ad._current_level > level:
            forward_ad.exit_dual_level()

    return restore


def autocast() -> Callable[[], None]:
    saved = [(name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in ("cpu", "cuda")]

    def restore() -> None:
        for name, enabled, dtype in saved:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, dtype)

    return restore


def default_device() -> Callable[[], None]:
    def restore() -> None:
        torch.set_default_device(None)

    return restore


def set_threads(count: int) -> None:
    if torch.get_num_threads() != count:  # setting it again starts the pool anew
        torch.set_num_threads(count)


def flushes_denormals() -> bool:
    """Torch can be told, and not asked."""
    return (torch.full((1,), 1e-40, dtype=torch.float32, device="cpu") * 1).item() == 0
