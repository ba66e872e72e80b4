# SPDX-License-Identifier: 0BSD
"""From a trace to the steps of a player: forward op by op, then backward
node by node, each with its sentence. Every value comes from the trace.
"""

from collections.abc import Sequence

from snippets.figures.picture import Frame, Graph, Moment, Phase, Player
from snippets.figures.record import Event, Leaf, Trace, Value

TIMES = {1: "once", 2: "twice", 3: "three times"}


def listed(words: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def after_forward(trace: Trace) -> Moment:
    return Moment(len(trace.nodes), phase="fwd")


def after_backward(trace: Trace) -> Moment:
    return Moment(
        len(trace.nodes),
        phase="bwd",
        seeded=True,
        done=len(trace.events),
        freed=trace.freed,
        grads=trace.grads,
    )


def player(trace: Trace, output: str = "y") -> Player:
    """The whole run, one step for each thing that happened."""
    frames: list[Frame] = []

    def step(
        tick: str, caption: str, moment: Moment, phase: Phase = ""
    ) -> None:
        frames.append(Frame(tick, caption, Graph(trace, moment, output), phase))

    given = listed([_shown(leaf) for leaf in trace.leaves])
    start = f"{given}. No operation has run, so there is no graph yet."
    step("start", start, Moment(0))
    for k, node in enumerate(trace.nodes):
        thing = len(trace.leaves) + k
        keeps = listed([said(saved.value) for saved in node.saved])
        made = listed([said(value) for value in node.outputs])
        what = (
            f"Forward: {node.op} makes {made} and saves {keeps or 'nothing'}."
        )
        step(node.op, what, Moment(k + 1, thing, "fwd"), "fwd")
    gone: tuple[int, ...] = ()
    for k, event in enumerate(trace.events):
        moment = Moment(
            len(trace.nodes),
            event.thing,
            "bwd",
            seeded=True,
            done=k + 1,
            freed=event.freed,
            grads=event.grads,
        )
        what = _sentence(trace, event) + _freed(trace, gone, event.freed)
        gone = event.freed
        step(_tick(trace, event.thing), what, moment, "bwd")
    grads = listed([f"{k}.grad is {said(v)}" for k, v in trace.grads.items()])
    left = trace.held(trace.freed)
    end = (
        f"{left} bytes are still saved" if left else "nothing is saved any more"
    )
    step("end", f"Done: {grads}, and {end}.", after_backward(trace))
    return Player(tuple(frames))


def said(value: Value) -> str:
    """A scalar as its number, else in words: a (4, 2) tensor."""
    scalar = value.shape == () and value.numbers
    return value.text if scalar else f"a {value.shape} tensor"


def _shown(leaf: Leaf) -> str:
    needs = "" if leaf.needs_grad else " (needs no grad)"
    if leaf.value.shape == () and leaf.value.numbers:
        return f"{leaf.name} = {leaf.value.text}{needs}"
    return f"{leaf.name} of shape {leaf.value.shape}{needs}"


def _tick(trace: Trace, thing: int) -> str:
    if thing < len(trace.leaves):
        return trace.leaves[thing].name
    return trace.node(thing).op


def _sentence(trace: Trace, event: Event) -> str:
    got = listed([said(value) for value in event.received if value])
    if event.thing < len(trace.leaves):
        name = trace.leaves[event.thing].name
        value = event.grads[name]
        scalar = value.shape == () and value.numbers
        grad = f"{name}.grad = {value.text}" if scalar else f"it is {name}.grad"
        return (
            f"Backward: AccumulateGrad of {name} receives {got},"
            f" so {grad}. It returns nothing."
        )
    gave = [said(value) for value in event.returned if value]
    op = trace.node(event.thing).op
    if len(gave) > 1 and set(gave) == {got}:
        times = TIMES.get(len(gave), f"{len(gave)} times")
        return f"Backward: {op} receives {got} and passes {got} on {times}."
    return f"Backward: {op} receives {got} and returns {listed(gave)}."


def _freed(trace: Trace, was: tuple[int, ...], now: tuple[int, ...]) -> str:
    new = [thing for thing in now if thing not in was]
    if not new:
        return ""
    names = listed([trace.node(thing).op for thing in new])
    count = sum(len(trace.node(thing).saved) for thing in new)
    have = "has" if len(new) == 1 else "have"
    what = "the tensor" if count == 1 else f"the {count} tensors"
    verb = "is" if count == 1 else "are"
    return f" {names} {have} finished: {what} saved there {verb} freed."
