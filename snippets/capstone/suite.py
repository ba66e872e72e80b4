# SPDX-License-Identifier: 0BSD
"""All reports on one model, in one place."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from .gradients import GradientReport, profile_gradient_flow
from .graph import GraphReport, profile_graph
from .monitor import GradientAnomaly, Monitor, monitor
from .outputs import Criterion

if TYPE_CHECKING:
    from .anomalies import AnomalyReport
    from .curvature import CurvatureReport
    from .derivatives import DerivativeReport


class AutogradDebuggerSuite:
    """Ask a model about its graph, gradients, curvature and derivatives.

        suite = AutogradDebuggerSuite(model, torch.nn.CrossEntropyLoss())
        print(suite.profile_gradient_flow(inputs, targets))

    model: any module; its modes are taken as they are, so call `eval()`
        or `train()` before.
    loss_fn: the criterion where a method is given none. Leave it out for
        a model that returns its loss itself.

    Every method leaves the model as it found it, also when it raises or
    is interrupted: parameters, buffers, `.grad`, modes, hooks, random
    state (see `state.untouched`). It returns a frozen dataclass with
    `to_dict()` for JSON; `str()` of it is for people.

    inputs: a tensor; a tuple of positional or a dict of keyword
        arguments. targets: handed to the criterion. What does not fit
        raises DebuggerError, whose text is one sentence.
    """

    def __init__(self, model: nn.Module, loss_fn: Criterion = None) -> None:
        if not isinstance(model, nn.Module):
            kind = type(model).__name__
            raise TypeError(f"The model is no torch.nn.Module but {kind}.")
        self.model = model
        self.loss_fn = loss_fn

    def profile_graph(
        self,
        inputs: Any,
        targets: Any = None,
        criterion: Criterion = None,
        **options: Any,
    ) -> GraphReport:
        """Count the graph and what it keeps: `graph.profile_graph`."""
        given = self.model, inputs, targets, criterion or self.loss_fn
        return profile_graph(*given, **options)

    def profile_gradient_flow(
        self,
        inputs: Any,
        targets: Any = None,
        criterion: Criterion = None,
        **options: Any,
    ) -> GradientReport:
        """Read all gradients: `gradients.profile_gradient_flow`."""
        given = self.model, inputs, targets, criterion or self.loss_fn
        return profile_gradient_flow(*given, **options)

    def compute_hvp(self, loss: Tensor, v: Sequence[Tensor]) -> list[Tensor]:
        """Return a Hessian-vector product: `curvature.compute_hvp`."""
        from .curvature import compute_hvp

        return compute_hvp(self.model, loss, v)

    def verify_curvature(
        self,
        inputs: Any,
        targets: Any = None,
        criterion: Criterion = None,
        **options: Any,
    ) -> "CurvatureReport":
        """Measure how the loss bends: `curvature.verify_curvature`."""
        from .curvature import verify_curvature

        given = self.model, inputs, targets, criterion or self.loss_fn
        return verify_curvature(*given, **options)

    def check_derivatives(
        self,
        module_or_function: Callable[..., Any],
        inputs: Any,
        **options: Any,
    ) -> "DerivativeReport":
        """Try derivatives on differences: `derivatives.check_derivatives`."""
        from .derivatives import check_derivatives

        return check_derivatives(module_or_function, inputs, **options)

    def find_anomalies(
        self,
        inputs: Any,
        targets: Any = None,
        criterion: Criterion = None,
    ) -> "AnomalyReport":
        """Find the first NaN or Inf: `anomalies.find_anomalies`."""
        from .anomalies import find_anomalies

        given = self.model, inputs, targets, criterion or self.loss_fn
        return find_anomalies(*given)

    def monitor(
        self,
        every: int = 1,
        on_anomaly: Callable[[GradientAnomaly], Any] | None = None,
        **options: Any,
    ) -> Monitor:
        """Watch a live training loop: `monitor.monitor`."""
        return monitor(self.model, every, on_anomaly, **options)
