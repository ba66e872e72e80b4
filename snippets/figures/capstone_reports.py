# SPDX-License-Identifier: 0BSD
"""The figures of capstone/reports: memory that several nodes saved, and the
norms of the gradients layer by layer.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from torch import Tensor, nn

from snippets.capstone.gradients import profile_gradient_flow
from snippets.figures.drawing import Drawing
from snippets.figures.picture import Panel, Picture
from snippets.figures.plot import BACKWARD, INK, QUIET, SMALL, axes

DIGITS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclass
class Block:
    """A storage and the nodes that saved a piece of it."""

    name: str
    size: int  # bytes
    kind: str  # "leaf" of a parameter, "fixed" of the batch, or ""
    by: list[int] = field(default_factory=list)


def model() -> tuple[nn.Sequential, Tensor, Tensor]:
    """The model of the page, its batch x (4, 2) and targets y (4, 1)."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    for p in net.parameters():
        p.data = torch.linspace(-1, 1, p.numel()).reshape(p.shape)
    x = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.0, 1.0], [2.0, 2.0]])
    return net, x, torch.tensor([[1.0], [0.0], [1.0], [0.0]])


def blocks() -> tuple[list[str], list[Block], int]:
    """Names of the nodes in the order of the forward, the storages that
    they saved, and the bytes of all saved tensors."""
    net, x, y = model()
    h = net[1](net[0](x))
    out = net[2](h)
    loss = nn.functional.mse_loss(out, y)
    known = {"x": x, "result of Tanh": h, "prediction": out, "y": y}
    known |= dict(net.named_parameters())
    names = {t.untyped_storage().data_ptr(): n for n, t in known.items()}
    kinds = dict.fromkeys(
        (p.untyped_storage().data_ptr() for p in net.parameters()), "leaf"
    )
    kinds |= {t.untyped_storage().data_ptr(): "fixed" for t in (x, y)}
    nodes: list[Any] = []
    waiting: list[Any] = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting += [n for n, _ in node.next_functions if n is not None]
    nodes.sort(key=lambda node: node._sequence_nr())
    found: dict[int, Block] = {}
    labels: list[str] = []
    referenced = 0
    for node in nodes:
        saved = [
            value
            for key in dir(node)
            if key.startswith("_saved_")
            and isinstance(value := getattr(node, key), Tensor)
        ]
        if saved:
            labels.append(node.name().removesuffix("Backward0"))
        for t in saved:
            referenced += t.numel() * t.itemsize
            place = t.untyped_storage()
            new = Block(
                names[place.data_ptr()],
                place.nbytes(),
                kinds.get(place.data_ptr(), ""),
            )
            found.setdefault(place.data_ptr(), new).by.append(len(labels) - 1)
    return labels, list(found.values()), referenced


def saved() -> Drawing:
    """Nodes on the left, blocks of memory on the right; a line for each
    saved tensor."""
    labels, found, referenced = blocks()
    held = sum(block.size for block in found if block.kind != "leaf")
    row, top = 46.0, 34.0
    art = Drawing(288, top + row * len(found) + 30)
    art.text(0, 16, "nodes", "large", "start")
    art.text(288, 16, "blocks of memory", "large", "end")
    step = (len(found) - 1) * row / max(len(labels) - 1, 1)
    middles = [top + 18 + step * k for k in range(len(labels))]
    for label, y in zip(labels, middles, strict=True):
        art.rect(1, y - 15, 78, 30, corner=2)
        art.text(40, y + 5, label, "code")
    for k, block in enumerate(found):
        y = top + 18 + row * k
        shared = len(block.by) > 1
        art.open(block.kind)
        art.rect(140, y - 18, 147, 36, "now" if shared else "", corner=2)
        art.text(148, y - 3, block.name, "small name", "start")
        note = f"{block.size} B"
        note += ", a parameter" if block.kind == "leaf" else ""
        note += f", saved {len(block.by)} times" if shared else ""
        quiet = "small" if block.kind == "leaf" else "small quiet"
        art.text(148, y + 12, note, quiet, "start")
        art.close()
        for each in block.by:
            art.line(79, middles[each], 139, y, "line fwd")
    total = f"referenced {referenced} B, held {held} B"
    art.text(144, art.height - 6, total, "name")
    return art


LAYERS = 24


def norms(scale: float, bias: float = 0.0) -> list[float]:
    """Norm of the weight gradient in each of 24 tanh layers of width 32.

    scale: the weights are drawn with the std scale/√32.
    bias: the value of every bias; a large one saturates the tanh.
    """
    draws = torch.Generator().manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layer = nn.Linear(32, 32, device="cpu")
        drawn = torch.randn(32, 32, generator=draws, device="cpu")
        layer.weight.data = drawn * scale / 32**0.5
        layer.bias.data.fill_(bias)
        layers += [layer, nn.Tanh()]
    x = torch.randn(16, 32, generator=draws, device="cpu")
    y = torch.randn(16, 32, generator=draws, device="cpu")
    report = profile_gradient_flow(
        nn.Sequential(*layers), x, y, nn.functional.mse_loss
    )
    rows = [row for row in report.rows if row.name.endswith("weight")]
    return [row.norm or 0.0 for row in rows]


def depth() -> Picture:
    """Norm against layer: two starts that give level lines, two that give
    slopes."""
    level = panel("Level: forward and back shrink alike")
    line(level, norms(1.0), INK, "s", "weights × 1", (12.5, 0.25))
    line(level, norms(0.5), BACKWARD, "o", "weights × 0.5", (12.5, 4e-9))
    slope = panel("Slope: each layer back multiplies")
    line(slope, norms(3.0), INK, "s", "weights × 3", (11.5, 120))
    line(slope, norms(1.0, 1.0), BACKWARD, "o", "bias 1", (17.5, 1e-4))
    return Picture((Panel(level.figure), Panel(slope.figure)))


def panel(title: str) -> Axes:
    """Axes with both thresholds of the report."""
    _, plot = axes(288, 260, left=46, bottom=42, right=8, top=30)
    plot.set_title(title, fontsize=SMALL, loc="left", x=-0.17, pad=10)
    for at, words in ((1e-6, "vanishing below"), (10.0, "exploding above")):
        plot.axhline(at, color=QUIET, linestyle="--", linewidth=1.25)
        plot.text(
            24.5, at * 1.4, words, fontsize=SMALL, color=QUIET, ha="right"
        )
    plot.set_yscale("log")
    plot.set_ylim(1e-9, 3e3)
    plot.xaxis.set_major_locator(FixedLocator([1, 6, 12, 18, 24]))
    powers = range(-8, 3, 2)
    plot.yaxis.set_major_locator(FixedLocator([10.0**k for k in powers]))
    plot.yaxis.set_major_formatter(
        FixedFormatter([f"10{str(k).translate(DIGITS)}" for k in powers])
    )
    plot.yaxis.set_minor_locator(NullLocator())
    plot.set_xlabel("layer, from the input (norm: log axis)")
    return plot


def line(
    plot: Axes,
    found: list[float],
    colour: str,
    marker: str,
    words: str,
    at: tuple[float, float],
) -> None:
    plot.plot(
        range(1, LAYERS + 1), found, color=colour, marker=marker, markersize=4
    )
    plot.text(*at, words, fontsize=SMALL, color=colour, ha="center")
