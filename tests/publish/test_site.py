"""The site's own configuration, on small pages: what MkDocs says, and what it writes."""

import html
import logging
import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="needs the site group")
pytest.importorskip("py_mini_racer", reason="needs the site group")

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).resolve().parents[2]

PAGE = """\
# A page

!!! failure "Trap: nothing runs"

    ```python
    print("<b>", 1 & 3)
    ```

    ```text
    <b> 1
    ```

A row $v^\\top J$ and `44`{ data-value="x" }.
"""


def publish(tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(ROOT)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(page, encoding="utf-8")
    monkeypatch.setenv("SITE_URL", "https://example.org/course/")
    config = load_config(
        str(ROOT / "mkdocs.yml"), docs_dir=str(docs), site_dir=str(tmp_path / "site"), nav=None, strict=False
    )
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


def test_whole_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = publish(tmp_path, PAGE, monkeypatch)
    code = re.findall(r'<div class="language-python highlight"[^>]*>.*?<code>(.*?)</code>', page, re.DOTALL)
    assert [html.unescape(re.sub("<[^>]+>", "", each)) for each in code] == ['print("<b>", 1 & 3)\n']
    assert page.count('<div class="run" data-outcome="printed">') == 1
    assert page.count('<span class="trap-label">') == 1
    assert page.count('<span class="katex">') == 1
    assert '<code data-value="x">44</code>' in page
    assert '<link rel="canonical" href="https://example.org/course/">' in page
    assert 'role="dialog" aria-label="Search"' in page
    assert [font.rsplit("/", 1)[1] for font in re.findall(r'rel="preload" href="([^"]+)"', page)] == [
        "inter.woff2",
        "jetbrains-mono-latin.woff2",
        "KaTeX_Main-Regular.woff2",
        "KaTeX_Math-Italic.woff2",
    ]
    assert not re.search(r'(?:src|href)="(?:https?:)?//(?!example\.org/course/)', page)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("![a](figure:vjp/jacobain)", "figure vjp/jacobain: .* did you mean jacobian?"),
        ('--8<-- "chapters/vjp.py:nothing"', ".*chapters/vjp.py has no section 'nothing'; it has 'vjp'"),
        ('--8<-- "chapters/nothing.py"', ".*could not be found; paths start at "),
    ],
)
def test_a_mistake_is_one_line_that_names_page_and_line(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also for what is found while the editions are made, before any page is read."""
    caplog.set_level(logging.ERROR)
    with pytest.raises(Abort):
        publish(tmp_path, f"{PAGE}\n{line}\n", monkeypatch)
    place = PAGE.count("\n") + 2
    assert re.search(rf"docs/index\.md:{place}: {said}", caplog.text), caplog.text
    assert "Traceback" not in caplog.text


def test_bad_formula_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    with pytest.raises(Abort):
        publish(tmp_path, f"{PAGE}\nBad: $\\nonsense$.\n", monkeypatch)
    line = PAGE.count("\n") + 2
    assert re.search(rf"docs/index\.md:{line}: formula \\nonsense: Undefined control sequence", caplog.text)
