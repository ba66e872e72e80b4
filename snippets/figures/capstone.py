# SPDX-License-Identifier: 0BSD
"""Figures of the capstone's page, drawn from reports of its examples."""

import math

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from torch import Tensor, nn

from snippets.capstone import AutogradDebuggerSuite
from snippets.capstone.examples import DeepTanh, batch
from snippets.capstone.gradients import GradientReport
from snippets.figures.plot import BACKWARD, FORWARD, INK, QUIET, SMALL, axes


class _Skipping(DeepTanh):
    """The same layers, each added to what it was given."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x).tanh()
        return torch.as_tensor(self.head(x))


def _report(kind: type[nn.Module]) -> GradientReport:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind().cpu()
        torch.manual_seed(0)
        x, y = (t.cpu() for t in batch())
        suite = AutogradDebuggerSuite(model, nn.MSELoss())
        return suite.profile_gradient_flow(x, y)


def _norms(report: GradientReport) -> list[float]:
    return [one.norm or math.nan for one in report.layers]


def vanishing() -> Figure:
    """Gradient norm of each layer, as it is and with skip connections."""
    tool, cured = _report(DeepTanh), _norms(_report(_Skipping))
    norms = _norms(tool)
    layers = range(len(norms))
    figure, plot = axes(288, 236, left=50, bottom=42, right=12, top=18)
    plot.semilogy(layers, norms, "o", color=BACKWARD, markersize=3.5)
    plot.semilogy(layers, cured, "s", color=FORWARD, markersize=3)
    plot.axhline(tool.vanishing, color=QUIET, linewidth=1.25, dashes=(4, 3))
    powers = range(-12, 3, 2)
    plot.yaxis.set_major_locator(FixedLocator([10.0**k for k in powers]))
    plot.yaxis.set_major_formatter(FixedFormatter([f"1e{k}" for k in powers]))
    plot.yaxis.set_minor_locator(NullLocator())
    plot.set_ylim(1e-12, 1e3)
    plot.set_xlabel("layer, from the input to the head")
    plot.set_title(
        "‖gradient‖ of the layer (log)", fontsize=SMALL, color=INK, loc="left"
    )
    text = "below 1e-6: vanishing"
    plot.text(
        40, tool.vanishing / 30, text, color=QUIET, fontsize=SMALL, ha="right"
    )
    plot.text(3, cured[0] * 6, "with skips", color=FORWARD, fontsize=SMALL)
    text = f"as it is: {norms[0]:.0e}"
    plot.text(2, norms[0] / 9, text, color=BACKWARD, fontsize=SMALL)
    return figure
