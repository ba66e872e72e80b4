"""`![alt](figure:PAGE/NAME)` and `![alt](player:PAGE/NAME)`, drawn by `snippets/figures/PAGE.py`.

The image begins a paragraph; what follows it in the same paragraph is the caption. The figure can be linked to as
`#figure-NAME` or `#player-NAME`. A mistake stops the build and names the page's line. So does any other image without
alt text, and one that would be fetched from another host.
"""

import re
from collections import Counter
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

from publish import art, gallery
from publish.gallery import FigureError
from publish.math import without_code
from publish.places import BuildStopped, page_file, where
from publish.players import player
from publish.standalone import png, standalone

__all__ = ["FigureExtension", "line_of", "makeExtension", "png", "standalone"]

SOURCE = re.compile(r"(figure|player):(.*)")
NAME = re.compile(r"([\w-]+)/([\w-]+)")
ALT = "say between the brackets what the picture shows, with its numbers"
IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
ATTRIBUTE = re.compile(r"""\b(src|alt)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
ALONE = "it begins a paragraph of its own, and what follows it there is its caption"


class FigureTreeprocessor(Treeprocessor):
    """Runs after inline patterns, so that a caption is Markdown like any other text."""

    def run(self, root: Element) -> None:
        seen: Counter[str] = Counter()
        used: Counter[str] = Counter()
        for parent in list(root.iter()):
            for child in list(parent):
                if child.tag != "img":
                    continue
                address = child.get("src", "")
                source = SOURCE.fullmatch(address)
                try:
                    if source:
                        self.replace(parent, child, source, used)
                    else:
                        check(address, plain(child.get("alt", "")))
                except FigureError as error:
                    self.stop(address, seen[address], error)
                seen[address] += 1
        for raw in self.md.htmlStash.rawHtmlBlocks:
            for image in IMAGE.findall(raw) if isinstance(raw, str) else ():
                self.raw(image)

    def raw(self, image: str) -> None:
        """An image that is written as HTML."""
        attributes = {name.lower(): "".join(value) for name, *value in ATTRIBUTE.findall(image)}
        address = attributes.get("src", "")
        try:
            if SOURCE.fullmatch(address):
                raise FigureError(f"write it in Markdown: ![alt]({address})")
            check(address, attributes.get("alt", "").strip())
        except FigureError as error:
            self.stop(address, 0, error)

    def stop(self, address: str, number: int, error: FigureError) -> None:
        source = SOURCE.fullmatch(address)
        named = f"{source[1]} {source[2]}" if source else f"image {address}"
        path = page_file(self.md)
        line = line_of(path.read_text(encoding="utf-8-sig"), address, number) if path else None
        raise BuildStopped(f"{where(self.md, line)}: {named}: {error}") from None

    def replace(self, parent: Element, image: Element, source: re.Match[str], used: Counter[str]) -> None:
        named = NAME.fullmatch(source[2])
        if named is None:
            raise FigureError(f"a {source[1]} is named {source[1]}:PAGE/NAME")
        alt = plain(image.get("alt", ""))
        if not alt:
            raise FigureError(f"no alt text; {ALT}")
        if parent.tag != "p" or parent[0] is not image or (parent.text or "").strip():
            raise FigureError(ALONE)
        kind, page, name = source[1], named[1], named[2]
        steps = gallery.show(kind, page, name)
        made = player(steps, alt) if kind == "player" else art.panels(steps[0], alt)
        identity = f"{kind}-{name.replace('_', '-')}"
        used[identity] += 1
        again = f"-{used[identity]}" if used[identity] > 1 else ""
        rest, words = list(parent)[1:], (image.tail or "").strip("\n ")
        parent.clear()
        parent.tag = "figure"
        parent.attrib.update({"class": "fig", "id": identity + again})
        SubElement(parent, "p").text = self.md.htmlStash.store(made)
        if words or rest:
            caption = SubElement(parent, "figcaption")
            caption.text = words + (" " if words and (image.tail or "")[-1:] in " \n" else "")
            caption.extend(rest)


def check(address: str, alt: str) -> None:
    """What holds for every image of a page, also for one that is no figure."""
    scheme, sign, _ = address.partition(":")
    if address.startswith("//") or scheme.lower() in ("http", "https"):
        raise FigureError("it would be fetched from another host; put the file into docs/assets")
    if sign and scheme != "data":
        raise FigureError(f"there is no '{scheme}:'; write figure:PAGE/NAME, player:PAGE/NAME or the path of a file")
    if not alt:
        raise FigureError(f"no alt text; {ALT}")


def line_of(text: str, address: str, number: int = 0) -> int | None:
    """The line of the image in the text of its page, the `number`-th of that address."""
    text = without_code(text)
    before = r"""(?:\]\(\s*<?|\]:\s*<?|src\s*=\s*["']?)"""
    found = [match.start() for match in re.finditer(rf"{before}{re.escape(address)}(?![\w/-])", text)]
    return text.count("\n", 0, found[min(number, len(found) - 1)]) + 1 if found else None


def plain(alt: str) -> str:
    """Alt text without the marks that Python-Markdown leaves in attributes."""
    alt = alt.replace("\x02amp\x03", "&")
    return " ".join(re.sub("\x02(\\d+)\x03", lambda match: chr(int(match[1])), alt).split())


class FigureExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # After inline patterns (20), before prettify (10) and MkDocs' own view of links and anchors (0).
        md.treeprocessors.register(FigureTreeprocessor(md), "publish-figures", 12)


def makeExtension(**options: Any) -> FigureExtension:
    return FigureExtension(**options)
