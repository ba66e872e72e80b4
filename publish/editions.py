"""Editions: a page as a script and as a notebook, made from its text. Nothing is run and nothing is captured."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from typing import Any

from doccheck.outputs import ERROR
from doccheck.page import Block, Page
from doccheck.project import Project
from doccheck.script import framed
from publish.cells import Code, Text, cells
from publish.figures import line_of
from publish.gallery import FigureError, fresh
from publish.places import BuildStopped
from publish.standalone import png

LICENCE = "Code: 0BSD. Text and figures: CC BY 4.0."
NOTEBOOK_PAGES = "labs/"  # the notebooks of these pages can also be read on the site
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<kind>figure|player):(?P<name>[\w/-]+)[^)]*\)")


def script(project: Project, page: Page, site: str) -> str:
    """A page as a Python file with cells (`# %%`). An expected error is caught and printed; needs are guarded."""
    lines = [f"# {title(page)}", f"# From {site}. {LICENCE}", "# SPDX-License-Identifier: 0BSD", ""]
    for cell in cells(project, page, site):
        if isinstance(cell, Text):
            lines.append("# %% [markdown]")
            text = PICTURE.sub(lambda match: f"(Figure: {match['alt']})", "\n".join(cell.lines))
            lines += [f"# {line}".rstrip() for line in text.split("\n")]
        else:
            before, code, after = framed(cell.block)
            lines += ["# %%", *before, *map(str, code), *after]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def notebook(project: Project, page: Page, site: str) -> str:
    """A page as an .ipynb whose outputs are the page's checked transcripts."""
    found: list[dict[str, Any]] = []
    count = 0
    for number, cell in enumerate(cells(project, page, site)):
        if isinstance(cell, Text):
            found.append(_markdown(cell, number, page))
        else:
            count += 1
            found.append(_code(cell, count))
    head = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    head |= {"language_info": {"name": "python"}, "license": {"name": LICENCE}, "source": {"url": site}}
    return json.dumps({"cells": found, "metadata": head, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def title(page: Page) -> str:
    match = re.search(r"^# (.+?)\s*(?:\{.*\})?$", page.source, re.MULTILINE)
    return match[1] if match else page.path.stem


def _markdown(cell: Text, number: int, source: Page) -> dict[str, Any]:
    """A text cell. Its figures are attached, so that the notebook needs no other file; a player is its last frame."""
    attachments: dict[str, dict[str, str]] = {}

    def attach(match: re.Match[str]) -> str:
        page, _, name = match["name"].partition("/")
        file = f"{page}-{name}.png"
        try:
            attachments[file] = {"image/png": _picture(match["kind"], page, name, match["alt"])}
        except FigureError as error:
            line = line_of(source.source, f"{match['kind']}:{match['name']}")
            place = f"{source.name}:{line}" if line else source.name
            raise BuildStopped(f"{place}: {match['kind']} {match['name']}: {error}") from None
        return f"![{match['alt']}](attachment:{file})"

    text = PICTURE.sub(attach, "\n".join(cell.lines))
    found = {"cell_type": "markdown", "id": f"text-{number}", "metadata": {}, "source": _lines(text)}
    return {**found, "attachments": attachments} if attachments else found


@cache
def _drawn(kind: str, page: str, name: str, alt: str, state: str) -> str:
    return base64.b64encode(png(page, name, alt, kind)).decode()


def _picture(kind: str, page: str, name: str, alt: str) -> str:
    return _drawn(kind, page, name, alt, fresh())


def _code(cell: Code, count: int) -> dict[str, Any]:
    block = cell.block
    raises = bool(block.transcript and ERROR.search(block.transcript.text))
    before, code, _ = framed(block)
    if block.needs is None:
        source, metadata = block.fence.text, {"tags": ["raises-exception"]} if raises else {}
    else:  # a kernel without what it needs goes on
        depth = len(before) - 1  # the guard stays, a `try` is not wanted: the notebook shows the error itself
        source = "\n".join([before[0], *(line[4 * depth :] for line in map(str, code))])
        metadata = {"tags": ["needs", *(["raises-exception"] if raises else [])]}
    return {
        "cell_type": "code",
        "id": f"code-{hashlib.sha256(block.id.encode()).hexdigest()[:8]}",
        "execution_count": count,
        "metadata": metadata,
        "outputs": _outputs(block),
        "source": _lines(source.strip("\n")),
    }


def _outputs(block: Block) -> list[dict[str, Any]]:
    """The transcript as a notebook has it: what was printed, then the error."""
    if block.transcript is None:
        return []
    text = block.transcript.text.strip("\n")
    errors = list(ERROR.finditer(text))
    printed = text[: errors[-1].start()] if errors else text
    outputs: list[dict[str, Any]] = []
    if printed.strip():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.rstrip("\n") + "\n")})
    if errors:
        said = text[errors[-1].start() :]
        name, _, value = said.partition(": ")
        outputs.append({"output_type": "error", "ename": name, "evalue": value, "traceback": said.split("\n")})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
