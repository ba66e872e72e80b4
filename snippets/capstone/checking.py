# SPDX-License-Identifier: 0BSD
"""The order of a derivative check: repeatable? first order, second order."""

import math

import torch
from torch import Tensor

from .differences import Outcome, PointCheck, root_mean_square
from .naming import dtype_name
from .outputs import DebuggerError, flatten_tensors
from .problem import FirstOrder, Outputs, Problem, SecondOrder
from .state import keep_random, random_state
from .suspects import Mismatch, first_order_cause, locate, second_order_cause

MORE_DRAWS = 5  # points drawn beyond those asked for, if some are not smooth


class Run:
    """One check, whose fields become the report."""

    def __init__(
        self,
        first: FirstOrder,
        points: int,
        groups: int,
        seed: int,
        rtol: float,
    ) -> None:
        for name, given in (("points", points), ("groups", groups)):
            if given < 1:
                raise ValueError(f"{name} is {given}: pass 1 or more.")
        self.first, self.points, self.groups = first, points, groups
        self.rtol = rtol
        self.draws = torch.Generator("cpu").manual_seed(seed)
        self.given = list(first.values)
        self.verdicts = ("nothing checked", "nothing checked")
        self.errors = (math.nan, math.nan)
        self.notes: list[str] = []
        self.labels: list[str] = []
        self.outputs: list[str] = []
        self.mismatch: Mismatch | None = None
        self.cause, self.dtype, self.bad = "", "", False

    def check(self, second: bool) -> None:
        """Look for what makes a check pointless, then check."""
        self._find_mutations()
        outputs = self._repeats()
        if outputs is None:
            self.verdicts = ("not deterministic", "not deterministic")
            return
        self.outputs = list(outputs)
        for k, row in self.first.padding.items():
            self.notes.append(
                f"Row {row} of {self.first.names[k]} is not varied: it is "
                "padding, to which torch gives no gradient."
            )
        dtypes = (t.dtype for t in outputs.values())
        self.dtype = dtype_name(next(dtypes, torch.float64))
        if not outputs or not self.first.names:
            what = "input" if outputs else "output"
            self.notes.append(
                f"Nothing was checked: no {what} has a floating-point or "
                "complex dtype, so there are no derivatives."
            )
            return
        checks = self._check(self.first, 1)
        verdict, error = self._verdict(checks)
        unclear = not any(one.endswith(": right") for one in self.labels)
        if (verdict == "wrong" or unclear) and self._random():
            self.verdicts = ("not deterministic", "not deterministic")
            return
        self.verdicts = (verdict, "nothing checked")
        self.errors = (error, math.nan)
        if verdict == "wrong":
            self._explain(checks, 1)
            self.notes.append("The second order rests on the first: skipped.")
            return
        if self._all_zero(checks):
            self.notes.append("All derivatives are zero at these points.")
        if second:
            self._second_order()
        else:
            self.verdicts = (verdict, "not asked for")

    def _find_mutations(self) -> None:
        """Say which inputs f writes to, and whether autograd knows."""
        leaves = [v.clone().requires_grad_() for v in self.given]
        n = len(self.first.replaced)
        given = self.first.copies(leaves[:n])
        tensors = flatten_tensors(given, "input")
        before = {k: t.detach().clone() for k, t in tensors.items()}
        nodes = {k: t.grad_fn for k, t in tensors.items()}
        self.first.call(given)
        for name, t in tensors.items():
            if _same(t.detach(), before[name]):
                continue
            known = not t.requires_grad or t.grad_fn is not nodes[name]
            self.bad |= not known
            note = f"f changes {name} in place"
            if not known:
                note += (
                    ", and autograd does not know: ctx.mark_dirty is "
                    "missing, or it writes through .data or NumPy"
                )
            self.notes.append(f"{note}. It was given copies.")

    def _repeats(self) -> Outputs | None:
        """Return the outputs, or None if two calls differ."""
        runs = [self.first.run(self.given, record=True) for _ in range(2)]
        a, b = (outputs for _, outputs in runs)
        gap = _difference(a, b)
        what = "Two calls with the same inputs differ"
        if gap <= _tolerance(a):
            rows = [_rows(self.first, *run) for run in runs]
            gap = _difference(*rows)
            what = "Two backwards with the same inputs differ"
            if gap <= _tolerance(rows[0]):
                return {n: t.detach() for n, t in a.items()}
        self.notes.append(
            f"{what}, by up to {gap:.2g}: f is not deterministic (dropout? "
            "then call eval()) or keeps a state, so it has no Jacobian."
        )
        return None

    def _random(self) -> bool:
        """Whether nothing is wrong once f draws the same numbers each time.

        Two calls agree by luck if a layer is left out only now and then.
        """
        modules = list(self.first.module.modules())
        before = random_state(modules)
        self._values()
        if random_state(modules) == before:
            return False
        labels, self.labels = self.labels, []
        self.first.redraw = keep_random(modules)
        try:
            verdict, _ = self._verdict(self._check(self.first, 1))
        finally:
            self.first.redraw = None
        self.labels = labels
        if verdict == "wrong":
            return False
        self.labels = []
        self.notes.append(
            "f draws random numbers that decide what it computes: with the "
            "same ones each time its derivatives are not wrong (layers that "
            "are dropped? then call eval()), so it has no Jacobian."
        )
        return True

    def _second_order(self) -> None:
        one, error = self.verdicts[0], self.errors[0]
        v = {n: torch.ones_like(t) for n, t in self._values().items()}
        self.first.values = list(self.given)
        try:
            checks = self._check(SecondOrder(self.first, v), 2)
        except (RuntimeError, DebuggerError) as refusal:
            self.verdicts = (one, "not available")
            first = str(refusal).splitlines()[0]
            self.notes.append(f"Backward cannot be differentiated: {first}")
            return
        verdict, second = self._verdict(checks)
        self.verdicts, self.errors = (one, verdict), (error, second)
        if verdict == "wrong":
            self._explain(checks, 2)

    def _values(self) -> Outputs:
        _, outputs = self.first.run(self.given, record=False)
        return {n: t.detach() for n, t in outputs.items()}

    def _check(
        self, problem: Problem, order: int
    ) -> list[tuple[PointCheck, Outcome]]:
        """Check at the given point and at drawn ones, until enough count."""
        given = list(problem.values)
        found: list[tuple[PointCheck, Outcome]] = []
        good = 0
        for k in range(self.points + MORE_DRAWS):
            problem.values = self._near(given, k)
            check = PointCheck(problem, self.draws, self.rtol)
            label = "not finite here"
            if check.finite():
                here: list[Outcome] = []
                for group in _groups(len(problem.values), self.groups):
                    here += check.check(group)
                    if any(o.verdict == "wrong" for o in here):
                        break  # the rest of the groups costs time
                found += [(check, o) for o in here]
                label = _label([o.verdict for o in here])
            if order == 1:
                where = f"drawn {k}" if k else "given"
                self.labels.append(f"{where}: {label}")
            good += label in ("right", "wrong")
            if label == "wrong" or good == self.points:
                break
        problem.values = given
        return found

    def _near(self, given: list[Tensor], k: int) -> list[Tensor]:
        """Return the given point for k = 0, then points near it.

        A value moves by about a tenth of itself, a zero by a tenth of
        its tensor's size, up and down in turn.
        """
        if k == 0:
            return list(given)
        moved = []
        for t in given:
            noise = torch.randn(
                t.shape, dtype=t.dtype, generator=self.draws, device="cpu"
            )
            noise = noise.to(t.device)
            size = root_mean_square(t) or 1.0
            zero = noise.abs() * size * (1 if k % 2 else -1)
            step = 0.1 * torch.where(t == 0, zero, noise * t.abs())
            moved.append(torch.where(t.isfinite(), t + step, t))
        return moved

    def _verdict(
        self, checks: list[tuple[PointCheck, Outcome]]
    ) -> tuple[str, float]:
        """Put the outcomes of all points together."""
        by_pair: dict[object, set[str]] = {}
        for _, o in checks:
            by_pair.setdefault((o.output, o.group), set()).add(o.verdict)
        count = [o for _, o in checks if o.verdict in ("right", "wrong")]
        error = max((o.error for o in count), default=math.nan)
        verdicts = list(by_pair.values())
        if any("wrong" in seen for seen in verdicts):
            return "wrong", error
        if verdicts and all("right" in seen for seen in verdicts):
            return "right", error
        smooth = not any("not smooth here" in seen for seen in verdicts)
        return ("inconclusive" if smooth else "not smooth here"), error

    def _all_zero(self, checks: list[tuple[PointCheck, Outcome]]) -> bool:
        return not any(o.analytic or o.numeric for _, o in checks)

    def _explain(
        self, checks: list[tuple[PointCheck, Outcome]], order: int
    ) -> None:
        check, outcome = max(
            ((c, o) for c, o in checks if o.verdict == "wrong"),
            key=lambda pair: pair[1].error,
        )
        check.problem.values = check.at
        self.mismatch = locate(check, outcome, order)
        if order == 1:
            self.cause = first_order_cause(check, outcome)
        else:
            self.cause = second_order_cause(self.first, check)


def _groups(n: int, most: int) -> list[tuple[int, ...]]:
    width = -(-n // most)
    return [tuple(range(k, min(k + width, n))) for k in range(0, n, width)]


def _label(verdicts: list[str]) -> str:
    for one in ("wrong", "not smooth here", "inconclusive"):
        if one in verdicts:
            return one
    return "right"


def _rows(first: FirstOrder, leaves: list[Tensor], outputs: Outputs) -> Outputs:
    v = {n: torch.ones_like(t) for n, t in outputs.items()}
    rows = first.rows(outputs, leaves, v, list(outputs))
    return {str(k): row for k, row in enumerate(rows)}


def _difference(a: Outputs, b: Outputs) -> float:
    """The largest difference of an entry; NaN beside NaN is none."""
    if list(a) != list(b) or any(a[n].shape != b[n].shape for n in a):
        return math.inf
    pairs = [(a[n].detach(), b[n].detach()) for n in a]
    return max((_largest((x - y).abs()) for x, y in pairs), default=0.0)


def _tolerance(a: Outputs) -> float:
    """What two runs may differ by: the order of a sum on a GPU."""
    if not a:
        return 0.0
    eps = max(torch.finfo(t.dtype).eps for t in a.values())
    return 1e4 * eps * max(_largest(t.detach().abs()) for t in a.values())


def _largest(t: Tensor) -> float:
    return float(t.nan_to_num().max()) if t.numel() else 0.0


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(
        ((a == b) | (a.isnan() & b.isnan())).all()
    )
