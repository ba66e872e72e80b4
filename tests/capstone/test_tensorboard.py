"""What a monitor sees, written to TensorBoard and read back from its event file."""

import math
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from snippets.capstone.monitor import GradientAnomaly, MonitorStep, monitor
from snippets.capstone.tensorboard import tensorboard

INF, NAN = math.inf, math.nan


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield


class Writer:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []
        self.texts: list[tuple[str, str, int]] = []

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.scalars.append((tag, value, step))

    def add_text(self, tag: str, text: str, step: int) -> None:
        self.texts.append((tag, text, step))

    def curve(self, tag: str) -> list[tuple[int, float]]:
        return [(step, value) for name, value, step in self.scalars if name == tag]


def give(model: nn.Linear, optimizer: torch.optim.Optimizer, *values: float) -> None:
    """One step for each value, which is every element of the gradient of the weight."""
    for value in values:
        model.weight.grad = torch.full_like(model.weight, value)
        optimizer.step()


def test_the_total_and_each_parameter_have_a_curve() -> None:
    model, writer = nn.Linear(2, 1), Writer()
    steps: list[MonitorStep] = []
    calls = tensorboard(writer)
    with monitor(model, every=2, on_step=lambda s: (steps.append(s), calls["on_step"](s))):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).square().sum().backward()
            optimizer.step()
    assert [s.step for s in steps] == [1, 3, 5]
    assert writer.curve("grad_norm/total") == [(s.step, s.total_norm) for s in steps]
    for name in ("weight", "bias"):
        assert writer.curve(f"grad_norm/{name}") == [(s.step, s.norms[name]) for s in steps]
    assert len(writer.scalars) == 9
    assert writer.texts == []


def test_the_total_alone_a_prefix_and_a_run_taken_up_again() -> None:
    model, writer = nn.Linear(1, 1, bias=False), Writer()
    callbacks = tensorboard(writer, per_parameter=False, prefix="critic/", start=1000)
    with monitor(model, **callbacks):
        give(model, torch.optim.SGD(model.parameters(), 0.0), 3.0, NAN)
    assert writer.scalars == [("critic/grad_norm/total", 3.0, 1001)]
    assert writer.texts == [("critic/anomalies", "error: `weight` is nan (norm nan)", 1002)]


def test_what_is_not_finite_is_a_gap_and_a_text() -> None:
    model, writer = nn.Linear(1, 1, bias=False).double(), Writer()
    with monitor(model, **tensorboard(writer)):
        give(model, torch.optim.SGD(model.parameters(), 0.0), 1.0, NAN, NAN, INF, 1e39, 0.0, 2.0)
    assert writer.curve("grad_norm/weight") == [(1, 1.0), (6, 0.0), (7, 2.0)]
    assert writer.curve("grad_norm/total") == writer.curve("grad_norm/weight")
    assert [(step, text) for _, text, step in writer.texts] == [
        (2, "error: `weight` is nan (norm nan)"),
        (4, "error: `weight` is inf (norm inf)"),
        (5, "warning: `weight` is exploding (norm 1e+39)"),
        (6, "warning: `weight` is zero (norm 0)"),
    ]


class Overflow(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1e30


def test_a_step_that_a_grad_scaler_skips_is_a_gap_and_is_counted() -> None:
    model, writer = Overflow(2, 1), Writer()
    optimizer = torch.optim.SGD(model.parameters(), 1e-30)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**32, growth_interval=1000)
    with monitor(model, scaler=scaler, exploding=1e35, **tensorboard(writer)) as watch:
        for _ in range(10):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(1, 2)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    skipped = watch.report().skipped
    assert 0 < skipped < 10
    assert writer.curve("skipped_steps") == [(k, k) for k in range(1, skipped + 1)]
    assert [step for step, _ in writer.curve("grad_norm/total")] == list(range(skipped + 1, 11))
    assert all(text.endswith("the GradScaler skipped this step") for _, text, _ in writer.texts)


def test_a_nan_in_every_parameter_writes_twenty_texts() -> None:
    model = nn.ParameterList(torch.zeros(1) for _ in range(50))
    writer = Writer()
    with monitor(model, **tensorboard(writer)):
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        for value in (NAN, 1.0, NAN):
            for p in model:
                p.grad = torch.full((1,), value)
            optimizer.step()
    assert [step for _, _, step in writer.texts] == [1] * 20 + [3] * 20
    assert [k for k, (_, text, _) in enumerate(writer.texts) if "more of this step" in text] == [19, 39]


def test_a_writer_that_cannot_write_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"The writer, a str, has no add_scalar\(\)\."):
        tensorboard("runs/first")


def test_neither_torchs_nor_the_real_tensorboard_is_imported() -> None:
    code = (
        "import sys; import snippets.capstone.tensorboard;"
        "sys.exit(any(m.split('.')[0] == 'tensorboard' or m == 'torch.utils.tensorboard' for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0


def test_the_event_file_of_the_real_tensorboard_holds_the_monitors_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    model = nn.LSTM(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    steps: list[MonitorStep] = []
    told: list[GradientAnomaly] = []
    with SummaryWriter(str(tmp_path)) as writer:
        calls = tensorboard(writer)

        def on_step(step: MonitorStep) -> None:
            steps.append(step)
            calls["on_step"](step)

        def on_anomaly(anomaly: GradientAnomaly) -> None:
            told.append(anomaly)
            calls["on_anomaly"](anomaly)

        with monitor(model, on_step=on_step, on_anomaly=on_anomaly):
            for k in range(6):
                optimizer.zero_grad()
                model(torch.ones(4, 1, 2))[0].square().sum().backward()
                if k == 3:
                    model.weight_ih_l0.grad[0, 0] = NAN
                    optimizer.param_groups[0]["lr"] = 0.0
                optimizer.step()
                if k == 3:
                    nn.init.ones_(model.weight_ih_l0)

    def float32(x: float) -> float:
        value: float = struct.unpack("f", struct.pack("f", x))[0]
        return value

    read = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    assert sorted(read.Tags()["scalars"]) == sorted(f"grad_norm/{name}" for name in ["total", *names])

    def curve(name: str) -> list[tuple[int, float]]:
        return [(event.step, event.value) for event in read.Scalars(f"grad_norm/{name}")]

    assert len(steps) == 6 and math.isnan(steps[3].total_norm)
    assert curve("total") == [(s.step, float32(s.total_norm)) for s in steps if s.step != 4]
    assert curve("bias_hh_l0") == [(s.step, float32(s.norms["bias_hh_l0"])) for s in steps]
    assert [step for step, _ in curve("weight_ih_l0")] == [1, 2, 3, 5, 6]
    [event] = read.Tensors("anomalies/text_summary")
    [anomaly] = told
    assert (event.step, anomaly.step) == (4, 4)
    assert event.tensor_proto.string_val == [b"error: `weight_ih_l0` is nan (norm nan)"]
    assert read.Tags()["tensors"] == ["anomalies/text_summary"]


def test_it_works_with_the_writer_of_a_user(tmp_path: Path) -> None:
    """More arguments than needed, such as those of other libraries, are left alone."""

    class Other(Writer):
        def add_scalar(self, tag: str, value: Any, step: int | None = None, walltime: float | None = None) -> None:
            assert walltime is None and step is not None
            super().add_scalar(tag, value, step)

    model, writer = nn.Linear(1, 1, bias=False), Other()
    with monitor(model, **tensorboard(writer)):
        give(model, torch.optim.SGD(model.parameters(), 0.0), 3.0)
    assert writer.curve("grad_norm/total") == [(1, 3.0)]
