# SPDX-License-Identifier: 0BSD
"""The figure of labs/graph_printer: what `as_svg` draws, in page colours."""

import re

import torch

from snippets.figures.drawing import Drawing
from snippets.labs.graph_printer import as_svg, graph_of

BOX = re.compile(r'<rect [^>]*stroke-width="([\d.]+)"[^>]*opacity="([\d.]+)"/>')


def recurrence() -> Drawing:
    """Two steps of a recurrence that share one weight, as on the page."""
    cell = torch.nn.Linear(2, 2, bias=False)
    h = torch.zeros(1, 2)
    for _ in range(2):
        h = torch.tanh(cell(h) + 1)
    return in_page_colours(as_svg(graph_of(h, {"cell": cell, "h": h})))


def in_page_colours(svg: str) -> Drawing:
    """The shapes of a drawing with the classes of the site's style sheet,
    which would otherwise colour them by their kind."""
    head, _, body = svg.partition("</title>")
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', head)
    assert size is not None
    body = body.removesuffix("</svg>").replace("\n", "")
    body = BOX.sub(_classed, body)
    body = body.replace("<text ", '<text class="code small" ')
    body = re.sub(r'(<path d="[^"]*z") fill="\w+"', r'\1 class="head"', body)
    body = re.sub(r'(<path d="[^"]*C[^"]*")', r'\1 class="thin"', body)
    body = f'<g text-anchor="middle">{body}</g>'
    return Drawing(float(size[1]), float(size[2]), [body])


def _classed(box: re.Match[str]) -> str:
    shared, is_leaf = float(box[1]) > 1, float(box[2]) > 0
    classes = "leaf" * is_leaf + " now" * shared
    return f'<g class="{classes.strip()}">{box[0]}</g>' if classes else box[0]
