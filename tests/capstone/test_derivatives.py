"""check_derivatives: right ones pass, wrong ones are found, and nothing else is called a pass."""

import dataclasses
import json
import random
import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from snippets.capstone.curvature import verify_curvature
from snippets.capstone.derivatives import check_derivatives
from snippets.capstone.outputs import DebuggerError
from snippets.capstone.state import same_bits
from tests.capstone.models import checkpointed, odd
from tests.capstone.same import differences, photo


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def custom(forward, backward, keep=lambda x: (x,)):
    """A Function of one input: backward(g, *kept)."""

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(*keep(x))
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Custom


# Scenarios


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_modules_in_low_precision_do_not_fail_falsely(dtype):
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to(dtype)
    report = check_derivatives(model, torch.randn(5, 4).to(dtype))
    assert report.passed and report.dtype == "float64" and report.first_error < 1e-7 and report.second_error < 1e-6
    assert report.variables == ("input", "0.weight", "0.bias", "2.weight", "2.bias", "3.weight", "3.bias")


@pytest.mark.parametrize("seed", range(10))
def test_an_off_diagonal_error_of_a_thousandth_in_200_entries_is_found_and_located(seed):
    def backward(g: Tensor, x: Tensor) -> Tensor:
        wrong = torch.zeros_like(g)
        wrong[7] = 1e-3 * g[120]
        return g * x.cos() + wrong

    report = check_derivatives(custom(torch.sin, backward), torch.randn(200), seed=seed)
    assert (report.first_order, report.passed) == ("wrong", False)
    where = report.mismatch
    assert (where.output_index, where.variable_index) == ((120,), (7,))
    assert where.analytic == pytest.approx(1e-3) and where.numeric == pytest.approx(0, abs=1e-9)
    assert "d output[120] / d input[7]: backward says 0.001" in str(report)


def test_integer_outputs_alone_are_nothing_checked_and_not_a_pass():
    report = check_derivatives(lambda x: {"best": x.argmax(), "order": x.sort().indices}, torch.randn(3))
    assert (report.first_order, report.second_order, report.passed) == ("nothing checked", "nothing checked", False)
    assert report.not_checked == ("output['best']", "output['order']") and "Nothing checked" in str(report)
    # gradcheck passes this one.
    assert torch.autograd.gradcheck(lambda x: x.argmax(), torch.randn(3).double().requires_grad_())


def test_integer_inputs_alone_are_nothing_checked():
    report = check_derivatives(lambda n: n * 2.0, torch.tensor([1, 2]))
    assert report.first_order == "nothing checked" and "no input has" in str(report)


def test_a_zero_backward_for_a_slope_of_a_millionth_is_found():
    tiny = custom(lambda x: 1e-6 * x, lambda g, x: torch.zeros_like(g))
    report = check_derivatives(tiny, torch.randn(3))
    assert report.first_order == "wrong" and "zero or None" in report.cause
    assert report.mismatch.numeric == pytest.approx(1e-6) and report.mismatch.analytic == 0
    # gradcheck passes this one: its tolerance is absolute.
    assert torch.autograd.gradcheck(tiny.apply, torch.randn(3).double().requires_grad_())
    # Also beside a large constant, within what float64 can tell.
    assert check_derivatives(custom(lambda x: 1 + 1e-6 * x, lambda g, x: 0 * g), torch.randn(3)).first_order == "wrong"


@dataclasses.dataclass
class Pair:
    mean: Tensor
    spread: Tensor


@pytest.mark.parametrize("kind", [lambda a, b: {"a": a, "b": b}, lambda a, b: (a, [b]), Pair])
def test_outputs_in_dicts_lists_and_dataclasses(kind):
    def f(x: Tensor) -> object:
        return kind(x.sin(), x.exp())

    def cut(x: Tensor) -> object:
        return kind(x.sin(), x.detach().exp())

    report = check_derivatives(f, torch.randn(3))
    assert report.passed and len(report.outputs) == 2
    report = check_derivatives(cut, torch.randn(3))  # gradcheck skips the second output silently
    assert report.first_order == "wrong" and report.mismatch.output == report.outputs[1]
    assert "the output is cut off" in report.cause


def test_dropout_is_not_deterministic_and_has_no_jacobian():
    report = check_derivatives(nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5)), torch.randn(4, 3))
    assert (report.first_order, report.passed, report.mismatch) == ("not deterministic", False, None)
    assert "dropout? then call eval()" in report.notes[0]
    assert check_derivatives(nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5)).eval(), torch.randn(4, 3)).passed


def test_a_backward_that_draws_is_not_deterministic():
    noisy = custom(torch.sin, lambda g, x: g * x.cos() * (1 + 0.01 * torch.rand_like(x)))
    report = check_derivatives(noisy, torch.randn(4))
    assert report.first_order == "not deterministic" and "Two backwards" in report.notes[0]


def test_python_randomness_and_a_kept_state_are_not_deterministic():
    calls = iter(range(1000))
    for f in (lambda x: x * random.random(), lambda x: x * next(calls)):
        assert check_derivatives(f, torch.ones(2)).first_order == "not deterministic"


@pytest.mark.parametrize("f", [torch.relu, torch.abs, lambda x: x.clamp(0, 1), lambda x: torch.maximum(x, -x)])
def test_a_kink_is_not_smooth_here_and_other_points_decide(f):
    report = check_derivatives(f, torch.zeros(3))
    assert report.points[0] == "given: not smooth here" and report.passed
    assert sum(p.endswith(": right") for p in report.points) == 3


def test_a_function_that_is_smooth_nowhere_near_is_not_called_right():
    report = check_derivatives(lambda x: (1e9 * x).sin() * 1e-3, torch.randn(3))
    assert report.first_order in ("inconclusive", "not smooth here") and not report.passed


def test_a_saved_intermediate_is_first_order_right_and_second_order_wrong():
    kept = custom(lambda x: x * x.exp(), lambda g, x, e: g * (1 + x) * e, keep=lambda x: (x, x.exp()))
    report = check_derivatives(kept, torch.rand(3))
    assert (report.first_order, report.second_order, report.passed) == ("right", "wrong", False)
    assert "an intermediate was saved: Custom keeps saved tensor 1" in report.cause and report.mismatch.order == 2
    again = custom(lambda x: x * x.exp(), lambda g, x: g * (1 + x) * x.exp())
    assert check_derivatives(again, torch.rand(3)).passed


def test_an_intermediate_kept_as_an_attribute_is_named():
    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.slope = x.cos()
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.slope

    report = check_derivatives(Kept, torch.rand(3))
    assert report.second_order == "wrong" and "Kept keeps ctx.slope" in report.cause


def test_a_backward_that_is_not_recorded_is_second_order_wrong():
    cut = custom(torch.sin, lambda g, x: g.detach() * x.detach().cos())
    report = check_derivatives(cut, torch.rand(3))
    assert (report.first_order, report.second_order) == ("right", "wrong") and "not recorded" in report.cause


def test_a_missing_complex_conjugate_is_found_with_complex_inputs():
    square = custom(lambda z: z * z, lambda g, z: g * 2 * z)
    assert check_derivatives(square, torch.randn(3)).passed  # right for real ones
    report = check_derivatives(square, torch.randn(3, dtype=torch.complex64))
    assert report.first_order == "wrong" and "complex conjugate is missing" in report.cause
    right = custom(lambda z: z * z, lambda g, z: g * 2 * z.conj())
    assert check_derivatives(right, torch.randn(3, dtype=torch.complex64)).passed


def test_complex_to_real_and_real_to_complex_functions_pass():
    for f in (torch.abs, torch.view_as_real, lambda z: z.conj() * z, lambda z: (z.real, z.imag.exp())):
        assert check_derivatives(f, torch.randn(3, dtype=torch.complex64)).passed
    assert check_derivatives(torch.fft.rfft, torch.randn(6)).passed


def test_batch_norm_statistics_are_restored():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    objects = list(model.parameters())
    assert check_derivatives(model, torch.randn(6, 3)).passed
    assert all(same_bits(v, before[k]) for k, v in model.state_dict().items()) and model.training
    assert all(a is b for a, b in zip(objects, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())


def test_changed_inputs_are_said_first():
    x = torch.randn(3)
    before = x.clone()
    report = check_derivatives(nn.ReLU(inplace=True), x)
    assert report.passed and torch.equal(x, before)
    assert report.notes[0] == "f changes input in place. It was given copies."
    assert str(report).splitlines()[1].strip() == f"note: {report.notes[0]}"


def test_a_change_that_autograd_does_not_know_is_no_pass():
    def doubled(x: Tensor) -> Tensor:
        x.data.mul_(2)
        return x.sin()

    report = check_derivatives(doubled, torch.randn(3))
    assert not report.passed and "ctx.mark_dirty is missing" in report.notes[0]


# More ways to be right or wrong


def test_common_errors_have_their_cause():
    report = check_derivatives(lambda x: x * x.detach(), torch.randn(3))
    assert report.first_order == "wrong" and "constant factor: 2 is missing" in report.cause
    report = check_derivatives(custom(torch.sin, lambda g, x: -g * x.cos()), torch.randn(3))
    assert "constant factor: -1 is missing" in report.cause
    report = check_derivatives(custom(torch.sin, lambda g, x: g * x / 0), torch.randn(3))
    assert report.first_order == "wrong" and "NaN or inf" in report.cause


def test_the_wrong_parameter_of_a_module_is_named():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, b):
            ctx.save_for_backward(x, w)
            return x * w + b

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, (g * x).mean(0), g.sum(0)  # should be a sum

    class Affine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = nn.Parameter(torch.randn(3)), nn.Parameter(torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            return Scaled.apply(x, self.w, self.b)

    model = nn.Sequential(Affine(), nn.Tanh())
    report = check_derivatives(model, torch.randn(4, 3))
    assert report.mismatch.variable == "0.w" and "constant factor: 4 is missing" in report.cause


def test_only_inputs_that_require_grad_are_varied_if_there_are_any():
    class Weighted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0], None  # w is a constant by design

    x, w = torch.randn(3), torch.randn(3)
    assert check_derivatives(Weighted, (x, w)).first_order == "wrong"
    report = check_derivatives(Weighted, (x.requires_grad_(), w))
    assert report.passed and report.variables == ("input[0]",)
    assert x.grad is None and x.requires_grad


def test_keyword_arguments_masks_of_minus_inf_and_domains():
    def attend(q: Tensor, mask: Tensor) -> Tensor:
        return (q @ q.mT + mask).softmax(-1) @ q

    mask = torch.full((4, 4), -torch.inf).triu(1)
    assert check_derivatives(attend, {"q": torch.randn(4, 3), "mask": mask}).passed
    assert check_derivatives(lambda x: x.sqrt() + x.log(), torch.rand(5) + 1e-3).passed
    report = check_derivatives(torch.log, torch.zeros(2))
    assert report.points[0] == "given: not finite here"


def test_a_second_order_that_does_not_exist_is_not_available():
    def attend(q: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(q, q, q)

    report = check_derivatives(attend, torch.randn(1, 1, 4, 8))
    assert (report.first_order, report.second_order, report.passed) == ("right", "not available", True)

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()

    report = check_derivatives(Once, torch.randn(3))
    assert report.second_order == "not available" and "once_differentiable" in report.notes[-1]


@pytest.mark.parametrize("on", [False, True])
def test_a_checkpoint_runs_again_with_the_values_that_are_tried(on):
    model, x, _, _ = checkpointed(on)
    report = check_derivatives(model, x)
    assert report.passed and (report.first_order, report.second_order) == ("right", "right")
    wrong = custom(lambda x: x * x, lambda g, x: g * x)
    for block in model.blocks:
        block.append(Applied(wrong))
    report = check_derivatives(model, x)
    assert report.first_order == "wrong" and report.mismatch.variable == "input"


class Applied(nn.Module):
    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function.apply(x)


def test_a_reentrant_checkpoint_is_refused_in_one_sentence():
    def f(x: Tensor) -> Tensor:
        return checkpoint(torch.sin, x, use_reentrant=True)

    with warnings.catch_warnings(), pytest.raises(DebuggerError, match="use_reentrant=False") as caught:
        warnings.simplefilter("ignore")  # torch says that without a gradient it does nothing
        check_derivatives(f, torch.randn(3))
    assert "\n" not in str(caught.value)


def test_lazy_modules_are_checked_and_lazy_again():
    model, inputs, _, _ = odd()
    before = photo(model, inputs)
    report = check_derivatives(model, inputs)
    assert report.passed and "lazy.weight" in report.variables and "never.weight" not in report.variables
    assert differences(before, photo(model, inputs)) == []


def test_an_output_that_is_zero_but_for_rounding_is_no_kink():
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return 10 * x.exp(), x.softmax(1).sum(1) - 1  # as the gradient of a bias that has no effect

    assert check_derivatives(f, torch.randn(500, 8)).first_order == "right"


def test_an_error_is_never_said_to_be_zero_unless_it_is():
    report = check_derivatives(torch.sin, torch.randn(3))
    assert 0 < report.first_error < 1e-9 and "(error 0)" not in str(report)
    exact = check_derivatives(lambda x: 0 * x, torch.randn(3))
    assert exact.first_error == 0 and "First order right (exact)" in str(exact)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_a_row_of_padding_has_no_gradient_by_design(kind):
    model = nn.Sequential(kind(5, 3, padding_idx=1), nn.Tanh(), nn.Linear(3, 2))
    report = check_derivatives(model, torch.tensor([[0, 1, 1], [2, 1, 4]]))
    assert report.first_order == "right" and report.notes[0].startswith("Row 1 of 0.weight is not varied")
    if kind is nn.Embedding:
        report = verify_curvature(model, torch.tensor([0, 1, 4]), None, lambda o: o.square().sum())
        assert report.check.verdict == "agrees" and report.check.error < 1e-6


def test_derivatives_that_are_all_zero_are_said():
    report = check_derivatives(lambda x: x.round() + 0 * x, torch.randn(3))
    assert report.first_order == "right" and "All derivatives are zero" in report.notes[-1]


def test_a_function_bound_to_float32_is_checked_as_well_as_it_can_be():
    def single(x: Tensor) -> Tensor:
        return x.float().sin()

    report = check_derivatives(single, torch.randn(3))
    assert report.passed and report.dtype == "float64" and report.first_error < 1e-7  # the cast stays wide

    made_before = torch.randn(3, 2)
    report = check_derivatives(lambda x: (x @ made_before).sin(), torch.randn(4, 3))
    assert report.passed and "does not run in float64" in report.notes[0] and report.dtype == "float32"
    wrong = custom(lambda x: (x @ made_before).sin(), lambda g, x: g.sum(-1, True) * x)
    assert check_derivatives(wrong, torch.randn(4, 3)).first_order == "wrong"


def test_recurrent_tied_and_attention_modules_pass():
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.core = nn.Embedding(5, 3), nn.LSTM(3, 3, batch_first=True)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.words.weight

        def forward(self, n: Tensor) -> Tensor:
            return self.head(self.core(self.words(n))[0])

    report = check_derivatives(Tagger(), torch.tensor([[1, 2, 3]]))
    assert report.passed and "words.weight" in report.variables and report.not_checked == ("input",)
    block = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    assert check_derivatives(block, torch.randn(2, 3, 4), points=1).first_order == "right"


def test_fused_weight_norm_is_second_order_wrong():
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    report = check_derivatives(model, torch.randn(4, 3))
    assert (report.first_order, report.second_order) == ("right", "wrong")
    assert "parametrizations.weight" in report.mismatch.variable or "weight" in report.mismatch.output


def test_more_variables_than_groups_are_all_checked():
    bad = custom(torch.sin, lambda g, x: g * x.cos() * (1 + (x.numel() == 5)))
    inputs = tuple(torch.randn(5 if k == 61 else 3) for k in range(70))
    for groups in (8, 32):
        report = check_derivatives(lambda *xs: sum(bad.apply(x).sum() for x in xs), inputs, groups=groups)
        assert report.mismatch.variable == "input[61]"


def test_reports_are_plain_data_and_the_same_for_the_same_seed():
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    x = torch.randn(4, 3)
    before = torch.get_rng_state()
    first, second = check_derivatives(model, x), check_derivatives(model, x)
    assert first == second and torch.equal(before, torch.get_rng_state())
    data = json.loads(json.dumps(first.to_dict(), allow_nan=False))
    assert data["passed"] is True and data["mismatch"] is None
    with pytest.raises(ValueError, match="points is 0"):
        check_derivatives(model, x, points=0)
    with pytest.raises(ValueError, match="groups is 0"):
        check_derivatives(model, x, groups=0)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        check_derivatives(model, torch.randn(4, 5))
