"""CONTRIBUTING.md and README.md keep the project's rule: what they show has run."""

import re
from pathlib import Path

import pytest

from doccheck import checks, console
from doccheck.project import Project
from doccheck.run import run

ROOT = Path(__file__).parents[1]
EXAMPLES = re.findall(
    r"^### ([^\n]+)\n(?:(?!^#).)*?^````md\n(.*?)^````$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M | re.S
)


def fences(name: str) -> list[str]:
    return re.findall(r"^```\w+\n(.*?)^```$", (ROOT / name).read_text("utf-8"), re.M | re.S)


def test_every_heading_of_the_vocabulary_has_a_live_example() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## The vocabulary")[2].partition("\n## ")[0]
    assert re.findall(r"^### (.+)$", text, re.M) == [heading for heading, _ in EXAMPLES]


@pytest.mark.parametrize(("heading", "text"), EXAMPLES, ids=[heading for heading, _ in EXAMPLES])
def test_the_examples_of_the_vocabulary_pass(heading: str, text: str, tmp_path: Path) -> None:
    for name in ("snippets", "noxfile.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs").mkdir()
    site, _, rest = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")
    (tmp_path / "mkdocs.yml").write_text(site + rest[rest.index("\ntheme:") :], "utf-8")
    page = tmp_path / "docs" / "example.md"
    page.write_text(text, "utf-8")
    project = Project.load(tmp_path)
    found = checks.load(project, page)
    assert not checks.page_problems(project, found)
    assert found.steps
    done = run(project, found, "cpu", 1)
    assert {result.outcome for result in done.results.values()} <= {"ran", "raised", "needs"}, done.first_failure


def test_the_readme_starts_with_the_two_commands_that_ci_runs() -> None:
    serve, test = (block.strip() for block in fences("README.md")[:2])
    assert serve == "python3 -m venv .venv && .venv/bin/pip install nox && .venv/bin/nox -s serve"
    assert test == ".venv/bin/nox -s test-cpu"
    assert f"\n{test}\n" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run", ".github/workflows/site.yml"])
def test_every_nox_session_that_is_named_exists(name: str) -> None:
    named = set(re.findall(r"nox (?:--no-venv )?-s ([a-z-]+)", (ROOT / name).read_text("utf-8")))
    assert named
    assert named <= set(console.nox_sessions(Project.load(ROOT)))


def test_actions_are_pinned_by_commit() -> None:
    used = re.findall(r"uses: (\S+)", (ROOT / ".github/workflows/site.yml").read_text("utf-8"))
    assert used
    assert all(re.search(r"@[0-9a-f]{40}$", action) for action in used)


@pytest.mark.parametrize(
    "path",
    [path for folder in ("chapters", "labs") for path in sorted((ROOT / "snippets" / folder).glob("[!_]*.py"))],
    ids=lambda path: path.name,
)
def test_a_snippet_file_can_be_copied_alone(path: Path) -> None:
    text = path.read_text("utf-8")
    ours = re.findall(r"^\s*(?:from|import) (snippets|doccheck|publish|bench)\b", text, re.M)
    assert not ours
    assert not re.search(r"^\s*from \.", text, re.M)
    assert "SPDX-License-Identifier: 0BSD" in text
