# SPDX-License-Identifier: 0BSD
"""What one step of an optimizer is: nested calls, gradients of a closure."""

import sys
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Optimizer


def parameters_of(optimizer: Optimizer) -> list[Any]:
    """Return the parameters that it has now, of all groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def outer_optimizer() -> Optimizer | None:
    """Return the optimizer of whose step this one is a part, if there is one.

    To be called from a method that torch calls before each step. torch
    calls it twice for one step if `step()` of a subclass calls that of
    `super()` or of an optimizer inside. A step that a closure makes is
    one of its own.
    """
    torchs = sys._getframe(2)  # the function that it puts around step()
    frame = torchs.f_back
    while frame is not None:
        if frame.f_code is torchs.f_code:
            first = (frame.f_locals.get("args") or (None,))[0]
            return first if isinstance(first, Optimizer) else None
        if frame.f_code is Followed.__call__.__code__:
            return None
        frame = frame.f_back
    return None


class Followed:
    """A closure, with something else to do after its first evaluation.

    LBFGS evaluates it many times: the first is where the step begins.
    """

    def __init__(
        self, closure: Callable[..., Any], then: Callable[[], None]
    ) -> None:
        self._closure = closure
        self._then: Callable[[], None] | None = then

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        loss = self._closure(*args, **kwargs)
        then, self._then = self._then, None
        if then is not None:
            then()
        return loss


def followed(
    args: tuple[Any, ...], kwargs: dict[str, Any], then: Callable[[], None]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of `step` with `then` behind its closure.

    args: the optimizer itself, and what it was given. None: no closure.
    """
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if not callable(closure) or isinstance(closure, nn.Module):
        return None
    if "closure" in kwargs:
        return args, {**kwargs, "closure": Followed(closure, then)}
    return (args[0], Followed(closure, then), *args[2:]), kwargs
