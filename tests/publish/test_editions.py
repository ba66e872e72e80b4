"""Editions: the script of a page runs and prints what the page shows; the notebook holds the same."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from doccheck import checks, outputs
from doccheck.page import Page
from doccheck.project import Project
from publish import editions
from publish.cells import Code, Text, address, cells

ROOT = Path(__file__).resolve().parents[2]
PROJECT = Project.load(ROOT)
PAGES = PROJECT.pages()
SITE = "https://example.org/course/"

SAMPLE = '''\
---
description: a sample
---
# A sample {#top}

A `44`{ data-value="44" } with \\(x\\), a [page](../index.md#how) and a [place](#top){ .button }.

<!-- a note -->

!!! failure "Trap: text"

    Quoted text.

    ```python
    text = """two
        lines"""
    raise ValueError("no")
    ```

    ```text
    ValueError: no
    ```

    Last words.

After it.

## A heading { data-search-exclude }

=== "One tab"

    Inside.

``` { .python data-needs="lightning, torch>=99.0: why" }
missing = 1
```

```text title="A file"
kept
```

\\[
x^2
\\]
'''


@pytest.fixture
def sample(tmp_path: Path) -> Page:
    (tmp_path / "docs" / "chapters").mkdir(parents=True)
    (tmp_path / "snippets").mkdir()
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text("utf-8"), "utf-8")
    (tmp_path / "docs" / "chapters" / "sample.md").write_text(SAMPLE, "utf-8")
    project = Project.load(tmp_path)
    return checks.load(project, tmp_path / "docs" / "chapters" / "sample.md")


def made(page: Page, what: str) -> str:
    project = Project.load(page.path.parents[2])
    return {"script": editions.script, "notebook": editions.notebook}[what](project, page, SITE)


def run(script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "edition.py"
    path.write_text(script, "utf-8")
    command = [sys.executable, str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=120, env={"PYTHONPATH": str(ROOT)}
    )


def shown_lines(page: Page) -> Iterator[str]:
    """What the script must print: every transcript but its warnings; of a varying one nothing."""
    for block in page.blocks:
        if block.transcript is None or block.varies or block.needs is not None:
            continue
        for line in outputs.normalise(block.transcript.text).split("\n"):
            if not outputs.WARNING.match(line):
                yield line


@pytest.mark.parametrize("path", PAGES, ids=[PROJECT.name(path) for path in PAGES])
def test_the_script_of_a_page_runs_alone_and_prints_what_the_page_shows(path: Path, tmp_path: Path) -> None:
    page = checks.load(PROJECT, path)
    done = run(editions.script(PROJECT, page, SITE), tmp_path)
    assert done.returncode == 0, done.stderr
    printed = iter(outputs.normalise(done.stdout).split("\n"))
    for line in shown_lines(page):
        assert any(outputs.same(line, got) for got in printed), f"not printed, or not in this order: {line}"


@pytest.mark.parametrize("path", PAGES, ids=[PROJECT.name(path) for path in PAGES])
def test_a_notebook_is_valid_and_has_every_block_with_its_output(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the site group")
    page = checks.load(PROJECT, path)
    text = editions.notebook(PROJECT, page, SITE)
    nbformat.validate(nbformat.reads(text, as_version=4))
    code = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    python = [block for block in page.blocks if block.kind == "python"]
    assert len(code) == len(python)
    for cell, block in zip(code, python, strict=True):
        if block.needs is None:
            assert "".join(cell["source"]) == block.fence.text.strip("\n")
        assert bool(cell["outputs"]) == bool(block.transcript and block.transcript.text.strip())


def test_an_expected_error_is_caught_and_printed_and_needs_are_guarded(sample: Page, tmp_path: Path) -> None:
    done = run(made(sample, "script"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ValueError: no\n"


def test_a_string_of_several_lines_keeps_its_value_inside_a_guard(sample: Page, tmp_path: Path) -> None:
    script = made(sample, "script").replace('raise ValueError("no")', "print(repr(text)); raise ValueError")
    assert run(script, tmp_path).stdout.startswith("'two\\n    lines'")


def test_text_becomes_plain_markdown(sample: Page) -> None:
    found = cells(Project.load(sample.path.parents[2]), sample, SITE)
    text = ["\n".join(cell.lines) for cell in found if isinstance(cell, Text)]
    assert text[0] == (
        "# A sample\n\nA `44` with $x$, a [page](https://example.org/course/#how) and a "
        "[place](https://example.org/course/chapters/sample/#top).\n\n> **Trap: text**\n>\n> Quoted text."
    )
    assert text[1] == "> Last words.\n\nAfter it.\n\n## A heading\n\n#### One tab\n\nInside."
    assert text[2] == "*A file*\n\n```text\nkept\n```\n\n$$\nx^2\n$$"
    assert sum(isinstance(cell, Code) for cell in found) == 2


def test_an_error_of_a_notebook_is_an_error_output(sample: Page) -> None:
    code = [cell for cell in json.loads(made(sample, "notebook"))["cells"] if cell["cell_type"] == "code"]
    assert code[0]["metadata"] == {"tags": ["raises-exception"]}
    assert code[0]["outputs"] == [
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["ValueError: no"]}
    ]
    assert code[1]["metadata"] == {"tags": ["needs"]}
    assert code[1]["source"][0].startswith("if ")


@pytest.mark.parametrize(
    "path", sorted(path for path in PAGES if path.parent.name == "labs"), ids=lambda path: path.stem
)
def test_the_notebook_of_a_lab_runs_from_a_fresh_kernel(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the site group")
    nbclient = pytest.importorskip("nbclient", reason="needs the site group")
    text = editions.notebook(PROJECT, checks.load(PROJECT, path), SITE)
    before = nbformat.reads(text, as_version=4)
    after = nbclient.NotebookClient(nbformat.reads(text, as_version=4), timeout=120, kernel_name="python3")
    after.execute(cwd=str(tmp_path))
    for old, new in zip(before.cells, after.nb.cells, strict=True):
        kinds = [output.output_type for output in new.get("outputs", []) if output.get("name") != "stderr"]
        assert kinds == [output.output_type for output in old.get("outputs", [])]


def test_figures_are_pictures_in_the_notebook_and_words_in_the_script(tmp_path: Path) -> None:
    page = checks.load(PROJECT, PROJECT.docs / "chapters" / "graph.md")
    shown = re.findall(r"^!\[(.+?)\]\((figure|player):graph/([\w-]+)\)", page.source, re.MULTILINE)
    assert {kind for _, kind, _ in shown} == {"figure", "player"}
    found = [cell for cell in json.loads(editions.notebook(PROJECT, page, SITE))["cells"] if "attachments" in cell]
    pictures = {name: picture for cell in found for name, picture in cell["attachments"].items()}
    text = "".join("".join(cell["source"]) for cell in found)
    for alt, kind, name in shown:
        assert f"![{alt}](attachment:graph-{name}.png)" in text
        assert base64.b64decode(pictures[f"graph-{name}.png"]["image/png"]).startswith(b"\x89PNG")
        if kind == "player":
            assert f"graph-{name}.png) [Step through it on the site]({SITE}chapters/graph/#player-{name})" in text
    script = editions.script(PROJECT, page, SITE)
    assert all(f"# (Figure: {alt})" in script for alt, _, _ in shown)


def test_addresses_are_those_of_the_site() -> None:
    assert address("index.md") == ""
    assert address("labs/index.md") == "labs/"
    assert address("chapters/vjp.md") == "chapters/vjp/"
    assert address("assets/x.svg") == "assets/x.svg"


def test_no_machine_word_of_the_page_reaches_the_editions() -> None:
    for path in PAGES:
        page = checks.load(PROJECT, path)
        for text in (editions.script(PROJECT, page, SITE), editions.notebook(PROJECT, page, SITE)):
            assert not re.search(r"data-(?:value|needs|varies|search)|--8<--|<!--|!!! |\]\(\.\./", text)


def test_neighbouring_admonitions_are_quotes_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "snippets").mkdir()
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text("utf-8"), "utf-8")
    (tmp_path / "docs" / "a.md").write_text('!!! note "One"\n\n    First.\n\n!!! note "Two"\n\n    Second.\n', "utf-8")
    project = Project.load(tmp_path)
    (cell,) = cells(project, checks.load(project, tmp_path / "docs" / "a.md"), SITE)
    assert isinstance(cell, Text)
    assert cell.lines == ["> **One**", ">", "> First.", "", "> **Two**", ">", "> Second."]
