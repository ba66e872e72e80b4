# SPDX-License-Identifier: 0BSD
"""The model, batch and loss that a command line names."""

import contextlib
import importlib
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .float64 import map_tensors
from .outputs import Criterion, Report

DTYPES = ("float16", "bfloat16", "float32", "float64")


class UsageError(Exception):
    """What was asked for cannot be done. One line says why.

    `__cause__` is the user's own error, if there was one.
    """


@dataclass(frozen=True)
class Subject:
    """What is examined. inputs, targets: as in `outputs.scalar_loss`."""

    model: nn.Module
    inputs: Any
    targets: Any
    criterion: Criterion
    about: "About"


@dataclass(frozen=True)
class About(Report):
    """What was examined, in words.

    model, batch, loss: as they were named; "" for none.
    kind: class of the model. parameters: elements, tied ones once.
    device, dtype: of the parameters; several are joined by commas.
    seed: of the factories and of random vectors. torch: its version.
    """

    model: str
    batch: str
    loss: str
    kind: str
    parameters: int
    device: str
    dtype: str
    seed: int
    torch: str


def load(
    model: str,
    batch: str,
    loss: str = "",
    *,
    device: str = "",
    dtype: str = "",
    seed: int = 0,
) -> Subject:
    """Call the factories and put what they return together.

    model, batch, loss: "MODULE:FACTORY"; see `made`.
    device, dtype: the model and the batch are moved there; "": nothing is.
        With a device they are built on the CPU first, so that a seed gives
        the same weights and data on every device.
    seed: set before each factory, so that a change to one of them does
        not change the random numbers of the others.

    A batch is a pair (inputs, targets), as from a DataLoader; anything
    else is the inputs of a model that needs no targets. Inputs that are
    a pair themselves, without targets, are written ((a, b), None).
    Raises UsageError.
    """
    add_working_directory()
    with built_on_cpu(device):
        net = made("--model", model, seed)
    if not isinstance(net, nn.Module):
        raise UsageError(
            f"--model {model} returned {_kind(net)}, not a torch.nn.Module"
        )
    with built_on_cpu(device):
        data = made("--batch", batch, seed)
        criterion = made("--loss", loss, seed) if loss else None
    if criterion is not None and not callable(criterion):
        raise UsageError(
            f"--loss {loss} returned {_kind(criterion)}; a factory is called "
            "without arguments and returns the criterion"
        )
    names = model, batch, loss
    return assemble(net, data, criterion, names, device, dtype, seed)


def assemble(
    model: nn.Module,
    batch: Any,
    criterion: Criterion,
    names: tuple[str, str, str],
    device: str = "",
    dtype: str = "",
    seed: int = 0,
) -> Subject:
    """Move all to the device and dtype, and split the batch."""
    to: dict[str, Any] = {"device": _device(device)} if device else {}
    to |= {"dtype": getattr(torch, dtype)} if dtype else {}
    try:
        model = model.to(**to) if to else model
        batch = map_tensors(lambda t: _moved(t, to), batch)
        if isinstance(criterion, nn.Module) and to:
            criterion = criterion.to(**to)
    except Exception as error:
        raise UsageError(
            f"cannot move the model and the batch: {one_line(error)}"
        ) from error
    pair = isinstance(batch, list | tuple) and len(batch) == 2
    inputs, targets = batch if pair else (batch, None)
    about = _about(model, names, seed)
    torch.manual_seed(seed)
    return Subject(model, inputs, targets, criterion, about)


def built_on_cpu(device: str) -> contextlib.AbstractContextManager[Any]:
    """Where the factories run; without a device, torch's default."""
    return torch.device("cpu") if device else contextlib.nullcontext()


def made(option: str, name: str, seed: int) -> Any:
    """Return what MODULE:FACTORY makes.

    FACTORY may have dots. A module (of nn) or anything that cannot be
    called is taken as it is. Raises UsageError.
    """
    place, colon, factory = name.partition(":")
    if not (place and colon and factory):
        hint = "; a module is written package.name" if "/" in name else ""
        raise UsageError(f"{option} {name}: expected MODULE:FACTORY{hint}")
    found = _attribute(option, _module(option, place), place, factory)
    if isinstance(found, nn.Module) or not callable(found):
        return found
    return _called(option, name, found, seed)


def _module(option: str, place: str) -> Any:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if place == missing or place.startswith(f"{missing}."):
            raise UsageError(
                f"{option}: there is no module {missing!r} here "
                "(looked in the working directory and on sys.path)"
            ) from error
        raise UsageError(
            f"{option}: {place} could not be imported: it needs {missing!r}"
        ) from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{option}: {place} could not be imported: {one_line(error)}"
        ) from error


def _attribute(option: str, found: Any, place: str, factory: str) -> Any:
    for part in factory.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise UsageError(
                f"{option}: module {place!r} has no {factory!r}"
            ) from error
    return found


def _called(
    option: str, name: str, factory: Callable[[], Any], seed: int
) -> Any:
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{option}: the factory {name} raised {one_line(error)} "
            "(it is called without arguments)"
        ) from error


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except Exception as error:
        raise UsageError(f"--device {name}: {one_line(error)}") from error
    return device


def _moved(t: Tensor, to: dict[str, Any]) -> Tensor:
    if not t.is_floating_point():  # token numbers keep their dtype
        to = {key: to[key] for key in to if key != "dtype"}
    return t.to(**to) if to else t


def _about(model: nn.Module, names: tuple[str, str, str], seed: int) -> About:
    own = [p for p in model.parameters() if not nn.parameter.is_lazy(p)]
    devices = dict.fromkeys(str(p.device) for p in own)
    dtypes = dict.fromkeys(str(p.dtype).partition(".")[2] for p in own)
    return About(
        *names,
        kind=type(model).__name__,
        parameters=sum(p.numel() for p in own),
        device=", ".join(devices),
        dtype=", ".join(dtypes),
        seed=seed,
        torch=torch.__version__,
    )


def add_working_directory() -> None:
    """Make the working directory importable, as `python -m` does."""
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)


def one_line(error: BaseException) -> str:
    """Return an error as one line: its type and what it says."""
    text = " ".join(str(error).split())
    text = text if len(text) <= 300 else f"{text[:299]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
