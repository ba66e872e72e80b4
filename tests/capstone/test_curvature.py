"""Second order: every number against an oracle that is computed otherwise."""

import gc
import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from snippets.capstone.curvature import compute_hvp, verify_curvature
from snippets.capstone.eigenvalue import lanczos
from snippets.capstone.float64 import in_float64, widen
from snippets.capstone.hvp import flatten, twice_differentiable, unflatten
from snippets.capstone.memory import SavedTensors
from snippets.capstone.outputs import DebuggerError
from snippets.capstone.state import same_bits
from snippets.capstone.trace import hutchinson
from tests.capstone.models import CASES, checkpointed

mse = nn.functional.mse_loss


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def full_hessian(model: nn.Module, loss: Callable[[Callable[..., Tensor]], Tensor]) -> Tensor:
    """The oracle, (n, n) in float64: torch.func.hessian, or differences of gradients.

    torch.func.hessian of torch 2.13 is 6 % off, and not symmetric, through layer_norm and batch_norm.
    """
    named = {n: p.detach().double() for n, p in model.named_parameters() if p.requires_grad}
    fixed = {n: b.double() for n, b in model.named_buffers() if b.is_floating_point()}

    def value(flat: Tensor) -> Tensor:
        parts = dict(zip(named, unflatten(flat, list(named.values())), strict=True))
        return loss(lambda *x: functional_call(model, {**fixed, **parts}, tuple(widen(x))))

    theta = flatten(list(named.values()))
    kinds = (nn.LayerNorm, nn.modules.batchnorm._NormBase)
    if not any(isinstance(m, kinds) for m in model.modules()):
        return torch.func.hessian(value)(theta)
    gradient = torch.func.grad(value)
    steps = 1e-6 * torch.eye(len(theta), dtype=theta.dtype)
    found = torch.stack([(gradient(theta + s) - gradient(theta - s)) / 2e-6 for s in steps])
    assert torch.allclose(found, found.T, atol=1e-8)
    return found


def matrix_of(report_of: Callable[[list[Tensor]], list[Tensor]], parameters: list[Tensor]) -> Tensor:
    n = sum(p.numel() for p in parameters)
    rows = [flatten(report_of(unflatten(e, parameters))) for e in torch.eye(n, dtype=torch.float64)]
    return torch.stack(rows)


def quadratic(*diagonal: float) -> nn.Module:
    class Quadratic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.theta = nn.Parameter(torch.randn(len(diagonal)))

        def forward(self, scale: Tensor) -> Tensor:
            return scale * (torch.tensor(diagonal) * self.theta**2).sum() / 2

    return Quadratic()


one = torch.ones(())


class Penalty(nn.Module):
    """The gradient penalty of WGAN-GP: (‖∂D/∂x‖ − 1)², mean over samples."""

    def __init__(self, *layers: nn.Module, eps: float = 0.0) -> None:
        super().__init__()
        self.critic, self.eps = nn.Sequential(*layers), eps

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(self.critic(x).sum(), x, create_graph=True)
        if self.eps:
            return ((g.flatten(1).square().sum(1) + self.eps).sqrt() - 1).square().mean()
        return (g.flatten(1).norm(2, dim=1) - 1).square().mean()


# compute_hvp


def test_hvp_is_the_hessian_times_v_on_a_plain_mse_loss():
    model, x, y = (
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double(),
        torch.randn(5, 3),
        torch.randn(5, 2),
    )
    x, y = x.double(), y.double()
    expected = full_hessian(model, lambda f: mse(f(x), y))
    loss = mse(model(x), y)
    found = matrix_of(lambda v: compute_hvp(model, loss, v), list(model.parameters()))
    torch.testing.assert_close(found, expected)
    assert all(p.grad is None for p in model.parameters())


def test_hvp_never_touches_grad_and_leaves_no_cycle():
    model = nn.Linear(3, 1)
    kept = [torch.full_like(p, 7.0) for p in model.parameters()]
    for p, g in zip(model.parameters(), kept, strict=True):
        p.grad = g
    v = [torch.ones_like(p) for p in model.parameters()]
    found = compute_hvp(model, model(torch.ones(2, 3)).square().sum(), v)
    assert [p.grad is g for p, g in zip(model.parameters(), kept, strict=True)] == [True, True]
    assert all((g == 7).all() for g in kept) and not any(h.requires_grad for h in found)


def test_curvature_leaves_no_cycle_that_holds_a_graph():
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(2, 3)
    gc.collect()
    gc.disable()  # reference counts alone have to free it
    try:
        with SavedTensors(model) as saved:
            verify_curvature(model, x, None, lambda o: o.square().sum())
        assert saved.report().tensors == 0
        with SavedTensors(model) as saved, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says so, once
            model(x).square().sum().backward(create_graph=True)
        assert saved.report().tensors > 0
    finally:
        model.zero_grad()
        gc.enable()


def test_a_compiled_model_is_refused_in_one_sentence():
    model = torch.compile(nn.Linear(3, 1), backend="eager")
    with pytest.raises(DebuggerError, match=r"no second derivative: pass the module as it was") as caught:
        verify_curvature(model, torch.randn(2, 3), None, torch.sum)
    assert "\n" not in str(caught.value)


def test_hvp_of_frozen_unused_and_tied_parameters():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh(), nn.Linear(3, 3, bias=False), nn.Linear(3, 1)).double()
    model[2].weight = model[0].weight  # tied
    model[3].requires_grad_(False)
    model.unused = nn.Parameter(torch.ones(2).double())
    x = torch.randn(4, 3).double()

    def value(w: Tensor) -> Tensor:
        return model[3]((x @ w.reshape(3, 3).T).tanh() @ w.reshape(3, 3).T).square().sum()

    expected = torch.func.hessian(value)(model[0].weight.detach().flatten())
    params = [p for p in model.parameters() if p.requires_grad]
    names = [n for n, p in model.named_parameters() if p.requires_grad]
    assert names == ["unused", "0.weight"]
    loss = model(x).square().sum()
    found = matrix_of(lambda v: compute_hvp(model, loss, v), params)
    torch.testing.assert_close(found[2:, 2:], expected)
    assert not found[:2].any() and not found[:, :2].any()


def test_hvp_of_a_sparse_embedding_of_complex_and_of_bf16_parameters():
    sparse, dense = (nn.Sequential(nn.Embedding(5, 3, sparse=s), nn.Linear(3, 1)) for s in (True, False))
    words = torch.tensor([[1, 2], [2, 2]])
    dense.load_state_dict(sparse.state_dict())
    reports = [verify_curvature(m, words, None, lambda o: o.square().sum(), tolerance=1e-6) for m in (sparse, dense)]
    assert reports[0] == reports[1] and reports[0].check.verdict == "agrees" and sparse[0].sparse is True
    v = [torch.ones_like(p) for p in sparse.parameters()]
    found = compute_hvp(sparse, sparse(words).square().sum(), v)
    torch.testing.assert_close(found, compute_hvp(dense, dense(words).square().sum(), v))

    class Complex(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.z = nn.Parameter(torch.tensor([1 + 2j, 3 - 1j]))

        def forward(self, scale: Tensor) -> Tensor:  # |z|² has the Hessian 2I in x and y
            return scale * (self.z.abs() ** 2).sum()

    report = verify_curvature(Complex(), one)
    assert (report.parameters, report.eigenvalue) == (4, pytest.approx(2)) and report.trace == pytest.approx(8)
    half = nn.Linear(3, 1).bfloat16()
    report = verify_curvature(half, torch.ones(2, 3).bfloat16(), None, lambda o: o.square().sum())
    assert report.eigenvalue == pytest.approx(16, rel=0.02)  # 2 Σ (x, 1)ᵀ(x, 1)


@pytest.mark.parametrize(
    ("v", "message"),
    [
        ([torch.ones(1, 3)], "v has 1 tensors; 2 parameters"),
        ([torch.ones(3), torch.ones(1)], r"v for weight is \(3,\)"),
        ([torch.ones(1, 3).double(), torch.ones(1)], "torch.float64"),
    ],
)
def test_hvp_says_where_v_does_not_fit(v, message):
    model = nn.Linear(3, 1)
    with pytest.raises(DebuggerError, match=message):
        compute_hvp(model, model(torch.ones(1, 3)).sum(), v)


def test_an_embedding_bag_is_refused_in_one_sentence():
    bag = nn.EmbeddingBag(5, 3, mode="sum", sparse=True)
    with pytest.raises(DebuggerError, match=r"An operation has no second derivative.*_embedding_bag_backward"):
        verify_curvature(bag, torch.tensor([[1, 2]]), None, lambda o: o.square().sum())
    assert bag.sparse is True


def test_once_differentiable_is_refused_and_not_zero():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()

    model = nn.Linear(3, 1)
    loss = Once.apply(model(torch.ones(1, 3))).sum()
    first = torch.autograd.grad(loss, model.weight, create_graph=True)
    assert not first[0].requires_grad  # so that its derivative would pass for zero
    with pytest.raises(DebuggerError, match="once_differentiable"):
        compute_hvp(model, loss, [torch.ones_like(p) for p in model.parameters()])


def test_hvp_says_what_is_wrong_with_the_loss():
    model = nn.Linear(3, 1)
    v = [torch.ones_like(p) for p in model.parameters()]
    with pytest.raises(DebuggerError, match="2 elements, not one"):
        compute_hvp(model, model(torch.ones(2, 3)), v)
    with pytest.raises(DebuggerError, match="not connected"):
        compute_hvp(model, torch.ones(()), v)
    loss = model(torch.ones(2, 3)).square().sum()
    loss.backward()
    with pytest.raises(DebuggerError, match="has been freed"):
        compute_hvp(model, loss, v)


# Scenarios: second order


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_transformer_encoder_layer_and_fused_attention(mode):
    model = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
    model.train(mode == "train")
    x = torch.randn(2, 3, 4)
    v = [torch.ones_like(p) for p in model.parameters()]
    if mode == "eval":  # with dropout torch takes the plain path by itself
        with pytest.raises(DebuggerError, match=r"sdpa_kernel\(SDPBackend.MATH\)"):
            compute_hvp(model, model(x).square().sum(), v)
    report = verify_curvature(model, x, None, lambda o: o.square().mean(), tolerance=1e-4)
    assert report.check.verdict == "agrees" and report.check.error < 1e-6
    if mode == "eval":
        # The oracle runs under the same context: torch.func, not torch.autograd.grad twice.
        with in_float64(model), twice_differentiable(model):
            exact = torch.linalg.eigvalsh(full_hessian(model, lambda f: f(x).square().mean()))
        top = exact[exact.abs().argmax()].item()
        assert report.eigenvalue == pytest.approx(top, rel=1e-3)


def test_batch_norm_in_train_mode_and_its_buffers():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).train()
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    before = {n: b.clone() for n, b in model.named_buffers()}
    report = verify_curvature(model, x, y, mse, tolerance=1e-5)
    assert all(same_bits(b, before[n]) for n, b in model.named_buffers()) and model[1].training
    stateless = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Tanh(), nn.Linear(4, 1))
    stateless.load_state_dict(model.state_dict(), strict=False)
    exact = torch.linalg.eigvalsh(full_hessian(stateless, lambda f: mse(f(x), y.double())))
    assert report.eigenvalue == pytest.approx(exact[exact.abs().argmax()].item(), rel=1e-3)
    assert report.check.verdict == "agrees"


def test_dropout_is_drawn_once_for_all_products():
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 1))
    x = torch.randn(4, 3)
    random = torch.get_rng_state()
    report = verify_curvature(model, x, None, lambda o: o.square().mean(), tolerance=1e-5)
    assert torch.equal(random, torch.get_rng_state())
    assert report.converged and report.check.verdict == "agrees"
    # The masks are those of the caller's random state; with them fixed by hand the number is the same.
    mask = nn.functional.dropout(torch.ones(4, 16), 0.5)
    fixed = full_hessian(model, lambda f: _with_mask(model, f, x, mask))
    exact = torch.linalg.eigvalsh(fixed)
    assert report.eigenvalue == pytest.approx(exact[exact.abs().argmax()].item(), rel=1e-3)


def _with_mask(model: nn.Sequential, f: Callable[..., Tensor], x: Tensor, mask: Tensor) -> Tensor:
    class Fixed(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            return h * mask

    dropout, model[2] = model[2], Fixed()
    try:
        return f(x).square().mean()
    finally:
        model[2] = dropout


def test_a_loss_that_draws_its_own_noise_is_not_called_right():
    noise = iter(torch.randn(100, 4, 1).unbind())
    model = nn.Linear(3, 1)
    report = verify_curvature(model, torch.randn(4, 3), None, lambda o: (o * (1 + next(noise))).square().sum())
    assert report.check.verdict == "not done" and "not deterministic" in report.check.reason


def test_a_loss_linear_in_the_parameters_has_no_curvature_and_converges():
    report = verify_curvature(nn.Linear(3, 2), torch.randn(5, 3), None, torch.sum)
    assert (report.eigenvalue, report.trace, report.trace_error, report.along) == (0, 0, 0, 0)
    assert report.converged and report.residual == 0 and report.products == 1
    assert report.check.verdict == "agrees" and not report.notes


def test_relu_net_with_a_sum_loss_has_a_symmetric_spectrum_that_is_not_zero():
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), torch.randn(8, 3)
    hessian = full_hessian(model, lambda f: f(x).sum())
    cut = [0, 12, 16, 20, 21]
    assert not any(hessian[a:b, a:b].any() for a, b in itertools.pairwise(cut))  # diagonal blocks
    exact = torch.linalg.eigvalsh(hessian)
    torch.testing.assert_close(exact, -exact.flip(0))
    top = {
        w: verify_curvature(model, x, None, torch.sum, which=w, tolerance=1e-5)
        for w in ("largest", "smallest", "magnitude")
    }
    assert top["largest"].eigenvalue == pytest.approx(exact[-1].item(), rel=1e-4) and exact[-1] > 1
    assert top["smallest"].eigenvalue == pytest.approx(exact[0].item(), rel=1e-4)
    assert abs(top["magnitude"].eigenvalue) == pytest.approx(exact[-1].item(), rel=1e-4)
    many = verify_curvature(model, x, None, torch.sum, samples=400, verify=False)
    assert abs(many.trace) < 3 * many.trace_error
    # The gradient of the last bias is a constant: it has no grad_fn.
    loss = model(x).sum()
    found = matrix_of(lambda v: compute_hvp(model, loss, v), list(model.parameters()))
    torch.testing.assert_close(found.double(), hessian, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("which", "expected"), [("largest", 3), ("smallest", -5), ("magnitude", -5)])
def test_a_negative_dominant_eigenvalue_keeps_its_sign(which, expected):
    report = verify_curvature(quadratic(3, 1, -5, 0.5), one, which=which, tolerance=1e-5)
    assert report.eigenvalue == pytest.approx(expected, rel=1e-5) and report.converged
    assert report.trace == pytest.approx(-0.5) and report.trace_error < 1e-6  # diagonal: no variance
    assert -5 <= report.along <= 3 and f"{which}, residual" in str(report)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6])
def test_all_of_it_is_free_of_the_scale_of_the_loss(scale):
    report = verify_curvature(quadratic(3, 1, -5, 0.5, *[0.1] * 50), torch.tensor(scale), tolerance=1e-4)
    plain = verify_curvature(quadratic(3, 1, -5, 0.5, *[0.1] * 50), one, tolerance=1e-4)
    assert report.eigenvalue == pytest.approx(scale * plain.eigenvalue, rel=1e-4) and report.converged
    assert report.products == plain.products
    assert report.along == pytest.approx(scale * plain.along, rel=1e-4)
    assert report.trace == pytest.approx(scale * plain.trace, rel=1e-4)
    assert report.check.verdict == "agrees"


@pytest.mark.parametrize(
    "norm",
    [lambda: nn.LayerNorm(4), lambda: nn.BatchNorm1d(4, track_running_stats=False), lambda: nn.InstanceNorm1d(2)],
)
def test_product_difference_and_hessian_agree_on_fused_norms(norm):
    shape = nn.Unflatten(1, (2, 2)) if isinstance(norm(), nn.InstanceNorm1d) else nn.Identity()
    model = nn.Sequential(nn.Linear(3, 4), shape, norm(), nn.Flatten(), nn.Tanh(), nn.Linear(4, 1)).double()
    x, y = torch.randn(6, 3).double(), torch.randn(6, 1).double()
    params = list(model.parameters())
    hessian = full_hessian(model, lambda f: mse(f(x), y))
    v = torch.randn(len(hessian)).double()
    product = flatten(compute_hvp(model, mse(model(x), y), unflatten(v, params)))
    torch.testing.assert_close(product, hessian @ v, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(v @ product, v @ hessian @ v, rtol=1e-6, atol=1e-8)

    def gradient(h: float) -> Tensor:
        parts = unflatten(flatten(params) + h * v, params)
        moved = dict(zip(dict(model.named_parameters()), parts, strict=True))
        loss = mse(functional_call(model, moved, (x,)), y)
        return flatten(torch.autograd.grad(loss, params, materialize_grads=True))

    difference = (gradient(1e-6) - gradient(-1e-6)) / 2e-6
    torch.testing.assert_close(product, difference, rtol=1e-5, atol=1e-8)
    assert verify_curvature(model, x, y, mse).check.error < 1e-5


@pytest.mark.parametrize("wrap", [nn.utils.parametrizations.weight_norm, nn.utils.weight_norm])
def test_fused_weight_norm_is_flagged(wrap):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = wrap(nn.Linear(3, 4))
    model = nn.Sequential(first, nn.Tanh(), nn.Linear(4, 1))
    report = verify_curvature(model, torch.randn(5, 3), torch.randn(5, 1), mse)
    assert report.check.verdict == "disagrees" and report.check.error > 0.05
    assert report.check.parameter.startswith("0.") and "Do not trust" in str(report)


def test_gradient_penalty_of_a_layer_norm_critic_is_flagged_and_of_a_group_norm_critic_right():
    x = torch.randn(4, 6)
    wrong = Penalty(nn.Linear(6, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 1))
    report = verify_curvature(wrong, x)
    assert report.check.verdict == "disagrees" and report.check.error > 0.01 and "layer_norm" in str(report)
    right = Penalty(nn.Linear(6, 5), nn.GroupNorm(1, 5), nn.Tanh(), nn.Linear(5, 1))
    assert verify_curvature(right, x).check.verdict == "agrees"


def test_the_self_check_sees_a_criterion_that_calls_the_model_itself():
    critic = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 1))

    def penalised(output: Tensor, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        return output.mean() + 10 * (g.norm(2, dim=1) - 1).square().mean()

    x = torch.randn(4, 6)
    report = verify_curvature(critic, x, x, penalised)
    assert report.check.verdict == "disagrees" and {p.dtype for p in critic.parameters()} == {torch.float32}


def test_gradient_penalty_at_zero_gradient_with_image_shaped_samples():
    def critic() -> list[nn.Module]:
        layers = [nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 1)]
        nn.init.zeros_(layers[3].weight)  # so that ∂D/∂x = 0
        return layers

    images = torch.randn(3, 1, 4, 4)
    plain = verify_curvature(Penalty(*critic()), images)
    assert math.isfinite(plain.loss) and plain.gradient_norm == 0  # norm has gradient 0 there …
    assert math.isnan(plain.eigenvalue) and not plain.converged  # … and no second derivative
    assert "the product Hv is not finite" in str(plain) and plain.check.verdict == "not done"
    safe = Penalty(*critic(), eps=1e-2)
    report = verify_curvature(safe, images, tolerance=1e-5)
    assert report.converged and report.check.verdict == "agrees"
    params = list(safe.double().parameters())
    loss = safe(images.double())
    found = matrix_of(lambda v: compute_hvp(safe, loss, v), params)
    exact = torch.linalg.eigvalsh(found)
    assert report.eigenvalue == pytest.approx(exact[exact.abs().argmax()].item(), rel=1e-3)


# What the report says, what it leaves alone, what it refuses


def test_trace_lies_within_its_error_and_the_spectrum_is_a_distribution():
    model, x, y = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(9, 3), torch.randn(9, 1)
    exact = full_hessian(model, lambda f: mse(f(x), y.double())).trace().item()
    report = verify_curvature(model, x, y, mse, samples=200)
    assert abs(report.trace - exact) < 3 * report.trace_error and report.trace_error < abs(exact)
    assert sum(report.weights) == pytest.approx(1) and list(report.spectrum) == sorted(report.spectrum)
    along = sum(r * w for r, w in zip(report.spectrum, report.weights, strict=True))
    assert along == pytest.approx(report.along, rel=1e-4)
    assert json.loads(json.dumps(report.to_dict()))["check"]["verdict"] == "agrees"
    assert "along v" in str(report) and "convex" not in str(report)


def test_a_seed_gives_the_same_report_and_another_seed_another_direction():
    model, x = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(9, 3)
    first, again, other = (verify_curvature(model, x, None, lambda o: o.square().sum(), seed=s) for s in (0, 0, 1))
    assert first == again and first.along != other.along


def test_the_residual_is_what_it_says():
    a = torch.randn(30, 30, dtype=torch.float64)
    a = a + a.T
    exact = torch.linalg.eigvalsh(a)
    for which in ("largest", "smallest", "magnitude"):
        for budget in (3, 8, 30):
            found = lanczos(lambda v: a @ v, torch.randn(30).double(), which=which, tolerance=1e-8, max_products=budget)
            assert (exact - found.value).abs().min() <= found.residual + 1e-9
            assert found.converged == (found.relative <= 1e-8) or which == "magnitude"
        assert found.converged and found.products <= 30
    assert found.value == pytest.approx(exact[exact.abs().argmax()].item())


def test_lanczos_keeps_no_ghosts_of_a_converged_eigenvalue():
    diagonal = torch.cat([torch.tensor([100.0]), torch.linspace(-1, 1, 60)])
    found = lanczos(lambda v: diagonal * v, torch.randn(61), tolerance=0, max_products=40)
    assert sum(r > 50 for r in found.ritz) == 1  # without orthogonalisation there are several


@pytest.mark.parametrize("columns", [4, 7, 16])
@pytest.mark.parametrize("which", ["largest", "smallest", "magnitude"])
def test_a_bounded_basis_is_restarted_and_finds_the_same(which, columns):
    diagonal = torch.cat([torch.tensor([-10.0, 9.0, 8.0, 7.0]), torch.randn(96)]).double()
    turn = torch.linalg.qr(torch.randn(100, 100, dtype=torch.float64))[0]
    a = turn @ diagonal.diag() @ turn.T
    start = torch.randn(100).double()
    whole = lanczos(lambda v: a @ v, start, which=which, tolerance=1e-4)
    found = lanczos(lambda v: a @ v, start, which=which, tolerance=1e-4, columns=columns)
    assert found.converged and found.value == pytest.approx(whole.value, rel=1e-6)
    assert found.along == whole.along and len(found.ritz) <= columns and sum(found.weights) <= 1 + 1e-9
    assert (torch.linalg.eigvalsh(a) - found.value).abs().min() <= found.residual + 1e-9
    assert whole.restarts == 0 and found.restarts == pytest.approx((found.products - columns) / (columns / 2), abs=2)


def test_a_model_that_does_not_fit_into_memory_is_measured_with_a_note():
    model, x = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(9, 3)
    whole, cut = (
        verify_curvature(model, x, None, lambda o: o.square().sum(), tolerance=1e-4, memory=m) for m in (1 << 20, 1)
    )
    assert cut.eigenvalue == pytest.approx(whole.eigenvalue, rel=1e-3) and cut.converged and len(cut.spectrum) <= 4
    assert not whole.notes and "does not fit into memory=" in str(cut)


def test_budgets_are_checked_and_a_cut_run_says_so():
    model, x = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(9, 3)
    report = verify_curvature(
        model, x, None, lambda o: o.square().sum(), max_products=2, samples=0, verify=False, tolerance=1e-6
    )
    assert not report.converged and "not settled after 2 products" in str(report) and math.isnan(report.trace)
    with pytest.raises(ValueError, match="max_products is 0"):
        lanczos(torch.neg, torch.ones(2), max_products=0)
    with pytest.raises(ValueError, match="columns is 3"):
        lanczos(torch.neg, torch.ones(9), columns=3)
    with pytest.raises(ValueError, match="which is 'top'"):
        lanczos(torch.neg, torch.ones(2), which="top")
    with pytest.raises(ValueError, match="samples is 1"):
        hutchinson(torch.neg, torch.ones(2), samples=1)


def test_an_lstm_and_a_model_that_cannot_run_in_float64():
    model = nn.LSTM(3, 2)
    x = torch.randn(4, 2, 3)
    report = verify_curvature(model, x, None, lambda o: o[0].square().sum())
    assert report.check.verdict == "agrees" and model._flat_weights[0] is model.weight_ih_l0

    made_before = torch.eye(3)
    report = verify_curvature(nn.Linear(3, 1), torch.randn(2, 3), None, lambda o: (o.mT @ made_before[:2]).sum())
    assert report.check.verdict == "not done" and "does not run in float64" in str(report) and report.converged


def test_what_a_model_casts_to_float32_is_checked_in_float64():
    class Norm(nn.Linear):  # as many language models do it
        def forward(self, x: Tensor) -> Tensor:
            wide = super().forward(x).to(torch.float32)
            scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
            return torch.softmax((wide * scale).float(), -1, dtype=torch.float32).type_as(x)

    model, x = Norm(3, 4).bfloat16(), torch.randn(5, 3).bfloat16()
    report = verify_curvature(model, x, None, lambda o: o.square().mean())
    assert report.check.verdict == "agrees" and report.check.error < 1e-6
    with in_float64(model):
        assert {t.dtype for t in (model(widen(x)), x.half(), torch.zeros(2, dtype=torch.float16))} == {torch.float64}
        assert torch.zeros(2, dtype=torch.complex64).dtype == torch.complex128
    assert x.half().dtype == torch.float16


def test_lazy_parameters_get_their_shapes_and_complex_ones_their_place():
    model, x, y, criterion = CASES["odd"]()
    report = verify_curvature(model, x, y, criterion)
    assert report.check.verdict == "agrees" and report.parameters == 69  # without what forward never reaches
    assert nn.parameter.is_lazy(model.lazy.weight)


def test_curvature_through_checkpoints_is_that_without_and_reentrant_ones_are_refused():
    on, off = (verify_curvature(*checkpointed(on)) for on in (True, False))
    assert on == off and on.check.verdict == "agrees"

    class Reentrant(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(super().forward, x, use_reentrant=True)

    model = nn.Sequential(Reentrant(3, 3), nn.Tanh(), nn.Linear(3, 1))
    with pytest.raises(DebuggerError, match="use_reentrant=False"):  # the Hessian of its parameters would be 0
        verify_curvature(model, torch.randn(2, 3, requires_grad=True), None, torch.sum)


def test_nothing_is_changed_also_when_it_raises():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    model[3].bias.grad = torch.ones(1)
    x = torch.randn(5, 3)
    before = [t.clone() for t in model.state_dict().values()]
    objects = list(model.parameters())
    calls = [0]

    def fails_late(output: Tensor) -> Tensor:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        return output.square().mean()

    with pytest.raises(KeyboardInterrupt):
        verify_curvature(model, x, None, fails_late)
    verify_curvature(model, x, None, lambda o: o.square().mean())
    assert all(same_bits(a, b) for a, b in zip(before, model.state_dict().values(), strict=True))
    assert all(a is b for a, b in zip(objects, model.parameters(), strict=True))
    assert model[3].bias.grad.tolist() == [1] and model[0].weight.grad is None
    assert torch.get_default_dtype() == torch.float32


def test_frozen_models_and_nan_losses_are_one_clear_sentence():
    with pytest.raises(DebuggerError, match=r"frozen"):
        verify_curvature(nn.Linear(2, 1).requires_grad_(False), torch.ones(1, 2), None, torch.sum)
    report = verify_curvature(nn.Linear(2, 1), torch.ones(1, 2), None, lambda o: (o * float("nan")).square().sum())
    assert "The loss is not finite: see find_anomalies" in str(report) and not report.converged
