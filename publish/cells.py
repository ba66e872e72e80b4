"""Cells: a page as text and code, for the editions that a reader takes along.

The text of the page is the only source: includes are expanded, transcripts become the outputs of their cells, and what
only a site can show (tabs, folds, attributes, links between pages) becomes plain Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from doccheck.fences import Fence
from doccheck.page import Block, Page
from doccheck.project import Project

ADMONITION = re.compile(r'^(?P<indent>\s*)(?:!!!|\?\?\?\+?)\s+(?P<kind>[\w -]+?)(?:\s+"(?P<title>.*)")?\s*$')
TAB = re.compile(r'^(?P<indent>\s*)===[!+]?\s+"(?P<title>.*)"\s*$')
QUIZ = re.compile(r"<!--\s*quiz:\s*[\w-]+\s*-->")
REFERENCE = re.compile(r"<!--\s*(?:cli|fields):\s*(?P<name>[\w. -]+?)\s*-->")
# Attributes: behind code, a link or a bracket; at the end of a heading; alone on a line.
ATTRIBUTES = re.compile(r"(?<=[`)\]])\{:?[^}\n`]*\}|\s*\{:?\s*[#.][^}\n]*\}\s*$|(?<=^)(#+ .*?)\s*\{[^}\n]*\}\s*$")
WRAPPER = re.compile(r"^\s*</?(?:div|section)\b[^>]*>\s*$")
PLAYER = re.compile(r"!\[[^\]]*\]\(player:[\w-]+/(?P<name>[\w-]+)\)")
LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s]+)(?P<title>\s+\"[^\"]*\")?(?=\))")


@dataclass
class Text:
    lines: list[str] = field(default_factory=list)


@dataclass
class Code:
    block: Block


def cells(project: Project, page: Page, site: str) -> list[Text | Code]:
    """The cells of a page in order. `site` is the address that links lead to, with a slash at its end."""
    return list(_merge(_Walk(project, page, site).run()))


def _merge(found: Iterator[str | Code]) -> Iterator[Text | Code]:
    """Lines of text up to the next code are one cell; blank edges are trimmed."""
    text = Text()
    for part in found:
        if isinstance(part, str):
            text.lines.append(part)
            continue
        if _trim(text):
            yield text
        yield part
        text = Text()
    if _trim(text):
        yield text


def _trim(text: Text) -> bool:
    while text.lines and not text.lines[-1].strip(" >"):
        text.lines.pop()
    while text.lines and not text.lines[0].strip(" >"):
        text.lines.pop(0)
    return bool(text.lines)


@dataclass
class _Container:
    """An open admonition, fold or tab: its content stands `indent` columns in."""

    indent: int
    quoted: bool


class _Walk:
    def __init__(self, project: Project, page: Page, site: str) -> None:
        self.page = page
        self.folder = page.path.parent.relative_to(project.docs)
        self.site = site
        assert page.outline is not None, f"{page.name} could not be read"
        outline = page.outline
        self.prose = dict(outline.prose)
        self.fences = {fence.first: fence for fence in outline.fences}
        self.blocks = {block.fence.first: block for block in page.blocks}
        self.transcripts = {block.transcript.first for block in page.blocks if block.transcript is not None}
        self.open: list[_Container] = []
        self.blank = False  # a blank line is written with the next one: a quote goes on only if both are quoted
        self.quoted = False

    def run(self) -> Iterator[str | Code]:
        index = 0
        while index < len(self.page.lines):
            fence = self.fences.get(index)
            if fence is None:
                yield from self._line(index)
                index += 1
                continue
            self._close(str(self.page.lines[index]))
            self.blank = True
            if fence.first in self.blocks and self.blocks[fence.first].kind == "python":
                yield Code(self.blocks[fence.first])
            elif fence.first not in self.transcripts and index not in self.prose:
                yield from self._fence(fence)
            index = fence.last + 1

    def _fence(self, fence: Fence) -> Iterator[str]:
        """A block that is shown and not run, such as a file or a command."""
        title = fence.attributes.get("title")
        lines = [f"*{title}*", ""] if title else []
        ticks = "`" * max([3, *(len(m[0]) + 1 for line in fence.lines for m in re.finditer(r"`{3,}", line))])
        for line in [*lines, f"{ticks}{fence.language}", *map(str, fence.lines), ticks]:
            yield from self._write(line)
        self.blank = True

    def _line(self, index: int) -> Iterator[str]:
        raw = str(self.page.lines[index])
        if QUIZ.search(raw):
            self.blank = True
            yield from self._write(f"[The questions of this page]({self.site}{self._address()}#check-yourself)")
            return
        if listed := REFERENCE.search(raw):
            self.blank = True
            name = listed["name"].rpartition(".")[2]
            yield from self._write(f"[The list on the site: {name}]({self.site}{self._address()})")
            return
        line = str(self.prose.get(index, ""))
        if not line.strip():
            self.blank = True
            return
        self._close(line)
        if opened := ADMONITION.match(line):
            title = opened["title"] if opened["title"] is not None else opened["kind"].split()[0].capitalize()
            self.open.append(_Container(len(opened["indent"]) + 4, quoted=True))
            self.blank = True
            if not any(container.quoted for container in self.open[:-1]):
                self.quoted = False  # a quote of its own, also right after another one
            if title:
                yield from self._write(f"**{title}**")
                self.blank = True
        elif opened := TAB.match(line):
            yield from self._write(f"#### {opened['title']}")
            self.open.append(_Container(len(opened["indent"]) + 4, quoted=False))
        elif not WRAPPER.match(line):
            text = self.plain(line[self.open[-1].indent :] if self.open else line)
            text = PLAYER.sub(self._player, text)
            if text.strip():
                yield from self._write(text)

    def _player(self, match: re.Match[str]) -> str:
        """A picture of a player, and the way to the player itself."""
        anchor = f"player-{match['name'].replace('_', '-')}"
        return f"{match[0]} [Step through it on the site]({self.site}{self._address()}#{anchor})"

    def _close(self, line: str) -> None:
        """A line further to the left than the content of a container ends it."""
        depth = len(line) - len(line.lstrip())
        while self.open and depth < self.open[-1].indent:
            self.open.pop()

    def _write(self, line: str) -> Iterator[str]:
        quoted = any(container.quoted for container in self.open)
        if self.blank:
            yield ">" if quoted and self.quoted else ""
        self.blank, self.quoted = False, quoted
        yield f"> {line}".rstrip() if quoted else line

    def plain(self, line: str) -> str:
        """Markdown that every notebook viewer understands. Inline code keeps its characters."""
        parts = re.split(r"(`+[^`]*`+)", ATTRIBUTES.sub(r"\1", line))
        return "".join(part if part.startswith("`") else self._plain(part) for part in parts)

    def _plain(self, text: str) -> str:
        text = re.sub(r"\\[()]", "$", text)
        text = re.sub(r"\\[\[\]]", "$$", text)
        return LINK.sub(lambda match: self._link(match["target"]), text)

    def _link(self, target: str) -> str:
        path, sign, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            return target
        if not path:
            return f"{self.site}{self._address()}#{anchor}"
        parts: list[str] = []
        for part in PurePosixPath(self.folder.as_posix(), path).parts:
            if part == ".." and parts:
                parts.pop()
            elif part != ".":
                parts.append(part)
        return self.site + address("/".join(parts)) + sign + anchor

    def _address(self) -> str:
        return address((self.folder / self.page.path.name).as_posix())


def address(source: str) -> str:
    """Where a page of docs/ lies on the site; other files stay where they are."""
    path = PurePosixPath(source)
    if path.suffix != ".md":
        return source
    folder = path.parent if path.name in ("index.md", "README.md") else path.with_suffix("")
    return "" if folder == PurePosixPath() else f"{folder.as_posix()}/"
