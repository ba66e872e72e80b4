"""Glossary: the first use of a term on a page becomes a link to its entry in `docs/reference/glossary.md`.

An entry is a heading of the third level, and its heading is what is linked, in the singular and in the plural:

    ### Saved tensor
    ### Leaf { #leaf data-term="leaf, leaf tensor" }
    ### Edge { #edge data-term="edge, !edge case" }
    ### View { #view data-term="" }

`data-term` lists the spellings in place of the heading. An irregular plural is written out, unless it is an ordinary
word as well, as `leaves` is. A phrase behind `!` is left alone where it occurs. An empty list means that the entry is
never linked. `#id` comes first: the notebook of the page knows attributes by that sign.

Linked are whole words, in either case, in paragraphs and items of lists; the longest term wins. Not linked are
headings, titles, code, math, links, tables, figures, quizzes and the glossary itself. Without one nothing happens.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.extensions.attr_list import get_attrs
from markdown.extensions.toc import slugify
from markdown.treeprocessors import Treeprocessor

from publish.math import without_code
from publish.places import BuildStopped, page_file, project_of

PAGE = "reference/glossary.md"
ENTRY = re.compile(r"^### +(?P<text>.+?)(?: +\{:? *(?P<attributes>[^}\n]*)\})?[ #]*$", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
SENTENCE = re.compile(r".+?[.!?](?=\s|$)", re.DOTALL)

BLOCKS = {"p", "li"}
INLINE = {"strong", "em", "b", "i", "span", "del", "ins", "mark", "small", "q"}
LEFT_ALONE = {"figure", "table"}  # with the paragraphs in them
LEFT_ALONE_CLASSES = {"admonition-title", "quiz"}
RAW = re.compile(r"<(/?)(?:a|abbr|button|code|kbd|samp|var)\b", re.IGNORECASE)
STASHED = re.compile("\x02wzxhzdk:(\\d+)\x03")  # raw HTML, also formulas
PLACEHOLDER = "\x02[^\x03]*\x03"
BEFORE, AFTER = r"(?<![\w–-])(?<!\w\.)", r"(?![\w–-]|\.\w)"


@dataclass(frozen=True)
class Entry:
    """A term: its anchor, the line of its heading, what is linked, what is left alone, its first sentence."""

    anchor: str
    line: int
    spellings: tuple[str, ...]
    left_alone: tuple[str, ...]
    gist: str


def entries(path: Path) -> tuple[Entry, ...]:
    """The entries of a glossary; read again when the file changed."""
    return _entries(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _entries(path: Path, changed: int) -> tuple[Entry, ...]:
    text = path.read_text("utf-8-sig")
    bare = without_code(text)  # of the same length, so that a comment in a block is no heading
    found, known = [], dict[str, int]()
    for match in ENTRY.finditer(text):
        if bare[match.start()] != "#":
            continue
        attributes = dict(get_attrs(text[slice(*match.span("attributes"))])) if match["attributes"] else {}
        heading = re.sub(r"[`*]", "", text[slice(*match.span("text"))])
        listed = attributes.get("data-term", heading).split(",")
        words = [word for word in (" ".join(part.split()) for part in listed) if word]
        line = text.count("\n", 0, match.start()) + 1
        for word in words:
            if word.lower() in known:
                place = Path(os.path.relpath(path)).as_posix()
                first = known[word.lower()]
                raise BuildStopped(f"{place}:{line}: '{word}' is a term of line {first} too; leave it to one of them")
            known[word.lower()] = line
        end = HEADING.search(bare, match.end())
        found.append(
            Entry(
                anchor=attributes.get("id") or slugify(heading, "-"),
                line=line,
                spellings=tuple(word for word in words if not word.startswith("!")),
                left_alone=tuple(word[1:].strip() for word in words if word.startswith("!")),
                gist=_gist(text[match.end() : end.start() if end else len(text)]),
            )
        )
    return tuple(found)


def _gist(text: str) -> str:
    """The first sentence of a definition without its marks; empty where it holds a formula."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text.strip())
    match = SENTENCE.match(re.sub(r"[`*]", "", plain).partition("\n\n")[0])
    return "" if match is None or "\\(" in match[0] or "$" in match[0] else " ".join(match[0].split())


def pattern_of(found: tuple[Entry, ...]) -> tuple[re.Pattern[str], list[Entry | None]]:
    """One expression for all terms, longest first, and the entry of each of its groups."""
    pairs: list[tuple[str, Entry | None]] = [(word, entry) for entry in found for word in entry.spellings]
    pairs += [(word, None) for entry in found for word in entry.left_alone]
    pairs.sort(key=lambda pair: -len(pair[0]))
    terms = "|".join(f"({_forms(word)})" for word, _ in pairs)
    return re.compile(f"{PLACEHOLDER}|{BEFORE}(?:{terms}){AFTER}", re.IGNORECASE), [entry for _, entry in pairs]


def _forms(word: str) -> str:
    """A term and its regular plural; its words may be joined by a hyphen or stand on two lines."""
    stem = r"(?:\s+|[-–])".join(re.escape(part) for part in re.split(r"[\s–-]+", word))
    if re.search(r"[^aeiou\W]y$", word, re.IGNORECASE):
        return f"{stem[:-1]}(?:y|ies)"
    return stem + ("(?:es)?" if re.search(r"(?:[sxz]|[cs]h)$", word, re.IGNORECASE) else "s?")


class GlossaryTreeprocessor(Treeprocessor):
    """Runs after inline patterns, math and figures, and before MkDocs turns links between files into addresses."""

    def run(self, root: Element) -> None:
        page, project = page_file(self.md), project_of(self.md)
        if page is None or project is None:
            return
        glossary = project.docs / PAGE
        if not glossary.is_file() or page.resolve() == glossary.resolve():
            return
        self.target = quote(Path(os.path.relpath(glossary.resolve(), page.resolve().parent)).as_posix())
        self.pattern, self.entries = pattern_of(entries(glossary))
        self.seen: set[str] = set()
        self.raw = 0
        self.visit(root, False)

    def visit(self, element: Element, running: bool) -> None:
        """Links what is below an element. `running`: whether it stands inside running text."""
        if element.tag in LEFT_ALONE or LEFT_ALONE_CLASSES & set(element.get("class", "").split()):
            return
        if element.tag in BLOCKS:
            self.raw = 0
        running = element.tag in BLOCKS or (running and element.tag in INLINE)
        children = list(element)
        if running:
            element.text, links = self.split(element.text)
            element[:0] = links
        for child in children:
            self.visit(child, running)
            if running:
                child.tail, links = self.split(child.tail)
                index = list(element).index(child) + 1
                element[index:index] = links

    def split(self, text: str | None) -> tuple[str | None, list[Element]]:
        """Text up to the first link, and the links with the text behind each."""
        if not text:
            return text, []
        parts, links, start = list[str](), list[Element](), 0
        for entry, match in self.matches(text):
            parts.append(text[start : match.start()])
            start = match.end()
            link = Element("a", {"class": "term", "href": f"{self.target}#{entry.anchor}"})
            if entry.gist:
                link.set("title", entry.gist)
            link.text = match[0]
            links.append(link)
        if not links:
            return text, []
        for link, tail in zip(links, [*parts[1:], text[start:]], strict=True):
            link.tail = tail
        return parts[0], links

    def matches(self, text: str) -> Iterator[tuple[Entry, re.Match[str]]]:
        for match in self.pattern.finditer(text):
            if match.lastindex is None:
                self.raw = max(0, self.raw + self.opened(match[0]))
                continue
            entry = self.entries[match.lastindex - 1]
            if entry is not None and not self.raw and entry.anchor not in self.seen:
                self.seen.add(entry.anchor)
                yield entry, match

    def opened(self, placeholder: str) -> int:
        """How many links and codes a piece of raw HTML leaves open."""
        stashed = STASHED.fullmatch(placeholder)
        content = self.md.htmlStash.rawHtmlBlocks[int(stashed[1])] if stashed else ""
        return sum(-1 if end else 1 for end in RAW.findall(content)) if isinstance(content, str) else 0


class GlossaryExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(GlossaryTreeprocessor(md), "publish-glossary", 6)


def makeExtension(**options: Any) -> GlossaryExtension:
    return GlossaryExtension(**options)
