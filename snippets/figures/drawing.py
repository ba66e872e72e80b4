# SPDX-License-Identifier: 0BSD
"""A canvas of SVG. One unit is one CSS pixel.

It writes classes, never a colour and never an id: the page's style
sheet (docs/assets/figures.css) has the colours of both schemes, and the
same picture may stand on a page twice. No text is under 12 px.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

Anchor = Literal["start", "middle", "end"]


def short(number: float) -> str:
    """A coordinate with one decimal, if it needs one."""
    return f"{number:.1f}".removesuffix(".0").replace("-0.0", "0")


@dataclass
class Drawing:
    """Shapes on a surface of `width` by `height`."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)
    kind: Literal["drawing"] = "drawing"

    @property
    def body(self) -> str:
        return "".join(self.parts)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        cls: str = "",
        anchor: Anchor = "middle",
    ) -> None:
        """Classes: `code` for the monospaced face, `name` bold, `small`
        12 px, `quiet` grey, `fwd`, `bwd`, `second` coloured."""
        side = "" if anchor == "start" else f' text-anchor="{anchor}"'
        kind = f' class="{cls}"' if cls else ""
        self.parts.append(
            f'<text x="{short(x)}" y="{short(y)}"{side}{kind}>'
            f"{escape(words, quote=False)}</text>"
        )

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        cls: str = "",
        corner: float = 0,
    ) -> None:
        kind = f' class="{cls}"' if cls else ""
        rx = f' rx="{short(corner)}"' if corner else ""
        self.parts.append(
            f'<rect x="{short(x)}" y="{short(y)}" width="{short(width)}"'
            f' height="{short(height)}"{rx}{kind}/>'
        )

    def circle(self, x: float, y: float, radius: float, cls: str = "") -> None:
        kind = f' class="{cls}"' if cls else ""
        self.parts.append(
            f'<circle cx="{short(x)}" cy="{short(y)}"'
            f' r="{short(radius)}"{kind}/>'
        )

    def path(self, d: str, cls: str = "") -> None:
        kind = f' class="{cls}"' if cls else ""
        self.parts.append(f'<path d="{d}"{kind}/>')

    def line(
        self, x0: float, y0: float, x1: float, y1: float, cls: str = "line"
    ) -> None:
        self.path(f"M{short(x0)} {short(y0)}L{short(x1)} {short(y1)}", cls)

    def open(self, cls: str) -> None:
        """Begin a group; `later` fades what is in it to 35 %."""
        self.parts.append(f'<g class="{cls}">')

    def close(self) -> None:
        self.parts.append("</g>")

    def blank(
        self,
        x: float,
        y: float,
        shape: tuple[int, int],
        cell: tuple[float, float],
        cls: str = "",
    ) -> None:
        """A matrix without entries: rows and columns as one path."""
        (rows, columns), (w, h) = shape, cell
        wide, high = short(columns * w), short(rows * h)
        d = f"M{short(x)} {short(y)}h{wide}v{high}h-{wide}z"
        for c in range(1, columns):
            d += f"M{short(x + c * w)} {short(y)}v{high}"
        for r in range(1, rows):
            d += f"M{short(x)} {short(y + r * h)}h{wide}"
        self.path(d, f"grid {cls}".strip())

    def grid(
        self,
        x: float,
        y: float,
        rows: Sequence[Sequence[str]],
        cell: tuple[float, float],
        cls: str = "",
        bold: frozenset[tuple[int, int]] = frozenset(),
        faded: frozenset[tuple[int, int]] = frozenset(),
        small: bool = False,
    ) -> None:
        """A matrix: a cell for each entry, with its text inside. Cells in
        `bold` have a thick outline, those in `faded` are drawn at 35 %."""
        w, h = cell
        font = "code small" if small else "code"
        self.open(f"grid {cls}".strip())
        late: list[tuple[float, float]] = []
        for r, row in enumerate(rows):
            for c, entry in enumerate(row):
                left, top = x + c * w, y + r * h
                fade = (r, c) in faded
                if fade:
                    self.open("later")
                self.rect(left, top, w, h)
                if entry:
                    self.text(left + w / 2, top + h / 2 + 4.5, entry, font)
                if fade:
                    self.close()
                if (r, c) in bold:
                    late.append((left, top))
        for left, top in late:  # over the outlines of the neighbours
            self.rect(left, top, w, h, "mark")
        self.close()
