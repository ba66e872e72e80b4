# SPDX-License-Identifier: 0BSD
"""Where a derivative is wrong, and the likely cause."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .differences import Outcome, PointCheck, dot
from .problem import FirstOrder
from .walk import nodes_behind


@dataclass(frozen=True)
class Mismatch:
    """One entry of a Jacobian that backward gets wrong.

    order: 1: the gradient; 2: the gradient of the gradient.
    output, variable: their names.
    output_index, variable_index: the position of the entry in them.
    analytic: what backward says. numeric: what differences say. Of a
        complex function they are along a random direction.
    """

    order: int
    output: str
    output_index: tuple[int, ...]
    variable: str
    variable_index: tuple[int, ...]
    analytic: float
    numeric: float

    def __str__(self) -> str:
        return (
            f"d {self.output}{list(self.output_index)} / "
            f"d {self.variable}{list(self.variable_index)}: "
            f"backward says {self.analytic:.6g}, differences "
            f"{self.numeric:.6g}"
        )


def locate(check: PointCheck, outcome: Outcome, order: int) -> Mismatch:
    """Find one wrong entry by halving, first the inputs, then the outputs.

    Takes about 8 runs of f and one backward for each halving.
    """
    n, h = outcome.output, outcome.step
    u = check.direction(outcome.group)

    def by_inputs(some: range) -> float:
        part = _masked(u, some)
        return check.compare(n, part, check.sample(part, h))[0]

    place = _halved(sum(t.numel() for t in u.values()), by_inputs)
    (k,) = _masked(u, place)
    j = place.start - sum(t.numel() for key, t in u.items() if key < k)
    if not u[k].is_complex():
        u[k] = torch.full_like(u[k], check.sizes[k])
    one = _masked(u, place)
    slope = check.sample(one, h).slope[n]
    v = check.v[n] if slope.is_complex() else torch.ones_like(check.v[n])

    def sides(some: range) -> tuple[float, float]:
        w = _masked({0: v}, some)[0]
        rows = check.problem.rows(check.outputs, check.leaves, {n: w}, [n])
        return dot(rows[k], one[k]), dot(w, slope)

    def by_outputs(some: range) -> float:
        left, right = sides(some)
        return abs(left - right)

    end = _halved(v.numel(), by_outputs)
    analytic, numeric = sides(end)
    return Mismatch(
        order,
        n,
        _index(end.start, v),
        check.problem.names[k],
        _index(j, u[k]),
        analytic / check.sizes[k],
        numeric / check.sizes[k],
    )


def _halved(count: int, gap: Callable[[range], float]) -> range:
    """Return the one of `count` places that is left after halving.

    gap: how wrong the derivative is by some places alone.
    """
    some = range(count)
    while len(some) > 1:
        half = len(some) // 2
        a, b = some[:half], some[half:]
        some = a if gap(a) >= gap(b) else b
    return some


def _masked(u: dict[int, Tensor], some: range) -> dict[int, Tensor]:
    """Keep some entries of u, counted through all of it; the rest is 0."""
    kept, start = {}, 0
    for key, t in u.items():
        a, b = (
            min(max(at - start, 0), t.numel()) for at in (some.start, some.stop)
        )
        if a < b:
            kept[key] = torch.zeros_like(
                t, memory_format=torch.contiguous_format
            )
            kept[key].view(-1)[a:b] = t.reshape(-1)[a:b]
        start += t.numel()
    return kept


def _index(flat: int, like: Tensor) -> tuple[int, ...]:
    found = []
    for size in reversed(like.shape):
        found.append(flat % size)
        flat //= size
    return tuple(reversed(found))


def first_order_cause(check: PointCheck, outcome: Outcome) -> str:
    """Say what kind of error explains the numbers, "" if none does."""
    n, group = outcome.output, outcome.group
    rows = [check.rows[n][k] for k in group]
    if any(not row.isfinite().all() for row in rows):
        return "backward gives NaN or inf where the function is smooth."
    if not any(row.any() for row in rows):
        if not check.outputs[n].requires_grad:
            return (
                "the output is cut off from its inputs: detach(), .data, "
                "item(), NumPy or no_grad inside the function."
            )
        return (
            "backward gives zero or None for it, or the function cuts it "
            "off: detach(), .data, item(), NumPy or no_grad."
        )
    if _conjugate_explains(check, n, group):
        return (
            "a complex conjugate is missing: backward has to return "
            "grad_output times the conjugate of the derivative."
        )
    ratio = _ratio(check, n, group)
    if ratio == 0:
        return f"{FLAT} forward is constant there, and backward is not 0."
    if ratio is not None:
        turned = ""
        if math.isclose(ratio, -1, rel_tol=1e-4):
            turned = " A gradient reversal, if it is meant."
        return (
            f"backward is off by a constant factor: {ratio:.6g} is "
            f"missing.{turned}"
        )
    if not any(map(_is_custom, nodes_behind([check.outputs[n]]))):
        return (
            "part of it is hidden from backward: detach(), .data, no_grad, "
            "or a tensor that is changed where autograd does not see it, as "
            "by max_norm of an Embedding."
        )
    return ""


FLAT = "a straight-through estimator or another surrogate, if it is meant:"


def _is_custom(node: Any) -> bool:
    return isinstance(node, torch.autograd.function.BackwardCFunction)


def _conjugate_explains(
    check: PointCheck, n: str, group: tuple[int, ...]
) -> bool:
    if not check.value[n].is_complex():
        return False
    v = {n: check.v[n].real.to(check.v[n].dtype)}
    rows = check.problem.rows(check.outputs, check.leaves, v, [n])
    u = check.direction(group)
    sample = check.sample(u, check.steps[0])
    numeric = dot(v[n], sample.slope[n])
    turned = sum(dot(rows[k].conj(), w) for k, w in u.items())
    return abs(numeric - turned) <= 1e-4 * abs(numeric)


def _ratio(check: PointCheck, n: str, group: tuple[int, ...]) -> float | None:
    """The numeric over the analytic side, if it is always the same.

    Tried with shorter steps too, which may not cross a bend.
    """
    drawn = [check.direction(group) for _ in range(3)]
    rows = check.rows[n]
    analytic = [sum(dot(rows[k], w) for k, w in u.items()) for u in drawn]
    for h in check.steps[:3] if all(analytic) else ():
        slopes = [dot(check.v[n], check.sample(u, h).slope[n]) for u in drawn]
        pairs = zip(slopes, analytic, strict=True)
        found = [slope / other for slope, other in pairs]
        if max(found) - min(found) <= 1e-5 * abs(found[0]):
            return found[0]
    return None


def second_order_cause(first: FirstOrder, check: PointCheck) -> str:
    """Look for what a custom Function kept from its forward."""
    here = _kept(first, first.values)
    draws = torch.Generator("cpu").manual_seed(1)
    moved = [_nudged(v, draws) for v in first.values]
    there = _kept(first, moved)
    for (name, what, a), (_, _, b) in zip(here, there, strict=False):
        if a.shape != b.shape or not torch.equal(a, b):
            return (
                f"an intermediate was saved: {name} keeps {what}, computed "
                "in its forward from the inputs, so the second derivative "
                "takes it as a constant. Save the inputs and compute it "
                "again in backward."
            )
    if not any(t.requires_grad for t in check.outputs.values()):
        return (
            "the backward is not recorded: detach(), .data, NumPy or "
            "no_grad in it."
        )
    return ""


def _nudged(value: Tensor, draws: torch.Generator) -> Tensor:
    step = torch.rand(value.shape, generator=draws, device="cpu").to(value)
    return value + 1e-3 * (value.abs() + 1e-2) * step


def _kept(
    first: FirstOrder, values: list[Tensor]
) -> list[tuple[str, str, Tensor]]:
    """What custom Functions keep and autograd takes as a constant."""
    _, outputs = first.run(values, record=True)
    found = []
    for node in nodes_behind(outputs.values()):
        if _is_custom(node):
            found += _of_node(node)
    return found


def _of_node(node: Any) -> list[tuple[str, str, Tensor]]:
    name = type(node).__name__.removesuffix("Backward")
    kept = {
        f"saved tensor {k}": t
        for k, t in enumerate(node.saved_tensors)
        if t is not None
    }
    for key, value in vars(node).items():
        if isinstance(value, Tensor):
            kept[f"ctx.{key}"] = value
    return [
        (name, what, t.detach().clone())
        for what, t in kept.items()
        if not t.requires_grad and (t.is_floating_point() or t.is_complex())
    ]
