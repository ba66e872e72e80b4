"""Glossary: the first use of a term becomes a link to its entry, and everything else stays as it was."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from markdown import Markdown
from mkdocs.commands.build import build
from mkdocs.config import load_config

from doccheck import checks
from doccheck.project import Project
from publish import glossary
from publish.editions import notebook
from publish.places import BuildStopped

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = [
    "admonition",
    "attr_list",
    "md_in_html",
    "tables",
    "toc",
    "pymdownx.details",
    "pymdownx.superfences",
    "publish.glossary",
]
GLOSSARY = """\
# Glossary

## The graph

### Leaf { #leaf data-term="leaf, leaves" }

A tensor that *no* recorded `op` made, see [Node](#node). Backward fills it.

### Node

One operation. A [leaf](#leaf) has one too.

```python
### Comment
```

### Saved tensor

What a node keeps.

### Tensor

\\(T\\) is a table.

### Edge { #edge data-term="edge, !edge case" }

A way.

### Query

What is asked.

### Gradient { #gradient data-term="" }

Slopes.
"""
LINK = re.compile(r'<a class="term" href="(?P<href>[^"]*)"[^>]*>(?P<text>[^<]*)</a>')


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "reference").mkdir(parents=True)
    (folder / "reference" / "glossary.md").write_text(GLOSSARY, "utf-8")
    return folder


@pytest.fixture
def html(docs: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Text to HTML, as of the page of that name."""

    def convert(text: str, page: str = "a.md") -> str:
        monkeypatch.setattr(glossary, "page_file", lambda md: docs / page)
        monkeypatch.setattr(glossary, "project_of", lambda md: SimpleNamespace(docs=docs))
        return Markdown(extensions=EXTENSIONS).convert(text)

    return convert


def terms(page: str) -> list[str]:
    return [match["text"] for match in LINK.finditer(page)]


def test_the_first_use_is_linked_and_no_other(html: Callable[..., str]) -> None:
    page = html("A node and a node.\n\n- A node, and a leaf.\n")
    assert terms(page) == ["node", "leaf"]
    assert re.sub(r"<a[^>]*>|</a>", "", page).startswith("<p>A node and a node.</p>")
    assert page.index("<a") < page.index("and a node")


def test_order_is_that_of_the_page_also_inside_a_paragraph(html: Callable[..., str]) -> None:
    page = html("One **node, *an edge* and a leaf** or a node, a leaf, an edge.")
    assert terms(page) == ["node", "edge", "leaf"]
    assert page.index("</strong>") > page.rindex("</a>")


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("Nodes run.", ["Nodes"]),
        ("the LEAVES fall", ["LEAVES"]),
        ("a node's turn", ["node"]),
        ("“leaf”, (node).", ["leaf", "node"]),
        ("queries", ["queries"]),
        ("a saved-tensor hook", ["saved-tensor"]),
        ("a saved\ntensor", ["saved\ntensor"]),
        ("leaflet, anode, node_id, non-leaf, a.node, node.py, leafs’s nodetail", ["leafs"]),
        ("a gradient", []),
        ("Comment", []),
    ],
)
def test_whole_words_in_either_case_and_number(html: Callable[..., str], text: str, linked: list[str]) -> None:
    assert terms(html(text)) == linked


def test_the_longest_term_wins(html: Callable[..., str]) -> None:
    page = html("Saved tensors are tensors.")
    assert terms(page) == ["Saved tensors", "tensors"]
    assert [match["href"] for match in LINK.finditer(page)] == [
        "reference/glossary.md#saved-tensor",
        "reference/glossary.md#tensor",
    ]


def test_a_phrase_that_is_left_alone(html: Callable[..., str]) -> None:
    assert terms(html("An edge case. Edge cases.")) == []
    assert terms(html("An edge case, an edge.")) == ["edge"]


@pytest.mark.parametrize(
    "text",
    [
        "# The node\n\n## A leaf\n\n### An edge",
        "`node` and [a leaf](b.md), [an *edge*](b.md)",
        "```text\nnode leaf\n```",
        '!!! note "A node"\n\n    `x`',
        '??? question "A leaf?"\n\n    `x`',
        "| node |\n|---|\n| leaf |",
        "![node](leaf.svg)",
        "<https://node.leaf/edge>",
        '<div class="quiz" markdown>\n\nA node?\n\n- a leaf\n\n</div>',
        "<p>node</p>",
        "<figure markdown>\n\nA node.\n\n</figure>",
        '<table markdown><tr markdown><td markdown="block">\n\nA node.\n\n</td></tr></table>',
        "Say <code>node</code>, <a href='b'>a leaf</a>.",
        "<!-- node -->",
        "`1`{ data-value='node' }",
    ],
)
def test_what_is_no_running_text_stays_as_it_is(html: Callable[..., str], text: str) -> None:
    assert terms(html(text)) == []


def test_text_behind_what_is_left_alone_is_linked(html: Callable[..., str]) -> None:
    text = "`node` [leaf](b.md) <code>x</code> a node & a leaf\n\n!!! note\n\n    An edge.\n"
    assert terms(html(text)) == ["node", "leaf", "edge"]
    assert "a <a" in html(text) and " &amp; a <a" in html(text)


def test_raw_html_that_stays_open_ends_with_its_paragraph(html: Callable[..., str]) -> None:
    assert terms(html("An <code>open node.\n\nA leaf.")) == ["leaf"]


def test_formulas_stay_whole(html: Callable[..., str], docs: Path) -> None:
    extensions = [*EXTENSIONS, "pymdownx.arithmatex", "publish.math"]
    settings = {"pymdownx.arithmatex": {"generic": True, "block_syntax": ["dollar", "square"]}}
    html("")  # places the page
    page = Markdown(extensions=extensions, extension_configs=settings).convert(
        "In \\(\\text{node}\\) a leaf.\n\n\\[\n\\text{an edge}\n\\]\n"
    )
    assert terms(page) == ["leaf"]


@pytest.mark.parametrize(
    ("page", "href"),
    [
        ("index.md", "reference/glossary.md#node"),
        ("reference/sources.md", "glossary.md#node"),
        ("chapters/graph.md", "../reference/glossary.md#node"),
        ("a/b/c.md", "../../reference/glossary.md#node"),
    ],
)
def test_the_link_is_relative_to_its_page(html: Callable[..., str], page: str, href: str) -> None:
    assert [match["href"] for match in LINK.finditer(html("A node.", page))] == [href]


def test_the_title_is_the_first_sentence_without_marks(html: Callable[..., str]) -> None:
    assert 'title="A tensor that no recorded op made, see Node."' in html("leaf")
    assert "title=" not in html("tensor")  # a formula would be shown as TeX


def test_the_glossary_itself_is_not_linked(html: Callable[..., str]) -> None:
    assert terms(html(GLOSSARY, "reference/glossary.md")) == []


def test_without_a_glossary_or_terms_nothing_happens(html: Callable[..., str], docs: Path) -> None:
    (docs / "reference" / "glossary.md").write_text("# Glossary\n", "utf-8")
    assert html("A node.") == "<p>A node.</p>"
    (docs / "reference" / "glossary.md").unlink()
    assert html("A node.") == "<p>A node.</p>"


def test_plain_markdown_knows_no_glossary() -> None:
    assert Markdown(extensions=["publish.glossary"]).convert("A node.") == "<p>A node.</p>"


def test_an_edit_is_seen(html: Callable[..., str], docs: Path) -> None:
    assert terms(html("A node and a tape.")) == ["node"]
    file = docs / "reference" / "glossary.md"
    before = file.stat().st_mtime_ns
    file.write_text("### Tape\n\nThe record.\n", "utf-8")
    os.utime(file, ns=(before + 10**9, before + 10**9))
    assert terms(html("A node and a tape.")) == ["tape"]


def test_a_term_of_two_entries_names_both_lines(html: Callable[..., str], docs: Path) -> None:
    file = docs / "reference" / "glossary.md"
    file.write_text('### Node\n\nA.\n\n### Vertex { #vertex data-term="vertex, node" }\n', "utf-8")
    with pytest.raises(BuildStopped, match=r"glossary\.md:5: 'node' is a term of line 1 too"):
        html("A node.")


def test_a_strict_build_leads_to_the_entries(tmp_path: Path, docs: Path) -> None:
    """MkDocs turns the links into addresses and knows each anchor; it would say so if not."""
    (docs / "chapters").mkdir()
    (docs / "index.md").write_text("# Home\n\nA leaf.\n", "utf-8")
    (docs / "chapters" / "a.md").write_text("# A\n\nA saved tensor, a node, an edge.\n", "utf-8")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        "site_name: T\nstrict: true\nvalidation: {anchors: warn}\ntheme: {name: null, custom_dir: theme}\n"
        f"site_dir: {tmp_path / 'site'}\nplugins: []\nmarkdown_extensions: [attr_list, publish.glossary]\n"
    )
    (tmp_path / "theme").mkdir()
    (tmp_path / "theme" / "main.html").write_text("{{ page.content }}")
    build(load_config(str(config)))
    home = (tmp_path / "site" / "index.html").read_text("utf-8")
    chapter = (tmp_path / "site" / "chapters" / "a" / "index.html").read_text("utf-8")
    page = (tmp_path / "site" / "reference" / "glossary" / "index.html").read_text("utf-8")
    assert [match["href"] for match in LINK.finditer(home)] == ["reference/glossary/#leaf"]
    found = [match["href"] for match in LINK.finditer(chapter)]
    assert found == [f"../../reference/glossary/#{name}" for name in ("saved-tensor", "node", "edge")]
    assert all(f'id="{href.partition("#")[2]}"' in page for href in found)


def test_the_entries_of_the_site_are_its_headings() -> None:
    """Each has its own anchor, and a definition of at most three sentences before it says where it is shown."""
    path = ROOT / "docs" / glossary.PAGE
    text = path.read_text("utf-8")
    found = glossary.entries(path)
    assert len(found) == len(re.findall(r"^### \w", text, re.MULTILINE)) >= 25
    assert all(re.search(rf"^### .*\{{ #{entry.anchor}( data-term=\".*\")? \}}$", text, re.M) for entry in found)
    assert len({entry.anchor for entry in found}) == len(found)
    for definition in re.findall(r"^### .*\n\n(.*)$", text, re.MULTILINE):
        told = re.split(r"Shown in|Its graph is shown in", definition)[0]
        assert len(re.findall(r"[.!?](?=\s|$)", told)) <= 3, definition


def test_the_notebook_shows_no_attribute() -> None:
    project = Project.load(ROOT)
    text = notebook(project, checks.load(project, project.docs / glossary.PAGE), "")
    assert "### Leaf" in text
    assert "data-term" not in text


def test_doccheck_takes_the_attribute(docs: Path) -> None:
    (docs.parent / "snippets").mkdir()
    shown = (ROOT / "mkdocs.yml").read_text("utf-8")
    (docs.parent / "mkdocs.yml").write_text(shown, "utf-8")
    project = Project.load(docs.parent)
    page = checks.load(project, docs / "reference" / "glossary.md")
    assert [block.id for block in page.blocks] == ["node#1"]
    assert {"leaf", "node", "saved-tensor", "edge"} <= page.anchors
    assert checks.page_problems(project, page) == []
