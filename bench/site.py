"""Site: how long a build takes, what a reader loads, and what Lighthouse says."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench import clock, lighthouse, visits

ROUNDS = 3


def main(root: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-site-") as folder:
        copy = Path(folder) / "project"
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", ".nox", ".venv", "site", ".cache", "*cache*"))
        cold = clock.command("-m", "mkdocs", "build", "--strict", cwd=copy)
        warm = [clock.command("-m", "mkdocs", "build", "--strict", cwd=copy) for _ in range(ROUNDS)]
        page = next((copy / "docs" / "chapters").glob("*.md"))
        page.write_text(page.read_text("utf-8") + "\nOne more sentence.\n", "utf-8")
        edited = clock.command("-m", "mkdocs", "build", "--strict", cwd=copy)
        rows = [["cold", f"{cold:.2f}"], ["warm", clock.spread(warm)], ["after one edit", f"{edited:.2f}"]]
        clock.table("Building the site (strict, start of Python included)", ["build", "s"], rows)
        visits.main(copy / "site")
        lighthouse.main(copy / "site", root / ".cache")
