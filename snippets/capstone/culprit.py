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
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

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


GROUPS = 8  # of variables: a wrong entry among them is found by halving
LARGE = 4_000_000  # parameters, above which one point has to do
CUT = (
    "No gradient reaches the inputs, as after detach(): training needs "
    "none, so only parameters were checked."
)
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
        count = sum(p.numel() for p in model.parameters() if not is_lazy(p))
        points = 1 if count > LARGE else 2
        check = partial(
            check_derivatives,
            loss,
            inputs,
            points=points,
            groups=GROUPS,
            seed=seed,
            second=False,
        )
        report = check()
        mode = "as given"
        if report.first_order == "not deterministic" and model.training:
            model.eval()
            mode = "eval"
            report = check()
        if _inputs_cut_off(report):
            report = check(by_inputs=False)
            report = dataclasses.replace(report, notes=(*report.notes, CUT))
        report = _renamed(report, "model.", "loss")
        report = _with_second(report, loss, inputs, seed)
        if "wrong" not in (report.first_order, report.second_order):
            return LossDerivatives(report, mode)
        given = _given(model, inputs, targets, criterion)
        second = report.first_order != "wrong"
        path, module, part = _innermost(model, given, seed, second)
    kind = type(module).__name__
    return LossDerivatives(report, mode, shown(path), kind, part)


def _inputs_cut_off(report: DerivativeReport) -> bool:
    """Whether what is wrong is that backward gives 0 for an input."""
    wrong = report.mismatch
    return (
        wrong is not None
        and wrong.analytic == 0
        and wrong.variable.partition("[")[0] == "input"
    )


class _Loss(nn.Module):
    """The loss as a module, whose inputs are those of the model."""

    def __init__(
        self, model: nn.Module, targets: Any, criterion: Criterion
    ) -> None:
        super().__init__()
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
            return _own_loss(output)
        pair = (output,) if targets is None else (output, targets)
        return self.criterion(*pair)


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
    wide = widen(inputs)
    check = self_check(
        loss.model,
        lambda: check_loss(call_model(loss, wide), loss.model),
        seed=seed,
    )
    more = (f"Second order: {check.reason}.",) if check.reason else ()
    return dataclasses.replace(
        report,
        passed=report.passed and check.verdict in ("agrees", "not done"),
        second_order=_VERDICTS[check.verdict],
        second_error=check.error,
        notes=report.notes + more,
    )


def _own_loss(output: Any) -> Any:
    if isinstance(output, Mapping) and "loss" in output:
        return output["loss"]
    loss = getattr(output, "loss", None)
    return loss if isinstance(loss, Tensor) else output


def _renamed(
    report: DerivativeReport, prefix: str, output: str = "output"
) -> DerivativeReport:
    """With the names of the parameters without what was put around."""

    def of_output(name: str) -> str:
        return name.replace("output", output, 1)

    wrong = report.mismatch
    if wrong is not None:
        wrong = dataclasses.replace(
            wrong,
            output=of_output(wrong.output),
            variable=wrong.variable.removeprefix(prefix),
        )
    names = (name.removeprefix(prefix) for name in report.variables)
    return dataclasses.replace(
        report,
        mismatch=wrong,
        variables=tuple(names),
        outputs=tuple(map(of_output, report.outputs)),
    )


def _given(
    model: nn.Module, inputs: Any, targets: Any, criterion: Criterion
) -> dict[nn.Module, Any]:
    """What each module is called with at its first call: (args, named)."""
    found: dict[nn.Module, Any] = {}

    def look(module: nn.Module, args: Any, named: Any) -> None:
        if module not in found:
            found[module] = map_tensors(
                lambda t: t.detach().clone(), (args, named)
            )

    with untouched(model, criterion, inputs, targets):
        for module in model.modules():
            if not isinstance(module, torch.jit.ScriptModule):
                module.register_forward_pre_hook(look, with_kwargs=True)
        with twice_differentiable(model):
            scalar_loss(model, inputs, targets, criterion)
    return found


def _innermost(
    model: nn.Module, given: dict[nn.Module, Any], seed: int, second: bool
) -> tuple[str, nn.Module, DerivativeReport | None]:
    paths = module_paths(model)
    here, report = model, None
    waiting = list(_called(here, given))
    while waiting:
        module = waiting.pop(0)
        found = _checked(module, given[module], seed, second)
        if found and "wrong" in (found.first_order, found.second_order):
            here, report = module, found
            waiting = list(_called(here, given))
    return paths[here], here, report


def _checked(
    module: nn.Module, given: Any, seed: int, second: bool
) -> DerivativeReport | None:
    args, named = given
    part: nn.Module = module
    if args and named:
        part, args = _Mixed(module, list(named)), (*args, *named.values())
        named = {}
    try:
        with twice_differentiable(module):
            found = check_derivatives(
                part, named or args, groups=GROUPS, seed=seed, second=second
            )
    except Exception:  # what one part cannot do is not what we look for
        return None
    return found if part is module else _renamed(found, "part.")


class _Mixed(nn.Module):
    """A module whose last arguments are given by name."""

    def __init__(self, part: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.part, self.names = part, names

    def forward(self, *given: Any) -> Any:
        n = len(given) - len(self.names)
        named = dict(zip(self.names, given[n:], strict=True))
        return self.part(*given[:n], **named)


def _called(
    module: nn.Module, given: dict[nn.Module, Any]
) -> Iterator[nn.Module]:
    """The modules just inside; of one that is only a list, its own."""
    for child in module.children():
        if child in given:
            yield child
        else:
            yield from _called(child, given)
