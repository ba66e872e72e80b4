"""Isolation: every page starts from the same state of torch, Python and the process, and leaves nothing behind."""

from __future__ import annotations

import builtins
import contextlib
import copy
import decimal
import gc
import locale
import logging
import math
import os
import pdb
import random
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import torch
from torch.nn.modules import module as nn_module
from torch.utils._device import DeviceContext

# What a page may patch by hand, say to count calls.
PATCHED: list[Any] = [builtins, math, random, numpy, torch, torch.Tensor, torch.autograd, torch.autograd.Function]
PATCHED += [torch.autograd.graph, torch.func, torch.nn, torch.nn.Module, torch.nn.functional, torch.utils.checkpoint]
# Hooks that apply to every module of the process live in these dictionaries.
GLOBAL_HOOKS = [name for name in vars(nn_module) if name.startswith("_global_") and name.endswith(("hooks", "kwargs"))]


def _setting(read: Callable[[], Any], write: Callable[[Any], Any]) -> Callable[[], Callable[[], Any]]:
    def save() -> Callable[[], Any]:
        value = read()
        return lambda: write(value)

    return save


def _determinism() -> Callable[[], None]:
    level = torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]

    def restore() -> None:
        torch.set_deterministic_debug_mode(level)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]

    return restore


def _attributes(owner: Any, *names: str) -> Callable[[], Callable[[], None]]:
    def save() -> Callable[[], None]:
        values = {name: getattr(owner, name) for name in names if hasattr(owner, name)}

        def restore() -> None:
            for name, value in values.items():
                if getattr(owner, name) != value:
                    setattr(owner, name, value)

        return restore

    return save


def _printing() -> Callable[[], None]:
    options = torch._tensor_str.PRINT_OPTS
    saved = copy.copy(options)
    return lambda: vars(options).update(vars(saved))


def _numpy_printing() -> Callable[[], None]:
    saved, errors = numpy.get_printoptions(), numpy.geterr()

    def restore() -> None:
        numpy.set_printoptions(**saved)
        numpy.seterr(**errors)

    return restore


def _module_hooks() -> Callable[[], None]:
    saved = {name: copy.copy(getattr(nn_module, name)) for name in GLOBAL_HOOKS}
    flag = nn_module._global_is_full_backward_hook

    def restore() -> None:
        for name, value in saved.items():
            current = getattr(nn_module, name)
            current.clear()
            current.update(value)
        nn_module._global_is_full_backward_hook = flag

    return restore


def _attention() -> Callable[[], None]:
    cuda = torch.backends.cuda
    names = [name for name in ("flash", "mem_efficient", "math", "cudnn") if hasattr(cuda, f"{name}_sdp_enabled")]
    saved = {name: getattr(cuda, f"{name}_sdp_enabled")() for name in names}

    def restore() -> None:
        for name, value in saved.items():
            getattr(cuda, f"enable_{name}_sdp")(value)

    return restore


def _precision() -> Callable[[], None]:
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


def _environment() -> Callable[[], None]:
    saved = dict(os.environ)

    def restore() -> None:
        if dict(os.environ) != saved:
            os.environ.clear()
            os.environ.update(saved)

    return restore


def _pyplot() -> Callable[[], None]:
    def restore() -> None:
        if "matplotlib.pyplot" in sys.modules:
            import matplotlib
            from matplotlib import pyplot

            pyplot.close("all")
            backend = matplotlib.get_backend()
            matplotlib.rcdefaults()
            matplotlib.use(backend)

    return restore


def _handlers() -> Callable[[], None]:
    """Logging starts as in a script: pytest's handlers would turn `basicConfig` into nothing."""
    level, handlers = logging.root.level, list(logging.root.handlers)
    logging.root.setLevel(logging.WARNING)
    logging.root.handlers.clear()

    def restore() -> None:
        logging.root.setLevel(level)
        logging.root.handlers[:] = handlers

    return restore


def _modules() -> Callable[[], None]:
    """Each page imports snippets anew, so that what they keep does not reach the next page."""

    def take() -> dict[str, ModuleType]:
        names = [name for name in sys.modules if name.partition(".")[0] == "snippets"]
        return {name: sys.modules.pop(name) for name in names}

    main, path, before = sys.modules["__main__"], list(sys.path), take()

    def restore() -> None:
        take()
        sys.modules.update(before)
        sys.modules["__main__"] = main
        sys.path[:] = path

    return restore


def _saved_tensor_hooks() -> Callable[[], None]:
    """Default hooks of saved tensors form a stack without a way to ask for its depth: they are popped by identity."""
    autograd: Any = torch._C._autograd
    top = getattr(autograd, "_top_saved_tensors_default_hooks", lambda ignore_is_tracing: None)
    before = top(True)

    def restore() -> None:
        while (now := top(True)) is not None and now != before:
            autograd._pop_saved_tensors_default_hooks()

    return restore


def _modes() -> Callable[[], None]:
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


def _dual_levels() -> Callable[[], None]:
    forward_ad: Any = torch.autograd.forward_ad
    level = forward_ad._current_level

    def restore() -> None:
        while forward_ad._current_level > level:
            forward_ad.exit_dual_level()

    return restore


def _autocast() -> Callable[[], None]:
    saved = [(name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in ("cpu", "cuda")]

    def restore() -> None:
        for name, enabled, dtype in saved:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, dtype)

    return restore


def _patches() -> Callable[[], None]:
    """What a page put in the place of a function or method; modules that were imported meanwhile stay."""
    saved = [(owner, dict(vars(owner))) for owner in PATCHED]

    def restore() -> None:
        for owner, before in saved:
            now = dict(vars(owner))
            for name, value in now.items():
                private = isinstance(owner, ModuleType) and name.startswith("_")
                if private or value is before.get(name) or isinstance(value, ModuleType):
                    continue
                if name in before:
                    setattr(owner, name, before[name])
                else:
                    delattr(owner, name)
            for name in before.keys() - now.keys():
                setattr(owner, name, before[name])

    return restore


def _default_device() -> Callable[[], None]:
    def restore() -> None:
        torch.set_default_device(None)

    return restore


def _set_threads(count: int) -> None:
    if torch.get_num_threads() != count:  # setting it again starts the pool anew
        torch.set_num_threads(count)


def _flushes_denormals() -> bool:
    """Torch can be told, and not asked."""
    return (torch.full((1,), 1e-40, dtype=torch.float32, device="cpu") * 1).item() == 0


def _signal_handlers() -> Callable[[], None]:
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    saved = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in saved.items():
            if handler is not None:
                signal.signal(number, handler)

    return restore


SETTINGS: list[Callable[[], Callable[[], Any]]] = [
    _setting(torch.get_default_dtype, torch.set_default_dtype),
    _default_device,
    _setting(torch.is_grad_enabled, torch.set_grad_enabled),
    _setting(
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda state: torch.set_anomaly_enabled(*state),
    ),
    _setting(torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled),
    _setting(torch.is_warn_always_enabled, torch.set_warn_always),
    _setting(torch.get_num_threads, _set_threads),
    _setting(torch.get_rng_state, torch.set_rng_state),
    _determinism,
    _printing,
    _numpy_printing,
    _module_hooks,
    _attention,
    _saved_tensor_hooks,
    _attributes(torch.backends.cudnn, "enabled", "benchmark", "deterministic"),
    _attributes(torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    _precision,
    _setting(random.getstate, random.setstate),
    _setting(numpy.random.get_state, numpy.random.set_state),
    _setting(sys.getrecursionlimit, sys.setrecursionlimit),
    _setting(threading.stack_size, threading.stack_size),
    _setting(gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    _setting(gc.get_threshold, lambda threshold: gc.set_threshold(*threshold)),
    _setting(lambda: list(gc.callbacks), lambda value: gc.callbacks.__setitem__(slice(None), value)),
    _attributes(sys, "stdout", "stderr", "stdin", "excepthook", "displayhook", "unraisablehook", "breakpointhook"),
    _attributes(threading, "excepthook"),
    _attributes(pdb, "set_trace"),
    _attributes(torch.utils.checkpoint, "_enable_checkpoint_early_stop"),
    _setting(
        torch.__future__.get_swap_module_params_on_conversion, torch.__future__.set_swap_module_params_on_conversion
    ),
    _setting(_flushes_denormals, torch.set_flush_denormal),
    _setting(torch._C._check_sparse_tensor_invariants, torch._C._set_check_sparse_tensor_invariants),
    _attributes(os, "_exit", "execv", "execve", "abort"),
    _setting(lambda: decimal.getcontext().copy(), decimal.setcontext),
    _setting(sys.getswitchinterval, sys.setswitchinterval),
    _setting(lambda: list(sys.argv), lambda value: sys.argv.__setitem__(slice(None), value)),
    _setting(lambda: locale.setlocale(locale.LC_ALL), lambda value: locale.setlocale(locale.LC_ALL, value)),
    _handlers,
    _modules,
    _pyplot,
    _environment,
    _signal_handlers,
    _autocast,
    _dual_levels,
    _patches,
    _modes,  # put back first: they take part in every call of torch
]


@contextlib.contextmanager
def fresh(device: str, seed: int, argv: list[str] | None = None) -> Iterator[Path]:
    """A clean state with `device` as torch's default and every generator seeded; yields an empty working folder.

    Warnings are always shown while it lasts. Everything is put back afterwards, also after an error.
    """
    folders = tempfile.TemporaryDirectory(prefix="page-")
    with warnings.catch_warnings(), folders as folder, contextlib.ExitStack() as undo:
        for save in SETTINGS:
            undo.callback(save())
        undo.callback(os.chdir, Path.cwd())
        show_warnings()
        torch.set_warn_always(True)
        torch.set_default_device(None if device == "cpu" else device)
        seed_everything(seed)
        if argv is not None:
            sys.argv[:] = argv
        os.chdir(folder)
        yield Path(folder)


def show_warnings() -> None:
    """Every warning, each time; of those meant for developers, as in Python, only the ones about the page's own code.

    A library warns of its own old ways while it is imported, so once per process: on the first page that imports it.
    """
    warnings.resetwarnings()
    warnings.simplefilter("always")
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
        warnings.filterwarnings("always", category=category, module=r"(__main__|snippets)\b")


def seed_everything(seed: int) -> None:
    """Seed torch (every device), Python and NumPy."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
