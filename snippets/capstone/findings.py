# SPDX-License-Identifier: 0BSD
"""What the numbers of the reports mean, in a sentence each."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from .activity import DeadRelu
from .anomalies import AnomalyReport
from .culprit import LossDerivatives
from .curvature import CurvatureReport
from .gradients import STATUSES, GradientReport, LayerVerdict
from .graph import GraphReport
from .outputs import Report

WRONG_SECOND = "Wrong second derivative"


@dataclass(frozen=True)
class Finding(Report):
    """One thing to know about a model.

    level: "error": wrong; "warning": likely to be; "note": to be known.
    section: the report that shows it.
    title: what it is. where: paths of modules or names of parameters.
    text: what was measured. advice: what it may come from and what to
        do, or "".
    """

    level: str
    section: str
    title: str
    where: tuple[str, ...]
    text: str
    advice: str = ""

    def __str__(self) -> str:
        more = f" {self.advice}" if self.advice else ""
        at = f" in {some(self.where)}" if self.where else ""
        return f"[{self.level}] {self.title}{at}. {self.text}{more}"


def some(names: Iterable[str], most: int = 4) -> str:
    """Return names in a row, those in the middle left out."""
    names = list(names)
    if len(names) > most:
        left = f"… {len(names) - most} more …"
        names = [*names[: most - 1], left, names[-1]]
    return ", ".join(names)


def near(file: str) -> str:
    """Return a path from the working directory, if it is in there."""
    short = os.path.relpath(file)
    return file if short.startswith("..") else short


def verdict_of(findings: Iterable[Finding]) -> str:
    """Return "error", "warning" or "healthy", of the worst."""
    levels = {one.level for one in findings}
    return next((x for x in ("error", "warning") if x in levels), "healthy")


def fails(verdict: str, fail_on: str) -> bool:
    """Say whether a verdict is at or above --fail-on."""
    worse = {"never": (), "error": ("error",), "warning": ("error", "warning")}
    return verdict in worse[fail_on]


_NAMES = {s: s.capitalize() for s in STATUSES} | {"nan": "NaN"}
_ADVICE = {
    "nan": "See where the first NaN comes from, under Anomalies.",
    "inf": "See where the first inf comes from, under Anomalies.",
    "exploding": "Each step backwards multiplies the gradient: recurrent "
    "or large weights, a sum where a mean is meant. Clip the norm, begin "
    "with smaller or orthogonal weights, normalise, or use gated cells.",
    "vanishing": "Each step backwards shrinks the gradient: saturated tanh "
    "or sigmoid, small weights, too many layers. Use residual connections, "
    "normalisation, ReLU-like activations or another initialisation.",
    "zero": "Typical of a dead ReLU, whose inputs are negative for the "
    "whole batch; also of a product with 0, a mask or saturation.",
    "unused": "forward does not use them, or detach() or no_grad cuts "
    "them off.",
    "uninitialised": "Lazy parameters that forward does not reach.",
    "frozen": "requires_grad is False, so an optimiser will not train "
    "them. If that is not meant, set it to True.",
}


def from_gradients(report: GradientReport) -> list[Finding]:
    """One finding for each status other than ok."""
    found = []
    for status, severity in STATUSES.items():
        layers = [one for one in report.layers if one.status == status]
        if status == "ok" or not layers:
            continue
        level, title = severity or "note", f"{_NAMES[status]} gradients"
        advice = _ADVICE[status]
        if status == "frozen":
            title = "Frozen layers"
            if _by_mistake(report):
                level = "warning"
                advice = f"Layers on both sides are trained. {advice}"
        elif status in ("unused", "uninitialised"):
            title = f"{_NAMES[status]} parameters"
        where = _joined(layers, report.layers)
        text = _measured(status, layers, report)
        new = Finding(level, "gradients", title, where, text, advice)
        found.append(new)
    return found


def _joined(
    layers: list[LayerVerdict], all_layers: tuple[LayerVerdict, ...]
) -> tuple[str, ...]:
    """Names of layers; a module of which all layers are meant, once."""
    meant = {one.layer for one in layers}
    below: dict[str, set[str]] = {}
    for one in all_layers:
        path = one.layer
        while path := path.rpartition(".")[0]:
            below.setdefault(path, set()).add(one.layer)
    whole = [path for path, some in below.items() if len(some) > 1]
    whole = [path for path in whole if below[path] <= meant]
    names: dict[str, None] = {}
    for one in layers:
        over = [path for path in whole if one.layer in below[path]]
        names[min(over, key=len, default=one.layer)] = None
    return tuple(names)


def _measured(
    status: str, layers: list[LayerVerdict], report: GradientReport
) -> str:
    count = f"{len(layers)} of {len(report.layers)} layers"
    rows = [row for row in report.rows if row.status == status]
    norms = {row.norm: row.name for row in rows if row.norm is not None}
    if status == "vanishing":
        least = min(norms)
        return (
            f"{count}: norms down to {least:.2g}, below "
            f"{report.vanishing:g}, in {norms[least]}."
        )
    if status == "exploding":
        most = max(norms)
        return (
            f"{count}: norms up to {most:.2g}, above "
            f"{report.exploding:g}, in {norms[most]}."
        )
    if status in ("unused", "uninitialised"):
        return f"No gradient reaches them: {count}."
    names = "it" if len(layers) == 1 else "the first of them"
    return f"{count}; in {names}, {layers[0].text}."


def _by_mistake(report: GradientReport) -> bool:
    """Whether few layers are frozen, and lie between trained ones.

    A frozen beginning is usual in fine-tuning, and a model that is
    frozen for the most part in training adapters.
    """
    states = [one.status == "frozen" for one in report.layers]
    if sum(states) * 2 >= len(states) or False not in states:
        return False
    first = states.index(False)
    last = len(states) - 1 - states[::-1].index(False)
    return any(states[first:last])


def from_relus(relus: Iterable[DeadRelu]) -> list[Finding]:
    """ReLUs that pass nothing on."""
    relus = list(relus)
    if not relus:
        return []
    least = min(one.zeros for one in relus)
    part = "all" if least == 1 else f"{least:.1%} or more"
    where = tuple(dict.fromkeys(one.module for one in relus))
    text = f"{part.capitalize()} of the outputs are 0 in this batch."
    advice = (
        "What lies before a ReLU that is off gets no gradient through it. "
        "Look at the bias and the scale of the layer before it, lower the "
        "learning rate, or use leaky ReLU or GELU."
    )
    return [Finding("warning", "gradients", "Dead ReLU", where, text, advice)]


def from_graph(report: GraphReport) -> list[Finding]:
    """What was changed in place, so that backward will raise."""
    saved = report.saved
    if saved is None or not saved.changed:
        return []
    text = "A saved tensor was changed in place, so backward will raise."
    advice = "Write x = x + y in place of x += y there."
    where = saved.changed
    title = "Saved tensor changed"
    return [Finding("error", "graph", title, where, text, advice)]


def from_curvature(report: CurvatureReport) -> list[Finding]:
    """Products that are wrong, and eigenvalues that are not settled."""
    if report.check.verdict == "disagrees":
        text = f"The self-check's error is {report.check.error:.1g}."
        return [
            Finding(
                "warning",
                "curvature",
                WRONG_SECOND,
                (report.check.parameter,),
                text,
                report.notes[-1],
            )
        ]
    notes = [n for n in report.notes if "settled" in n or "cannot tell" in n]
    return [
        Finding("note", "curvature", "Curvature is a hint", (), note)
        for note in notes
    ]


def from_derivatives(report: LossDerivatives) -> list[Finding]:
    """A wrong derivative, or why nothing was checked."""
    part = report.part or report.loss
    wrong = part.mismatch
    for verdict, order, level in (
        (report.loss.first_order, "", "error"),
        (report.loss.second_order, "second ", "warning"),
    ):
        if verdict == "wrong":
            where = f"{report.module} ({report.kind})"
            text = f"One wrong entry: {wrong}." if wrong else ""
            cause = part.cause or "Compare its backward with the formula"
            advice = f"Likely cause: {cause.rstrip('.')}."
            title = f"Wrong {order}derivative"
            section = "derivatives"
            return [Finding(level, section, title, (where,), text, advice)]
    if report.loss.passed:
        return []
    title = f"Derivatives {report.loss.first_order}"
    text = " ".join(report.loss.notes[:1])
    if report.loss.first_order == "right":
        title = f"Second derivative {report.loss.second_order}"
        text = " ".join(report.loss.notes[-1:])
    return [Finding("note", "derivatives", title, (), text)]


def from_anomalies(report: AnomalyReport) -> list[Finding]:
    """The first NaN or inf."""
    if not report.found:
        return []
    kind = "NaN" if report.kind == "nan" else "Inf"
    where = (report.module,) if report.module else ()
    text = f"First seen in {report.phase}, {report.op}"
    text += f" ({report.node})" if report.node else ""
    if report.place.file:
        place = f"{near(report.place.file)}:{report.place.line}"
        text += f", at {place}: {report.place.code}"
    bad = f"{len(report.gradients)} of {report.parameters}"
    text = f"{text.rstrip('.')}. Gradients not finite: {bad}."
    title = f"{kind} in {report.phase}, {report.op}"
    section = "anomalies"
    return [Finding("error", section, title, where, text, report.cause)]
