"""The page of a notebook keeps its cells and loses what mkdocs-jupyter brings."""

import pytest

from publish.katex import FormulaError
from publish.notebooks import contents, dress

CELL = """\
<div class="jp-InputPrompt jp-InputArea-prompt">In [2]:</div>
<div class="zeroclipboard-container"><clipboard-copy for="c"><div><svg></svg></div></clipboard-copy>
</div>
<div class="highlight-ipynb hl-python"><pre><span></span>price = "$5 and $6"
</pre></div>
<div class="clipboard-copy-txt" id="c">price</div>
"""


def page(inner: str) -> str:
    return f"<head><script>keep()</script></head><article class='x'>{inner}</article><script>keep()</script>"


def test_scripts_and_styles_of_the_article_go_and_those_of_the_site_stay() -> None:
    inner = '<style>a{}</style><script src="far">x</script><!-- note --><p>Text</p>'
    assert dress(page(inner)) == page("<p>Text</p>")


def test_a_code_cell_becomes_a_block_of_the_site() -> None:
    found = dress(page(CELL))
    assert '<div class="highlight"><pre><code><span></span>price = "$5 and $6"\n</code></pre></div>' in found
    assert "clipboard" not in found
    assert "In [2]:" in found


def test_math_is_typeset_in_text_and_not_in_code() -> None:
    found = dress(page("<p>A row $v^T$ and <code>$x$</code></p><p>$$\na &lt; b\n$$</p>"))
    assert found.count('<span class="katex">') == 2
    assert "<code>$x$</code>" in found
    assert found.count('class="math"') == 1


def test_a_bad_formula_is_an_error() -> None:
    with pytest.raises(FormulaError):
        dress(page("<p>$\\frac{$</p>"))


def test_contents_lead_to_the_headings() -> None:
    link = '<a class="anchor-link" href="#a">¶</a>'
    found = contents(
        f'<h1 id="lab">Lab</h1><h2 id="id-is-no-name"><code>id()</code> is no name{link}</h2><h3 id="b">B &amp; b</h3>'
        '<h2 id="c">C</h2>'
    )
    assert [heading["id"] for heading in found] == ["lab"]
    first, second = found[0]["children"]
    assert (first["id"], first["name"], second["name"]) == ("id-is-no-name", "id() is no name", "C")
    assert [heading["name"] for heading in first["children"]] == ["B &amp; b"]


def test_headings_keep_their_links() -> None:
    found = dress(page('<h2 id="a">A<a class="anchor-link" href="#a">¶</a></h2>'))
    assert '<a class="headerlink" href="#a" title="Link to this section">#</a>' in found
