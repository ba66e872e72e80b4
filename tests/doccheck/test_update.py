"""Update: bytes around what is mended stay as they are, and an interrupt leaves no half-written file.

What is rewritten, and where update refuses, is in the golden files `update-….txt`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from doccheck import record
from doccheck.__main__ import main
from doccheck.project import Project
from doccheck.update import update
from tests.doccheck.workbench import make, report

WRONG = "# Title\n\n```python\nprint(1)\n```\n\n```text\n2\n```\n"
RIGHT = WRONG.replace("2\n", "1\n")


def mended(root: Path, before: str | bytes) -> bytes:
    """The bytes of a page after an update; a second update must find nothing to do, and the page pass."""
    project = make(root, {"docs/page.md": before})
    path = project.docs / "page.md"
    first = update(project, path, "cpu", 0)
    assert first.refused is None, str(first.refused)
    after = path.read_bytes()
    again = update(Project.load(root), path, "cpu", 0)
    assert again.changed == [] and path.read_bytes() == after
    assert "FAILED" not in report(project, [path])
    return after


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_byte_order_mark_stay(tmp_path: Path, mark: bytes, end: str) -> None:
    before = mark + WRONG.replace("\n", end).encode()
    assert mended(tmp_path, before) == mark + RIGHT.replace("\n", end).encode()


def test_a_missing_end_of_line_stays_missing(tmp_path: Path) -> None:
    assert mended(tmp_path, WRONG.rstrip()) == RIGHT.rstrip().encode()


def test_front_matter_and_trailing_blanks_stay(tmp_path: Path) -> None:
    around = "---\ntitle: x  \n---\n\nText  \n\n", "\n\n\nEnd\t \n"
    assert mended(tmp_path, around[0] + WRONG + around[1]) == (around[0] + RIGHT + around[1]).encode()


def test_several_blocks_and_values_at_once(tmp_path: Path) -> None:
    value = '\nIt is `9`{ data-value="1 + 1" } or `3`{ data-value="1 + 2" } or `9`{ data-value="2 * 2" }.\n'
    before = WRONG + value + WRONG.replace("Title", "Other") + value
    right = value.replace("`9`", "`2`", 1).replace("`9`", "`4`")
    assert mended(tmp_path, before) == (RIGHT + right + RIGHT.replace("Title", "Other") + right).encode()


def test_a_transcript_is_added_and_another_removed(tmp_path: Path) -> None:
    before = "> ```python\n> print(1)\n> ```\n>\n> Text.\n\n```python\nx = 1\n```\n\n```text\n1\n```\n\nText.\n"
    after = "> ```python\n> print(1)\n> ```\n>\n> ```text\n> 1\n> ```\n>\n> Text.\n\n```python\nx = 1\n```\n\nText.\n"
    assert mended(tmp_path, before) == after.encode()


def test_what_looks_like_a_fence_is_fenced_longer(tmp_path: Path) -> None:
    after = mended(tmp_path, '```python\nprint("```")\n```\n')
    assert after == b'```python\nprint("```")\n```\n\n````text\n```\n````\n'


def test_the_first_error_is_added_by_name_only(tmp_path: Path) -> None:
    """`ValueError` alone under a block says that it is meant; update writes what it says."""
    after = mended(tmp_path, '```python\nraise ValueError("one\\ntwo")\n```\n\n```text\nValueError\n```\n')
    assert after.endswith(b"```text\nValueError: one\n```\n")


@pytest.mark.parametrize("moment", ["replace", "chmod"])
def test_an_interrupt_leaves_the_page_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    project = make(tmp_path, {"docs/page.md": WRONG})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        update(project, project.docs / "page.md", "cpu", 0)
    assert (project.docs / "page.md").read_text() == WRONG
    assert [path.name for path in project.docs.iterdir()] == ["page.md"]


def test_an_interrupt_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "page.md"
    target.write_text(WRONG)
    monkeypatch.setattr(record.os, "fdopen", lambda *_, **__: _Torn())
    with pytest.raises(KeyboardInterrupt):
        record.write(target, RIGHT)
    assert target.read_text() == WRONG and list(tmp_path.iterdir()) == [target]


class _Torn:
    def __enter__(self) -> _Torn:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, text: str) -> None:
        raise KeyboardInterrupt


def test_permissions_stay(tmp_path: Path) -> None:
    project = make(tmp_path, {"docs/page.md": WRONG})
    path = project.docs / "page.md"
    path.chmod(0o664)
    update(project, path, "cpu", 0)
    assert path.stat().st_mode & 0o777 == 0o664 and path.read_text() == RIGHT


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    project = make(tmp_path, {"docs/page.md": "# Title\n", "real.md": WRONG})
    (project.docs / "page.md").unlink()
    (project.docs / "page.md").symlink_to(tmp_path / "real.md")
    update(project, project.docs / "page.md", "cpu", 0)
    assert (project.docs / "page.md").is_symlink() and (tmp_path / "real.md").read_text() == RIGHT


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    broken = "```python\n1 / 0\n```\n"
    make(tmp_path, {"docs/a.md": broken, "docs/b.md": WRONG, "docs/c.md": "# C\n"})
    monkeypatch.chdir(tmp_path)
    assert main(["update"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("docs/a.md: not touched\ndocs/a.md:2: ZeroDivisionError: division by zero\n")
    assert said.endswith("docs/b.md:8: rewritten\ndocs/c.md: nothing to change\n")
    assert (tmp_path / "docs/a.md").read_text() == broken and (tmp_path / "docs/b.md").read_text() == RIGHT
    assert main(["update", "docs/b.md"]) == 0
    assert main(["update", "docs/missing.md"]) == 2
    assert "docs/missing.md is not a page under docs/" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path / "docs")
    assert main(["update"]) == 2
    assert "no mkdocs.yml here" in capsys.readouterr().err


def test_an_interrupt_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make(
        tmp_path, {"docs/page.md": "```python\nimport os, signal\n\nos.kill(os.getpid(), signal.SIGINT)\n```\n"}
    )
    monkeypatch.chdir(project.root)
    assert main(["update", "docs/page.md"]) == 130
    assert capsys.readouterr().err == "docs/page.md: not touched, interrupted\n"


@pytest.mark.parametrize("ends", [("\n", "\r\n"), ("\r\n", "\n"), ("\r", "\n")])
def test_mixed_line_ends_stay(tmp_path: Path, ends: tuple[str, str]) -> None:
    def mixed(text: str) -> bytes:
        return (text.replace("\n", ends[0]) + text.replace("\n", ends[1])).encode()

    assert mended(tmp_path, mixed(WRONG)) == mixed(RIGHT)
