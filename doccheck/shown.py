"""Shown: the Python in the built HTML is the Python that ran, block for block."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from shlex import quote
from typing import Any

from doccheck import record
from doccheck.page import Page, digest, load, shown
from doccheck.places import Place, Problem
from doccheck.project import Project

PYTHON = ("py", "ipython", "pycon", "sage", "numpy")  # how the class language-… of shown Python starts


class _Blocks(HTMLParser):
    """Text of every highlighted Python block. HTML comments are no data, so they are not shown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[str] = []
        self.depth = 0  # of <div> inside a Python block
        self.in_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if self.depth:
            self.depth += tag == "div"
            if tag == "code":
                self.in_code = True
                self.blocks.append("")
        elif tag == "div" and "highlight" in classes and any(_is_python(name) for name in classes):
            self.depth = 1

    def handle_endtag(self, tag: str) -> None:
        if self.depth:
            self.depth -= tag == "div"
            if tag == "code":
                self.in_code = False

    def handle_data(self, data: str) -> None:
        if self.in_code:
            self.blocks[-1] += data


def _is_python(name: str) -> bool:
    return name.startswith("language-") and name.removeprefix("language-").startswith(PYTHON)


def blocks(html: str) -> list[str]:
    """The code of each highlighted Python block of a page, as a reader sees it."""
    parser = _Blocks()
    parser.feed(html)
    parser.close()
    return [shown(block) for block in parser.blocks]


@dataclass
class Comparison:
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # pages of which no run is known
    blocks: int = 0


def compare(project: Project, site: Path, device: str, proven: bool) -> Comparison:
    """Compare every page of a built site with the record of a device.

    A page that the record does not know, or that changed since, is compared with the blocks that would run, and noted;
    with `proven` that is a problem.
    """
    found = Comparison()
    recorded = (record.read(project, device) or {}).get("pages", {})
    html = {path for path in site.rglob("*.html") if path.name != "404.html"}
    for path in project.pages():
        page = load(project, path)
        built = site / _address(path.relative_to(project.docs))
        html.discard(built)
        if not built.is_file():
            found.problems.append(
                Problem(Place(page.name, 1), f"{_name(built, site)} is not in the site", "build the site")
            )
            continue
        _compare_page(page, built, recorded.get(page.name), proven, found)
    for path in sorted(html):
        if blocks(path.read_text("utf-8")):
            message = "shows Python, and comes from no page that is run"
            found.problems.append(Problem(Place(_name(path, site), 1), message, "show it through a page of docs/"))
    return found


def _compare_page(page: Page, built: Path, known: dict[str, Any] | None, proven: bool, found: Comparison) -> None:
    shown_blocks = blocks(built.read_text("utf-8"))
    found.blocks += len(shown_blocks)
    python = [block for block in page.blocks if block.kind == "python"]
    if known is not None and record.is_current(known, page):
        kinds = {block.id: block.kind for block in page.blocks}
        wanted = Counter(entry["hash"] for entry in known["blocks"] if kinds.get(entry["id"]) == "python")
        failed = [entry for entry in known["blocks"] if entry["outcome"] in ("failed", "not-run")]
        if failed and proven:
            place = Place(page.name, failed[0]["line"])
            found.problems.append(Problem(place, f"this block has not passed: {failed[0]['reason']}", "mend it"))
    else:
        wanted = Counter(digest(block.shown) for block in python)
        why = "changed since it last ran" if known is not None else "has not run yet"
        note = f"{page.name} {why}"
        if proven:
            found.problems.append(Problem(Place(page.name, 1), why, f"run: nox -s test-cpu -- {quote(page.name)}"))
        else:
            found.notes.append(note)
    there = Counter(map(digest, shown_blocks))
    for code in shown_blocks:
        if there[digest(code)] > wanted[digest(code)]:
            there[digest(code)] -= 1
            message = f"the site shows a block that did not run: {_start(code)}"
            found.problems.append(Problem(page.line_of(_start(code)), message, "show it in a ```python fence"))
    for block in python:
        if wanted[digest(block.shown)] > there[digest(block.shown)]:
            wanted[digest(block.shown)] -= 1
            message = f"this block ran and the site does not show it: {_start(block.shown)}"
            found.problems.append(Problem(block.place, message, "build the site again"))


def _start(code: str) -> str:
    return code.split("\n")[0].strip()


def _address(page: Path) -> Path:
    """Where MkDocs puts a page, with directory URLs."""
    if page.stem in ("index", "README"):
        return page.with_name("index.html")
    return page.with_suffix("") / "index.html"


def _name(path: Path, site: Path) -> str:
    return f"{site.name}/{path.relative_to(site).as_posix()}"
