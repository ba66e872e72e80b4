"""Process state: what a page can change in Python, NumPy and the process, saved by calls that return the undoing."""

from __future__ import annotations

import builtins
import logging
import math
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy
import torch

# What a page may patch by hand, say to count calls.
PATCHED: list[Any] = [builtins, math, random, numpy, torch, torch.Tensor, torch.autograd, torch.autograd.Function]
PATCHED += [torch.autograd.graph, torch.func, torch.nn, torch.nn.Module, torch.nn.functional, torch.utils.checkpoint]


def numpy_printing() -> Callable[[], None]:
    saved, errors = numpy.get_printoptions(), numpy.geterr()

    def restore() -> None:
        numpy.set_printoptions(**saved)
        numpy.seterr(**errors)

    return restore


def environment() -> Callable[[], None]:
    saved = dict(os.environ)

    def restore() -> None:
        if dict(os.environ) != saved:
            os.environ.clear()
            os.environ.update(saved)

    return restore


def pyplot() -> Callable[[], None]:
    def restore() -> None:
        if "matplotlib.pyplot" in sys.modules:
            import matplotlib
            from matplotlib import pyplot

            pyplot.close("all")
            backend = matplotlib.get_backend()
            matplotlib.rcdefaults()
            matplotlib.use(backend)

    return restore


def handlers() -> Callable[[], None]:
    """Logging starts as in a script: pytest's handlers would turn `basicConfig` into nothing."""
    level, handlers = logging.root.level, list(logging.root.handlers)
    logging.root.setLevel(logging.WARNING)
    logging.root.handlers.clear()

    def restore() -> None:
        logging.root.setLevel(level)
        logging.root.handlers[:] = handlers

    return restore


def modules() -> Callable[[], None]:
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


def signal_handlers() -> Callable[[], None]:
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    saved = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in saved.items():
            if handler is not None:
                signal.signal(number, handler)

    return restore


def patches() -> Callable[[], None]:
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
