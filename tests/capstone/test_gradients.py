"""The scenarios under "Gradients": every odd parameter, gradient, output and module."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from snippets.capstone.gradients import STATUSES, profile_gradient_flow, read_gradients
from snippets.capstone.graph import profile_graph
from snippets.capstone.norms import norms, total_norm
from snippets.capstone.outputs import DebuggerError
from tests.capstone.models import CASES, gpt, odd
from tests.capstone.same import differences, photo

few = settings(max_examples=30, deadline=None, derandomize=True)


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield


def total(out: Tensor) -> Tensor:
    return out.sum()


class Slope(nn.Module):
    """A parameter whose gradient is what one wants it to be."""

    def __init__(self, **wanted: Tensor) -> None:
        super().__init__()
        self.wanted = wanted
        for name, gradient in wanted.items():
            self.register_parameter(name, nn.Parameter(torch.ones_like(gradient)))

    def forward(self, x: Tensor) -> Tensor:
        loss = x.sum() * 0
        for name, gradient in self.wanted.items():
            loss = loss + Give.apply(getattr(self, name), gradient)
        return loss


class Give(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return torch.zeros(())

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return ctx.saved_tensors[0], None


def status(gradient: Tensor, **limits: float) -> str:
    return profile_gradient_flow(Slope(p=gradient), torch.ones(1), **limits).rows[0].status


@pytest.mark.parametrize("name", CASES)
def test_the_norms_of_every_real_model_and_it_is_as_it_was(name: str) -> None:
    model, inputs, targets, criterion = CASES[name]()
    before = photo(model, inputs, targets)
    report = profile_gradient_flow(model, inputs, targets, criterion)
    assert differences(before, photo(model, inputs, targets)) == []
    again = profile_gradient_flow(model, inputs, targets, criterion)
    assert again == report  # the same masks, the same statistics
    json.dumps(report.to_dict(), allow_nan=False)
    assert all(v.status in STATUSES for v in report.layers)


@pytest.mark.parametrize("name", [name for name in CASES if name != "odd"])
def test_gradients_are_bit_equal_with_and_without_the_tool(name: str) -> None:
    def train(tool: bool) -> list[bytes]:
        model, inputs, targets, criterion = CASES[name]()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(1)
        for _ in range(2):
            optimizer.zero_grad()
            output = model(inputs)
            loss = criterion(output, targets)
            if tool:
                profile_gradient_flow(model, inputs, targets, criterion)
            loss.backward()
            optimizer.step()
        return [t.detach().numpy().tobytes() for t in [*model.parameters(), *model.buffers()]]

    assert train(False) == train(True)


def test_every_number_of_a_row_against_torch() -> None:
    g = torch.randn(3, 4)
    row = profile_gradient_flow(Slope(p=g), torch.ones(1)).row("p")
    assert (row.shape, row.dtype, row.status, row.nan, row.inf) == ((3, 4), "float32", "ok", 0, 0)
    found = (row.norm, row.mean, row.std, row.max_abs)
    assert found == pytest.approx((g.norm().item(), g.mean().item(), g.std().item(), g.abs().max().item()), rel=1e-6)


def test_frozen_unused_lazy_and_ok_are_different() -> None:
    report = profile_gradient_flow(*odd())
    found = {row.name: row.status for row in report.rows}
    assert found["frozen.weight"] == "frozen"
    assert found["unused.weight"] == "unused"
    assert found["never.weight"] == "uninitialised"
    assert report.row("never.weight").shape is None
    assert found["lazy.weight"] == "ok"
    verdicts = {v.layer: v.status for v in report.layers}
    assert verdicts["unused"] == "unused"
    assert verdicts["(model)"] == "ok"
    assert "frozen: frozen" in str(report)


def test_a_replaced_layer_is_read_anew() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    first = profile_gradient_flow(model, torch.ones(1, 2), None, total)
    model[1] = nn.Linear(3, 5)
    second = profile_gradient_flow(model, torch.ones(1, 2), None, total)
    assert (first.row("1.weight").shape, second.row("1.weight").shape) == ((1, 3), (5, 3))
    assert second.row("1.weight").status == "ok"


def test_a_tied_weight_is_one_row_and_counts_once() -> None:
    model, *batch = gpt(dropout=0.0)
    report = profile_gradient_flow(model, *batch)
    row = report.row("head.weight")
    assert (row.name, row.aliases) == ("words.weight", ("head.weight",))
    batch[2](model(batch[0]), batch[1]).backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()
    assert report.total_norm == pytest.approx(expected, rel=1e-5)


def test_in_place_relu_networks() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 3), nn.ReLU(True), nn.Linear(3, 1))
    report = profile_gradient_flow(model, torch.randn(5, 3), torch.randn(5, 1), nn.MSELoss())
    assert {row.status for row in report.rows} == {"ok"}


@pytest.mark.parametrize("kind", ["list", "dict", "dataclass", "nested"])
def test_outputs_of_any_shape(kind: str) -> None:
    @dataclass
    class Output:
        logits: Tensor

    class Wrap(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            y = super().forward(x)
            wraps = {"list": [y], "dict": {"y": y}, "dataclass": Output(y), "nested": {"y": ([Output(y)],)}}
            return wraps[kind]

    takes = {
        "list": lambda out: out[0].sum(),
        "dict": lambda out: out["y"].sum(),
        "dataclass": lambda out: out.logits.sum(),
        "nested": lambda out: out["y"][0][0].logits.sum(),
    }
    report = profile_gradient_flow(Wrap(2, 2), torch.ones(3, 2), None, takes[kind])
    assert report.row("bias").norm == pytest.approx(3 * math.sqrt(2))


def test_an_embedding_first_has_no_input_gradient_and_that_is_fine() -> None:
    report = profile_gradient_flow(*CASES["tagger"]())
    assert report.row("words.weight").status == "ok"


def test_a_module_called_twice() -> None:
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(3.0)
    report = profile_gradient_flow(nn.Sequential(layer, layer), torch.ones(1, 1), None, total)
    assert (len(report.rows), report.row("0.weight").norm) == (1, 6.0)  # (w²)' = 2w


def test_a_first_layer_that_is_frozen_and_an_input_with_a_gradient() -> None:
    frozen_first = nn.Sequential(nn.Linear(2, 2).requires_grad_(False), nn.Linear(2, 1))
    report = profile_gradient_flow(frozen_first, torch.ones(1, 2, requires_grad=True), None, total)
    assert [row.status for row in report.rows] == ["frozen", "frozen", "ok", "ok"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_adds_up_in_float32(dtype: torch.dtype) -> None:
    gradient = torch.full((4096,), 60.0 if dtype == torch.float16 else 1.0, dtype=dtype)
    report = profile_gradient_flow(Slope(p=gradient), torch.ones(1), exploding=1e9)
    assert report.rows[0].norm == 64.0 * gradient[0].item()  # in float16 the sum of squares is infinite
    assert (report.rows[0].status, report.rows[0].dtype) == ("ok", str(dtype)[6:])
    assert report.rows[0].mean == gradient[0].item()


@pytest.mark.parametrize("value", [1e-30, 1e20, 1e-44, 3e38])
def test_gradients_that_are_tiny_or_huge_have_a_norm(value: float) -> None:
    gradient = torch.full((4,), value)
    (norm,) = norms([gradient])
    assert norm == pytest.approx(2 * gradient[0].item(), rel=1e-6, abs=0)
    assert status(gradient) == ("vanishing" if value < 1 else "exploding")
    (wide,) = norms([torch.full((4,), value**3 if value < 1e30 else value, dtype=torch.float64)])
    assert wide > 0


@pytest.mark.parametrize("count", [4, 1_000_000])
def test_squares_that_are_nearly_lost_are_looked_at_again(count: int) -> None:
    (norm,) = norms([torch.full((count,), 3e-23)])  # not 0 but a quarter off in float32
    assert norm == pytest.approx(3e-23 * math.sqrt(count), rel=1e-5, abs=0)


def test_zero_and_vanishing_and_exploding_by_the_limits() -> None:
    assert status(torch.zeros(3)) == "zero"
    assert status(torch.full((1,), 0.9e-6)) == "vanishing"
    assert status(torch.full((1,), 1.1e-6)) == "ok"
    assert status(torch.full((1,), 9.9)) == "ok"
    assert status(torch.full((1,), 10.1)) == "exploding"
    assert status(torch.full((1,), 10.1), exploding=11) == "ok"
    assert status(torch.full((1,), 0.1), vanishing=0.2) == "vanishing"


def test_nan_and_inf_are_counted_and_named() -> None:
    bad = torch.ones(5)
    bad[1], bad[2], bad[3] = float("nan"), float("inf"), -float("inf")
    model = Slope(a=bad, b=torch.tensor([float("inf"), 1.0]), c=torch.ones(2))
    report = profile_gradient_flow(model, torch.ones(1))
    a, b, c = report.rows
    assert (a.status, a.nan, a.inf) == ("nan", 1, 2)
    assert (b.status, b.nan, b.inf, b.norm) == ("inf", 0, 1, math.inf)
    assert c.status == "ok"
    assert math.isnan(report.total_norm)
    assert report.severity == "error"
    assert report.layers[0].text == "1 of 5 elements of a are NaN"
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["rows"][1]["norm"] == "Infinity"


def test_a_parameter_without_dimensions_has_one_element() -> None:
    model = Slope(a=torch.tensor(float("nan")), b=torch.tensor(2.0))
    report = profile_gradient_flow(model, torch.ones(()))
    assert (report.row("a").shape, report.row("a").nan, report.row("b").std) == ((), 1, 0)
    assert report.layers[0].text == "1 of 1 elements of a are NaN"


def test_one_element_has_a_std_of_zero() -> None:
    row = profile_gradient_flow(Slope(p=torch.tensor(3.0)), torch.ones(1)).rows[0]
    assert (row.norm, row.mean, row.std, row.max_abs, row.shape) == (3.0, 3.0, 0.0, 3.0, ())


def test_an_empty_parameter_is_zero() -> None:
    row = profile_gradient_flow(Slope(p=torch.zeros(0, 3), q=torch.zeros(2)), torch.ones(1)).rows[0]
    assert (row.status, row.norm, row.std) == ("zero", 0.0, 0.0)


def test_sparse_gradients_uncoalesced_too() -> None:
    model = nn.Embedding(10, 2, sparse=True)
    words = torch.tensor([3, 3, 5])
    row = profile_gradient_flow(model, words, None, total).rows[0]
    model.sparse = False
    dense = profile_gradient_flow(model, words, None, total).rows[0]
    assert row.norm == pytest.approx(math.sqrt(2 * 4 + 2 * 1))  # 2.45 if the doubles were not added
    assert row.mean == pytest.approx(dense.mean)
    assert row.std == pytest.approx(dense.std)
    assert row.max_abs == dense.max_abs == 2


def test_complex_and_double_gradients() -> None:
    wave, wide = torch.tensor([3 + 4j]), torch.full((4,), 1e200, dtype=torch.float64)
    report = profile_gradient_flow(Slope(a=wave, b=wide), torch.ones(1))
    assert report.row("a").norm == 5.0
    assert report.row("b").norm == pytest.approx(2e200)
    assert report.total_norm == pytest.approx(2e200)


def test_a_compiled_model_is_read_and_a_line_says_what_is_missing() -> None:
    plain = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    expected = profile_gradient_flow(plain, torch.ones(1, 2), None, total)
    report = profile_gradient_flow(torch.compile(plain, backend="eager"), torch.ones(1, 2), None, total)
    assert [row.name for row in report.rows] == ["0.weight", "0.bias"]
    assert report.total_norm == pytest.approx(expected.total_norm)
    assert "compiled" in report.notes[0]


def test_parameters_within_a_reentrant_checkpoint_are_out_of_sight_and_found() -> None:
    class Block(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(super().forward, x, use_reentrant=True)

    report = profile_gradient_flow(Block(2, 2), torch.ones(3, 2, requires_grad=True), None, total)
    assert report.row("bias").norm == pytest.approx(3 * math.sqrt(2))


def test_lazy_batch_norm_is_lazy_again() -> None:
    model, x = nn.Sequential(nn.LazyBatchNorm1d(), nn.LazyLinear(2)), torch.randn(4, 3)
    before = photo(model, x)
    report = profile_gradient_flow(model, x, None, lambda out: out.square().sum())
    assert report.row("0.weight").shape == (3,)
    assert differences(before, photo(model, x)) == []
    assert type(model[0]) is nn.LazyBatchNorm1d
    model(x)  # and it can still be initialised
    assert type(model[0]) is nn.BatchNorm1d


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_part() -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(2, 2)), nn.Linear(2, 1))
    report = profile_gradient_flow(model, torch.ones(1, 2), None, total)
    assert [row.status for row in report.rows] == ["ok"] * 4
    assert profile_graph(model, torch.ones(1, 2), None, total).saved is not None


def test_gradients_of_ones_own_backward_can_be_read() -> None:
    model = nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    grad = model.weight.grad
    assert read_gradients(model).row("weight").norm == pytest.approx(math.sqrt(2))
    assert model.weight.grad is grad


def test_gradients_made_with_create_graph_can_be_read() -> None:
    w = nn.Linear(2, 1)
    loss = w(torch.ones(1, 2)).square().sum()
    grads = torch.autograd.grad(loss, list(w.parameters()), create_graph=True)
    assert all(g.requires_grad for g in grads)
    assert norms(grads)[0] > 0


def test_what_backward_raises_comes_through_and_nothing_is_changed() -> None:
    class Broken(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x).exp()
            y.mul_(2)
            return y

    model = Broken(2, 2)
    before = photo(model)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        profile_gradient_flow(model, torch.ones(1, 2), None, total)
    assert differences(before, photo(model)) == []


def test_a_model_on_another_device_is_one_sentence() -> None:
    with pytest.raises(DebuggerError, match="move one of them"):
        profile_gradient_flow(nn.Linear(2, 2, device="meta"), torch.ones(1, 2), None, total)


def test_vanishing_through_a_deep_tanh_stack_is_found_by_name() -> None:
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(30)]
    model = nn.Sequential(*layers)
    for layer in layers:
        layer[0].weight.data.mul_(0.5)
    report = profile_gradient_flow(model, torch.randn(4, 8), torch.ones(4, 8), F.mse_loss)
    assert report.layers[0].status == "vanishing"
    assert report.layers[-1].status == "ok"
    assert "0.0: vanishing; the norm of weight is below 1e-06" in str(report)


def test_a_long_report_is_a_summary() -> None:
    model = nn.Sequential(*[nn.Linear(1, 1) for _ in range(200)])
    assert str(profile_gradient_flow(model, torch.ones(1, 1), None, total)).count("\n") < 70


@few
@given(
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=6),
    dtypes=st.lists(
        st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64]),
        min_size=6,
        max_size=6,
    ),
    scale=st.sampled_from([1.0, 1e-30, 1e30, 0.0]),
    sparse=st.booleans(),
)
def test_norms_of_any_mixture(shapes: list[list[int]], dtypes: list[torch.dtype], scale: float, sparse: bool) -> None:
    gradients = []
    for shape, dtype in zip(shapes, dtypes, strict=False):
        size = scale if dtype not in (torch.float16,) else min(scale, 1.0)
        gradient = (torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64) * size).to(dtype)
        gradients.append(gradient.to_sparse() if sparse and shape else gradient)
    wide = [g.to_dense().to(torch.complex128 if g.is_complex() else torch.float64) for g in gradients]
    expected = [torch.linalg.vector_norm(w).item() for w in wide]
    assert norms(gradients) == pytest.approx(expected, rel=1e-5, abs=0)
    assert total_norm(norms(gradients)) == pytest.approx(math.hypot(*expected), rel=1e-5, abs=0)
