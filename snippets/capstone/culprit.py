# SPDX-License-Identifier: 0BSD
"""Which module has the wrong derivative? From the loss to the part.

The loss is checked first, as one function of the inputs and parameters:
its gradient by differences, the gradient of that by the self-check of the
curvature, which is much faster than one for each pair of parameters. If
it is wrong, each module is checked alone on the inputs that it gets, from
the outside in, as long as one inside is wrong too.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .derivatives import DerivativeReport, check_derivatives
from .float64 import map_tensors, widen
from .hvp import twice_differentiable
from .naming import has_lazy, module_paths, shown
from .outputs import (
    Criterion,
    Report,
    call_model,
    check_loss,
    scalar_loss,
)
from .selfcheck import self_check
from .state import untouched


@dataclass(frozen=True)
class LossDerivatives(Report):
    """The check of a loss, and of the part that is to blame.

    loss: of the loss by the inputs and all parameters.
    mode: "as given", or "eval" where only that is deterministic.
    module: path of the innermost module that is wrong by itself;
        "(model)" if none inside is; "" if nothing is wrong.
    kind: its class. part: its own check; None for the model itself or
        if nothing is wrong.
    """

    loss: DerivativeReport
    mode: str
    module: str = ""
    kind: str = ""
    part: DerivativeReport | None = None

    def __str__(self) -> str:
        lines = [str(self.loss)]
        if self.mode == "eval":
            lines.append(f"  note: {EVAL}")
        if self.module:
            lines.append(f"Wrong in module {self.module} ({self.kind}).")
        if self.part:
            lines.append(str(self.part))
        return "\n".join(lines)


EVAL = "Checked in eval mode: in train mode two runs differ, as with dropout."


def check_loss_derivatives(
    model: nn.Module,
    inputs: Any,
    targets: Any = None,
    criterion: Criterion = None,
    *,
    seed: int = 0,
) -> LossDerivatives:
    """Check the derivatives of the loss; on failure find the module.

    The model is left untouched. Raises as `check_derivatives` does.
    """
    with untouched(model, criterion, inputs, targets):
        if has_lazy(model):  # after this forward they have their shapes
            scalar_loss(model, inputs, targets, criterion)
        loss = _Loss(model, targets, criterion)
        report = check_derivatives(loss, inputs, points=2, seed=seed)
        mode = "as given"
        if report.first_order == "not deterministic" and model.training:
            model.eval()
            mode = "eval"
            report = check_derivatives(loss, inputs, points=2, seed=seed)
        report = _with_second(_renamed(report), loss, inputs, seed)
        if "wrong" not in (report.first_order, report.second_order):
            return LossDerivatives(report, mode)
        given = _given(model, inputs, targets, criterion)
        path, module, part = _innermost(model, given, seed)
    kind = type(module).__name__
    return LossDerivatives(report, mode, shown(path), kind, part)


class _Loss(nn.Module):
    """The loss as a module, whose inputs are those of the model."""

    def __init__(
        self, model: nn.Module, targets: Any, criterion: Criterion
    ) -> None:
        super().__init__()
        self.once = True
        self.model = model
        self.criterion = criterion
        self.batch = (targets,)  # a tuple: `in_float64` leaves it alone

    def forward(self, *given: Any, **named: Any) -> Any:
        (targets,) = self.batch
        if any(p.dtype == torch.float64 for p in self.model.parameters()):
            targets = widen(targets)
        with twice_differentiable(self.model):
            output = call_model(self.model, named or given)
        if self.criterion is None:
            return self.end(_own_loss(output))
        pair = (output,) if targets is None else (output, targets)
        return self.end(self.criterion(*pair))

    def end(self, loss: Any) -> Any:
        """Return the loss, without a second derivative if so asked."""
        if self.once and isinstance(loss, Tensor):
            return _Once.apply(loss)
        return loss


class _Once(torch.autograd.Function):
    """The identity; `check_derivatives` then skips the second order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


_VERDICTS = {
    "agrees": "right",
    "disagrees": "wrong",
    "inconclusive": "inconclusive",
    "not done": "not available",
}


def _with_second(
    report: DerivativeReport, loss: _Loss, inputs: Any, seed: int
) -> DerivativeReport:
    """With the second order of the loss, from its self-check."""
    if report.first_order != "right":
        return report
    loss.once = False
    wide = widen(inputs)
    check = self_check(
        loss.model,
        lambda: check_loss(call_model(loss, wide), loss.model),
        seed=seed,
    )
    kept = [n for n in report.notes if not n.startswith(_REFUSED)]
    if check.reason:
        kept.append(f"Second order: {check.reason}.")
    return dataclasses.replace(
        report,
        passed=report.passed and check.verdict in ("agrees", "not done"),
        second_order=_VERDICTS[check.verdict],
        second_error=check.error,
        notes=tuple(kept),
    )


_REFUSED = "Backward cannot be differentiated"


def _own_loss(output: Any) -> Any:
    if isinstance(output, Mapping) and "loss" in output:
        return output["loss"]
    loss = getattr(output, "loss", None)
    return loss if isinstance(loss, Tensor) else output


def _renamed(report: DerivativeReport) -> DerivativeReport:
    """With the names that the parameters have in the model."""

    def plain(name: str) -> str:
        return name.removeprefix("model.")

    wrong = report.mismatch
    if wrong is not None:
        wrong = dataclasses.replace(
            wrong,
            output=wrong.output.replace("output", "loss", 1),
            variable=plain(wrong.variable),
        )
    return dataclasses.replace(
        report,
        mismatch=wrong,
        variables=tuple(map(plain, report.variables)),
        outputs=tuple(
            name.replace("output", "loss", 1) for name in report.outputs
        ),
    )


def _given(
    model: nn.Module, inputs: Any, targets: Any, criterion: Criterion
) -> dict[nn.Module, Any]:
    """What each module is called with, at its first call."""
    found: dict[nn.Module, Any] = {}

    def look(module: nn.Module, args: Any, named: Any) -> None:
        if module not in found and not (args and named):
            copy = map_tensors(lambda t: t.detach().clone(), named or args)
            found[module] = copy

    with untouched(model, criterion, inputs, targets):
        for module in model.modules():
            module.register_forward_pre_hook(look, with_kwargs=True)
        with twice_differentiable(model):
            scalar_loss(model, inputs, targets, criterion)
    return found


def _innermost(
    model: nn.Module, given: dict[nn.Module, Any], seed: int
) -> tuple[str, nn.Module, DerivativeReport | None]:
    paths = module_paths(model)
    here, report = model, None
    waiting = list(_called(here, given))
    while waiting:
        module = waiting.pop(0)
        found = _checked(module, given[module], seed)
        if found and "wrong" in (found.first_order, found.second_order):
            here, report = module, found
            waiting = list(_called(here, given))
    return paths[here], here, report


def _checked(
    module: nn.Module, given: Any, seed: int
) -> DerivativeReport | None:
    try:
        with twice_differentiable(module):
            return check_derivatives(module, given, seed=seed)
    except Exception:  # what one part cannot do is not what we look for
        return None


def _called(
    module: nn.Module, given: dict[nn.Module, Any]
) -> Iterator[nn.Module]:
    """The modules just inside; of one that is only a list, its own."""
    for child in module.children():
        if child in given:
            yield child
        else:
            yield from _called(child, given)
