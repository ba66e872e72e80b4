"""Quiz: `<!-- quiz: vjp -->` becomes the questions of `snippets/quiz/vjp.py`, each answer folded under its question.

What is written here is Markdown, so that code and math in a question look as they do elsewhere.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterator
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

from publish.gallery import told
from publish.math import without_code
from publish.places import BuildStopped, page_file, where
from snippets import quiz
from snippets.quiz.question import Question

MARKER = re.compile(r"^(?P<indent>\s*)<!--\s*quiz:\s*(?P<name>[\w-]+)\s*-->\s*$")
MEANT = re.compile(r"<!--\s*quiz\w*\s*:|<!--\s*quiz(?:\s+[\w-]+)?\s*-->", re.IGNORECASE)
LETTERS = "ABCDEFGH"


def names() -> list[str]:
    """Chapters that have questions."""
    return sorted(module.name for module in pkgutil.iter_modules(quiz.__path__) if module.name != "question")


def questions(name: str) -> list[Question]:
    """The questions of a chapter. Raises LookupError for an unknown one."""
    module = name.replace("-", "_")
    if module not in names():
        raise LookupError(name)
    full = f"snippets.quiz.{module}"
    # Read again for each build, so that the live site follows an edit.
    sys.modules.pop(full, None)
    found: list[Question] = importlib.import_module(full).QUESTIONS
    return found


def lines(name: str, found: list[Question]) -> Iterator[str]:
    """The questions as Markdown."""
    yield f'<div class="quiz" data-quiz="{name}" markdown>'
    for number, question in enumerate(found, 1):
        right = question.choices[question.right]
        yield from ("", f'<div class="question" id="quiz-{question.name}" data-right="{question.right}" markdown>')
        yield from ("", f"**{number}.** {question.prompt}", "")
        for letter, choice in zip(LETTERS, question.choices, strict=False):
            yield f"- **{letter}** {choice.text}"
        yield from ("", '??? question "Answer"', "")
        yield from (f"    **{LETTERS[question.right]}: {right.text}.** {right.why}", "")
        for letter, choice in zip(LETTERS, question.choices, strict=False):
            if choice is not right:
                yield f"    - **{letter}** is wrong: {choice.why}"
        yield from ("", "</div>")
    yield from ("", "</div>")


class QuizPreprocessor(Preprocessor):
    """Runs before fences are read and comments are put away."""

    def run(self, lines_: list[str]) -> list[str]:
        found: list[str] = []
        bare = without_code("\n".join(lines_)).split("\n")
        for line, text in zip(lines_, bare, strict=True):
            match = MARKER.match(text)
            if match is None:
                if MEANT.search(text):
                    raise BuildStopped(
                        f"{where(self.md, self.number(line))}: {line.strip()} would be hidden as a comment;"
                        " write <!-- quiz: NAME -->, alone on its line"
                    )
                found.append(line)
            else:
                found += [match["indent"] + text if text else "" for text in self.quiz(match["name"], line)]
        return found

    def quiz(self, name: str, line: str) -> list[str]:
        try:
            return list(lines(name, questions(name)))
        except LookupError:
            near = difflib.get_close_matches(name, names(), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"write snippets/quiz/{name.replace('-', '_')}.py"
            raise BuildStopped(f"{where(self.md, self.number(line))}: no quiz '{name}'; {hint}") from None
        except (Exception, SystemExit) as error:
            message = f"snippets/quiz/{name.replace('-', '_')}.py fails: {told(error)}"
            raise BuildStopped(f"{where(self.md, self.number(line))}: {message}") from None

    def number(self, line: str) -> int | None:
        source = page_file(self.md)
        if source is None:
            return None
        text = source.read_text("utf-8-sig").splitlines()
        return next((number for number, known in enumerate(text, 1) if known.strip() == line.strip()), None)


class QuizExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(QuizPreprocessor(md), "publish-quiz", 28)


def makeExtension(**options: Any) -> QuizExtension:
    return QuizExtension(**options)
