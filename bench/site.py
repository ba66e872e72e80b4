"""Site: how long a build takes, and how many bytes a reader loads."""

from __future__ import annotations

import gzip
import re
import shutil
import tempfile
from pathlib import Path

from bench import clock

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
        weigh(copy / "site")


def weigh(site: Path) -> None:
    """Gzipped bytes of each page with all that it names; what a second page adds is its HTML alone."""
    rows = []
    for html in sorted(site.rglob("index.html")):
        text = html.read_text("utf-8")
        named = set(re.findall(r'(?:href|src)="([^"#?:]+\.(?:css|js|woff2|svg))"', text))
        files = {(html.parent / name).resolve() for name in named}
        rest = sum(size(path) for path in files if path.is_file())
        own = size(html)
        name = html.parent.relative_to(site).as_posix()
        rows.append([name, f"{own / 1024:.0f}", f"{(own + rest) / 1024:.0f}"])
    head = ["page", "HTML, KB gzipped", "with CSS, scripts, preloaded fonts"]
    clock.table("Weight (files that the HTML names; fonts that CSS asks for later are not in it)", head, rows)


def size(path: Path) -> int:
    data = path.read_bytes()
    return len(data) if path.suffix == ".woff2" else len(gzip.compress(data, 6))
