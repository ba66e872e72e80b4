"""Names, outputs of any shape, and one clear sentence for a loss that cannot be used."""

import json
import subprocess
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from snippets.capstone.naming import is_compiled, module_paths, named_buffers, named_parameters
from snippets.capstone.outputs import DebuggerError, Report, flatten_tensors, scalar_loss
from tests.capstone.models import CASES, gpt

ROOT = Path(__file__).parents[2]


def test_a_tied_weight_is_one_row_with_aliases() -> None:
    rows = named_parameters(gpt()[0])
    assert rows[0].name == "words.weight"
    assert rows[0].aliases == ("head.weight",)
    assert len(rows) == len({id(row.tensor) for row in rows})


def test_buffers_modules_and_shared_modules_have_names() -> None:
    norm = nn.BatchNorm1d(2)
    model = nn.Sequential(norm, nn.Sequential(norm))
    assert named_buffers(model)[0][:2] == ("0.running_mean", ("1.0.running_mean",))
    assert module_paths(model)[norm] == "0"
    assert module_paths(model)[model] == ""


def test_a_compiled_model_keeps_its_names() -> None:
    model = torch.compile(nn.Sequential(nn.Linear(2, 2)), backend="eager")
    assert is_compiled(model)
    assert not is_compiled(nn.Linear(2, 2))
    assert [row.name for row in named_parameters(model)] == ["0.weight", "0.bias"]
    inner = nn.Sequential(nn.Linear(2, 2))
    inner[0].compile(backend="eager")
    assert is_compiled(inner)


def test_tensors_are_found_in_outputs_of_any_shape() -> None:
    @dataclass
    class Output:
        a: Tensor
        b: Any

    Pair = namedtuple("Pair", "left right")
    t = torch.ones(1)
    loop: list[Any] = [t]
    loop.append(loop)
    output = Output(t, [Pair(t, None), OrderedDict(x=(t, {"y": t})), 3, "text", loop])
    paths = ["output.a", "output.b[0].left", "output.b[1]['x'][0]", "output.b[1]['x'][1]['y']", "output.b[4][0]"]
    assert list(flatten_tensors(output)) == paths
    assert flatten_tensors("nothing") == {}


@pytest.mark.parametrize("name", CASES)
def test_the_loss_of_every_real_model(name: str) -> None:
    model, inputs, targets, criterion = CASES[name]()
    with torch.no_grad():  # the caller's mode does not matter
        loss = scalar_loss(model, inputs, targets, criterion)
    assert loss.requires_grad
    assert loss.numel() == 1


def test_a_tuple_is_positional_and_a_dict_is_keywords() -> None:
    class Add(nn.Linear):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return super().forward(x - y)

    model, x, y = Add(2, 1), torch.ones(3, 2), torch.zeros(3, 2)
    one = scalar_loss(model, (x, y), None, lambda out: out.sum())
    assert torch.equal(one, scalar_loss(model, {"y": y, "x": x}, None, lambda out: out.sum()))


def test_a_model_may_return_its_loss_in_several_ways() -> None:
    class Own(nn.Linear):
        wrap: Any = None

        def forward(self, x: Tensor) -> Any:
            out = super().forward(x)
            return self.wrap(out)

    @dataclass
    class HasLoss:
        loss: Tensor
        logits: Tensor

    wraps = [
        lambda out: out.sum(),
        lambda out: {"logits": out, "loss": out.sum()},
        lambda out: (out, out.sum()),
        lambda out: HasLoss(out.sum(), out),
    ]
    model, x = Own(2, 3), torch.ones(4, 2)
    expected = F.linear(x, model.weight, model.bias).sum()
    for wrap in wraps:
        model.wrap = wrap
        assert torch.equal(scalar_loss(model, x), expected)


LINEAR, X = nn.Linear(2, 2), torch.ones(3, 2)
BAD = {
    "no parameters": (nn.ReLU(), X, X, F.mse_loss, "ReLU has no parameters."),
    "all frozen": (nn.Linear(2, 2).requires_grad_(False), X, X, F.mse_loss, "all 2 are frozen"),
    "other device": (nn.Linear(2, 2, device="meta"), X, X, F.mse_loss, "The model is on meta and the batch on cpu"),
    "targets elsewhere": (LINEAR, X, X.to("meta"), F.mse_loss, "on meta"),
    "inputs do not fit": (LINEAR, torch.ones(3, 5), X, F.mse_loss, "tensor (3, 5) float32: RuntimeError: mat1"),
    "not a tensor": (LINEAR, X, X, lambda out, y: 3.0, "The loss is float, not a tensor"),
    "not a scalar": (LINEAR, X, X, lambda out, y: out - y, "not a scalar but tensor (3, 2) float32: reduce it"),
    "detached": (LINEAR, X, X, lambda out, y: out.detach().sum(), "not connected to any parameter"),
    "no loss of its own": (CASES["gpt"]()[0], torch.ones(1, 3).long(), None, None, "has to return its loss"),
    "criterion": (CASES["gpt"]()[0], torch.ones(1, 3).long(), X, F.cross_entropy, "cannot take dict (tensor"),
    "no criterion": (LINEAR, X, X, None, "There are targets but no criterion"),
    "complex": (LINEAR, X, None, lambda out: out.sum() * 1j, "complex"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_loss_that_cannot_be_used_is_one_clear_sentence(name: str) -> None:
    model, inputs, targets, criterion, text = BAD[name]
    with pytest.raises(DebuggerError) as caught:
        scalar_loss(model, inputs, targets, criterion)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value)[0].isupper()


def test_a_loss_of_the_inputs_alone_is_not_connected() -> None:
    x = torch.ones(3, 2, requires_grad=True)
    with pytest.raises(DebuggerError, match="only to other tensors"):
        scalar_loss(LINEAR, x, None, lambda out: x.sum())


def test_reports_are_strict_json() -> None:
    @dataclass(frozen=True)
    class Inner(Report):
        value: float

    @dataclass(frozen=True)
    class Outer(Report):
        rows: tuple[Inner, ...]
        ops: dict[str, int]
        dtype: torch.dtype

    numbers = (float("nan"), float("inf"), -float("inf"), 1.5)
    report = Outer(tuple(map(Inner, numbers)), {"a": 1}, torch.float32)
    text = json.dumps(report.to_dict(), allow_nan=False)
    values = [row["value"] for row in json.loads(text)["rows"]]
    assert values == ["NaN", "Infinity", "-Infinity", 1.5]


def test_the_folder_can_be_copied_and_imports_in_no_time(tmp_path: Path) -> None:
    code = (
        "import sys, time, torch; start = time.perf_counter(); import copied;"
        "copied.AutogradDebuggerSuite; spent = time.perf_counter() - start;"
        "assert 'torch._dynamo' not in sys.modules; print(spent)"
    )
    (tmp_path / "copied").symlink_to(ROOT / "snippets" / "capstone")
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 0.5  # the benchmark demands 0.05 of a quiet machine
