"""Graphs of other shapes: fan-out, three inputs, roads that pass a node. Nothing overlaps, nothing is left out."""

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("py_mini_racer", reason="publish needs mini-racer (the site group)")

from publish.frames import draw
from publish.graphs import Scene
from publish.layout import Box, Edge, LayoutError, place
from publish.routes import Area, label_area
from snippets.figures import moments
from snippets.figures.picture import Graph
from snippets.figures.record import Trace, record

ROOT = Path(__file__).resolve().parents[2]
PORTED = {"a": Box(40, 40, (), 20), "b": Box(40, 40, (), 20), "c": Box(60, 80, (24, 56), 40)}
EDGES = [Edge("a", "c", 0), Edge("b", "c", 1)]


def skip(x: Tensor, w: Tensor) -> Tensor:
    h = x * w
    return h.sin() * h.exp() + h


CASES: dict[str, Callable[[], Trace]] = {
    "page": lambda: record(lambda x, w, b: (x * w + b) ** 2, x=2.0, w=3.0, b=1.0),
    "fan-out": lambda: record(skip, x=2.0, w=0.5),
    "three inputs": lambda: record(torch.addcmul, input=1.0, tensor1=2.0, tensor2=3.0),
    "crossing": lambda: record(lambda a, b, c: torch.lerp(a * b, b * c, c * a), a=1.0, b=2.0, c=3.0),
    "shapes": lambda: record(
        lambda x, w: torch.nn.functional.linear(x, w).relu().mean(),
        x=torch.ones(4, 3),
        w=torch.ones(2, 3, requires_grad=True),
    ),
    "twice": lambda: record(lambda x: x * x, x=3.0),
}


@pytest.fixture(params=[(name, down) for name in CASES for down in (False, True)], ids=lambda p: f"{p[0]}-{p[1]}")
def scene(request: pytest.FixtureRequest) -> Scene:
    name, down = request.param
    return Scene(CASES[name](), "y", down)


def areas(scene: Scene) -> dict[object, Area]:
    found: dict[object, Area] = {("thing", key): area for key, area in scene.at.items()}
    found |= {("tag", key): scene.tag_area(*key) for key in scene.tags}
    found |= {
        ("grad", leaf): scene.grad_area(leaf) for leaf in range(scene.first) if scene.trace.leaves[leaf].needs_grad
    }
    return found


def test_nothing_overlaps(scene: Scene) -> None:
    for (one, a), (other, b) in itertools.combinations(areas(scene).items(), 2):
        assert not a.meets(b), (one, other)


def test_labels_stand_free(scene: Scene) -> None:
    labels = {}
    for number, (x, y, anchor) in scene.labels.items():
        text = scene.sent(scene.roads[number][2], scene.roads[number][4], 99)
        labels[number] = label_area(x, y, anchor, 7.8 * len(text or ""))
    for number, label in labels.items():
        for name, area in areas(scene).items():
            assert not label.meets(area), (number, name)
    for (one, a), (other, b) in itertools.combinations(labels.items(), 2):
        assert not a.meets(b), (one, other)


def test_no_road_runs_through_a_box(scene: Scene) -> None:
    for number, route in enumerate(scene.routes):
        source, _, target, _, flow = scene.roads[number]
        for lane in (-1, 1) if flow is not None else (-1,):
            for thing, area in scene.at.items():
                if thing not in (source, target):
                    assert not any(area.holds(point) for point in route.samples(lane)), (number, lane, thing)


def test_inputs_arrive_in_order(scene: Scene) -> None:
    axis = 0 if scene.down else 1
    for thing, roads in scene.inputs.items():
        ports = [scene.port(thing, k)[axis] for k in range(len(roads))]
        assert ports == sorted(ports) and all(b - a == 32 for a, b in itertools.pairwise(ports))


def test_everything_recorded_is_drawn(scene: Scene) -> None:
    trace = scene.trace
    _, _, body = draw(Graph(trace, moments.after_backward(trace)), scene.down)
    assert body.count('class="line"') == len(scene.roads) + len(scene.labels)
    assert body.count('class="pin') == sum(len(node.saved) for node in trace.nodes)
    assert body.count('class="acc got"') == len(trace.grads)
    assert body.count("text-decoration") == 0 and body.count('class="pin"') == 0  # all hollow


def test_frames_grow_with_the_run() -> None:
    trace = CASES["page"]()
    counts = []
    for frame in moments.player(trace).frames:
        _, _, body = draw(frame.picture, False)
        counts.append([body.count(sign) for sign in ("node later", 'class="pin"', 'class="pin free"', 'class="bwd"')])
    assert counts == [
        [3, 0, 0, 0],
        [2, 2, 0, 0],
        [1, 2, 0, 0],
        [0, 3, 0, 0],
        [0, 3, 0, 2],
        [0, 2, 1, 4],
        [0, 2, 1, 4],
        [0, 2, 1, 6],
        [0, 0, 3, 6],
        [0, 0, 3, 6],
        [0, 0, 3, 6],
    ]


def test_page_graph_runs_straight() -> None:
    scene = Scene(CASES["page"](), "y", False)
    for (source, *_), route in zip(scene.roads, scene.routes, strict=True):
        if source >= scene.first:
            assert route.start[1] == route.end[1]


@pytest.mark.parametrize("down", [False, True])
def test_ports_are_where_they_were_asked_for(down: bool) -> None:
    placed = place(PORTED, EDGES, down=down, gap=10, rank_gap=50)
    for edge, route in zip(EDGES, placed.routes, strict=True):
        x, y = placed.corners["c"]
        offset = PORTED["c"].inputs[edge.slot]
        wanted = (x + offset, y) if down else (x, y + offset)
        assert route[-1] == pytest.approx(wanted, abs=1.1)


def test_layout_is_the_same_every_time() -> None:
    options = {"down": False, "gap": 10, "rank_gap": 50}
    assert place(PORTED, EDGES, **options) == place(PORTED, EDGES, **options)  # type: ignore[arg-type]


def test_a_graph_that_graphviz_refuses() -> None:
    with pytest.raises(LayoutError):
        place({"a -- {": Box(10, 10)}, [], down=False, gap=1, rank_gap=1)


@pytest.mark.parametrize("code", ["from publish.katex import engine", "from publish.layout import engine"])
def test_the_process_ends(code: str) -> None:
    """One in eight hung at its exit before the engines were closed."""
    for _ in range(8):
        subprocess.run([sys.executable, "-c", f"{code}; engine()"], cwd=ROOT, check=True, timeout=20)
