"""Roads of a graph: two lanes along one curve, with heads, and a place for a label that nothing covers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot

from publish.layout import Point

LANE = 8  # each direction runs this far from the middle of its road
HEAD = 7  # length of an arrow's head, less what overlaps the line


@dataclass(frozen=True)
class Area:
    """A rectangle: its top left corner and its size, in px."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> Point:
        return self.x + self.width / 2, self.y + self.height / 2

    def moved(self, dx: float, dy: float) -> "Area":
        return Area(self.x + dx, self.y + dy, self.width, self.height)

    def grown(self, by: float) -> "Area":
        return Area(self.x - by, self.y - by, self.width + 2 * by, self.height + 2 * by)

    def joined(self, other: "Area") -> "Area":
        x, y = min(self.x, other.x), min(self.y, other.y)
        return Area(x, y, max(self.right, other.right) - x, max(self.bottom, other.bottom) - y)

    def meets(self, other: "Area") -> bool:
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom

    def holds(self, point: Point) -> bool:
        return self.x < point[0] < self.right and self.y < point[1] < self.bottom


@dataclass(frozen=True)
class Route:
    """A road from `start` to `end`. It runs straight for `lead`, then bends once, or goes `around` what is in its way
    (a Bézier curve of Graphviz). `back` is where the backward lane ends instead, `split` how far apart lanes start."""

    start: Point
    end: Point
    down: bool
    lead: float = 0
    around: tuple[Point, ...] = ()
    back: Point | None = None
    split: float = 0

    def curve(self, lane: int) -> list[Point]:
        """Control points from start to end; lane -1 is forward, +1 backward."""
        shift = (lane * LANE, 0.0) if self.down else (0.0, lane * LANE)
        (x0, y0), (x1, y1) = (add(point, shift) for point in (self.start, self.end))
        if self.down:
            x0 += lane * self.split
        if lane > 0 and self.back:
            x0, y0 = self.back
        if self.around:
            middle = [add(point, shift) for point in self.around[1:-1]]
            return [(x0, y0), *middle, (x1, y1)]
        if self.down:
            lead = 0 if lane > 0 and self.back else self.lead
            turn = (y0 + lead + y1) / 2
            return [(x0, y0 + lead), (x0, turn), (x1, turn), (x1, y1)]
        lead = 0 if lane > 0 and self.back else self.lead
        turn = (x0 + lead + x1) / 2
        return [(x0 + lead, y0), (turn, y0), (turn, y1), (x1, y1)]

    def origin(self, lane: int) -> Point:
        """Where the lane touches the source, before its lead."""
        x, y = self.curve(lane)[0]
        if self.around or (lane > 0 and self.back):
            return x, y
        return (x, y - self.lead) if self.down else (x - self.lead, y)

    def path(self, lane: int) -> tuple[str, str]:
        """The line and the head of one lane, as path data."""
        points = self.curve(lane)
        first = self.origin(lane)
        forward = lane < 0
        tip = points[-1] if forward else first
        # The line ends where its head begins.
        sign = 1 if forward else -1
        step = (0.0, -sign * HEAD) if self.down else (-sign * HEAD, 0.0)
        if forward:
            points = [*points[:-1], add(points[-1], step)]
        else:
            first = add(first, step)
            if points[0] == tip:
                points = [first, *points[1:]]
        start = f"M{short(first[0])} {short(first[1])}"
        if points[0] != first:
            start += f"L{short(points[0][0])} {short(points[0][1])}"
        line = start + "C" + " ".join(f"{short(x)} {short(y)}" for x, y in points[1:])
        x, y = add(tip, step)
        if self.down:
            head = f"M{short(x - 4.5)} {short(y)}h9l-4.5 {8 * sign}z"
        else:
            head = f"M{short(x)} {short(y - 4.5)}v9l{8 * sign}-4.5z"
        return line, head

    def samples(self, lane: int, count: int = 24) -> list[Point]:
        """Points along a lane, evenly in each piece."""
        points = self.curve(lane)
        found = [self.origin(lane)]
        for k in range(0, len(points) - 1, 3):
            found += [bezier(points[k : k + 4], t / count) for t in range(count + 1)]
        return found

    def spots(self) -> list[tuple[float, float, str]]:
        """Places beside the backward lane, the better ones first: x, y of the baseline, anchor."""
        samples = self.samples(1)
        found = []
        for part in (0.5, 0.4, 0.6, 0.3, 0.7, 0.8, 0.2):
            k = max(1, min(len(samples) - 2, round(part * (len(samples) - 1))))
            (ax, ay), (x, y), (bx, by) = samples[k - 1 : k + 2]
            length = hypot(bx - ax, by - ay) or 1
            nx, ny = -(by - ay) / length, (bx - ax) / length
            for side in (1, -1):
                dx, dy = side * nx, side * ny
                anchor = "start" if dx > 0.4 else "end" if dx < -0.4 else "middle"
                found.append((x + 9 * dx, y + 12 * dy + 4.5, anchor))
        return found


def bezier(points: Sequence[Point], t: float) -> Point:
    s = 1 - t
    weights = (s**3, 3 * s * s * t, 3 * s * t * t, t**3)
    x, y = (sum(w * point[axis] for w, point in zip(weights, points, strict=True)) for axis in (0, 1))
    return x, y


def add(point: Point, by: Point) -> Point:
    return point[0] + by[0], point[1] + by[1]


def short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0").replace("-0.0", "0")


def label_area(x: float, y: float, anchor: str, width: float) -> Area:
    left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
    return Area(left, y - 11, width, 14)


def best(
    spots: Iterable[tuple[float, float, str]], width: float, taken: Sequence[Area], lanes: Sequence[Point]
) -> tuple[float, float, str]:
    """The first of the spots that collides least: with what has a place already, then with lines."""

    def cost(spot: tuple[float, float, str]) -> int:
        area = label_area(*spot, width)
        near = area.grown(3)
        return 10 * sum(area.meets(other) for other in taken) + sum(near.holds(point) for point in lanes)

    return min(spots, key=cost)
