"""The clipping lab: the bits of torch, right or a clear sentence where torch goes wrong, and nothing half done."""

import dataclasses
import json
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from snippets.capstone.clipping import ClipReport, NonFinite, NonFiniteGradientError, clip_gradients
from snippets.capstone.outputs import DebuggerError
from tests.capstone.models import CASES, gpt
from tests.capstone.same import bits

INF, NAN = math.inf, math.nan
ORDERS = [2.0, 1.0, 3.0, 0.5, INF, 0.0, -1.0, -INF]
few = settings(max_examples=50, deadline=None, derandomize=True)


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield


def parameter(gradient: Tensor | None) -> nn.Parameter:
    made = nn.Parameter(torch.zeros(2) if gradient is None else torch.zeros_like(gradient, layout=torch.strided))
    made.grad = gradient
    return made


def parameters(*gradients: Tensor | None) -> list[Tensor]:
    return [parameter(None if g is None else g.detach().clone()) for g in gradients]


def grads(of: list[Tensor]) -> list[Any]:
    return [bits(p.grad) for p in of]


def joined(of: list[Tensor]) -> Tensor:
    return torch.cat([p.grad.detach().double().flatten() for p in of if p.grad is not None])


def rows(values: Tensor) -> Tensor:
    """An uncoalesced gradient of shape (3, 2): its two rows are both row 1."""
    return torch.sparse_coo_tensor([[1, 1]], values, (3, 2), check_invariants=True)


def same_as_torch(make: Callable[[], list[Tensor]], *args: Any, **options: Any) -> ClipReport:
    theirs, ours = make(), make()
    norm = nn.utils.clip_grad_norm_(theirs, *args, **options)
    report = clip_gradients(ours, *args, **options)
    assert grads(ours) == grads(theirs)
    assert repr(report.norm) == repr(norm.item())
    return report


# Torch as the oracle


KINDS: dict[str, Callable[[], list[Tensor]]] = {
    "float32": lambda: parameters(torch.randn(3, 4), torch.randn(5)),
    "float16": lambda: parameters(torch.randn(3, 4).half(), torch.randn(5).half()),
    "bfloat16": lambda: parameters(torch.randn(3, 4).bfloat16(), torch.randn(5).bfloat16()),
    "float64": lambda: parameters(torch.randn(3, 4).double(), torch.randn(5).double()),
    "complex": lambda: parameters(torch.randn(3, dtype=torch.complex64), torch.randn(5)),
    "mixed": lambda: parameters(torch.randn(3), torch.randn(4).double(), torch.randn(2).half(), torch.randn(3)),
    "transposed": lambda: [parameter(torch.randn(3, 4).t()), parameter(torch.randn(8)[::2])],
    "scalars": lambda: parameters(torch.tensor(3.0), torch.tensor(-4.0)),
    "one scalar": lambda: parameters(torch.tensor(3.0)),
    "channels last": lambda: [parameter(torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))],
    "some without": lambda: parameters(None, torch.randn(3), None),
    "zeros": lambda: parameters(torch.zeros(3), torch.tensor([-0.0])),
    "tiny": lambda: parameters(torch.full((3,), 1e-30), torch.full((2,), 1e-42)),
    "many": lambda: parameters(*(torch.randn(k % 7 + 1) for k in range(300))),
    "large and small": lambda: parameters(torch.full((3,), 1e18), torch.full((2,), 1e-18)),
}


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_bits_are_those_of_torch(kind: str, foreach: bool | None) -> None:
    def make() -> list[Tensor]:
        torch.manual_seed(1)
        return KINDS[kind]()

    for order in ORDERS:
        for max_norm in (0.1, 1e9):
            same_as_torch(make, max_norm, order, foreach=foreach)


def test_a_pending_conjugate_or_minus_where_torch_stops_halfway() -> None:
    def make() -> list[Tensor]:
        torch.manual_seed(1)
        z = torch.randn(3, dtype=torch.complex64)
        return [*parameters(torch.ones(2)), parameter(z.conj()), parameter(z.clone().conj().imag)]

    with pytest.raises(RuntimeError, match="conjugate inputs"):
        nn.utils.clip_grad_norm_(make(), 1.0)
    theirs, ours = make(), make()
    norm = nn.utils.clip_grad_norm_(theirs, 1.0, foreach=False)
    assert clip_gradients(ours, 1.0).norm == norm.item()
    for one, other in zip(theirs, ours, strict=True):
        assert torch.equal(one.grad, other.grad)


def test_an_empty_gradient_beside_others() -> None:
    report = same_as_torch(lambda: parameters(torch.zeros(0), torch.tensor([3.0, 4.0])), 1.0)
    assert report.norm == 5
    given = parameters(torch.zeros(0, 3), torch.tensor([3.0, 4.0]))
    with pytest.raises(RuntimeError, match="infinity norm on an empty tensor"):
        nn.utils.clip_grad_norm_(given, 1.0, INF)
    assert clip_gradients(given, 1.0, INF).norm == 4
    assert clip_gradients(parameters(torch.zeros(0)), 1.0, INF).norm == 0


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("odd", "bag")])
def test_real_models_are_clipped_as_by_torch_under_their_names(name: str) -> None:
    def train(clip: Callable[[nn.Module], Any]) -> tuple[nn.Module, Any]:
        model, inputs, targets, criterion = CASES[name]()
        torch.manual_seed(1)
        criterion(model(inputs), targets).backward()
        return model, clip(model)

    theirs, norm = train(lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.01))
    ours, report = train(lambda model: clip_gradients(model, 0.01))
    assert [bits(p.grad) for p in theirs.parameters()] == [bits(p.grad) for p in ours.parameters()]
    assert report.norm == norm.item()
    assert report.clipped and report.notes == () and report.repeated == ()


def test_a_tensor_a_list_a_generator_pairs_and_a_mapping_can_be_given() -> None:
    model = nn.Linear(2, 1)
    for form, names in (
        (model.weight, ["parameters[0]"]),
        (list(model.parameters()), ["parameters[0]", "parameters[1]"]),
        (model.parameters(), ["parameters[0]", "parameters[1]"]),
        (model.named_parameters(), ["weight", "bias"]),
        (dict(model.named_parameters()), ["weight", "bias"]),
        (model, ["weight", "bias"]),
        (torch.compile(model, backend="eager"), ["weight", "bias"]),
    ):
        for p in model.parameters():
            p.grad = torch.full_like(p, NAN)
        assert [bad.name for bad in clip_gradients(form, 1.0).nonfinite] == names


def test_two_models_may_use_one_name() -> None:
    one, two = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    for model in (one, two):
        model.weight.grad = torch.full((1, 1), INF)
    report = clip_gradients([*one.named_parameters(), *two.named_parameters()], 1.0)
    assert [bad.name for bad in report.nonfinite] == ["weight", "weight (parameters[1])"]


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(DebuggerError, match=r"parameters\[1\] is no tensor but str"):
        clip_gradients([torch.ones(1), "weight"], 1.0)


# Laws of mathematics


lists = st.lists(
    st.lists(st.floats(-1e6, 1e6, width=32).filter(lambda x: abs(x) > 1e-6 or x == 0), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)
norm_types = st.sampled_from([1.0, 1.5, 2.0, 3.0, INF])


def double(given: list[list[float]]) -> list[Tensor]:
    return parameters(*(torch.tensor(row, dtype=torch.float64) for row in given))


@few
@given(lists, st.floats(1e-3, 1e6), norm_types, st.booleans())
def test_the_norm_afterwards_is_at_most_max_norm(
    given: list[list[float]], max_norm: float, norm_type: float, wide: bool
) -> None:
    held = double(given)
    report = clip_gradients(held, max_norm, norm_type, wide=wide)
    after = torch.linalg.vector_norm(joined(held), norm_type).item()
    assert after <= max_norm * (1 + 1e-12)
    assert after == pytest.approx(min(report.norm, max_norm), rel=1e-12, abs=2e-6)


@few
@given(lists, st.floats(1e-3, 1e6), norm_types)
def test_the_direction_stays(given: list[list[float]], max_norm: float, norm_type: float) -> None:
    held = double(given)
    before = joined(held)
    report = clip_gradients(held, max_norm, norm_type)
    after = joined(held)
    assert torch.allclose(after, report.scale * before, rtol=1e-14, atol=0)
    if report.norm > 0:
        assert torch.cosine_similarity(before, after, dim=0, eps=0).item() == pytest.approx(1)


@few
@given(lists, st.floats(1e-3, 1e6), norm_types)
def test_clipping_twice_is_clipping_once(given: list[list[float]], max_norm: float, norm_type: float) -> None:
    held = double(given)
    clip_gradients(held, max_norm, norm_type)
    once = joined(held)
    again = clip_gradients(held, max_norm, norm_type)
    assert torch.allclose(once, joined(held), rtol=1e-6 / max_norm + 1e-12, atol=0)
    assert 1 - 1e-6 / max_norm - 1e-12 <= again.scale <= 1


@few
@given(lists, st.floats(1, 1e3), norm_types, st.floats(1, 1e3))
def test_larger_gradients_clip_to_the_same(
    given: list[list[float]], max_norm: float, norm_type: float, factor: float
) -> None:
    held, larger = double(given), double([[factor * x for x in row] for row in given])
    report = clip_gradients(held, max_norm, norm_type)
    clip_gradients(larger, max_norm, norm_type)
    if report.norm >= max_norm:  # both end on the sphere
        assert torch.allclose(joined(larger), joined(held), rtol=3e-6, atol=0)


@few
@given(lists, norm_types, st.floats(1e-3, 1e3))
def test_wide_agrees_where_nothing_overflows(given: list[list[float]], norm_type: float, max_norm: float) -> None:
    usual, wide = double(given), double(given)
    one, other = clip_gradients(usual, max_norm, norm_type), clip_gradients(wide, max_norm, norm_type, wide=True)
    assert other.norm == pytest.approx(one.norm, rel=1e-12)
    assert torch.allclose(joined(usual), joined(wide), rtol=1e-12, atol=0)


# Not finite


def test_one_inf_gives_torchs_result_and_is_named() -> None:
    report = same_as_torch(lambda: parameters(torch.ones(2), torch.tensor([1.0, INF])), 1.0)
    assert (report.norm, report.scale, report.clipped) == (INF, 0, True)
    assert report.nonfinite == (NonFinite("parameters[1]", nan=0, inf=1),)
    assert "the gradient of parameters[1] has 1 inf" in str(report)
    assert "What was finite became 0, what was infinite NaN." in report.notes


def test_one_nan_gives_torchs_result_and_is_named() -> None:
    report = same_as_torch(lambda: parameters(torch.tensor([INF, NAN, NAN]), torch.ones(2)), 1.0)
    assert math.isnan(report.norm) and math.isnan(report.scale) and report.clipped
    assert report.nonfinite == (NonFinite("parameters[0]", nan=2, inf=1),)
    assert "has 2 NaN and 1 inf" in str(report)
    assert "All gradients became NaN." in report.notes
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["norm"] == "NaN"


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("bad", [INF, -INF, NAN])
def test_error_if_nonfinite_names_the_parameter_and_changes_nothing(bad: float, wide: bool) -> None:
    """pytorch #46849"""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    model[1].weight.grad[0, 1] = bad
    before = grads(list(model.parameters()))
    with pytest.raises(
        NonFiniteGradientError, match=r"Nothing was clipped: the gradient of 1\.weight has 1 "
    ) as caught:
        clip_gradients(model, 1.0, error_if_nonfinite=True, wide=wide)
    assert grads(list(model.parameters())) == before
    assert isinstance(caught.value, RuntimeError) and isinstance(caught.value, DebuggerError)
    assert "0." not in str(caught.value)


@pytest.mark.parametrize("norm_type", [0.0, -INF])
def test_an_inf_that_the_norm_does_not_see_is_named(norm_type: float) -> None:
    report = same_as_torch(lambda: parameters(torch.tensor([1.0, INF])), 9.0, norm_type)
    assert math.isfinite(report.norm)
    assert report.nonfinite == (NonFinite("parameters[0]", nan=0, inf=1),)


@pytest.mark.parametrize(
    ("dtype", "value", "norm_type"),
    [
        (torch.float16, 6e4, 2.0),
        (torch.float16, 6e4, 1.5),
        (torch.float32, 1e20, 2.0),
        (torch.float32, 1e30, 1.5),
        (torch.float64, 1e200, 2.0),
        (torch.float64, 1e250, 1.5),
    ],
)
def test_finite_gradients_whose_norm_overflows(dtype: torch.dtype, value: float, norm_type: float) -> None:
    def make() -> list[Tensor]:
        return parameters(torch.full((4,), value, dtype=dtype), torch.zeros(1, dtype=dtype))

    report = same_as_torch(make, 1.0, norm_type)  # torch makes every gradient 0
    held = make()
    true = held[0].grad[0].item() * 4 ** (1 / norm_type)
    assert (report.norm, report.scale, report.nonfinite) == (INF, 0, ())
    assert report.true_norm == pytest.approx(true, rel=1e-6)
    assert "All gradients became 0." in report.notes
    assert "overflows" in str(report) and "wide=True" in str(report)

    name = str(dtype).removeprefix("torch.")
    before = grads(held)
    with pytest.raises(NonFiniteGradientError, match=f"these finite gradients, .* overflows in {name}"):
        clip_gradients(held, 1.0, norm_type, error_if_nonfinite=True)
    assert grads(held) == before

    wide = clip_gradients(held, 1.0, norm_type, error_if_nonfinite=True, wide=True)
    assert wide.norm == pytest.approx(true, rel=1e-6)
    assert (wide.true_norm, wide.notes) == (None, ())
    assert torch.linalg.vector_norm(joined(held), norm_type).item() == pytest.approx(1, rel=1e-3)


def test_an_infinite_norm_of_finite_gradients_of_negative_order() -> None:
    held = parameters(torch.full((2,), 1e20))
    with pytest.raises(NonFiniteGradientError, match=r"Nothing was clipped: the norm is inf\."):
        clip_gradients(held, 1.0, -4.0, error_if_nonfinite=True)
    assert held[0].grad.tolist() == torch.full((2,), 1e20).tolist()
    with pytest.raises(DebuggerError, match="wide=True needs a norm_type above 0"):
        clip_gradients(held, 1.0, -4.0, wide=True)
    assert same_as_torch(lambda: parameters(torch.full((2,), 1e20)), 1.0, -4.0).true_norm is None


# max_norm


@pytest.mark.parametrize("max_norm", [-1.0, -INF, -1e-30])
def test_a_negative_max_norm_is_refused_where_torch_turns_the_gradient_round(max_norm: float) -> None:
    held = parameters(torch.tensor([3.0, 4.0]))
    before = grads(held)
    with pytest.raises(DebuggerError, match="a negative one would turn every gradient round"):
        clip_gradients(held, max_norm)
    assert grads(held) == before
    nn.utils.clip_grad_norm_(held, -1.0)
    assert held[0].grad.tolist() == pytest.approx([-0.6, -0.8])


@pytest.mark.parametrize("numbers", [(NAN, 2.0), (1.0, NAN)])
def test_nan_is_refused(numbers: tuple[float, float]) -> None:
    held = parameters(torch.tensor([3.0, 4.0]))
    before = grads(held)
    with pytest.raises(DebuggerError, match="cannot be NaN"):
        clip_gradients(held, *numbers)
    assert grads(held) == before


def test_max_norm_zero_makes_every_gradient_zero() -> None:
    report = same_as_torch(lambda: parameters(torch.tensor([3.0, -4.0])), 0)
    assert (report.norm, report.scale, report.clipped) == (5, 0, True)


def test_max_norm_inf_only_measures() -> None:
    report = same_as_torch(lambda: parameters(torch.tensor([3.0, -4.0])), INF)
    assert (report.norm, report.scale, report.clipped) == (5, 1, False)
    assert "gradients unchanged" in str(report)


def test_max_norm_inf_with_an_infinite_norm_makes_all_nan_as_in_torch() -> None:
    report = same_as_torch(lambda: parameters(torch.tensor([3.0, INF])), INF)
    assert math.isnan(report.scale) and "All gradients became NaN." in report.notes


def test_below_the_threshold_the_1e_6_of_the_formula_still_shrinks() -> None:
    report = same_as_torch(lambda: parameters(torch.tensor([5e-7])), 5e-7)
    assert report.scale == pytest.approx(1 / 3)
    assert report.clipped


def test_a_tensor_and_an_integer_as_max_norm() -> None:
    same_as_torch(lambda: parameters(torch.tensor([3.0, 4.0])), torch.tensor(1.0))
    report = same_as_torch(lambda: parameters(torch.tensor([3.0, 4.0])), 2, "inf")
    assert report.norm_type == INF


# What was given


def test_an_empty_list_and_no_gradients() -> None:
    """pytorch #38605"""
    report = same_as_torch(list, 1.0)
    assert (report.norm, report.scale, report.clipped) == (0, 1, False)
    assert report.notes == ("No parameters were given.",)
    report = same_as_torch(lambda: parameters(None, None), 0.0)
    assert (report.norm, report.clipped, report.parameters, report.gradients) == (0, False, 2, 0)
    assert report.notes == ("No parameter has a gradient.",)
    assert clip_gradients(nn.LazyLinear(2), 1.0).gradients == 0
    with torch.device("meta"):  # where torch cannot say 0
        assert clip_gradients([], 1.0).norm == clip_gradients(nn.Linear(1, 1), 1.0, INF).norm == 0


def test_an_exhausted_generator_is_told_from_an_empty_one() -> None:
    model = nn.Linear(2, 1)
    generator = model.parameters()
    assert len(list(generator)) == 2
    with pytest.warns(UserWarning, match="The generator of parameters was used up") as caught:
        report = clip_gradients(generator, 1.0)
    assert caught[0].filename == __file__
    assert (report.norm, report.parameters) == (0, 0)
    assert report.notes == ("The generator of parameters was used up: nothing is clipped.",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clip_gradients(nn.ReLU().parameters(), 1.0).notes == ("No parameters were given.",)


def test_the_same_parameter_twice_counts_once() -> None:
    held = parameters(torch.tensor([3.0, 4.0]), torch.tensor([12.0]))
    report = clip_gradients([held[0], held[1], held[0]], 1.0)
    assert report.norm == 13
    assert (report.parameters, report.repeated) == (2, ("parameters[0]",))
    assert joined(held).tolist() == pytest.approx([3 / 13, 4 / 13, 12 / 13])
    assert "Given more than once, counted once: parameters[0]." in str(report)
    theirs = parameters(torch.tensor([3.0, 4.0]))
    assert nn.utils.clip_grad_norm_(theirs * 2, 1.0).item() == pytest.approx(5 * 2**0.5)
    assert joined(theirs).norm().item() == pytest.approx(0.1)  # scaled twice


def test_a_tied_weight_is_one_parameter_whatever_way_it_comes() -> None:
    model, tokens, targets, criterion = gpt()
    criterion(model(tokens), targets).backward()
    twin = parameters(*(p.grad for p in model.parameters()))
    norm = nn.utils.clip_grad_norm_(twin, 0.1)
    report = clip_gradients(model.named_parameters(remove_duplicate=False), 0.1)
    assert report.norm == norm.item()
    assert report.repeated == ("words.weight",)
    assert grads(list(model.parameters())) == grads(twin)


def test_a_gradient_that_two_parameters_share_is_scaled_once() -> None:
    gradient = torch.tensor([3.0, 4.0])
    one, two, part = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    one.grad, two.grad, part.grad = gradient, gradient.view(2), torch.tensor([7.0])
    report = clip_gradients({"one": one, "two": two, "part": part}, 1.0)
    assert report.norm == pytest.approx(99**0.5)
    assert joined([one, two, part]).norm().item() == pytest.approx(1, rel=1e-6)
    assert report.notes == ("Shared gradients, scaled once: two.",)


def test_neighbours_in_one_block_of_memory_are_not_shared() -> None:
    def make() -> list[Tensor]:
        block = torch.arange(6.0)
        held = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2, 3).t())]
        held[0].grad, held[1].grad, held[2].grad = block[:3], block[3:], torch.arange(6.0).view(2, 3).t()
        return held

    assert same_as_torch(make, 1.0).notes == ()


def test_gradients_that_begin_at_the_same_place_are_as_torch_has_them() -> None:
    def make() -> list[Tensor]:
        block = torch.arange(1.0, 7.0)
        long, short = nn.Parameter(torch.zeros(6)), nn.Parameter(torch.zeros(3))
        long.grad, short.grad = block, block[:3]
        return [short, long]

    assert same_as_torch(make, 1.0).notes == ()


@pytest.mark.parametrize("order", [1.0, 2.0, INF])
def test_a_complex_gradient_has_the_sizes_of_its_numbers(order: float) -> None:
    held = parameters(torch.tensor([3 + 4j, 12j]))
    report = clip_gradients(held, 1.0, order, wide=True)
    assert report.norm == pytest.approx({1.0: 17, 2.0: 13, INF: 12}[order])
    assert held[0].grad[0].abs().item() == pytest.approx(5 / report.norm, rel=1e-6)


# Layouts, dtypes, devices


def test_an_uncoalesced_sparse_gradient_has_its_true_norm_and_is_scaled() -> None:
    sparse, dense = parameter(rows(torch.ones(2, 2))), parameter(torch.tensor([1.0]))
    with pytest.raises(NotImplementedError):
        nn.utils.clip_grad_norm_([sparse, dense], 1.0)
    report = clip_gradients([sparse, dense], 1.0)
    assert report.norm == 3  # 2² + 2² + 1²; the values alone have 2, not 8**.5
    assert sparse.grad.is_sparse and not sparse.grad.is_coalesced()
    assert sparse.grad.to_dense()[1].tolist() == pytest.approx([2 / 3, 2 / 3], rel=1e-6)
    assert dense.grad.tolist() == pytest.approx([1 / 3], rel=1e-6)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr"])
def test_sparse_gradients_have_the_norm_of_dense_ones(layout: str, wide: bool) -> None:
    values = torch.tensor([[0.0, 0.0], [-3.0, 0.0], [4.0, 1.0], [0.0, 0.0]])
    for order in [2.0, 1.0, INF] if wide else ORDERS:
        dense = parameters(values)
        norm = nn.utils.clip_grad_norm_(dense, 0.5, order)
        made = values.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the beta state of CSR, the missing invariants
            changed = {
                "coo": made.to_sparse,
                "csr": made.to_sparse_csr,
                "csc": made.to_sparse_csc,
                "bsr": lambda made=made: made.to_sparse_bsr((2, 1)),
            }[layout]()
            held = nn.Parameter(torch.zeros_like(changed))
            held.grad = changed
        report = clip_gradients(held, 0.5, order, wide=wide)
        assert report.norm == pytest.approx(norm.item(), rel=1e-6)
        assert torch.allclose(held.grad.to_dense(), dense[0].grad)


def test_a_nan_and_a_sum_that_overflows_in_a_sparse_gradient() -> None:
    held = parameter(rows(torch.tensor([[3e38, 1.0], [3e38, NAN]])))
    before = bits(held.grad)
    with pytest.raises(NonFiniteGradientError, match="has 1 NaN and 1 inf"):
        clip_gradients({"rows": held}, 1.0, error_if_nonfinite=True)
    assert bits(held.grad) == before


def test_an_embedding_bag_trains_with_clipping() -> None:
    model, inputs, targets, criterion = CASES["bag"]()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        criterion(model(inputs), targets).backward()
        assert clip_gradients(model, 0.1).clipped
        whole = torch.cat([p.grad.to_dense().flatten() for p in model.parameters()])
        assert whole.norm().item() == pytest.approx(0.1, rel=1e-4)
        optimizer.step()


def refused() -> dict[str, tuple[Callable[[], Tensor], str]]:
    def inference() -> Tensor:
        with torch.inference_mode():
            return torch.ones(2)

    return {
        "meta": (lambda: torch.ones(2, device="meta"), "on the meta device, so it has no value"),
        "integer": (lambda: torch.ones(2, dtype=torch.int64), "is int64, which cannot be scaled"),
        "float8": (lambda: torch.ones(2).to(torch.float8_e4m3fn), "is float8_e4m3fn, which cannot be scaled"),
        "expanded": (lambda: torch.ones(1).expand(2), "its elements share memory: clone it"),
        "inference": (inference, "was made in inference mode"),
    }


@pytest.mark.parametrize("kind", refused())
@pytest.mark.parametrize("wide", [False, True])
def test_what_torch_cannot_scale_is_named_before_anything_is_changed(kind: str, wide: bool) -> None:
    make, why = refused()[kind]
    good, bad = parameters(torch.tensor([3.0, 4.0]))[0], torch.zeros(2)
    gradient = make()
    bad = torch.zeros(2, dtype=gradient.dtype, device=gradient.device)
    bad.grad = gradient
    for order in ({"good": good, "bad": bad}, {"bad": bad, "good": good}):
        with pytest.raises(DebuggerError, match=f"The gradient of bad .*{why}"):
            clip_gradients(order, 1.0, wide=wide)
    assert good.grad.tolist() == [3, 4]


def test_torch_itself_stops_halfway_on_an_expanded_gradient() -> None:
    held = [*parameters(torch.tensor([3.0, 4.0])), parameter(torch.ones(1).expand(2))]
    with pytest.raises(RuntimeError, match="single memory location"):
        nn.utils.clip_grad_norm_(held, 1.0)
    assert held[0].grad.tolist() != [3, 4]


def test_gradients_of_inference_mode_can_be_clipped_there() -> None:
    with torch.inference_mode():
        held = torch.zeros(2)
        held.grad = torch.tensor([3.0, 4.0])
        assert clip_gradients(held, 1.0).norm == 5
        assert held.grad.tolist() == pytest.approx([0.6, 0.8])


def test_foreach_where_a_device_has_none_is_torchs_error_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.nn.utils.clip_grad._device_has_foreach_support", lambda device: False)
    held = parameters(torch.tensor([3.0, 4.0]))
    with pytest.raises(RuntimeError, match="can't use the foreach API on cpu"):
        clip_gradients(held, 1.0, foreach=True)
    assert held[0].grad.tolist() == [3, 4]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="two devices need a GPU")
@pytest.mark.parametrize("wide", [False, True])
def test_gradients_on_two_devices(wide: bool) -> None:
    """pytorch #38605"""

    def make() -> list[Tensor]:
        torch.manual_seed(1)
        return parameters(torch.randn(3), torch.randn(4).cuda(), torch.randn(2).half().cuda(), torch.randn(2))

    theirs, ours = make(), make()
    norm = nn.utils.clip_grad_norm_(theirs, 0.1)
    report = clip_gradients(ours, 0.1, wide=wide)
    assert report.norm == pytest.approx(norm.item(), rel=1e-3)
    for one, other in zip(theirs, ours, strict=True):
        assert one.grad.device == other.grad.device
        assert torch.allclose(one.grad, other.grad, rtol=2e-3) if wide else torch.equal(one.grad, other.grad)


def test_a_gradient_with_a_graph_is_clipped() -> None:
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cycle that create_graph makes
        (weight**2).sum().backward(create_graph=True)
    report = clip_gradients(weight, 1.0)
    assert report.norm == 10
    assert weight.grad.norm().item() == pytest.approx(1)


# The report


def test_the_report_is_frozen_plain_data_and_readable() -> None:
    model = nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    report = clip_gradients(model, 0.5)
    assert str(report) == "Clipping: norm 1.732, max_norm 0.5, gradients scaled by 0.2887 (2 of 2 parameters have one)"
    assert "just below 1" in str(clip_gradients(model, 0.5))
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False)) == {
        "norm": pytest.approx(3**0.5),
        "scale": pytest.approx(3**-0.5 / 2, rel=1e-5),
        "clipped": True,
        "max_norm": 0.5,
        "norm_type": 2.0,
        "parameters": 2,
        "gradients": 2,
        "nonfinite": [],
        "repeated": [],
        "true_norm": None,
        "notes": [],
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.norm = 0  # type: ignore[misc]


def test_a_hundred_bad_gradients_are_all_kept_and_twenty_printed() -> None:
    report = clip_gradients(parameters(*(torch.tensor([NAN]) for _ in range(100))), 1.0)
    assert len(report.nonfinite) == 100
    assert str(report).count("\n") == 22
    assert "… 80 more" in str(report)
    held = parameters(*(torch.ones(1) for _ in range(15)))
    assert "parameters[9], 5 more." in clip_gradients(held * 2, 1.0).notes[0]
