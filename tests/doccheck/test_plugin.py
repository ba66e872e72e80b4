"""What pytest does with pages: exit codes, selection, --lf, seeds, devices, the record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import doccheck.docstrings
import doccheck.record  # noqa: F401 (what a run imports must be there before pytester, which forgets what it imported)
from tests.doccheck.workbench import make

pytest_plugins = ["pytester"]

PAGE = """\
# First

```python
x = 2
print("ran the first")
```

```text
ran the first
```

# Second

```python
print(x)
```

```text
2
```

# Third

```python
print(1)
```

```text
1
```
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    make(pytester.path, {"docs/page.md": PAGE, "docs/other.md": "```python\ny = 1\n```\n"})
    pytester.makeconftest('pytest_plugins = ["doccheck.plugin"]')
    pytester.makeini(
        "[pytest]\naddopts = --import-mode=importlib -p no:hypothesispytest -p no:xdist\ntestpaths = docs snippets\n"
    )
    return pytester.path


def edit(project: Path, old: str, new: str, name: str = "docs/page.md") -> None:
    text = (project / name).read_text()
    assert old in text
    (project / name).write_text(text.replace(old, new))


def recorded(project: Path, device: str = "cpu") -> dict[str, dict[str, str]]:
    """For each page of the record, what became of its blocks."""
    found = json.loads((project / f".verification/{device}.json").read_text())
    return {name: {b["id"]: b["outcome"] for b in page["blocks"]} for name, page in found["pages"].items()}


def test_all_pass(project: Path, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*device cpu, seed *", "docs/page.md::second#1 PASSED*"])
    ran = {"first#1": "ran", "second#1": "ran", "third#1": "ran"}
    assert recorded(project) == {"docs/other.md": {"top#1": "ran"}, "docs/page.md": ran}
    head = json.loads((project / ".verification/cpu.json").read_text())
    assert head["schema"] == 1 and head["torch"] == torch.__version__ and set(head) == {
        "schema", "torch", "python", "device", "date", "pages",
    }  # fmt: skip
    page = head["pages"]["docs/page.md"]
    assert set(page) == {"hash", "varies", "blocks"} and page["blocks"][1]["line"] == 14
    assert set(page["blocks"][0]) == {"id", "line", "hash", "outcome", "reason", "seconds"}


def test_a_failure_names_its_line_and_stops_its_page_only(project: Path, pytester: pytest.Pytester) -> None:
    edit(project, "print(x)", "print(x / 0)")
    result = pytester.runpytest("-v", "-rfs")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "docs/other.md::top#1 PASSED*",
            "docs/page.md::second#1 FAILED*",
            "docs/page.md::third#1 SKIPPED (not run: docs/page.md:15 failed first)*",
            "docs/page.md:15: ZeroDivisionError: division by zero",
            "*repeat with: --seed *",
            "FAILED docs/page.md::second#1 - docs/page.md:15: ZeroDivisionError*",
            "SKIPPED * docs/page.md:24: not run: docs/page.md:15 failed first",
        ]
    )
    for word in ("site-packages", "plugin.py", "run.py", "Traceback"):
        result.stdout.no_fnmatch_line(f"*{word}*")
    assert recorded(project)["docs/page.md"] == {"first#1": "ran", "second#1": "failed", "third#1": "not-run"}


@pytest.mark.parametrize("chosen", [["docs/page.md::second#1"], ["-k", "second"]])
def test_a_selected_block_runs_those_above_first(project: Path, pytester: pytest.Pytester, chosen: list[str]) -> None:
    edit(project, "print(1)", "1 / 0")  # below what is selected
    result = pytester.runpytest(*chosen)
    result.assert_outcomes(passed=1)
    assert not (project / ".verification").exists(), "a partial run leaves the record alone"


def test_a_failure_above_what_is_selected_is_told(project: Path, pytester: pytest.Pytester) -> None:
    edit(project, "x = 2", "x = 2 / 0")
    result = pytester.runpytest("docs/page.md::second#1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["docs/page.md:4: ZeroDivisionError: division by zero"])


def test_last_failed_survives_edits_above(project: Path, pytester: pytest.Pytester) -> None:
    edit(project, "print(x)", "print(x + 1)")
    assert pytester.runpytest().ret == 1
    edit(project, "# First\n", "# Zero\n\nNew.\n\n```python\nw = 1\n```\n\n# First\n")
    edit(project, "print(x + 1)", "print(x)")
    result = pytester.runpytest("--lf", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["docs/page.md::second#1 PASSED*"])


def test_a_partial_run_replaces_only_the_pages_that_ran_whole(project: Path, pytester: pytest.Pytester) -> None:
    assert pytester.runpytest().ret == 0
    before = json.loads((project / ".verification/cpu.json").read_text())
    edit(project, "y = 1", "y = 22", "docs/other.md")
    edit(project, "# Third", "# Fourth")
    assert pytester.runpytest("docs/other.md", "docs/page.md::first#1").ret == 0
    after = json.loads((project / ".verification/cpu.json").read_text())
    assert after["pages"]["docs/page.md"] == before["pages"]["docs/page.md"]
    assert after["pages"]["docs/other.md"] != before["pages"]["docs/other.md"]
    (project / "docs/other.md").unlink()
    assert pytester.runpytest("docs/page.md").ret == 0
    assert set(recorded(project)) == {"docs/page.md"}, "a page that is gone leaves the record"


def test_the_last_block_runs_all_of_its_page_so_it_is_recorded(project: Path, pytester: pytest.Pytester) -> None:
    pytester.runpytest("docs/page.md::third#1").assert_outcomes(passed=1)
    assert recorded(project) == {"docs/page.md": {"first#1": "ran", "second#1": "ran", "third#1": "ran"}}


def test_a_seed_repeats_a_run(project: Path, pytester: pytest.Pytester) -> None:
    (project / "docs/page.md").write_text("```python\nimport torch\n\nprint(torch.rand(3))\n```\n")
    outputs = []
    for arguments in (["--seed", "5"], ["--seed", "5"], ["--seed", "6"], []):
        result = pytester.runpytest("docs/page.md", *arguments)
        assert result.ret == 1
        outputs.append([line for line in result.outlines if line.startswith("  + tensor")])
    assert outputs[0] == outputs[1] and len(outputs[0]) == 1
    assert outputs[0] != outputs[2] and outputs[3] not in outputs[:3]
    (line,) = [line for line in result.outlines if "repeat with" in line]
    again = pytester.runpytest("docs/page.md", "--seed", line.split()[-1])
    assert [line for line in again.outlines if line.startswith("  + tensor")] == outputs[3]


def test_needs_are_skips_with_their_reason(project: Path, pytester: pytest.Pytester) -> None:
    (project / "docs/page.md").write_text('``` { .python data-needs="cuda: a CUDA kernel" }\n1 / 0\n```\n')
    result = pytester.runpytest("docs/page.md", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs cuda: a CUDA kernel"])
    (block,) = json.loads((project / ".verification/cpu.json").read_text())["pages"]["docs/page.md"]["blocks"]
    assert block["outcome"] == "needs" and block["reason"] == "needs cuda: a CUDA kernel"


def test_without_cuda_the_cuda_run_ends_at_once(
    project: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = pytester.runpytest("--device", "cuda")
    assert result.ret == 3
    result.stdout.fnmatch_lines(["*sees no CUDA device; run this on a machine with an NVIDIA GPU*"])
    result.stdout.no_fnmatch_line("*passed*")


def test_with_a_device_that_says_it_is_cuda(
    project: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a CPU can prove of the CUDA path: its blocks run, its record has the name of the card."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "NVIDIA Fake 100")
    asked = []
    monkeypatch.setattr(torch, "set_default_device", asked.append)
    (project / "docs/page.md").write_text(
        "```python\nprint(\"tensor([1.], device='cuda:0')\")\n```\n\n```text\ntensor([1.])\n```\n\n"
        '``` { .python data-needs="cuda: a CUDA kernel" }\nprint(2)\n```\n\n```text\n2\n```\n'
    )
    result = pytester.runpytest("docs/page.md", "--device", "cuda")
    result.assert_outcomes(passed=3)
    assert asked == ["cuda", None]
    assert json.loads((project / ".verification/cuda.json").read_text())["device"] == "NVIDIA Fake 100"
    assert recorded(project, "cuda") == {"docs/page.md": {"top#1": "ran", "top#2": "ran"}}
    assert not (project / ".verification/cpu.json").exists()


def test_outputs_that_vary_are_counted_and_listed(project: Path, pytester: pytest.Pytester) -> None:
    (project / "docs/page.md").write_text(
        '```python\nimport time\n\nprint(time.time())\n```\n\n``` { .text data-varies="a clock" }\n1.5\n```\n'
    )
    result = pytester.runpytest("docs/page.md")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*1 outputs vary from run to run*", "docs/page.md:1: a clock"])


def test_docstring_examples_fail_at_their_line(project: Path, pytester: pytest.Pytester) -> None:
    code = 'def half(x):\n    """Half.\n\n    >>> half(4)\n    3.0\n    """\n    return x / 2\n'
    (project / "snippets/half.py").write_text(code)
    result = pytester.runpytest("snippets")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["FAILED snippets/half.py::half - snippets/half.py:4: the example of half *"])


def test_bytes_that_are_no_text_stop_nothing(project: Path, pytester: pytest.Pytester) -> None:
    (project / "docs/bad.md").write_bytes(b"# Title\n\nCaf\xe9\n")
    (project / "snippets/bad.py").write_bytes(b"x = 1\n# caf\xe9\n")
    result = pytester.runpytest()
    result.assert_outcomes(passed=7, failed=2)
    result.stdout.fnmatch_lines(
        ["FAILED docs/bad.md::page - docs/bad.md:3:*", "FAILED snippets/bad.py::syntax - snippets/bad.py:2:*"]
    )
