"""What figures are made of: recorded runs. Another formula gives other numbers, another order, other frames."""

import itertools

import pytest
import torch
from torch import Tensor

from snippets.figures import graph, moments, tensors, vjp
from snippets.figures.record import Trace, brief, record


def numbers(trace: Trace) -> list[tuple[str, list[str], list[str]]]:
    def name(thing: int) -> str:
        leaves = trace.leaves
        return leaves[thing].name if thing < len(leaves) else trace.node(thing).op

    return [(name(e.thing), [v.text for v in e.received if v], [v.text for v in e.returned if v]) for e in trace.events]


def test_the_run_of_the_page() -> None:
    assert numbers(graph.trace()) == [
        ("Pow", ["1"], ["14"]),
        ("Add", ["14"], ["14", "14"]),
        ("b", ["14"], []),
        ("Mul", ["14"], ["42", "28"]),
        ("x", ["42"], []),
        ("w", ["28"], []),
    ]
    assert [[s.value.text for s in node.saved] for node in graph.trace().nodes] == [["2", "3"], [], ["7"]]
    assert [node.outputs[0].text for node in graph.trace().nodes] == ["6", "7", "49"]


def test_the_numbers_are_those_of_torch() -> None:
    x, w, b = (torch.tensor(v, requires_grad=True) for v in (0.3, -1.7, 0.9))
    wanted = torch.autograd.grad(graph.formula(x, w, b), (x, w, b))
    trace = record(graph.formula, x=0.3, w=-1.7, b=0.9)
    assert {name: value.numbers[0] for name, value in trace.grads.items()} == {
        name: grad.item() for name, grad in zip("xwb", wanted, strict=True)
    }
    assert trace.result.numbers[0] == graph.formula(x, w, b).item()


def test_another_formula_gives_other_frames() -> None:
    page = moments.player(graph.trace())
    other = moments.player(record(lambda p, q: (p - q).exp() * p, p=1.0, q=2.0))
    assert [frame.tick for frame in other.frames] == [
        "start",
        "Sub",
        "Exp",
        "Mul",
        "Mul",
        "Exp",
        "Sub",
        "p",
        "q",
        "end",
    ]
    assert not {frame.caption for frame in page.frames} & {frame.caption for frame in other.frames}
    small = f"{torch.tensor(-1.0).exp().item():.4g}"
    assert f"Exp makes {small}" in other.frames[2].caption
    assert "p.grad is 0.7358" in other.frames[-1].caption


def test_another_value_gives_other_numbers() -> None:
    frames = moments.player(record(graph.formula, x=5.0, w=3.0, b=1.0)).frames
    assert frames[4].caption == "Backward: Pow receives 1 and returns 32."
    assert len(frames) == len(graph.backward().frames)


def test_saved_tensors_are_freed_after_their_node() -> None:
    trace = graph.trace()
    gone: set[int] = set()
    for event in trace.events:
        assert event.thing not in event.freed
        assert set(event.freed) >= gone
        gone = set(event.freed)
    last = graph.backward().frames
    assert "Pow has finished" in last[5].caption and "Pow has finished" not in last[4].caption
    assert trace.freed == (3, 5) and trace.held(trace.freed) == 0
    assert trace.held() == 3 * 4  # 2, 3 and 7 in float32; Add saves nothing


def test_memory_that_is_shared_counts_once() -> None:
    x = torch.ones(4, requires_grad=True)
    trace = record(lambda x: (x * x).sum(), x=x)
    assert [saved.name for saved in trace.nodes[0].saved] == ["self", "other"]
    assert trace.held() == 4 * 4


def test_gradients_of_two_uses_arrive_as_one_sum() -> None:
    trace = record(lambda x: x.sin() * x.exp(), x=0.5)
    (arrival,) = [event for event in trace.events if event.thing == 0]
    parts = [v.numbers[0] for event in trace.events[1:-1] for v in event.returned if v]
    assert arrival.received[0] is not None
    assert sum(parts) == pytest.approx(arrival.received[0].numbers[0])
    assert len(parts) == 2


def test_an_input_without_grad_has_a_road_and_no_event() -> None:
    trace = record(lambda x, w: (x * w).sum(), x=torch.ones(3), w=torch.ones(3, requires_grad=True))
    (fixed,) = [road for road in trace.roads if road.source == 0]
    assert fixed.slot is None and not trace.leaves[0].needs_grad
    assert all(event.thing != 0 for event in trace.events) and list(trace.grads) == ["w"]
    assert "(needs no grad)" in moments.player(trace).frames[0].caption


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, row):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return row * 3 * x**2


def test_a_custom_function_is_a_node_like_any_other() -> None:
    trace = record(Cube.apply, x=2.0)
    assert trace.nodes[0].name == "CubeBackward" and trace.nodes[0].saved[0].value.text == "2"
    assert numbers(trace) == [("Cube", ["1"], ["12"]), ("x", ["12"], [])]
    assert trace.freed == (1,)


def test_several_outputs_and_a_cotangent() -> None:
    trace = record(
        lambda x: x.unbind()[1] * torch.ones(2), torch.tensor([1.0, 10.0]), x=torch.ones(2, requires_grad=True)
    )
    assert len(trace.nodes[0].outputs) == 2
    assert trace.grads["x"].numbers == (0.0, 11.0)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="does not require grad"):
        record(lambda x: x.detach(), x=1.0)

    def deep(x: Tensor) -> Tensor:
        for _ in range(2001):
            x = x + 1
        return x

    with pytest.raises(ValueError, match="more than 2000 nodes"):
        record(deep, x=1.0)


@pytest.mark.parametrize(
    ("number", "text"), [(14.0, "14"), (-0.0, "0"), (0.84147, "0.8415"), (1e-9, "1e-09"), (float("inf"), "inf")]
)
def test_brief(number: float, text: str) -> None:
    assert brief(number) == text


def test_product_is_v_times_the_jacobian() -> None:
    v, table, row = vjp.product()
    assert torch.equal(v @ table, row) and row.tolist() == [2.0, 15.0, 2.0]
    body = vjp.matrices().body
    assert "15 = 1 · 12 + 1 · 3" in body and "2 × 3" in body


def test_memory_is_what_torch_says() -> None:
    tables, rows = vjp.weights()
    assert [4 * n for n in vjp.SIZES] == rows and [4 * n * vjp.M for n in vjp.SIZES] == tables
    assert vjp.size(tables[-1]) == "400 TB" and vjp.size(rows[-1]) == "0.4 GB"


def test_chain_counts_what_was_multiplied() -> None:
    v, tables, row = vjp.layers()
    assert [tuple(t.shape) for t in (v, *tables, row)] == [(1, 3), (3, 3), (3, 3), (3, 5), (1, 5)]
    end = vjp.chain().frames[-1].caption
    assert "the row of backward" in end
    assert f"at most 5 numbers travel, in {3 * 3 + 3 * 3 + 3 * 5} multiplications" in end
    assert f"15, in {3 * 3 * 5 + 3 * 3 * 5 + 3 * 5}." in end
    assert [frame.tick for frame in vjp.chain().frames] == ["start", "1", "2", "3", "end"]


def test_places_lead_to_the_elements() -> None:
    a = torch.arange(10.0, 16.0).reshape(2, 3)
    flat = torch.as_strided(a, (6,), (1,), 0)
    for view in (a, a.T, a[:, 1], a[1:], a[:, ::2]):
        rows = view if view.dim() == 2 else view[None]
        where = tensors.places(view)
        for r, c in itertools.product(range(rows.shape[0]), range(rows.shape[1])):
            assert flat[where[r][c]] == rows[r, c]


def test_small_figures_say_what_they_show() -> None:
    (panel,) = tensors.aliasing().panels
    for drawing in (panel.wide, panel.tall):
        assert "one storage, 24 bytes" in drawing.body and drawing.body.count('class="mark"') == 8
    (panel,) = tensors.broadcasting().panels
    assert panel.wide.body.count('class="later"') == 9 + 8
