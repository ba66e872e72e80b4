"""Typesets at build what `pymdownx.arithmatex` (`generic: true`) found. A bad formula stops the build at its line.

The formula is left out of the search index. Material's indexer counts tags by name, so the element that carries
`data-search-exclude` must be of a kind that KaTeX does not use inside it: `div` around a display formula, `bdi` in
a line.
"""

import html
import re
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

from publish.katex import FormulaError, typeset
from publish.places import BuildStopped, page_file, page_name, where

__all__ = ["BuildStopped", "MathExtension", "line_of", "makeExtension"]

DISPLAY = '<div class="math" data-search-exclude tabindex="0" role="group" aria-label="Formula">{}</div>'
INLINE = '<bdi class="math-inline" data-search-exclude>{}</bdi>'
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})")
DOLLAR = "a dollar sign that is not math is written \\$"
HINTS = {
    "unexpected end of input": "a brace is open or a command lacks its argument",
    "a heading": "say it in words: the table of contents and the search show the heading as text",
    "undefined control sequence": "KaTeX does not know this command: look for another at katex.org/docs/supported",
    "expected 'eof', got '&'": "alignment needs \\begin{aligned} … \\end{aligned}",
    "unicodetextinmathmode": "write the letter as a command (\\bar y, \\alpha) or put words in \\text{…}",
    "can't use function '$'": DOLLAR,
    "expected '}'": "a brace is open",
    "missing argument": "a command lacks its argument",
    "extra }": "a brace is closed that was not opened",
}


class MathTreeprocessor(Treeprocessor):
    """Runs after inline patterns, so that formulas in tables, lists and titles are there too."""

    def run(self, root: Element) -> None:
        for parent in list(root.iter()):
            for child in list(parent):
                if is_formula(child):
                    self.replace(parent, child)

    def replace(self, parent: Element, child: Element) -> None:
        display = child.tag == "div"
        tex = tex_of(child)
        try:
            if parent.tag in HEADINGS:
                raise FormulaError("a heading holds no math", None)
            output = (DISPLAY if display else INLINE).format(typeset(tex, display))
        except FormulaError as error:
            raise BuildStopped(f"{self.place(tex, error.position)}: {complaint(tex, error)}") from None
        holder = Element("p" if display else "span")
        holder.text = self.md.htmlStash.store(output)
        holder.tail = child.tail
        if display:
            parent[list(parent).index(child)] = holder
        else:
            put_text(parent, child, holder.text + (child.tail or ""))

    def place(self, tex: str, position: int | None) -> str:
        """`docs/PAGE.md:LINE`, as far as it is known."""
        source = page_file(self.md)
        if source is None:
            return page_name(self.md) or "formula on an unnamed page"
        return where(self.md, line_of(tex, position, source.read_text(encoding="utf-8-sig")))


def is_formula(element: Element) -> bool:
    return element.tag in ("span", "div") and element.get("class") == "arithmatex"


def tex_of(element: Element) -> str:
    """Arithmatex escapes a display formula, because its text goes into the tree as it is, and leaves an inline one."""
    text = element.text or ""
    return (html.unescape(text) if element.tag == "div" else text).strip()[2:-2].strip()


def put_text(parent: Element, child: Element, text: str) -> None:
    """Puts `text` where `child` was."""
    index = list(parent).index(child)
    parent.remove(child)
    if index == 0:
        parent.text = (parent.text or "") + text
    else:
        before = parent[index - 1]
        before.tail = (before.tail or "") + text


def complaint(tex: str, error: FormulaError) -> str:
    """One line: the formula, KaTeX's message, what to do."""
    message = re.sub(r"\s+", " ", error.message).strip()
    shown = re.sub(r"\s+", " ", tex)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    hint = next((hint for sign, hint in HINTS.items() if sign in message.lower()), "")
    return f"formula {shown}: {message}" + (f"; {hint}" if hint else "")


def line_of(tex: str, position: int | None, source: str) -> int | None:
    """The line of the page where KaTeX stopped. The page may have indented or quoted what it was given."""
    body = r"[ \t]*\n[ \t>]*".join(re.escape(line.strip()) for line in tex.splitlines())
    page = without_code(source)
    # Between its delimiters first: `\frac{` also begins every good fraction of the page.
    found = re.search(rf"(?:\$|\\[(\[])[\s>]*({body})[\s>]*(?:\$|\\[)\]])", page) or re.search(f"({body})", page)
    if not found:
        return None
    inside = tex[: position or 0].count("\n")
    return source.count("\n", 0, found.start(1)) + 1 + inside


def without_code(source: str) -> str:
    """The page with its fenced blocks blanked and its lines kept: the same signs in code are no formula."""
    kept: list[str] = []
    fence = ""
    for line in source.split("\n"):
        sign = FENCE.match(line)
        if fence:
            if sign and sign[1].startswith(fence) and line.strip(" \t>") == sign[1]:
                fence = ""
            kept.append(" " * len(line))
        elif sign:
            fence = sign[1]
            kept.append(" " * len(line))
        else:
            kept.append(re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda code: " " * len(code[0]), line))
    return "\n".join(kept)


class MathExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(MathTreeprocessor(md), "publish-math", 15)


def makeExtension(**options: Any) -> MathExtension:
    return MathExtension(**options)
