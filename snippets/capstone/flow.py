# SPDX-License-Identifier: 0BSD
"""What the gradients of a model mean, in a sentence each."""

import torch

from .findings import Finding, some
from .gradients import STATUSES, GradientReport, LayerVerdict
from .naming import layer_of, shown

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
    "whole batch; also of a product with 0, a mask or saturation, and of "
    "a next layer that begins at 0, as in LoRA.",
    "unused": "forward does not use them, or detach() or no_grad cuts "
    "them off.",
    "uninitialised": "Lazy parameters that forward does not reach.",
    "frozen": "requires_grad is False, so an optimiser will not train "
    "them. If that is not meant, set it to True.",
}


def from_gradients(report: GradientReport) -> list[Finding]:
    """One finding for each status other than ok, with most layers first."""
    without = {one.layer for one in report.layers if _no_effect(one, report)}
    found = []
    for status, severity in STATUSES.items():
        layers = [
            one
            for one in report.layers
            if one.status == status and one.layer not in without
        ]
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
        found.append((len(layers), new))
    found.sort(key=lambda pair: -pair[0])
    return [*(one for _, one in found), *_from_no_effect(without, report)]


def _no_effect(layer: LayerVerdict, report: GradientReport) -> bool:
    """Whether what vanishes is the bias of a sound layer, and rounding."""
    rows = [r for r in report.rows if shown(layer_of(r.name)) == layer.layer]
    sound = [r.norm for r in rows if r.norm is not None and r.status == "ok"]
    small = [r for r in rows if r.status in ("vanishing", "zero")]
    if layer.status not in ("vanishing", "zero") or not sound:
        return False
    return all(
        row.norm is not None
        and len(row.shape or ()) == 1
        and row.norm <= 30 * _eps(row.dtype) * max(sound)
        for row in small
    )


def _eps(dtype: str) -> float:
    return torch.finfo(getattr(torch, dtype)).eps


def _from_no_effect(layers: set[str], report: GradientReport) -> list[Finding]:
    names = tuple(
        row.name
        for row in report.rows
        if shown(layer_of(row.name)) in layers
        and row.status in ("vanishing", "zero")
    )
    if not names:
        return []
    return [
        Finding(
            "note",
            "gradients",
            "Parameters without effect",
            names,
            "Their gradient is 0 but for rounding, and that of the rest of "
            "their layer is not.",
            "Typical of the bias of the keys before a softmax, and of a bias "
            "before a normalisation: bias=False saves it.",
        )
    ]


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
        return f"No gradient reaches {some(r.name for r in rows)}: {count}."
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
