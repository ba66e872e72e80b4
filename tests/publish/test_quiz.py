"""Quiz: the comment becomes questions with folded answers; an unknown name stops the build."""

import re
from pathlib import Path

import pytest
from markdown import Markdown

from publish.places import BuildStopped
from publish.quiz import questions

EXTENSIONS = ["md_in_html", "attr_list", "pymdownx.details", "pymdownx.superfences", "publish.quiz"]


def html(text: str) -> str:
    return Markdown(extensions=EXTENSIONS).convert(text)


def test_every_question_shows_its_choices_and_folds_its_answer() -> None:
    page = html("# A\n\n<!-- quiz: vjp -->\n\nAfter.\n")
    found = questions("vjp")
    assert page.count('<details class="question">') == len(found) == page.count('<div class="question"')
    for question in found:
        part = page.partition(f'id="quiz-{question.name}"')[2].partition("</details>")[0]
        before, _, fold = part.partition("<details")
        assert before.count("<li>") == len(question.choices)
        assert fold.count("<li>") == len(question.choices) - 1
        assert f"<strong>{'ABCDEFGH'[question.right]}: " in fold
    assert "<!--" not in page
    assert "**" not in page
    assert page.rstrip().endswith("<p>After.</p>")


def test_each_choice_says_why_in_the_fold() -> None:
    page = html("<!-- quiz: vjp -->")
    for question in questions("vjp"):
        for choice in question.choices:
            words = re.findall(r"[A-Za-z]{4,}", re.sub(r"[`*]", "", choice.why))
            assert all(word in page for word in words)


@pytest.mark.parametrize(("name", "hint"), [("vpj", "did you mean 'vjp'"), ("nothing-like-it", "write snippets/quiz/")])
def test_an_unknown_quiz_stops_the_build_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(BuildStopped, match=f"no quiz '{name}'; {hint}"):
        html(f"<!-- quiz: {name} -->")


def test_an_unknown_quiz_names_page_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "docs" / "a.md"
    page.parent.mkdir()
    page.write_text("# A\n\n<!-- quiz: vpj -->\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("publish.quiz.page_file", lambda md: page)
    monkeypatch.setattr("publish.quiz.where", lambda md, line: f"docs/a.md:{line}")
    with pytest.raises(BuildStopped, match=r"^docs/a\.md:3: "):
        html(page.read_text("utf-8"))


@pytest.mark.parametrize(
    "line",
    [
        "<!-- quizz: vjp -->",
        "<!-- quiz: -->",
        "<!-- quiz: vjp graph -->",
        "<!-- quiz vjp -->",
        "Now <!-- quiz: vjp -->",
    ],
)
def test_a_comment_that_was_meant_as_a_quiz_stops_the_build(line: str) -> None:
    with pytest.raises(
        BuildStopped, match="would be hidden as a comment; write <!-- quiz: NAME -->, alone on its line"
    ):
        html(f"# A\n\n{line}\n")


def test_a_quiz_that_is_shown_as_code_is_text() -> None:
    assert 'class="quiz"' not in html("`<!-- quiz: vjp -->`\n\n```text\n<!-- quiz: vjp -->\n<!-- quizz: a -->\n```\n")


def test_a_quiz_that_fails_names_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise SystemExit(3)

    monkeypatch.setattr("publish.quiz.questions", broken)
    with pytest.raises(BuildStopped, match=r"snippets/quiz/vjp\.py fails: SystemExit: 3"):
        html("<!-- quiz: vjp -->")


def test_other_comments_stay_comments() -> None:
    assert html("<!-- quizzes are nice -->") == "<!-- quizzes are nice -->"
