"""Stamps say what the records say of the page as it is, and no more."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from doccheck import checks, record
from doccheck.page import Page
from doccheck.project import Project
from publish.ledger import table
from publish.stamps import sentences, stamp

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "docs").mkdir()
    (tmp_path / "snippets").mkdir()
    (tmp_path / ".verification").mkdir()
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text("utf-8"), "utf-8")
    (tmp_path / "docs" / "a.md").write_text("# A\n\n```python\nx = 1\n```\n\n```python\ny = 1\n```\n", "utf-8")
    return Project.load(tmp_path)


def write(project: Project, kind: str, page: Page, outcomes: list[str], **changes: Any) -> None:
    blocks = [{"id": f"a#{n}", "outcome": outcome} for n, outcome in enumerate(outcomes)]
    head = {"schema": 1, "torch": "2.13.0+cpu", "device": "2 cores", "date": "2026-12-01"} | changes
    known = {"hash": changes.pop("hash", page.hash), "varies": 0, "blocks": blocks}
    record.path(project, kind).write_text(json.dumps({**head, "pages": {page.name: known}}), "utf-8")


def test_a_page_that_ran(project: Project) -> None:
    page = checks.load(project, project.docs / "a.md")
    write(project, "cpu", page, ["ran", "raised"])
    (said,) = sentences(project, page)
    assert said == '<b>2 blocks ran</b> on CPU · torch 2.13.0 · <time datetime="2026-12-01">2026-12-01</time>'
    assert 'class="tomb"' in stamp(project, page)


def test_cuda_is_a_second_sentence_with_the_card(project: Project) -> None:
    page = checks.load(project, project.docs / "a.md")
    write(project, "cpu", page, ["ran", "needs"])
    write(project, "cuda", page, ["ran", "ran"], device="NVIDIA <H200>", torch="2.11.0")
    cpu, cuda = sentences(project, page)
    assert "1 block ran" in cpu
    assert "1 skipped, with a reason" in cpu
    assert "2 blocks ran</b> on NVIDIA &lt;H200&gt; · torch 2.11.0" in cuda


def test_a_page_that_changed_since(project: Project) -> None:
    page = checks.load(project, project.docs / "a.md")
    write(project, "cpu", page, ["ran", "ran"], hash="another")
    assert sentences(project, page) == ["This page changed since it last ran"]
    assert 'class="tomb hollow"' in stamp(project, page)


def test_a_page_that_never_ran_and_one_that_failed(project: Project) -> None:
    page = checks.load(project, project.docs / "a.md")
    assert sentences(project, page) == ["This page has not run yet on this machine"]
    write(project, "cpu", page, ["ran", "failed"])
    assert "1 did not pass" in sentences(project, page)[0]
    assert 'class="tomb hollow"' in stamp(project, page)


def ledger_of(project: Project) -> dict[str, list[str]]:
    found = re.findall(r'<tr><th scope="row">(.*?)</th>((?:<td>.*?</td>)+)</tr>', table(project))
    return {label: re.findall(r"<td>(?:<time[^>]*>)?(.*?)(?:</time>)?</td>", cells) for label, cells in found}


def test_the_ledger_counts_the_pages_that_still_hold(project: Project) -> None:
    (project.docs / "b.md").write_text("# B\n\n```python\nz = 1\n```\n", "utf-8")
    (project.docs / "text.md").write_text("# No blocks\n", "utf-8")
    page = checks.load(project, project.docs / "a.md")
    write(project, "cpu", page, ["ran", "raised"])
    assert ledger_of(project) == {
        "blocks ran as shown": ["2", "–"],
        "of them, errors raised as shown": ["1", "–"],
        "skipped, with a reason": ["0", "–"],
        "outputs that vary": ["0", "–"],
        "pages, of 2": ["1", "–"],
        "torch": ["2.13.0", "–"],
        "machine": ["2 cores", "–"],
        "date": ["2026-12-01", "–"],
    }
    assert "CUDA not yet run" in table(project)
    assert 'class="tomb hollow"' in table(project)  # one page of two is not enough
    (project.docs / "a.md").write_text("# A\n\n```python\nx = 2\n```\n", "utf-8")
    assert ledger_of(project)["blocks ran as shown"] == ["–", "–"]


def test_the_ledger_says_what_did_not_pass(project: Project) -> None:
    page = checks.load(project, project.docs / "a.md")
    write(project, "cuda", page, ["ran", "failed"], device="NVIDIA H200")
    found = ledger_of(project)
    assert found["did not pass"] == ["–", "1"]
    assert found["machine"] == ["–", "NVIDIA H200"]


def test_a_lab_links_to_its_notebook_on_the_site(project: Project) -> None:
    (project.docs / "labs").mkdir()
    (project.docs / "labs" / "one.md").write_text("# One\n\n```python\nx = 1\n```\n", "utf-8")
    assert '<a href="../../notebooks/one/">' in stamp(project, checks.load(project, project.docs / "labs" / "one.md"))
    assert "notebooks/" not in stamp(project, checks.load(project, project.docs / "a.md"))
