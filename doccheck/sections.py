"""Sections: the named parts of a snippet file, and the ways in which their markers can be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pymdownx.snippets import SnippetPreprocessor

from doccheck.places import Place, Problem

MARKER = SnippetPreprocessor.RE_SNIPPET_SECTION  # a marker is what pymdownx takes for one


@dataclass
class Section:
    """`name` stands between the lines `start` and `end` of the file; `end` is 0 while it is open."""

    name: str
    start: int
    end: int = 0


def scan(path: Path, name: str) -> tuple[list[Section], list[Problem]]:
    """The sections of a file and what is wrong with them. `name` is the file's name in reports."""
    return _scan(path, name, path.stat().st_mtime_ns)


@lru_cache(maxsize=512)
def _scan(path: Path, name: str, changed: int) -> tuple[list[Section], list[Problem]]:
    sections: dict[str, Section] = {}
    problems: list[Problem] = []
    lines = path.read_text("utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        marker = MARKER.match(line)
        if marker is None or marker["escape"]:
            continue
        section, place = marker["name"], Place(name, number)
        known = sections.get(section)
        if marker["type"].lower() == "start":
            if known is not None:
                hint = "give the second one a name of its own; pymdownx would show only the first"
                problems.append(
                    Problem(place, f"section '{section}' starts a second time (first at line {known.start})", hint)
                )
            else:
                sections[section] = Section(section, number)
        elif known is None:
            problems.append(
                Problem(place, f"section '{section}' ends here but never started", f"add `# --8<-- [start:{section}]`")
            )
        elif known.end:
            problems.append(Problem(place, f"section '{section}' ends a second time", "remove one of the two markers"))
        else:
            known.end = number
    for found in sections.values():
        place = Place(name, found.start)
        if not found.end:
            hint = f"add `# --8<-- [end:{found.name}]`; without it the rest of the file would be shown"
            problems.append(Problem(place, f"section '{found.name}' has no end", hint))
        elif not "".join(line for line in lines[found.start : found.end - 1] if not MARKER.match(line)).strip():
            problems.append(
                Problem(place, f"section '{found.name}' is empty", "put code between its markers, or remove them")
            )
    return list(sections.values()), sorted(problems, key=lambda problem: problem.place)
