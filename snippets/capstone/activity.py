# SPDX-License-Identifier: 0BSD
"""ReLUs that are off: zero for (almost) the whole batch.

Nothing flows back through a ReLU whose input is negative, so that what
lies before one that is off everywhere is not trained.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from .naming import is_compiled, module_paths, shown
from .outputs import Criterion, Report, scalar_loss
from .state import untouched

OFF = 0.99  # share of zeros from which on a ReLU is named


@dataclass(frozen=True)
class DeadRelu(Report):
    """One call of ReLU.

    module: path of the innermost module that ran it.
    zeros: share of its outputs that are 0, at most 1.
    shape: of the output.
    """

    module: str
    zeros: float
    shape: tuple[int, ...]


def find_dead_relus(
    model: nn.Module,
    inputs: Any,
    targets: Any = None,
    criterion: Criterion = None,
) -> tuple[DeadRelu, ...]:
    """Run one forward and name the ReLUs that are off.

    `nn.ReLU`, `relu`, `relu_` are seen; in a compiled model none is. The
    model is left untouched. Raises DebuggerError as `scalar_loss` does.
    """
    if is_compiled(model):
        return ()
    watch = _Relus()
    with untouched(model, criterion, inputs, targets):
        for module, path in module_paths(model).items():
            if isinstance(module, torch.jit.ScriptModule):
                continue  # takes no hooks
            enter = watch.enter(shown(path))
            module.register_forward_pre_hook(enter)
            module.register_forward_hook(watch.leave, always_call=True)
        with watch:
            scalar_loss(model, inputs, targets, criterion)
    return tuple(watch.found)


class _Relus(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[DeadRelu] = []
        self._stack: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not, because torch would import the compiler for it: seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("relu", "relu_") and isinstance(out, Tensor):
            self._look(out.detach())
        return out

    def _look(self, out: Tensor) -> None:
        if not out.numel():
            return
        zeros = (out == 0).sum().item() / out.numel()
        if zeros >= OFF:
            module = self._stack[-1] if self._stack else "(loss)"
            self.found.append(DeadRelu(module, zeros, tuple(out.shape)))

    def enter(self, path: str) -> Callable[..., None]:
        return lambda module, given: self._stack.append(path)

    def leave(self, *unused: Any) -> None:
        if self._stack:
            self._stack.pop()
