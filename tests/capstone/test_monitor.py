"""The monitor in live loops: it sees what it should, changes nothing and remembers little."""

import copy
import gc
import io
import json
import pickle
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from snippets.capstone import watched
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


# Optimizers of all kinds


def backward(model: nn.Module, optimizer: Any) -> Tensor:
    optimizer.zero_grad()
    loss = nn.MSELoss()(model(torch.ones(2, 2)), torch.ones(2, 1))
    loss.backward()
    return loss


@pytest.mark.parametrize("by_name", [False, True])
def test_gradients_of_a_closure_are_read_after_it(by_name: bool) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    truth: list[float] = []

    def closure() -> Tensor:
        loss = backward(model, optimizer)
        truth.append(model.weight.grad.norm().item())
        return loss

    losses = []
    with monitor(model) as watch:
        for _ in range(3):
            losses.append(optimizer.step(closure=closure) if by_name else optimizer.step(closure))
            assert watch.report().last["weight"] == pytest.approx(truth[-1])
    assert watch.report().steps == 3 == len(truth)
    assert losses[0] > losses[1] > losses[2] > 0


def test_lbfgs_is_read_where_each_step_begins() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    truth: list[list[float]] = []

    def closure() -> Tensor:
        loss = backward(model, optimizer)
        truth[-1].append(model.weight.grad.norm().item())
        return loss

    seen: list[MonitorStep] = []
    with monitor(model, on_step=seen.append) as watch:
        for _ in range(3):
            truth.append([])
            optimizer.step(closure)
    assert all(len(norms) > 1 for norms in truth)
    assert [s.norms["weight"] for s in seen] == pytest.approx([norms[0] for norms in truth])
    assert watch.report().steps == 3


class Inherits(torch.optim.Adam):
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class Wraps(torch.optim.Optimizer):
    """As SAM does: an optimizer inside with the same groups."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self.inner = torch.optim.SGD(self.param_groups, 0.1)

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


@pytest.mark.parametrize("kind", [Inherits, Wraps])
def test_a_step_inside_a_step_is_one_step(kind: Any) -> None:
    model, other = nn.Linear(2, 1), nn.Linear(2, 1)
    torch.optim.Adam(other.parameters())  # torch puts its hooks around a class at the first use of it
    optimizer = kind(model.parameters())
    with monitor(model) as watch:
        for _ in range(3):
            backward(model, optimizer)
            optimizer.step()
        optimizer.step(lambda: backward(model, optimizer))
    assert watch.report().steps == watch.report().read == 4


def test_a_step_inside_a_closure_is_a_step_of_its_own() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    outer, inner = torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.SGD(model[1].parameters(), 0.1)

    def closure() -> Tensor:
        loss = backward(model, outer)
        inner.step()
        return loss

    seen: list[MonitorStep] = []
    with monitor(model, on_step=seen.append):
        outer.step(closure)
    assert [(s.step, list(s.norms)) for s in seen] == [(2, ["1.weight", "1.bias"]), (1, ["0.weight", "0.bias"])]


def test_with_two_optimizers_every_counts_each_by_itself() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    first, second = torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.Adam(model[1].parameters(), 0.1)
    seen: list[MonitorStep] = []
    with monitor(model, every=2, on_step=seen.append) as watch:
        for _ in range(4):
            backward(model, first)
            first.step()
            second.step()
    assert [(s.step, next(iter(s.norms))) for s in seen] == [
        (1, "0.weight"),
        (2, "1.weight"),
        (5, "0.weight"),
        (6, "1.weight"),
    ]
    assert watch.report().steps == 8


def test_an_optimizer_for_each_parameter_that_steps_in_backward() -> None:
    model = nn.Linear(2, 1)
    optimizers = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
    with monitor(model, every=2) as watch:
        for _ in range(3):
            model.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
    assert (watch.report().steps, watch.report().read) == (6, 4)
    assert watch.report().last == pytest.approx({"weight": 2**0.5, "bias": 1})


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {"fused": True}])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
@pytest.mark.parametrize("before", [True, False])
def test_every_implementation_made_before_or_after_the_monitor(kind: Any, options: Any, before: bool) -> None:
    model = nn.Linear(2, 1)
    early = kind(model.parameters(), **options)
    with monitor(model) as watch:
        loop(model, 2, optimizer=early if before else kind(model.parameters(), **options))
    assert watch.report().steps == 2
    assert watch.report().last == pytest.approx({n: p.grad.norm().item() for n, p in model.named_parameters()})


def test_groups_that_are_added_and_replaced_are_followed() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = torch.optim.AdamW(model[1].parameters(), 0.1)
    seen: list[MonitorStep] = []
    with monitor(model, on_step=seen.append):
        loop(model, 1, optimizer=optimizer)
        optimizer.add_param_group({"params": list(model[0].parameters())})
        loop(model, 1, optimizer=optimizer)
        optimizer.param_groups.clear()
        optimizer.add_param_group({"params": [model[0].bias]})
        loop(model, 1, optimizer=optimizer)
    expected = [["1.weight", "1.bias"], ["1.weight", "1.bias", "0.weight", "0.bias"], ["0.bias"]]
    assert [list(s.norms) for s in seen] == expected


def test_accumulated_gradients_of_two_optimizers_and_a_scaler() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    first = torch.optim.SGD(model[0].parameters(), 0.1, fused=True)
    second = torch.optim.AdamW(model[1].parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    seen: list[MonitorStep] = []
    with monitor(model, scaler=scaler, on_step=seen.append):
        for _ in range(3):
            model.zero_grad()
            for _ in range(2):
                scaler.scale(nn.MSELoss()(model(torch.ones(2, 2)), torch.ones(2, 1)) / 2).backward()
            truth = {name: p.grad.norm().item() / 8 for name, p in model.named_parameters()}
            scaler.step(first)
            scaler.step(second)
            scaler.update()
            assert seen[-2].norms | seen[-1].norms == pytest.approx(truth)
    assert len(seen) == 6


def test_a_model_on_the_meta_device_has_no_norms() -> None:
    with torch.device("meta"), monitor(nn.Linear(2, 1)) as watch:
        loop(watch._model, 2, (torch.ones(2, 2), torch.ones(2, 1)))
    assert (watch.report().read, watch.report().last) == (2, {})


# Switching on and off


def hooks() -> list[Any]:
    from torch.optim import optimizer

    return [*optimizer._global_optimizer_pre_hooks, *optimizer._global_optimizer_post_hooks]


def test_whatever_happens_no_hook_stays() -> None:
    model, before = nn.Linear(2, 1), hooks()
    with pytest.raises(ZeroDivisionError), monitor(model):
        loop(model, 1)
        _ = 1 / 0
    with pytest.raises(AttributeError), monitor(model, scaler="none"):
        pass
    with monitor(model) as watch:
        with pytest.raises(RuntimeError, match="on already"):
            watch.__enter__()
        loop(model, 1)
    assert watch.report().steps == 1
    with watch:
        loop(model, 1)
    assert watch.report().steps == 2
    assert hooks() == before


@pytest.mark.parametrize("order", ["last first", "first first"])
def test_two_monitors_of_one_model_and_scaler_may_leave_in_any_order(order: str) -> None:
    model = Overflow(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-30)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    one, two = monitor(model, scaler=scaler), monitor(model, scaler=scaler)

    def step() -> None:
        optimizer.zero_grad()
        scaler.scale(model(torch.ones(1, 2)).sum()).backward()
        scaler.step(optimizer)
        scaler.update(2.0**40)

    one.__enter__()
    two.__enter__()
    step()
    first, last = (one, two) if order == "first first" else (two, one)
    first.__exit__(None, None, None)
    step()
    last.__exit__(None, None, None)
    step()
    assert (first.report().skipped, last.report().skipped) == (1, 2)
    assert "step" not in vars(scaler)


def test_a_watched_scaler_can_be_pickled_and_copied() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with monitor(model, on_step=lambda step: None, scaler=scaler) as watch:
        twins = [copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))]
    for twin in twins:
        optimizer.zero_grad()
        before = model.bias.item()
        twin.scale(model(torch.ones(1, 2)).sum()).backward()
        twin.step(optimizer)
        twin.update()
        assert model.bias.item() == pytest.approx(before - 0.1)
    assert watch.report().steps == 0


def test_monitors_in_monitors_and_threads_see_their_own_model() -> None:
    found: list[int] = []
    models = [nn.Linear(2, 1) for _ in range(3)]
    watches = [monitor(model, scaler=torch.amp.GradScaler("cpu")) for model in models]

    def train(model: nn.Module, watch: Any) -> None:
        loop(model, 50)
        found.append(watch.report().steps)

    with watches[0], watches[1], watches[2]:
        threads = [threading.Thread(target=train, args=pair) for pair in zip(models, watches, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [50, 50, 50]


def test_a_callback_that_raises_leaves_a_whole_record() -> None:
    model = nn.Linear(2, 1)
    told: list[str] = []

    def stop(anomaly: GradientAnomaly) -> None:
        told.append(anomaly.name)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), monitor(model, on_anomaly=stop, exploding=1e-9) as watch:
        loop(model, 5)
    assert told == ["weight"]
    assert [a.name for a in watch.report().anomalies] == ["weight", "bias"]


# What it costs


def test_memory_does_not_grow() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)

    def train(steps: int) -> int:
        for k in range(steps):
            model.weight.grad = torch.full((1, 2), 1e3 if k % 2 else 1.0)  # an anomaly at every other step
            optimizer.step()
            other = nn.Linear(1, 1)  # and another model, with an optimizer that comes and goes
            torch.optim.SGD(other.parameters(), 0.0).step()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    with monitor(model, history=10) as watch:
        tracemalloc.start()
        try:
            train(300)
            before = train(300)
            after = train(900)
        finally:
            tracemalloc.stop()
    assert watch.report().anomaly_count == 750
    assert after - before < 20_000  # 900 steps; an int and a float for each would be 50,000


def test_the_model_is_walked_once_although_others_step_too(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[nn.Module] = []
    real = watched.named_parameters
    monkeypatch.setattr(watched, "named_parameters", lambda model: (walks.append(model), real(model))[1])
    model, other = nn.Linear(2, 1), nn.Linear(2, 1)
    scale = nn.Parameter(torch.ones(()))  # of the loss
    mine = torch.optim.SGD([*model.parameters(), scale], 0.1)
    with monitor(model, every=10):
        for _ in range(20):
            loop(model, 1, optimizer=mine)
            loop(other, 1)
    assert len(walks) == 2


def test_a_parameter_that_the_optimizer_had_before_the_model_gets_its_name_in_time() -> None:
    model, late = nn.Linear(2, 1), nn.Parameter(torch.ones(1))
    late.grad = torch.ones(1)
    optimizer = torch.optim.SGD([*model.parameters(), late], 0.0)
    with monitor(model) as watch:
        optimizer.step()
        model.late = late
        for _ in range(100):
            optimizer.step()
    assert watch.report().last == {"late": 1.0}
