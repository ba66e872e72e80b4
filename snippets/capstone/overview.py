# SPDX-License-Identifier: 0BSD
"""An overview of a diagnosis: one line for each check."""

from collections.abc import Iterator
from typing import NamedTuple

from .diagnosis import SECTIONS, Diagnosis
from .storage import size


class Check(NamedTuple):
    """What one check came to.

    section: one of SECTIONS. level: "ok", "note", "warning" or "error".
    text: what was measured, in a few words.
    """

    section: str
    level: str
    text: str


def overview(diagnosis: Diagnosis) -> Iterator[Check]:
    """Yield a line for each check that was asked for, in order."""
    for section in SECTIONS:
        if section in diagnosis.unavailable:
            told = _LATER if _finds_nan(diagnosis) else "not available"
            yield Check(section, "note", told)
        elif getattr(diagnosis, section) is not None:
            levels = {
                one.level
                for one in diagnosis.findings
                if one.section == section
            }
            order = ("error", "warning", "note")
            level = next((one for one in order if one in levels), "ok")
            if level == "ok" and _spoilt(section, diagnosis):
                yield Check(section, "note", _LATER)
            else:
                yield Check(section, level, _TEXTS[section](diagnosis))


_LATER = "cannot be told before the error above is mended"


def _finds_nan(diagnosis: Diagnosis) -> bool:
    return diagnosis.anomalies is not None and diagnosis.anomalies.found


def _spoilt(section: str, diagnosis: Diagnosis) -> bool:
    """Whether a check failed for a reason that another one found."""
    if diagnosis.verdict != "error":
        return False
    if section == "curvature" and diagnosis.curvature:
        return diagnosis.curvature.check.verdict in ("disagrees", "not done")
    if section == "derivatives" and diagnosis.derivatives:
        return diagnosis.derivatives.loss.first_order == "wrong"
    return False


def _graph(diagnosis: Diagnosis) -> str:
    report = diagnosis.graph
    assert report is not None
    held = f", {size(report.saved.held)} held" if report.saved else ""
    return f"{report.nodes:,} nodes, depth {report.depth:,}{held}"


def _gradients(diagnosis: Diagnosis) -> str:
    report = diagnosis.gradients
    assert report is not None
    frozen = sum(row.status == "frozen" for row in report.rows)
    good = sum(row.status == "ok" for row in report.rows)
    told = f"{good:,} of {len(report.rows):,} parameters ok"
    told += f", {frozen:,} frozen" if frozen else ""
    return f"total norm {report.total_norm:.3g}, {told}"


def _curvature(diagnosis: Diagnosis) -> str:
    report = diagnosis.curvature
    assert report is not None
    settled = "" if report.converged else ", not converged"
    return f"top eigenvalue {report.eigenvalue:.3g}{settled}"


def _derivatives(diagnosis: Diagnosis) -> str:
    report = diagnosis.derivatives
    assert report is not None
    if report.module:
        return f"wrong in {report.module} ({report.kind})"
    first, second = report.loss.first_order, report.loss.second_order
    return f"first order {first}, second order {second}"


def _anomalies(diagnosis: Diagnosis) -> str:
    report = diagnosis.anomalies
    assert report is not None
    if not report.found:
        return "no NaN, no inf"
    kind = "NaN" if report.kind == "nan" else "inf"
    return f"{kind} in {report.phase}, {report.op}"


_TEXTS = {
    "graph": _graph,
    "gradients": _gradients,
    "curvature": _curvature,
    "derivatives": _derivatives,
    "anomalies": _anomalies,
}
