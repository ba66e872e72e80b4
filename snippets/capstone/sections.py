# SPDX-License-Identifier: 0BSD
"""The sections of the page: one function for each report."""

import math

from .anomalies import AnomalyReport
from .culprit import EVAL, LossDerivatives
from .curvature import CurvatureReport
from .derivatives import DerivativeReport
from .findings import near, some
from .gradients import GradientReport
from .graph import GraphReport
from .memory import SavedReport
from .methods import (
    ANOMALIES,
    CURVATURE,
    DERIVATIVES,
    GRADIENTS,
    GRAPH,
    SAVED,
)
from .parts import (
    breakable,
    e,
    facts,
    figure,
    folded,
    how,
    lines,
    notes,
    paragraph,
    table,
)
from .plots import MOST, bytes_plot, norms_plot, spectrum_plot
from .storage import size


FEW = 24  # rows of a table that is shown open


def graph(report: GraphReport) -> str:
    """Counts, operations and what is saved."""
    parts = [
        facts(
            [
                ("Nodes", f"{report.nodes:,}"),
                ("Edges", f"{report.edges:,}"),
                ("Depth", f"{report.depth:,}"),
                ("Shared nodes", f"{report.shared:,}"),
                ("Leaves", f"{len(report.leaves):,}"),
            ]
        ),
        how(GRAPH),
        table(
            "Operations of the graph, the most frequent first",
            ("Operation", "Nodes"),
            [(name, f"{n:,}") for name, n in report.ops.items()][:20],
        ),
    ]
    if report.saved is not None:
        parts.append(_saved(report.saved))
    return "".join([*parts, notes(report.notes)])


def _saved(saved: SavedReport) -> str:
    parts = [
        "<h3>Memory kept for backward</h3>",
        facts(
            [
                ("Tensors saved", f"{saved.tensors:,} ({saved.state})"),
                ("Referenced", size(saved.referenced)),
                ("Held", size(saved.held)),
                ("Of it the batch", size(saved.of_batch)),
                ("Parameters saved", size(saved.parameters)),
                ("Buffers saved", size(saved.buffers)),
            ]
        ),
        how(SAVED),
    ]
    if any(row.held for row in saved.by_module):
        text = "Memory held for backward, by module (at most 20)."
        parts.append(figure(bytes_plot(saved.by_module), text))
    for kind, rows in (("module", saved.by_module), ("op", saved.by_op)):
        cells = [
            (r.name, f"{r.tensors:,}", size(r.referenced), size(r.held))
            for r in rows
        ]
        what = "operation" if kind == "op" else kind
        head = (what.capitalize(), "Tensors", "Referenced", "Held")
        shown = table(f"Saved by {what}, the most held first", head, cells)
        title = f"Saved by each {what} ({len(cells):,})"
        parts.append(folded(title, shown, len(cells) <= FEW))
    return "".join(parts)


def gradients(report: GradientReport) -> str:
    """Norms by layer, and all numbers by parameter."""
    loss = "–" if report.loss is None else f"{report.loss:.6g}"
    more = len(report.layers) - MOST
    text = "A diamond is a warning or an error, an empty ring no gradient; a "
    text += "norm of 0 is drawn at the left edge."
    text += f" {more} layers that are ok are left out." if more > 0 else ""
    return "".join(
        [
            facts(
                [
                    ("Loss", loss),
                    ("Total norm", f"{report.total_norm:.4g}"),
                    ("Vanishing below", f"{report.vanishing:g}"),
                    ("Exploding above", f"{report.exploding:g}"),
                ]
            ),
            how(GRADIENTS),
            figure(norms_plot(report), text),
            _parameters(report),
            notes(report.notes),
        ]
    )


def _parameters(report: GradientReport) -> str:
    """All parameters in a table, and those not ok before a long one."""
    numbers = "Norm", "Mean", "Std", "Max abs"
    head = "Parameter", "Shape", "Dtype", *numbers, "Status"
    rows = _rows(report)
    text = "Gradient of each parameter, in the order of the model"
    every = table(text, head, rows, "left")
    title = f"All parameters ({len(rows):,})"
    odd = [row for row in rows if row[-1] != "ok"]
    if len(rows) <= FEW:
        return folded(title, every, True)
    first = ""
    if odd:
        text = f"Parameters that are not ok, {len(odd):,} in all"
        text += f"; the first {FEW}" if len(odd) > FEW else ""
        first = table(text, head, odd[:FEW], "left")
    return first + folded(title, every, False)


def _rows(report: GradientReport) -> list[tuple[str, ...]]:
    rows = []
    for row in report.rows:
        values = row.norm, row.mean, row.std, row.max_abs
        numbers = ["–" if v is None else f"{v:.3g}" for v in values]
        name = " = ".join([row.name, *row.aliases])
        shape = "?" if row.shape is None else "×".join(map(str, row.shape))
        rows.append((name, shape or "1", row.dtype, *numbers, row.status))
    return rows


def curvature(report: CurvatureReport) -> str:
    """Eigenvalue, trace, self-check and the spectrum."""
    parts = [
        _numbers(report),
        how(
            CURVATURE,
            f"Here {report.products} for the eigenvalue and the spectrum, "
            f"{report.trace_samples} for the trace.",
        ),
    ]
    if report.spectrum:
        text = (
            "Spectrum as seen from v: Ritz values (across), in units of the "
            "loss over those of θ squared, and the share of the spectrum "
            "that each stands for (up, log scale, at least 1e-6)."
        )
        parts.append(figure(spectrum_plot(report), text))
    return "".join([*parts, notes(report.notes)])


def _numbers(report: CurvatureReport) -> str:
    settled = "converged" if report.converged else "not converged"
    check = report.check
    told = check.reason if check.verdict == "not done" else check.parameter
    return lines(
        [
            ("Along v", f"{report.along:.4g} (seed {report.seed})"),
            (
                "Top eigenvalue",
                f"{report.eigenvalue:.4g} ({report.which}, residual "
                f"{report.residual:.1g}, {report.products} products, "
                f"{settled})",
            ),
            (
                "Trace",
                f"{report.trace:.4g} ± {report.trace_error:.2g} "
                f"({report.trace_samples} samples)",
            ),
            (
                "Self-check",
                f"{check.verdict} (error {check.error:.1g}; {told})",
            ),
            ("Parameters", f"{report.parameters:,}"),
        ]
    )


def derivatives(report: LossDerivatives) -> str:
    """The loss as a whole, and the module that is wrong."""
    parts = [
        _check(report.loss),
        how(DERIVATIVES),
    ]
    if report.mode == "eval":
        parts.append(notes([EVAL]))
    if report.module:
        place = f"<code>{breakable(report.module)}</code> ({e(report.kind)})"
        parts.append(f"<h3>The module that is wrong: {place}</h3>")
        if report.part:
            parts.append(_check(report.part))
    return "".join(parts)


def _check(report: DerivativeReport) -> str:
    pairs = [
        ("First order", _with(report.first_order, report.first_error)),
        ("Second order", _with(report.second_order, report.second_error)),
    ]
    if report.mismatch:
        pairs.append(("Wrong entry", str(report.mismatch)))
    if report.cause:
        pairs.append(("Likely cause", report.cause))
    pairs += [
        ("Points", ", ".join(report.points) or "none"),
        ("Checked", f"{some(report.outputs)} by {some(report.variables)}"),
        ("Computed in", report.dtype or "–"),
    ]
    if report.not_checked:
        pairs.append(("Not checked", some(report.not_checked)))
    return lines(pairs) + notes(report.notes)


def _with(verdict: str, error: float) -> str:
    known = not math.isnan(error) and error > 0
    return f"{verdict} (error {error:.1g})" if known else verdict


def anomalies(report: AnomalyReport) -> str:
    """The first NaN or inf, and its line of code."""
    told = how(ANOMALIES)
    if not report.found:
        text = f"No NaN and no inf in a loss of {report.loss:.6g} and the "
        text += f"gradients of {report.parameters} parameters."
        return paragraph(text) + told + notes(report.notes)
    node = f" ({report.node})" if report.node else ""
    kind = "NaN" if report.kind == "nan" else "Inf"
    count = f"{report.nan:,} NaN, {report.inf:,} inf of {report.numel:,}"
    pairs = [
        ("First", f"{kind} in {report.phase}, {report.op}{node}"),
        ("Module", report.module or "the model itself or the criterion"),
        ("Tensor", f"{report.shape}, {report.dtype}: {count}"),
        ("Likely cause", report.cause or "not known"),
        ("Loss", f"{report.loss:.6g}"),
        (
            "Gradients not finite",
            f"{len(report.gradients)} of {report.parameters}"
            f"{': ' if report.gradients else ''}{some(report.gradients)}",
        ),
    ]
    code = ""
    if report.place.file:
        place = f"{near(report.place.file)}:{report.place.line}"
        code = f"<pre>{e(place)}\n{e(report.place.code)}</pre>"
    return lines(pairs) + code + told + notes(report.notes)
