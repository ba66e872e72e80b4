"""Places: which page a Markdown extension is working on, so that a mistake is named with its file and line."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from markdown import Markdown

from doccheck.project import Project

try:
    from mkdocs.exceptions import PluginError as BuildStopped
except ModuleNotFoundError:  # the extensions also work in plain Python-Markdown

    class BuildStopped(Exception):  # type: ignore[no-redef]
        """Stops the build."""


__all__ = ["BuildStopped", "page_file", "page_name", "project_at", "project_of", "where"]


def _mkdocs(md: Markdown, name: str) -> Any:
    # MkDocs registers its rewriter of links for each page, and that knows the page and the configuration.
    return getattr(md.treeprocessors["relpath"], name, None) if "relpath" in md.treeprocessors else None


def page_file(md: Markdown) -> Path | None:
    """The file of the page; None outside MkDocs and for a page that is made while building."""
    source = getattr(_mkdocs(md, "file"), "abs_src_path", None)
    return Path(source) if source else None


def project_of(md: Markdown) -> Project | None:
    """The project that is being built; None outside MkDocs."""
    config = _mkdocs(md, "config")
    return project_at(Path(config.config_file_path), Path(config.docs_dir)) if config else None


def project_at(config: Path, docs: Path) -> Project:
    """The project of an mkdocs.yml and a folder of pages; read once, and again when the file changed."""
    return _project(config.resolve().parent, docs.resolve(), config.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _project(root: Path, docs: Path, changed: int) -> Project:
    project = Project.load(root)
    project.docs = docs
    return project


def page_name(md: Markdown) -> str:
    """`docs/PAGE.md` as a contributor would type it; empty where it is not known."""
    path = page_file(md)
    if path is not None:
        return Path(os.path.relpath(path)).as_posix()
    return str(getattr(_mkdocs(md, "file"), "src_uri", ""))


def where(md: Markdown, line: int | None) -> str:
    """`docs/PAGE.md:LINE`, as far as it is known."""
    name = page_name(md) or "an unnamed page"
    return f"{name}:{line}" if line else name
