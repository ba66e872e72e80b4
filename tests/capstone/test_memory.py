"""The scenarios under "memory": what is saved, once each, without a trace."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from snippets.capstone.graph import profile_graph, read_graph
from snippets.capstone.memory import SavedTensors
from tests.capstone.models import CASES, checkpointed, resnet
from tests.capstone.same import HOOKS


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield


def mean(out: Tensor) -> Tensor:
    return out.mean()


def rows(table: Any) -> dict[str, tuple[int, int, int]]:
    return {row.name: (row.tensors, row.referenced, row.held) for row in table}


class Formula(nn.Module):
    def __init__(self, formula: Any, *shape: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(shape))
        self.formula = formula

    def forward(self, x: Tensor) -> Tensor:
        return self.formula(self.w, x)


def test_the_bytes_of_a_small_network_by_hand() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    report = profile_graph(model, torch.ones(16, 4), torch.ones(16, 1), nn.MSELoss()).saved
    assert report is not None
    # x 16·4, the output of tanh 16·8 (saved by tanh and by the second Linear),
    # the prediction and the target 16 each, the second weight 8: floats of 4 bytes.
    assert report.referenced == 4 * (64 + 128 + 128 + 16 + 16 + 8)
    assert report.held == 4 * (64 + 128 + 16 + 16)
    assert report.of_batch == 4 * (64 + 16)
    assert (report.parameters, report.buffers) == (4 * 8, 0)
    assert rows(report.by_module) == {
        "0": (1, 256, 256),
        "1": (1, 512, 512),
        "2": (2, 544, 0),
        "(loss)": (2, 128, 128),
    }
    assert rows(report.by_op)["TanhBackward0"] == (1, 512, 512)
    assert rows(report.by_op)["AddmmBackward0"] == (3, 800, 256)


def test_the_same_storage_saved_by_several_nodes_is_counted_once() -> None:
    model = Formula(lambda w, x: (w * x).sin() + (w * x.view(2, 8).view(16)) ** 2, 16)
    report = profile_graph(model, torch.ones(16), None, mean).saved
    assert report is not None
    assert report.of_batch == 64
    exp = Formula(lambda w, x: torch.stack([(e := w.exp()) * e, e * e.view(4, 4).view(16)]), 16)
    report = profile_graph(exp, torch.ones(1), None, mean).saved
    assert report is not None
    assert (report.referenced, report.held) == (5 * 64, 64)


def test_a_slice_holds_all_of_its_storage() -> None:
    model = Formula(lambda w, x: w * (x + 1)[:1], 1)
    report = profile_graph(model, torch.ones(1000), None, mean).saved
    assert report is not None
    assert (report.referenced, report.held) == (4, 4000)


def test_parameters_and_buffers_are_apart() -> None:
    report = profile_graph(*resnet()).saved
    assert report is not None
    model = resnet()[0]
    convolutions = [p for p in model.parameters() if p.dim() > 1]
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    expected = sum(p.nbytes for p in convolutions) + sum(m.weight.nbytes for m in norms)
    assert report.parameters == expected
    assert report.buffers == sum(m.running_mean.nbytes + m.running_var.nbytes for m in norms)


def test_by_op_and_by_module_add_up() -> None:
    for case in CASES.values():
        report = profile_graph(*case()).saved
        assert report is not None
        for table in (report.by_op, report.by_module):
            assert sum(row.tensors for row in table) == report.tensors
            assert sum(row.referenced for row in table) == report.referenced
            assert sum(row.held for row in table) == report.held
        assert not any("loss)" in row.name for row in report.by_op)


def test_a_checkpoint_is_counted_once_and_nothing_is_computed_again() -> None:
    model, *batch = checkpointed()
    report = profile_graph(model, *batch)
    assert model.runs == 3  # each of the three blocks once
    assert report.saved is not None
    # x and two outputs of blocks are kept, prediction and target by the loss
    assert rows(report.saved.by_op)["(inputs of a checkpoint)"] == (3, 3 * 512, 3 * 512)
    assert report.saved.held == 5 * 512
    str(report), report.to_dict()
    assert model.runs == 3


def test_after_backward_the_saved_tensors_are_freed_and_the_structure_is_there() -> None:
    model, inputs, targets, criterion = checkpointed(on=False)
    with SavedTensors(model, [inputs, targets]) as saved:
        loss = criterion(model(inputs), targets)
    before = read_graph(loss, model, saved=saved)
    assert before.saved is not None
    assert (before.saved.state, before.saved.tensors) == ("held", 10)
    loss.backward()
    after = read_graph(loss, model, saved=saved)
    assert after.saved is not None
    assert (after.saved.state, after.saved.held, after.saved.tensors) == ("freed", 0, 0)
    assert (after.nodes, after.depth, after.ops) == (before.nodes, before.depth, before.ops)
    assert "freed" in str(after)


def test_a_checkpointed_backward_gives_the_same_gradient_with_the_tool() -> None:
    model, inputs, targets, criterion = checkpointed()
    criterion(model(inputs), targets).backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    with SavedTensors(model) as saved:
        loss = criterion(model(inputs), targets)
    loss.backward()
    assert saved.report().state == "freed"
    for p, grad in zip(model.parameters(), expected, strict=True):
        assert torch.equal(p.grad, grad)


def test_an_in_place_change_is_still_reported() -> None:
    def formula(w: Tensor, x: Tensor) -> Tensor:
        a = w * 3
        y = a**2
        a.mul_(10)
        return y

    model = Formula(formula, 2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        model(torch.ones(2)).sum().backward()
    with SavedTensors(model) as saved:
        loss = model(torch.ones(2)).sum()
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor \[2\]\].*version 1"):
        loss.backward()
    assert saved.report().changed
    report = profile_graph(model, torch.ones(2), None, mean).saved
    assert report is not None
    assert report.changed == ("PowBackward0 in (model)",)
    assert "backward will raise" in str(report)


def test_a_right_in_place_network_passes() -> None:
    model, inputs, targets, criterion = resnet()
    F.cross_entropy(model(inputs), targets).backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    torch.manual_seed(0)
    model, inputs, targets, criterion = resnet()
    with SavedTensors(model) as saved:
        loss = criterion(model(inputs), targets)
    assert saved.report().changed == ()
    loss.backward()
    for p, grad in zip(model.parameters(), expected, strict=True):
        assert torch.equal(p.grad, grad)


@pytest.mark.parametrize("walk", [False, True])
def test_a_graph_is_not_leaked(walk: bool) -> None:
    gc.collect()
    gc.disable()  # reference counts alone have to free it
    try:
        model = Formula(lambda w, x: (w * x).exp(), 100)
        with SavedTensors(model) as saved:
            out = model(torch.ones(100))  # exp saves its own output
        if walk:
            read_graph(out, model, saved=saved)
        assert saved.report().tensors == 2
        del out
        assert saved.report().state == "freed"
    finally:
        gc.enable()


def test_a_report_keeps_no_tensor() -> None:
    def count() -> int:
        gc.collect()
        return sum(issubclass(type(each), Tensor) for each in gc.get_objects())

    case = CASES["gpt"]()
    before = count()
    report = profile_graph(*case)
    assert report.saved is not None
    assert count() <= before


def test_double_backward_works_with_the_tool() -> None:
    model = Formula(lambda w, x: w.sin() * x, 3)
    with SavedTensors(model):
        loss = model(torch.ones(3)).sum()
        (g,) = torch.autograd.grad(loss, model.w, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), model.w)
    assert torch.allclose(h, -model.w.sin())


def test_hooks_are_gone_also_after_an_error() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyboardInterrupt

    model = nn.Sequential(nn.Linear(2, 2), Fails())
    with pytest.raises(KeyboardInterrupt), SavedTensors(model):
        model(torch.ones(1, 2))
    assert not any(getattr(m, name) for m in model.modules() for name in HOOKS)
    y = torch.ones(1, requires_grad=True).exp()
    assert isinstance(y.grad_fn._saved_result, Tensor)  # no packing any more


def test_a_branch_that_is_not_used_is_said_to_be_one() -> None:
    class Aside(nn.Linear):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = super().forward(x)
            self.aside = y.sin()
            return y, y.exp()

    report = profile_graph(Aside(2, 2), torch.ones(1, 2), None, lambda out: out[0].sum()).saved
    assert report is not None
    assert "(not on the way to the loss)" in rows(report.by_op)


def test_a_sparse_tensor_is_counted() -> None:
    dense = torch.zeros(10, 10)
    dense[0, 0] = 1
    matrix = dense.to_sparse()
    model = Formula(lambda w, x: torch.sparse.mm(matrix, w), 10, 2)
    report = profile_graph(model, torch.ones(1), None, mean).saved
    assert report is not None
    assert report.held == 16 + 4  # two indices of int64, one float
