"""Fences: what superfences itself makes of a page, and where each thing lands in the page's HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Literal

from markdown import Markdown
from pymdownx.superfences import RE_NESTED_FENCE_START, SuperFencesBlockPreprocessor

from doccheck.places import Line, Place
from doccheck.project import Project

OPENING = re.compile(r"^[>\s]*(?P<item>(?:[-*+]|\d+[.)])\s+)?(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass
class Fence:
    """A fenced block that superfences accepted. `lines` are its content as shown, with the file each came from."""

    number: int
    first: int  # index of the opening line in the expanded page
    last: int  # index of the closing line
    place: Place  # of the opening line
    end: Place  # of the closing line
    info: str  # the opening line after its fence, as written
    language: str
    attributes: dict[str, str]
    classes: list[str]
    name: str  # an #id in braces
    lines: list[Line]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass
class Event:
    """One thing in the HTML, in reading order."""

    kind: Literal["heading", "fence", "indented", "value", "link", "image", "math"]
    text: str = ""
    level: int = 0
    number: int = -1
    attributes: dict[str, str] = field(default_factory=dict)
    follows: int = -1  # for a fence: the fence directly before it, with only blanks between
    glued: Literal["", "above", "below"] = ""  # for a fence: where text touches it, so that both are one paragraph


@dataclass
class Opening:
    """A line that looks like the start of a fence and is none."""

    place: Place
    info: str
    accepted: bool  # superfences takes the info string: the fence is not closed
    in_item: bool  # on the same line as a list marker


@dataclass
class Outline:
    """A page as superfences and Python-Markdown see it."""

    fences: list[Fence]
    events: list[Event]
    openings: list[Opening]
    anchors: set[str]
    prose: list[tuple[int, Line]]  # lines outside fences and comments, with their index


class _Reader(HTMLParser):
    """Reads the HTML of a page whose fences are `<div data-fence="n">`; HTML comments show nothing."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.events: list[Event] = []
        self.anchors: set[str] = set()
        self.heading: Event | None = None
        self.code: Event | None = None
        self.indented: Event | None = None
        self.previous_fence = -1
        self.in_fence = False
        self.in_permalink = False
        self.paragraph: str | None = None  # the text of the open <p>

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {key: value or "" for key, value in attrs}
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        if tag == "div" and "data-fence" in attributes:
            number = int(attributes["data-fence"])
            event = Event("fence", number=number, follows=self.previous_fence)
            if self.paragraph is not None:
                event.glued = "above" if self.paragraph.strip() else "below"
                self.paragraph = None
            self.events.append(event)
            self.previous_fence = number
            self.in_fence = True
            return
        self.previous_fence = -1
        if tag == "p":
            self.paragraph = ""
        if re.fullmatch("h[1-6]", tag):
            self.heading = Event("heading", level=int(tag[1]), attributes=attributes)
            self.events.append(self.heading)
        elif tag == "pre":
            self.indented = Event("indented", attributes=attributes)
            self.events.append(self.indented)
        elif tag == "a" and "headerlink" in attributes.get("class", "").split():
            self.in_permalink = True
        elif tag == "a" and "href" in attributes:
            self.events.append(Event("link", text=attributes["href"]))
        elif tag == "img":
            self.events.append(Event("image", text=attributes.get("src", ""), attributes=attributes))
        if "arithmatex" in attributes.get("class", "").split() and self.heading is not None:
            self.events.append(Event("math", text=self.heading.text))
        if self.indented is None and {"data-value", "value", "needs", "data-needs", "data-varies"} & set(attributes):
            self.code = Event("value", attributes={"tag": tag, **attributes})
            self.events.append(self.code)

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self.in_fence:
            self.in_fence = False
            return
        self.previous_fence = -1
        if re.fullmatch("h[1-6]", tag):
            self.heading = None
        elif tag == "pre":
            self.indented = None
        elif tag == "p":
            self.paragraph = None
        elif tag == "a":
            self.in_permalink = False
        elif self.code is not None and tag == self.code.attributes["tag"]:
            self.code = None

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.previous_fence = -1
        if self.paragraph is not None:
            self.paragraph += data
        for event in (self.heading, self.code, self.indented):
            if event is not None and not (event is self.heading and self.in_permalink):
                event.text += data


def markdown(project: Project) -> Markdown:
    """Python-Markdown as the site configures it, without includes (expanded before) and without looks."""
    extensions = {name: settings for name, settings in project.extensions.items() if name != "pymdownx.snippets"}
    return Markdown(extensions=list(extensions), extension_configs=extensions)


def read(project: Project, lines: list[Line]) -> Outline:
    """What a page shows, from its lines with includes expanded."""
    md = markdown(project)
    if "fenced_code_block" not in md.preprocessors or not isinstance(
        superfences := md.preprocessors["fenced_code_block"], SuperFencesBlockPreprocessor
    ):
        raise ValueError("mkdocs.yml: markdown_extensions lacks pymdownx.superfences; add it")
    fences: list[Fence] = []
    accept = superfences.process_nested_block

    def record(ws: str, content: str, start: int, end: int) -> None:
        number = len(fences)
        text = superfences.rebuild_block(superfences.code).split("\n")
        origins = lines[start + 1 : end - 1]
        fences.append(
            Fence(
                number=number,
                first=start,
                last=end - 1,
                place=lines[start].place,
                end=lines[end - 1].place,
                info=_info(lines[start]),
                language=superfences.lang or "",
                attributes={key: str(value) for key, value in {**superfences.options, **superfences.attrs}.items()},
                classes=list(superfences.classes),
                name=superfences.id or "",
                lines=[Line(shown, line.place) for shown, line in zip(text, origins, strict=False)],
            )
        )
        superfences.formatter = lambda **_: f'<div data-fence="{number}"></div>'
        accept(ws, content, start, end)

    superfences.process_nested_block = record
    reader = _Reader()
    reader.feed(md.convert("\n".join(lines)))
    reader.close()
    prose = _prose(lines, fences)
    return Outline(fences, reader.events, list(_openings(superfences, prose)), reader.anchors, prose)


def _info(line: str) -> str:
    match = re.match(r"^[>\s]*(?:`{3,}|~{3,})(.*)$", line)
    return match[1].rstrip() if match else ""


def _prose(lines: list[Line], fences: list[Fence]) -> list[tuple[int, Line]]:
    """Lines outside fences and comments. A comment is blanked, so that the rest of its line stays."""
    inside = {index for fence in fences for index in range(fence.first, fence.last + 1)}
    text = "\n".join("" if index in inside else str(line) for index, line in enumerate(lines))
    blanked = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text).split("\n")
    return [(i, Line(blanked[i], line.place)) for i, line in enumerate(lines) if i not in inside]


def _openings(superfences: Any, prose: list[tuple[int, Line]]) -> Any:
    for _, line in prose:
        match = OPENING.match(line)
        if match is None:
            continue
        superfences.clear()
        superfences.parse_whitespace(line)
        start = RE_NESTED_FENCE_START.match(line, superfences.ws_len)
        accepted = False
        if start is not None and not start["unrecognized"]:
            accepted = bool(superfences.handle_attrs(start) if start["attrs"] else superfences.parse_options(start))
        yield Opening(line.place, match["info"].rstrip(), accepted, bool(match["item"]))
