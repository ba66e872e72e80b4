"""The monitor in live loops: it sees what it should, changes nothing and remembers little."""

import copy
import io
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from snippets.capstone.monitor import GradientAnomaly, MonitorStep, monitor
from tests.capstone.models import CASES, gpt


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield


def loop(model: nn.Module, steps: int, batch: Any = None, criterion: Any = None, optimizer: Any = None) -> Any:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.01)
    x, y = batch or (torch.ones(2, 2), torch.ones(2, 1))
    for _ in range(steps):
        optimizer.zero_grad()
        (criterion or nn.MSELoss())(model(x), y).backward()
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("name", [name for name in CASES if name != "odd"])
def test_training_is_bit_equal_with_and_without_the_monitor(name: str) -> None:
    def train(watched: bool) -> list[bytes]:
        model, inputs, targets, criterion = CASES[name]()
        torch.manual_seed(1)
        if watched:
            with monitor(model) as watch:
                loop(model, 3, (inputs, targets), criterion)
            assert watch.report().read == 3
        else:
            loop(model, 3, (inputs, targets), criterion)
        return [t.detach().numpy().tobytes() for t in [*model.parameters(), *model.buffers()]]

    assert train(False) == train(True)


def test_norms_are_those_of_the_gradients() -> None:
    model = nn.Linear(2, 1)
    seen: list[MonitorStep] = []
    with monitor(model, on_step=seen.append):
        loop(model, 3)
    expected = {"weight": model.weight.grad.norm().item(), "bias": model.bias.grad.norm().item()}
    assert seen[-1].norms == pytest.approx(expected)
    assert seen[-1].total_norm == pytest.approx(torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item())
    assert [s.step for s in seen] == [1, 2, 3]


def test_a_tied_weight_is_read_once() -> None:
    model, tokens, targets, criterion = gpt()
    with monitor(model) as watch:
        loop(model, 1, (tokens, targets), criterion)
    assert "words.weight" in watch.report().last
    assert "head.weight" not in watch.report().last


def test_every_and_a_bounded_memory() -> None:
    model = nn.Linear(2, 1)
    with monitor(model, every=3, history=4) as watch:
        loop(model, 30)
    report = watch.report()
    assert (report.steps, report.read) == (30, 10)
    assert [step for step, _ in report.total_norms] == [19, 22, 25, 28]
    with pytest.raises(ValueError, match="1 or more"):
        monitor(model, every=0)


def test_the_callback_is_told_once_and_again_after_recovery() -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    told: list[GradientAnomaly] = []
    with monitor(model, on_anomaly=told.append, exploding=10) as watch:
        for value in (1, 100, 100, 1, 100, float("nan"), float("nan"), float("inf"), 0, 1e-9):
            model.weight.grad = torch.full((1, 2), float(value))
            optimizer.step()
    assert [(a.step, a.status, a.severity) for a in told] == [
        (2, "exploding", "warning"),
        (5, "exploding", "warning"),
        (6, "nan", "error"),
        (8, "inf", "error"),
        (9, "zero", "warning"),
        (10, "vanishing", "warning"),
    ]
    assert tuple(told) == watch.report().anomalies
    assert str(told[2]) == "step 6, error: weight is nan (norm nan)"
    json.dumps(watch.report().to_dict(), allow_nan=False)
    assert "10 steps, 10 read" in str(watch.report())


def test_a_callback_that_raises_ends_the_loop_and_the_watch() -> None:
    model = nn.Linear(2, 1)

    def stop(anomaly: GradientAnomaly) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), monitor(model, on_anomaly=stop, exploding=1e-9) as watch:
        loop(model, 5)
    assert watch.report().steps == 1
    loop(model, 1)
    assert watch.report().steps == 1


def test_a_watched_model_can_be_pickled_and_copied() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Linear(2, 1))
    with monitor(model) as watch:
        loop(model, 1)
        pickle.loads(pickle.dumps(model))
        twin = copy.deepcopy(model)
        torch.save(model, io.BytesIO())
        loop(twin, 3)  # another model: not watched
        loop(model, 1)
    assert watch.report().steps == 2


def test_other_models_and_parts_are_told_apart() -> None:
    one, two = nn.Linear(2, 1), nn.Linear(2, 1)
    with monitor(one) as first, monitor(two) as second:
        loop(one, 2)
        loop(two, 3)
    assert (first.report().steps, second.report().steps) == (2, 3)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    seen: list[MonitorStep] = []
    with monitor(model, on_step=seen.append):
        loop(model, 1, optimizer=torch.optim.SGD(model[1].parameters(), 0.1))
    assert list(seen[0].norms) == ["1.weight", "1.bias"]


def test_a_replaced_layer_is_seen_under_its_name() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with monitor(model) as watch:
        loop(model, 1)
        model[1] = nn.Linear(2, 1, bias=False)
        model[0].extra = nn.Parameter(torch.ones(1))
        loop(model, 1)
    assert watch.report().steps == 2
    assert set(watch.report().last) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_a_loop_without_an_optimizer_calls_step() -> None:
    model = nn.Linear(2, 1)
    with monitor(model) as watch:
        for _ in range(2):
            model.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            watch.step()
    assert watch.report().steps == 2
    assert watch.report().last["bias"] == 1.0


class Overflow(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1e30


@pytest.mark.parametrize("fused", [False, True])
def test_inf_under_a_grad_scaler_is_a_warning(fused: bool) -> None:
    model = Overflow(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-30, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=1000)
    told: list[GradientAnomaly] = []
    seen: list[MonitorStep] = []
    with monitor(model, on_anomaly=told.append, on_step=seen.append, scaler=scaler, exploding=1e35) as watch:
        for _ in range(20):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(1, 2)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    report = watch.report()
    assert report.steps == 20
    assert 0 < report.skipped < 20
    assert {(a.status, a.severity) for a in told} == {("inf", "warning")}
    assert "skipped" in told[0].text
    assert seen[-1].norms["bias"] == pytest.approx(1e30, rel=1e-5)  # unscaled
    assert "step" not in vars(scaler)
    assert "skipped" in str(report)


def test_a_grad_scaler_whose_gradients_were_unscaled_for_clipping() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with monitor(model, scaler=scaler) as watch:
        scaler.scale(model(torch.ones(1, 2)).sum()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
    assert watch.report().total_norms[0][1] == pytest.approx(0.5, rel=1e-4)


def test_a_compiled_model_is_watched() -> None:
    model = torch.compile(nn.Sequential(nn.Linear(2, 1)), backend="eager")
    with monitor(model) as watch:
        loop(model, 2)
    assert set(watch.report().last) == {"0.weight", "0.bias"}


def test_sparse_gradients_are_watched() -> None:
    model, inputs, targets, criterion = CASES["bag"]()
    with monitor(model) as watch:
        loop(model, 2, (inputs, targets), criterion)
    assert watch.report().last["0.weight"] > 0
