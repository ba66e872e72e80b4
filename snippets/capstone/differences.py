# SPDX-License-Identifier: 0BSD
"""The backward of a problem against finite differences, at one point.

For random u, v, with J the Jacobian by one group of variables:

    vᵀ(J u)   from four values of f, for several steps h:
              D(h) = (f(x + hu) − f(x − hu)) / 2h,
              J u = (4 D(h/2) − D(h)) / 3 + O(h⁴)
    (vᵀJ) u   from backward

An entry that is wrong by e moves the difference by about e, whatever the
number of right entries; the two agree to about 1e-10 in float64.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .problem import Outputs, Problem


@dataclass(frozen=True)
class Outcome:
    """What one output and one group of variables gave at one point.

    verdict: "right"; "wrong": differences of two steps agree with each
        other and not with backward; "not smooth here": slopes to both
        sides differ; "inconclusive": differences do not settle.
    error: |difference| / size of the larger side, at the best step; of a
        right one, the size with what rounding takes of it.
    analytic, numeric: (vᵀJ)u and vᵀ(Ju).
    step: h, in units of the variable's root mean square.
    """

    output: str
    group: tuple[int, ...]
    verdict: str
    error: float
    analytic: float
    numeric: float
    step: float


class Sample(NamedTuple):
    """J u of all outputs from one step, and f(x + hu) + f(x − hu) − 2f(x)
    over h, for h and h/2: it stays at a kink and halves elsewhere."""

    step: float
    slope: Outputs
    gap: Outputs
    half_gap: Outputs


class PointCheck:
    """A problem at its values, with one backward for each output.

    draws: for u and v.
    rtol: what the relative error may be.
    """

    def __init__(
        self, problem: Problem, draws: torch.Generator, rtol: float
    ) -> None:
        self.problem, self.draws, self.rtol = problem, draws, rtol
        self.at = list(problem.values)
        self.leaves, self.outputs = problem.run(problem.values, record=True)
        self.value = {n: t.detach() for n, t in self.outputs.items()}
        self.v = {n: self._normal(t) for n, t in self.value.items()}
        tensors = [*self.value.values(), *problem.values]
        self.size = max(
            _terms(self.v[n], t).norm().item() for n, t in self.value.items()
        )
        self.largest = max(map(_largest, self.value.values()))
        self.eps = max(torch.finfo(t.dtype).eps for t in tensors)
        tight = self.eps < 1e-12
        self.steps = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7) if tight else (0.1, 1e-2)
        self.rtol = rtol if tight else max(rtol, 1e-2)
        self.rows = {
            n: problem.rows(self.outputs, self.leaves, self.v, [n])
            for n in self.outputs
        }
        self.sizes = [root_mean_square(t) or 1.0 for t in problem.values]

    def finite(self) -> bool:
        """Whether all outputs are finite here."""
        return all(bool(t.isfinite().all()) for t in self.value.values())

    def _normal(self, like: Tensor) -> Tensor:
        drawn = torch.randn(
            like.shape, dtype=like.dtype, generator=self.draws, device="cpu"
        )
        return drawn.to(like.device)

    def direction(self, group: tuple[int, ...]) -> dict[int, Tensor]:
        """Return random u for a group.

        0 where the value is not finite, and for a row of padding.
        """
        found = {}
        for k in group:
            value = self.problem.values[k]
            u = self._normal(value) * self.sizes[k]
            found[k] = torch.where(value.isfinite(), u, torch.zeros_like(u))
            if k in self.problem.padding:
                found[k][self.problem.padding[k]] = 0
        return found

    def check(self, group: tuple[int, ...]) -> list[Outcome]:
        """Compare all outputs with differences along one random u."""
        u = self.direction(group)
        tried: dict[str, list[tuple[float, float, Sample]]] = {}
        done: dict[str, Outcome] = {}
        for h in self.steps:
            sample = self.sample(u, h)
            for n in self.outputs:
                if n in done:
                    continue
                gap, size = self.compare(n, u, sample)
                tried.setdefault(n, []).append((gap, size, sample))
                allowed = self.rtol * size + self.noise(h)
                if math.isfinite(gap) and gap <= allowed:
                    kink = self.kinked(n, sample)
                    verdict = "not smooth here" if kink else "right"
                    done[n] = self.outcome(n, u, verdict, *tried[n][-1])
            if len(done) == len(self.outputs):
                break
        for n in self.outputs:
            if n not in done:
                best = min(tried[n], key=lambda one: one[0])
                verdict = self.judge(n, [s for _, _, s in tried[n]], best[0])
                done[n] = self.outcome(n, u, verdict, *best)
        return list(done.values())

    def judge(self, n: str, samples: list[Sample], gap: float) -> str:
        """Decide what a disagreement means."""
        if not math.isfinite(gap):
            row_bad = any(not r.isfinite().all() for r in self.rows[n])
            return "wrong" if row_bad and self.finite() else "inconclusive"
        if any(self.kinked(n, sample) for sample in samples[-2:]):
            return "not smooth here"
        found = [_terms(self.v[n], sample.slope[n]) for sample in samples]
        noises = [self.noise(sample.step) for sample in samples]
        for k, a in enumerate(found):
            for j, b in enumerate(found[:k]):
                spread = abs((a - b).sum().item())
                own = 0.01 * a.norm().item() + noises[k] + noises[j]
                if spread <= min(gap / 10, own):
                    return "wrong"
        return "inconclusive"

    def outcome(
        self,
        n: str,
        u: dict[int, Tensor],
        verdict: str,
        gap: float,
        size: float,
        sample: Sample,
    ) -> Outcome:
        """Put the numbers of one comparison together."""
        if verdict == "right":
            size += self.noise(sample.step) / self.rtol
        return Outcome(
            n,
            tuple(u),
            verdict,
            gap / size if gap else 0.0,
            sum(dot(self.rows[n][k], w) for k, w in u.items()),
            dot(self.v[n], sample.slope[n]),
            sample.step,
        )

    def sample(self, u: dict[int, Tensor], h: float) -> Sample:
        """Take differences along u with the steps h and h/2."""
        at = {step: self._moved(u, step) for step in (h, -h, h / 2, -h / 2)}
        slope, gaps = {}, {}
        for n, here in self.value.items():
            a, b, c, d = (at[s][n] for s in (h, -h, h / 2, -h / 2))
            slope[n] = (4 * (c - d) / h - (a - b) / (2 * h)) / 3
            gaps[n] = ((a + b - 2 * here) / h, (c + d - 2 * here) / (h / 2))
        first = {n: gap[0] for n, gap in gaps.items()}
        return Sample(h, slope, first, {n: gap[1] for n, gap in gaps.items()})

    def _moved(self, u: dict[int, Tensor], step: float) -> Outputs:
        values = list(self.problem.values)
        for k, w in u.items():
            values[k] = torch.where(w == 0, values[k], values[k] + step * w)
        found = self.problem.run(values, record=False)[1]
        return {n: t.detach() for n, t in found.items()}

    def compare(
        self, n: str, u: dict[int, Tensor], sample: Sample
    ) -> tuple[float, float]:
        """Return |vᵀ(Ju) − (vᵀJ)u| and the size of the larger side."""
        left = _terms(self.v[n], sample.slope[n])
        right = torch.cat([_terms(self.rows[n][k], w) for k, w in u.items()])
        gap = abs(left.sum().item() - right.sum().item())
        size = max(left.norm().item(), right.norm().item())
        return (gap if math.isfinite(gap) else math.inf), size

    def noise(self, h: float) -> float:
        """What rounding may do to vᵀ(Ju): of the largest output, because
        a small one may be a difference of large numbers."""
        return float(20 * self.eps * self.size / h)

    def kinked(self, n: str, sample: Sample) -> bool:
        """Whether slopes to both sides of the point differ for good.

        By more than rounding: of the largest output, as in `noise`.
        """
        whole, half = sample.gap[n].abs(), sample.half_gap[n].abs()
        slope = sample.slope[n].abs()
        if whole.numel() == 0:
            return False
        rounding = 100 * self.eps * self.largest / sample.step
        least = max(1e-2 * slope.max().item(), rounding)
        stays = (half > 0.9 * whole) & (half < 1.1 * whole)
        return bool((stays & (whole > least)).any())


def _largest(t: Tensor) -> float:
    return float(t.abs().max()) if t.numel() else 0.0


def root_mean_square(t: Tensor) -> float:
    """Return that of the finite entries, 0 if there are none."""
    kept = t[t.isfinite()].abs().double() if t.numel() else t.abs()
    return float(kept.square().mean().sqrt()) if kept.numel() else 0.0


def _real(t: Tensor) -> Tensor:
    t = t.detach().resolve_conj()
    t = torch.view_as_real(t) if t.is_complex() else t
    return t.reshape(-1).double()


def _terms(a: Tensor, b: Tensor) -> Tensor:
    """The terms of the real inner product; 0 where b is 0."""
    x, y = _real(a), _real(b)
    return torch.where(y == 0, 0.0, x * y)


def dot(a: Tensor, b: Tensor) -> float:
    """Return the real inner product of two tensors of one shape."""
    return _terms(a, b).sum().item()
