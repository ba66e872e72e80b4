"""Each file in golden/ is a small project and the report that a contributor must get for it.

After a change that is meant, `GOLDEN_UPDATE=1 pytest tests/doccheck/test_golden.py` rewrites the reports; read the
difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from doccheck.project import Project
from doccheck.update import update
from tests.doccheck.workbench import make, report, split

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))


def outcome(project: Project, titles: list[str]) -> dict[str, str]:
    """What became of the parts of a golden file that doccheck writes."""
    names = [title.partition(", ")[0] for title in titles]
    paths = [project.root / name for name in names]
    checked = [path for path in paths if project.is_page(path) or project.is_snippet(path)]
    parts = {"report": report(project, checked)}
    if "update" in titles:
        for path in filter(project.is_page, checked):
            done = update(project, path, "cpu", 0)
            said = [str(done.refused)] if done.refused else [f"{place}: rewritten" for place in done.changed]
            parts["update"] = "\n".join(said) or "nothing to change"
            parts[f"{project.name(path)} after"] = path.read_text("utf-8").removesuffix("\n")
    return parts


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_report(path: Path, tmp_path: Path) -> None:
    parts = split(path.read_text("utf-8"))
    files = {title: text + "\n" for title, text in parts.items() if "." in title and not title.endswith(" after")}
    got = outcome(make(tmp_path, files), list(parts))
    if os.environ.get("GOLDEN_UPDATE"):
        written = {title: text.removesuffix("\n") for title, text in files.items()} | got
        path.write_text("".join(f"=== {title}\n{text}\n" for title, text in written.items()), "utf-8")
        return
    for title, text in got.items():
        assert parts.get(title) == text, f"{title} of {path.name}"
        assert str(tmp_path) not in text and "0x7f" not in text


def test_a_wrong_golden_is_seen(tmp_path: Path) -> None:
    project = make(tmp_path, {"docs/page.md": "```python\nprint(1)\n```\n\n```text\n2\n```\n"})
    assert outcome(project, ["docs/page.md"])["report"].splitlines()[1].startswith("FAILED")
