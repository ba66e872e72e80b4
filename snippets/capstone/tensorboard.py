# SPDX-License-Identifier: 0BSD
"""Write what a monitor sees to TensorBoard, or to what writes like it.

    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter("runs/first")
    with monitor(model, every=10, **tensorboard(writer)):
        train(model)

TensorBoard is not imported here: the writer is yours.
"""

import math
from collections.abc import Callable
from typing import Any, TypedDict

from .monitor import GradientAnomaly, MonitorStep

_FLOAT32 = 3.4028234663852886e38  # event files keep no larger number
_TEXTS = 20  # of one step; a NaN reaches every parameter at once


class Callbacks(TypedDict):
    """What `monitor` takes."""

    on_step: Callable[[MonitorStep], None]
    on_anomaly: Callable[[GradientAnomaly], None]


def tensorboard(
    writer: Any,
    *,
    per_parameter: bool = True,
    prefix: str = "",
    start: int = 0,
) -> Callbacks:
    """Return the callbacks for `monitor(model, **tensorboard(writer))`.

    They write, at the step of the optimizer counted from `start` + 1:
    grad_norm/total: the norm of all gradients together.
    grad_norm/NAME: that of each parameter, if per_parameter.
    skipped_steps: how many a GradScaler skipped so far, at each of them.
    anomalies: one text for each anomaly, at most 20 for one step.

    A norm that is NaN, inf or above float32, and the norms of a skipped
    step, are not written: the curve has a gap there, which keeps the axis
    and the smoothing readable, and the text says what happened.

    writer: a `SummaryWriter`, or anything with add_scalar(tag, value,
        step) and add_text(tag, text, step). It is neither flushed nor
        closed. `add_scalars` is not used: it opens a file for each curve.
    prefix: in front of each tag, such as "generator/".
    start: steps made before, for a run that is taken up again.
    Raises TypeError for a writer without these methods.
    """
    for method in ("add_scalar", "add_text"):
        if not callable(getattr(writer, method, None)):
            kind = type(writer).__name__
            raise TypeError(f"The writer, a {kind}, has no {method}().")
    log = _Log(writer, per_parameter, prefix, start)
    return {"on_step": log.on_step, "on_anomaly": log.on_anomaly}


class _Log:
    def __init__(
        self, writer: Any, per_parameter: bool, prefix: str, start: int
    ) -> None:
        self._writer, self._per_parameter = writer, per_parameter
        self._prefix, self._start = prefix, start
        self._skipped = 0
        self._texts = (0, 0)  # the step of the last text, and how many

    def on_step(self, step: MonitorStep) -> None:
        if step.skipped:
            self._skipped += 1
            self._scalar("skipped_steps", self._skipped, step.step)
            return
        self._scalar("grad_norm/total", step.total_norm, step.step)
        if self._per_parameter:
            for name, norm in step.norms.items():
                self._scalar(f"grad_norm/{name}", norm, step.step)

    def on_anomaly(self, anomaly: GradientAnomaly) -> None:
        step, count = self._texts
        count = count + 1 if step == anomaly.step else 1
        self._texts = anomaly.step, count
        if count > _TEXTS:
            return
        # Markdown: a name such as weight_ih_l0 would turn italic.
        said = anomaly.text.removeprefix(anomaly.name)
        text = f"{anomaly.severity}: `{anomaly.name}`{said}"
        if count == _TEXTS:
            text += "; more of this step are not written"
        at = self._start + anomaly.step
        self._writer.add_text(f"{self._prefix}anomalies", text, at)

    def _scalar(self, tag: str, value: float, step: int) -> None:
        if math.isfinite(value) and value <= _FLOAT32:
            at = self._start + step
            self._writer.add_scalar(self._prefix + tag, value, at)
