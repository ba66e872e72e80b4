"""Formulas: what is typeset, what is left alone, and what a bad one says."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import markdown
import pytest
from markdown.treeprocessors import Treeprocessor

pytest.importorskip("py_mini_racer", reason="publish needs mini-racer (the site group)")

from publish import katex
from publish.katex import FormulaError, typeset
from publish.math import BuildStopped, line_of

EXTENSIONS = [
    "admonition",
    "attr_list",
    "md_in_html",
    "tables",
    "pymdownx.superfences",
    "pymdownx.highlight",
    "pymdownx.arithmatex",
    "publish.math",
]


def render(text: str, page: Path | None = None) -> str:
    configs: dict[str, dict[str, Any]] = {
        "pymdownx.arithmatex": {"generic": True, "block_syntax": ["dollar", "square"]}
    }
    md = markdown.Markdown(extensions=EXTENSIONS, extension_configs=configs)
    if page:
        page.write_text(text, encoding="utf-8")
        relpath = Treeprocessor(md)
        relpath.file = SimpleNamespace(abs_src_path=str(page), src_uri=page.name)  # type: ignore[attr-defined]
        md.treeprocessors.register(relpath, "relpath", 0)
    return md.convert(text)


def complaint(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BuildStopped) as stopped:
        render(text, tmp_path / "docs" / "page.md")
    return str(stopped.value)


def test_inline() -> None:
    html = render("The row $v^\\top J$, then \\(x < y\\).")
    assert html.count('<bdi class="math-inline" data-search-exclude><span class="katex">') == 2
    assert "<math" in html and "arithmatex" not in html
    assert html.endswith("</bdi>.</p>") and html.startswith("<p>The row <bdi")


def test_display_scrolls_in_a_box_with_a_name() -> None:
    html = render("Before.\n\n$$\n\\begin{aligned} a &= b \\\\ c &< d \\end{aligned}\n$$\n\nAfter.")
    box = '<div class="math" data-search-exclude tabindex="0" role="group" aria-label="Formula">'
    assert f'{box}<span class="katex-display">' in html
    assert "<p><div" not in html


@pytest.mark.parametrize(
    "text",
    [
        "!!! note\n    In an admonition $x_1$.",
        "!!! note\n\n    \\[\n    x_1\n    \\]",
        "- item $x_1$\n- other",
        "1. item\n\n    $$\n    x_1\n    $$\n",
        "| a | b |\n|---|---|\n| $x_1$ | c |",
        "> quoted $x_1$",
        "<div markdown>\n\n$x_1$\n\n</div>",
        "*emphasis $x_1$ here*",
    ],
)
def test_everywhere(text: str) -> None:
    html = render(text)
    assert html.count('<span class="katex">') == 1
    assert "arithmatex" not in html and "klzzwxh" not in html


def test_text_around_stays_in_order() -> None:
    html = render("a $x$ b **c** $y$ d $z$")
    plain = [html.index(sign) for sign in ("a <bdi", "</bdi> b <strong>c</strong> <bdi", "</bdi> d <bdi")]
    assert plain == sorted(plain)


@pytest.mark.parametrize("text", ["`$x$`", "```python\nprice = '$x$'\n```", "costs $5 and $6", "\\$x\\$"])
def test_dollar_that_is_not_math(text: str) -> None:
    assert "katex" not in render(text)


def test_same_formula_twice_is_typeset_once() -> None:
    typeset.cache_clear()
    html = render("$x$ and $x$")
    assert html.count('<span class="katex">') == 2
    assert typeset.cache_info().misses == 1


def test_one_engine() -> None:
    render("$a$")
    render("$b$")
    assert katex.engine.cache_info().currsize == 1 and katex.engine.cache_info().misses == 1


def test_bad_formula_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "---\ntitle: T\n---\n\nFirst $\\frac{1}{2}$.\n\nThen $\\frac{$ is bad."
    said = complaint(text, tmp_path, monkeypatch)
    assert said.startswith("docs/page.md:7: formula \\frac{: ")
    assert "\n" not in said and said.endswith("a brace is open or a command lacks its argument")


def test_line_inside_a_long_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Text.\n\n!!! note\n\n    $$\n    a\n    + \\nonsense\n    $$\n"
    said = complaint(text, tmp_path, monkeypatch)
    assert said.startswith("docs/page.md:7: formula a + \\nonsense: Undefined control sequence: \\nonsense")
    assert "katex.org/docs/supported" in said


def test_code_with_the_same_signs_is_not_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "```text\n$\\oops$\n```\n\n`$\\oops$`\n\n$\\oops$\n"
    assert complaint(text, tmp_path, monkeypatch).startswith("docs/page.md:7: ")


def test_formula_in_a_heading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = complaint("# Title\n\n## Rows $v$\n", tmp_path, monkeypatch)
    assert said.startswith("docs/page.md:3: formula v: a heading holds no math; say it in words")


@pytest.mark.parametrize(("tex", "hint"), [("ȳ", "write the letter as a command"), ("a & b", "\\begin{aligned}")])
def test_strictness_has_a_hint(tex: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hint in complaint(f"Good $x$.\n\nBad ${tex}$.", tmp_path, monkeypatch)


def test_without_a_page() -> None:
    with pytest.raises(BuildStopped, match=r"formula on an unnamed page: formula \\nonsense"):
        render("$\\nonsense$")


def test_engine_survives_an_error() -> None:
    with pytest.raises(FormulaError):
        typeset("\\nonsense", False)
    assert "katex" in typeset("x", False)


def test_line_of_quoted_and_unknown() -> None:
    assert line_of("a\nb", 2, "x\n\n> $$\n> a\n> b\n> $$\n") == 5
    assert line_of("not there", 0, "x\n") is None


def test_kept_out_of_the_search_index() -> None:
    plugin = pytest.importorskip("material.plugins.search.plugin")
    parser = plugin.Parser()
    parser.feed("<h1 id='a'>A</h1>" + render("Before $\\frac{x}{y}$ between $z$ after.\n\n$$\\sum_i x_i$$\n\nLast."))
    parser.close()
    text = " ".join("".join(section.text) for section in parser.data)
    assert " ".join(text.split()) == "<p>Before between after.</p> <p>Last.</p>"
