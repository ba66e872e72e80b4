# SPDX-License-Identifier: 0BSD
"""Gradient flow: what backward brings to each parameter."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .naming import (
    Named,
    dtype_name,
    is_compiled,
    layer_of,
    named_parameters,
    shown,
)
from .norms import Moments, moments, norms, total_norm
from .outputs import Criterion, Report, scalar_loss
from .state import untouched

# From the worst to the best; a layer has the worst of its parameters.
STATUSES = {
    "nan": "error",
    "inf": "error",
    "exploding": "warning",
    "vanishing": "warning",
    "zero": "warning",
    "unused": "warning",
    "uninitialised": "warning",
    "ok": "",
    "frozen": "",
}


@dataclass(frozen=True)
class GradientRow(Report):
    """The gradient of one parameter.

    name, aliases: of a tied weight the first name, and the others.
    shape: None for a lazy parameter. dtype: such as "float32".
    status: "ok", or the first of the other statuses that fits.
    norm: sqrt(sum |g|²), in float32 at least; None without a gradient,
        like the three below, which count a complex element as two reals.
    mean: of all elements. std: divided by n - 1; 0 for one element.
    max_abs: the largest |g|. nan, inf: how many elements are so.
    """

    name: str
    aliases: tuple[str, ...]
    shape: tuple[int, ...] | None
    dtype: str
    status: str
    norm: float | None = None
    mean: float | None = None
    std: float | None = None
    max_abs: float | None = None
    nan: int = 0
    inf: int = 0


@dataclass(frozen=True)
class LayerVerdict(Report):
    """What the gradients of the parameters of one module say."""

    layer: str  # path of the module, "(model)" for the model itself
    parameters: int  # how many are its own, without those of its children
    norm: float | None  # of all its gradients together; None without any
    status: str  # the worst of its parameters
    text: str  # why it has this status, "" if it is ok


@dataclass(frozen=True)
class GradientReport(Report):
    """Gradients of all parameters, in the order of the model.

    rows: one for each parameter. layers: one for each module with any.
    total_norm: of all gradients as one vector; a tied weight counts once.
    loss: its value; None if only `.grad` was read.
    vanishing, exploding: norms below or above these are called so.
    notes: what could not be looked at.
    """

    rows: tuple[GradientRow, ...]
    layers: tuple[LayerVerdict, ...]
    total_norm: float
    loss: float | None
    vanishing: float
    exploding: float
    notes: tuple[str, ...] = ()

    def row(self, name: str) -> GradientRow:
        """Return the row with this name or alias; KeyError if none."""
        for row in self.rows:
            if name == row.name or name in row.aliases:
                return row
        raise KeyError(name)

    @property
    def severity(self) -> str:
        """ "error", "warning" or "", of the worst status."""
        found = {STATUSES[row.status] for row in self.rows}
        return next((s for s in ("error", "warning") if s in found), "")

    def __str__(self) -> str:
        counts = Counter(row.status for row in self.rows)
        parts = [f"{counts[s]:,} {s}" for s in STATUSES if counts[s]]
        lines = [
            f"Gradients: total norm {self.total_norm:.4g} over "
            f"{len(self.rows):,} parameters ({', '.join(parts)})"
        ]
        odd = [v for v in self.layers if v.status != "ok"]
        lines += [f"  {v.layer}: {v.status}; {v.text}" for v in odd[:20]]
        lines += [f"  … {len(odd) - 20:,} more"] if len(odd) > 20 else []
        return "\n".join([*lines, *_table(self.rows), *self.notes])


def _table(rows: tuple[GradientRow, ...], most: int = 40) -> list[str]:
    cells = [("parameter", "norm", "mean", "std", "max abs", "status")]
    for row in rows[:most]:
        values = (row.norm, row.mean, row.std, row.max_abs)
        texts = ["–" if v is None else f"{v:.3g}" for v in values]
        name = " = ".join([row.name, *row.aliases])
        cells.append((name, texts[0], texts[1], texts[2], texts[3], row.status))
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *numbers, status in cells:
        right = zip(numbers, wide[1:], strict=False)
        middle = "  ".join(n.rjust(w) for n, w in right)
        lines.append(f"  {first.ljust(wide[0])}  {middle}  {status}")
    more = len(rows) - most
    return [*lines, f"  … {more:,} more"] if more > 0 else lines


def profile_gradient_flow(
    model: nn.Module,
    inputs: Any,
    targets: Any = None,
    criterion: Criterion = None,
    *,
    vanishing: float = 1e-6,
    exploding: float = 10.0,
) -> GradientReport:
    """Run one forward and one backward and report on the gradients.

    inputs, targets, criterion: see `outputs.scalar_loss`.

    The model is left untouched, `.grad` included. No hook is set, so
    modules that change tensors in place, are called twice or return
    dicts are as good as any.
    Raises DebuggerError as `scalar_loss` does, and what backward raises.
    """
    with untouched(model, criterion, inputs, targets):
        loss = scalar_loss(model, inputs, targets, criterion)
        loss.backward()
        return read_gradients(
            model,
            vanishing=vanishing,
            exploding=exploding,
            loss=loss.item(),
        )


def read_gradients(
    model: nn.Module,
    *,
    vanishing: float = 1e-6,
    exploding: float = 10.0,
    loss: float | None = None,
) -> GradientReport:
    """Report on what is in `.grad` now, after a backward of your own."""
    named = named_parameters(model)
    gradients = [_gradient(row.tensor) for row in named]
    there = [k for k, g in enumerate(gradients) if g is not None]
    values = [g for g in gradients if g is not None]
    found = norms(values)
    norm_of = dict(zip(there, found, strict=True))
    stats_of = dict(zip(there, moments(values, found), strict=True))
    rows = tuple(
        _row(row, norm_of.get(k), stats_of.get(k), vanishing, exploding)
        for k, row in enumerate(named)
    )
    notes = (_COMPILED,) if is_compiled(model) else ()
    return GradientReport(
        rows=rows,
        layers=_verdicts(rows, vanishing, exploding),
        total_norm=total_norm(found),
        loss=loss,
        vanishing=vanishing,
        exploding=exploding,
        notes=notes,
    )


_COMPILED = (
    "The model is compiled: gradients are read from .grad; its graph, "
    "saved tensors and the place of a first NaN are not available."
)


def _gradient(parameter: Tensor) -> Tensor | None:
    return None if is_lazy(parameter) else parameter.grad


def status_of(norm: float, vanishing: float, exploding: float) -> str:
    """Return what a norm says: "ok" or what is wrong."""
    if math.isnan(norm):
        return "nan"
    if math.isinf(norm):
        return "inf"
    if norm == 0:
        return "zero"
    if norm < vanishing:
        return "vanishing"
    return "exploding" if norm > exploding else "ok"


def _row(
    named: Named,
    norm: float | None,
    statistics: Moments | None,
    vanishing: float,
    exploding: float,
) -> GradientRow:
    tensor = named.tensor
    lazy = is_lazy(tensor)
    shape = None if lazy else tuple(tensor.shape)
    head = named.name, named.aliases, shape, dtype_name(tensor.dtype)
    if not tensor.requires_grad:
        return GradientRow(*head, "frozen")
    if lazy:
        return GradientRow(*head, "uninitialised")
    if norm is None or statistics is None:
        return GradientRow(*head, "unused")
    mean, std, most, nan, inf = statistics
    status = status_of(norm, vanishing, exploding)
    status = "nan" if nan else "inf" if inf else status
    return GradientRow(*head, status, norm, mean, std, most, nan, inf)


def _verdicts(
    rows: tuple[GradientRow, ...], vanishing: float, exploding: float
) -> tuple[LayerVerdict, ...]:
    layers: dict[str, list[GradientRow]] = {}
    for row in rows:
        layers.setdefault(layer_of(row.name), []).append(row)
    order = list(STATUSES)
    found = []
    for path, group in layers.items():
        known = [row.norm for row in group if row.norm is not None]
        norm = total_norm(known) if known else None
        worst = min(group, key=lambda row: order.index(row.status))
        text = _because(worst, vanishing, exploding)
        new = shown(path), len(group), norm, worst.status, text
        found.append(LayerVerdict(*new))
    return tuple(found)


def _because(row: GradientRow, vanishing: float, exploding: float) -> str:
    """Why a row has its status, in a few words."""
    short = row.name.rpartition(".")[2]
    count = 0 if row.shape is None else math.prod(row.shape)
    texts = {
        "nan": f"{row.nan:,} of {count:,} elements of {short} are NaN",
        "inf": f"{row.inf:,} of {count:,} elements of {short} are infinite",
        "exploding": f"the norm of {short} is above {exploding:g}",
        "vanishing": f"the norm of {short} is below {vanishing:g}",
        "zero": f"the gradient of {short} is exactly 0",
        "unused": f"no gradient reaches {short}: forward does not use it, "
        "or detach() or no_grad cut it off",
        "uninitialised": f"{short} is lazy and was not reached by forward",
        "frozen": f"{short} has requires_grad=False",
    }
    return texts.get(row.status, "")
