"""Art: what a figure function returned, as sheets of SVG that know their size. Nothing here knows a page."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from publish import frames, plots

WIDEST, NARROW = 688, 288  # px: the column on a laptop, and on a phone of 320 px


class NotArt(TypeError):
    """A figure function returned something that cannot be drawn."""


@dataclass(frozen=True)
class Sheet:
    """One drawing: its size in px, the body of the SVG, the classes that its style goes by."""

    width: float
    height: float
    body: str
    kind: str


@dataclass(frozen=True)
class Panel:
    """A drawing for wide columns, and another for narrow ones if they differ."""

    wide: Sheet
    tall: Sheet | None = None


@dataclass(frozen=True)
class Step:
    """One frame of a player; a figure is a single one without words."""

    panels: tuple[Panel, ...]
    tick: str = ""
    caption: str = ""
    phase: str = ""


def steps_of(made: Any) -> tuple[Step, ...]:
    """Draw a figure or a player. Raises NotArt."""
    if getattr(made, "kind", "") == "player":
        return tuple(
            Step(tuple(panels_of(frame.picture)), frame.tick, frame.caption, frame.phase) for frame in made.frames
        )
    return (Step(tuple(panels_of(made))),)


def panels_of(made: Any) -> Iterator[Panel]:
    kind = getattr(made, "kind", "")
    if kind == "picture":
        for panel in made.panels:
            wide = next(panels_of(panel.wide))
            yield Panel(wide.wide, next(panels_of(panel.tall)).wide if panel.tall else wide.tall)
    elif kind == "graph":
        across, down = (Sheet(*frames.draw(made, down), "shapes graph") for down in (False, True))
        yield Panel(down) if across.width > WIDEST else Panel(across, down)
    elif kind == "drawing":
        yield Panel(Sheet(made.width, made.height, made.body, "shapes drawing"))
    elif hasattr(made, "savefig"):
        yield Panel(Sheet(*plots.draw(made), "plot"))
    else:
        raise NotArt(f"it returned {type(made).__name__}, not a Drawing, Graph, Picture, Player or matplotlib figure")


def svg(sheet: Sheet, variant: str) -> str:
    """The element for a page. Its colours come from the style sheet, its words for a screen reader stand around it."""
    width, height = round(sheet.width), round(sheet.height)
    return (
        f'<svg class="art {sheet.kind}{variant}" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' style="--w:{width}" aria-hidden="true">{sheet.body}</svg>'
    )


def panels(step: Step, alt: str = "") -> str:
    """The drawings of one step. `alt` is said in their place; without it they are silent."""
    inside = "".join(
        svg(panel.wide, " wide") + svg(panel.tall, " tall") if panel.tall else svg(panel.wide, "")
        for panel in step.panels
    )
    role = f' role="img" aria-label="{escape(alt)}"' if alt else ""
    return f'<div class="panels" data-search-exclude{role}>{inside}</div>'
