# SPDX-License-Identifier: 0BSD
"""Question: what is asked, what can be answered, and why each answer is right
or wrong."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """One answer. Both texts are Markdown, without blocks."""

    text: str
    why: str


@dataclass(frozen=True)
class Question:
    """A question with one right answer.

    `name` is its place on the page, in lower case with dashes. `right` counts
    from 0. `proof` computes the answer with torch and returns the text of the
    right choice; the tests call it.

    Raises ValueError for fewer than two choices, choices of the same text,
    a choice without a reason, or a `right` that is none of them.
    """

    name: str
    prompt: str
    choices: tuple[Choice, ...]
    right: int
    proof: Callable[[], str]

    def __post_init__(self) -> None:
        texts = [choice.text for choice in self.choices]
        if len(texts) < 2 or len(set(texts)) < len(texts):
            raise ValueError(f"{self.name}: give two or more different choices")
        if not 0 <= self.right < len(texts):
            raise ValueError(f"{self.name}: right={self.right} is no choice")
        if not all(choice.why.strip() for choice in self.choices):
            raise ValueError(f"{self.name}: give each choice its reason")
