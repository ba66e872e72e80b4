"""Project: what mkdocs.yml says that matters for running pages, read without MkDocs."""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from doccheck.places import Place, relative

PAGE_SUFFIXES = {".md", ".markdown", ".mdown", ".mkdn", ".mkd"}  # what MkDocs takes for a page
# These only change how a page looks, and a machine that runs pages need not have what they import.
LOOK_ONLY = ("publish.", "material.")


class _Loader(yaml.SafeLoader):
    """mkdocs.yml may name Python objects and environment variables; neither decides what a page runs."""


def _python_name(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    if suffix.startswith("python/name:") and not suffix.removeprefix("python/name:").startswith(LOOK_ONLY):
        module, _, name = suffix.removeprefix("python/name:").rpartition(".")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            return None
    return None


_Loader.add_multi_constructor("tag:yaml.org,2002:", _python_name)
_Loader.add_multi_constructor("!", lambda loader, suffix, node: None)


@dataclass(eq=False)  # one project, one identity: pages are cached by it
class Project:
    """A folder with an mkdocs.yml, and the pages and snippets that it names."""

    root: Path
    config: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, root: Path) -> Project:
        """Read `root/mkdocs.yml`. Raises FileNotFoundError if there is none."""
        root = root.resolve()
        config = yaml.load((root / "mkdocs.yml").read_text("utf-8"), _Loader) or {}
        return cls(root, config)

    @cached_property
    def docs(self) -> Path:
        return self.root / str(self.config.get("docs_dir", "docs"))

    @cached_property
    def extensions(self) -> dict[str, dict[str, Any]]:
        """Markdown extensions and their settings, in order, without those that only change the look."""
        found: dict[str, dict[str, Any]] = {"toc": {}, "tables": {}}
        for entry in self.config.get("markdown_extensions", []):
            name, settings = next(iter(entry.items())) if isinstance(entry, dict) else (entry, None)
            if not name.startswith(LOOK_ONLY):
                found[name] = {key: value for key, value in (settings or {}).items() if value is not None}
        return found

    @cached_property
    def snippet_settings(self) -> dict[str, Any]:
        """Settings of pymdownx.snippets, its base paths made absolute."""
        settings = dict(self.extensions.get("pymdownx.snippets", {}))
        base = settings.get("base_path", ["."])
        settings["base_path"] = [str(self.root / path) for path in ([base] if isinstance(base, str) else base)]
        return settings

    @cached_property
    def snippets(self) -> list[Path]:
        """Folders that hold what pages include."""
        return [Path(base) for base in self.snippet_settings["base_path"]]

    def is_page(self, path: Path) -> bool:
        """Whether MkDocs would publish this file as a page."""
        if path.suffix.lower() not in PAGE_SUFFIXES or not path.is_relative_to(self.docs):
            return False
        return not any(part.startswith(".") for part in path.relative_to(self.docs).parts)

    def is_snippet(self, path: Path) -> bool:
        return path.suffix == ".py" and any(path.is_relative_to(base) for base in self.snippets)

    def pages(self) -> list[Path]:
        """Every page that MkDocs would publish; like MkDocs, through links to folders."""
        files = (Path(folder, name) for folder, _, names in os.walk(self.docs, followlinks=True) for name in names)
        return sorted(path for path in files if path.is_file() and self.is_page(path))

    def snippet_files(self) -> list[Path]:
        return sorted(path for base in self.snippets for path in base.rglob("*.py") if path.is_file())

    def name(self, path: Path) -> str:
        """A path as it is written in reports, ids and records."""
        return relative(path, self.root)

    def is_made(self, path: Path) -> bool:
        """Whether the build makes this file of docs/: `extra: made:` in mkdocs.yml lists them, `*` for any name."""
        made = (self.config.get("extra") or {}).get("made", [])
        name = os.path.relpath(path, self.docs)
        return any(fnmatch(Path(name).as_posix(), pattern) for pattern in made)

    def nav_pages(self) -> set[str] | None:
        """Pages named in the nav, relative to docs; None where mkdocs.yml has no nav."""
        if not self.config.get("nav"):
            return None
        found: set[str] = set()
        todo: list[Any] = [self.config["nav"]]
        while todo:
            entry = todo.pop()
            if isinstance(entry, dict):
                todo.extend(entry.values())
            elif isinstance(entry, list):
                todo.extend(entry)
            elif isinstance(entry, str):
                found.add(entry)
        return found

    def nav_place(self) -> Place:
        for number, line in enumerate((self.root / "mkdocs.yml").read_text("utf-8").splitlines(), 1):
            if re.match(r"nav\s*:", line):
                return Place("mkdocs.yml", number)
        return Place("mkdocs.yml", 1)
