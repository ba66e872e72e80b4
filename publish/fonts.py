"""Fonts: of KaTeX's fonts the reader gets the glyphs that the formulas of the site use, about a fifth of the bytes."""

from __future__ import annotations

import hashlib
import html
import re
from io import BytesIO
from pathlib import Path

from fontTools.subset import Options, Subsetter, load_font, save_font

FOLDER = "assets/katex/fonts"
# What the eye sees of a formula; the MathML before it is set in the browser's own font.
SEEN = re.compile(r'class="katex-html"(?:(?!</bdi>|</div>).)*', re.DOTALL)
TAG = re.compile(r"<[^>]*>")


def letters(page: str) -> frozenset[str]:
    """All characters of the typeset formulas of a page."""
    return frozenset("".join(html.unescape(TAG.sub("", formula[0])) for formula in SEEN.finditer(page)))


def reduce(site: Path, used: frozenset[str], cache: Path) -> None:
    """Leave these characters in the fonts of a built site. A font without any of them keeps its blank glyph.

    cache: a folder that remembers the fonts, because a served site is built again and again.
    """
    cache.mkdir(parents=True, exist_ok=True)
    for path in sorted((site / FOLDER).glob("*.woff2")):
        font = path.read_bytes()
        kept = cache / hashlib.sha256(font + "".join(sorted(used)).encode()).hexdigest()
        if not kept.exists():
            kept.write_bytes(subset(font, used))
        path.write_bytes(kept.read_bytes())


def subset(font: bytes, used: frozenset[str]) -> bytes:
    """A WOFF2 font with these characters. Hints are for screens of 96 dpi; the site's other fonts have none either."""
    options = Options(flavor="woff2", layout_features=["*"], notdef_outline=True, hinting=False)
    loaded = load_font(BytesIO(font), options)
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=sorted(map(ord, used)))
    subsetter.subset(loaded)
    small = BytesIO()
    save_font(loaded, small, options)
    return small.getvalue()
