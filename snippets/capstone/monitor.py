# SPDX-License-Identifier: 0BSD
"""Watch the gradients of a model while it is being trained."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .gradients import STATUSES, status_of
from .naming import named_parameters
from .norms import norms, total_norm
from .outputs import Report
from .scaler import WatchedScaler
from .stepping import followed, outer_optimizer, parameters_of
from .watched import Watched


@dataclass(frozen=True)
class GradientAnomaly(Report):
    """A gradient that went bad.

    step: which step of the optimizer, from 1. name: of the parameter.
    status: "nan", "inf", "exploding", "vanishing" or "zero".
    severity: "error" for NaN and Inf, else "warning", as also where a
        GradScaler skips the step.
    norm: of the gradient. text: all of this in words.
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

    step: int  # which step of the optimizer, from 1
    total_norm: float  # of all gradients as one vector
    norms: dict[str, float]  # by the name of the parameter
    skipped: bool  # by a GradScaler


@dataclass(frozen=True)
class MonitorReport(Report):
    """What a monitor saw.

    steps: how many the optimizer made; read: how many of them were
        looked at; skipped: how many a GradScaler skipped.
    total_norms: step and norm of the last ones that were read.
    last, largest: norm by name of each parameter that had a gradient.
    anomalies: the last ones; anomaly_count: how many there were in all.
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
        if every < 1 or history < 1 or every != int(every):
            raise ValueError("every and history are whole, 1 or more.")
        self._model, self._every = model, every
        self._scaler: WatchedScaler | None = None
        if scaler is not None:
            self._scaler = WatchedScaler(scaler, self._skipped_step)
        self._on_anomaly, self._on_step = on_anomaly, on_step
        self._limits = vanishing, exploding
        self._watched = Watched(model)
        self._hook: Any = None
        self._made: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.steps = self.read = self.skipped = self._count = 0
        self._totals: deque[tuple[int, float]] = deque(maxlen=history)
        self._anomalies: deque[GradientAnomaly] = deque(maxlen=history)
        self._last: dict[str, float] = {}
        self._largest: dict[str, float] = {}
        self._status: dict[str, str] = {}

    def __enter__(self) -> "Monitor":
        if self._hook is not None:
            raise RuntimeError("This monitor is on already.")
        if self._scaler is not None:
            self._scaler.start()
        self._hook = register_optimizer_step_pre_hook(self._before_step)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hook.remove()
        self._hook = None
        if self._scaler is not None:
            self._scaler.stop()
        self._watched.forget()

    def step(self) -> None:
        """Read `.grad` now. For a loop without a torch optimizer."""
        if self._due(self):
            rows = named_parameters(self._model)
            self._read([row.tensor for row in rows], self.steps)

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

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        parameters = parameters_of(optimizer)
        if not self._watched.owns(parameters):
            return None
        if self._scaler is not None:
            self._scaler.stepped = True
        outer = outer_optimizer()
        if outer is not None and self._watched.owns(parameters_of(outer)):
            return None  # the same step, which has been read
        # A fused optimizer divides by the scale of the GradScaler itself.
        scale = getattr(optimizer, "grad_scale", None)
        skips = getattr(optimizer, "found_inf", None)
        skipped = skips is not None and bool(skips)
        if not self._due(optimizer, skipped):
            return None
        step, by = self.steps, 1.0 if scale is None else float(scale)

        def read() -> None:
            self._read(parameters_of(optimizer), step, by, skipped)

        # With a closure there are no gradients, or old ones, before it.
        changed = followed(args, kwargs, read)
        if changed is None:
            read()
        return changed

    def _skipped_step(self, optimizer: Optimizer) -> None:
        parameters = parameters_of(optimizer)  # unscaled by now
        if self._watched.owns(parameters) and self._due(optimizer, True):
            self._read(parameters, self.steps, skipped=True)

    def _due(self, who: Any, skipped: bool = False) -> bool:
        """Count a step; say whether to read it. Each optimizer by itself."""
        self.steps += 1
        self.skipped += skipped
        made = self._made.get(who, 0)
        self._made[who] = made + 1
        return skipped or made % self._every == 0

    def _read(
        self,
        parameters: list[Any],
        step: int,
        scale: float = 1.0,
        skipped: bool = False,
    ) -> None:
        self._watched.owns(parameters)
        names, gradients = [], []
        for parameter in parameters:
            name = self._watched.name(parameter)
            if name is None or is_lazy(parameter):
                continue
            gradient = parameter.grad
            if gradient is not None and not gradient.is_meta:
                names.append(name)
                gradients.append(gradient)
        found = [norm / scale for norm in norms(gradients)]
        self.read += 1
        total = total_norm(found)
        self._totals.append((step, total))
        by_name = dict(zip(names, found, strict=True))
        self._last.update(by_name)
        judged = [self._judge(step, n, by_name[n], skipped) for n in by_name]
        new = [anomaly for anomaly in judged if anomaly is not None]
        self._anomalies.extend(new)
        self._count += len(new)
        if self._on_step is not None:
            self._on_step(MonitorStep(step, total, by_name, skipped))
        if self._on_anomaly is not None:
            for anomaly in new:
                self._on_anomaly(anomaly)

    def _judge(
        self, step: int, name: str, norm: float, skipped: bool
    ) -> GradientAnomaly | None:
        if not norm <= self._largest.get(name, -1.0):
            self._largest[name] = norm
        status = status_of(norm, *self._limits)
        before = self._status.get(name, "ok")
        self._status[name] = status
        if status in (before, "ok"):
            return None
        severity = "warning" if skipped else STATUSES[status]
        text = f"{name} is {status} (norm {norm:.3g})"
        text += "; the GradScaler skipped this step" if skipped else ""
        return GradientAnomaly(step, name, status, severity, norm, text)


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
    about to step, or after the first call of its closure; `watch.step()`
    reads them in any other loop. Nothing is set on the model, its tensors
    or its graph, so it can be pickled, copied and compiled meanwhile. A
    gradient on the meta device has no norm and is left out.
    torch calls its hooks on optimizers in all threads: enter and leave a
    monitor while no other thread is in a step.

    every: read at steps 1, 1 + every, … of each optimizer. `steps` counts
        those of all that train the model.
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
