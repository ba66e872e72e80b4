# SPDX-License-Identifier: 0BSD
"""What a figure function may return.

A `Drawing` that fits a phone (288 px) as it is, a `Graph` that is laid
out while the site is built, a figure of matplotlib (see
`snippets.figures.plot`), a `Picture` of several of them, or a `Player`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from snippets.figures.drawing import Drawing
from snippets.figures.record import Trace, Value

Phase = Literal["", "fwd", "bwd", "second"]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Moment:
    """What a drawing of a trace shows.

    made: how many forward ops have run. now: the thing that is active.
    phase: what it does. seeded: backward has been called. done: how
    many events of the trace have happened. freed: nodes whose saved
    tensors are gone. grads: the `.grad` of each leaf that has one.
    """

    made: int
    now: int | None = None
    phase: Phase = ""
    seeded: bool = False
    done: int = 0
    freed: tuple[int, ...] = ()
    grads: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """A trace at one moment. `output` is the name of the result."""

    trace: Trace
    moment: Moment
    output: str = "y"
    kind: Literal["graph"] = "graph"


@dataclass(frozen=True)
class Panel:
    """One part of a picture. `wide` is shown where there is room for it
    (at most 684 px), `tall` elsewhere (at most 288 px); without `tall`,
    `wide` is shown everywhere. A graph makes its own two."""

    wide: Any
    tall: Drawing | None = None


@dataclass(frozen=True)
class Picture:
    """Panels beside each other, or below each other where it is narrow."""

    panels: tuple[Panel, ...]
    kind: Literal["picture"] = "picture"


@dataclass(frozen=True)
class Frame:
    """One step of a player. `tick` names it under the slider in a word."""

    tick: str
    caption: str
    picture: Any
    phase: Phase = ""


@dataclass(frozen=True)
class Player:
    """Steps through a run. The last frame stands for it in notebooks."""

    frames: tuple[Frame, ...]
    kind: Literal["player"] = "player"


def measured(function: Function) -> Function:
    """Marks a figure whose numbers depend on the machine: its drawing is
    kept on disk until its source or torch changes."""
    function.measured = True  # type: ignore[attr-defined]
    return function
