# SPDX-License-Identifier: 0BSD
"""Questions on vector-Jacobian products."""

import torch
from torch.func import jacfwd, jvp

from snippets.quiz.question import Choice, Question


def _accepted_cotangent() -> str:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    accepted = []
    for shape in [(3,), (2,), (2, 3), ()]:
        y = torch.stack([x[0] ** 2, x[1] * x[2]])
        try:
            y.backward(torch.ones(shape))
        except RuntimeError:
            continue
        accepted.append(f"`{shape}`")
    (only,) = accepted
    return only


def _sweeps_of_a_scalar_loss() -> str:
    arrivals = []
    x = torch.ones(3_000_000, requires_grad=True)
    x.register_hook(lambda row: arrivals.append(row.numel()))
    torch.autograd.backward((x**2).sum())
    assert arrivals == [3_000_000]
    return {1: "One"}[len(arrivals)]


def _table_of_a_tall_function() -> str:
    def wave(x: torch.Tensor) -> torch.Tensor:  # (2,) -> (10000,)
        return x[0] * torch.linspace(0, 1, 10_000) + x[1] ** 2

    at = torch.ones(2)
    sweeps = {"jacfwd": at.numel(), "jacrev": wave(at).numel()}
    columns = [jvp(wave, (at,), (u,))[1] for u in torch.eye(2)]
    assert torch.equal(torch.stack(columns, dim=1), jacfwd(wave)(at))
    return f"`{min(sweeps, key=lambda name: sweeps[name])}`"


def _grad_after_grad() -> str:
    w = torch.tensor(3.0, requires_grad=True)
    (row,) = torch.autograd.grad(w**2, w)
    assert row == 6
    return f"`{w.grad}`"


def _gradient_of_a_complex_tensor() -> str:
    z = torch.tensor(3.0 + 4.0j, requires_grad=True)
    torch.autograd.backward(z.abs().square())
    assert z.grad is not None
    return f"`{z.grad.item():.0f}`"


QUESTIONS = [
    Question(
        name="shape-of-the-cotangent",
        prompt="`x` has shape `(3,)` and `y = f(x)` has shape `(2,)`. "
        "Which shape must `v` have in `y.backward(v)`?",
        choices=(
            Choice(
                "`(3,)`",
                "That is the shape of the answer: one number for each input.",
            ),
            Choice(
                "`(2,)`",
                "`v` has one weight for each *output*, so it is shaped like "
                "`y`.",
            ),
            Choice(
                "`(2, 3)`",
                "That is the shape of the Jacobian, which backward never "
                "builds.",
            ),
            Choice(
                "`()`",
                "One number is enough only for an output of one element; "
                "`v` is not broadcast.",
            ),
        ),
        right=1,
        proof=_accepted_cotangent,
    ),
    Question(
        name="sweeps-of-a-scalar-loss",
        prompt="How many backward passes give the slopes of a scalar loss in "
        "3 million parameters?",
        choices=(
            Choice(
                "3 million",
                "That is the price of forward mode, or of finite differences: "
                "one pass for each input.",
            ),
            Choice(
                "One for each layer",
                "One pass visits every layer. Layers set the length of the "
                "pass, not the number of passes.",
            ),
            Choice(
                "One",
                "M = 1, so the whole Jacobian is a single row, and one sweep "
                "computes a row.",
            ),
        ),
        right=2,
        proof=_sweeps_of_a_scalar_loss,
    ),
    Question(
        name="table-of-a-tall-function",
        prompt="You need all of J, for 2 inputs and 10,000 outputs. "
        "Which function takes the fewest sweeps?",
        choices=(
            Choice(
                "`jacrev`",
                "It carries one row for each output: 10,000 of them.",
            ),
            Choice(
                "`jacfwd`",
                "One sweep for each input, so two. Each yields a whole column.",
            ),
            Choice(
                "`torch.autograd.grad` in a loop",
                "This is reverse mode again, and without a batch: 10,000 "
                "walks.",
            ),
        ),
        right=1,
        proof=_table_of_a_tall_function,
    ),
    Question(
        name="grad-after-grad",
        prompt="`w` is a new leaf, and `loss = w.square()`. After "
        "`torch.autograd.grad(loss, w)`, what is `w.grad`?",
        choices=(
            Choice(
                "`None`",
                "`grad` returns the gradient and writes nothing. Only "
                "`backward` accumulates into `.grad`.",
            ),
            Choice(
                "the gradient",
                "That is what `loss.backward()` leaves there.",
            ),
            Choice(
                "zeros",
                "Nothing creates a `.grad` before a first `backward`.",
            ),
        ),
        right=0,
        proof=_grad_after_grad,
    ),
    Question(
        name="gradient-of-a-complex-tensor",
        prompt="`z = 3 + 4j` requires grad, and `loss = z.abs().square()`. "
        "What is `z.grad` after `loss.backward()`?",
        choices=(
            Choice(
                "`6-8j`",
                "This is the conjugate. Other libraries return it; torch "
                "returns the direction of steepest ascent.",
            ),
            Choice(
                "`3+4j`",
                "The factor 2 is missing: `.grad` holds twice the derivative "
                "with respect to the conjugate of `z`.",
            ),
            Choice(
                "`6+8j`",
                "Twice the derivative of z·z̄ with respect to z̄, which is z.",
            ),
        ),
        right=2,
        proof=_gradient_of_a_complex_tensor,
    ),
]
