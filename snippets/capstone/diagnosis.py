# SPDX-License-Identifier: 0BSD
"""All reports on one model, and what they mean."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .activity import DeadRelu, find_dead_relus
from .anomalies import AnomalyReport, find_anomalies
from .culprit import LossDerivatives, check_loss_derivatives
from .curvature import CurvatureReport, verify_curvature
from .findings import (
    DOUBTED_SECOND,
    Finding,
    from_anomalies,
    from_curvature,
    from_derivatives,
    from_graph,
    from_relus,
    verdict_of,
)
from .flow import from_gradients
from .gradients import GradientReport, profile_gradient_flow
from .graph import GraphReport, profile_graph
from .loading import About, Subject, UsageError, one_line
from .outputs import DebuggerError, Report

SCHEMA_VERSION = 1
SECTIONS = ("graph", "gradients", "curvature", "derivatives", "anomalies")
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Diagnosis(Report):
    """What was found in a model.

    schema_version: of this structure as JSON. It grows when a field is
        removed or changes its meaning, not when one is added. A number
        that is not finite is "NaN", "Infinity" or "-Infinity".
    command: "graph" … "anomalies", or "report" for all five.
    about: what was examined.
    verdict: "healthy", "warning" or "error", of the worst finding.
    findings: the worst first.
    graph … anomalies: the report of this name; None if not asked for.
    dead_relus: ReLUs that are off, found along with the gradients.
    unavailable: for each section that could not be made, why.
    """

    schema_version: int
    command: str
    about: About
    verdict: str
    findings: tuple[Finding, ...]
    graph: GraphReport | None = None
    gradients: GradientReport | None = None
    dead_relus: tuple[DeadRelu, ...] = ()
    curvature: CurvatureReport | None = None
    derivatives: LossDerivatives | None = None
    anomalies: AnomalyReport | None = None
    unavailable: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{headline(self)}", *map(str, self.findings)]
        for name in SECTIONS:
            report = getattr(self, name)
            if report is not None:
                lines += ["", str(report)]
        for name, why in self.unavailable.items():
            lines += ["", f"{name.capitalize()}: not available. {why}"]
        return "\n".join(lines)


def headline(diagnosis: Diagnosis) -> str:
    """Return the verdict as one line."""
    levels = [one.level for one in diagnosis.findings]
    texts = [
        f"{n} {level}{'s' if n > 1 else ''}"
        for level in ("error", "warning", "note")
        if (n := levels.count(level))
    ]
    if diagnosis.unavailable:
        texts.append(f"{len(diagnosis.unavailable)} not available")
    more = f" ({', '.join(texts)})" if texts else ""
    about = diagnosis.about
    return f"{about.kind}: {diagnosis.verdict}{more}"


def diagnose(
    subject: Subject,
    command: str = "report",
    progress: Progress = lambda name: None,
) -> Diagnosis:
    """Make one report, or all of them.

    progress: called with the name of each section before it starts.

    Raises UsageError where the model, batch and loss do not fit.
    """
    names = SECTIONS if command == "report" else (command,)
    reports: dict[str, Any] = {}
    why: dict[str, str] = {}
    if command == "report":
        # It also works where the forward stops at a NaN.
        reports["anomalies"] = _one("anomalies", subject, progress)
        if reports["anomalies"].found:
            why |= dict.fromkeys(("curvature", "derivatives"), _NOT_FINITE)
    for name in names:
        if name not in reports and name not in why:
            try:
                reports[name] = _one(name, subject, progress)
                if name == "gradients":
                    reports["dead_relus"] = _dead_relus(subject)
            except UsageError as error:
                if command != "report":
                    raise
                why[name] = str(error)
    found = tuple(_findings(reports))
    return Diagnosis(
        SCHEMA_VERSION,
        command,
        subject.about,
        verdict_of(found),
        found,
        **reports,
        unavailable=why,
    )


_NOT_FINITE = "The loss or a gradient is not finite: see the anomalies first."


def _dead_relus(subject: Subject) -> tuple[DeadRelu, ...]:
    with _explained():
        return find_dead_relus(
            subject.model, subject.inputs, subject.targets, subject.criterion
        )


def _one(name: str, subject: Subject, progress: Progress) -> Any:
    progress(name)
    given = subject.model, subject.inputs, subject.targets, subject.criterion
    seed = subject.about.seed
    with _explained():
        match name:
            case "graph":
                return profile_graph(*given)
            case "gradients":
                return profile_gradient_flow(*given)
            case "curvature":
                return verify_curvature(*given, seed=seed)
            case "derivatives":
                return check_loss_derivatives(*given, seed=seed)
    with _explained():
        return find_anomalies(*given)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """What the model raises becomes one line."""
    try:
        yield
    except DebuggerError as error:
        raise UsageError(" ".join(str(error).split())) from error
    except Exception as error:
        raise UsageError(f"the model raised {one_line(error)}") from error


def _findings(reports: dict[str, Any]) -> list[Finding]:
    makers: dict[str, Callable[[Any], list[Finding]]] = {
        "anomalies": from_anomalies,
        "derivatives": from_derivatives,
        "dead_relus": from_relus,
        "gradients": from_gradients,
        "graph": from_graph,
        "curvature": from_curvature,
    }
    found = [
        one
        for name, make in makers.items()
        if name in reports
        for one in make(reports[name])
    ]
    titles = [one.title for one in found]
    if {"Wrong derivative", "Surrogate derivative"} & {*titles}:
        # Then the second one is wrong too.
        found = [one for one in found if one.title != DOUBTED_SECOND]
    order = ["error", "warning", "note"]
    return sorted(found, key=lambda one: order.index(one.level))
