"""The fonts of the formulas: smaller, and nothing that a page shows is missing or drawn in another way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fontTools.pens.recordingPen import DecomposingRecordingPen
from fontTools.ttLib import TTFont

from publish import fonts
from publish.katex import typeset

KATEX = Path(__file__).parents[2] / "docs" / "assets" / "katex"
FORMULAS = [
    r"\bar x = J^\top \bar y,\quad J \in \mathbb{R}^{m \times n}",
    r"\left\langle \sum_{i=1}^{n} \frac{\partial y_i}{\partial x_j}, \sqrt{\tfrac{1}{2}} \right\rangle",
    r"\hat\lambda \leq \lVert H v \rVert_2 \cdot 10^{-6} \neq \mathcal{L}(\mathbf{w})",
    r"\text{tr}\,\mathsf{A} \mapsto \mathtt{x}",
]


def page() -> str:
    return "".join(f'<p>ωΩ <bdi class="math-inline">{typeset(tex, False)}</bdi> Ж</p>' for tex in FORMULAS)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("built") / "site"
    shutil.copytree(KATEX, site / "assets/katex")
    fonts.reduce(site, fonts.letters(page()), site.parent / "cache")
    return site


def shapes(path: Path) -> dict[str, tuple[object, int]]:
    """Outline and width of each character."""
    font = TTFont(path)
    glyphs = font.getGlyphSet()
    found = {}
    for code, name in font.getBestCmap().items():
        pen = DecomposingRecordingPen(glyphs)
        glyphs[name].draw(pen)
        found[chr(code)] = pen.value, glyphs[name].width
    return found


def test_only_what_is_typeset_counts() -> None:
    found = fonts.letters(page())
    assert {"x", "ˉ", "∂", "∑", "⟨", "λ", "⊤", "R"} <= found
    assert not found & {"ω", "Ж", "<", "{", "\\"}
    assert fonts.letters("<p>no formula</p>") == frozenset()


def test_each_letter_keeps_its_outline_and_its_width_in_every_font(built: Path) -> None:
    used = fonts.letters(page())
    covered: set[str] = set()
    for path in sorted((KATEX / "fonts").glob("*.woff2")):
        whole, small = shapes(path), shapes(built / fonts.FOLDER / path.name)
        shown = whole.keys() & used
        assert [small.get(letter) for letter in shown] == [whole[letter] for letter in shown], path.name
        covered |= shown
    assert used - covered <= {"\u200b"}  # a zero-width space has no glyph in any of them


def test_they_are_small_and_the_second_build_takes_them_from_the_cache(built: Path) -> None:
    def sizes(folder: Path) -> int:
        return sum(path.stat().st_size for path in folder.glob("*.woff2"))

    assert 2 * sizes(built / fonts.FOLDER) < sizes(KATEX / "fonts")
    first = {path.name: path.read_bytes() for path in (built / fonts.FOLDER).glob("*.woff2")}
    kept = {path: path.stat().st_mtime_ns for path in (built.parent / "cache").iterdir()}
    shutil.copytree(KATEX, built / "assets/katex", dirs_exist_ok=True)
    fonts.reduce(built, fonts.letters(page()), built.parent / "cache")
    assert {path.name: path.read_bytes() for path in (built / fonts.FOLDER).glob("*.woff2")} == first
    assert {path: path.stat().st_mtime_ns for path in (built.parent / "cache").iterdir()} == kept
