"""Checks: everything about a page or a snippet file that can be wrong without running a block."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from doccheck import devices, docstrings, includes, links, page, sections
from doccheck.page import Page
from doccheck.places import Line, Place, Problem, not_utf8
from doccheck.project import Project

__all__ = ["docstrings", "load", "page_problems", "snippet_checks"]


def load(project: Project, path: Path) -> Page:
    """A page as it is now; read once for all that ask."""
    return _load(project, path, path.stat().st_mtime_ns, _newest(project))


@lru_cache(maxsize=512)
def _load(project: Project, path: Path, changed: int, snippets_changed: int) -> Page:
    return page.load(project, path)


def _newest(project: Project) -> int:
    return max((path.stat().st_mtime_ns for path in project.snippet_files()), default=0)


def page_problems(project: Project, found: Page) -> list[Problem]:
    """What is wrong with a page as a whole: its fences, links, place in the nav."""
    problems = list(found.fatal or found.problems)
    if not found.fatal:
        problems += links.problems(project, found, partial(load, project))
    nav = links.nav_problem(project, found)
    return problems + ([nav] if nav else [])


def snippet_checks(project: Project, path: Path) -> list[tuple[str, Callable[[], list[Problem]]]]:
    """Named checks of a snippet file; empty where it has nothing that could be wrong."""
    found, wrong = sections.scan(path, project.name(path))
    checks: list[tuple[str, Callable[[], list[Problem]]]] = [("syntax", partial(_syntax, project, path))]
    if (found or wrong) and _is_utf8(path):
        checks.append(("sections", partial(_sections, project, path)))
    return checks


def _is_utf8(path: Path) -> bool:
    try:
        path.read_text("utf-8")
    except UnicodeDecodeError:
        return False  # said by the `syntax` item
    return True


def _syntax(project: Project, path: Path) -> list[Problem]:
    """A file that is not Python, not UTF-8, or makes tensors where no default device reaches."""
    name = project.name(path)
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        return [not_utf8(name, error)]
    if text.startswith("\ufeff"):
        return [
            Problem(Place(name, 1), "a byte order mark would be copied with the code", "save it as UTF-8 without one")
        ]
    try:
        compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        line = error.lineno or text.partition("\0")[0].count("\n") + 1  # of a null byte Python says no line
        return [Problem(Place(name, line), f"{type(error).__name__}: {error.msg}", "mend the syntax")]
    return devices.problems(project, path)


def _sections(project: Project, path: Path) -> list[Problem]:
    """Markers that are wrong, and sections that no page shows; an include in a comment shows nothing."""
    name = project.name(path)
    found, wrong = sections.scan(path, name)
    shown, asked = _included(project)
    unused = []
    for section in found:
        lines = range(section.start + 1, section.end)
        faulty = any(f"'{section.name}'" in problem.message for problem in wrong)
        if not faulty and (name, section.name) not in asked and not any(Place(name, n) in shown for n in lines):
            unused.append(section)
    hint = "show it on a page, or remove its markers"
    return wrong + [Problem(Place(name, s.start), f"no page shows section '{s.name}'", hint) for s in unused]


def _included(project: Project) -> tuple[set[Place], set[tuple[str, str | None]]]:
    """Every line that some page shows, and what pages include that cannot be read to their end."""
    stamps = tuple((path, path.stat().st_mtime_ns) for path in project.pages())
    return _included_by(project, stamps, _newest(project))


@lru_cache(maxsize=8)
def _included_by(
    project: Project, pages: tuple[tuple[Path, int], ...], snippets_changed: int
) -> tuple[set[Place], set[tuple[str, str | None]]]:
    shown: set[Place] = set()
    asked: set[tuple[str, str | None]] = set()
    for path, _ in pages:
        found = load(project, path)
        shown |= found.shown
        if found.fatal:
            text = path.read_bytes().decode("utf-8", errors="replace")
            lines = [Line(line, Place("", number)) for number, line in enumerate(text.splitlines(), 1)]
            asked.update(includes.expand(project, lines)[2])
    return shown, asked
