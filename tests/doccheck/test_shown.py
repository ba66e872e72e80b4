"""Shown = run: what the built site shows against the record, or against what would run."""

from __future__ import annotations

from pathlib import Path

import pytest

from doccheck import record
from doccheck.__main__ import main
from doccheck.page import load
from doccheck.project import Project
from doccheck.run import run
from doccheck.shown import blocks, compare
from tests.doccheck.workbench import make

PAGE = "# Title\n\n```python\nx = 1\nprint(x < 2)\n```\n\n```text\nTrue\n```\n\n```python\ny = 2\n```\n"


def block(code: str, classes: str = "language-python highlight") -> str:
    return f'<div class="{classes}"><pre><span></span><code>{code}</code></pre></div>'


SHOWN = block('<span class="n">x</span> <span class="o">=</span> 1\nprint(x &lt; 2)\n') + block("y = 2\n")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project of one page that has run, and its site."""
    found = make(tmp_path, {"docs/page.md": PAGE, "site/page/index.html": SHOWN, "site/404.html": block("404")})
    remember(found)
    monkeypatch.chdir(tmp_path)
    return found


def remember(project: Project) -> None:
    pages = [load(project, path) for path in project.pages()]
    record.update(project, "cpu", [run(project, page, "cpu", 0) for page in pages])


def site(project: Project, html: str) -> None:
    (project.root / "site/page/index.html").write_text(html)


def problems(project: Project, proven: bool = True) -> list[str]:
    return list(map(str, compare(project, project.root / "site", "cpu", proven).problems))


def test_the_same_on_both_sides(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert problems(project) == []
    assert main(["shown", "site", "--proven"]) == 0
    assert capsys.readouterr().out == "shown = run: 2 Python blocks on 1 pages\n"


def test_a_block_that_the_site_lacks(project: Project) -> None:
    site(project, block("y = 2\n"))
    assert problems(project) == [
        "docs/page.md:3: this block ran and the site does not show it: x = 1\n  mend: build the site again"
    ]


def test_a_block_that_only_the_site_has(project: Project) -> None:
    site(project, SHOWN + block("1 / 0\n"))
    (found,) = problems(project)
    assert "the site shows a block that did not run: 1 / 0" in found


def test_a_block_shown_twice_and_run_once(project: Project) -> None:
    site(project, SHOWN + block("y = 2\n"))
    (found,) = problems(project)
    assert found.startswith("docs/page.md:13: the site shows a block that did not run: y = 2")


def test_another_digit_on_the_site(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    site(project, SHOWN.replace("y = 2", "y = 3"))
    assert len(problems(project)) == 2
    assert main(["shown", "site"]) == 1
    assert "docs/page.md:12: this block ran and the site does not show it: y = 2" in capsys.readouterr().out


def test_what_no_reader_sees_or_no_python_is(project: Project) -> None:
    hidden = f"<!-- {block('1 / 0')} -->" + block("text", "language-text highlight") + "<code>inline</code>"
    site(project, SHOWN.replace("y = 2\n", "\n\ny = 2  \n\n") + hidden)
    assert problems(project) == []


@pytest.mark.parametrize("language", ["py", "python3", "pycon", "ipython", "python"])
def test_other_names_of_python_count(language: str) -> None:
    assert blocks(block("x = 1", f"language-{language} highlight")) == ["x = 1"]


def test_a_page_that_changed_since_it_ran(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (project.docs / "page.md").write_text(PAGE.replace("y = 2", "y = 3"))
    site(project, SHOWN.replace("y = 2", "y = 3"))
    assert problems(project, proven=False) == []
    assert problems(project) == [
        "docs/page.md:1: changed since it last ran\n  mend: run: nox -s test-cpu -- docs/page.md"
    ]
    assert main(["shown", "site"]) == 0
    assert "note: docs/page.md changed since it last ran; compared with" in capsys.readouterr().out


def test_a_fresh_clone_has_no_record(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    record.path(project, "cpu").unlink()
    assert main(["shown", "site"]) == 0
    assert "note: docs/page.md has not run yet" in capsys.readouterr().out
    assert main(["shown", "site", "--proven"]) == 1
    site(project, block("y = 2\n"))
    assert main(["shown", "site"]) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 0, "pages": {}}'])
def test_a_record_that_cannot_be_read_is_none(project: Project, text: str) -> None:
    record.path(project, "cpu").write_text(text)
    assert problems(project, proven=False) == [] and len(problems(project)) == 1


def test_a_block_that_failed_is_not_proven(project: Project) -> None:
    (project.docs / "page.md").write_text(PAGE.replace("True", "False"))
    remember(project)
    assert problems(project, proven=False) == []
    (found,) = problems(project)
    assert found.startswith("docs/page.md:3: this block has not passed: docs/page.md:9: the transcript differs")


def test_pages_without_a_source(project: Project) -> None:
    (project.root / "site/old").mkdir()
    (project.root / "site/old/index.html").write_text(block("1 / 0\n"))
    assert problems(project)[0].startswith("site/old/index.html:1: shows Python, and comes from no page that is run")


def test_a_page_that_is_not_in_the_site(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (project.root / "site/page/index.html").unlink()
    assert problems(project)[0].startswith("docs/page.md:1: site/page/index.html is not in the site")
    assert main(["shown", "nowhere"]) == 2
    assert "nowhere is not a built site" in capsys.readouterr().err


def test_another_torch_starts_the_record_anew(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.docs / "other.md").write_text("```python\nx = 1\n```\n")
    monkeypatch.setattr(record.torch, "__version__", "9.9.9")
    page = load(project, project.docs / "other.md")
    record.update(project, "cpu", [run(project, page, "cpu", 0)])
    found = record.read(project, "cpu")
    assert found is not None and found["torch"] == "9.9.9" and list(found["pages"]) == ["docs/other.md"]
