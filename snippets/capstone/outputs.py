# SPDX-License-Identifier: 0BSD
"""What a model takes and returns, its loss, and reports as plain data."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import get_gradient_edge
from torch.nn.parameter import is_lazy

from .naming import dtype_name

Criterion = Callable[..., Any] | None


class DebuggerError(ValueError):
    """The model, batch or loss cannot be used. One sentence says why."""


class Report:
    """What all reports share. They are frozen dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as lists, dicts, strings and numbers.

        Strict JSON has no NaN: a float that is not finite becomes "NaN",
        "Infinity" or "-Infinity".
        """
        return {
            field.name: plain_data(getattr(self, field.name))
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }


def plain_data(value: Any) -> Any:
    """Return a value of a report as JSON can hold it."""
    if isinstance(value, Report):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain_data(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain_data(value[key]) for key in value}
    if isinstance(value, list | tuple):
        return [plain_data(part) for part in value]
    if isinstance(value, Tensor):
        return plain_data(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "NaN"
        return "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


def flatten_tensors(value: Any, path: str = "output") -> dict[str, Tensor]:
    """Return the tensors in a value by path, {} if there are none.

    value: a tensor, or tensors in lists, tuples, named tuples, dicts and
        other mappings (the outputs of Hugging Face models), dataclasses,
        in each other. Anything else is passed over.

    >>> list(flatten_tensors({"logits": torch.ones(2), "n": 3}))
    ["output['logits']"]
    """
    found: dict[str, Tensor] = {}
    waiting, seen = [(path, value)], set()
    while waiting:
        path_here, here = waiting.pop()
        if isinstance(here, Tensor):
            found[path_here] = here
        elif id(here) not in seen:
            seen.add(id(here))  # a list may contain itself
            waiting += reversed(list(_parts(here, path_here)))
    return found


def _parts(here: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(here, Mapping):
        yield from ((f"{path}[{key!r}]", here[key]) for key in here)
    elif isinstance(here, tuple) and hasattr(here, "_fields"):
        fields = here._fields
        yield from ((f"{path}.{n}", getattr(here, n)) for n in fields)
    elif isinstance(here, list | tuple):
        yield from ((f"{path}[{k}]", part) for k, part in enumerate(here))
    elif dataclasses.is_dataclass(here) and not isinstance(here, type):
        names = [field.name for field in dataclasses.fields(here)]
        yield from ((f"{path}.{n}", getattr(here, n, None)) for n in names)


def describe(value: Any) -> str:
    """Return a short text for what a model took or returned.

    >>> describe((torch.ones(2, 3), {"n": 1}))
    'tuple (tensor (2, 3) float32)'
    """
    if isinstance(value, Tensor):
        shape = ", ".join(str(size) for size in value.shape)
        return f"tensor ({shape}) {dtype_name(value.dtype)}"
    tensors = list(flatten_tensors(value).values())
    texts = [describe(tensor) for tensor in tensors[:3]]
    texts += ["…"] if len(tensors) > 3 else []
    kind = type(value).__name__
    return f"{kind} ({'; '.join(texts)})" if texts else kind


def call_model(model: nn.Module, inputs: Any) -> Any:
    """Return what the model makes of the inputs.

    inputs: a tuple is taken as positional arguments, a mapping with keys
        that are strings as keyword arguments, anything else as the only
        argument.
    """
    if type(inputs) is tuple:
        return model(*inputs)
    if isinstance(inputs, Mapping) and all(isinstance(k, str) for k in inputs):
        return model(**inputs)
    return model(inputs)


def scalar_loss(
    model: nn.Module,
    inputs: Any,
    targets: Any = None,
    criterion: Criterion = None,
) -> Tensor:
    """Run the model and return its loss: one element, with a graph.

    inputs: see `call_model`.
    targets: handed to the criterion as they are; None: the criterion
        gets the output alone.
    criterion: called with (output, targets). None if the model returns
        its loss: a tensor, or the entry "loss" of what it returns, or
        the one tensor with one element there.

    Gradients are on in here, whatever the caller's mode.
    Raises DebuggerError, in one sentence, for a model without parameters
    that require grad; a batch on another device; inputs that the model
    or outputs that the criterion cannot take; a loss that is no tensor,
    not one real number or not connected to any parameter.
    """
    check_trainable(model)
    with torch.inference_mode(False), torch.enable_grad():
        try:
            output = call_model(model, inputs)
        except _USUAL as error:
            raise _explained(
                f"The model raised on its inputs, {describe(inputs)}",
                error,
                (model, inputs),
            ) from error
        loss = _loss_of(model, output, targets, criterion)
    return check_loss(loss, model)


def check_trainable(model: nn.Module) -> None:
    """Raise DebuggerError if no parameter of the model can be trained."""
    parameters = list(model.parameters())
    if not parameters:
        raise DebuggerError(f"{type(model).__name__} has no parameters.")
    if not any(p.requires_grad for p in parameters):
        raise DebuggerError(
            f"No parameter of {type(model).__name__} requires grad: all "
            f"{len(parameters)} are frozen."
        )
    if any(not is_lazy(p) and p.is_inference() for p in parameters):
        raise DebuggerError(
            "The model was made in inference_mode, so autograd cannot "
            "record it: make it outside."
        )


_USUAL = (  # what a batch that does not fit raises
    RuntimeError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
)


def _loss_of(
    model: nn.Module, output: Any, targets: Any, criterion: Criterion
) -> Any:
    if criterion is None:
        if targets is not None:
            raise DebuggerError(
                "There are targets but no criterion: pass a criterion, or "
                "put the targets into the inputs of a model that returns "
                "its loss."
            )
        return _own_loss(output)
    given = (output,) if targets is None else (output, targets)
    try:
        return criterion(*given)
    except _USUAL as error:
        against = "" if targets is None else f" and {describe(targets)}"
        raise _explained(
            f"The criterion cannot take {describe(output)}{against}",
            error,
            (model, output, targets),
        ) from error


def _own_loss(output: Any) -> Any:
    """The loss in the output of a model that computes it itself."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping) and "loss" in output:
        return output["loss"]
    if isinstance(getattr(output, "loss", None), Tensor):
        return output.loss
    found = flatten_tensors(output)
    single = [t for t in found.values() if t.numel() == 1 and t.requires_grad]
    if len(single) == 1:
        return single[0]
    raise DebuggerError(
        f"Without a criterion the model has to return its loss, but it "
        f"returned {describe(output)}."
    )


def _explained(
    what: str, error: Exception, where: tuple[Any, ...]
) -> Exception:
    """One sentence for an error of the model or of the criterion."""
    if isinstance(error, DebuggerError | torch.OutOfMemoryError):
        return error
    model, *rest = where
    homes = {str(t.device) for t in [*model.parameters(), *model.buffers()]}
    away = {
        str(tensor.device) for tensor in flatten_tensors(rest).values()
    } - homes
    if away:
        return DebuggerError(
            f"The model is on {', '.join(sorted(homes))} and the batch on "
            f"{', '.join(sorted(away))}: move one of them."
        )
    first = (str(error).strip().splitlines() or [""])[0]
    return DebuggerError(f"{what}: {type(error).__name__}: {first}")


def check_loss(loss: Any, model: nn.Module) -> Tensor:
    """Return the loss; DebuggerError unless backward from it can work."""
    if not isinstance(loss, Tensor):
        raise DebuggerError(
            f"The loss is {describe(loss)}, not a tensor of one element."
        )
    if loss.numel() != 1:
        raise DebuggerError(
            f"The loss is not a scalar but {describe(loss)}: reduce it, "
            f"for example with .mean()."
        )
    if loss.is_meta:
        raise DebuggerError("The loss is on the meta device: it has no value.")
    if loss.is_complex():
        raise DebuggerError("The loss is complex; backward needs a real one.")
    if not loss.requires_grad:
        raise DebuggerError(
            "The loss is not connected to any parameter: it does not "
            "require grad (detach(), item(), no_grad or an operation "
            "without a derivative cut it off)."
        )
    if _misses_all(loss, {id(p) for p in model.parameters()}):
        raise DebuggerError(
            "The loss is not connected to any parameter of the model, only "
            "to other tensors."
        )
    return loss


def _misses_all(loss: Tensor, parameters: set[int], most: int = 1000) -> bool:
    """Whether no parameter is behind the loss; False above `most` nodes.

    Few nodes are touched: a deep graph that Python has walked cannot be
    freed on a small stack (torch 2.13).
    """
    root: Any = get_gradient_edge(loss).node
    waiting, seen = [root], {id(root)}
    held = [root]  # an id() is good only as long as its node is held
    while waiting:
        node = waiting.pop()
        if id(getattr(node, "variable", None)) in parameters:
            return False
        if isinstance(node, BackwardCFunction):
            return False  # it may hold parameters out of sight: checkpoint
        for child, _ in node.next_functions:
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                held.append(child)
                waiting.append(child)
        if len(held) > most:
            return False
    return True
