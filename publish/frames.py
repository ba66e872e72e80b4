"""One frame of a graph as SVG shapes: what the moment shows of a scene that is already placed."""

from html import escape
from typing import Any

from publish.graphs import ACC, Scene, scene
from publish.routes import short

MARGIN = 2  # room for the thick outline


def draw(graph: Any, down: bool) -> tuple[float, float, str]:
    """Width and height in px, and the body of the SVG."""
    made = scene(graph.trace, graph.output, down)
    body = "".join(Frame(made, graph.moment).parts())
    return made.width + 2 * MARGIN, made.height + 2 * MARGIN, f'<g transform="translate({MARGIN} {MARGIN})">{body}</g>'


class Frame:
    def __init__(self, made: Scene, moment: Any) -> None:
        self.scene, self.moment, self.trace = made, moment, made.trace

    def parts(self) -> list[str]:
        first, things = self.scene.first, range(self.scene.first, self.scene.first + len(self.trace.nodes))
        parts = [self.road(number) for number in range(len(self.scene.roads))]
        parts += [self.tag(*key) for key in self.scene.tags]
        parts += [self.leaf(thing) for thing in range(first)]
        parts += [self.node(thing) for thing in things]
        parts += [self.pins(thing) for thing in things if self.made(thing)]
        return [*parts, self.result(), *(self.label(number) for number in self.scene.labels)]

    def made(self, thing: int) -> bool:
        """Whether the forward has come this far; the result is there with its node."""
        if thing < 0:
            thing = self.trace.last[0]
        return bool(thing < self.scene.first + self.moment.made)

    def road(self, number: int) -> str:
        target = self.scene.roads[number][2]
        route = self.scene.routes[number]
        out = arrow(route.path(-1), "fwd" if self.made(target) else "fwd later")
        if self.gradient(number) is not None:
            out += arrow(route.path(1), "bwd")
        return out

    def gradient(self, number: int) -> str | None:
        _, _, target, _, flow = self.scene.roads[number]
        if target < 0 and not self.moment.seeded:
            return None
        return self.scene.sent(target, flow, self.moment.done)

    def label(self, number: int) -> str:
        value = self.gradient(number)
        if value is None:
            return ""
        x, y, anchor = self.scene.labels[number]
        return text(x, y, value, "grad", anchor)

    def tag(self, source: int, output: int) -> str:
        if not self.made(source):
            return ""
        area = self.scene.tag_area(source, output)
        x, y = area.middle
        return f'<g class="tensor">{pill(area)}{text(x, y + 5, self.scene.tags[source, output], "name")}</g>'

    def leaf(self, thing: int) -> str:
        leaf, area = self.trace.leaves[thing], self.scene.at[thing]
        scalar = leaf.value.shape == () and leaf.value.numbers
        x, y = area.middle
        title = f"{leaf.name} = {leaf.value.text}" if scalar else leaf.name
        kind = "leaf" if leaf.needs_grad else "fixed"
        out = f'<g class="{kind}">{pill(area)}{text(x, y - 2, title, "name")}'
        out += f"{text(x, y + 13, str(leaf.value.shape), 'small')}</g>"
        if not leaf.needs_grad:
            return out
        sx, sy = self.scene.square(thing)
        grad = self.moment.grads.get(leaf.name)
        state = ("acc got" if grad else "acc") + (" now" if self.moment.now == thing else "")
        out += (
            f'<rect class="{state}" x="{short(sx - ACC / 2)}" y="{short(sy - ACC / 2)}" width="{ACC}" height="{ACC}"/>'
        )
        if grad:
            area = self.scene.grad_area(thing)
            where, anchor = (area.x, "start") if self.scene.down else (area.right, "end")
            out += text(where, sy + 4.5, f".grad {grad.text}", "grad", anchor)
        return out

    def node(self, thing: int) -> str:
        node, area = self.trace.node(thing), self.scene.at[thing]
        x, y = area.middle
        kind = "node" + ("" if self.made(thing) else " later")
        kind += f" now {self.moment.phase}" if self.moment.now == thing else ""
        rest = node.name.removeprefix(node.op)
        name = text(x, y - 2 if rest else y + 5, node.op, "name")
        below = text(x, y + 15, rest, "small") if rest else ""
        return f'<g class="{kind}">{box(area, 2)}{name}{below}</g>'

    def pins(self, thing: int) -> str:
        area, out = self.scene.at[thing], ""
        saved = [each.value.text for each in self.trace.node(thing).saved]
        free = " free" if thing in self.moment.freed else ""
        widths = [23 + 7.2 * len(value) for value in saved]
        left = area.middle[0] - sum(widths) / 2 + 3
        for k, value in enumerate(saved):
            if self.scene.down:
                x, y = area.x, area.middle[1] + (k - (len(saved) - 1) / 2) * 24
                stem, middle = f"M{short(x)} {short(y)}h-8", (x - 13, y)
                label = text(x - 23, y + 4.5, value, "small", "end")
            else:
                x, y = left + sum(widths[:k]) + 5, area.y
                stem, middle = f"M{short(x)} {short(y)}v-8", (x, y - 13)
                label = text(x + 10, y - 9, value, "small", "start")
            cx, cy = (short(each) for each in middle)
            out += f'<g class="pin{free}"><path d="{stem}"/><circle cx="{cx}" cy="{cy}" r="5"/>{label}</g>'
        return out

    def result(self) -> str:
        area = self.scene.at[-1]
        x, y = area.middle
        value = self.trace.result
        if not self.made(-1):
            return f'<g class="tensor later">{pill(area)}{text(x, y + 5, self.scene.output, "name")}</g>'
        scalar = value.shape == () and value.numbers
        title = f"{self.scene.output} = {value.text}" if scalar else self.scene.output
        words = text(x, y - 2, title, "name") + text(x, y + 13, str(value.shape), "small")
        return f'<g class="tensor">{pill(area)}{words}</g>'


def text(x: float, y: float, words: str, cls: str, anchor: str = "middle") -> str:
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{short(x)}" y="{short(y)}"{side} class="{cls}">{escape(words, quote=False)}</text>'


def box(area: Any, corner: float) -> str:
    x, y, width, height = (short(each) for each in (area.x, area.y, area.width, area.height))
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{short(corner)}"/>'


def pill(area: Any) -> str:
    return box(area, area.height / 2)


def arrow(paths: tuple[str, str], cls: str) -> str:
    line, head = paths
    return f'<g class="{cls}"><path class="line" d="{line}"/><path class="head" d="{head}"/></g>'
