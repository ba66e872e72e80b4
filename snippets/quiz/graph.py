# SPDX-License-Identifier: 0BSD
"""Questions on the dynamic graph."""

import torch

from snippets.quiz.question import Choice, Question


def _leaves() -> str:
    x = torch.tensor(1.0)
    w = torch.tensor(1.0, requires_grad=True)
    made = {"x + 2": x + 2, "w + 2": w + 2, "w.detach() + 2": w.detach() + 2}
    return " and ".join(f"`{n}`" for n, t in made.items() if t.is_leaf)


def _saved_factor() -> str:
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(3.0)
    node = (a * b).grad_fn
    saved = {
        "`a`": getattr(node, "_saved_self", None),
        "`b`": getattr(node, "_saved_other", None),
    }
    (only,) = [name for name, value in saved.items() if value is not None]
    return f"only {only}"


def _second_walk() -> str:
    x = torch.tensor(1.0, requires_grad=True)
    y = x + 3
    y.backward()
    y.backward()
    assert x.grad is not None
    return f"no error, and `x.grad` is {int(x.grad)}"


def _two_paths() -> str:
    x = torch.tensor(1.0, requires_grad=True)
    h = x * 1
    received = []

    def note(rows: tuple[torch.Tensor, ...]) -> None:
        received.append(int(rows[0]))

    assert h.grad_fn is not None
    h.grad_fn.register_prehook(note)
    (3 * h + 4 * h).backward()
    times = {1: "once", 2: "twice"}[len(received)]
    return f"{times}, with {received[0]}"


def _built_by() -> str:
    x = torch.tensor(1.0, requires_grad=True)
    y = x * 2
    return "the multiplication" if y.grad_fn is not None else "`y.backward()`"


QUESTIONS = [
    Question(
        name="which-are-leaves",
        prompt="`x` does not require grad, `w` does. Which of `x + 2`, "
        "`w + 2` and `w.detach() + 2` are leaves?",
        choices=(
            Choice(
                "none",
                "To be made by an operation does not matter by itself. "
                "A tensor that requires no grad has no node behind it, so "
                "it is a leaf.",
            ),
            Choice(
                "`x + 2` and `w.detach() + 2`",
                "Neither requires grad, so no node was made, and what has no "
                "node is a leaf.",
            ),
            Choice(
                "`w + 2`",
                "It is the one that has a node, `AddBackward0`, so it is the "
                "one that is no leaf.",
            ),
        ),
        right=1,
        proof=_leaves,
    ),
    Question(
        name="who-builds-the-node",
        prompt="`x` requires grad. Which of these lines makes the node of "
        "`y = x * 2`?",
        choices=(
            Choice(
                "the multiplication",
                "Each operation of the forward adds its node at once; "
                "`y.grad_fn` is there before any backward.",
            ),
            Choice(
                "`y.backward()`",
                "It walks the nodes that are there, and builds none of them.",
            ),
            Choice(
                "`x.requires_grad_()`",
                "It sets a flag on the leaf. Nothing is recorded before an "
                "operation uses it.",
            ),
        ),
        right=0,
        proof=_built_by,
    ),
    Question(
        name="what-a-product-saves",
        prompt="`loss = a * b`; `a` requires grad and `b` does not. What "
        "does the node save?",
        choices=(
            Choice(
                "only `a`",
                "It is needed for the gradient of `b`, and nobody wants that.",
            ),
            Choice(
                "both",
                "A saved tensor costs memory, so torch keeps only "
                "what some gradient needs.",
            ),
            Choice(
                "only `b`", "The gradient of `a` is the incoming one times `b`."
            ),
        ),
        right=2,
        proof=_saved_factor,
    ),
    Question(
        name="walk-twice-without-saved-tensors",
        prompt="`y = x + 3`, and `y.backward()` is called twice, without "
        "`retain_graph`. What happens?",
        choices=(
            Choice(
                "the second call raises",
                "It raises where a saved tensor is gone. An addition saves "
                "none.",
            ),
            Choice(
                "no error, and `x.grad` is 1",
                "`.grad` adds over calls; it is not replaced.",
            ),
            Choice(
                "no error, and `x.grad` is 2",
                "Nothing was saved, so nothing was freed, and each walk adds "
                "1.",
            ),
        ),
        right=2,
        proof=_second_walk,
    ),
    Question(
        name="two-paths-to-a-node",
        prompt="`h = x * 1` and the loss is `3 * h + 4 * h`. How often does "
        "the node of `h` run in backward, and what does it receive?",
        choices=(
            Choice(
                "twice, with 3 and with 4",
                "A node waits until everything that leads to it has arrived.",
            ),
            Choice(
                "once, with 7",
                "The engine sums what arrives, and runs the node when its "
                "gradient is complete.",
            ),
            Choice(
                "once, with 12",
                "Paths are summed. Factors multiply only along one path.",
            ),
        ),
        right=1,
        proof=_two_paths,
    ),
]
