"""Notebooks: the pages that mkdocs-jupyter renders, in the site's own dress.

It brings 570 KB of style sheets, scripts and a MathJax that would be fetched from another host. All of that goes; its
cells get the classes that the site styles, and formulas are typeset like those of any page.
"""

from __future__ import annotations

import html
import re
from typing import Any

from publish.katex import typeset

ARTICLE = re.compile(r"<article\b.*?</article>", re.DOTALL)
GONE = re.compile(
    r"<script\b(?!>(?:var tabs|var target)).*?</script>|<style\b.*?</style>|<!--.*?-->"
    r'|<div class="zeroclipboard-container">.*?</clipboard-copy>\s*</div>'
    r'|<div class="clipboard-copy-txt".*?</div>'
    r'|<div class="jp-Collapser[^"]*">\s*</div>'
    r'|<div class="jp-InputPrompt jp-InputArea-prompt">\s*</div>',
    re.DOTALL,
)
CODE = re.compile(r'<div class="highlight-ipynb hl-python"><pre>(.*?)</pre></div>', re.DOTALL)
SCROLLS = re.compile(r' tabindex="0"')
ANCHOR = re.compile(r'<a class="anchor-link" href="(#[^"]*)">¶</a>')
HEADING = re.compile(r'<h(?P<level>[1-6]) id="(?P<id>[^"]+)">(?P<text>.*?)</h(?P=level)>', re.DOTALL)
PIECE = re.compile(r"(<(code|pre)\b.*?</\2>|<[^>]+>)", re.DOTALL)
MATH = re.compile(r"\$\$(?P<display>.+?)\$\$|\$(?P<inline>[^$\n]+?)\$", re.DOTALL)


def dress(page: str) -> str:
    """The HTML of a notebook's page; everything outside its article stays."""
    return ARTICLE.sub(lambda article: _math(_cells(article[0])), page, count=1)


def contents(page: str) -> list[Any]:
    """The headings as the table of contents wants them. mkdocs-jupyter leaves the code out of a heading's name, and of
    the address that it then leads to."""
    top: list[dict[str, Any]] = []
    above: list[dict[str, Any]] = []
    for heading in HEADING.finditer(page):
        name = " ".join(re.sub(r"<[^>]+>", "", ANCHOR.sub("", heading["text"])).split())
        found: dict[str, Any] = {"level": int(heading["level"]), "id": heading["id"], "name": name, "children": []}
        while above and above[-1]["level"] >= found["level"]:
            above.pop()
        (above[-1]["children"] if above else top).append(found)
        above.append(found)
    return top


def _cells(article: str) -> str:
    article = GONE.sub("", article)
    article = SCROLLS.sub("", article)
    article = ANCHOR.sub(r'<a class="headerlink" href="\1" title="Link to this section">#</a>', article)
    return CODE.sub(r'<div class="highlight"><pre><code>\1</code></pre></div>', article)


def _math(article: str) -> str:
    """Formulas between dollar signs, where a reader would see them: not in code, not in tags."""
    pieces = PIECE.split(article)
    # The split has three parts for each tag: the text before it, the tag, and the name of a code element or None.
    return "".join(_typeset(piece) if number % 3 == 0 else piece or "" for number, piece in _without_names(pieces))


def _without_names(pieces: list[str]) -> list[tuple[int, str]]:
    return [(number, piece) for number, piece in enumerate(pieces) if number % 3 != 2]


def _typeset(text: str) -> str:
    def formula(match: re.Match[str]) -> str:
        display = match["display"] is not None
        output = typeset(html.unescape(match["display"] or match["inline"]).strip(), display)
        return f'<div class="math" role="group" aria-label="Formula" tabindex="0">{output}</div>' if display else output

    return MATH.sub(formula, text) if "$" in text else text
