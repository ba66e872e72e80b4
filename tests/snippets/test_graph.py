"""The snippets of the chapter on the graph, on odd inputs."""

import dataclasses
import subprocess
import sys
import warnings
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from snippets.chapters.graph import Saved, detached, nodes_of, saved_tensors, why_no_grad

ROOT = Path(__file__).parents[2]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]
few = settings(max_examples=25, deadline=None, derandomize=True)


@pytest.fixture(autouse=True)
def quiet_and_seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        yield


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(shape, dtype=dtype, requires_grad=True)


def names(output: Tensor) -> list[str]:
    return [node.name().rpartition("::")[2] for node in nodes_of(output)]


def rows(output: Tensor) -> list[tuple[str, str, str]]:
    return [(s.node, s.name, s.state) for s in saved_tensors(output)]


# nodes_of


def test_nodes_of_starts_at_the_output_and_has_each_node_once():
    x = leaf()
    assert names((x * x + x) ** 2) == ["PowBackward0", "AddBackward0", "MulBackward0", "AccumulateGrad"]


def test_nodes_of_a_leaf_and_of_what_requires_no_grad():
    assert names(leaf(2)) == ["AccumulateGrad"]
    assert nodes_of(torch.ones(2)) == nodes_of(leaf(2).argmax()) == nodes_of(leaf(2).detach()) == []
    with torch.no_grad():
        assert nodes_of(leaf(2) * 2) == []
    with torch.inference_mode():
        assert nodes_of(leaf(2) * 2) == []


def test_nodes_of_forty_diamonds():
    y = leaf()
    for _ in range(40):
        y = y + y
    assert len(nodes_of(y)) == 41


@few
@given(seed=st.integers(0, 2**31))
def test_nodes_of_finds_the_nodes_that_backward_runs(seed):
    draw = torch.Generator().manual_seed(seed)
    made = [leaf(2), leaf(2)]
    for _ in range(15):
        a, b = (made[int(torch.randint(len(made), (), generator=draw))] for _ in range(2))
        made.append([a + b, a * b.detach(), a * 0.5 - b][int(torch.randint(3, (), generator=draw))])
    ran: list[int] = []
    nodes = nodes_of(made[-1])
    for k, node in enumerate(nodes):
        node.register_prehook(lambda _, k=k: ran.append(k))
    made[-1].sum().backward()
    assert sorted(ran) == list(range(len(nodes)))


def test_nodes_of_stops_at_its_limit():
    x = leaf()
    y = x
    for _ in range(20_000):
        y = y + 1
    with pytest.raises(RecursionError, match="more than 20,000 nodes"):
        nodes_of(y)
    assert len(nodes_of(y, limit=20_001)) == 20_001
    assert len(nodes_of(x, limit=1)) == 1


def test_a_deep_graph_survives_the_limit():
    code = """
import torch
from snippets.chapters.graph import nodes_of, why_no_grad
x = torch.ones((), requires_grad=True)
y = x
for _ in range(100_000): y = y + 1
for look in (lambda: nodes_of(y), lambda: why_no_grad(x, y)):
    try: look()
    except RecursionError: print("stopped")
del y
print("alive")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert found.stdout.split() == ["stopped", "stopped", "alive"], found.stderr


def test_nodes_of_inside_torch_func_and_of_double_backward():
    seen = []

    def f(t: Tensor) -> Tensor:
        y = (t**2).sum()
        seen.append(names(y)[:2])
        return y

    torch.func.grad(f)(torch.ones(3))
    torch.vmap(torch.func.grad(f))(torch.ones(2, 3))
    assert seen == [["SumBackward0", "PowBackward0"]] * 2
    x = torch.tensor(2.0, requires_grad=True)
    (slope,) = torch.autograd.grad(x**4 + 3 * x**2, x, create_graph=True)
    assert len(nodes_of(slope)) == 8


# saved_tensors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_what_common_operations_save(dtype, shape):
    x, w = leaf(*shape, dtype=dtype), leaf(*shape, dtype=dtype)
    assert rows(x + w) == []
    assert rows(x * w) == [("MulBackward0", "other", "live"), ("MulBackward0", "self", "live")]
    assert rows(x.sin()) == [("SinBackward0", "self", "live")]
    (saved,) = saved_tensors(x.exp())
    assert saved.name == "result" and saved.tensor is not None
    assert saved.tensor.shape == shape and saved.tensor.dtype == dtype
    # A factor whose partner is a constant is not needed.
    (saved,) = saved_tensors(x * w.detach())
    assert saved.name == "other" and saved.tensor is not None
    assert saved.tensor.data_ptr() == w.data_ptr()


def test_saved_lists_are_numbered():
    index = torch.tensor([0, 1])
    assert rows(leaf(3)[index]) == [("IndexBackward0", "indices[0]", "live")]


def test_saved_tensors_that_backward_has_freed_or_that_were_modified():
    x = leaf()
    y = x.exp() * x
    y.backward()
    assert {row[2] for row in rows(y)} == {"freed"} and len(rows(y)) == 3
    h = x * 3
    z = h**2
    h.mul_(2)
    assert ("PowBackward0", "self", "modified") in rows(z)
    assert all((s.tensor is None) == (s.state != "live") for s in saved_tensors(z))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.name, ctx.k = "mine", k  # a node has a method of this name
        ctx.save_for_backward(x, None)
        return x * k

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None


def test_saved_tensors_of_a_custom_function():
    x = leaf(2)
    y = Scale.apply(x, 2.0)
    (saved,) = saved_tensors(y)
    assert saved == Saved("ScaleBackward", "saved_tensors[0]", "live", x)
    y.sum().backward()
    assert rows(y) == [("ScaleBackward", "saved_tensors", "freed")]
    assert "ScaleBackward made it" in why_no_grad(y)


def test_reading_a_checkpoint_recomputes_it_as_the_docstring_says():
    runs = []

    def block(t: Tensor) -> Tensor:
        runs.append(1)
        return t.sin().exp()

    y = checkpoint(block, leaf(2), use_reentrant=False)
    assert len(nodes_of(y)) == 3 and len(runs) == 1
    assert {row[2] for row in rows(y)} == {"live"} and len(runs) > 1


def test_saved_tensors_leaves_the_graph_as_it_was():
    x = leaf(3)
    y = (x.sin() * x).sum()
    rng = torch.get_rng_state()
    saved_tensors(y)
    assert torch.equal(rng, torch.get_rng_state()) and x.grad is None and x._version == 0
    y.backward()
    torch.testing.assert_close(x.grad, x.detach().cos() * x.detach() + x.detach().sin())


# why_no_grad


class Odd(nn.Module):
    """Tied, frozen and unused parameters, an in-place module."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.first.weight
        self.frozen = nn.Linear(3, 2).requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(2))
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(self.tied(self.act(self.first(x))))


def test_why_no_grad_agrees_with_backward_on_every_parameter_of_an_odd_model():
    model = Odd()
    loss = model(torch.ones(2, 3)).sum()
    said = {name: why_no_grad(p, loss) for name, p in model.named_parameters()}
    loss.backward()
    for name, p in model.named_parameters():
        assert (p.grad is not None) == said[name].startswith("The loss depends on it"), name
        assert (p.grad is not None) == (why_no_grad(p, loss) == "It has a .grad.")
    assert "not computed from it" in said["unused"]
    assert "does not require grad" in said["frozen.weight"]


def test_why_no_grad_names_each_reason():
    x = leaf(2)
    h = x * 2
    with torch.no_grad():
        quiet = x * 2
    with torch.inference_mode():
        born = torch.ones(2)
    assert "retain_grad()" in why_no_grad(h) and "MulBackward0" in why_no_grad(h)
    assert "no_grad" in why_no_grad(quiet) and "detach()" in why_no_grad(x.detach())
    assert "inference_mode" in why_no_grad(born)
    assert why_no_grad(x.argmax()).startswith("torch.int64 cannot")
    assert why_no_grad(x > 0).startswith("torch.bool cannot")
    assert why_no_grad(x, quiet.sum()).startswith("The loss does not require grad")
    assert why_no_grad(x).startswith("It will have one")
    # A cast of a parameter is another tensor than the parameter.
    assert "ToCopyBackward0 made it" in why_no_grad(x.double())
    h.retain_grad()
    assert why_no_grad(h, h.sum()).startswith("The loss depends on it")
    assert "not computed from it" in why_no_grad(h, x.sum())
    h.sum().backward()
    assert why_no_grad(h) == why_no_grad(x) == "It has a .grad."
    assert why_no_grad(leaf(2, dtype=torch.complex64)).startswith("It will have one")


# detached


@dataclasses.dataclass(frozen=True)
class State:
    h: Tensor
    more: list[Any]
    step: int = dataclasses.field(default=0, init=False)


def test_detached_keeps_structure_and_memory_and_cuts_history():
    pair = namedtuple("pair", "h c")
    h = leaf(2) * 2
    state = {
        "pair": pair(h, 1.5),
        "list": [h, (h, None)],
        "ordered": OrderedDict(a=h),
        "default": defaultdict(list, a=[h]),
        "counter": Counter(a=2),
        "class": State(h, [h]),
        "text": "as it is",
        "empty": (),
    }
    cut = detached(state)
    assert type(cut["pair"]) is pair and cut["pair"].c == 1.5
    assert type(cut["ordered"]) is OrderedDict and cut["default"].default_factory is list
    assert cut["counter"] == Counter(a=2)
    assert cut["class"].step == 0 and cut["text"] == "as it is" and cut["empty"] == () and cut["list"][1][1] is None
    inside = [
        cut["pair"].h,
        cut["list"][0],
        cut["list"][1][0],
        cut["ordered"]["a"],
        cut["default"]["a"][0],
        cut["class"].h,
        cut["class"].more[0],
    ]
    assert all(not t.requires_grad and t.data_ptr() == h.data_ptr() for t in inside)
    # The state that went in is as it was.
    assert state["list"][0] is h and state["class"].more[0] is h and state["ordered"]["a"] is h


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64])
def test_detached_of_a_tensor_alone(dtype):
    t = torch.ones(3, 2, dtype=dtype).t()[:, :2]
    cut = detached(t)
    assert torch.equal(cut, t) and cut.stride() == t.stride() and cut.dtype == dtype


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
def test_truncated_backpropagation_has_a_constant_graph(cell):
    layer, state, sizes = cell(2, 3, batch_first=True), None, set()
    for _ in range(3):
        out, state = layer(torch.randn(1, 4, 2), detached(state))
        sizes.add(len(nodes_of(out)))
        out.sum().backward()
    assert len(sizes) <= 2  # the first window has no state to start from
