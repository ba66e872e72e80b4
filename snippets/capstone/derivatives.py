# SPDX-License-Identifier: 0BSD
"""Are the derivatives of a module or function right?

    first order    vᵀJ of backward against differences of f
    second order   the same for the function (x, v) → vᵀJ(x)

in float64 where f can, at the given point and at some drawn near it, for
each output and each input or parameter. How: see `differences`.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .checking import Run
from .float64 import in_float64, map_tensors, wide_leaves
from .naming import has_lazy
from .outputs import Report, call_model
from .problem import FirstOrder
from .state import untouched
from .suspects import Mismatch


@dataclass(frozen=True)
class DerivativeReport(Report):
    """What was checked of a function's derivatives, and what was found.

    passed: both orders are right, or the first is and the second is not
        available or not asked for. False also if nothing was checked.
    first_order, second_order: "right"; "wrong"; "not smooth here": no
        point was found at which the function is smooth; "inconclusive";
        "not available": backward cannot be differentiated; "nothing
        checked"; "not deterministic"; "not asked for".
    first_error, second_error: the largest relative error among those
        that count; NaN if none do.
    mismatch: one wrong entry. cause: why it is likely to be wrong, or "".
    points: what was found at each point, the given one first.
    variables, outputs: names of what was checked.
    not_checked: integer inputs and outputs, which have no derivatives.
    dtype: what it was computed in.
    notes: what a reader has to know, the most important first.
    """

    passed: bool
    first_order: str
    second_order: str
    first_error: float
    second_error: float
    mismatch: Mismatch | None
    cause: str
    points: tuple[str, ...]
    variables: tuple[str, ...]
    outputs: tuple[str, ...]
    not_checked: tuple[str, ...]
    dtype: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "NOT passed"
        lines = [f"Derivatives: {verdict}. {self._summary()}"]
        lines += [f"  note: {note}" for note in self.notes]
        if self.mismatch:
            lines.append(f"  {self.mismatch}")
        if self.points:
            lines.append(f"  points: {', '.join(self.points)}")
        if self.outputs:
            lines.append(
                f"  checked: {_some(self.outputs)} by {_some(self.variables)}"
                f", in {self.dtype}"
            )
        if self.not_checked:
            lines.append(f"  not checked: {_some(self.not_checked)}")
        return "\n".join(lines)

    def _summary(self) -> str:
        if self.first_order in ("not deterministic", "nothing checked"):
            return f"{self.first_order.capitalize()}."
        text = f"First order {_with(self.first_order, self.first_error)}, "
        text += f"second order {_with(self.second_order, self.second_error)}"
        return f"{text}: {self.cause}" if self.cause else f"{text}."


def _with(verdict: str, error: float) -> str:
    if verdict not in ("right", "wrong") or error != error:
        return verdict
    return f"{verdict} (error {error:.1g})" if error else f"{verdict} (exact)"


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


def check_derivatives(
    f: Callable[..., Any],
    inputs: Any,
    *,
    points: int = 3,
    groups: int = 32,
    seed: int = 0,
    rtol: float = 1e-6,
    second: bool = True,
    by_inputs: bool = True,
) -> DerivativeReport:
    """Check first and second derivatives of f against differences.

    f: a module (then its parameters are checked too, in its present
        mode), a function, or a torch.autograd.Function class. Returns
        tensors, also nested in tuples, lists, dicts, dataclasses.
    inputs: a tensor; a tuple of arguments; a dict of keyword arguments.
        If some tensors require grad, only these are varied; otherwise
        all but the integers.
    points: how many, with the given one; the others are drawn near it.
    groups: more variables than that are varied several at a time. Each
        group takes four runs of f for each point.
    seed: of the points and directions.
    rtol: the relative error that counts as right, in float64.
    second: check the second order too.
    by_inputs: vary the inputs too; False: the parameters of f alone.

    An error that is small beside the other entries of the same output
    and input, below rtol times their root sum of squares, is not seen.
    Checkpoints run again with the values that are tried. Lazy modules get
    their shapes from one call, and are lazy again afterwards.
    Nothing is changed, no `.grad` written, no random number drawn.
    Raises what f raises on these inputs.
    """
    if isinstance(f, type) and issubclass(f, torch.autograd.Function):
        f = f.apply
    module = f if isinstance(f, nn.Module) else nn.Module()
    with (
        untouched(module, inputs),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        if has_lazy(module):
            call_model(module, map_tensors(Tensor.clone, inputs))
        refusal = _float64_refusal(f, module, inputs)
        with nullcontext() if refusal else in_float64(module):
            given = inputs if refusal else wide_leaves(inputs)
            first = FirstOrder(f, given, by_inputs)
            run = Run(first, points, groups, seed, rtol)
            if refusal:
                run.notes.append(
                    f"f does not run in float64 ({refusal}): less exact."
                )
            run.check(second)
        return _report(run)


def _float64_refusal(f: Callable[..., Any], module: nn.Module, x: Any) -> str:
    """Return why f cannot run in float64, "" if it can."""
    try:
        with in_float64(module):
            first = FirstOrder(f, wide_leaves(x))
            first.run(first.values, record=False)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        first = FirstOrder(f, x)
        first.run(first.values, record=False)  # raises: f cannot run at all
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""


def _report(run: Run) -> DerivativeReport:
    one, two = run.verdicts
    others = ("right", "not available", "not asked for")
    passed = one == "right" and two in others
    return DerivativeReport(
        passed=passed and not run.bad,
        first_order=one,
        second_order=two,
        first_error=run.errors[0],
        second_error=run.errors[1],
        mismatch=run.mismatch,
        cause=run.cause,
        points=tuple(run.labels),
        variables=tuple(run.first.names),
        outputs=tuple(run.outputs),
        not_checked=(*run.first.skipped, *run.first.ignored),
        dtype=run.dtype,
        notes=tuple(run.notes),
    )
