# SPDX-License-Identifier: 0BSD
"""The sections of the page: one function for each report."""

import math

from .anomalies import AnomalyReport
from .culprit import EVAL, LossDerivatives
from .curvature import CurvatureReport
from .derivatives import DerivativeReport
from .findings import some
from .gradients import GradientReport
from .graph import GraphReport
from .memory import SavedReport
from .parts import e, facts, figure, how, notes, paragraph, table
from .plots import MOST, bytes_plot, norms_plot, spectrum_plot
from .storage import size


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
        how(
            "depth(n) = 1 + max over inputs m of depth(m), 0 for a leaf",
            "Each node is counted once. Depth is the number of edges on the "
            "longest way from the loss to a leaf; a shared node has more "
            "than one edge leading to it.",
        ),
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
                (
                    "Held",
                    f"{size(saved.held)}, of it {size(saved.of_batch)} "
                    "the batch",
                ),
                ("Parameters beside it", size(saved.parameters)),
                ("Buffers beside it", size(saved.buffers)),
            ]
        ),
        how(
            "held = Σ bytes(storage), each storage once",
            "Referenced counts each saved tensor, elements × bytes of one. "
            "Held counts each block of memory once, for the module that was "
            "the first to save it, without parameters and buffers.",
        ),
    ]
    if any(row.held for row in saved.by_module):
        text = "Memory held for backward, by module (at most 20)."
        parts.append(figure(bytes_plot(saved.by_module), text))
    for kind, rows in (("module", saved.by_module), ("op", saved.by_op)):
        cells = [
            (r.name, f"{r.tensors:,}", size(r.referenced), size(r.held))
            for r in rows[:40]
        ]
        name = "operation" if kind == "op" else kind
        head = (name.capitalize(), "Tensors", "Referenced", "Held")
        parts.append(table(f"Saved by {name}", head, cells))
    return "".join(parts)


def gradients(report: GradientReport) -> str:
    """Norms by layer, and all numbers by parameter."""
    loss = "–" if report.loss is None else f"{report.loss:.6g}"
    more = len(report.layers) - MOST
    text = "A diamond is a warning or an error, an empty ring no gradient; a "
    text += "norm of 0 is drawn at the left edge."
    text += f" {more} layers that are ok are left out." if more > 0 else ""
    head = ("Parameter", "Shape", "Dtype", "Norm", "Mean", "Std", "Max abs")
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
            how(
                "norm = √Σ|gᵢ|², total = √Σ norm², g = dL/dθ",
                "One forward and one backward; a tied weight counts once. "
                "Std divides by n − 1. A layer has the worst status of its "
                "parameters.",
            ),
            figure(norms_plot(report), text),
            table(
                "Gradient of each parameter, in the order of the model",
                (*head, "Status"),
                _rows(report),
                "left",
            ),
            notes(report.notes),
        ]
    )


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
            "Hv = d(g·v)/dθ,  Hx = λx,  tr H = E[zᵀHz],  z = ±1",
            "The eigenvalue is by Lanczos, its residual ‖Hx − λx‖ / |λ|; "
            "the trace by random signs, ± its standard error. Along v is "
            "vᵀHv for one random unit vector and says nothing of others. "
            "The self-check compares Hv with differences of gradients.",
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
    return facts(
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
        how(
            "vᵀJu  against  vᵀ(f(x + hu) − f(x − hu)) / 2h",
            "Backward against central differences, in float64 where the "
            "model can, at the given point and near it. The second order of "
            "the loss is one Hessian product against differences of "
            "gradients, that of a module the same for its gradient.",
        ),
    ]
    if report.mode == "eval":
        parts.append(notes([EVAL]))
    if report.module:
        place = f"<code>{e(report.module)}</code> ({e(report.kind)})"
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
    return facts(pairs) + notes(report.notes)


def _with(verdict: str, error: float) -> str:
    known = not math.isnan(error) and error > 0
    return f"{verdict} (error {error:.1g})" if known else verdict


def anomalies(report: AnomalyReport) -> str:
    """The first NaN or inf, and its line of code."""
    formula = "first result with an entry that is NaN or ±inf"
    told = how(
        formula,
        "Each result of each operation is looked at, forwards and backwards. "
        "What a mask absorbs before the loss and the gradients is a note.",
    )
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
        place = f"{report.place.file}:{report.place.line}"
        code = f"<pre>{e(place)}\n{e(report.place.code)}</pre>"
    return facts(pairs) + code + told + notes(report.notes)
