# SPDX-License-Identifier: 0BSD
"""Clip gradients by their global norm as torch does, and tell what happened.

norm = (sum of |g|^p over all elements of all gradients)^(1/p)
scale = min(1, max_norm / (norm + 1e-6)), and each g becomes scale * g.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from .finite import not_finite
from .naming import dtype_name
from .outputs import DebuggerError, Report
from .parameters import (
    Parameters,
    by_memory,
    check_changeable,
    gradient_of,
    named_once,
    used_up,
)
from .pnorm import wide_norm, whole


class NonFiniteGradientError(DebuggerError, RuntimeError):
    """The norm is NaN or inf, and nothing was clipped.

    A RuntimeError too, because that is what torch raises here.
    """


@dataclass(frozen=True)
class NonFinite(Report):
    """A gradient with elements that were not finite before clipping."""

    name: str  # of the parameter
    nan: int  # how many elements are NaN
    inf: int  # how many are inf or -inf

    def __str__(self) -> str:
        counts = (self.nan, "NaN"), (self.inf, "inf")
        parts = [f"{n:,} {what}" for n, what in counts if n]
        return f"the gradient of {self.name} has {' and '.join(parts)}"


@dataclass(frozen=True)
class ClipReport(Report):
    """What clipping did.

    norm: of all gradients before clipping, what torch returns; 0 of none.
    scale: what each gradient was multiplied by: from 0 to 1, or NaN.
    clipped: whether there was a gradient and the scale was not 1.
    max_norm, norm_type: as asked for.
    parameters: how many different ones were given; gradients: how many
        of them had a gradient.
    nonfinite: the gradients with NaN or inf.
    repeated: the parameters that were given more than once.
    true_norm: the norm where that of finite gradients overflowed in
        their dtype and `norm` is inf, else None.
    notes: what a person should know, a sentence each.
    """

    norm: float
    scale: float
    clipped: bool
    max_norm: float
    norm_type: float
    parameters: int
    gradients: int
    nonfinite: tuple[NonFinite, ...] = ()
    repeated: tuple[str, ...] = ()
    true_norm: float | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f"{self.scale:.4g}"
        by = "just below 1" if by == "1" else by
        did = f"scaled by {by}" if self.clipped else "unchanged"
        lines = [
            f"Clipping: norm {self.norm:.4g}, max_norm {self.max_norm:g}, "
            f"gradients {did} ({self.gradients:,} of {self.parameters:,} "
            f"parameters have one)"
        ]
        lines += [f"  {bad}" for bad in self.nonfinite[:20]]
        more = len(self.nonfinite) - 20
        lines += [f"  … {more:,} more"] if more > 0 else []
        return "\n".join([*lines, *self.notes])


@torch.no_grad()
def clip_gradients(
    parameters: Parameters,
    max_norm: float,
    norm_type: float = 2.0,
    *,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
    wide: bool = False,
) -> ClipReport:
    """Clip `.grad` in place by the norm of all gradients together.

        print(clip_gradients(model, max_norm=1.0))

    parameters: a module, so that parameters have names in the report; or
        what torch takes; or pairs: see `parameters.named_once`.
    max_norm: 0 or more. 0 makes gradients 0; inf leaves finite ones.
    norm_type: p, also inf. Below 1 it is no norm, but torch takes it.
    error_if_nonfinite: raise if the norm is NaN or inf.
    foreach: as for torch: one kernel for many tensors; None: if it can.
    wide: add up in float32, or float64 for float64, so that the norm of
        finite gradients of any size is finite.

    The bits are those of `torch.nn.utils.clip_grad_norm_` unless wide is
    set, and except in this:
    - a parameter that is given twice, and a gradient that two parameters
      share, is scaled once; the parameter counts once in the norm;
    - a sparse gradient works: rows that occur twice add up; so does one
      with a pending conjugate;
    - an empty gradient has norm 0 for norm_type inf too.
    So by default one inf makes all finite elements 0 and itself NaN, and
    one NaN makes everything NaN: the report names where. A generator
    that was used up clips nothing: a UserWarning and a note say so.
    The report needs one transfer to the CPU, for which a GPU is waited
    for; torch's function needs none.

    Raises, before any gradient is changed:
    DebuggerError (a ValueError) for a max_norm below 0, with which torch
        turns gradients round; for NaN; for what is no tensor; and for
        gradients that `parameters.check_changeable` refuses.
    NonFiniteGradientError (a RuntimeError too): error_if_nonfinite.
    """
    max_norm, norm_type = float(max_norm), float(norm_type)
    _check_numbers(max_norm, norm_type, wide)
    exhausted = used_up(parameters)
    named, repeated = named_once(parameters)
    given = {n: (p, gradient_of(p)) for n, p in named.items()}
    gradients = {n: g for n, (_, g) in given.items() if g is not None}
    for name, gradient in gradients.items():
        check_changeable(name, gradient)
    values = [_values(g, norm_type) for g in gradients.values()]
    norm = _norm(values, norm_type, foreach, wide)
    size = norm.item()
    # The steps of torch in the dtype of the norm: the scale that it uses.
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0).item()
    nonfinite, true_norm = _causes([*gradients], values, size, norm_type)
    overflow = "" if true_norm is None else _overflow(true_norm, values)
    if error_if_nonfinite and not math.isfinite(size):
        why = "; ".join(map(str, nonfinite[:20]))
        why = why or overflow or f"the norm is {size}"
        raise NonFiniteGradientError(f"Nothing was clipped: {why}.")
    if exhausted:
        warnings.warn(_USED_UP, stacklevel=3)
    owners = {name: named[name] for name in gradients}
    shared = by_memory(owners)
    once = [p for name, p in owners.items() if name not in shared]
    _scale(once, max_norm, norm, foreach)
    report = ClipReport(
        norm=size,
        scale=scale,
        clipped=bool(gradients) and scale != 1,
        max_norm=max_norm,
        norm_type=norm_type,
        parameters=len(named),
        gradients=len(gradients),
        nonfinite=nonfinite,
        repeated=repeated,
        true_norm=true_norm,
    )
    notes = [_USED_UP] if exhausted else _notes(report)
    if shared:
        notes.append(f"Shared gradients, scaled once: {_few(shared)}.")
    if overflow:
        notes.append(f"By torch's rule {overflow}; wide=True avoids it.")
    return replace(report, notes=tuple(notes))


_USED_UP = "The generator of parameters was used up: nothing is clipped."


def _check_numbers(max_norm: float, norm_type: float, wide: bool) -> None:
    if max_norm < 0:
        raise DebuggerError(
            f"max_norm is {max_norm:g}: a negative one would turn every "
            f"gradient round; give 0 or more."
        )
    if math.isnan(max_norm) or math.isnan(norm_type):
        raise DebuggerError("max_norm and norm_type cannot be NaN.")
    if wide and norm_type <= 0:
        raise DebuggerError("wide=True needs a norm_type above 0.")


def _values(gradient: Tensor, norm_type: float) -> Tensor:
    """The elements that the norm is over."""
    if gradient.layout == torch.strided:
        return gradient
    if norm_type < 0:  # the zeros that are left out decide
        return gradient.to_dense()
    if gradient.layout == torch.sparse_coo:
        return gradient.coalesce().values()
    return gradient.values()


def _norm(
    values: list[Tensor], norm_type: float, foreach: bool | None, wide: bool
) -> Tensor:
    if not values:
        return torch.zeros((), device="cpu")
    if wide:
        kind = torch.float64
        if any(value.device.type == "mps" for value in values):
            kind = torch.float32  # it has no float64
        size = wide_norm(values, norm_type)
        return torch.tensor(size, dtype=kind, device="cpu")
    if math.isinf(norm_type):  # torch raises on an empty tensor
        values = [value for value in values if value.numel()]
    return whole(nn.utils.get_total_norm(values, norm_type, foreach=foreach))


def _causes(
    names: Sequence[str], values: list[Tensor], norm: float, norm_type: float
) -> tuple[tuple[NonFinite, ...], float | None]:
    """Gradients that are not finite; the norm if it overflowed without."""
    if math.isfinite(norm) and norm_type > 0:
        return (), None  # a finite norm is of finite gradients
    counts = [not_finite(whole(value)) for value in values]
    found = tuple(
        NonFinite(name, nan, inf)
        for name, (nan, inf) in zip(names, counts, strict=True)
        if nan or inf
    )
    if found or math.isfinite(norm):
        return found, None
    return (), wide_norm(values, norm_type) if norm_type > 0 else None


def _overflow(true_norm: float, values: list[Tensor]) -> str:
    kinds = {dtype_name(value.dtype) for value in values}
    return (
        f"the norm of these finite gradients, {true_norm:.4g}, overflows in "
        f"{' and '.join(sorted(kinds))}"
    )


def _scale(
    parameters: Sequence[Tensor],
    max_norm: float,
    norm: Tensor,
    foreach: bool | None,
) -> None:
    usual: list[Tensor] = []
    odd: list[Tensor] = []  # what one kernel for many tensors cannot take
    for parameter in parameters:
        gradient = gradient_of(parameter)
        if gradient is not None:
            strided = gradient.layout == torch.strided
            lazy = gradient.is_conj() or gradient.is_neg()
            (usual if strided and not lazy else odd).append(parameter)
    nn.utils.clip_grads_with_norm_(usual, max_norm, norm, foreach)
    nn.utils.clip_grads_with_norm_(odd, max_norm, norm, foreach=False)


def _notes(report: ClipReport) -> list[str]:
    notes = []
    if not report.parameters:
        notes.append("No parameters were given.")
    elif not report.gradients:
        notes.append("No parameter has a gradient.")
    if report.repeated:
        names = _few(report.repeated)
        notes.append(f"Given more than once, counted once: {names}.")
    if math.isnan(report.scale):
        notes.append("All gradients became NaN.")
    elif math.isinf(report.norm) and report.nonfinite:
        notes.append("What was finite became 0, what was infinite NaN.")
    elif math.isinf(report.norm):
        notes.append("All gradients became 0.")
    return notes


def _few(names: Iterable[str], most: int = 10) -> str:
    shown = list(names)
    left = len(shown) - most
    return ", ".join([*shown[:most], *([f"{left:,} more"] if left > 0 else [])])
