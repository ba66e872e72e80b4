# SPDX-License-Identifier: 0BSD
"""Questions on what the numbers of the capstone's reports mean."""

import torch
from torch import nn

from snippets.capstone import AutogradDebuggerSuite
from snippets.quiz.question import Choice, Question


class _Parts(nn.Module):
    """A parameter times 0, and one that forward leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.masked = nn.Parameter(torch.ones(1))
        self.idle = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.masked * x).sum()


def _status_of_a_masked_parameter() -> str:
    report = AutogradDebuggerSuite(_Parts()).profile_gradient_flow(
        torch.zeros(1)
    )
    assert report.row("idle").status == "unused"
    return f"`{report.row('masked').status}`"


class _Shared(nn.Module):
    """exp saves its result, and sin its input: the same tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w.exp().sin().sum()


def _held_of_a_shared_tensor() -> str:
    saved = AutogradDebuggerSuite(_Shared()).profile_graph(torch.ones(1)).saved
    assert saved is not None and saved.referenced == 64
    return f"{saved.held} B"


class _Clipped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self) -> torch.Tensor:
        return (100 * self.w).sum()


def _norm_after_clipping() -> str:
    model = _Clipped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with AutogradDebuggerSuite(model).monitor() as watch:
        torch.autograd.backward(model())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return f"{watch.report().total_norms[-1][1]:.0f}"


class _Root(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.w * x
        return torch.where(h > 0, h.sqrt(), torch.zeros_like(h)).sum()


def _masked_root() -> str:
    report = AutogradDebuggerSuite(_Root()).find_anomalies(torch.ones(1))
    assert report.loss == 0 and report.kind == "nan"
    return {"forward": "In the forward", "backward": "In the backward"}[
        report.phase
    ]


QUESTIONS = [
    Question(
        name="status-of-a-masked-parameter",
        prompt="The loss is `(masked * x).sum()`, and the batch `x` is 0. "
        "Which status does `masked` get?",
        choices=(
            Choice(
                "`unused`",
                "A path leads from the loss to it, and a gradient comes. "
                "`unused` is for a `.grad` that is `None`.",
            ),
            Choice(
                "`vanishing`",
                "That is a norm above 0 and below the threshold.",
            ),
            Choice(
                "`zero`",
                "A gradient came, and it is x = 0 exactly.",
            ),
            Choice(
                "`frozen`",
                "It requires grad.",
            ),
        ),
        right=2,
        proof=_status_of_a_masked_parameter,
    ),
    Question(
        name="held-of-a-shared-tensor",
        prompt="`w` has 8 float32 entries, and the loss is "
        "`w.exp().sin().sum()`. `exp` saves its result, `sin` its input. "
        "How many bytes are held?",
        choices=(
            Choice(
                "32 B",
                "The result of `exp` is the input of `sin`: one block of "
                "8 · 4 B, saved twice.",
            ),
            Choice(
                "64 B",
                "This is `referenced`, which counts the block for each node "
                "that saved it.",
            ),
            Choice(
                "0 B",
                "The block is no parameter, so it would not live without "
                "the graph.",
            ),
        ),
        right=0,
        proof=_held_of_a_shared_tensor,
    ),
    Question(
        name="norm-after-clipping",
        prompt="Backward gives a gradient of norm 100. You clip it to 1 and "
        "call `optimizer.step()`. Which norm does the monitor show?",
        choices=(
            Choice(
                "100",
                "It reads nothing in backward. `clip_grad_norm_` returns "
                "this number.",
            ),
            Choice(
                "1",
                "It reads `.grad` when the optimizer is about to step.",
            ),
            Choice(
                "0",
                "`.grad` is there until you zero it.",
            ),
        ),
        right=1,
        proof=_norm_after_clipping,
    ),
    Question(
        name="masked-root",
        prompt="`where(h > 0, h.sqrt(), 0)` with h = 0: where is the first "
        "NaN?",
        choices=(
            Choice(
                "In the forward",
                "The root of 0 is 0, so everything is finite there.",
            ),
            Choice(
                "Nowhere",
                "`where` drops the value, and backward still computes the "
                "slope of what was dropped.",
            ),
            Choice(
                "In the backward",
                "0 from `where` times an infinite slope of the root is NaN.",
            ),
        ),
        right=2,
        proof=_masked_root,
    ),
]
