"""Draws a recorded graph at one moment, in the signs of the visual language.

Everything has its place before anything is drawn, so that the frames of a player differ only in what they show. Each
road has two lanes, forward above (left, going down) and backward below (right). One unit is one CSS pixel.
"""

from functools import lru_cache
from math import ceil
from typing import Any

from publish import routes
from publish.layout import Box, Edge, Point, place
from publish.routes import LANE, Area, Route

CHIP, OUT, TAG, NODE, ACC = 42, 42, 24, 60, 13  # heights of leaf, result, tensor on a lane, node; side of the square
PORT = 4 * LANE  # from one input of a node to the next
PIN = 33  # a saved tensor stands this far out
LETTER, SMALL, LABEL = 8.4, 7.2, 7.8  # widths of a letter at 14, 12 and 13 px


class Scene:
    """Where everything of a trace is. Things are numbered as in the trace; the result is -1."""

    def __init__(self, trace: Any, output: str, down: bool) -> None:
        self.trace, self.output, self.down = trace, output, down
        self.first = len(trace.leaves)
        self.inputs: dict[int, list[Any]] = {k: [] for k in range(self.first, self.first + len(trace.nodes))}
        for road in trace.roads:
            self.inputs[road.target].append(road)
        self.boxes: dict[int, Box] = {}
        self.inner: dict[int, Area] = {}  # the chip or rectangle inside its box
        for thing, leaf in enumerate(trace.leaves):
            self.leaf(thing, leaf)
        for thing, node in enumerate(trace.nodes, self.first):
            self.node(thing, node)
        wide = max(72, ceil(LETTER * len(f"{output} = {trace.result.text}")) + 20)
        self.boxes[-1] = Box(wide, OUT, (wide // 2 if down else OUT // 2,))
        self.inner[-1] = Area(0, 0, wide, OUT)
        self.lay_out()
        self.routes = [self.route(*each) for each in self.roads]
        self.labels = self.place_labels()

    # -- sizes ---------------------------------------------------------------------------------------------------
    def leaf(self, thing: int, leaf: Any) -> None:
        """A chip, and under it the square of its AccumulateGrad with room for `.grad`."""
        title = f"{leaf.name} = {leaf.value.text}" if leaf.value.shape == () else leaf.name
        chip = max(
            72 if self.down else 78, ceil(LETTER * len(title)) + 26, ceil(SMALL * len(str(leaf.value.shape))) + 26
        )
        height = CHIP + 8 + ACC + 2 if leaf.needs_grad else CHIP
        grad = self.trace.grads.get(leaf.name)
        label = ceil(LABEL * len(f".grad {grad.text}")) if grad else 0
        if self.down:
            width = max(chip, chip // 2 + 28 + label) if label else chip
            self.boxes[thing] = Box(width, height, (), chip // 2)
            self.inner[thing] = Area(0, 0, chip, CHIP)
        else:
            width = max(chip, label + ACC + 6)
            self.boxes[thing] = Box(width, height, (), CHIP // 2)
            self.inner[thing] = Area(width - chip, 0, chip, CHIP)

    def node(self, thing: int, node: Any) -> None:
        """A rectangle with its name, and its pins: above it, or left of it where the graph goes down."""
        count, pins = max(1, len(self.inputs[thing])), [saved.value.text for saved in node.saved]
        rest = node.name.removeprefix(node.op)
        wide = max(80 if self.down else 88, ceil(LETTER * len(node.op)) + 22, ceil(SMALL * len(rest)) + 18)
        if self.down:
            wide, high = max(wide, PORT * count), max(NODE, 24 * len(pins) + 12)
            side = ceil(23 + SMALL * max(map(len, pins))) if pins else 0
            ports = tuple(side + wide // 2 + int((k - (count - 1) / 2) * PORT) for k in range(count))
            self.boxes[thing] = Box(side + wide, high, ports, side + wide // 2)
            self.inner[thing] = Area(side, 0, wide, high)
        else:
            wide, high = max(wide, ceil(sum(23 + SMALL * len(pin) for pin in pins))), max(NODE, PORT * count)
            top = PIN if pins else 0
            ports = tuple(top + high // 2 + int((k - (count - 1) / 2) * PORT) for k in range(count))
            self.boxes[thing] = Box(wide, top + high, ports, top + high // 2)
            self.inner[thing] = Area(0, top, wide, high)

    def tag(self, source: int, output: int) -> str:
        return str(self.trace.node(source).outputs[output].text)

    # -- places --------------------------------------------------------------------------------------------------
    def lay_out(self) -> None:
        last, nr = self.trace.last
        self.roads = [
            (r.source, r.output, r.target, k, r.slot) for t in self.inputs for k, r in enumerate(self.inputs[t])
        ]
        self.roads.append((last, nr, -1, 0, 0))
        names = {thing: "out" if thing < 0 else f"n{thing}" for thing in self.boxes}
        edges = [Edge(names[s], names[t], k, 1 if s < self.first else 20) for s, _, t, k, _ in self.roads]
        self.tags = {(s, o): self.tag(s, o) for s, o, t, _, _ in self.roads if s >= self.first and t >= 0}
        widest = max((self.tag_width(text) for text in self.tags.values()), default=0)
        leaving = [(s, o) for s, o, *_ in self.roads if s >= self.first]
        self.lead = 8 + (TAG if self.down else widest) + 4
        parting = len(set(leaving)) < len(leaving)  # roads that part, or that turn far, need room to do so
        boxes = {names[thing]: box for thing, box in self.boxes.items()}
        for bend, pad in ((46 if parting else 18, 0), (46, 0), (46, 2 * LANE)):
            placed = place(
                boxes,
                edges,
                down=self.down,
                gap=8 if self.down else 14,
                rank_gap=max(62 if self.down else 66, self.lead + bend),
                pad=pad,
            )
            self.found = placed.routes
            self.corners = {thing: placed.corners[names[thing]] for thing in self.boxes}
            self.at = {thing: area.moved(*self.corners[thing]) for thing, area in self.inner.items()}
            self.width, self.height = placed.width, placed.height
            if pad or not (self.passing() or (bend < 46 and self.turning())):
                break
            # A road that passes other boxes keeps away from them where they seem larger than they are.

    def turning(self) -> bool:
        """Whether a road from node to node bends by more than its own width."""
        axis = 0 if self.down else 1
        return any(
            abs(self.port(s, None)[axis] - self.port(t, k)[axis]) > 3 * LANE
            for s, _, t, k, _ in self.roads
            if s >= self.first and t >= 0
        )

    def passing(self) -> bool:
        """Whether a road goes around another box."""
        return any(len(route) > 4 for route in self.found)

    def tag_width(self, text: str) -> float:
        return max(36, LETTER * len(text) + 16)

    def square(self, leaf: int) -> Point:
        """The middle of a leaf's AccumulateGrad."""
        chip = self.at[leaf]
        x = chip.middle[0] + 16 if self.down else chip.right - ACC / 2
        return x, chip.bottom + 8 + ACC / 2

    def port(self, thing: int, slot: int | None) -> Point:
        """Where the middle of a road meets a thing: its output, or the input in `slot`."""
        box, (x, y), inner = self.boxes[thing], self.corners[thing], self.at[thing]
        offset = box.output if slot is None else box.inputs[slot]
        assert offset is not None
        if self.down:
            return x + offset, inner.bottom if slot is None else inner.y
        return inner.right if slot is None else inner.x, y + offset

    def route(self, source: int, output: int, target: int, slot: int, flow: int | None) -> Route:
        start, end = self.port(source, None), self.port(target, slot)
        # Graphviz rounds to half a pixel: what should be straight is.
        if abs(start[0] - end[0]) < 2 and self.down:
            end = (start[0], end[1])
        elif abs(start[1] - end[1]) < 2 and not self.down:
            end = (end[0], start[1])
        leaf = source < self.first
        lead = (ACC + 8 if self.down else 0) if leaf else (self.lead if target >= 0 else 0)
        back, split = None, 0.0
        if leaf:
            x, y = self.square(source)
            back = (x, y + ACC / 2) if self.down else (x + ACC / 2, y)
            split = LANE if self.down and flow is not None else 0.0
        found = self.found[self.roads.index((source, output, target, slot, flow))]
        around = found if len(found) > 4 else ()
        return Route(start, end, self.down, lead, around, back, split)

    # -- labels --------------------------------------------------------------------------------------------------
    def sent(self, target: int, flow: int | None, done: int) -> str | None:
        """The gradient that a node has sent along one road after so many events; into the last node comes the seed."""
        if target < 0:
            seed = self.trace.events[0].received[self.trace.last[1]]
            return seed.text if seed else None
        if flow is None:
            return None
        for event in self.trace.events[:done]:
            if event.thing == target and event.returned[flow] is not None:
                return str(event.returned[flow].text)
        return None

    def place_labels(self) -> dict[int, tuple[float, float, str]]:
        """For each road that a gradient takes: where its label stands. Nothing covers it, if that is possible."""
        taken = [area.grown(2) for area in self.at.values()]
        taken += [self.tag_area(*key) for key in self.tags]
        for leaf, each in enumerate(self.trace.leaves):
            if each.needs_grad and leaf < self.first:
                x, y = self.square(leaf)
                taken.append(self.grad_area(leaf).joined(Area(x - ACC / 2, y - ACC / 2, ACC, ACC)))
        lanes = [point for route in self.routes for lane in (-1, 1) for point in route.samples(lane)]
        labels: dict[int, tuple[float, float, str]] = {}
        for number, (source, output, target, _, flow) in enumerate(self.roads):
            text = self.sent(target, flow, len(self.trace.events))
            if text is None:
                continue
            first = None
            if source >= self.first:  # beside the backward lane, paired with the tensor at the exit of the node
                x, y = self.port(source, None)
                half = self.tag_width(self.tags.get((source, output), "")) / 2
                first = (x + LANE + 9, y + 26, "start") if self.down else (x + 8 + half, y + LANE + 18, "middle")
            spots = ([first] if first else []) + self.routes[number].spots()
            x, y, anchor = routes.best(spots, LABEL * len(text), taken, lanes)
            labels[number] = (x, y, anchor)
            taken.append(routes.label_area(x, y, anchor, LABEL * len(text)))
        return labels

    def tag_area(self, source: int, output: int) -> Area:
        """A tensor on its lane, where it leaves its node."""
        x, y = self.port(source, None)
        width = self.tag_width(self.tags[source, output])
        if self.down:
            return Area(x - LANE - 7 - width + 18, y + 10, width, TAG)
        return Area(x + 8, y - LANE - 4 - TAG / 2, width, TAG)

    def grad_area(self, leaf: int) -> Area:
        x, y = self.square(leaf)
        value = self.trace.grads.get(self.trace.leaves[leaf].name)
        width = LABEL * len(f".grad {value.text}") if value else 0
        return Area(x + ACC / 2 + 5 if self.down else x - ACC / 2 - 5 - width, y - 8, width, 16)


@lru_cache(maxsize=64)
def scene(trace: Any, output: str, down: bool) -> Scene:
    return Scene(trace, output, down)
