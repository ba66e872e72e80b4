# SPDX-License-Identifier: 0BSD
"""How curved is the loss? Hessian products, top eigenvalue, trace.

With θ all parameters that require grad as one vector, g = dL/dθ and
H = d²L/dθ²:

    along v         vᵀHv for a random unit vector v (n,)
    top eigenvalue  λ with Hx = λx, by Lanczos     (`eigenvalue`)
    trace           Σ Hᵢᵢ from random signs        (`trace`)
    self-check      Hv against differences of g    (`selfcheck`)

All are in units of the loss divided by the square of those of θ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .eigenvalue import Lanczos, Which, lanczos
from .float64 import widen
from .hvp import GradientGraph, flatten, trainable, twice_differentiable
from .naming import is_compiled
from .outputs import Criterion, DebuggerError, Report, scalar_loss
from .selfcheck import SelfCheck, not_done, self_check
from .state import untouched
from .trace import Trace, hutchinson


@dataclass(frozen=True)
class CurvatureReport(Report):
    """The curvature of a loss at the parameters of a model.

    loss: its value. gradient_norm: ‖dL/dθ‖.
    parameters: entries of θ (a complex one counts twice).
    seed: of v and of the signs for the trace.
    along: vᵀHv for the random unit vector v.
    which: what "top" means. eigenvalue: the top eigenvalue λ.
    residual: ‖Hx − λx‖ for its unit vector x, in units of λ: some
        eigenvalue lies within it of λ.
    converged: the residual is within the tolerance, relative to the
        largest |Ritz value|.
    products: Hessian-vector products that the eigenvalue took.
    spectrum: the Ritz values in ascending order.
    weights: the share of the spectrum that each stands for, as seen
        from v.
    trace: an estimate. trace_error: its standard error, NaN without
        samples. trace_samples: the products that it took.
    check: the self-check of the products.
    notes: what a reader has to know, one sentence each.
    """

    loss: float
    gradient_norm: float
    parameters: int
    seed: int
    along: float
    which: Which
    eigenvalue: float
    residual: float
    converged: bool
    products: int
    spectrum: tuple[float, ...]
    weights: tuple[float, ...]
    trace: float
    trace_error: float
    trace_samples: int
    check: SelfCheck
    notes: tuple[str, ...]

    def __str__(self) -> str:
        top = "" if self.converged else "   not converged"
        lines = [
            f"Curvature of a loss of {self.loss:.6g} in "
            f"{self.parameters:,} parameters, gradient norm "
            f"{self.gradient_norm:.3g}",
            f"  along v (seed {self.seed})  {self.along: .4g}",
            f"  eigenvalue          {self.eigenvalue: .4g}  ({self.which}, "
            f"residual {self.residual:.1g}, {self.products} products){top}",
            f"  trace               {self.trace: .4g}  ± "
            f"{self.trace_error:.2g}  ({self.trace_samples} samples)",
            f"  self-check          {_check_text(self.check)}",
        ]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


def _check_text(check: SelfCheck) -> str:
    if check.verdict == "not done":
        return f"not done: {check.reason}"
    more = f", {check.reason}" if check.reason else ""
    return (
        f"{check.verdict} with gradient differences "
        f"(error {check.error:.1g} at {check.parameter}{more})"
    )


def compute_hvp(
    model: nn.Module, loss: Tensor, v: Sequence[Tensor]
) -> list[Tensor]:
    """Return Hv, shaped like the parameters that require grad.

    loss: one real element, from a forward of the model. Its graph is
        kept, so that you can call again; attention has to run without
        its fused kernels, see `twice_differentiable`.
    v: one tensor for each parameter that requires grad, in the order of
        `model.parameters()`, with its shape, dtype and device.

    Zero for a parameter without part in the loss. Writes no `.grad`.
    For many products make one `GradientGraph` and call its `product`.
    Raises DebuggerError if v does not fit, the loss is no connected
    scalar, or an operation has no second derivative.
    """
    named = trainable(model)
    if len(v) != len(named):
        raise DebuggerError(
            f"v has {len(v)} tensors; {len(named)} parameters require grad."
        )
    for (name, p), w in zip(named.items(), v, strict=True):
        if w.shape != p.shape or w.dtype != p.dtype or w.device != p.device:
            raise DebuggerError(
                f"v for {name} is {tuple(w.shape)}, {w.dtype}, on {w.device}; "
                f"the parameter is {tuple(p.shape)}, {p.dtype}, on {p.device}."
            )
    if loss.numel() != 1:
        raise DebuggerError(f"The loss has {loss.numel()} elements, not one.")
    with torch.inference_mode(False):
        return GradientGraph(loss, list(named.values())).product(v)


def verify_curvature(
    model: nn.Module,
    inputs: Any,
    targets: Any = None,
    criterion: Criterion = None,
    *,
    seed: int = 0,
    which: Which = "magnitude",
    tolerance: float = 1e-2,
    max_products: int = 100,
    samples: int = 10,
    verify: bool = True,
    memory: int = 2 << 30,
) -> CurvatureReport:
    """Measure the curvature of the loss at the model's parameters.

    inputs, targets, criterion: as in `scalar_loss`. The modes of the
        model are taken as they are; dropout masks and batch statistics
        are drawn once and hold for all products.
    seed: of v and of the signs for the trace.
    which: "largest" and "smallest" go by sign, "magnitude" by size.
    tolerance, max_products: of the eigenvalue, see `lanczos`.
    samples: products for the trace; 0: no trace.
    verify: check one product in float64 (about five more gradients).
    memory: bytes for the basis of the eigenvalue, one number for each
        parameter and product. A model too large for that takes more
        products, and a note says so. The least are 4 columns.

    The model and its `.grad` are as before afterwards.
    Raises DebuggerError as `scalar_loss` does, and where an operation
    has no second derivative.
    """
    if is_compiled(model):
        raise DebuggerError(
            "A compiled model has no second derivative: pass the module "
            "as it was before torch.compile."
        )
    with (
        untouched(model, criterion, inputs, targets),
        torch.inference_mode(False),
        twice_differentiable(model),
    ):
        loss = scalar_loss(model, inputs, targets, criterion)
        graph = GradientGraph(loss, list(trainable(model).values()))
        gradient = flatten(graph.gradients)
        # Drawn on the CPU: the same numbers whatever the default device is.
        draws = torch.Generator("cpu").manual_seed(seed)
        found = lanczos(
            graph.flat_product,
            torch.randn(len(gradient), generator=draws, device="cpu").to(
                gradient
            ),
            which=which,
            tolerance=tolerance,
            max_products=max_products,
            columns=max(4, min(max_products, memory // gradient.nbytes)),
        )
        trace = _trace(graph, gradient, samples, found, draws)
        del graph
        check = not_done("not asked for")
        if verify:
            x, y = widen((inputs, targets))
            check = self_check(
                model, lambda: scalar_loss(model, x, y, criterion), seed=seed
            )
        value, norm = loss.item(), gradient.norm().item()
    size = abs(found.value) or 1.0
    return CurvatureReport(
        loss=value,
        gradient_norm=norm,
        parameters=len(gradient),
        seed=seed,
        along=found.along,
        which=which,
        eigenvalue=found.value,
        residual=found.residual / size,
        converged=found.converged,
        products=found.products,
        spectrum=found.ritz,
        weights=found.weights,
        trace=trace.value,
        trace_error=trace.error,
        trace_samples=trace.samples,
        check=check,
        notes=_notes(found, check, value, norm),
    )


def _trace(
    graph: GradientGraph,
    like: Tensor,
    samples: int,
    found: Lanczos,
    draws: torch.Generator,
) -> Trace:
    if samples == 0 or math.isnan(found.value):
        return Trace(math.nan, math.nan, 0)
    return hutchinson(
        graph.flat_product, like, samples=samples, generator=draws
    )


def _notes(
    found: Lanczos, check: SelfCheck, loss: float, norm: float
) -> tuple[str, ...]:
    notes = []
    if math.isnan(found.value):
        if not math.isfinite(loss):
            what = "The loss is"
        elif not math.isfinite(norm):
            what = "The gradient is"
        else:
            what = "The loss and its gradient are finite, the product Hv is"
        notes.append(f"{what} not finite: see find_anomalies.")
    elif not found.converged:
        notes.append(
            f"The eigenvalue is not settled after {found.products} products: "
            "raise max_products, or take it as a hint."
        )
    if found.restarts:
        notes.append(
            "The basis of the eigenvalue does not fit into memory=, so it "
            f"was cut to its best half (restarts: {found.restarts}), which "
            "takes more products."
        )
    if check.verdict == "disagrees":
        notes.append(
            "Do not trust these numbers: products and differences of "
            f"gradients disagree, seen at {check.parameter}. Either an "
            "operation has a wrong second derivative (known on torch 2.13: "
            "weight_norm on the CPU, and layer_norm, batch_norm and "
            "instance_norm in a loss made of gradients), or the gradient "
            "takes as a constant what is none: detach(), no_grad, a state "
            "that each call moves, as in spectral_norm before eval()."
        )
    elif check.verdict == "inconclusive":
        notes.append(
            "The self-check cannot tell: the gradient is not smooth enough "
            "here for differences."
        )
    return tuple(notes)
