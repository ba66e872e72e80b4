# SPDX-License-Identifier: 0BSD
"""Axes in the visual language. One point of matplotlib is one CSS pixel.

The colours here stand for words: the page gives each its own shade in
light and in dark. Any other colour fails the build.
"""

from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, QUIET, PAGE = "#1b1f24", "#57606a", "#ffffff"
FORWARD, BACKWARD, SECOND = "#0072b2", "#d55e00", "#a8447d"

SMALL = 12  # px, and no text is smaller: `plot.text(…, fontsize=SMALL)`

STYLE: Any = {
    "font.size": SMALL,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 1.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "lines.linewidth": 2,
    "path.simplify": True,
}


def axes(width: int, height: int, **margins: float) -> tuple[Figure, Axes]:
    """A figure of `width` by `height` px and its axes.

    margins: left, right, top, bottom in px around the axes.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        plot = figure.add_subplot()
        for axis in (plot.xaxis, plot.yaxis):
            axis.label.set_fontsize(SMALL)
            axis.set_tick_params(labelsize=SMALL)
    left, bottom = margins.get("left", 52), margins.get("bottom", 40)
    right, top = margins.get("right", 12), margins.get("top", 12)
    figure.subplots_adjust(
        left / width,
        bottom / height,
        1 - right / width,
        1 - top / height,
    )
    return figure, plot
