"""The snippets of the chapter on vector-Jacobian products, on odd inputs."""

import collections
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from snippets.chapters.vjp import dot_test, jacobian, per_sample_grads, vjp

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]
few = settings(max_examples=20, deadline=None, derandomize=True)


@pytest.fixture(autouse=True)
def quiet_and_seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        # torch's first use of forward mode loads TorchScript formulas.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield


class Cube(torch.autograd.Function):
    """x³ without setup_context and without jvp, as much old code is."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class WrongCube(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * g


def mixed(x: Tensor) -> Tensor:
    """N = x.numel() to M = N + 1; every output uses several inputs."""
    flat = x.flatten()
    return torch.cat([flat * flat.roll(1) + flat.sin(), (flat**2).sum().reshape(1)])


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def differences(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The Jacobian by central differences, in float64: (M, N)."""
    h = 1e-6
    steps = h * torch.eye(x.numel(), dtype=x.dtype)
    columns = [(f(x + s.view_as(x)) - f(x - s.view_as(x))) / (2 * h) for s in steps]
    return torch.stack([c.flatten() for c in columns], dim=1)


# vjp


@few
@given(n=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_vjp_agrees_with_torch_func_and_with_differences(n, seed):
    torch.manual_seed(seed)
    x, v = double(n), double(n + 1)
    row = vjp(mixed, x, v)
    torch.testing.assert_close(row, torch.func.vjp(mixed, x)[1](v)[0])
    torch.testing.assert_close(row, v @ differences(mixed, x), rtol=1e-6, atol=1e-6)


@few
@given(n=st.integers(1, 6), a=st.floats(-3, 3), b=st.floats(-3, 3), seed=st.integers(0, 2**31))
def test_vjp_is_linear_in_v(n, a, b, seed):
    torch.manual_seed(seed)
    x, v, w = double(n), double(n + 1), double(n + 1)
    torch.testing.assert_close(vjp(mixed, x, a * v + b * w), a * vjp(mixed, x, v) + b * vjp(mixed, x, w))


@few
@given(n=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_unit_vectors_give_the_rows_of_the_jacobian(n, seed):
    torch.manual_seed(seed)
    x = double(n)
    rows = [vjp(mixed, x, v) for v in torch.eye(n + 1, dtype=x.dtype)]
    torch.testing.assert_close(torch.stack(rows), torch.func.jacfwd(mixed)(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 2)])
def test_vjp_keeps_shape_and_dtype(dtype, shape):
    x, v = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    row = vjp(lambda t: t * t, x, v)
    assert (row.shape, row.dtype, row.requires_grad) == (x.shape, dtype, False)
    torch.testing.assert_close(row, v * (2 * x).conj().resolve_conj())


def test_vjp_takes_v_of_another_real_dtype_and_non_contiguous_tensors():
    x, v = double(3, 4).t(), torch.randn(3, 4).t()
    torch.testing.assert_close(vjp(torch.sin, x, v), v.double() * x.cos())
    z = torch.randn(3, dtype=torch.complex64)
    torch.testing.assert_close(vjp(lambda t: t * t, z, torch.ones(3)), (2 * z).conj().resolve_conj())
    wide = double(2, 1).expand(2, 3)
    torch.testing.assert_close(vjp(torch.sin, wide, torch.ones(2, 3).double()), wide.cos())


def test_vjp_without_v_for_one_real_element_of_any_shape():
    x = double(3)
    torch.testing.assert_close(vjp(lambda t: (t**2).sum(), x), 2 * x)
    torch.testing.assert_close(vjp(lambda t: (t**2).sum().reshape(1, 1), x), 2 * x)


def test_vjp_takes_nested_outputs_in_any_key_order():
    pair = collections.namedtuple("pair", "first second")
    x = double(2)
    v = double(2)

    def f(t):
        return {"a": t**2, "b": [t.sum(), pair(t.sin(), 3 * t)], "c": None}

    row = vjp(f, x, {"c": None, "b": (torch.ones(()), [v, 2 * v]), "a": v})
    torch.testing.assert_close(row, 2 * x * v + 1 + x.cos() * v + 6 * v)


def test_vjp_of_unused_integer_and_repeated_inputs():
    x, y, index = double(3), double(2), torch.tensor([0, 0, 1])
    first, unused, none, again = vjp(lambda a, b, i, c: a[i] * c, (x, y, index, x), torch.ones(3).double())
    torch.testing.assert_close(first, torch.stack([x[0] + x[1], x[2], x.new_zeros(())]))
    assert torch.equal(unused, torch.zeros(2).double()) and none is None
    torch.testing.assert_close(again, x[index])
    assert torch.equal(vjp(lambda a: a.argmax().reshape(()), x, torch.ones(())), torch.zeros(3).double())
    assert torch.equal(vjp(lambda a: torch.ones(2), x, torch.ones(2)), torch.zeros(3).double())
    assert vjp(lambda a: a * 2, (index,), torch.ones(3)) == (None,)


def test_vjp_counts_an_input_held_elsewhere_as_a_constant():
    x = double(3).requires_grad_()
    for create_graph in (False, True):
        row = vjp(lambda t: (t * x).sum(), x, create_graph=create_graph)
        torch.testing.assert_close(row.detach(), x.detach())


def test_vjp_returns_memory_of_its_own():
    x, v = double(3), double(3)
    a, b = vjp(lambda s, t: s + t, (x, x), v)
    a.fill_(7)
    assert not torch.equal(b, a) and not torch.equal(v, a)
    vjp(torch.sum, x).add_(torch.arange(3))  # an expanded gradient could not be written


def test_vjp_touches_no_grad_field_and_no_mode():
    layer = nn.Linear(3, 2).double()
    x = double(1, 3).requires_grad_()
    layer.weight.grad = torch.full_like(layer.weight, 5)
    kept = layer.weight.grad
    with torch.no_grad():
        row = vjp(layer, x, torch.ones(1, 2).double())
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        inside = vjp(layer, x * 1, torch.ones(1, 2).double())
        assert torch.is_inference_mode_enabled()
    torch.testing.assert_close(row, layer.weight.detach().sum(0, keepdim=True))
    torch.testing.assert_close(inside, row)
    assert x.grad is None and layer.weight.grad is kept and bool((kept == 5).all())


def test_vjp_can_be_differentiated_again_and_under_torch_func():
    x = double(3).requires_grad_()
    row = vjp(lambda t: (t**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(row.sum(), x)
    torch.testing.assert_close(second, 6 * x.detach())
    hessian = torch.func.jacrev(lambda t: vjp(lambda s: (s**3).sum(), t, create_graph=True))(x.detach())
    torch.testing.assert_close(hessian, torch.diag(6 * x.detach()))
    assert torch.autograd.gradcheck(lambda t, v: vjp(mixed, t, v, create_graph=True), (x, double(4).requires_grad_()))


def test_vjp_goes_through_old_functions_and_sparse_gradients():
    x, v = double(3), double(3)
    torch.testing.assert_close(vjp(Cube.apply, x, v), 3 * x**2 * v)
    weight = torch.randn(4, 2)
    row = vjp(lambda w: nn.functional.embedding(torch.tensor([1, 1]), w, sparse=True), weight, torch.ones(2, 2))
    assert torch.equal(row, torch.tensor([[0.0, 0], [2, 2], [0, 0], [0, 0]]))


@dataclasses.dataclass
class Pair:
    first: Tensor
    second: Any


@pytest.mark.parametrize(
    ("f", "v", "message"),
    [
        (torch.sin, None, r"v must be like the output, a tensor of shape \(3,\)"),
        (torch.sin, torch.ones(2), r"v has shape \(2,\).*the output is a tensor of shape \(3,\)"),
        (torch.sin, torch.ones(()), r"v has shape \(\)"),
        (torch.sin, torch.ones(3, dtype=torch.complex64), "complex64"),
        (torch.sin, torch.ones(3, device="meta"), "on meta; the output is"),
        (lambda x: x.sum() * 1j, None, "complex"),
        (lambda x: (x, x), torch.ones(3), r"v must have the output's entries, \[0, 1\]"),
        (lambda x: (x, x), (torch.ones(3),), r"entries, \[0, 1\]"),
        (lambda x: {"a": x}, {"b": torch.ones(3)}, r"entries, \['a'\]"),
        (lambda x: {"a": Pair(x, x)}, {"a": torch.ones(3)}, r"output\['a'\] is a Pair"),
        (lambda x: Pair(x.sum(), 1), None, "output is a Pair"),
        (lambda x: {"a": [x, x]}, {"a": [torch.ones(3), None]}, r"v\['a'\]\[1\] must be"),
    ],
)
def test_vjp_says_what_v_must_be(f, v, message):
    x = torch.ones(3, requires_grad=True)
    with pytest.raises((TypeError, ValueError), match=message):
        vjp(f, x, v)
    assert x.grad is None


# jacobian


@few
@given(n=st.integers(1, 6), chunk=st.integers(1, 9), seed=st.integers(0, 2**31))
def test_jacobian_agrees_with_torch_func_for_every_chunk_size(n, chunk, seed):
    torch.manual_seed(seed)
    x = double(n)
    torch.testing.assert_close(jacobian(mixed, x, chunk_size=chunk), torch.func.jacrev(mixed)(x))


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("shape", [(), (0,), (2,), (3, 2)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_jacobian_has_the_shapes_of_output_and_input(shape, dtype, chunk):
    x = torch.randn(shape, dtype=dtype)

    def f(t: Tensor) -> Tensor:
        return torch.stack([t.sum(), (t * t).sum()]).reshape(2, 1)

    found = jacobian(f, x, chunk_size=chunk)
    assert (found.shape, found.dtype) == ((2, 1, *shape), dtype)
    torch.testing.assert_close(found[0, 0], torch.ones_like(x))
    torch.testing.assert_close(found[1, 0], 2 * x)


def test_jacobian_of_empty_constant_and_transposed():
    x = double(3, 2).t()
    assert jacobian(lambda t: t[:0], x).shape == (0, 3, 2, 3)
    assert torch.equal(jacobian(lambda t: torch.ones(2), x), torch.zeros(2, 2, 3).double())
    torch.testing.assert_close(jacobian(torch.sin, x), torch.func.jacrev(torch.sin)(x))
    torch.testing.assert_close(
        jacobian(lambda t: t.t(), x).reshape(6, 6), torch.func.jacrev(lambda t: t.t())(x).reshape(6, 6)
    )


@pytest.mark.parametrize("chunk", [1, 64])
def test_jacobian_of_one_number_by_one_number(chunk):
    for f, slope in [(torch.square, 6.0), (lambda t: torch.ones(()), 0.0)]:
        found = jacobian(f, torch.tensor(3.0), chunk_size=chunk)
        torch.testing.assert_close(found, torch.tensor(slope))


def test_jacobian_leaves_modes_and_grad_and_takes_old_functions():
    x = double(3).requires_grad_()
    expected = torch.diag(3 * x.detach() ** 2)
    with torch.no_grad():
        torch.testing.assert_close(jacobian(Cube.apply, x), expected)
    with torch.inference_mode():
        torch.testing.assert_close(jacobian(Cube.apply, x * 1), expected)
    assert x.grad is None and not jacobian(Cube.apply, x).requires_grad


@pytest.mark.parametrize("chunk", [1, 2, 64])
def test_jacobian_can_be_differentiated_again(chunk):
    x = double(3).requires_grad_()
    found = jacobian(lambda t: t**3, x, chunk_size=chunk, create_graph=True)
    (second,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(second, 6 * x.detach())


def test_jacobian_refuses_complex_and_empty_chunks():
    with pytest.raises(ValueError, match="view_as_real"):
        jacobian(torch.abs, torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="view_as_real"):
        jacobian(lambda t: t * 1j, torch.ones(2))
    with pytest.raises(ValueError, match="chunk_size is 0"):
        jacobian(torch.sin, torch.ones(2), chunk_size=0)


# per_sample_grads


def loop(model: nn.Module, loss, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """The oracle: one backward for each sample."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    rows = []
    for i in range(len(x)):
        value = loss(model(x[i : i + 1]), y[i : i + 1])
        rows.append(torch.autograd.grad(value, list(named.values()), materialize_grads=True))
    return {n: torch.stack([r[k].to_dense() for r in rows]) for k, n in enumerate(named)}


class Odd(nn.Module):
    """Tied, frozen and unused parameters, a buffer, a dict output."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.first.weight
        self.frozen = nn.Linear(3, 2).requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(2))
        self.norm = nn.BatchNorm1d(3).eval()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.frozen(self.norm(self.tied(self.first(x).tanh())))}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.GRU(3, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[0][:, -1]


@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_per_sample_grads_on_an_odd_model(chunk):
    model, x, y = Odd(), torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])

    def loss(output, target):
        return nn.functional.cross_entropy(output["logits"], target)

    found = per_sample_grads(model, loss, x, y, chunk_size=chunk)
    assert list(found) == ["unused", "first.weight", "first.bias", "norm.weight", "norm.bias"]
    assert not found["unused"].any() and found["unused"].shape == (5, 2)
    for name, rows in loop(model, loss, x, y).items():
        torch.testing.assert_close(found[name], rows)
    assert all(p.grad is None for p in model.parameters())
    assert all(p.requires_grad != n.startswith("frozen") for n, p in model.named_parameters())
    # The mean over samples is what an ordinary backward gives.
    loss(model(x), y).backward()
    torch.testing.assert_close(found["first.weight"].mean(0), model.first.weight.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("chunk", [None, 1])
def test_per_sample_grads_under_no_grad_and_in_other_dtypes(dtype, chunk):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(1), nn.Linear(8, 1)).to(dtype)
    x, y = torch.randn(3, 1, 4, 4, dtype=dtype), torch.randn(3, 1, dtype=dtype)
    with torch.no_grad():
        found = per_sample_grads(model, nn.functional.mse_loss, x, y, chunk_size=chunk)
        assert not torch.is_grad_enabled()
    expected = loop(model, nn.functional.mse_loss, x, y)
    assert {n: r.dtype for n, r in found.items()} == dict.fromkeys(expected, dtype)
    for name, rows in expected.items():
        torch.testing.assert_close(found[name], rows, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_per_sample_grads_of_inference_tensors(chunk):
    with torch.inference_mode():
        model, x, y = nn.Linear(3, 2), torch.randn(4, 3), torch.randn(4, 2)
        inside = per_sample_grads(model, nn.functional.mse_loss, x, y, chunk_size=chunk)
    outside = per_sample_grads(model, nn.functional.mse_loss, x, y, chunk_size=chunk)
    rows = 2 * (model(x) - y) / 2
    for found in (inside, outside):
        torch.testing.assert_close(found["bias"], rows)
        torch.testing.assert_close(found["weight"], rows.unsqueeze(2) * x.unsqueeze(1))


def test_per_sample_grads_of_parametrised_and_transformer_layers():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    found = per_sample_grads(layer, nn.functional.mse_loss, x, y)
    for name, rows in loop(layer, nn.functional.mse_loss, x, y).items():
        torch.testing.assert_close(found[name], rows)
    block = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    x = torch.randn(3, 5, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # vmap names the kernels it loops over
        found = per_sample_grads(block, nn.functional.mse_loss, x, x)
    for name, rows in loop(block, nn.functional.mse_loss, x, x).items():
        torch.testing.assert_close(found[name], rows, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk", [None, 1])
def test_per_sample_grads_draw_one_dropout_mask_per_sample(chunk):
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 1))
    x, y = torch.ones(2, 64), torch.zeros(2, 1)
    rows = per_sample_grads(model, lambda out, _: out.sum(), x, y, chunk_size=chunk)["1.weight"]
    assert set(rows.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(rows[0], rows[1])


def test_per_sample_grads_one_by_one_where_vmap_refuses():
    model, x, y = Recurrent(), torch.randn(3, 4, 3), torch.randn(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError) as caught:
            per_sample_grads(model, nn.functional.mse_loss, x, y)
    assert "chunk_size=1" in caught.value.__notes__[0]
    found = per_sample_grads(model, nn.functional.mse_loss, x, y, chunk_size=1)
    for name, rows in loop(model, nn.functional.mse_loss, x, y).items():
        torch.testing.assert_close(found[name], rows)
    sparse = nn.Embedding(4, 2, sparse=True)
    words, target = torch.tensor([[1, 1], [0, 3]]), torch.zeros(2, 1)
    rows = per_sample_grads(sparse, lambda out, _: out.sum(), words, target, chunk_size=1)
    assert rows["weight"][:, :, 0].tolist() == [[0, 2, 0, 0], [1, 0, 0, 1]]


def test_per_sample_grads_of_no_samples():
    found = per_sample_grads(nn.Linear(3, 2), nn.functional.mse_loss, torch.ones(0, 3), torch.ones(0, 2))
    assert found["weight"].shape == (0, 2, 3)


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (nn.Linear(3, 2), torch.ones(4, 3), r"x has shape \(4, 3\) and y \(2, 2\)"),
        (nn.Linear(3, 2), torch.tensor(1.0), "along dimension 0"),
        (nn.Linear(3, 2).requires_grad_(False), torch.ones(2, 3), "No parameter"),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), torch.ones(2, 3), r"^1 is a BatchNorm1d .* call eval\(\)"),
        (nn.BatchNorm1d(2, track_running_stats=False).eval(), torch.ones(2, 2), "^The model is a BatchNorm1d"),
        (nn.InstanceNorm1d(2, affine=True, track_running_stats=True), torch.ones(2, 2), "InstanceNorm1d"),
    ],
)
def test_per_sample_grads_says_what_is_wrong(model, x, message):
    before = {n: b.clone() for n, b in model.named_buffers()}
    with pytest.raises(ValueError, match=message):
        per_sample_grads(model, nn.functional.mse_loss, x, torch.ones(2, 2))
    assert all(torch.equal(b, before[n]) for n, b in model.named_buffers())


# dot_test


@few
@given(n=st.integers(1, 20), seed=st.integers(0, 2**31))
def test_dot_test_passes_a_right_backward_and_fails_a_wrong_one(n, seed):
    torch.manual_seed(seed)
    x = double(n) + 3  # away from x = 0 and x = 1, where 3x is right
    assert dot_test(mixed, x, seed=seed % 1000).passed
    assert dot_test(Cube.apply, x, seed=seed % 1000).passed
    wrong = dot_test(WrongCube.apply, x, seed=seed % 1000)
    assert not wrong.passed and wrong.error > 1e-3


def test_dot_test_computes_both_sides():
    x = double(3)
    matrix = double(2, 3)
    found = dot_test(lambda t: matrix @ t, x, seed=4)
    draws = torch.Generator().manual_seed(4)
    u = torch.empty(3, dtype=torch.float64).normal_(generator=draws)
    v = torch.empty(2, dtype=torch.float64).normal_(generator=draws)
    assert found.forward == pytest.approx((v @ matrix @ u).item())
    assert found.reverse == pytest.approx(found.forward)
    assert found.method == "forward mode" and found.error < 1e-14


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3, 2)])
def test_dot_test_in_every_dtype(dtype, shape):
    x = torch.randn(shape, dtype=dtype)
    assert dot_test(lambda t: (t * t).sum(-1) if t.ndim else t * t, x).passed
    assert dot_test(lambda t: t.abs() ** 2, x).passed
    assert dot_test(lambda t: t.mT * t.conj().mT if t.ndim > 1 else t.conj() * t, x).passed


def test_dot_test_falls_back_where_forward_mode_is_missing():
    x = double(1, 1, 4, 8)
    found = dot_test(lambda t: nn.functional.scaled_dot_product_attention(t, t, t), x)
    assert found.passed
    found = dot_test(Cube.apply, double(3))
    assert found.passed and found.method == "central difference"


def test_dot_test_finds_a_missing_conjugate():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]  # should be conjugated

    assert not dot_test(Square.apply, torch.randn(3, dtype=torch.complex128)).passed
    assert dot_test(Square.apply, double(3)).passed


def test_dot_test_repeats_dropout_and_restores_the_random_state():
    x = double(50).requires_grad_()
    before = torch.get_rng_state()
    with torch.no_grad():
        assert dot_test(nn.Dropout(0.5), x).passed
    with torch.inference_mode():
        assert dot_test(nn.Dropout(0.5), x * 1).passed
    assert torch.equal(before, torch.get_rng_state()) and x.grad is None


def test_dot_test_of_expanded_and_inference_tensors():
    assert dot_test(torch.sin, torch.randn(3).expand(4, 3)).passed
    with torch.inference_mode():
        x = torch.randn(3)
    assert dot_test(lambda t: t.clone().mul_(2), x).passed


def test_dot_test_of_a_zero_derivative_and_of_nan():
    assert dot_test(torch.relu, -torch.ones(3)).passed
    assert not dot_test(torch.sqrt, -torch.ones(3)).passed


@pytest.mark.parametrize("f", [lambda t: t.detach() * 2, lambda t: t.argmax(), lambda t: t[:0]])
def test_dot_test_refuses_to_pass_without_comparing(f):
    with pytest.raises(ValueError, match="empty or cut off"):
        dot_test(f, torch.ones(3))
