# SPDX-License-Identifier: 0BSD
"""Where does NaN or inf come from? The first one, with its line of code.

torch.autograd.detect_anomaly looks for NaN in backward. This looks at
every result, forwards and backwards, for inf too, and tells what was
absorbed (a mask of −inf before a softmax) from what reaches the loss or
a gradient. How: see `sightings`.
"""

import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .causes import likely_cause
from .finite import not_finite
from .naming import is_compiled, module_paths, named_buffers, named_parameters
from .outputs import (
    Criterion,
    DebuggerError,
    Report,
    flatten_tensors,
    scalar_loss,
)
from .places import Place
from .sightings import Sighting, Watch
from .state import untouched


@dataclass(frozen=True)
class AnomalyReport(Report):
    """The first NaN or inf that reaches the loss or a gradient.

    found: whether there is one; if not, all texts below are "".
    kind: "nan" or "inf".
    phase: "forward", "loss" (in the criterion) or "backward"; "inputs"
        or "parameters" if it was there from the start.
    op: the operation, such as "sqrt" or "div"; of a backward, the one
        whose derivative it is. The name of the tensor where it was there
        from the start.
    node: of the graph, in a backward, such as "SqrtBackward0".
    order: 0 forwards, 1 in a backward, 2 in a double backward.
    module: path of the module that ran it; "" is the model or criterion.
    place: file, line, function and code, outside torch; for a backward,
        of the operation in the forward. file is "" if all is torch's own.
    shape, dtype: of the result. numel: its entries.
    nan, inf: how many of them are so.
    cause: what it usually means and what to do, or "".
    loss: its value; NaN if it was not reached.
    gradients: names of the parameters whose gradient is not finite.
    parameters: how many were looked at.
    notes: what else there is to know.
    """

    found: bool
    kind: str
    phase: str
    op: str
    node: str
    order: int
    module: str
    place: Place
    shape: tuple[int, ...]
    dtype: str
    numel: int
    nan: int
    inf: int
    cause: str
    loss: float
    gradients: tuple[str, ...]
    parameters: int
    notes: tuple[str, ...]

    def __str__(self) -> str:
        if not self.found:
            head = (
                f"No NaN and no inf in a loss of {self.loss:.6g} and the "
                f"gradients of {self.parameters} parameters."
            )
            return "\n".join([head, *(f"  note: {n}" for n in self.notes)])
        kind = "NaN" if self.kind == "nan" else "inf"
        lines = [f"First {kind}: {self._what()}"]
        if self.place.file:
            file = os.path.relpath(self.place.file)
            file = self.place.file if file.startswith("..") else file
            lines.append(f"  {file}:{self.place.line}  {self.place.code}")
        lines.append(
            f"  in a {self.dtype} tensor of shape {self.shape}: {self.nan} "
            f"NaN, {self.inf} inf of {self.numel}"
        )
        if self.cause:
            lines.append(f"  {self.cause}")
        bad = f"{len(self.gradients)} of {self.parameters}"
        lines.append(f"  loss {self.loss:.6g}; gradients not finite: {bad}")
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    def _what(self) -> str:
        if self.phase in ("inputs", "parameters"):
            return f"{self.op} has it from the start"
        where = f" in module {self.module}" if self.module else ""
        if self.order == 0:
            return f"{self.phase}, {self.op}{where}"
        kind = "double backward" if self.order > 1 else "backward"
        return f"{kind}, {self.op} ({self.node}){where}"


_NONE = Sighting(
    *("", "", "", ""), 0, "", Place(), (), "", 0, 0, 0, None, False, False
)


def find_anomalies(
    model: nn.Module,
    inputs: Any,
    targets: Any = None,
    criterion: Criterion = None,
) -> AnomalyReport:
    """Run one forward and one backward, and find the first NaN or inf.

    inputs, targets, criterion: as in `scalar_loss`.

    Slow: every result is read. Compiled models run uncompiled. Nothing
    is changed, and `.grad` is as before.
    Raises DebuggerError as `scalar_loss` does, unless something that is
    not finite was seen before.
    """
    paths = dict(module_paths(model))
    if isinstance(criterion, nn.Module):
        for module, path in module_paths(criterion).items():
            paths.setdefault(module, path)
    watch = Watch(paths)
    with untouched(model, criterion, inputs, targets), _plain(model):
        run = _Run(model, watch)
        run.look_at({"inputs": inputs, "targets": targets})
        run.forward_and_backward(inputs, targets, criterion)
        return run.report()


@contextmanager
def _plain(model: nn.Module) -> Iterator[None]:
    """Compiled parts run as they were written; nodes keep their line."""
    with ExitStack() as stack:
        if is_compiled(model):
            stance = torch.compiler.set_stance("force_eager")
            stack.enter_context(stance)
        stack.enter_context(
            torch.autograd.set_detect_anomaly(True, check_nan=False)
        )
        yield


class _Run:
    def __init__(self, model: nn.Module, watch: Watch) -> None:
        self.model, self.watch = model, watch
        self.loss: Tensor | None = None
        self.notes: list[str] = []
        self.named = named_parameters(model)

    def look_at(self, batch: dict[str, Any]) -> None:
        """Note what is not finite from the start."""
        given = {
            name: t
            for key, value in batch.items()
            for name, t in flatten_tensors(value, key).items()
        }
        own = {n.name: n.tensor for n in self.named}
        own |= {n.name: n.tensor for n in named_buffers(self.model)}
        for phase, tensors in (("inputs", given), ("parameters", own)):
            for name, t in tensors.items():
                if not nn.parameter.is_lazy(t) and any(not_finite(t)):
                    self.watch.given(name, t, phase)

    def forward_and_backward(
        self, inputs: Any, targets: Any, criterion: Criterion
    ) -> None:
        """Run both under the watch."""

        def in_loss_phase(*given: Any) -> Any:
            self.watch.phase = "loss"
            return criterion(*given)  # type: ignore[misc]

        with self.watch.entered(), self.watch:
            try:
                self.loss = scalar_loss(
                    self.model,
                    inputs,
                    targets,
                    None if criterion is None else in_loss_phase,
                )
            except DebuggerError as error:
                if not self._suspects():
                    raise
                self.notes.append(f"Then it stopped. {error}")
                return
            self.watch.phase = "backward"
            try:
                self.loss.backward()
            except RuntimeError as error:
                first = str(error).splitlines()[0]
                self.notes.append(f"backward stopped: {first}")

    def _suspects(self) -> list[int]:
        """Sightings that are no masks."""
        return [k for k, s in enumerate(self.watch.sightings) if not s.filled]

    def report(self) -> AnomalyReport:
        """Choose the sighting that matters."""
        bad = [
            (name, tensor.grad)
            for name, _, tensor in self.named
            if tensor.grad is not None and any(not_finite(tensor.grad))
        ]
        chosen = self._chosen([g for _, g in bad])
        value = math.nan if self.loss is None else self.loss.item()
        if chosen is None:
            self._absorbed()
        one = _NONE if chosen is None else self.watch.sightings[chosen]
        return AnomalyReport(
            found=chosen is not None,
            kind=one.kind,
            phase=one.phase,
            op=one.operation,
            node=one.node,
            order=one.order,
            module=one.module,
            place=one.place,
            shape=one.shape,
            dtype=one.dtype,
            numel=one.numel,
            nan=one.nan,
            inf=one.inf,
            cause=self._cause(chosen),
            loss=value,
            gradients=tuple(name for name, _ in bad),
            parameters=sum(t.requires_grad for _, _, t in self.named),
            notes=tuple(self.notes),
        )

    def _chosen(self, gradients: list[Tensor]) -> int | None:
        """The first sighting behind the loss, else behind a gradient."""
        ends: list[int | None] = []
        if self.loss is None:
            ends = [*self._suspects()[:1]]
        elif any(not_finite(self.loss)):
            ends = [self.watch.of(self.loss)]
        elif gradients:
            ends = [self.watch.of(g) for g in gradients]
        known = [end for end in ends if end is not None]
        if ends and not known:
            known = self._suspects()[:1]
        if not known:
            return None
        return self._root(min(known))

    def _root(self, k: int) -> int:
        """Go back from a NaN to the inf that made it, if no constant."""
        seen = self.watch.sightings
        while True:
            cause = seen[k].cause
            if cause is not None and seen[cause].phase == "inputs":
                name = seen[cause].op
                self.notes.append(f"The inf in {name} takes part in it.")
            if cause is None or seen[cause].filled:
                return k
            k = cause

    def _cause(self, chosen: int | None) -> str:
        if chosen is None:
            return ""
        seen = self.watch.sightings
        one = seen[chosen]
        later = [
            s for s in seen[chosen:] if s.node == one.node and s.kind == "nan"
        ]
        masked = one.order > 0 and any(s.zeros for s in later[:3])
        dropped = (
            one.phase in ("forward", "loss")
            and self.loss is not None
            and not any(not_finite(self.loss))
        )
        return likely_cause(one, one.operation, masked, dropped)

    def _absorbed(self) -> None:
        """Say what was not finite on the way and did no harm."""
        for k in self._suspects()[:3]:
            one = self.watch.sightings[k]
            if one.order:
                continue  # a step within torch's own formula
            kind = "NaN" if one.kind == "nan" else "inf"
            line = f" (line {one.place.line})" if one.place.file else ""
            self.notes.append(
                f"{kind} came up in {one.phase}, {one.operation}{line}, "
                "and reached neither the loss nor a gradient."
            )
