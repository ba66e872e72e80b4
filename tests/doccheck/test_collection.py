"""Every page that MkDocs would publish is collected, and what is special about how files are read and run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import doccheck.limits
import doccheck.run
from doccheck.page import load
from doccheck.project import Project
from doccheck.run import page_seed, run
from tests.doccheck.workbench import items, make, page, report
from tests.doccheck.workbench import run as run_page

ODD_NAMES = [
    "index.md",
    "README.md",
    "a/index.md",
    "a/deep/er/page.md",
    "UPPER.MD",
    "page.markdown",
    "page.mdown",
    "page.mkdn",
    "page.mkd",
    "with blank.md",
    "ünï.md",
    "two.dots.md",
    "_under.md",
    "test_page.md",
    "node_modules/page.md",
    "build/page.md",
    "site/page.md",
    ".hidden.md",
    ".hidden/page.md",
    "notes.txt",
    "page.html",
]


def test_every_page_that_mkdocs_publishes_is_known(tmp_path: Path) -> None:
    config = pytest.importorskip("mkdocs.config")
    files = pytest.importorskip("mkdocs.structure.files")
    project = make(tmp_path, {f"docs/{name}": "# Title\n" for name in ODD_NAMES})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/linked.md").write_text("# Linked\n")
    (tmp_path / "docs/link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    settings = config.load_config(str(tmp_path / "mkdocs.yml"), markdown_extensions=[], plugins=[], theme="mkdocs")
    published = {file.src_uri for file in files.get_files(settings).documentation_pages()}
    known = {path.relative_to(project.docs).as_posix() for path in project.pages()}
    assert "link/linked.md" in published
    assert published <= known
    assert not {name for name in known if name.startswith(".")}


def test_the_pages_of_this_site_are_known() -> None:
    config = pytest.importorskip("mkdocs.config")
    files = pytest.importorskip("mkdocs.structure.files")
    root = Path(__file__).parents[2]
    settings = config.load_config(
        str(root / "mkdocs.yml"), markdown_extensions=[], plugins=[], theme="mkdocs", hooks=[]
    )
    published = {file.src_uri for file in files.get_files(settings).documentation_pages()}
    project = Project.load(root)
    assert published == {path.relative_to(project.docs).as_posix() for path in project.pages()}


def test_ids_stay_when_lines_and_headings_are_added_above(tmp_path: Path) -> None:
    text = '# First\n\n```python\nx = 1\n```\n\n# Second\n\n```python\ny = 1\n```\n\n`1`{ data-value="y" }\n'
    above = f"Text.\n\n# Zero\n\n```python\nz = 1\n```\n\n{text}"

    def ids(text: str) -> list[str]:
        project = page(tmp_path, text)
        return [step.id for step in load(project, project.docs / "page.md").steps]

    assert ids(text) == ["first#1", "second#1", "second#value1"]
    assert ids(above) == ["zero#1", *ids(text)]


def test_a_block_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doccheck.limits, "BLOCK_SECONDS", 0.05)
    said = run_page(
        tmp_path, "```python\nwhile True:\n    try:\n        x = 1\n    except Exception:\n        x = 2\n```\n"
    )
    assert "the block ran for more than 0.05 s" in said and "FAILED docs/page.md::top#1\n    docs/page.md:" in said


def test_a_number_by_luck_of_the_seed_is_red_under_some_seed(tmp_path: Path) -> None:
    text = "```python\nimport torch\n\nprint(torch.rand(1).item() < 0.5)\n```\n\n```text\nTrue\n```\n"
    project = page(tmp_path, text)
    found = load(project, project.docs / "page.md")
    failed = [seed for seed in range(12) if run(project, found, "cpu", seed).first_failure]
    assert 0 < len(failed) < 12
    assert [seed for seed in range(12) if run(project, found, "cpu", seed).first_failure] == failed


def test_each_page_draws_its_own_seed() -> None:
    assert page_seed(1, "docs/a.md") == page_seed(1, "docs/a.md")
    assert len({page_seed(seed, name) for seed in (1, 2) for name in ("docs/a.md", "docs/b.md")}) == 4


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    project = make(tmp_path, {"docs/page.md": b"\xef\xbb\xbf---\r\ntitle: x\r\n---\r\n```python\r\n1 / 0\r\n```\r\n"})
    assert "docs/page.md:5: ZeroDivisionError" in report(project, [project.docs / "page.md"])


def test_a_null_byte_in_a_snippet_is_named(tmp_path: Path) -> None:
    project = make(tmp_path, {"snippets/page.py": b"x = 1\ny = '\0'\n"})
    assert "snippets/page.py:2: SyntaxError: source code" in report(project, [tmp_path / "snippets/page.py"])


def test_an_interrupt_by_the_person_stops_the_run(tmp_path: Path) -> None:
    text = "```python\nimport os\nimport signal\n\nos.kill(os.getpid(), signal.SIGINT)\n```\n"
    project = page(tmp_path, text)
    with pytest.raises(KeyboardInterrupt):
        list(items(project, project.docs / "page.md"))


BAD = """\
```python
import torch


class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("bad")


x = torch.ones(1, requires_grad=True)
Bad.apply(x).backward()
```
"""


def test_no_machinery_in_any_report(tmp_path: Path) -> None:
    said = run_page(tmp_path, BAD)
    assert said.split("\n")[2:5] == [
        "    docs/page.md:12: in backward: ValueError: bad",
        '      > raise ValueError("bad")',
        "      called from docs/page.md:16: Bad.apply(x).backward()",
    ]
    for word in ("site-packages", "_engine_run_backward", "pytest", "doccheck/", "sybil", str(tmp_path)):
        assert word not in said


def test_a_block_that_catches_everything_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doccheck.limits, "BLOCK_SECONDS", 0.05)
    monkeypatch.setattr(doccheck.limits, "AGAIN_SECONDS", 0.05)
    wait = "    try:\n        while True:\n            pass\n    except BaseException:\n        pass\n"
    assert "the block ran for more than 0.05 s" in run_page(tmp_path, f"```python\nfor _ in range(3):\n{wait}```\n")


def test_a_thread_that_goes_on_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doccheck.run, "THREAD_SECONDS", 0.05)
    start = "import threading\n\nstop = threading.Event()\nthreading.Thread(target=stop.wait, args=(1,)).start()\n"
    assert "a thread of this page still runs at its end" in run_page(tmp_path, f"```python\n{start}```\n")
    assert "FAILED" not in run_page(tmp_path, f"```python\n{start}stop.set()\n```\n")
    pool = (
        "from concurrent.futures import ThreadPoolExecutor\n\npool = ThreadPoolExecutor(1)\npool.submit(int).result()\n"
    )
    assert "FAILED" not in run_page(tmp_path, f"```python\n{pool}```\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_ends_with_its_block(tmp_path: Path) -> None:
    fork = "import os\n\nif child := os.fork():\n    os.waitpid(child, 0)\n"
    (tmp_path / "ran").write_text("")
    note = f'with open({str(tmp_path / "ran")!r}, "a") as file:\n    file.write("x")\n'
    text = f"```python\n{fork}```\n\n```python\n{note}```\n"
    assert "FAILED" not in run_page(tmp_path, text)
    assert (tmp_path / "ran").read_text() == "x"
