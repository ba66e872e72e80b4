"""The graph printer of the labs, on odd graphs, and what it must leave alone."""

import dataclasses
import gc
import pickle
import subprocess
import sys
import time
import typing
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from snippets.labs import graph_printer
from snippets.labs.graph_printer import Graph, as_dot, as_svg, as_text, graph_of, graph_of_deep, print_graph, tensors_in

ROOT = Path(__file__).parents[2]
few = settings(max_examples=25, deadline=None, derandomize=True)


@pytest.fixture(autouse=True)
def quiet_and_seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        yield


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(shape, dtype=dtype, requires_grad=True)


def chain(n: int) -> Tensor:
    y = leaf()
    for _ in range(n):
        y = y + 1
    return y


def names_of(graph: Graph) -> list[str]:
    return [node.label or node.name for node in graph.nodes]


def random_graph(seed: int, size: int = 25) -> tuple[Tensor, int]:
    """A graph of random sums, products, unbinds and in-place steps."""
    draw = torch.Generator().manual_seed(seed)
    made = [leaf(2), leaf(2)]

    def some() -> Tensor:
        return made[int(torch.randint(len(made), (), generator=draw))]

    for _ in range(size):
        kind = int(torch.randint(6, (), generator=draw))
        if kind < 2:
            made.append(some() + some())
        elif kind < 4:
            made.append(some() * some().detach() + some())
        elif kind == 4:
            made.extend(torch.stack([some(), some()]).unbind())
        else:
            fresh = some() + 0
            fresh[:1].mul_(2)
            made.append(fresh)
    return made[-1], size


# What is printed


def test_the_graph_of_the_chapter():
    x, w, b = leaf(), leaf(), leaf()
    graph = graph_of((x * w + b) ** 2, {"x": x, "w": w, "b": b})
    assert as_text(graph).splitlines() == [
        "6 nodes, 5 edges, depth 3, 0 shared",
        "output → #0",
        "#0  PowBackward0  ()  → #1",
        "#1  AddBackward0  ()  → #3, #2",
        "#2  leaf b        ()",
        "#3  MulBackward0  ()  → #4, #5",
        "#4  leaf x        ()",
        "#5  leaf w        ()",
    ]


@pytest.mark.parametrize(
    ("shape", "dtype", "shown"),
    [
        ((), torch.float32, "()"),
        ((0,), torch.float32, "(0,)"),
        ((3, 2), torch.float64, "(3, 2) float64"),
        ((3,), torch.bfloat16, "(3,) bfloat16"),
        ((2,), torch.complex64, "(2,) complex64"),
    ],
)
def test_shapes_and_dtypes(shape, dtype, shown):
    graph = graph_of(leaf(*shape, dtype=dtype) * 2)
    assert [node.shapes for node in graph.nodes] == [shown, shown]


def test_a_cast_and_non_contiguous_tensors():
    x = leaf(3, 2)
    graph = graph_of((x.t()[:, ::2].double()).expand(4, 2, 2))
    assert [node.shapes for node in graph.nodes][:2] == ["(4, 2, 2) float64", "(2, 2) float64"]
    assert graph.nodes[-1].shapes == "(3, 2)"


def test_a_leaf_alone_and_tensors_that_require_no_grad():
    x = leaf(2)
    assert as_text(graph_of(x, {"x": x})).splitlines()[1:] == ["output → #0", "#0  leaf x  (2,)"]
    for output in (torch.ones(2), [torch.ones(2), torch.arange(2)], x.detach(), x.argmax()):
        graph = graph_of(output)
        assert not graph.nodes and graph.depth == 0
        assert as_text(graph) == "No output requires grad, so no graph was recorded."
    with torch.no_grad():
        assert not graph_of(x * 2).nodes
    with torch.inference_mode():
        assert not graph_of(x * 2).nodes
    both = as_text(graph_of({"loss": x.sum(), "mask": x > 0}))
    assert "output['mask'] requires no grad" in both.splitlines()


def test_a_shared_node_is_printed_once_and_marked():
    x = leaf(2)
    h = x.exp()
    graph = graph_of(h * h + h, {"x": x, "h": h})
    assert [(node.label, node.uses) for node in graph.nodes if node.uses > 1] == [("h", 3)]
    lines = [line for line in as_text(graph).splitlines() if "ExpBackward0" in line]
    assert len(lines) == 1 and lines[0].endswith("h  ×3")


def test_several_outputs_of_one_node():
    a, b, c = leaf(3, 2).unbind()
    graph = graph_of([a * b, c])
    assert graph.outputs == [("output[0]", 0, 0), ("output[1]", 1, 2)]
    assert graph.nodes[0].inputs == ((1, 0), (1, 1))
    assert graph.nodes[1].shapes == "(2,) (2,) (2,)" and graph.nodes[1].uses == 3
    assert "→ #1, #1[1]" in as_text(graph) and "output[1] → #1[2]" in as_text(graph)


@dataclasses.dataclass
class Result:
    loss: Tensor
    parts: list[Tensor]
    note: str = "none"


def test_outputs_in_lists_tuples_dicts_dataclasses():
    pair = namedtuple("pair", "first second")
    t = [leaf(k + 1) for k in range(6)]
    output = OrderedDict(a=[t[0], None, (t[1],)], b=pair(t[2], 3), c=Result(t[3], [t[4]]), d={5: t[5]})
    assert list(tensors_in(output)) == [
        "output['a'][0]",
        "output['a'][2][0]",
        "output['b'].first",
        "output['c'].loss",
        "output['c'].parts[0]",
        "output['d'][5]",
    ]
    assert len(graph_of(output).outputs) == 6


def test_an_output_that_contains_itself_or_nothing():
    x = leaf()
    loop: list[typing.Any] = [x]
    loop.append(loop)
    assert list(tensors_in(loop)) == ["output[0]"]
    for empty in (None, [], {"a": 1}, Result, object()):
        with pytest.raises(TypeError, match="no tensor in this"):
            graph_of(empty)
    deep: typing.Any = x
    for _ in range(5000):
        deep = [deep]
    assert len(tensors_in(deep)) == 1


class Odd(nn.Module):
    """Tied, frozen and unused parameters, an in-place module, a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.first.weight
        self.frozen = nn.Linear(3, 2).requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(2))
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.frozen(self.tied(self.act(self.first(x))))}


def test_an_odd_model():
    model = Odd()
    graph = graph_of(model(torch.ones(2, 3)), model)
    labels = {node.label: node.uses for node in graph.nodes if node.is_leaf}
    assert labels == {"first.weight = tied.weight": 2, "first.bias": 1}
    assert graph.outputs[0][0] == "output['logits']"
    with_prefix = graph_of(model(torch.ones(2, 3)), {"net": model, "none": torch.ones(2)})
    assert any(node.label == "net.first.bias" for node in with_prefix.nodes)


def test_a_name_of_another_graph_is_passed_over():
    x = leaf()
    other = leaf() * 3
    assert names_of(graph_of(x * 2, {"x": x, "other": other})) == ["MulBackward0", "x"]


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.name, ctx.variable, ctx.k = "mine", x, k  # names that nodes use too
        index = x.argmax()
        ctx.mark_non_differentiable(index)
        return x * k, index

    @staticmethod
    def backward(ctx, g, _):
        return g * ctx.k, None


def test_a_custom_function():
    x = leaf(3)
    output = Scale.apply(x, 2.0)
    graph = graph_of(output, {"x": x})
    assert names_of(graph) == ["ScaleBackward", "x"]
    assert graph.nodes[0].inputs[0] == (1, 0) and graph.cut == ["output[1]"]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_is_not_recomputed(use_reentrant):
    runs = []
    layer = nn.Linear(2, 2)

    def block(t: Tensor) -> Tensor:
        runs.append(1)
        return layer(t).tanh()

    output = checkpoint(block, leaf(1, 2), use_reentrant=use_reentrant)
    graph = graph_of(output, layer)
    assert len(runs) == 1
    expected = ["CheckpointFunctionBackward", "AccumulateGrad"] if use_reentrant else None
    assert names_of(graph) == (expected or names_of(graph))
    assert use_reentrant or {"weight", "bias"} <= set(names_of(graph))


def test_views_and_in_place_writes():
    x = leaf(4)
    base = x.clone()
    view = base[:2]
    base.mul_(2)
    assert names_of(graph_of(view, {"x": x})) == ["AsStridedBackward0", "MulBackward0", "CloneBackward0", "x"]
    view.mul_(3)
    assert "CopySlices" in names_of(graph_of(base))


def test_graphs_of_double_backward():
    x = torch.tensor(2.0, requires_grad=True)
    (slope,) = torch.autograd.grad(x**4 + 3 * x**2, x, create_graph=True)
    graph = graph_of(slope, {"x": x})
    assert len(graph.nodes) == 8 and graph.nodes[-1].label == "x" and graph.nodes[-1].uses == 2


def test_inside_and_around_torch_func():
    seen = []

    def f(t: Tensor) -> Tensor:
        y = (t**2).sum()
        seen.append(graph_of(y, {"t": t}))
        return y

    torch.func.grad(f)(torch.ones(3))
    torch.func.grad(torch.func.grad(f))(torch.tensor(3.0))
    torch.vmap(torch.func.grad(f))(torch.ones(2, 3))
    assert [names_of(graph)[:2] for graph in seen] == [["SumBackward0", "PowBackward0"]] * 3
    x = leaf(3)
    assert "x" in names_of(graph_of(torch.func.grad(f)(x), {"x": x}))


def test_sparse_and_nested_tensors():
    sparse = torch.eye(3).to_sparse().requires_grad_()
    assert "s" in names_of(graph_of(torch.sparse.mm(sparse, torch.ones(3, 3)), {"s": sparse}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
    assert graph_of(nested * 2).nodes[0].shapes == "(…, )"


# Order and numbers


def engine_order(output: Tensor, graph: Graph) -> list[str]:
    """The order in which backward really runs the nodes that are no leaves."""
    ran: list[int] = []
    nodes, waiting = {}, [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and id(node) not in nodes:
            nodes[id(node)] = node
            waiting += [child for child, _ in node.next_functions]
    handles = [
        node.register_hook(lambda *_, key=key: ran.append(key)) for key, node in nodes.items() if node.next_functions
    ]
    output.sum().backward()
    for handle in handles:
        handle.remove()
    return [f"{nodes[key].name()} {nodes[key]._sequence_nr()}" for key in ran]


@few
@given(seed=st.integers(0, 2**31))
def test_numbers_are_the_order_in_which_backward_runs(seed):
    output, _ = random_graph(seed)
    roots = [torch.autograd.graph.get_gradient_edge(output).node]
    held = graph_printer._visit(roots, 20_000)
    ours = [held[k] for k in graph_printer._backward_order(roots, held)]
    expected = [f"{n.name()} {n._sequence_nr()}" for n in ours if n.next_functions]
    if output.grad_fn is not None:
        assert engine_order(output, graph_of(output)) == expected


@few
@given(seed=st.integers(0, 2**31))
def test_laws_of_every_graph(seed):
    output, _ = random_graph(seed)
    graph = graph_of(output)
    edges = [(k, i[0]) for k, node in enumerate(graph.nodes) for i in node.inputs if i]
    assert len(edges) == graph.edges
    assert all(a < b for a, b in edges)  # edges lead to higher numbers
    assert all(graph.nodes[a].layer < graph.nodes[b].layer for a, b in edges)
    assert {b for _, b in edges} | {0} == set(range(len(graph.nodes)))  # all are reached
    assert sum(node.uses for node in graph.nodes) == graph.edges + len(graph.outputs)
    longest = [0] * len(graph.nodes)
    for a, b in sorted(edges):
        longest[b] = max(longest[b], longest[a] + 1)
    assert longest == [node.layer for node in graph.nodes]
    assert graph == graph_of(output)  # the same numbers each time
    ElementTree.fromstring(as_svg(graph))
    assert as_dot(graph).count("->") == graph.edges + len(graph.outputs)


def test_a_graph_that_several_threads_built():
    import threading

    x = leaf()
    for _ in range(20):
        x * 2
    made = [x]
    for _ in range(3):
        thread = threading.Thread(target=lambda: made.append(made[-1].sin() * made[0]))
        thread.start()
        thread.join()
    output = made[-1] * made[1]
    graph = graph_of(output)
    edges = [(k, i[0]) for k, node in enumerate(graph.nodes) for i in node.inputs if i]
    assert all(a < b for a, b in edges) and graph.depth == 7
    with pytest.raises(RecursionError):
        graph_of(output, max_depth=5)


# DOT and SVG


def test_names_that_need_quoting():
    x = leaf()
    graph = graph_of({'a"<&>\\': x * 2}, {'w"<&>\\': x})
    assert '\\"<&>\\\\' in as_dot(graph)
    root = ElementTree.fromstring(as_svg(graph))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert '#1 w"<&>\\' in texts


def test_the_drawing_has_every_node_and_edge_and_no_overlap():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    h = model(torch.ones(2, 3))
    graph = graph_of(h + model(h), model)
    root = ElementTree.fromstring(as_svg(graph))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [{k: float(r.get(k, 0)) for k in ("x", "y", "width", "height")} for r in root.iter(f"{space}rect")]
    assert len(boxes) == len(graph.nodes)
    for k, a in enumerate(boxes):
        for b in boxes[:k]:
            apart = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            assert apart or a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]
    _, _, right, bottom = map(float, root.get("viewBox", "").split())
    assert all(b["x"] >= 0 and b["x"] + b["width"] <= right and b["y"] + b["height"] <= bottom for b in boxes)
    assert len(list(root.iter(f"{space}path"))) == 2 * (graph.edges + 1)
    assert "nodes" in (root.findtext(f"{space}title") or "")


def test_a_drawing_that_would_say_little_is_refused():
    with pytest.raises(ValueError, match="301 nodes are more than max_nodes=200"):
        as_svg(graph_of(chain(300)))
    assert as_svg(graph_of(chain(300)), max_nodes=400).startswith("<svg")
    with pytest.raises(ValueError, match="Nothing to draw"):
        as_svg(graph_of(torch.ones(2)))


def test_long_graphs_are_cut_in_the_text():
    lines = as_text(graph_of(chain(100)), max_lines=10).splitlines()
    assert len(lines) == 2 + 10 + 1
    assert lines[7] == "… 91 more …" and lines[-1].startswith("#100  leaf")
    assert len(as_text(graph_of(chain(9)), max_lines=10).splitlines()) == 12
    assert len(as_text(graph_of(chain(9)), max_lines=1).splitlines()) == 4


# Size


def test_forty_diamonds_have_a_trillion_paths_and_41_nodes():
    y = leaf()
    for _ in range(40):
        y = y + y
    graph = graph_of(y)
    assert (len(graph.nodes), graph.edges, graph.depth, graph.shared) == (41, 80, 40, 40)
    assert len(as_text(graph).splitlines()) == 43


def test_a_chain_of_20_000_and_the_limit():
    output = chain(20_000)
    graph = graph_of(output)
    assert graph.depth == 20_000 and len(graph.nodes) == 20_001
    assert as_dot(graph).count("\n") > 40_000
    longer = output + 1
    with pytest.raises(RecursionError, match=r"max_depth=20,000.*graph_of_deep"):
        graph_of(longer)
    assert graph_of(longer, max_depth=20_001).depth == 20_001


def test_a_wide_graph_is_no_deep_graph():
    x = leaf()
    output = torch.stack([x * k for k in range(30_000)]).sum()
    graph = graph_of(output)
    assert graph.depth == 3 and len(graph.nodes) == 30_003


def test_linear_time():
    def seconds(n: int) -> float:
        output = chain(n)
        gc.disable()
        try:
            start = time.perf_counter()
            as_text(graph_of(output))
            return time.perf_counter() - start
        finally:
            gc.enable()

    seconds(2_000)
    small, large = min(seconds(2_000) for _ in range(3)), min(seconds(16_000) for _ in range(3))
    assert large / small < 8 * 4  # quadratic would be 64


def in_a_process(code: str) -> str:
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_100_000_operations_in_a_thread_with_a_big_stack():
    code = """
import torch
from snippets.labs.graph_printer import *
def build():
    y = torch.ones((), requires_grad=True)
    for _ in range(100_000): y = y + 1
    return y
print(graph_of_deep(build).depth)
y = build()
try: graph_of(y)
except RecursionError: print("stopped")
y.backward()
del y
print("alive")
"""
    assert in_a_process(code).split() == ["100000", "stopped", "alive"]


def test_the_thread_restores_the_stack_size_and_passes_errors_on():
    import threading

    before = threading.stack_size()
    x = leaf(2)
    graph = graph_of_deep(lambda: {"y": x * 2}, {"x": x})
    assert names_of(graph) == ["MulBackward0", "x"]

    def fails() -> Tensor:
        held = chain(10)
        raise KeyError(held.item())

    with pytest.raises(KeyError) as caught:
        graph_of_deep(fails)
    frames = []
    trace = caught.value.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "fails" not in frames
    with pytest.raises(RecursionError):
        graph_of_deep(lambda: chain(10), max_depth=5)
    assert threading.stack_size() == before


# What is left alone


def test_nothing_is_changed():
    model = Odd()
    inputs = torch.ones(2, 3)
    output = model(inputs)
    rng = torch.get_rng_state()
    versions = [p._version for p in model.parameters()]
    with torch.no_grad():
        print_graph(output, model)
        assert not torch.is_grad_enabled()
    as_svg(graph_of(output, model))
    assert torch.equal(rng, torch.get_rng_state())
    assert versions == [p._version for p in model.parameters()]
    assert all(p.grad is None and not p._backward_hooks for p in model.parameters())
    output["logits"].sum().backward()
    grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(inputs)["logits"].sum().backward()
    for a, b in zip(grads, [p.grad for p in model.parameters() if p.grad is not None], strict=True):
        assert torch.equal(a, b)


def test_saved_tensors_are_not_read_and_a_freed_graph_prints():
    unpacked = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(t) or t):
        output = leaf(2).exp() * leaf(2)
    before = graph_of(output)
    assert not unpacked
    output.sum().backward()
    assert graph_of(output) == before


def test_the_result_is_plain_data_and_keeps_nothing_alive():
    x = leaf(2)
    output = x.exp()
    gone = weakref.ref(output)
    graph = graph_of(output, {"x": x})
    assert pickle.loads(pickle.dumps(graph)) == graph
    del output
    assert gone() is None


def test_print_graph_prints_what_as_text_returns(capsys):
    x = leaf(2)
    print_graph(x * 2, {"x": x}, max_lines=5)
    assert capsys.readouterr().out == as_text(graph_of(x * 2, {"x": x})) + "\n"


def test_the_file_can_be_copied_alone(tmp_path):
    copy = tmp_path / "printer.py"
    copy.write_text((ROOT / "snippets/labs/graph_printer.py").read_text())
    code = "import torch, printer; printer.print_graph(torch.ones(2, requires_grad=True) * 2)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert found.stdout.startswith("2 nodes, 1 edge, depth 1, 0 shared"), found.stderr


def test_the_figure_of_the_lab_is_what_as_svg_draws():
    from snippets.figures.graph_printer import recurrence

    drawing = recurrence()
    body = ElementTree.fromstring(drawing.body)
    assert len(list(body.iter("rect"))) == 9 and drawing.width <= 288  # a phone's column
    assert [g.get("class") for g in body.iter("g")][1:] == ["leaf now"]
    assert {path.get("class") for path in body.iter("path")} == {"thin", "head"}
