"""Links: whether what a page points to is there, said with the line to edit."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from doccheck.page import Page
from doccheck.places import Problem
from doccheck.project import Project


def problems(project: Project, page: Page, load: Callable[[Path], Page]) -> list[Problem]:
    """What is wrong with the links of a page. `load` reads the page that a link with an anchor points to."""
    found = []
    for link in page.links:
        parts = urlsplit(link.text)
        if parts.scheme or parts.netloc:
            continue
        place = page.line_of(f"({link.text}") if f"({link.text}" in page.source else page.line_of(link.text)
        if parts.path.startswith("/"):
            found.append(
                Problem(place, f"'{link.text}' starts at the root of a host", "write it relative to this page")
            )
            continue
        target = page.path
        if parts.path:
            target = Path(os.path.normpath(page.path.parent / unquote(parts.path)))
            if project.is_made(target):
                continue  # MkDocs looks whether it was
            if not target.is_file() or not target.is_relative_to(project.docs):
                found.append(
                    Problem(place, f"the link to '{parts.path}' leads nowhere", _near(project, page, parts.path))
                )
                continue
        if parts.fragment and project.is_page(target):
            anchors = page.anchors if target == page.path else load(target).anchors
            if parts.fragment not in anchors:
                near = difflib.get_close_matches(parts.fragment, sorted(anchors), n=1)
                hint = f"did you mean #{near[0]}?" if near else f"name a heading of {project.name(target)}"
                found.append(Problem(place, f"{project.name(target)} has no anchor #{parts.fragment}", hint))
    return found


def _near(project: Project, page: Page, path: str) -> str:
    names = {os.path.relpath(other, page.path.parent): other for other in project.pages()}
    near = difflib.get_close_matches(path, list(names), n=1)
    same = [name for name in names if Path(name).stem == re.sub(r"\.\w+$", "", Path(path).name)]
    guess = [*near, *same]
    return f"did you mean {guess[0]}?" if guess else "link to a file under docs/, relative to this page"


def nav_problem(project: Project, page: Page) -> Problem | None:
    """A page that nobody can reach from the menu."""
    nav = project.nav_pages()
    name = page.path.relative_to(project.docs).as_posix()
    if nav is None or name in nav:
        return None
    return Problem(project.nav_place(), f"{page.name} is not in the nav", f"add `- {name}` under nav:")
