"""Isolation: every page starts from the same state of torch, Python and the process, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import decimal
import gc
import locale
import os
import pdb
import random
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch

from doccheck import process_state, torch_state
from doccheck.settings import attributes, setting

SETTINGS: list[Callable[[], Callable[[], Any]]] = [
    setting(torch.get_default_dtype, torch.set_default_dtype),
    torch_state.default_device,
    setting(torch.is_grad_enabled, torch.set_grad_enabled),
    setting(
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda state: torch.set_anomaly_enabled(*state),
    ),
    setting(torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled),
    setting(torch.is_warn_always_enabled, torch.set_warn_always),
    setting(torch.get_num_threads, torch_state.set_threads),
    setting(torch.get_rng_state, torch.set_rng_state),
    torch_state.determinism,
    torch_state.printing,
    process_state.numpy_printing,
    torch_state.module_hooks,
    torch_state.attention,
    torch_state.saved_tensor_hooks,
    attributes(torch.backends.cudnn, "enabled", "benchmark", "deterministic"),
    attributes(torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    torch_state.precision,
    setting(random.getstate, random.setstate),
    setting(numpy.random.get_state, numpy.random.set_state),
    setting(sys.getrecursionlimit, sys.setrecursionlimit),
    setting(threading.stack_size, threading.stack_size),
    setting(gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    setting(gc.get_threshold, lambda threshold: gc.set_threshold(*threshold)),
    setting(lambda: list(gc.callbacks), lambda value: gc.callbacks.__setitem__(slice(None), value)),
    attributes(sys, "stdout", "stderr", "stdin", "excepthook", "displayhook", "unraisablehook", "breakpointhook"),
    attributes(threading, "excepthook"),
    attributes(pdb, "set_trace"),
    attributes(torch.utils.checkpoint, "_enable_checkpoint_early_stop"),
    setting(
        torch.__future__.get_swap_module_params_on_conversion, torch.__future__.set_swap_module_params_on_conversion
    ),
    setting(torch_state.flushes_denormals, torch.set_flush_denormal),
    setting(torch._C._check_sparse_tensor_invariants, torch._C._set_check_sparse_tensor_invariants),
    attributes(os, "_exit", "execv", "execve", "abort"),
    setting(lambda: decimal.getcontext().copy(), decimal.setcontext),
    setting(sys.getswitchinterval, sys.setswitchinterval),
    setting(lambda: list(sys.argv), lambda value: sys.argv.__setitem__(slice(None), value)),
    setting(lambda: locale.setlocale(locale.LC_ALL), lambda value: locale.setlocale(locale.LC_ALL, value)),
    process_state.handlers,
    process_state.modules,
    process_state.pyplot,
    process_state.environment,
    process_state.signal_handlers,
    torch_state.autocast,
    torch_state.dual_levels,
    process_state.patches,
    torch_state.modes,  # put back first: they take part in every call of torch
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
