"""find_anomalies: the first NaN or inf, with phase, operation, module and line."""

import inspect
import json
import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from snippets.capstone.anomalies import AnomalyReport, find_anomalies
from snippets.capstone.outputs import DebuggerError
from snippets.capstone.state import same_bits


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


class Net(nn.Module):
    """A linear layer, then a function of (h, x)."""

    def __init__(self, f: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.f = nn.Linear(3, 3), f

    def forward(self, x: Tensor) -> Tensor:
        return self.f(self.inner(x), x)


def found_in(f: Callable[[Tensor, Tensor], Tensor], criterion=torch.sum) -> AnomalyReport:
    return find_anomalies(Net(f), torch.randn(4, 3), None, criterion)


def code_line(f: Callable[..., object], text: str) -> int:
    """The number of the line of f that holds some text."""
    lines, first = inspect.getsourcelines(f)
    return next(first + k for k, line in enumerate(lines) if text in line)


# Scenarios


def test_a_healthy_model_has_none():
    report = found_in(lambda h, x: h.tanh())
    assert not report.found and report.op == "" and report.gradients == () and report.parameters == 2
    assert str(report).startswith("No NaN and no inf in a loss of ") and report.notes == ()


def test_inf_is_found_though_detect_anomaly_misses_it():
    def overflow(h: Tensor, x: Tensor) -> Tensor:
        return (h.abs() * 1000).exp()  # exp of 100 and more

    report = found_in(overflow)
    assert (report.found, report.kind, report.phase, report.op) == (True, "inf", "forward", "exp")
    assert report.place.line == code_line(overflow, ".exp()") and report.place.file == __file__
    assert report.inf > 0 and report.nan == 0 and report.numel == 12 and report.loss == math.inf
    assert "exp overflows" in report.cause
    model = Net(lambda h, x: h.exp() * 1e38 * 10)
    with torch.autograd.set_detect_anomaly(True):
        model(torch.ones(1, 3)).sum().backward()  # no error
    assert torch.isinf(model.inner.weight.grad).all()


def test_an_inf_in_backward_alone_is_found():
    def root(h: Tensor, x: Tensor) -> Tensor:
        return (h * 0).sqrt()

    report = found_in(root)
    assert (report.kind, report.phase, report.op, report.node) == ("inf", "backward", "sqrt", "SqrtBackward0")
    assert report.loss == 0 and report.order == 1 and "infinite at 0: add eps" in report.cause
    assert report.place.code == "return (h * 0).sqrt()"


def test_a_nan_loss_with_finite_gradients():
    report = find_anomalies(nn.Linear(3, 2), torch.randn(4, 3), torch.full((4,), -100), nn.functional.cross_entropy)
    assert (report.phase, report.op, report.kind) == ("loss", "nll_loss_forward", "nan")
    assert math.isnan(report.loss) and report.gradients == () and "all are ignore_index" in report.cause
    assert "gradients not finite: 0 of 2" in str(report)


def masked_sqrt_at_zero(h: Tensor, x: Tensor) -> Tensor:
    h = h * (h > 0)  # relu would drop the NaN again on its way back
    return torch.where(h > 0, h.sqrt(), 0.0)


def masked_sqrt_below_zero(h: Tensor, x: Tensor) -> Tensor:
    return torch.where(h > 0, h.sqrt(), 0.0)


def masked_div(h: Tensor, x: Tensor) -> Tensor:
    return torch.where(x > 0, h / x.clamp(min=0), 0.0)


def masked_div_of_the_divisor(h: Tensor, x: Tensor) -> Tensor:
    return torch.where(h > 0, x / (h * (h > 0)), 0.0)


def masked_fill_of_log(h: Tensor, x: Tensor) -> Tensor:
    return (h * (h > 0)).log().masked_fill(h <= 0, 0.0)


@pytest.mark.parametrize(
    ("f", "op", "phase"),
    [
        (masked_sqrt_at_zero, "sqrt", "backward"),
        (masked_sqrt_below_zero, "sqrt", "forward"),
        (masked_div, "div", "backward"),
        (masked_div_of_the_divisor, "div", "backward"),
        (masked_fill_of_log, "log", "backward"),
    ],
)
def test_a_nan_masked_by_where_names_the_operation_and_says_mask_the_input(f, op, phase):
    report = found_in(f)
    assert (report.found, report.op, report.phase) == (True, op, phase) and math.isfinite(report.loss)
    assert f"mask the input of {op}" in report.cause and report.gradients == ("inner.weight", "inner.bias")
    assert report.place.line == code_line(f, "return") and report.module == ""


def test_nan_in_a_double_backward():
    class Rough(nn.Module):
        """f = |w·x|^1.5 at w·x = 0: f′ = 0, f″ = inf."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 1, bias=False)
            nn.init.zeros_(self.inner.weight)

        def forward(self, x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            power = self.inner(x) ** 1.5
            (g,) = torch.autograd.grad(power.sum(), x, create_graph=True)
            return (g * torch.ones(3)).square().sum()

    report = find_anomalies(Rough(), torch.randn(4, 3))
    assert (report.phase, report.order, report.op) == ("backward", 2, "pow")
    assert report.loss == 0 and report.gradients == ("inner.weight",)
    assert report.place.line == code_line(Rough, "** 1.5") and "double backward, pow (" in str(report)


def test_nan_in_the_backward_that_the_model_runs_itself():
    class Penalty(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 1)
            nn.init.zeros_(self.inner.weight)
            nn.init.zeros_(self.inner.bias)

        def forward(self, x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            length = self.inner(x).square().sum(1).sqrt()
            (g,) = torch.autograd.grad(length.sum(), x, create_graph=True)
            return g.square().mean()

    report = find_anomalies(Penalty(), torch.randn(4, 3))
    assert (report.phase, report.order, report.op) == ("backward", 1, "sqrt") and math.isnan(report.loss)
    assert report.place.line == code_line(Penalty, ".sqrt()")


def test_gradient_penalty_at_zero_gradient_is_healthy_with_norm_and_not_with_a_bare_root():
    class Penalty(nn.Module):
        def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.critic = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 1))
            nn.init.zeros_(self.critic[3].weight)
            self.norm = norm

        def forward(self, x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            (g,) = torch.autograd.grad(self.critic(x).sum(), x, create_graph=True)
            return (self.norm(g.flatten(1)) - 1).square().mean()

    images = torch.randn(3, 1, 4, 4)
    assert not find_anomalies(Penalty(lambda g: g.norm(2, dim=1)), images).found
    report = find_anomalies(Penalty(lambda g: g.square().sum(1).sqrt()), images)
    assert (report.phase, report.op, report.loss) == ("backward", "sqrt", 1)


def test_a_scalar_loss_and_the_shape_and_dtype_in_the_record():
    report = found_in(lambda h, x: h, lambda o: (o.double().sum() * 0).log())
    assert (report.phase, report.op, report.shape, report.dtype) == ("loss", "log", (), "float64")
    assert (report.numel, report.nan, report.inf) == (1, 0, 1)
    assert "in a float64 tensor of shape (): 0 NaN, 1 inf of 1" in str(report)
    report = found_in(lambda h, x: h.reshape(2, 6) / 0)
    assert (report.shape, report.dtype, report.numel) == ((2, 6), "float32", 12)
    assert report.nan + report.inf == 12


# What is no anomaly


def test_a_mask_of_minus_inf_is_no_anomaly_and_not_blamed_for_another():
    mask = torch.full((4, 4), -torch.inf).triu(1)

    def attend(h: Tensor, x: Tensor) -> Tensor:
        return (h @ h.T + mask).softmax(-1) @ h

    assert not found_in(attend).found and found_in(attend).notes == ()
    report = found_in(lambda h, x: attend(h, x) + (h * 0).log())
    assert (report.phase, report.op, report.kind) == ("forward", "log", "inf")
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x, src_mask=nn.Transformer.generate_square_subsequent_mask(3), is_causal=True)

    assert not find_anomalies(Causal(), torch.randn(2, 3, 4), None, lambda o: o.square().mean()).found


def test_a_row_that_is_masked_wholly_is_found_at_the_softmax():
    report = found_in(lambda h, x: h.masked_fill(torch.ones(4, 3, dtype=torch.bool), -torch.inf).softmax(1))
    assert (report.op, report.kind) == ("_softmax", "nan") and "mask no row wholly" in report.cause


def test_what_is_absorbed_is_a_note():
    report = found_in(lambda h, x: torch.where(x > 0, x.sqrt(), 0.0) + h)
    assert not report.found and "NaN came up in forward, sqrt" in report.notes[0]


def test_norm_at_zero_masks_its_own_nan():
    report = found_in(lambda h, x: (h * 0).norm(dim=1))
    assert not report.found and report.notes == ()


# Where it comes from


def test_an_overflow_that_makes_nan_later_is_the_first():
    report = found_in(lambda h, x: (h.abs() * 1000).exp().softmax(1))
    assert (report.op, report.kind) == ("exp", "inf") and math.isnan(report.loss)


def test_overflow_of_half_precision_names_module_and_limit():
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3))).half()
    nn.init.constant_(model[1][0].weight, 60000)
    report = find_anomalies(model, torch.ones(4, 3).half() * 9, None, torch.sum)
    assert (report.module, report.op, report.dtype) == ("1.0", "addmm", "float16")
    assert "65,504" in report.cause and report.place.file == ""  # no line is the user's own


def test_nan_in_the_batch_and_in_a_parameter_are_told_apart():
    x = torch.randn(4, 3)
    x[1, 2] = math.nan
    report = find_anomalies(nn.Linear(3, 2), {"input": x}, None, torch.sum)
    assert (report.phase, report.op, report.nan) == ("inputs", "inputs['input']", 1)
    assert str(report).startswith("First NaN: inputs['input'] has it from the start")
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    with torch.no_grad():
        model[1].weight[0, 1] = math.inf
    report = find_anomalies(model, torch.randn(4, 3), None, torch.sum)
    assert (report.phase, report.op, report.kind) == ("parameters", "1.weight", "inf")
    mask = torch.full((3, 3), -torch.inf)

    class Masked(nn.Linear):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return (super().forward(x) + mask).softmax(1)

    report = find_anomalies(Masked(3, 3), (torch.randn(3, 3), mask), None, torch.sum)
    assert (report.phase, report.op) == ("forward", "_softmax")
    assert report.notes == ("The inf in inputs[1] takes part in it.",)
    targets = torch.tensor([[math.nan]])
    report = find_anomalies(nn.Linear(3, 1), torch.randn(1, 3), targets, nn.functional.mse_loss)
    assert (report.phase, report.op) == ("inputs", "targets")


def test_the_innermost_module_is_named_in_both_directions():
    class Log(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            return h.relu().log()

    class Root(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            return (h.relu() * 0).sqrt()

    for layer, phase in ((Log(), "forward"), (Root(), "backward")):
        model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh(), layer), nn.Linear(3, 1))
        report = find_anomalies(model, torch.randn(9, 3), None, torch.sum)
        assert (report.phase, report.module) == (phase, "1.1")
        assert report.place.function == "forward" and report.place.file == __file__


def test_a_wrong_custom_backward_is_found():
    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            return g / (ctx.saved_tensors[0] * 0)

    report = found_in(lambda h, x: Custom.apply(h))
    assert (report.phase, report.op, report.node) == ("backward", "custom", "CustomBackward")
    assert "Custom.apply" in report.place.code


def test_in_place_operations_checkpoints_and_sparse_gradients():
    assert found_in(lambda h, x: h.clone().div_(0)).op == "div"
    report = found_in(lambda h, x: checkpoint(lambda t: (t * 0).log(), h, use_reentrant=False))
    assert (report.phase, report.op) == ("forward", "log")
    words = nn.Embedding(5, 3, sparse=True)
    report = find_anomalies(words, torch.tensor([1, 1]), None, lambda o: (o * 0).sqrt().sum())
    assert (report.phase, report.op, report.gradients) == ("backward", "sqrt", ("weight",))
    assert find_anomalies(words, torch.tensor([1]), None, torch.sum).found is False


def test_a_model_that_stops_at_the_nan_is_still_explained():
    def sample(h: Tensor, x: Tensor) -> Tensor:
        weights = (h * 0) / 0
        return h.sum() + torch.multinomial(weights.softmax(1), 1)

    report = found_in(sample)
    assert (report.op, report.phase) == ("div", "forward") and math.isnan(report.loss)
    assert "Then it stopped" in report.notes[0] and "probability tensor" in report.notes[0]
    with pytest.raises(DebuggerError, match="mat1 and mat2"):
        find_anomalies(nn.Linear(2, 1), torch.ones(1, 3), None, torch.sum)


def test_a_chain_too_deep_to_walk_is_no_trouble():
    def deep(h: Tensor, x: Tensor) -> Tensor:
        for _ in range(3000):
            h = h + 1
        return (h - h.detach()).sqrt()

    assert found_in(deep).op == "sqrt"


def test_compiled_models_run_as_written():
    model = torch.compile(nn.Sequential(nn.Linear(3, 3), Net(masked_sqrt_at_zero)))
    report = find_anomalies(model, torch.randn(4, 3), None, torch.sum)
    assert (report.op, report.module) == ("sqrt", "1") and report.gradients[0] == "0.weight"


# What it leaves alone


def test_nothing_is_changed_also_when_it_raises():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    model[0].weight.grad = torch.ones(4, 3)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    x = torch.randn(5, 3)
    random = torch.get_rng_state()

    def fails(output: Tensor) -> Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_anomalies(model, x, None, fails)
    find_anomalies(model, x, None, lambda o: (o * 0).log().sum())
    assert all(same_bits(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state()) and model[0].weight.grad.tolist() == torch.ones(4, 3).tolist()
    assert model[3].weight.grad is None and not torch.is_anomaly_enabled()
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks and not module._forward_hooks_always_called


def test_the_numbers_are_those_of_a_run_without_the_tool():
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)), torch.randn(5, 3)
    state = torch.get_rng_state()
    report = find_anomalies(model, x, None, torch.mean)
    torch.set_rng_state(state)
    assert report.loss == model(x).mean().item()


def test_the_report_is_plain_data():
    report = found_in(masked_div)
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["found"] is True and data["place"]["code"] == "return torch.where(x > 0, h / x.clamp(min=0), 0.0)"
    assert data["gradients"] == ["inner.weight", "inner.bias"]


def test_the_compiler_is_not_imported():
    code = (
        "import sys, torch; from torch import nn\n"
        "from snippets.capstone.activity import find_dead_relus\n"
        "from snippets.capstone.anomalies import find_anomalies\n"
        "given = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(3, 2), None, torch.sum\n"
        "find_anomalies(*given), find_dead_relus(*given)\n"
        "assert 'torch._dynamo' not in sys.modules"  # it takes seconds
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
