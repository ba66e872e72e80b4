"""Workbench: a small project written from text, and what doccheck says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from doccheck import plugin
from doccheck.project import Project

ROOT = Path(__file__).parents[2]
MARKER = re.compile(r"^=== (?P<title>[^\"\n]+)\n", re.MULTILINE)


def extensions() -> str:
    """The `markdown_extensions` of the site's own mkdocs.yml, as text."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    match = re.search(r"^markdown_extensions:\n(?:(?:[ \t#].*)?\n)+", text, re.MULTILINE)
    assert match is not None
    return match[0]


def split(text: str) -> dict[str, str]:
    """The parts of a golden file by their titles, in order."""
    parts = MARKER.split(text)
    return {title: body.removesuffix("\n") for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def make(root: Path, files: dict[str, str | bytes]) -> Project:
    """A project with these files. A title may end in how the file is written: `docs/page.md, latin-1` or `…, crlf`."""
    given = {"mkdocs.yml": "site_name: Golden\n", "snippets/__init__.py": "", **files}
    given["mkdocs.yml"] = f"{given['mkdocs.yml']}\n{extensions()}"
    for title, text in given.items():
        name, _, manner = title.partition(", ")
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, str):
            ends = text.replace("\n", "\r\n") if manner == "crlf" else text
            text = ends.encode("latin-1" if manner == "latin-1" else "utf-8")
        path.write_bytes(text)
    (root / "docs").mkdir(exist_ok=True)
    return Project.load(root)


def page(root: Path, text: str, **files: str) -> Project:
    """A project of one page, `docs/page.md`."""
    return make(root, {"docs/page.md": text, **files})


def items(project: Project, path: Path, seed: int = 0, device: str = "cpu") -> Iterator[tuple[str, str, str]]:
    """The items that pytest would have for a file: name, outcome, what it says."""
    state = plugin.State(project, device, seed)
    regions = plugin._page_regions if project.is_page(path) else plugin._snippet_regions
    for example in plugin._Text.parse(str(path), partial(regions, state)).examples():
        name = str(example.parsed[0])
        try:
            example.evaluate()
            yield name, "passed", ""
        except plugin.Failed as failed:
            yield name, "FAILED", str(failed)
        except pytest.skip.Exception as skipped:
            yield name, "skipped", str(skipped)


def report(project: Project, paths: list[Path], seed: int = 0, device: str = "cpu") -> str:
    """What a contributor would read, one entry for each item, without what passed on a file where all passed."""
    lines = []
    for path in paths:
        found = list(items(project, path, seed, device))
        for name, outcome, said in found:
            lines.append(f"{outcome} {project.name(path)}::{name}" + (f" ({said})" if outcome == "skipped" else ""))
            if outcome == "FAILED":
                lines += [f"    {line}".rstrip() for line in said.split("\n")]
    return "\n".join(lines)


def run(root: Path, text: str, **files: str) -> str:
    """The report of one page."""
    project = page(root, text, **files)
    return report(project, [project.docs / "page.md"])
