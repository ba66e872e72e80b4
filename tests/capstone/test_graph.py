"""The scenarios under "Graph": structure, depth, names, refusals."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from snippets.capstone.graph import profile_graph, read_graph
from snippets.capstone.outputs import DebuggerError
from snippets.capstone.walk import depth_limit
from tests.capstone.models import CASES, checkpointed, gpt
from tests.capstone.same import differences, photo

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield


def chain(n: int) -> Tensor:
    y = torch.ones((), requires_grad=True)
    for _ in range(n):
        y = y + 1
    return y


CHAIN = """
import threading, torch
from torch import nn
from snippets.capstone.graph import profile_graph, read_graph
from snippets.capstone.outputs import DebuggerError
class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))
    def forward(self, x):
        self.last = y = self.w * x  # keeps a part of the graph
        for _ in range(100_000):
            y = y + 1
        return y
"""


def test_a_chain_of_20_000_operations() -> None:
    report = read_graph(chain(20_000))
    assert (report.nodes, report.edges, report.depth) == (20_001, 20_000, 20_000)
    assert report.ops == {"AddBackward0": 20_000, "AccumulateGrad": 1}


def test_a_chain_of_100_000_operations_is_refused_or_answered_and_never_crashes() -> None:
    code = """
def job():
    report = profile_graph(Chain(), torch.ones(()), max_depth=1_000_000)
    print(report.nodes, report.depth)
try:
    profile_graph(Chain(), torch.ones(()))
except DebuggerError as error:
    print(error)
y = torch.ones((), requires_grad=True)
for _ in range(100_000):
    y = y + 1
try:
    read_graph(y)
except DebuggerError as error:
    print(error)
del y
threading.stack_size(512 << 20)
thread = threading.Thread(target=job)
thread.start()
thread.join()
"""
    run = subprocess.run([sys.executable, "-c", CHAIN + code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    *refused, answered = run.stdout.splitlines()
    assert [line.startswith("The graph is deeper than") for line in refused] == [True, True]
    assert answered == "100002 100001"


def test_a_thread_has_a_lower_limit() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(depth_limit()))
    thread.start()
    thread.join()
    assert found == [1747]
    assert depth_limit() >= 20_100


def test_a_wide_graph_is_not_too_deep() -> None:
    x = torch.ones((), requires_grad=True)
    report = read_graph(torch.stack([x * k for k in range(200)]).sum(), max_depth=5)
    assert (report.nodes, report.depth) == (203, 3)


def test_short_cuts_do_not_hide_how_deep_a_graph_is() -> None:
    steps = [torch.ones((), requires_grad=True)]
    for _ in range(60):
        steps.append(steps[-1].sin())
    with pytest.raises(DebuggerError, match="deeper than 50"):
        read_graph(torch.stack(steps), max_depth=50)
    assert read_graph(torch.stack(steps), max_depth=70).depth == 61


def test_two_to_the_forty_paths_take_linear_time() -> None:
    y = torch.ones((), requires_grad=True)
    for _ in range(40):
        y = y + y
    start = time.perf_counter()
    report = read_graph(y)
    assert time.perf_counter() - start < 1  # by paths it would take a day
    assert (report.nodes, report.edges, report.depth, report.shared) == (41, 80, 40, 40)


@pytest.mark.parametrize("order", [False, True])
def test_the_longest_path_wins_over_the_shortest(order: bool) -> None:
    x = torch.ones((), requires_grad=True)
    long = x.sin().cos().exp().tanh()
    y = x * long if order else long * x
    assert read_graph(y).depth == 5
    assert read_graph(y + y.sin()).depth == 7
    assert read_graph(x.sin() * x.cos().exp().tanh()).depth == 4
    assert read_graph(x.cos().exp().tanh() * x.sin()).depth == 4


def test_depth_is_right_where_threads_built_the_graph() -> None:
    """Sequence numbers count in each thread by itself, so they mislead."""
    made: list[Tensor] = []
    x = torch.ones((), requires_grad=True)
    middle = x
    for _ in range(10):
        middle = middle.sin()

    def job() -> None:
        for _ in range(3):
            made.append((made or [middle])[-1].cos())

    thread = threading.Thread(target=job)
    thread.start()
    thread.join()
    y = made[-1] + x.sin() * made[0]
    assert read_graph(y).depth == 14


def test_a_tensor_subclass() -> None:
    class Mine(Tensor):
        pass

    w = nn.Parameter(torch.ones(3))
    x = torch.ones(3).as_subclass(Mine)
    report = read_graph((w * x).sum())
    assert report.ops["MulBackward0"] == 1
    assert [leaf.shape for leaf in report.leaves] == [(3,)]


def test_a_view_whose_base_is_new() -> None:
    w = torch.ones(4, requires_grad=True)
    base = torch.zeros(4)
    view = base[:2]
    base.copy_(w * 2)  # the view gets another grad_fn when it is asked
    report = read_graph(view.sum())
    assert len(report.leaves) == 1
    assert report.depth >= 3


def test_3000_nodes_print_a_summary() -> None:
    y = torch.ones((), requires_grad=True)
    for k in range(1000):
        y = (y + 1).sin() * k
    assert read_graph(y).nodes > 3000
    assert str(read_graph(y)).count("\n") < 10


@pytest.mark.parametrize("name", CASES)
def test_every_real_model_has_a_report_and_is_as_it_was(name: str) -> None:
    model, inputs, targets, criterion = CASES[name]()
    before = photo(model, inputs, targets)
    report = profile_graph(model, inputs, targets, criterion)
    assert differences(before, photo(model, inputs, targets)) == []
    assert report.nodes == sum(report.ops.values())
    assert report.ops["AccumulateGrad"] == len(report.leaves)
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["depth"] == report.depth
    assert str(report).count("\n") < 40


def test_a_tied_weight_is_one_leaf_with_aliases() -> None:
    leaf = profile_graph(*gpt()).leaves[0]
    assert (leaf.name, leaf.aliases, leaf.uses) == ("words.weight", ("head.weight",), 2)


def test_leaves_are_named_in_the_order_of_the_model_and_the_batch_after_it() -> None:
    x = torch.ones(1, 2, requires_grad=True)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1).requires_grad_(False))
    report = profile_graph(model, x, None, lambda out: out.sum())
    assert [leaf.name for leaf in report.leaves] == ["0.weight", "0.bias", "batch[0]"]


def test_structure_is_still_there_after_backward() -> None:
    model, inputs, targets, criterion = checkpointed(on=False)
    loss = criterion(model(inputs), targets)
    before = read_graph(loss, model)
    loss.backward()
    assert read_graph(loss, model) == before


def test_a_compiled_model_is_one_line_that_says_why() -> None:
    model = torch.compile(nn.Linear(2, 1), backend="eager")
    with pytest.raises(DebuggerError) as caught:
        profile_graph(model, torch.ones(1, 2), None, lambda out: out.sum())
    assert "compiled" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_compiled_part_is_a_note() -> None:
    class CompiledFunction(torch.autograd.Function):  # the name that the compiler gives
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 2

    report = read_graph(CompiledFunction.apply(torch.ones(2, requires_grad=True)))
    assert "compiled" in report.notes[0]


def test_a_reentrant_checkpoint_is_a_note() -> None:
    class Block(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(super().forward, x, use_reentrant=True)

    report = profile_graph(Block(2, 2), torch.ones(1, 2, requires_grad=True), None, lambda out: out.sum())
    assert "reentrant" in report.notes[0]


def test_within_a_transform_of_torch_func_is_one_line_that_says_why() -> None:
    texts: list[str] = []

    def f(x: Tensor) -> Tensor:
        try:
            read_graph(x.sin())
        except DebuggerError as error:
            texts.append(str(error))
        return x.sin()

    torch.func.grad(f)(torch.ones(()))
    torch.func.vmap(f)(torch.ones(3))
    assert len(texts) == 2
    assert all("torch.func" in text and "\n" not in text for text in texts)


def test_a_model_that_uses_torch_func_is_one_line_that_says_why() -> None:
    class Force(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return torch.func.grad(lambda x: super(Force, self).forward(x).sin().sum())(x).sum()

    with pytest.raises(DebuggerError, match=r"transform of torch\.func") as caught:
        profile_graph(Force(2, 2), torch.ones(3, 2))
    assert "\n" not in str(caught.value)


def test_vmap_in_a_model_is_seen() -> None:
    class Mapped(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return torch.func.vmap(super().forward)(x).sin().sum()

    assert profile_graph(Mapped(2, 2), torch.ones(3, 2)).ops["SinBackward0"] == 1


def test_no_graph_is_one_line() -> None:
    with pytest.raises(DebuggerError, match="nothing requires grad"):
        read_graph(torch.ones(3))


def test_time_by_node_hardly_grows() -> None:
    def best(n: int) -> float:
        y, times = chain(n), []
        for _ in range(5):
            start = time.perf_counter()
            read_graph(y)
            times.append(time.perf_counter() - start)
        return min(times) / n

    assert best(20_000) < 10 * best(1_000)  # the benchmark demands 3 of a quiet machine
