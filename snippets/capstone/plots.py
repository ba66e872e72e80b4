# SPDX-License-Identifier: 0BSD
"""Plots as inline SVG, each once for a wide and once for a narrow page.

All colours are classes, see `style`. What a colour says is also written.
"""

import html
import math
from collections.abc import Callable, Sequence

from .curvature import CurvatureReport
from .gradients import STATUSES, GradientReport, LayerVerdict
from .memory import SavedRow
from .storage import size

ROW, LOW = 22, 16  # height of a row, and of one of many
MOST = 100  # rows in a plot

Draw = Callable[[int], tuple[list[str], int]]  # width → elements, height


def both(draw: Draw, title: str, text: str) -> str:
    """Return the drawing at two widths; the page shows one of them.

    title, text: what it is and what is to be seen, for those who do not
        see it.
    """
    shown = []
    for kind, width in (("wide", 920), ("narrow", 340)):
        parts, height = draw(width)
        name = html.escape(f"{title}. {text}")
        shown.append(
            f'<svg class="{kind}" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" '
            f'aria-label="{name}">{"".join(parts)}</svg>'
        )
    return "".join(shown)


def norms_plot(report: GradientReport) -> str:
    """Norm of the gradient of each layer, on a log scale."""
    layers = chosen(report.layers)
    known = [one.norm for one in layers if _drawn(one.norm)]
    values = [n for n in known if n] or [1.0]
    low = max(min(*values, report.vanishing), 1e-45)
    high = min(max(*values, report.exploding), 1e38)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    row = ROW if len(layers) <= 30 else LOW

    def draw(width: int) -> tuple[list[str], int]:
        name, status = columns(width, [one.layer for one in layers])
        left, right = name, width - status
        bottom = 24 + row * len(layers)

        def x(value: float) -> float:
            share = (math.log10(value) - first) / (last - first)
            return left + (right - left) * min(max(share, 0), 1)

        parts = _decades(first, last, x, bottom, width)
        for value, text in (
            (report.vanishing, "vanishing"),
            (report.exploding, "exploding"),
        ):
            parts.append(line(x(value), 20, x(value), bottom, "limit"))
            parts.append(label(x(value), 12, text, "quiet", "middle"))
        for k, one in enumerate(layers):
            y = 24 + row * k + row / 2
            parts.append(path(0, y, one.layer, name - 8))
            parts += _lollipop(one, left, x, y)
            strong = "" if one.status == "ok" else "strong"
            parts.append(label(right + 10, y + 4, one.status, strong))
        return parts, bottom + 22

    odd = sum(one.status != "ok" for one in report.layers)
    text = (
        f"{len(report.layers)} layers, {odd} of them not ok; norms from "
        f"{min(values):.2g} to {max(values):.2g}. The table has all numbers"
    )
    return both(draw, "Gradient norm of each layer, log scale", text)


def chosen(layers: Sequence[LayerVerdict]) -> list[LayerVerdict]:
    """At most MOST layers, in order: those that are not ok before others."""
    order = sorted(range(len(layers)), key=lambda k: layers[k].status == "ok")
    return [layers[k] for k in sorted(order[:MOST])]


def _drawn(norm: float | None) -> bool:
    return norm is not None and math.isfinite(norm) and norm > 0


def _lollipop(
    one: LayerVerdict, left: float, x: Callable[[float], float], y: float
) -> list[str]:
    kind = STATUSES[one.status] or "bar"
    norm = one.norm
    if norm is None:  # nothing to measure
        return [f'<circle class="none" cx="{left + 5}" cy="{y}" r="4"/>']
    if not math.isfinite(norm):
        return [label(left + 4, y + 4, f"{norm}", f"{kind} strong")]
    end = x(norm) if norm else left
    parts = [line(left, y, end, y, "thin")]
    if kind == "bar":
        circle = f'<circle class="bar" cx="{end:.1f}" cy="{y}" r="4.5"/>'
        return [*parts, circle]
    corners = [(-5.5, 0), (0, -5.5), (5.5, 0), (0, 5.5)]
    points = " ".join(f"{end + a:.1f},{y + b:.1f}" for a, b in corners)
    return [*parts, f'<polygon class="{kind}" points="{points}"/>']


def _decades(
    first: int, last: int, x: Callable[[float], float], bottom: int, width: int
) -> list[str]:
    step = max(1, math.ceil((last - first) / (8 if width > 400 else 3)))
    parts = []
    for power in range(first, last + 1, step):
        at = x(10.0**power) if power > -300 else x(1e-300)
        parts.append(line(at, 20, at, bottom, "grid"))
        parts.append(label(at, bottom + 16, f"1e{power}", "quiet", "middle"))
    return parts


def bytes_plot(rows: Sequence[SavedRow]) -> str:
    """Bytes that each module was the first to save, as bars."""
    shown = [row for row in rows if row.held][:20]
    most = max((row.held for row in shown), default=1)

    def draw(width: int) -> tuple[list[str], int]:
        name, number = columns(width, [row.name for row in shown])
        room = width - name - number
        parts = []
        for k, row in enumerate(shown):
            y = ROW * k
            long = max(1.0, room * row.held / most)
            parts.append(path(0, y + ROW / 2, row.name, name - 8))
            parts.append(
                f'<rect class="bar" x="{name}" y="{y + 4}" '
                f'width="{long:.1f}" height="{ROW - 8}"/>'
            )
            text = size(row.held)
            parts.append(label(name + long + 8, y + ROW / 2 + 4, text))
        return parts, ROW * len(shown) + 4

    text = ", ".join(f"{row.name} {size(row.held)}" for row in shown[:5])
    return both(draw, "Saved bytes of each module, the largest first", text)


_FLOOR = -6  # of the exponent of a weight that is drawn


def _weights(
    left: float, right: float, y: Callable[[float], float]
) -> list[str]:
    parts = []
    for power in range(0, _FLOOR - 1, -2):
        at = y(10.0**power)
        parts.append(line(left, at, right, at, "grid"))
        text = "1" if power == 0 else f"1e{power}"
        parts.append(label(left - 22, at + 4, text, "quiet", "end"))
    return parts


def spectrum_plot(report: CurvatureReport) -> str:
    """Ritz values with their weights, on a log scale of the weight."""
    values, weights = report.spectrum, report.weights
    low, high = min(*values, 0.0), max(*values, 0.0)
    span = (high - low) or 1.0

    def draw(width: int) -> tuple[list[str], int]:
        left, right, top, bottom = 66, width - 44, 16, 176

        def x(value: float) -> float:
            return left + (right - left) * (value - low) / span

        def y(weight: float) -> float:
            power = max(math.log10(weight), _FLOOR) if weight > 0 else _FLOOR
            return top + (bottom - top) * power / _FLOOR

        parts = _weights(left, right, y)
        parts.append(line(x(0), top, x(0), bottom, "axis"))
        parts.append(line(left, bottom, right, bottom, "axis"))
        for value, weight in zip(values, weights, strict=True):
            at = x(value)
            parts.append(line(at, bottom, at, y(weight), "stem"))
            parts.append(
                f'<circle class="bar" cx="{at:.1f}" cy="{y(weight):.1f}" '
                f'r="3.5"/>'
            )
        ends = {x(v): f"{v:.3g}" for v in (0.0, low, high)}
        for at, text in ends.items():
            if text == "0" and any(0 < abs(at - o) < 40 for o in ends):
                continue  # no room
            parts.append(label(at, bottom + 18, text, "quiet", "middle"))
        return parts, 204

    text = (
        f"{len(values)} values from {min(values):.3g} to {max(values):.3g}; "
        f"the top eigenvalue is {report.eigenvalue:.3g}"
    )
    return both(draw, "Ritz values and their weights", text)


def columns(width: int, names: Sequence[str]) -> tuple[float, int]:
    """Widths of the columns of names, on the left, and of words."""
    most, words = (290, 90) if width > 400 else (128, 76)
    longest = max(map(len, names), default=0)
    return min(most, max(40, 7.3 * longest + 18)), words


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return (
        f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" '
        f'y2="{y2:.1f}"/>'
    )


def label(
    x: float, y: float, text: str, kind: str = "", anchor: str = "start"
) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" '
        f'text-anchor="{anchor}">{html.escape(text)}</text>'
    )


def path(x: float, y: float, text: str, room: float) -> str:
    """A module path, its beginning left out where it is too long."""
    most = int(room / 7.3)
    short = text if len(text) <= most else f"…{text[-most + 1 :]}"
    return label(x, y + 4, short, "path")
