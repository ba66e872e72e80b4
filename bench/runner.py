"""Runner: what checking a page costs over executing it, and how the time grows with the number of pages."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

from bench import clock
from doccheck import page as pages
from doccheck.page import Page
from doccheck.project import Project
from doccheck.run import run

ROUNDS = 7
COUNTS = (25, 50, 100)
SYNTHETIC = """# Page {n}

```python
import torch

x = torch.linspace(0, 1, 1000, requires_grad=True)
y = (x.sin() * {n}).sum()
```

{sections}
"""
SECTION = """## Step {k}

```python
(g,) = torch.autograd.grad(y, x, retain_graph=True)
print(g.shape, x.numel() + {k})
```

```text
torch.Size([1000]) {sum}
```

The sum is `{sum}`{{ data-value="x.numel() + {k}" }}.
"""


def main(root: Path) -> None:
    project = Project.load(root)
    rows = []
    for path in project.pages():
        page = pages.load(project, path)
        if len(page.blocks) < 5:
            continue
        run(project, page, "cpu", 0)
        ratios, plain = [], []
        for _ in range(ROUNDS):
            plain.append(clock.seconds(lambda page=page: execute(page)))  # type: ignore[misc]
            checked = clock.seconds(lambda page=page: run(project, page, "cpu", 0))  # type: ignore[misc]
            ratios.append(checked / plain[-1])
        rows.append([page.name, str(len(page.blocks)), clock.spread(plain), clock.spread(ratios)])
    head = ["page", "blocks", "plain, s", "runner / plain"]
    clock.table("Running a page in the runner, against executing its blocks (same process, warm)", head, rows)
    grow(root)


def execute(page: Page) -> None:
    """The same blocks, one after the other, with nothing checked."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    before = sys.stdout
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for block in page.blocks:
            if block.kind == "python" and (block.needs is None or not block.needs.missing("cpu")):
                with contextlib.suppress(Exception):
                    exec(compile(block.fence.text, "block", "exec", dont_inherit=True), namespace)
    assert sys.stdout is before


def grow(root: Path) -> None:
    """Collection and run of synthetic pages, from outside, so that start-up counts."""
    rows = []
    for count in COUNTS:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            copy = Path(folder)
            synthetic(root, copy, count)
            collect = clock.command("-m", "pytest", "--collect-only", "-q", "docs", cwd=copy)
            whole = clock.command("-m", "pytest", "-q", "docs", cwd=copy)
        rows.append([str(count), str(count * 12), f"{collect:.2f}", f"{whole:.2f}", f"{1000 * whole / count:.0f}"])
    head = ["pages", "blocks", "collection, s", "whole run, s", "ms a page"]
    clock.table("Synthetic pages (start of Python and torch included)", head, rows)


def synthetic(root: Path, target: Path, count: int) -> None:
    """A project of `count` pages with 12 blocks each."""
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(root / name, target / name)
    shutil.copytree(root / "doccheck", target / "doccheck")
    text = (root / "mkdocs.yml").read_text("utf-8")
    before, _, after = text.partition("\nnav:\n")
    (target / "mkdocs.yml").write_text(before + "\n" + after[after.index("\ntheme:") :], "utf-8")
    (target / "snippets").mkdir()
    (target / "docs").mkdir()
    for n in range(count):
        sections = "\n".join(SECTION.format(k=k, sum=1000 + k) for k in range(11))
        (target / "docs" / f"page{n:03}.md").write_text(SYNTHETIC.format(n=n, sections=sections), "utf-8")
