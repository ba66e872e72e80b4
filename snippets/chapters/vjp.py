# SPDX-License-Identifier: 0BSD
"""Vector-Jacobian products: the functions that the chapter shows.

Each section stands alone: it imports what it uses.
"""
# Sections repeat their imports; forward_ad of torch has no types.
# mypy: disable-error-code="no-untyped-call"

# --8<-- [start:vjp]
# SPDX-License-Identifier: 0BSD
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


def vjp(
    f: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    v: Any = None,
    *,
    create_graph: bool = False,
) -> Any:
    """Return the row vᵀJ of f at the inputs: one gradient per input.

    Writes no `.grad`. Works under no_grad and inference_mode, and
    through custom Functions that torch.func refuses.

    f: takes the inputs. Returns a tensor, or tensors in tuples, lists
        and dicts.
    inputs: a tensor, or a sequence of them (then a tuple is returned).
        A gradient has its input's shape, dtype and device, and its own
        memory. It is zero for an unused input, None for an integer one.
    v: the cotangent, nested and shaped like the output. It may be left
        out if the output is one real element.
    create_graph: make the gradients differentiable in their turn.

    Raises TypeError without a v that is needed or for an output of
    another kind, ValueError if v does not fit the output.
    Source: https://docs.pytorch.org/docs/stable/notes/autograd.html
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    with torch.inference_mode(False), torch.enable_grad():
        xs = [_tracked(x, create_graph) for x in given]
        wanted = [x for x in xs if x.requires_grad]
        output = f(*xs)
        if v is None and isinstance(output, Tensor) and output.numel() == 1:
            v = None if output.is_complex() else torch.ones_like(output)
        pairs = [(y, w) for y, w in _pairs(output, v, "") if y.requires_grad]
        if wanted and pairs:
            rows = torch.autograd.grad(
                [y for y, _ in pairs],
                wanted,
                [w for _, w in pairs],
                create_graph=create_graph,
                materialize_grads=True,
            )
        else:
            rows = tuple(torch.zeros_like(x) for x in wanted)
        # A row may share its memory with v, or with another row.
        own = iter([row.to_dense().clone() for row in rows])
        grads = [next(own) if x.requires_grad else None for x in xs]
    return grads[0] if isinstance(inputs, Tensor) else tuple(grads)


def _tracked(x: Tensor, keep_history: bool) -> Tensor:
    # An alias: where f meets the same tensor elsewhere, it is a constant.
    if not (x.is_floating_point() or x.is_complex()):
        return x
    x = x.clone() if x.is_inference() else x
    if keep_history and x.requires_grad:
        return x.view_as(x)
    return x.detach().requires_grad_()


def _pairs(y: Any, v: Any, at: str) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(y, Tensor):
        like = f"a tensor of shape {tuple(y.shape)}, {y.dtype}, on {y.device}"
        if not isinstance(v, Tensor):
            raise TypeError(f"v{at} must be like the output, {like}.")
        loses = v.is_complex() and not y.is_complex()
        if v.shape != y.shape or v.device != y.device or loses:
            has = f"shape {tuple(v.shape)}, {v.dtype}, on {v.device}"
            raise ValueError(f"v{at} has {has}; the output is {like}.")
        yield y, v.to(y.dtype)
    elif isinstance(y, dict | list | tuple):
        keys = list(y) if isinstance(y, dict) else list(range(len(y)))
        named = list(v) if isinstance(v, dict) else None
        if isinstance(v, list | tuple):
            named = list(range(len(v)))
        if named is None or set(named) != set(keys):
            raise ValueError(f"v{at} must have the output's entries, {keys}.")
        for key in keys:
            yield from _pairs(y[key], v[key], f"{at}[{key!r}]")
    elif not isinstance(y, bool | int | float | complex | str | None):
        kind = type(y).__name__
        raise TypeError(f"The output{at} is a {kind}: return a dict instead.")


# --8<-- [end:vjp]


# --8<-- [start:jacobian]
# SPDX-License-Identifier: 0BSD
from collections.abc import Callable

import torch
from torch import Tensor


def jacobian(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    chunk_size: int = 64,
    create_graph: bool = False,
) -> Tensor:
    """Return the Jacobian of f at x, of shape (*f(x).shape, *x.shape).

    One forward, then one batched backward for each chunk of rows. For
    functions with fewer outputs than inputs; otherwise torch.func.jacfwd
    needs less work. Writes no `.grad`.

    f: real tensor to real tensor, any shapes, 0-d and empty included.
    chunk_size: rows in one backward. More is faster and takes more
        memory. With 1 nothing is batched: for a backward that vmap
        refuses.
    create_graph: make the Jacobian differentiable in its turn.

    Raises ValueError for complex tensors and for a chunk_size below 1.
    Source: torch.autograd.grad, is_grads_batched
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}: pass 1 or more.")
    with torch.inference_mode(False), torch.enable_grad():
        x = x.clone() if x.is_inference() else x
        keep = create_graph and x.requires_grad
        x = x.view_as(x) if keep else x.detach().requires_grad_()
        y = f(x)
        if x.is_complex() or y.is_complex():
            raise ValueError("Complex tensors: go through view_as_real.")
        if not y.requires_grad or y.numel() == 0:
            return y.new_zeros(y.shape + x.shape, dtype=x.dtype)
        blocks = []
        for start in range(0, y.numel(), chunk_size):
            rows = min(chunk_size, y.numel() - start)
            # Rows start, start + 1, … of the identity, in y's shape.
            v = y.new_zeros(rows, y.numel())
            v.diagonal(offset=start).fill_(1)
            v = v.view(rows, *y.shape)
            (block,) = torch.autograd.grad(
                y,
                x,
                v if chunk_size > 1 else v[0],
                retain_graph=create_graph or start + rows < y.numel(),
                create_graph=create_graph,
                is_grads_batched=chunk_size > 1,
                materialize_grads=True,
            )
            blocks.append(block.reshape(rows, *x.shape))
        return torch.cat(blocks).reshape(y.shape + x.shape)


# --8<-- [end:jacobian]


# --8<-- [start:per-sample]
# SPDX-License-Identifier: 0BSD
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap


def per_sample_grads(
    model: nn.Module,
    loss: Callable[[Any, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    chunk_size: int | None = None,
) -> dict[str, Tensor]:
    """Return the gradient of each sample's loss.

    model: called on batches of one, so that layers which expect a batch
        work. Frozen parameters are left out, tied ones appear once,
        unused ones are zero. Dropout draws a new mask per sample.
    loss: (output, targets) of a batch of one to one real element.
    x, y: inputs and targets, samples along dimension 0: (B, ...).
    chunk_size: samples at a time. Fewer take less memory. With 1 they
        run one after the other without vmap: for an nn.GRU, a sparse
        embedding, or a custom Function without setup_context.

    Returns {name: (B, *parameter.shape)}. Writes no `.grad`.
    Raises ValueError where layers share statistics over a batch, B
    differs between x and y, or no parameter requires grad.
    Source: PyTorch tutorial, per_sample_grads
    """
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}: "
            "both need the same number of samples, along dimension 0."
        )
    _refuse_batch_statistics(model)
    named = model.named_parameters()
    params = {n: p.detach() for n, p in named if p.requires_grad}
    if not params:
        raise ValueError("No parameter of the model requires grad.")
    if len(x) == 0:
        return {n: p.new_zeros(0, *p.shape) for n, p in params.items()}

    def sample_loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        output = functional_call(model, params, (x.unsqueeze(0),))
        return loss(output, y.unsqueeze(0)).squeeze()

    if chunk_size == 1:
        rows: dict[str, list[Tensor]] = {n: [] for n in params}
        with torch.inference_mode(False), torch.enable_grad():
            x, y = _recordable(x), _recordable(y)
            leaves = {
                n: _recordable(p).requires_grad_() for n, p in params.items()
            }
            for one_x, one_y in zip(x, y, strict=True):
                found = torch.autograd.grad(
                    sample_loss(leaves, one_x, one_y),
                    list(leaves.values()),
                    materialize_grads=True,
                )
                for n, row in zip(leaves, found, strict=True):
                    rows[n].append(row.to_dense())
            return {n: torch.stack(parts) for n, parts in rows.items()}
    each = vmap(
        grad(sample_loss),
        in_dims=(None, 0, 0),
        randomness="different",
        chunk_size=chunk_size,
    )
    try:
        return {n: row.detach() for n, row in each(params, x, y).items()}
    except RuntimeError as error:
        error.add_note("If vmap refuses a layer, pass chunk_size=1.")
        raise


def _recordable(x: Tensor) -> Tensor:
    return x.clone() if x.is_inference() else x


def _refuse_batch_statistics(model: nn.Module) -> None:
    for name, layer in model.named_modules():
        kept = getattr(layer, "running_mean", None) is not None
        normalises = isinstance(layer, nn.modules.batchnorm._BatchNorm)
        if (kept and layer.training) or (normalises and not kept):
            raise ValueError(
                f"{name or 'The model'} is a {type(layer).__name__} that "
                "uses or updates statistics of the whole batch, so a sample "
                "has no gradient of its own: call eval(), or use GroupNorm."
            )


# --8<-- [end:per-sample]


# --8<-- [start:dot-test]
# SPDX-License-Identifier: 0BSD
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad


class DotTest(NamedTuple):
    """Both sides of ⟨v, J u⟩ = ⟨vᵀJ, u⟩ and their distance."""

    forward: float  # ⟨v, J u⟩
    reverse: float  # ⟨vᵀJ, u⟩
    error: float  # |difference| / sum of |terms|, in 0 … 1
    passed: bool
    method: str  # how J u was computed


def dot_test(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    seed: int = 0,
) -> DotTest:
    """Check the backward of f at x against a forward derivative.

    Draws u like x and v like f(x). J u comes from forward mode; where an
    operation has no forward rule, from a central difference (then use
    float64). Costs a few forwards and one backward, whatever the size.
    It passes by luck where an error is small beside the sums: try
    several seeds, and torch.autograd.gradcheck for every entry.

    f: tensor to tensor, real or complex, any shape. Draws inside f, as
        in dropout, are repeated in each call.
    Leaves `.grad` and the global random state as they were.
    Raises ValueError if there is nothing to compare.
    Source: Claerbout, Earth Soundings Analysis, 1992, "dot-product test"
    """
    place: dict[str, Any] = {"devices": []}
    if x.device.type not in ("cpu", "mps"):
        place = {"devices": [x.device], "device_type": x.device.type}

    def run(point: Tensor) -> Tensor:
        with torch.random.fork_rng(**place):
            return f(point)

    with torch.inference_mode(False), torch.enable_grad():
        x = x.detach().clone()  # also an expanded or an inference tensor
        leaf = x.detach().requires_grad_()
        y = run(leaf)
        if not y.requires_grad or y.numel() == 0:
            raise ValueError("f(x) is empty or cut off from x by autograd.")
        draws = torch.Generator(x.device).manual_seed(seed)
        u, v = (torch.empty_like(t).normal_(generator=draws) for t in (x, y))
        (row,) = torch.autograd.grad(y, leaf, v, materialize_grads=True)
        eps = max(torch.finfo(t.real.dtype).eps for t in (u, v))
        method, tolerance = "forward mode", eps**0.5
        try:
            with forward_ad.dual_level():
                dual = run(forward_ad.make_dual(x, u))
                column = forward_ad.unpack_dual(dual).tangent
        except NotImplementedError:
            method, tolerance = "central difference", eps ** (1 / 3)
            h = tolerance * max(1.0, x.abs().max().item())
            with torch.no_grad():
                column = (run(x + h * u) - run(x - h * u)) / (2 * h)
    column = torch.zeros_like(y) if column is None else column
    left, right = _terms(v, column), _terms(row, u)
    size = max(left.abs().sum().item(), right.abs().sum().item())
    forward, reverse = left.sum().item(), right.sum().item()
    error = 0.0 if size == 0 else abs(forward - reverse) / size
    return DotTest(forward, reverse, error, error <= tolerance, method)


def _terms(a: Tensor, b: Tensor) -> Tensor:
    # The real inner product: torch's complex gradients are made for it.
    parts = []
    for t in (a.detach().to_dense(), b.detach().to_dense()):
        if t.is_complex():
            t = torch.view_as_real(t.resolve_conj())
        parts.append(t.to(torch.promote_types(t.dtype, torch.float32)))
    return parts[0] * parts[1]


# --8<-- [end:dot-test]
