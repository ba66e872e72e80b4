# SPDX-License-Identifier: 0BSD
"""Hessian-vector products by double backward, on a graph that is kept.

    loss L(θ),  gradient g(θ) = dL/dθ,  product Hv = d(g·v)/dθ

The graph of g is built once; each product is one more backward through
it. So all products see the same dropout masks and the same batch
statistics. Exact to rounding where every operation has a right second
derivative: `self_check` finds those that have not.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parameter import is_lazy

from .naming import named_parameters
from .outputs import DebuggerError, check_trainable
from .walk import nodes_behind


@contextmanager
def twice_differentiable(model: nn.Module) -> Iterator[None]:
    """Let operations in this context be differentiated twice.

    Attention runs as plain mathematics (its fused kernels have no second
    derivative), cuDNN is off if the model has an RNN, embeddings give
    dense gradients. All is as it was afterwards.
    """
    modules = list(model.modules())
    sparse = [m for m in modules if getattr(m, "sparse", False) is True]
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        if any(isinstance(m, nn.RNNBase) for m in modules):
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        try:
            for module in sparse:
                vars(module)["sparse"] = False
            yield
        finally:
            for module in sparse:
                vars(module)["sparse"] = True


class GradientGraph:
    """The gradient of a loss, with its graph, for many products.

    loss: one real element whose graph is still there.
    parameters: what to differentiate by, in the order of v.

    Holds the activations of the forward and of the backward until it is
    dropped. Writes no `.grad`.
    gradients: one for each parameter, detached; zero where unused.
    Raises DebuggerError if an operation cannot be differentiated twice.
    """

    def __init__(self, loss: Tensor, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        if not loss.requires_grad:
            raise DebuggerError("The loss is not connected to the parameters.")
        refuse_reentrant([loss])
        with torch.enable_grad(), _explained():
            found = torch.autograd.grad(
                loss, self.parameters, create_graph=True, allow_unused=True
            )
        refuse_once_differentiable([loss, *found])
        # A gradient without a graph does not depend on the parameters:
        # its row of the Hessian is zero.
        self._rows = [
            k for k, g in enumerate(found) if g is not None and g.requires_grad
        ]
        self._outputs = [found[k] for k in self._rows]
        self.gradients = [
            torch.zeros_like(p) if g is None else g.detach().to_dense()
            for g, p in zip(found, self.parameters, strict=True)
        ]

    def product(self, v: Sequence[Tensor]) -> list[Tensor]:
        """Return Hv, shaped like the parameters.

        v: one tensor for each parameter, in its shape and dtype.
        """
        if not self._outputs:
            return [torch.zeros_like(p) for p in self.parameters]
        with _explained():
            found = torch.autograd.grad(
                self._outputs,
                self.parameters,
                [v[k] for k in self._rows],
                retain_graph=True,
                allow_unused=True,
            )
        return [
            torch.zeros_like(p) if h is None else h.to_dense()
            for h, p in zip(found, self.parameters, strict=True)
        ]

    def flat_product(self, v: Tensor) -> Tensor:
        """Return Hv for flat real vectors: see `flatten`."""
        return flatten(self.product(unflatten(v, self.parameters)), v)


def refuse_once_differentiable(tensors: Sequence[Tensor | None]) -> None:
    """Raise DebuggerError if a backward behind these cannot be repeated.

    `autograd.grad` does not tell: such a backward returns constants, or
    stands beside the way to the inputs, so the second derivative is zero.
    """
    for node in nodes_behind(tensors):
        backward = getattr(_function_of(node), "backward", None)
        once = getattr(backward, "__code__", None) is _ONCE
        if once or type(node).__name__ == "Error":
            raise DebuggerError(
                "A custom Function is marked once_differentiable: it has "
                "no second derivative."
            )


def refuse_reentrant(tensors: Sequence[Tensor | None]) -> None:
    """Raise DebuggerError if a reentrant checkpoint is behind these.

    `autograd.grad` does not see the parameters in it: they get None.
    """
    for node in nodes_behind(tensors):
        if type(node).__name__ == "CheckpointFunctionBackward":
            raise DebuggerError(
                "Reentrant checkpoints only work with backward(): checkpoint "
                "with use_reentrant=False, or switch checkpoints off."
            )


_ONCE = once_differentiable(lambda ctx: None).__code__


def _function_of(node: Any) -> Any:
    """The custom Function of a node, if it is of one."""
    return getattr(type(node), "_forward_cls", None)


def flatten(tensors: Sequence[Tensor], like: Tensor | None = None) -> Tensor:
    """Return all entries as one real vector (n,), complex ones as pairs.

    like: gives dtype and device; otherwise the first tensor's device and
        the widest dtype, at least float32.
    """
    reals = [torch.view_as_real(t) if t.is_complex() else t for t in tensors]
    if like is None:
        dtype = torch.float32
        for t in reals:
            dtype = torch.promote_types(dtype, t.dtype)
        device = reals[0].device
    else:
        dtype, device = like.dtype, like.device
    return torch.cat([t.reshape(-1).to(device, dtype) for t in reals])


def unflatten(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return the parts of a flat real vector, each in its own shape."""
    parts, start = [], 0
    for t in like:
        size = t.numel() * (2 if t.is_complex() else 1)
        part = flat[start : start + size]
        start += size
        if t.is_complex():
            pairs = part.reshape(*t.shape, 2).clone()  # for its alignment
            part = torch.view_as_complex(pairs)
        parts.append(part.reshape(t.shape).to(t.device, t.dtype))
    return parts


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters that require grad, tied ones once, by name.

    Without lazy ones that no forward has reached.
    Raises DebuggerError if there is none.
    """
    check_trainable(model)
    return {
        name: tensor
        for name, _, tensor in named_parameters(model)
        if tensor.requires_grad and not is_lazy(tensor)
    }


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, NotImplementedError) as error:
        text = str(error).splitlines()[0]
        raise DebuggerError(f"{_advice(text)} torch says: {text}") from error


def _advice(text: str) -> str:
    if "scaled_dot_product" in text:
        return (
            "Fused attention has no second derivative: run the forward "
            "under torch.nn.attention.sdpa_kernel(SDPBackend.MATH)."
        )
    if "aot_autograd" in text:
        return (
            "Compiled models have no second derivative: pass the module "
            "as it was before torch.compile."
        )
    if "not implemented" in text:
        return "An operation has no second derivative."
    if "second time" in text:
        return "The graph of the loss has been freed: run the forward again."
    return "The loss cannot be differentiated twice."
