"""`untouched` puts everything back, whatever was done inside."""

import copy
import random
from collections.abc import Callable, Iterator

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from snippets.capstone.outputs import call_model, flatten_tensors
from snippets.capstone.state import same_bits, untouched
from tests.capstone.models import CASES
from tests.capstone.same import differences, photo


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.LazyLinear(2))


def spoil_parameters(model: nn.Sequential) -> None:
    with torch.no_grad():
        model[0].weight.mul_(2)


def spoil_through_data(model: nn.Sequential) -> None:
    model[0].weight.data.mul_(2)


def spoil_by_a_fused_optimizer(model: nn.Sequential) -> None:
    model[0](torch.ones(2, 4)).sum().backward()
    version = model[0].weight._version
    torch.optim.Adam(model[0].parameters(), fused=True).step()
    assert model[0].weight._version == version  # no trace of it


def spoil_the_sign_of_zero(model: nn.Sequential) -> None:
    model[1].bias.data.neg_()


def give_other_memory(model: nn.Sequential) -> None:
    model[0].weight.data = torch.zeros(3, 3)


def train(model: nn.Sequential) -> None:
    model.train()
    model(torch.randn(8, 4)).sum().backward()


def replace_a_parameter(model: nn.Sequential) -> None:
    model[0].weight = nn.Parameter(torch.zeros(4, 4))
    model[1].running_mean = torch.ones(4)
    model[0] = nn.Identity()
    model.append(nn.ReLU())


def change_flags(model: nn.Sequential) -> None:
    model.eval()
    model[0].requires_grad_(False)
    model.zero_grad()
    torch.set_default_dtype(torch.float64)
    torch.autograd.set_detect_anomaly(True)
    torch.set_grad_enabled(False)


def add_hooks(model: nn.Sequential) -> None:
    model.register_forward_hook(lambda *a: None)
    model[0].register_full_backward_hook(lambda *a: None)
    model[0].weight.register_hook(lambda g: g)
    model[0].weight.register_post_accumulate_grad_hook(lambda p: None)


def draw(model: nn.Sequential) -> None:
    torch.rand(3), random.random(), numpy.random.rand()


ACTIONS = [
    spoil_parameters,
    spoil_through_data,
    spoil_by_a_fused_optimizer,
    spoil_the_sign_of_zero,
    give_other_memory,
    train,
    replace_a_parameter,
    change_flags,
    add_hooks,
    draw,
]


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("action", ACTIONS, ids=lambda a: a.__name__)
def test_everything_is_put_back(action: Callable[[nn.Sequential], None], error: type[BaseException] | None) -> None:
    model = net()
    model[0](torch.ones(2, 4)).sum().backward()  # there are gradients already
    model[0].weight.register_hook(lambda g: g)
    before = photo(model)
    try:
        with untouched(model):
            action(model)
            assert differences(before, photo(model))
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt) as caught:
        assert type(caught) is error
    assert differences(before, photo(model)) == []
    assert torch.is_grad_enabled()


def test_what_nobody_wrote_to_is_not_written_to() -> None:
    model = nn.Linear(2, 2)
    versions = [p._version for p in model.parameters()]
    loss = model(torch.ones(1, 2)).relu().sum()  # a graph that saved the weight
    with untouched(model):
        model(torch.ones(1, 2)).sum().backward()
    assert [p._version for p in model.parameters()] == versions
    loss.backward()


def test_a_pending_graph_of_the_user_survives_a_write_through_data() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    loss = model(torch.ones(1, 2)).sum()
    (expected,) = torch.autograd.grad(loss, [model[0].weight], retain_graph=True)
    with untouched(model):
        model[1].weight.data.zero_()
    assert torch.equal(torch.autograd.grad(loss, [model[0].weight])[0], expected)


def test_the_batch_is_put_back_when_the_model_writes_to_it() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    batch = {"x": x, "y": [torch.randn(3)]}
    x.grad = torch.ones(3, 4)
    before = photo(nn.Identity(), batch)
    with untouched(nn.Identity(), batch):
        batch["y"][0].relu_()
        (x * 2).sum().backward()
    assert differences(before, photo(nn.Identity(), batch)) == []


def test_gradients_are_none_inside_and_the_same_objects_afterwards() -> None:
    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    flat = torch.ones(2, 2)
    model.weight.grad = flat  # an alias of the user's
    with untouched(model):
        assert model.weight.grad is None
        model(torch.ones(1, 2)).sum().backward()
    assert model.weight.grad is flat
    assert torch.equal(flat, torch.ones(2, 2))


def test_an_optimizer_that_steps_in_a_hook_does_not_step() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    handle = model.weight.register_post_accumulate_grad_hook(lambda p: optimizer.step())
    with untouched(model):
        model(torch.ones(1, 2)).sum().backward()
    assert not optimizer.state
    model(torch.ones(1, 2)).sum().backward()
    assert optimizer.state  # and afterwards it does again
    handle.remove()
    assert not model.weight._post_accumulate_grad_hooks


def test_attributes_are_as_they_were_so_that_each_report_measures_the_same_model() -> None:
    class Caching(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            self.calls = getattr(self, "calls", 0) + 1
            self.temperature *= 0.5
            self.last = super().forward(x)
            self.all.append(self.last)
            self.sums["n"] += 1
            self.sums["x"] += x.sum()
            return self.last * self.temperature

    model = Caching(2, 2)
    model.all, model.temperature, model.sums = [], 1.0, {"n": 0, "x": torch.zeros(())}
    sums = model.sums
    with untouched(model):
        model(torch.ones(1, 2))
    assert (model.all, model.temperature, hasattr(model, "last"), hasattr(model, "calls")) == ([], 1.0, False, False)
    assert model.sums is sums and sums == {"n": 0, "x": 0}


def test_a_generator_of_the_model_is_put_back() -> None:
    model = nn.Identity()
    model.draws = torch.Generator().manual_seed(3)
    with untouched(model):
        torch.rand(2, generator=model.draws)
    expected = torch.rand(2, generator=torch.Generator().manual_seed(3))
    assert torch.equal(torch.rand(2, generator=model.draws), expected)


def test_a_criterion_with_parameters_counts_as_well() -> None:
    model, criterion = nn.Linear(2, 2), nn.PReLU()
    before = photo(criterion)
    with untouched(model, criterion):
        criterion(torch.tensor([-1.0])).sum().backward()
        criterion.weight.data.zero_()
    assert differences(before, photo(criterion)) == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.int64, torch.bool])
def test_bits_of_any_dtype(dtype: torch.dtype) -> None:
    a = torch.ones(3, 2).to(dtype).t()
    b = a.clone()
    assert same_bits(a, b)
    b[0, 0] = 0
    assert not same_bits(a, b)
    nan, zero = torch.tensor([float("nan")]), torch.zeros(1)
    assert same_bits(nan, nan.clone())
    assert not same_bits(zero, -zero)


@pytest.mark.parametrize("name", CASES)
def test_real_models_train_on_as_if_nothing_had_been(name: str) -> None:
    model, inputs, targets, criterion = CASES[name]()
    twin = copy.deepcopy(model)
    before = photo(model, inputs, targets)
    with untouched(model, criterion, inputs, targets):
        call_model(model, inputs)
        F.dropout(torch.ones(3), 0.5)
    assert differences(before, photo(model, inputs, targets)) == []
    torch.manual_seed(1)
    first = flatten_tensors(call_model(model, inputs))
    torch.manual_seed(1)
    second = flatten_tensors(call_model(twin, inputs))
    assert all(same_bits(first[path], second[path]) for path in first)
