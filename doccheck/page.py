"""Page: the blocks and values of a Markdown page in the order in which they run, and what is wrong with it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from markdown.extensions.attr_list import get_attrs

from doccheck import includes, vocabulary
from doccheck.fences import Event, Fence, Outline, read
from doccheck.needs import Needs
from doccheck.places import Line, Place, Problem, not_utf8
from doccheck.project import Project

FRONT_MATTER = re.compile(r"\A-{3}[ \t]*\n.*?\n(?:-{3}|\.{3})[ \t]*(?:\n|\Z)", re.DOTALL)  # as MkDocs reads it
INLINE = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)(?P<attrs>\{[^}\n]*\})?")
FORBIDDEN = {
    "|": "a table would be cut there",
    "$": "it would be taken for math",
    '"': "it ends the attribute",
    "'": "it may end the attribute",
}
COPY_THIS = "copy this"
FILE = re.compile(r"[a-zA-Z_]\w*(?:/[a-zA-Z_]\w*)*\.py")  # a title that makes a block a file as well


@dataclass
class Block:
    """A fence that runs: Python, or commands in a `console` fence."""

    id: str
    kind: str  # "python" or "console"
    fence: Fence
    transcript: Fence | None = None
    varies: str = ""
    needs: Needs | None = None
    alone: bool = False  # under "Copy this": runs in an empty module as well
    problems: list[Problem] = field(default_factory=list)

    @property
    def place(self) -> Place:
        return self.fence.place

    @property
    def shown(self) -> str:
        """The code as a reader sees it, for hashes: tabs to spaces, blank edges trimmed."""
        return shown(self.fence.text)

    @property
    def file(self) -> str:
        """The file of the reader's that the block is, by its title, such as `my_project.py`; else empty."""
        title = self.fence.attributes.get("title", "")
        return title if self.kind == "python" and FILE.fullmatch(title) else ""


@dataclass
class Value:
    """An inline code with `data-value`: what is shown must be what the expression gives there."""

    id: str
    place: Place
    index: int  # of the line in the expanded page
    column: int  # of the first backtick
    text: str
    expression: str
    problems: list[Problem] = field(default_factory=list)


@dataclass
class Page:
    """A page read for running. `fatal` problems make it impossible to say what would run."""

    path: Path
    name: str
    source: str = ""  # line ends as \n
    lines: list[Line] = field(default_factory=list)  # includes expanded
    outline: Outline | None = None  # None only where the file could not be read
    steps: list[Block | Value] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    fatal: list[Problem] = field(default_factory=list)
    included: list[tuple[str, str | None]] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    links: list[Event] = field(default_factory=list)
    shown: set[Place] = field(default_factory=set)  # every line that a reader sees, also of included files

    @property
    def blocks(self) -> list[Block]:
        return [step for step in self.steps if isinstance(step, Block)]

    @property
    def hash(self) -> str:
        return digest("\n".join(self.lines))

    def line_of(self, text: str) -> Place:
        """Where a piece of text stands on the page; its first line if it was rewritten by Markdown."""
        for number, line in enumerate(self.source.split("\n"), 1):
            if text and text in line:
                return Place(self.name, number)
        return Place(self.name, 1)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shown(code: str) -> str:
    lines = [line.rstrip() for line in code.expandtabs(4).split("\n")]
    return "\n".join(lines).strip("\n")


def load(project: Project, path: Path) -> Page:
    """Read a page. Nothing raises for what a contributor can mistype: it becomes a problem of the page or block."""
    return parse(project, path, path.read_bytes())


def parse(project: Project, path: Path, raw: bytes) -> Page:
    """The page that these bytes would be."""
    page = Page(path, project.name(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        page.fatal.append(not_utf8(page.name, error))
        return page
    page.source = text.replace("\r\n", "\n").replace("\r", "\n")
    body = FRONT_MATTER.sub(lambda match: "\n" * match[0].count("\n"), page.source)
    lines = [Line(text, Place(page.name, number)) for number, text in enumerate(body.split("\n"), 1)]
    page.lines, wrong, page.included = includes.expand(project, lines)
    outline = page.outline = read(project, page.lines)
    page.anchors = outline.anchors
    page.links = [event for event in outline.events if event.kind == "link"]
    if outline.openings:
        page.fatal.append(vocabulary.opening_problem(outline.openings[0]))
        return page
    _Assembly(page, outline, wrong).run()
    return page


class _Assembly:
    """Puts the blocks and values of an outline in order and finds what breaks the vocabulary."""

    def __init__(self, page: Page, outline: Outline, wrong: dict[Place, list[Problem]]) -> None:
        self.page = page
        self.outline = outline
        self.wrong = wrong  # problems of includes, by the line of the page
        self.count: Counter[str] = Counter()
        self.slug = "top"
        self.copy_level = 0  # the level of the open "Copy this" heading
        self.transcripts: dict[int, Block] = {}  # fence number of a block -> block

    def run(self) -> None:
        values = self._values()
        self.page.shown = {line.place for _, line in self.outline.prose if line.strip()}
        steps: list[tuple[int, int, Block | Value]] = []
        for event in self.outline.events:
            if event.kind == "value":
                self._match(event, values)
            else:
                self._event(event, steps)
        for value in values:
            if not value.id:
                hint = 'write `44`{ data-value="expression" }, with nothing between, outside raw HTML'
                value.problems.append(Problem(value.place, f"the value '{value.text}' is not rendered as one", hint))
                value.id = self._id("top", "value")
            steps.append((value.index, value.column, value))
        self.page.steps = [step for _, _, step in sorted(steps, key=lambda entry: entry[:2])]
        for problems in self.wrong.values():
            self.page.problems += problems  # includes outside any block that runs

    def _id(self, slug: str, kind: str = "") -> str:
        self.count[slug + kind] += 1
        return f"{slug}#{kind}{self.count[slug + kind]}"

    def _match(self, event: Event, values: list[Value]) -> None:
        """Give a value found in the text the heading under which it is rendered."""
        expression = event.attributes.get("data-value")
        for value in values:
            if not value.id and value.expression == expression:
                value.id = self._id(self.slug, "value")
                return
        if expression is not None:
            hint = 'write it on one line as `44`{ data-value="expression" }'
            message = f"the value of '{expression}' is shown and not checked"
            self.page.problems.append(Problem(self.page.line_of(expression), message, hint))

    def _event(self, event: Event, steps: list[tuple[int, int, Block | Value]]) -> None:
        page = self.page
        if event.kind == "heading":
            self.slug = event.attributes.get("id", self.slug)
            if self.copy_level and event.level <= self.copy_level:
                self.copy_level = 0
            if event.text.strip().lower().startswith(COPY_THIS):
                self.copy_level = event.level
        elif event.kind == "math":
            place = page.line_of(event.text.strip())
            hint = "say it in words; headings are read aloud and become links"
            page.problems.append(Problem(place, "math in a heading", hint))
        elif event.kind == "indented":
            first = next((line for line in event.text.split("\n") if line.strip()), "")
            place = page.line_of(first.strip())
            hint = 'use a ```python fence, or ```text title="…" for what does not run'
            page.problems.append(Problem(place, "an indented block is shown as code and never run", hint))
        elif event.kind == "fence":
            self._fence(self.outline.fences[event.number], event, steps)

    def _fence(self, fence: Fence, event: Event, steps: list[tuple[int, int, Block | Value]]) -> None:
        problems = vocabulary.fence_problems(fence)
        if event.glued:
            problems.append(vocabulary.glued_problem(fence, event.glued))
        self.page.shown |= {line.place for line in fence.lines}
        for index in range(fence.first, fence.last + 1):
            for line_problem in self.wrong.pop(self.page.lines[index].place, []):
                problems.append(line_problem)
        if fence.language in ("python", "console"):
            block = Block(self._id(self.slug), fence.language, fence, problems=problems)
            block.alone = bool(self.copy_level) and fence.language == "python"
            if "data-needs" in fence.attributes and not problems:
                block.needs = Needs.parse(fence.attributes["data-needs"])
            if not fence.text.strip() and not problems:
                block.problems.append(Problem(fence.place, "this block is empty", "put code in it, or remove it"))
            if block.kind == "python":
                self.transcripts[fence.number] = block
            else:
                block.varies = fence.attributes.get("data-varies", "")
            steps.append((fence.first, 0, block))
        else:
            self.page.problems += problems
            if fence.language == "text" and "title" not in fence.attributes:
                self._transcript(fence, event.follows)

    def _transcript(self, fence: Fence, follows: int) -> None:
        block = self.transcripts.get(follows)
        if block is not None:
            block.transcript = fence
            block.varies = fence.attributes.get("data-varies", "")
            return
        previous = self.outline.fences[follows] if follows >= 0 else None
        if previous is not None and previous.language == "text":
            message, hint = "a second transcript after the same block", 'join the two, or give this one a title="…"'
        else:
            message = "this transcript follows no block that runs"
            hint = 'move it directly under its ```python block, or give it a title="…"'
        self.page.problems.append(Problem(fence.place, message, hint))

    def _values(self) -> list[Value]:
        values = []
        for index, line in self.outline.prose:
            for match in INLINE.finditer(line):
                attributes = dict(get_attrs(match["attrs"][1:-1].strip().lstrip(":"))) if match["attrs"] else {}
                for wrong in {"value", "needs", "varies", "data-needs", "data-varies"} & set(attributes):
                    hint = "type data-value=" if wrong == "value" else "it belongs in the braces of a fence"
                    self.page.problems.append(Problem(line.place, f"'{wrong}=' does nothing on inline code", hint))
                if "data-value" in attributes:
                    value = Value("", line.place, index, match.start(), match["code"].strip(), attributes["data-value"])
                    value.problems = _value_problems(value)
                    values.append(value)
            if re.search(r"data-value\s*=", re.sub(r"<[^>]*>", "", INLINE.sub("", line))):
                hint = 'write it on one line as `44`{ data-value="expression" }'
                self.page.problems.append(Problem(line.place, "a value that would be shown as text", hint))
        return values


def _value_problems(value: Value) -> list[Problem]:
    for sign, why in FORBIDDEN.items():
        if sign in value.expression:
            hint = "give the result a name in the block above and use that name"
            return [Problem(value.place, f"{sign} in data-value: {why}", hint)]
    try:
        compile(value.expression, "value", "eval")
    except SyntaxError as error:
        return [Problem(value.place, f"data-value is no expression: {error.msg}", "write one Python expression")]
    return []
