# SPDX-License-Identifier: 0BSD
"""What the numbers of the reports mean, in a sentence each."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from .activity import DeadRelu
from .anomalies import AnomalyReport
from .culprit import LossDerivatives
from .curvature import CurvatureReport
from .graph import GraphReport
from .outputs import Report
from .suspects import FLAT

DOUBTED_SECOND = "Second derivatives disagree"


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
                DOUBTED_SECOND,
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
            if cause.startswith(FLAT):
                level, title = "warning", "Surrogate derivative"
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
