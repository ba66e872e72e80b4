"""Every method leaves everything as it was: on random small models and batches, and also when it is interrupted."""

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parameter import is_lazy

from snippets.capstone import AutogradDebuggerSuite, DebuggerError
from snippets.capstone.activity import find_dead_relus
from snippets.capstone.diagnosis import diagnose
from snippets.capstone.loading import About, Subject, UsageError
from tests.capstone.models import CASES
from tests.capstone.same import differences, photo

METHODS = ["profile_graph", "profile_gradient_flow", "verify_curvature", "find_anomalies", "compute_hvp"]
ALL = [*METHODS, "check_derivatives", "find_dead_relus", "monitor", "report"]


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield


ABOUT = About("m:model", "m:batch", "m:loss", "Sequential", 0, "cpu", "float32", 0, torch.__version__)


class Interrupt(BaseException):
    """Like Ctrl-C."""


def call(suite: AutogradDebuggerSuite, method: str, inputs: Any, targets: Any) -> Any:
    if method == "compute_hvp":
        parameters = [p for p in suite.model.parameters() if p.requires_grad]
        loss = suite.loss_fn(suite.model(inputs), targets)
        return suite.compute_hvp(loss, [torch.ones_like(p) for p in parameters])
    if method == "check_derivatives":
        return suite.check_derivatives(suite.model, inputs, points=1)
    if method == "find_dead_relus":
        return find_dead_relus(suite.model, inputs, targets, suite.loss_fn)
    if method == "monitor":
        with suite.monitor() as watch:
            watch.step()
        return watch.report()
    if method == "report":
        return diagnose(Subject(suite.model, inputs, targets, suite.loss_fn, ABOUT))
    options = {"max_products": 3, "samples": 2} if method == "verify_curvature" else {}
    return getattr(suite, method)(inputs, targets, **options)


PARTS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": lambda: nn.ReLU(inplace=True),
    "dropout": lambda: nn.Dropout(0.4),
    "batch norm": lambda: nn.BatchNorm1d(4),
    "layer norm": lambda: nn.LayerNorm(4),
    "frozen": lambda: nn.Linear(4, 4).requires_grad_(False),
    "linear": lambda: nn.Linear(4, 4),
    "lazy": lambda: nn.LazyLinear(4),
    "normed": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
    "tied": lambda: (lambda one: nn.Sequential(one, nn.Sigmoid(), one))(nn.Linear(4, 4)),
}


def build(parts: list[str], training: bool, odd: set[str]) -> nn.Module:
    layers = [nn.Linear(3, 4), *(PARTS[part]() for part in parts), nn.Linear(4, 2)]
    model = nn.Sequential(*layers).train(training)
    if "grad" in odd:
        for p in model.parameters():
            p.grad = torch.ones_like(p) if p.requires_grad and not is_lazy(p) else None
    if "hooks" in odd:
        model[0].weight.register_hook(lambda g: g * 2)
        model[0].register_forward_hook(lambda *a: None)
        model[-1].weight.register_post_accumulate_grad_hook(lambda p: p.data.zero_())
    if "mixed modes" in odd:
        model[0].eval()
    return model


random_models = {
    "parts": st.lists(st.sampled_from(sorted(PARTS)), max_size=4),
    "training": st.booleans(),
    "odd": st.sets(st.sampled_from(["grad", "hooks", "mixed modes"])),
    "rows": st.integers(2, 4),
    "interrupt": st.sampled_from(["", "", "criterion", "forward", "backward"]),
    "seed": st.integers(0, 2**20),
}


@pytest.mark.filterwarnings("ignore:Error detected in")  # of anomaly mode, when backward is interrupted
@pytest.mark.parametrize("method", ALL)
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(**random_models)
def test_every_method_leaves_everything_as_it_was(
    method: str, parts: list[str], training: bool, odd: set[str], rows: int, interrupt: str, seed: int
) -> None:
    torch.manual_seed(seed)
    model = build(parts, training, odd)
    inputs, targets = torch.randn(rows, 3), torch.randn(rows, 2)

    def criterion(output: Tensor, targets: Tensor) -> Tensor:
        if interrupt == "criterion":
            raise Interrupt
        if interrupt == "backward":
            output.register_hook(stop)
        return F.mse_loss(output, targets)

    def stop(*given: Any) -> None:
        raise Interrupt

    if interrupt == "forward":
        model[-1].register_forward_pre_hook(stop)
    suite = AutogradDebuggerSuite(model, criterion)
    if method == "compute_hvp":  # its forward is the caller's, who leaves traces
        model.eval()
        if {"normed", "lazy"} & set(parts):
            return
    before = photo(model, inputs, targets)
    try:
        call(suite, method, inputs, targets)
    except Interrupt:
        assert interrupt
    except (DebuggerError, UsageError) as error:
        assert "\n" not in str(error)
    assert differences(before, photo(model, inputs, targets)) == []


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", ["profile_graph", "profile_gradient_flow", "find_anomalies"])
def test_reports_are_frozen_and_json_and_text(method: str, name: str) -> None:
    model, inputs, targets, criterion = CASES[name]()
    report = call(AutogradDebuggerSuite(model, criterion), method, inputs, targets)
    assert dataclasses.is_dataclass(report)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.notes = ()
    json.dumps(report.to_dict(), allow_nan=False)
    assert str(report)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("method", ["profile_graph", "profile_gradient_flow", "verify_curvature", "find_anomalies"])
def test_the_mode_of_the_caller_does_not_matter(method: str, mode: Callable[[], Any]) -> None:
    model = build(["batch norm", "tanh", "dropout"], True, {"grad"})
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    suite = AutogradDebuggerSuite(model, F.mse_loss)
    before = photo(model, x, y)
    expected = call(suite, method, x, y)
    with mode():
        assert call(suite, method, x, y) == expected
        assert not torch.is_grad_enabled()
    assert differences(before, photo(model, x, y)) == []
    assert torch.is_grad_enabled()


def test_a_criterion_of_the_call_wins_over_that_of_the_suite() -> None:
    suite = AutogradDebuggerSuite(nn.Linear(2, 1), nn.MSELoss())
    x, y = torch.ones(3, 2), torch.zeros(3, 1)
    assert "MseLossBackward0" in suite.profile_graph(x, y).ops
    assert "L1LossBackward0" not in suite.profile_graph(x, y, F.l1_loss).ops
    assert "AbsBackward0" in suite.profile_graph(x, y, F.l1_loss).ops


def test_the_monitor_of_the_suite() -> None:
    model = nn.Linear(2, 1)
    told: list[Any] = []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with AutogradDebuggerSuite(model).monitor(every=1, on_anomaly=told.append, exploding=1e-3) as watch:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert watch.report().anomaly_count == len(told) == 2


def test_the_interface_is_the_one_that_was_promised() -> None:
    names = {
        "profile_graph": ["inputs", "targets", "criterion"],
        "profile_gradient_flow": ["inputs", "targets", "criterion"],
        "compute_hvp": ["loss", "v"],
        "verify_curvature": ["inputs", "targets", "criterion"],
        "check_derivatives": ["module_or_function", "inputs"],
        "find_anomalies": ["inputs", "targets", "criterion"],
        "monitor": ["every", "on_anomaly"],
    }
    for name, expected in names.items():
        given = list(inspect.signature(getattr(AutogradDebuggerSuite, name)).parameters)
        assert given[1 : len(expected) + 1] == expected
        assert inspect.getdoc(getattr(AutogradDebuggerSuite, name))


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(TypeError, match=r"no torch\.nn\.Module but function"):
        AutogradDebuggerSuite(F.relu)


@pytest.mark.parametrize("method", ["profile_graph", "profile_gradient_flow", "verify_curvature", "find_anomalies"])
def test_one_clear_sentence_for_a_batch_that_does_not_fit(method: str) -> None:
    suite = AutogradDebuggerSuite(nn.Linear(2, 1), nn.MSELoss())
    with pytest.raises(DebuggerError) as caught:
        getattr(suite, method)(torch.ones(3, 7), torch.ones(3, 1))
    assert "tensor (3, 7) float32" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_default_device_and_dtype_change_no_number_of_a_model_that_lies_elsewhere() -> None:
    """What the tool draws and builds is of the CPU, or of the model's device, never of the default one."""
    model, x, y = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(5, 3), torch.randn(5, 2)
    suite = AutogradDebuggerSuite(model, nn.MSELoss())
    asked: list[Callable[[], Any]] = [
        lambda: suite.profile_graph(x, y),
        lambda: suite.profile_gradient_flow(x, y),
        lambda: suite.verify_curvature(x, y),
        lambda: suite.check_derivatives(model, x),
        lambda: suite.find_anomalies(x, y),
    ]
    expected = [str(ask()) for ask in asked]
    with torch.device("meta"):
        assert [str(ask()) for ask in asked] == expected
