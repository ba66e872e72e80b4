"""Includes: `--8<--` lines expanded by pymdownx.snippets itself, each line remembering its file."""

from __future__ import annotations

import difflib
import re
import textwrap
from pathlib import Path
from typing import Any

from markdown import Markdown
from pymdownx.snippets import SnippetExtension, SnippetMissingError, SnippetPreprocessor

from doccheck import sections
from doccheck.places import Line, Place, Problem, not_utf8
from doccheck.project import Project

# What looks like an include but is none for pymdownx: without quotes, or with a blank after them.
STRAY = re.compile(r"^\s*-+8<-+[ \t]+\S")


class _Wrong(Exception):
    """An include that pymdownx would accept and that a page must not have."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Expander(SnippetPreprocessor):
    """pymdownx's own expansion; only what it reads and dedents remembers where it came from."""

    def __init__(self, project: Project, config: dict[str, Any], md: Markdown) -> None:
        super().__init__(config, md)
        self.project = project
        self.page_line = Line("", Place("", 0))
        self.included: list[tuple[str, str | None]] = []

    def read_lines(self, path: str) -> list[str]:
        name = self.project.name(Path(path))
        try:
            lines = super().read_lines(path)
        except UnicodeDecodeError as error:
            raise _Wrong(not_utf8(name, error)) from None
        return [Line(text, Place(name, number)) for number, text in enumerate(lines, 1)]

    def dedent(self, lines: list[str]) -> list[str]:
        dedented = textwrap.dedent("\n".join(lines)).split("\n")
        return [Line(text, line.place) for text, line in zip(dedented, lines, strict=True) if isinstance(line, Line)]

    def select_snippet_lines(self, lines: list[str], target: dict[str, Any]) -> list[str]:
        path, section = Path(target["snippet"]), target["section"]
        name = self.project.name(path)
        found, problems = sections.scan(path, name)
        if target["start"]:
            hint = f"mark a section in {name} and include it by name; line numbers move"
            raise _Wrong(Problem(self.page_line.place, "an include by line numbers", hint))
        self.included.append((name, section))
        for problem in problems:
            if section is None or f"'{section}'" in problem.message:
                raise _Wrong(problem)
        if section and section not in {known.name for known in found}:
            raise _Wrong(self._unknown_section(name, section, [known.name for known in found]))
        selected: list[str] = super().select_snippet_lines(lines, target)
        if not any(line.strip() for line in selected):
            raise _Wrong(Problem(self.page_line.place, f"{name} is empty", "include a file that has code"))
        return selected

    def _unknown_section(self, name: str, section: str, known: list[str]) -> Problem:
        near = difflib.get_close_matches(section, known, n=1)
        if near:
            hint = f"did you mean '{near[0]}'?"
        else:
            hint = f"it has {', '.join(map(repr, known))}" if known else f"mark it with `# --8<-- [start:{section}]`"
        return Problem(self.page_line.place, f"{name} has no section '{section}'", hint)

    def expand_line(self, line: Line) -> list[Line]:
        self.page_line = line
        return [found if isinstance(found, Line) else Line(found, line.place) for found in self.run([line])]


def expand(
    project: Project, lines: list[Line]
) -> tuple[list[Line], dict[Place, list[Problem]], list[tuple[str, str | None]]]:
    """The lines with includes expanded, the problems by the page's line, and what was included (file, section).

    An include with a problem leaves one blank line, so that the rest of the page can still be read.
    """
    extension = SnippetExtension(**project.snippet_settings)
    expander = _Expander(project, extension.getConfigs(), Markdown())
    expanded: list[Line] = []
    problems: dict[Place, list[Problem]] = {}
    for line in lines:
        match = SnippetPreprocessor.RE_ALL_SNIPPETS.match(line)
        if match is None or match["escape"]:
            if match is None and STRAY.match(line):
                hint = 'put the target in quotes: --8<-- "chapters/vjp.py:vjp"'
                problems.setdefault(line.place, []).append(
                    Problem(line.place, "pymdownx would show this include as text", hint)
                )
            expanded.extend(expander.expand_line(line) if match else [line])
            continue
        try:
            if not match["inline_marker"]:
                hint = 'use one line for each include: --8<-- "chapters/vjp.py:vjp"'
                raise _Wrong(Problem(line.place, "an include in the block form", hint))
            expanded.extend(expander.expand_line(line))
        except (_Wrong, SnippetMissingError) as error:
            if isinstance(error, _Wrong):
                problem = error.problem
            else:
                bases = ", ".join(project.name(base) for base in project.snippets)
                problem = Problem(line.place, str(error), f"paths start at {bases}/")
            problems.setdefault(line.place, []).append(problem)
            expanded.append(Line("", line.place))
    return expanded, problems, expander.included
