"""Every question of the quiz: its proof computes the answer that it calls right."""

from importlib import import_module
from pathlib import Path

import pytest

from snippets.quiz.question import Choice, Question

FOLDER = Path(__file__).resolve().parents[2] / "snippets" / "quiz"
CHAPTERS = sorted(path.stem for path in FOLDER.glob("[!_]*.py") if path.stem != "question")
QUESTIONS = [(chapter, q) for chapter in CHAPTERS for q in import_module(f"snippets.quiz.{chapter}").QUESTIONS]
CHOICES = (Choice("a", "because"), Choice("b", "because"))


@pytest.mark.parametrize(("chapter", "question"), QUESTIONS, ids=[f"{c}-{q.name}" for c, q in QUESTIONS])
def test_the_proof_computes_the_right_answer(chapter: str, question: Question) -> None:
    assert question.proof() == question.choices[question.right].text


def test_names_are_unique_in_a_chapter() -> None:
    assert len({(chapter, question.name) for chapter, question in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_asks_three_to_five_questions(chapter: str) -> None:
    assert 3 <= len(import_module(f"snippets.quiz.{chapter}").QUESTIONS) <= 5


@pytest.mark.parametrize(
    ("choices", "right", "message"),
    [
        (CHOICES[:1], 0, "two or more"),
        ((CHOICES[0], CHOICES[0]), 0, "different"),
        (CHOICES, 2, "no choice"),
        (CHOICES, -1, "no choice"),
        ((Choice("a", " "), CHOICES[1]), 0, "reason"),
    ],
)
def test_a_question_that_cannot_be_asked(choices: tuple[Choice, ...], right: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Question("name", "prompt", choices, right, lambda: "a")
