# SPDX-License-Identifier: 0BSD
"""The figures of chapters/tensors: views that share a storage, and shapes
that broadcasting stretches.
"""

import torch
from torch import Tensor

from snippets.figures.drawing import Drawing
from snippets.figures.picture import Panel, Picture
from snippets.figures.record import brief


def places(tensor: Tensor) -> list[list[int]]:
    """For each element of a matrix (or a vector, as one row): where it
    lies in the storage, counted in elements."""
    rows = tensor if tensor.dim() == 2 else tensor[None]
    down, across = rows.stride(0), rows.stride(1)
    first = int(rows.storage_offset())
    return [
        [first + r * down + c * across for c in range(rows.shape[1])]
        for r in range(rows.shape[0])
    ]


def aliasing() -> Picture:
    """A matrix, its transpose and a column of it: one storage. The
    elements of the column have a thick outline wherever they appear."""
    a = torch.arange(10.0, 16.0).reshape(2, 3)
    column = a[:, 1]
    views = [("a", a), ("a.T", a.T), ("a[:, 1]", column)]
    storage = a.untyped_storage().data_ptr()
    views = [v for v in views if v[1].untyped_storage().data_ptr() == storage]
    count = a.untyped_storage().nbytes() // a.element_size()
    memory = torch.as_strided(a, (count,), (1,), 0)
    marked = {place for row in places(column) for place in row}
    return Picture(
        (
            Panel(
                _aliasing(views, memory, marked, 684),
                _aliasing(views, memory, marked, 288),
            ),
        )
    )


def _aliasing(
    views: list[tuple[str, Tensor]],
    memory: Tensor,
    marked: set[int],
    width: float,
) -> Drawing:
    wide = width > 400
    cell = (44.0, 32.0)
    art = Drawing(width, 272 if wide else 548)
    strip = 212.0 if wide else 466.0
    left = (width - len(memory) * cell[0]) / 2
    columns = [0.0, 262.0, 488.0] if wide else [0.0] * 3
    tops = [0.0] * 3 if wide else [0.0, 140.0, 310.0]
    for (name, tensor), x, y in zip(views, columns, tops, strict=True):
        where = places(tensor)
        rows = tensor if tensor.dim() == 2 else tensor[None]
        bold = frozenset(
            (r, c)
            for r, row in enumerate(where)
            for c, place in enumerate(row)
            if place in marked
        )
        art.text(x, y + 14, name, "code name", "start")
        facts = (
            f"shape {tuple(tensor.shape)}, stride {tensor.stride()},"
            f" offset {tensor.storage_offset()}"
        )
        numbers = [[brief(n) for n in row] for row in rows.tolist()]
        art.grid(x + 1, y + 46, numbers, cell, bold=bold)
        art.text(x, y + 34, facts, "small quiet", "start")
    for (r, c), tensor in (
        ((0, k), views[-1][1]) for k in range(len(views[-1][1]))
    ):
        place = places(tensor)[r][c]
        x0 = columns[-1] + 1 + (c + 0.5) * cell[0]
        y0 = tops[-1] + 46 + cell[1]
        x1, y1 = left + (place + 0.5) * cell[0], strip
        middle = (y0 + y1) / 2
        art.path(
            f"M{x0:.0f} {y0:.0f}C{x0:.0f} {middle:.0f} {x1:.0f} {middle:.0f}"
            f" {x1:.0f} {y1 - 7:.0f}",
            "thin",
        )
        art.path(f"M{x1 - 4.5:.1f} {y1 - 8:.0f}h9l-4.5 8z", "head")
    bold = frozenset((0, place) for place in marked)
    numbers = [[brief(n) for n in memory.tolist()]]
    art.grid(left, strip, numbers, cell, bold=bold)
    for place in range(len(memory)):
        x = left + (place + 0.5) * cell[0]
        art.text(x, strip + cell[1] + 16, str(place), "small quiet")
    nbytes = memory.untyped_storage().nbytes()
    said = f"one storage, {nbytes} bytes"
    if wide:
        art.text(left - 14, strip + 20, said, "", "end")
    else:
        art.text(left, strip + cell[1] + 36, said, "", "start")
    return art


def broadcasting() -> Picture:
    """A column plus a row: each is read as if it were the whole table.
    What is repeated but not stored is drawn at 35 %."""
    a = torch.tensor([[0.0], [10.0], [20.0]])
    b = torch.tensor([1.0, 2.0, 3.0, 4.0])
    total = a + b
    return Picture(
        (
            Panel(
                _broadcasting(a, b, total, 684),
                _broadcasting(a, b, total, 288),
            ),
        )
    )


def _broadcasting(a: Tensor, b: Tensor, total: Tensor, width: float) -> Drawing:
    wide = width > 400
    cell = (44.0, 32.0)
    rows, columns = total.shape
    block = columns * cell[0]
    high = 62 + rows * cell[1]
    art = Drawing(width, high + 4 if wide else 3 * high + 56)
    for k, (name, tensor) in enumerate((("a", a), ("b", b), ("a + b", total))):
        x = 1 + k * (block + 76) if wide else 56.0
        y = 0.0 if wide else k * (high + 24)
        grown = tensor.expand(total.shape)
        ghosts = frozenset(
            (r, c)
            for r in range(rows)
            for c in range(columns)
            if (grown.stride(0) == 0 and r) or (grown.stride(1) == 0 and c)
        )
        art.text(x, y + 14, name, "code name", "start")
        said = f"shape {tuple(tensor.shape)}"
        if ghosts:
            said += f", read with stride {grown.stride()}"
        art.text(x, y + 34, said, "small quiet", "start")
        numbers = [[brief(n) for n in row] for row in grown.tolist()]
        art.grid(x, y + 48, numbers, cell, faded=ghosts)
        if k:
            sign = "+" if k == 1 else "="
            middle = y + 48 + rows * cell[1] / 2 + 5
            art.text(x - 38 if wide else 28, middle, sign, "large")
    return art
