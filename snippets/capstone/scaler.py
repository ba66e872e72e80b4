# SPDX-License-Identifier: 0BSD
"""Know which steps a GradScaler skips."""

from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer


class WatchedScaler:
    """Stands before the `step` of a GradScaler while it is on.

    The scaler skips the optimizer when a gradient is infinite and tells
    nobody. Whoever sees the optimizer step sets `stepped`.
    A copy of the scaler, also by pickle, is a scaler that nobody watches.
    """

    def __init__(
        self, scaler: Any, skipped: Callable[[Optimizer], None]
    ) -> None:
        self._scaler = scaler
        self._skipped = skipped
        self._before: Any = None  # the step that was there
        self.on = self.stepped = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_scaler": self._scaler, "_before": None, "on": False}

    def start(self) -> None:
        """Watch. Raises AttributeError for what has no `step`."""
        self._before = self._scaler.step
        self._scaler.step = self._step
        self.on = True

    def stop(self) -> None:
        """Give the scaler its step back, or that of others that are on."""
        self.on = False
        step = self._scaler.step
        while True:
            owner = getattr(step, "__self__", None)
            if not isinstance(owner, WatchedScaler) or owner.on:
                break
            step = owner._before
        vars(self._scaler).pop("step", None)  # that of the class is back
        if self._scaler.step != step:
            self._scaler.step = step

    def _step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._before is None:  # a copy
            kind = type(self._scaler)
            return kind.step(self._scaler, optimizer, *args, **kwargs)
        self.stepped = False
        result = self._before(optimizer, *args, **kwargs)
        if self.on and not self.stepped:
            self._skipped(optimizer)
        return result
