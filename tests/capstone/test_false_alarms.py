"""What looks like a wrong derivative and is none, and what a report says of a derivative that is hidden on purpose."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from snippets.capstone.derivatives import check_derivatives
from snippets.capstone.diagnosis import Diagnosis, diagnose, headline
from snippets.capstone.loading import assemble


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def examined(model: nn.Module, command: str = "report", batch: Any = None) -> Diagnosis:
    batch = batch or (torch.randn(6, 4), torch.randn(6, 4))
    return diagnose(assemble(model, batch, nn.MSELoss(), ("m:model", "m:batch", "")), command)


class LayerDrop(nn.Module):
    """Leaves a layer out now and then: most calls agree."""

    def __init__(self, rate: float = 0.15) -> None:
        super().__init__()
        self.layers, self.rate = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), rate

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            if not self.training or torch.rand(()) > self.rate:
                x = x + layer(x).tanh()
        return x


@pytest.mark.parametrize("seed", range(6))
def test_a_layer_that_is_dropped_now_and_then_is_no_wrong_derivative(seed: int) -> None:
    torch.manual_seed(seed)
    model = LayerDrop()
    assert check_derivatives(model, torch.randn(3, 4), seed=seed).first_order in ("not deterministic", "right")
    report = examined(model, "derivatives")
    assert (report.verdict, report.derivatives.loss.first_order) == ("healthy", "right")


def test_random_numbers_do_not_hide_a_backward_that_is_wrong() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.rand(()).clamp(0.5, 0.5) + Flat.apply(x, 1.5)

    assert check_derivatives(Noisy(), torch.randn(3)).first_order == "wrong"


class Flat(torch.autograd.Function):
    """round(x) with a gradient of `slope`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        ctx.slope = slope
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.slope, None


class Call(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(4, 4), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


@pytest.mark.parametrize(
    "function", [lambda x: Flat.apply(x, 1.0), lambda x: x + (x.round() - x).detach()], ids=["Function", "detach"]
)
def test_a_straight_through_estimator_is_a_warning_that_says_so(function: Any) -> None:
    (finding,) = examined(Call(function), "derivatives").findings
    assert (finding.level, finding.title) == ("warning", "Surrogate derivative")
    assert "straight-through" in finding.advice


def test_a_reversed_gradient_is_an_error_that_names_the_reversal() -> None:
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return -grad

    (finding,) = examined(Call(Reverse.apply), "derivatives").findings
    assert finding.level == "error" and "-1 is missing" in finding.advice and "reversal" in finding.advice


def test_without_a_custom_function_the_cause_is_what_autograd_did_not_see() -> None:
    (finding,) = examined(Call(lambda x: x / x.detach().norm()), "derivatives").findings
    assert "detach()" in finding.advice and "its backward" not in finding.advice


def test_a_renormalised_embedding_is_not_blamed_on_torch() -> None:
    model = nn.Embedding(5, 4, max_norm=0.5)
    batch = torch.arange(5), torch.randn(5, 4)
    (finding,) = examined(model, "derivatives", batch).findings
    assert "max_norm" in finding.advice


class Penalty(nn.Module):
    """The squared slope of a critic, by the inputs as WGAN-GP takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.critic(x).sum(), x, create_graph=True)
        return slope


def test_a_model_that_calls_grad_in_its_forward_is_checked_by_its_parameters() -> None:
    report = examined(Penalty())
    assert report.unavailable == {}
    assert report.derivatives.loss.first_order == "right"
    assert any("only parameters were checked" in note for note in report.derivatives.loss.notes)
    assert not [one for one in report.findings if one.section == "derivatives"]


def test_unused_parameters_are_named_and_not_their_layer_alone() -> None:
    (finding,) = examined(Penalty(), "gradients").findings
    assert "No gradient reaches critic.2.bias:" in finding.text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_model_is_examined() -> None:
    report = examined(torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))))
    assert (report.verdict, report.unavailable) == ("healthy", {})


def test_the_first_line_says_how_many_reports_are_missing() -> None:
    class Reentrant(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            return torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=True)

    assert headline(examined(Reentrant(4, 4))) == "Reentrant: healthy (2 not available)"


def test_repeated_singular_values_are_not_taken_for_a_mask() -> None:
    class Svd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.eye(4))

        def forward(self, x: Tensor) -> Tensor:
            u, _, _ = torch.linalg.svd(self.w)
            return x @ u

    (finding,) = (one for one in examined(Svd(), "anomalies").findings if one.section == "anomalies")
    assert "repeated values" in finding.advice


def test_spectral_norm_in_train_mode_is_not_called_a_wrong_operation_alone() -> None:
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 4))
    (finding,) = examined(model, "curvature").findings
    assert finding.title == "Second derivatives disagree" and "spectral_norm" in finding.advice
    assert examined(model.eval(), "curvature").findings == ()
