"""Places boxes and roads with Graphviz, as WebAssembly in V8: there is no program to install.

A road enters and leaves a box at a port, so that several inputs of one node arrive side by side. Lengths are CSS
pixels; Graphviz takes them for points.
"""

import atexit
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from py_mini_racer import MiniRacer

VIZ = Path(__file__).parent / "vendor" / "viz" / "viz-global.js"
# What viz.js expects of a browser and bare V8 lacks; without `location` it asks for Node's `require`.
# Expat draws random numbers for its hash tables; here the same ones every time.
BROWSER = """var location = {href: "viz"};
globalThis.TextDecoder = class {
  decode(b) { let s = ""; for (const c of b) s += String.fromCharCode(c); return decodeURIComponent(escape(s)) } };
globalThis.TextEncoder = class {
  encode(s) { return Uint8Array.from(unescape(encodeURIComponent(s)), c => c.charCodeAt(0)) } };
globalThis.crypto = {getRandomValues: array => array.fill(7)};
"""
INCH = 72

Point = tuple[float, float]


class LayoutError(ValueError):
    """Graphviz refused a graph; a mistake of ours, not of a page."""


@dataclass(frozen=True)
class Box:
    """Size in px, and where roads meet it: offsets along the side, from its top (or from its left, going down)."""

    width: int
    height: int
    inputs: tuple[int, ...] = ()
    output: int | None = None


@dataclass(frozen=True)
class Edge:
    """From the output of a box to an input of another. Graphviz keeps a heavy edge straight."""

    source: str
    target: str
    slot: int
    weight: int = 1


@dataclass(frozen=True)
class Placed:
    """Top left corner of each box, the route of each edge (start, then triples of a Bézier curve), and the size."""

    corners: dict[str, Point]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


@cache
def engine() -> MiniRacer:
    """Started by the first graph; a process needs no more than one."""
    v8 = MiniRacer()
    # Left to the interpreter's own end, it waits now and then for a thread that is gone already, for ever.
    atexit.register(v8.close)
    v8.eval(BROWSER + VIZ.read_text(encoding="utf-8"))
    v8.eval("var viz; Viz.instance().then(made => { viz = made; return 1 })").get(timeout=60)  # type: ignore[union-attr]
    return v8


def place(
    boxes: Mapping[str, Box], edges: Sequence[Edge], *, down: bool, gap: float, rank_gap: float, pad: int = 0
) -> Placed:
    """Lay out a graph from left to right, or from top to bottom where `down`. Raises LayoutError.

    `pad` is room on both sides of a box, across the flow, that no road may take.
    """
    boxes = {name: padded(box, down, pad) for name, box in boxes.items()}
    lines = [
        f"digraph {{ rankdir={'TB' if down else 'LR'}; ranksep={rank_gap / INCH:.3f};",
        f"nodesep={max(2, gap - 2 * pad) / INCH:.3f};",
        "splines=true; ordering=in; node [shape=plain, margin=0];",
    ]
    lines += [f"{name} [label=<{table(box, down)}>];" for name, box in boxes.items()]
    leave, enter = ("s", "n") if down else ("e", "w")
    lines += [
        f"{edge.source}:o:{leave} -> {edge.target}:i{edge.slot}:{enter} [id={k}, weight={edge.weight}, arrowhead=none];"
        for k, edge in enumerate(edges)
    ]
    source = json.dumps("\n".join(lines) + "}")
    answer = json.loads(str(engine().eval(f'JSON.stringify(viz.render({source}, {{format: "json"}}))')))
    if answer["status"] != "success":
        raise LayoutError("; ".join(error["message"] for error in answer["errors"]))
    return read(json.loads(answer["output"]), boxes, (pad, 0) if down else (0, pad))


def read(answer: dict[str, object], boxes: Mapping[str, Box], pad: Point) -> Placed:
    """What Graphviz answered, in px, with y growing downwards."""
    _, _, width, height = (float(part) for part in str(answer["bb"]).split(","))
    corners: dict[str, Point] = {}
    for thing in answer["objects"]:  # type: ignore[attr-defined]
        x, y = (float(part) for part in thing["pos"].split(","))
        box = boxes[thing["name"]]
        corners[thing["name"]] = (x - box.width / 2 + pad[0], height - y - box.height / 2 + pad[1])
    routes = []
    for edge in sorted(answer["edges"], key=lambda edge: int(edge["id"])):  # type: ignore[call-overload]
        numbers = [part.split(",") for part in edge["pos"].split() if not part.startswith(("e,", "s,"))]
        routes.append(tuple((float(x), height - float(y)) for x, y in numbers))
    return Placed(corners, tuple(routes), width, height)


def padded(box: Box, down: bool, pad: int) -> Box:
    width, height = (box.width + 2 * pad, box.height) if down else (box.width, box.height + 2 * pad)
    output = None if box.output is None else box.output + pad
    return Box(width, height, tuple(port + pad for port in box.inputs), output)


def table(box: Box, down: bool) -> str:
    """An HTML-like label of exactly the box's size, with a cell of 2 px for each port: inputs in the first row or
    column, the output in the second."""
    long, thick = (box.width, box.height) if down else (box.height, box.width)
    outputs = () if box.output is None else (box.output,)
    cuts = sorted({0, long, *(at + d for at in (*box.inputs, *outputs) for d in (-1, 1))})
    first = dict(zip((at - 1 for at in box.inputs), (f"i{k}" for k in range(len(box.inputs))), strict=True))
    second = {at - 1: "o" for at in outputs}
    sides = [
        [cell(second_or_first.get(start), end - start, half, down) for start, end in pairwise(cuts)]
        for second_or_first, half in ((first, thick // 2), (second, thick - thick // 2))
    ]
    rows = sides if down else [list(pair) for pair in zip(*sides, strict=True)]
    body = "".join(f"<TR>{''.join(row)}</TR>" for row in rows)
    return (
        f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0" FIXEDSIZE="TRUE"'
        f' WIDTH="{box.width}" HEIGHT="{box.height}">{body}</TABLE>'
    )


def cell(port: str | None, along: int, across: int, down: bool) -> str:
    name = f' PORT="{port}"' if port else ""
    width, height = (along, across) if down else (across, along)
    return f'<TD{name} FIXEDSIZE="TRUE" WIDTH="{width}" HEIGHT="{height}"></TD>'
