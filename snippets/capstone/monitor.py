# SPDX-License-Identifier: 0BSD
"""Watch the gradients of a model while it is being trained."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .gradients import STATUSES, status_of
from .naming import named_parameters
from .norms import norms, total_norm
from .outputs import Report


@dataclass(frozen=True)
class GradientAnomaly(Report):
    """A gradient that went bad.

    step: which step of the optimizer, from 1. name: of the parameter.
    status: "nan", "inf", "exploding", "vanishing" or "zero".
    severity: "error" for NaN and Inf, else "warning"; "warning" also
    where a GradScaler skips the step.
    """

    step: int
    name: str
    status: str
    severity: str
    norm: float
    text: str

    def __str__(self) -> str:
        return f"step {self.step:,}, {self.severity}: {self.text}"


@dataclass(frozen=True)
class MonitorStep(Report):
    """What was read at one step: norms by parameter, and of all."""

    step: int
    total_norm: float
    norms: dict[str, float]
    skipped: bool  # by a GradScaler


@dataclass(frozen=True)
class MonitorReport(Report):
    """What a monitor saw.

    steps: of the optimizer; read: how many of them were looked at;
    skipped: how many a GradScaler skipped.
    total_norms: (step, norm) of the last ones that were read.
    last, largest: norm by name of each parameter that had a gradient.
    anomalies: the last ones; anomaly_count: of all.
    """

    steps: int
    read: int
    skipped: int
    total_norms: tuple[tuple[int, float], ...]
    last: dict[str, float]
    largest: dict[str, float]
    anomalies: tuple[GradientAnomaly, ...]
    anomaly_count: int

    def __str__(self) -> str:
        now = f"{self.total_norms[-1][1]:.4g}" if self.total_norms else "–"
        skipped = f", {self.skipped:,} skipped" if self.skipped else ""
        lines = [
            f"Monitor: {self.steps:,} steps, {self.read:,} read{skipped}; "
            f"total norm {now}; {self.anomaly_count:,} anomalies"
        ]
        return "\n".join([*lines, *(f"  {a}" for a in self.anomalies[-10:])])


class Monitor:
    """See `monitor`."""

    def __init__(
        self,
        model: nn.Module,
        every: int = 1,
        on_anomaly: Callable[[GradientAnomaly], Any] | None = None,
        *,
        on_step: Callable[[MonitorStep], Any] | None = None,
        scaler: Any = None,
        vanishing: float = 1e-6,
        exploding: float = 10.0,
        history: int = 1000,
    ) -> None:
        if every < 1 or history < 1:
            raise ValueError("every and history have to be 1 or more.")
        self._model, self._every, self._scaler = model, every, scaler
        self._on_anomaly, self._on_step = on_anomaly, on_step
        self._limits = vanishing, exploding
        self._names: dict[int, str] = {}
        self._held: list[Any] = []  # an id() is good while it is held
        self._hook: Any = None
        self._in_step = False
        self.steps = self.read = self.skipped = self._count = 0
        self._totals: deque[tuple[int, float]] = deque(maxlen=history)
        self._anomalies: deque[GradientAnomaly] = deque(maxlen=history)
        self._last: dict[str, float] = {}
        self._largest: dict[str, float] = {}
        self._status: dict[str, str] = {}

    def __enter__(self) -> "Monitor":
        self._hook = register_optimizer_step_pre_hook(self._before_step)
        if self._scaler is not None:
            self._unwatched_step = self._scaler.step
            self._scaler.step = self._scaled_step
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hook.remove()
        if self._scaler is not None:
            del self._scaler.step  # the method of the class is back
            if self._scaler.step != self._unwatched_step:
                self._scaler.step = self._unwatched_step  # another monitor's
        self._names, self._held = {}, []

    def step(self) -> None:
        """Read `.grad` now. For a loop without a torch optimizer."""
        self._look([row.tensor for row in named_parameters(self._model)])

    def report(self) -> MonitorReport:
        """Return what was seen so far."""
        return MonitorReport(
            steps=self.steps,
            read=self.read,
            skipped=self.skipped,
            total_norms=tuple(self._totals),
            last=dict(self._last),
            largest=dict(self._largest),
            anomalies=tuple(self._anomalies),
            anomaly_count=self._count,
        )

    def _before_step(
        self, optimizer: Optimizer, args: Any, kwargs: Any
    ) -> None:
        self._in_step = True
        parameters = _parameters_of(optimizer)
        if self._ours(parameters):
            # A fused optimizer divides by the scale of the GradScaler itself.
            scale = getattr(optimizer, "grad_scale", None)
            skips = getattr(optimizer, "found_inf", None)
            self._look(
                parameters,
                1.0 if scale is None else float(scale),
                skips is not None and bool(skips),
            )

    def _scaled_step(self, optimizer: Optimizer, *args: Any, **kw: Any) -> Any:
        """In place of GradScaler.step, which may skip the optimizer."""
        self._in_step = False
        result = self._unwatched_step(optimizer, *args, **kw)
        if not self._in_step:  # skipped; the gradients are unscaled by now
            parameters = _parameters_of(optimizer)
            if self._ours(parameters):
                self._look(parameters, skipped=True)
        return result

    def _ours(self, parameters: list[Any]) -> bool:
        """Whether an optimizer trains this model; learns new names."""
        if any(id(p) not in self._names for p in parameters):
            rows = named_parameters(self._model)
            self._names = {id(row.tensor): row.name for row in rows}
            self._held = [row.tensor for row in rows]
        return any(id(p) in self._names for p in parameters)

    def _look(
        self, parameters: list[Any], scale: float = 1.0, skipped: bool = False
    ) -> None:
        self.steps += 1
        self.skipped += skipped
        if not skipped and (self.steps - 1) % self._every:
            return
        self._ours(parameters)
        names, gradients = [], []
        for parameter in parameters:
            name = self._names.get(id(parameter))
            if name is None or is_lazy(parameter) or parameter.grad is None:
                continue
            names.append(name)
            gradients.append(parameter.grad)
        found = [norm / scale for norm in norms(gradients)]
        self.read += 1
        total = total_norm(found)
        self._totals.append((self.steps, total))
        by_name = dict(zip(names, found, strict=True))
        self._last.update(by_name)
        if self._on_step is not None:
            step = MonitorStep(self.steps, total, by_name, skipped)
            self._on_step(step)
        for name, norm in by_name.items():
            self._judge(name, norm, skipped)

    def _judge(self, name: str, norm: float, skipped: bool) -> None:
        if not norm <= self._largest.get(name, -1.0):
            self._largest[name] = norm
        status = status_of(norm, *self._limits)
        before = self._status.get(name, "ok")
        self._status[name] = status
        if status in (before, "ok"):
            return
        severity = "warning" if skipped else STATUSES[status]
        text = f"{name} is {status} (norm {norm:.3g})"
        text += "; the GradScaler skipped this step" if skipped else ""
        new = GradientAnomaly(self.steps, name, status, severity, norm, text)
        self._anomalies.append(new)
        self._count += 1
        if self._on_anomaly is not None:
            self._on_anomaly(new)


def monitor(
    model: nn.Module,
    every: int = 1,
    on_anomaly: Callable[[GradientAnomaly], Any] | None = None,
    *,
    on_step: Callable[[MonitorStep], Any] | None = None,
    scaler: Any = None,
    vanishing: float = 1e-6,
    exploding: float = 10.0,
    history: int = 1000,
) -> Monitor:
    """Watch gradients in a live training loop; use it with `with`.

        with monitor(model, every=10, on_anomaly=print) as watch:
            train(model)
        print(watch.report())

    Norms are read when an optimizer of torch that trains this model is
    about to step; `watch.step()` reads them in any other loop. Nothing
    is set on the model, its tensors or its graph, so it can be pickled,
    copied and compiled meanwhile.

    every: read at steps 1, 1 + every, …
    on_anomaly: called when the gradient of a parameter goes bad, or bad
        in another way, not again while it stays so. What it raises ends
        the loop.
    on_step: called with the norms of each step that was read.
    scaler: a GradScaler. It skips steps with an infinite gradient, which
        are seen only if it is given here; they are warnings.
    history: how many total norms and anomalies are kept.
    """
    return Monitor(
        model,
        every,
        on_anomaly,
        on_step=on_step,
        scaler=scaler,
        vanishing=vanishing,
        exploding=exploding,
        history=history,
    )


def _parameters_of(optimizer: Optimizer) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]
